"""Instructions that import modules.

A module that was imported before is looked up at once. The first import runs the module, which is
for Python to do: a graph break.
"""

from __future__ import annotations

import importlib.util
import sys

from minitorch2.bytecode.evaluator import Evaluator, handles
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.observed import ObservedError, raise_observed
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
    try:
        evaluator.push(evaluator.stack[-1].get_attribute(evaluator, instruction.argval))
    except ObservedError:
        raise_observed(ImportError, f"cannot import name {instruction.argval!r}")
