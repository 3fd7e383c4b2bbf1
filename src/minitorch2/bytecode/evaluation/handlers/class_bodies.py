"""Instructions of the bodies of classes: names that are looked up in the namespace first."""

from __future__ import annotations

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.evaluation.handlers.names import global_value, load_deref
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable, literal
from minitorch2.bytecode.trackers.python_values.mapping import dict_of_names


def _names(evaluator: Evaluator, instruction: Instruction) -> VariableTracker:
    """Return the namespace that the body fills; a module's is left to Python."""
    if evaluator.names is None:
        unsupported("instruction", f"{instruction.opname} in the body of a module")
    return evaluator.names


def _find(evaluator: Evaluator, names: VariableTracker, name: str) -> VariableTracker | None:
    try:
        return operations.get_item(evaluator, names, ConstantVariable(name))
    except ObservedError as error:
        if issubclass(error.kind, KeyError):
            return None
        raise


def _global(evaluator: Evaluator, name: str) -> VariableTracker:
    if name == "__name__":
        return literal(evaluator.namespace.get(name))
    return global_value(evaluator, name)


@handles("LOAD_NAME")
def load_name(evaluator: Evaluator, instruction: Instruction) -> None:
    """``-> namespace[name]``, or the global or builtin of that name."""
    names, name = _names(evaluator, instruction), instruction.argval
    evaluator.push(_find(evaluator, names, name) or _global(evaluator, name))


@handles("STORE_NAME")
def store_name(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value ->``"""
    names = _names(evaluator, instruction)
    operations.set_item(evaluator, names, ConstantVariable(instruction.argval), evaluator.pop())


@handles("DELETE_NAME")
def delete_name(evaluator: Evaluator, instruction: Instruction) -> None:
    """``del name``"""
    names, name = _names(evaluator, instruction), instruction.argval
    if _find(evaluator, names, name) is None:
        raise_observed(NameError, f"name {name!r} is not defined")
    operations.delete_item(evaluator, names, ConstantVariable(name))


@handles("LOAD_LOCALS")
def load_locals(evaluator: Evaluator, instruction: Instruction) -> None:
    """``-> namespace``"""
    evaluator.push(_names(evaluator, instruction))


@handles("LOAD_CLASSDEREF")
def load_class_deref(evaluator: Evaluator, instruction: Instruction) -> None:
    """``-> namespace[name]``, or the closure variable of that name."""
    evaluator.push(_names(evaluator, instruction))
    load_from_dict_or_deref(evaluator, instruction)


@handles("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(evaluator: Evaluator, instruction: Instruction) -> None:
    """``namespace -> namespace[name]``, or the closure variable of that name."""
    found = _find(evaluator, evaluator.pop(), instruction.argval)
    if found is None:
        load_deref(evaluator, instruction)
    else:
        evaluator.push(found)


@handles("LOAD_FROM_DICT_OR_GLOBALS")
def load_from_dict_or_globals(evaluator: Evaluator, instruction: Instruction) -> None:
    """``namespace -> namespace[name]``, or the global or builtin of that name."""
    found = _find(evaluator, evaluator.pop(), instruction.argval)
    evaluator.push(found or _global(evaluator, instruction.argval))


@handles("SETUP_ANNOTATIONS")
def setup_annotations(evaluator: Evaluator, instruction: Instruction) -> None:
    """Give the namespace a dict of annotations, unless it has one."""
    names, name = _names(evaluator, instruction), "__annotations__"
    if _find(evaluator, names, name) is None:
        operations.set_item(evaluator, names, ConstantVariable(name), dict_of_names({}))
