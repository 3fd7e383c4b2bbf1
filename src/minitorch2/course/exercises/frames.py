"""Exercises of the chapter on frames."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

from minitorch2.course.exercise import exercise
from minitorch2.native.cpython.frame_hook import FrameHook

PAGE = "capture/frames"


def squared(x: int) -> int:
    """Return the square."""
    return x * x


def total(values: list[int]) -> int:
    """Return the sum of squares."""
    result = 0
    for value in values:
        result = result + squared(value)
    return result


def polynomial(x: int, y: int) -> int:
    """Return a number, without branches or calls."""
    z = x * x - y
    return z * (x + 2) - z


def clipped(x: int, y: int) -> int:
    """Return the difference, or 0."""
    if x < y:
        return y - x
    return 0


@exercise(
    PAGE,
    "look",
    question="""
        How many frames does the hook ask about in `total([1, 2, 3])`, `total` itself
        included?
    """,
    stub="""
        from minitorch2.course.exercises.frames import total

        frames = ...
    """,
    hints=(
        "Each call of a Python function is a frame; `for` and `+` are none.",
        "`FrameHook(callback).enabled()` calls `callback(function, arguments)` for each.",
    ),
    solution="""
        frames = 1 + len([1, 2, 3])
    """,
)
def count_frames(frames: int) -> None:
    """Ask the hook itself."""
    seen: list[str] = []

    def callback(function: Any, _: object) -> None:
        seen.append(function.__name__)

    with FrameHook(callback).enabled():
        total([1, 2, 3])
    assert frames == len(seen), f"{frames} is not right: think of which calls are Python functions"


@exercise(
    PAGE,
    "change",
    question="""
        Write a `callback` for the hook that answers every call of `squared` with 100.
    """,
    stub="""
        def callback(function, arguments):
            return None  # run the frame as it is
    """,
    hints=(
        "The callback returns None, or a function without parameters that makes the answer.",
        'Compare `function.__name__` with "squared".',
    ),
    solution="""
        def callback(function, arguments):
            if function.__name__ == "squared":
                return lambda: 100
            return None
    """,
)
def answer_a_frame(callback: Callable[..., Any]) -> None:
    """Call the function below the hook, and once more without it."""
    with FrameHook(callback).enabled():
        found = total([1, 2, 3])
    assert found == 300, f"total([1, 2, 3]) is {found} under your hook, not 300"
    assert total([1, 2, 3]) == 14, "without the hook nothing may have changed"


@exercise(
    PAGE,
    "change",
    question="""
        Write `constants(function)`: the constants that its instructions load, in their order.
    """,
    stub="""
        import dis


        def constants(function):
            return [instruction for instruction in dis.get_instructions(function)]
    """,
    hints=(
        'An instruction has `opname` and `argval`; the one that loads a constant is "LOAD_CONST".',
        'From Python 3.12 on, "RETURN_CONST" loads one, too.',
    ),
    solution="""
        import dis


        def constants(function):
            names = ("LOAD_CONST", "RETURN_CONST")
            return [each.argval for each in dis.get_instructions(function) if each.opname in names]
    """,
)
def list_constants(constants: Callable[..., list[Any]]) -> None:
    """Compare with the instructions of three functions."""
    names = ("LOAD_CONST", "RETURN_CONST")
    for function in (polynomial, clipped, total):
        steps = dis.get_instructions(function)
        expected = [each.argval for each in steps if each.opname in names]
        assert list(constants(function)) == expected, f"{function.__name__} loads {expected}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `evaluate(function, *args)`, which runs the instructions of functions such as
        `polynomial` and `clipped` on a stack of your own. Do not call the function.
    """,
    stub="""
        import dis
        import operator


        def evaluate(function, *args):
            local = dict(zip(function.__code__.co_varnames, args))
            stack = []
            for instruction in dis.get_instructions(function):
                print(instruction.opname, instruction.argval)
    """,
    hints=(
        "Keep a list of instructions and a position in it; a jump changes the position.",
        "The symbol of BINARY_OP is in `argrepr`, that of COMPARE_OP in `argval`.",
        "POP_JUMP...IF_FALSE goes to the instruction whose `offset` is `argval` if what it pops is "
        "false. Look at `evaluate` in examples/compiler.py.",
    ),
    solution="""
        import dis
        import operator
        import re

        BINARY = {"+": operator.add, "-": operator.sub, "*": operator.mul}
        COMPARE = {"<": operator.lt, ">": operator.gt}


        def evaluate(function, *args):
            local = dict(zip(function.__code__.co_varnames, args))
            stack, steps, n = [], list(dis.get_instructions(function)), 0
            while True:
                step, n = steps[n], n + 1
                name, value = step.opname, step.argval
                if "_FAST" in name:
                    names = value if isinstance(value, tuple) else (value,)
                    for verb, each in zip(re.findall("LOAD|STORE", name), names):
                        if verb == "LOAD":
                            stack.append(local[each])
                        else:
                            local[each] = stack.pop()
                elif name == "LOAD_CONST":
                    stack.append(value)
                elif name in ("BINARY_OP", "COMPARE_OP"):
                    right, left = stack.pop(), stack.pop()
                    table = BINARY if name == "BINARY_OP" else COMPARE
                    symbol = step.argrepr if name == "BINARY_OP" else value
                    stack.append(table[symbol](left, right))
                elif name.startswith("POP_JUMP"):
                    if bool(stack.pop()) == name.endswith("TRUE"):
                        n = next(i for i, each in enumerate(steps) if each.offset >= value)
                elif name == "RETURN_VALUE":
                    return stack.pop()
                elif name == "RETURN_CONST":
                    return value
    """,
)
def run_bytecode(evaluate: Callable[..., Any]) -> None:
    """Compare with CPython on several numbers; a hook sees whether the function was called."""
    called: list[str] = []

    def callback(function: Any, _: object) -> None:
        called.append(function.__name__)

    for function in (polynomial, clipped):
        for x, y in ((3, 4), (4, 3), (-2, 5), (0, 0)):
            with FrameHook(callback).enabled():
                found = evaluate(function, x, y)
            expected = function(x, y)
            assert found == expected, f"{function.__name__}({x}, {y}) is {expected}, not {found}"
    assert not {"polynomial", "clipped"} & set(called), "run the instructions, do not call it"
