"""Every opcode of the running interpreter is known; a new version is one table file."""

import dis
import importlib
import re
import sys
from pathlib import Path
from types import CodeType

import pytest

import minitorch2.bytecode.machine.versions as versions
from minitorch2.bytecode.frames.left_to_python import LEFT_TO_PYTHON
from minitorch2.bytecode.machine.disassemble import disassemble
from minitorch2.bytecode.machine.versions import lookup_version
from minitorch2.native.cpython.errors import UnsupportedPythonError
from tests.unit.bytecode.machine.opcodes import HANDLED, NOT_IN_CODE, OPCODES

FIRST_PSEUDO_OPCODE = 256
CORPUS = ["argparse", "asyncio.tasks", "ast", "contextlib", "dataclasses", "inspect", "typing"]
SOURCES = Path(versions.__file__).parents[3]


def codes_in(code):
    """A code object and all that are nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


KNOWN = HANDLED | LEFT_TO_PYTHON.keys() | NOT_IN_CODE
EACH = [(version, opname) for version in OPCODES for opname in sorted(OPCODES[version])]


@pytest.mark.parametrize(("version", "opname"), EACH)
def test_each_opcode_of_each_version_is_known(version, opname):
    """Translated away by the version's table, handled, left to Python, or never seen."""
    table = lookup_version("cpython", *version)
    assert opname in table.decode or opname in KNOWN


def test_the_opcodes_are_those_of_the_running_interpreter():
    real = {name for name, number in dis.opmap.items() if number < FIRST_PSEUDO_OPCODE}
    written = {name for name in real if not name.startswith("INSTRUMENTED_")}
    assert written == OPCODES[sys.version_info[:2]]


@pytest.mark.parametrize("name", CORPUS)
def test_canonical_instructions_of_the_standard_library_are_known(name):
    source = Path(importlib.import_module(name).__file__).read_text(encoding="utf-8")
    code = compile(source, name, "exec")
    used = {each.opname for inner in codes_in(code) for each in disassemble(inner)}
    assert used <= HANDLED | LEFT_TO_PYTHON.keys()
    assert used.isdisjoint(NOT_IN_CODE)


def test_sets_do_not_overlap():
    assert HANDLED & LEFT_TO_PYTHON.keys() == {"CALL_INTRINSIC_1"}  # by its operand
    assert not NOT_IN_CODE & (HANDLED | LEFT_TO_PYTHON.keys())


def test_a_version_without_a_table_is_refused():
    with pytest.raises(UnsupportedPythonError, match=r"3\.99"):
        lookup_version("cpython", 3, 99)


def test_a_new_version_is_one_table_file(monkeypatch, tmp_path):
    """A file with the version in its name is all that is looked for."""
    (tmp_path / "cpython_3_99.py").write_text(
        "from minitorch2.bytecode.machine.versions.version import BytecodeVersion\n"
        "VERSION = BytecodeVersion(decode={}, encode={}, loop_exit=())\n"
    )
    monkeypatch.setattr(versions, "__path__", [*versions.__path__, str(tmp_path)])
    try:
        assert lookup_version("cpython", 3, 99).decode == {}
    finally:
        del sys.modules[f"{versions.__name__}.cpython_3_99"]


def test_only_tables_know_versions():
    """No instruction is treated by version outside of `machine/versions/`."""
    asks = re.compile(r"version_info|hexversion|python_version|MAGIC_NUMBER")
    asking = {
        path.relative_to(SOURCES).as_posix()
        for path in (SOURCES / "bytecode").rglob("*.py")
        if path.parent.name != "versions" and asks.search(path.read_text(encoding="utf-8"))
    }
    assert asking == set()
