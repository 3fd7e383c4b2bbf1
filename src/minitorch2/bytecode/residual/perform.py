"""Unsupported instructions as Python text, which residual code runs at a graph break.

Each canonical instruction has a function here. It takes the operands from the stack, writes Python
statements with the effect of the instruction, and pushes the outcome. Code that the statements call
is captured on its own: they run under ``with __capturing()``. An instruction without such a
function ends capture of the frame: the rest of it runs in Python as it is
(`minitorch2.bytecode.residual.breaks`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

from minitorch2.bytecode.evaluation.handlers.calls import take_call
from minitorch2.bytecode.evaluation.handlers.imports import imported_name
from minitorch2.bytecode.evaluation.handlers.operators import UNARY
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.null import NULL, ResidualVariable
from minitorch2.bytecode.trackers.python_values.exceptions import ExceptionVariable
from minitorch2.bytecode.trackers.rules import registers

Performer = Callable[[Evaluator, Residual, Instruction], None]

PERFORMERS: dict[str, Performer] = {}
"""The function by which residual code performs an instruction, by the instruction's name."""

performs: Final[Callable[..., Callable[[Performer], Performer]]] = registers(PERFORMERS)
"""Register how residual code performs some instructions."""


def do(residual: Residual, statement: str) -> None:
    """Emit a statement whose calls are captured on their own."""
    residual.emit(f"with {residual.capturing}():")
    residual.emit_in_block(statement)


def push_result(
    evaluator: Evaluator, residual: Residual, expression: str, base: str = "result"
) -> None:
    """Compute an expression into a new variable and push it."""
    name = residual.new_name(base)
    do(residual, f"{name} = {expression}")
    evaluator.push(ResidualVariable(name))


def pop_names(evaluator: Evaluator, residual: Residual, count: int) -> list[str]:
    """Take the `count` topmost values; their names, the deepest first."""
    return [residual.operand(value) for value in evaluator.popn(count)]


# Calls and attributes ----------------------------------------------------------------------------


