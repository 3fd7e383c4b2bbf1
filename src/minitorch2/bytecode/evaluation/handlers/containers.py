"""Instructions that build, fill and unpack containers."""

from __future__ import annotations

from collections.abc import Sequence

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.evaluation.handlers.calls import keyword_arguments
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.modeled import ModeledVariable
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.containers import (
    DictVariable,
    ListVariable,
    SetVariable,
    SliceVariable,
    TupleVariable,
)

# Building ----------------------------------------------------------------------------------------

BUILD = {
    "BUILD_TUPLE": TupleVariable,
    "BUILD_LIST": ListVariable,
    "BUILD_SET": SetVariable,
    "BUILD_SLICE": SliceVariable,
}
"""What each instruction makes of the top ``argval`` items of the stack."""


@handles(*BUILD)
def build(evaluator: Evaluator, instruction: Instruction) -> None:
    """``items... -> container``"""
    evaluator.push(BUILD[instruction.opname](evaluator.popn(instruction.argval)))


@handles("BUILD_MAP")
def build_map(evaluator: Evaluator, instruction: Instruction) -> None:
    """``key value ... -> {key: value, ...}``"""
    flat = evaluator.popn(2 * instruction.argval)
    evaluator.push(_dict(evaluator, flat[0::2], flat[1::2]))


@handles("BUILD_CONST_KEY_MAP")
def build_const_key_map(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value ... keys -> {key: value, ...}``"""
    keys = evaluator.pop().items(evaluator)
    evaluator.push(_dict(evaluator, keys, evaluator.popn(instruction.argval)))


def _dict(
    evaluator: Evaluator, keys: Sequence[VariableTracker], values: Sequence[VariableTracker]
) -> DictVariable:
    return DictVariable(list(zip(keys, values, strict=True)))


# Filling -----------------------------------------------------------------------------------------

FILL = {
    "LIST_APPEND": "append",
    "LIST_EXTEND": "extend",
    "SET_ADD": "add",
    "SET_UPDATE": "update",
    "DICT_UPDATE": "update",
}
"""The method that each instruction calls on the container ``argval`` items down the stack."""


@handles(*FILL)
def fill(evaluator: Evaluator, instruction: Instruction) -> None:
    """``container ... item -> container ...``"""
    item = evaluator.pop()
    container = evaluator.stack[-instruction.argval]
    if instruction.opname in _UNPACKED:
        _check_unpacked(instruction.opname, item)
    container.call_method(evaluator, FILL[instruction.opname], [item], {})


_UNPACKED = {
    "LIST_EXTEND": (("__iter__", "__getitem__"), "Value after * must be an iterable, not {}"),
    "DICT_UPDATE": (("keys",), "{!r} object is not a mapping"),
}
"""The methods that ``[*x]`` and ``{**x}`` need of a value, and the error if they are missing."""


def _check_unpacked(opname: str, item: VariableTracker) -> None:
    methods, message = _UNPACKED[opname]
    known = item.is_constant() or isinstance(item, ModeledVariable)
    if known and not any(hasattr(item.python_type(), name) for name in methods):
        raise_observed(TypeError, message.format(item.python_type().__name__))


@handles("MAP_ADD")
def map_add(evaluator: Evaluator, instruction: Instruction) -> None:
    """``dict ... key value -> dict ...``"""
    key, value = evaluator.popn(2)
    container = evaluator.stack[-instruction.argval]
    container.call_method(evaluator, "__setitem__", [key, value], {})


@handles("DICT_MERGE")
def dict_merge(evaluator: Evaluator, instruction: Instruction) -> None:
    """``dict ... mapping -> dict ...`` for ``f(**a, **b)``: a repeated keyword is an error."""
    update = evaluator.pop()
    container = evaluator.stack[-instruction.argval]
    callee = evaluator.stack[-instruction.argval - 2]
    for name, value in keyword_arguments(evaluator, update).items():
        if any(key.as_constant() == name for key in container.items(evaluator)):
            text = f"{_shown(evaluator, callee)} got multiple values for keyword argument {name!r}"
            raise_observed(TypeError, text)
        key = next(k for k in update.items(evaluator) if k.as_constant() == name)
        container.call_method(evaluator, "__setitem__", [key, value], {})


def _shown(evaluator: Evaluator, callee: VariableTracker) -> str:
    """Return a callable as CPython names it in errors: ``module.function()``."""

    def ask(name: str) -> object:
        real = getattr(callee, "value", None)
        if hasattr(real, name):
            return getattr(real, name)
        return callee.get_attribute(evaluator, name).as_constant()

    name, module = ask("__qualname__"), ask("__module__")
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


@handles("LIST_TO_TUPLE")
def list_to_tuple(evaluator: Evaluator, instruction: Instruction) -> None:
    """``list -> tuple``"""
    evaluator.push(TupleVariable(evaluator.pop().items(evaluator)))


# Unpacking ---------------------------------------------------------------------------------------


@handles("UNPACK_SEQUENCE")
def unpack_sequence(evaluator: Evaluator, instruction: Instruction) -> None:
    """``sequence -> item_n ... item_1``"""
    items, count = _unpacked(evaluator), instruction.argval
    if len(items) < count:
        message = f"not enough values to unpack (expected {count}, got {len(items)})"
        raise_observed(ValueError, message)
    if len(items) > count:
        raise_observed(ValueError, f"too many values to unpack (expected {count})")
    evaluator.stack.extend(reversed(items))


def _unpacked(evaluator: Evaluator) -> list[VariableTracker]:
    sequence = evaluator.pop()
    cls = sequence.python_type()
    if not hasattr(cls, "__iter__") and not hasattr(cls, "__getitem__"):
        raise_observed(TypeError, f"cannot unpack non-iterable {cls.__name__} object")
    return operations.iterate(evaluator, sequence)


@handles("UNPACK_EX")
def unpack_ex(evaluator: Evaluator, instruction: Instruction) -> None:
    """``sequence -> after... [middle] before...``"""
    items = _unpacked(evaluator)
    before, after = instruction.argval
    if len(items) < before + after:
        message = (
            f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
        )
        raise_observed(ValueError, message)
    end = len(items) - after
    parts = [*items[:before], ListVariable(items[before:end]), *items[end:]]
    evaluator.stack.extend(reversed(parts))
