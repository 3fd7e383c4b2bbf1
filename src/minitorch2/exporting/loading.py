"""`load`: read a file that `save` or `package` has written. It imports what the file needs only."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from minitorch2.exporting.container import read_container, refused

if TYPE_CHECKING:
    from minitorch2.exporting.loaded_package import LoadedPackage
    from minitorch2.exporting.program import ExportedProgram


def load(path: str | os.PathLike[str]) -> ExportedProgram | LoadedPackage:
    """Load an exported program, or a package of kernels.

    A program's file is data: graph, tensors, signature. A package holds machine code: load only
    packages that you would run. Loading one imports no compiler and compiles nothing.

    Raises:
        ExportError: the file is truncated, changed or of a later version, or a package is for
            another kind of machine.
        OSError: the file cannot be opened.
    """
    content = read_container(path)
    # Deferred: a package must not import what a program needs, which is the graph floor and SymPy.
    match content.manifest.get("kind"):
        case "package":
            made = import_module("minitorch2.exporting.loaded_package").package_of
        case "program":
            made = import_module("minitorch2.exporting.program_file").program_of
        case kind:
            raise refused(f"{path} holds neither a program nor a package, but {kind!r}")
    try:
        loaded: ExportedProgram | LoadedPackage = made(content, path)
    except (LookupError, TypeError, ValueError, AttributeError, SyntaxError) as error:
        raise refused(f"{path} does not hold what its manifest says: {error!r}") from error
    needed = {each.target for each in loaded.signature.inputs if each.kind != "user"}
    if missing := needed - loaded.tensors.keys():
        raise refused(f"{path} does not hold the tensors {', '.join(sorted(missing))}")
    return loaded
