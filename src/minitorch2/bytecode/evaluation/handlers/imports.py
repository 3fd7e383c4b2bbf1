"""Instructions that import modules.

A module that was imported before is looked up at once. The first import runs the module, which is
for Python to do: a graph break.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import NoReturn

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers.base import unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import ObservedError, raise_as_observed


@handles("IMPORT_NAME")
def import_name(evaluator: Evaluator, instruction: Instruction) -> None:
    """``level names -> module``"""
    level, names = (each.as_constant() for each in evaluator.popn(2))
    module = _imported(evaluator, instruction.argval, level, bool(names))
    for name in names or ():
        _check_submodule(module, name)
    evaluator.push(evaluator.capture.wrap(module, evaluator.capture.reference(module)))


def _imported(evaluator: Evaluator, name: str, level: int, from_names: bool) -> object:
    package = str(evaluator.namespace.get("__package__") or "")
    full = importlib.util.resolve_name("." * level + name, package) if level else name
    if full not in sys.modules:
        _refuse(full)
    return sys.modules[full if from_names or level else full.partition(".")[0]]


def _check_submodule(module: object, name: str) -> None:
    """``from package import name`` imports a module of that name, if the package has no other."""
    if not hasattr(module, "__path__") or hasattr(module, name):
        return
    full = f"{getattr(module, '__name__', '')}.{name}"
    if full not in sys.modules and importlib.util.find_spec(full) is not None:
        _refuse(full)


def _refuse(full: str) -> NoReturn:
    unsupported("import", f"the first import of {full!r}", "import it at the top of the file")


@handles("IMPORT_FROM")
def import_from(evaluator: Evaluator, instruction: Instruction) -> None:
    """``module -> module module.name``"""
    module, name = evaluator.stack[-1], instruction.argval
    try:
        evaluator.push(module.get_attribute(evaluator, name))
    except ObservedError:
        try:
            imported_name(getattr(module, "value", None), name)
        except ImportError as error:
            raise_as_observed(error)


def imported_name(module: object, name: str) -> object:
    """Return the object that ``from module import name`` gives.

    Raises:
        ImportError: CPython's.
    """
    if hasattr(module, name):
        return getattr(module, name)
    place = getattr(module, "__file__", None) or "unknown location"
    whole = getattr(module, "__name__", "<unknown module name>")
    if f"{whole}.{name}" in sys.modules:  # it is being imported itself
        return sys.modules[f"{whole}.{name}"]
    cause = f"cannot import name {name!r} from {whole!r} ({place})"
    raise ImportError(cause, name=whole, path=getattr(module, "__file__", None))
