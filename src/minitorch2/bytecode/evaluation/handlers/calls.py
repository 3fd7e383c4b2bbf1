"""Instructions that call."""

from __future__ import annotations

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.null import NULL
from minitorch2.bytecode.trackers.observed import raise_observed


@handles("CALL")
def call(evaluator: Evaluator, instruction: Instruction) -> None:
    """``callable NULL args... -> result`` (or ``NULL callable``, or ``callable self``)."""
    function, args, kwargs = take_call(evaluator.stack, instruction)
    evaluator.push(evaluator.call(function, args, kwargs))


@handles("CALL_FUNCTION_EX")
def call_function_ex(evaluator: Evaluator, instruction: Instruction) -> None:
    """``callable NULL args [kwargs] -> result``: the call ``f(*args, **kwargs)``."""
    keywords = evaluator.pop() if instruction.argval & 1 else None
    args = operations.iterate(evaluator, evaluator.pop())
    upper, lower = evaluator.pop(), evaluator.pop()
    function = lower if upper is NULL else upper
    kwargs = {} if keywords is None else keyword_arguments(evaluator, keywords)
    evaluator.push(evaluator.call(function, args, kwargs))


def take_call(
    stack: list[VariableTracker], instruction: Instruction
) -> tuple[VariableTracker, list[VariableTracker], dict[str, VariableTracker]]:
    """Take the operands of CALL from the stack: the callable, positional and keyword arguments."""
    count, names = instruction.argval
    start = len(stack) - count
    args = stack[start:]
    lower, upper = stack[start - 2 : start]
    del stack[start - 2 :]
    if lower is NULL:
        function = upper
    else:
        function = lower
        args = args if upper is NULL else [upper, *args]
    positional = len(args) - len(names)
    return function, args[:positional], dict(zip(names, args[positional:], strict=True))


def keyword_arguments(evaluator: Evaluator, mapping: VariableTracker) -> dict[str, VariableTracker]:
    """Return the arguments that ``**mapping`` passes; the keys must be strings."""
    result = {}
    for key in operations.iterate(evaluator, mapping.call_method(evaluator, "keys", [], {})):
        name = key.as_constant()
        if not isinstance(name, str):
            raise_observed(TypeError, "keywords must be strings")
        result[name] = operations.get_item(evaluator, mapping, key)
    return result
