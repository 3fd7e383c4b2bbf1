"""Instructions that import modules.

A module that was imported before is looked up at once. The first import runs the module, which is
for Python to do: a graph break.
"""

from __future__ import annotations

import importlib.util
import sys

from minitorch2.bytecode.evaluator import Evaluator, handles
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.observed import ObservedError, raise_as_observed
from minitorch2.bytecode.trackers.base import unsupported


@handles("IMPORT_NAME")
def import_name(evaluator: Evaluator, instruction: Instruction) -> None:
    """``level names -> module``"""
    level, names = evaluator.popn(2)
    from_names = names.truth(evaluator)
    depth = level.as_constant()
    assert isinstance(depth, int), "the compiler writes an integer"
    module = _imported(evaluator, instruction.argval, depth, from_names)
    evaluator.push(evaluator.capture.wrap(module, evaluator.capture.reference(module)))


def _imported(evaluator: Evaluator, name: str, level: int, from_names: bool) -> object:
    package = str(evaluator.namespace.get("__package__") or "")
    full = importlib.util.resolve_name("." * level + name, package) if level else name
    if full not in sys.modules:
        unsupported("import", f"the first import of {full!r}", "import it at the top of the file")
    return sys.modules[full if from_names or level else full.partition(".")[0]]


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
