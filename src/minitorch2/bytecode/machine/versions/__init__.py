"""One table per CPython minor version; `current_version()` picks the running interpreter's."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module

from minitorch2.bytecode.machine.versions.version import BytecodeVersion
from minitorch2.native.cpython.errors import UnsupportedPythonError


@cache
def current_version() -> BytecodeVersion:
    """Return the running interpreter's table; raise UnsupportedPythonError if there is none."""
    return lookup_version(sys.implementation.name, *sys.version_info[:2])


def lookup_version(implementation: str, major: int, minor: int) -> BytecodeVersion:
    """Return a version's table, found by its file's name: a new version is one new file."""
    module = f"{__name__}.{implementation}_{major}_{minor}"
    try:
        version = import_module(module).VERSION
    except ModuleNotFoundError as error:
        raise UnsupportedPythonError(
            f"no bytecode table for {implementation} {major}.{minor}",
            fix="use CPython 3.11, 3.12 or 3.13",
        ) from error
    assert isinstance(version, BytecodeVersion)
    return version
