"""Instructions of ``match`` statements on values whose type is known."""

from __future__ import annotations

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.evaluation.handlers.exceptions import class_of
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.containers import TupleVariable

TYPE_FLAGS = {"MATCH_SEQUENCE": 1 << 5, "MATCH_MAPPING": 1 << 6}
"""The flag of a class that says what its instances match (Include/object.h)."""

MATCH_SELF = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
"""Classes whose one positional pattern is the subject itself."""


@handles(*TYPE_FLAGS)
def match_kind(evaluator: Evaluator, instruction: Instruction) -> None:
    """``subject -> subject bool``"""
    flags = evaluator.stack[-1].python_type().__flags__
    evaluator.push(ConstantVariable(bool(flags & TYPE_FLAGS[instruction.opname])))


@handles("GET_LEN")
def get_len(evaluator: Evaluator, instruction: Instruction) -> None:
    """``subject -> subject len(subject)``"""
    evaluator.push(operations.length(evaluator, evaluator.stack[-1]))


@handles("MATCH_KEYS")
def match_keys(evaluator: Evaluator, instruction: Instruction) -> None:
    """``subject keys -> subject keys values``, or None for the values if a key is missing."""
    subject, keys = evaluator.stack[-2:]
    values: list[VariableTracker] = []
    for key in operations.iterate(evaluator, keys):
        if not operations.contains(evaluator, subject, key).truth(evaluator):
            evaluator.push(ConstantVariable(None))
            return
        values.append(operations.get_item(evaluator, subject, key))
    evaluator.push(TupleVariable(values))


@handles("MATCH_CLASS")
def match_class(evaluator: Evaluator, instruction: Instruction) -> None:
    """``subject class names -> attributes``, or None if the subject is not an instance."""
    subject, cls, names = evaluator.popn(3)
    kind = class_of(cls)
    if not issubclass(subject.python_type(), kind):
        evaluator.push(ConstantVariable(None))
        return
    wanted = [str(name.as_constant()) for name in operations.iterate(evaluator, names)]
    evaluator.push(_attributes(evaluator, subject, kind, instruction.argval, wanted))


def _attributes(
    evaluator: Evaluator, subject: VariableTracker, kind: type, count: int, names: list[str]
) -> VariableTracker:
    """Return the attributes that the patterns of a class look at; None if one is missing."""
    found: list[VariableTracker] = []
    positional: tuple[str, ...] = getattr(kind, "__match_args__", ())
    if kind in MATCH_SELF and count == 1:
        found, count = [subject], 0
    if count > len(positional):
        message = f"{kind.__name__}() accepts {len(positional)} positional sub-patterns"
        raise_observed(TypeError, f"{message} ({count} given)")
    try:
        for name in [*positional[:count], *names]:
            found.append(subject.get_attribute(evaluator, name))
    except ObservedError as error:
        if error.kind is not AttributeError:
            raise
        return ConstantVariable(None)
    return TupleVariable(found)