@performs("CALL")
def perform_call(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``function(args, name=value)``"""
    function, args, kwargs = take_call(evaluator.stack, instruction)
    parts = residual.arguments(args, kwargs)
    push_result(evaluator, residual, f"{residual.operand(function)}({parts})")


@performs("CALL_FUNCTION_EX")
def perform_call_ex(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``function(*args, **kwargs)``"""
    keywords = evaluator.pop() if instruction.argval & 1 else None
    args, upper, lower = evaluator.pop(), evaluator.pop(), evaluator.pop()
    function = residual.operand(lower if upper is NULL else upper)
    parts = f"*{residual.operand(args)}"
    if keywords is not None:
        parts += f", **{residual.operand(keywords)}"
    push_result(evaluator, residual, f"{function}({parts})")


@performs("LOAD_ATTR", "LOAD_METHOD")
def perform_attribute(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``object.name``"""
    owner = residual.operand(evaluator.pop())
    if instruction.opname == "LOAD_METHOD":
        evaluator.push(NULL)
    push_result(evaluator, residual, f"({owner}).{instruction.argval}", instruction.argval)


# Operators and subscripts ------------------------------------------------------------------------


@performs(*UNARY)
def perform_unary(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``operator value``"""
    operand = residual.operand(evaluator.pop())
    push_result(evaluator, residual, f"{UNARY[instruction.opname]} ({operand})")


@performs("BINARY_OP")
def perform_binary(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``left operator right``; in place on a second name for the left operand."""
    left, right = pop_names(evaluator, residual, 2)
    symbol = instruction.argval
    if symbol.endswith("="):
        name = residual.new_name("result")
        residual.emit(f"{name} = {left}")
        do(residual, f"{name} {symbol} {right}")
        evaluator.push(ResidualVariable(name))
    else:
        push_result(evaluator, residual, f"({left}) {symbol} ({right})")


_FORMS: Final = {
    "STORE_ATTR": (2, "({1}).{argval} = {0}"),
    "DELETE_ATTR": (1, "del ({0}).{argval}"),
    "STORE_SUBSCR": (3, "({1})[{2}] = {0}"),
    "DELETE_SUBSCR": (2, "del ({0})[{1}]"),
    "STORE_SLICE": (4, "({1})[{2}:{3}] = {0}"),
    "COMPARE_OP": (2, "({0}) {argval} ({1})"),
    "BINARY_SUBSCR": (2, "({0})[{1}]"),
    "BINARY_SLICE": (3, "({0})[{1}:{2}]"),
}
"""The number of operands, the deepest first, and the statement or expression that they make."""


@performs(*_FORMS)
def perform_form(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``object.name = value``, ``del container[key]``, ``left < right`` and their like"""
    count, text = _FORMS[instruction.opname]
    names = pop_names(evaluator, residual, count)
    made = text.format(*names, argval=instruction.argval)
    if instruction.opname.startswith(("STORE", "DELETE")):
        do(residual, made)
    else:
        push_result(evaluator, residual, made)


@performs("IS_OP")
def perform_is(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``left is right``; by a function, as CPython warns about ``is`` with a literal."""
    left, right = pop_names(evaluator, residual, 2)
    function = operator.is_not if instruction.argval else operator.is_
    push_result(evaluator, residual, f"{residual.reference(function)}({left}, {right})")


@performs("CONTAINS_OP")
def perform_contains(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``item in container``"""
    item, container = pop_names(evaluator, residual, 2)
    word = "not in" if instruction.argval else "in"
    push_result(evaluator, residual, f"({item}) {word} ({container})")


# Containers --------------------------------------------------------------------------------------


@performs("UNPACK_SEQUENCE")
def perform_unpack(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``a, b = sequence``"""
    _unpack(evaluator, residual, instruction.argval, None)


@performs("UNPACK_EX")
def perform_unpack_ex(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``a, *b, c = sequence``"""
    before, after = instruction.argval
    _unpack(evaluator, residual, before + 1 + after, before)


def _unpack(evaluator: Evaluator, residual: Residual, count: int, starred: int | None) -> None:
    sequence = residual.operand(evaluator.pop())
    names = [residual.new_name("item") for _ in range(count)]
    targets = ["*" * (i == starred) + name for i, name in enumerate(names)]
    do(residual, f"[{', '.join(targets)}] = {sequence}")
    evaluator.stack.extend(ResidualVariable(name) for name in reversed(names))


_EXTENDING = {"LIST_EXTEND": "extend", "SET_UPDATE": "update", "DICT_UPDATE": "update"}


@performs(*_EXTENDING)
def perform_extend(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``container.extend(iterable)``"""
    items = residual.operand(evaluator.pop())
    container = evaluator.stack[-instruction.argval]
    name = residual.name_for(container)
    do(residual, f"{name}.{_EXTENDING[instruction.opname]}({items})")
    evaluator.stack[-instruction.argval] = ResidualVariable(name)


@performs("GET_ITER")
def perform_get_iter(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``iter(iterable)``"""
    iterable = residual.operand(evaluator.pop())
    push_result(evaluator, residual, f"{residual.reference(iter)}({iterable})", "iterator")


# Contexts ----------------------------------------------------------------------------------------


@performs("BEFORE_WITH")
def perform_enter(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``manager.__exit__`` and ``manager.__enter__()``: the body of the ``with`` goes on later."""
    manager = residual.operand(evaluator.pop())
    push_result(evaluator, residual, f"{manager}.__exit__", "leave")
    push_result(evaluator, residual, f"{manager}.__enter__()", "entered")


@performs("WITH_EXCEPT_START")
def perform_leave(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``exit(type, exception, traceback)`` of a body that raises."""
    leave = residual.operand(evaluator.stack[-4])
    error = residual.operand(evaluator.stack[-1])
    kind = residual.reference(type)
    push_result(evaluator, residual, f"{leave}({kind}({error}), {error}, {error}.__traceback__)")


# Strings, names, imports, exceptions -------------------------------------------------------------

_CONVERSIONS = {"s": str, "r": repr, "a": ascii}


@performs("FORMAT_VALUE")
def perform_format(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``format(value, spec)``"""
    conversion, has_spec = instruction.argval
    spec = f", {residual.operand(evaluator.pop())}" if has_spec else ""
    value = residual.operand(evaluator.pop())
    if conversion is not None:
        value = f"{residual.reference(_CONVERSIONS[conversion])}({value})"
    push_result(evaluator, residual, f"{residual.reference(format)}({value}{spec})", "text")


@performs("CONVERT_VALUE")
def perform_convert(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``repr(value)`` and its like"""
    value = residual.operand(evaluator.pop())
    convert = residual.reference(_CONVERSIONS[instruction.argval])
    push_result(evaluator, residual, f"{convert}({value})", "text")


@performs("LOAD_GLOBAL")
def perform_load_global(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """Write the bare name: a NameError is the user's own."""
    push_result(evaluator, residual, instruction.argval, instruction.argval)


@performs("IMPORT_NAME")
def perform_import(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``__import__(name, globals, None, names, level)``"""
    level, names = pop_names(evaluator, residual, 2)
    namespace = residual.references.globals_name(evaluator.namespace)
    parts = f"{instruction.argval!r}, {namespace}, None, {names}, {level}"
    push_result(evaluator, residual, f"{residual.reference(__import__)}({parts})", "module")


@performs("IMPORT_FROM")
def perform_import_from(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``from module import name``"""
    module, name = residual.operand(evaluator.stack[-1]), instruction.argval
    push_result(
        evaluator, residual, f"{residual.reference(imported_name)}({module}, {name!r})", name
    )


@performs("RAISE_VARARGS")
def perform_raise(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``raise exception from cause``"""
    values = evaluator.popn(instruction.argval)
    names = [residual.operand(value) for value in values]
    is_held = any(isinstance(v, ExceptionVariable) and v.source is None for v in values[:1])
    leaves = is_held and instruction.handler is None
    with residual.dropping(names[0]) if leaves else nullcontext():
        residual.emit(f"raise {' from '.join(names)}".rstrip())


@performs("RERAISE")
def perform_reraise(evaluator: Evaluator, residual: Residual, instruction: Instruction) -> None:
    """``raise exception``: it keeps its traceback."""
    name = residual.name_for(evaluator.pop())
    with residual.dropping(name) if instruction.handler is None else nullcontext():
        residual.emit(f"raise {name}")
