"""Exercises of the chapter on the way from a frame to a graph."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minitorch2 import stages
from minitorch2.api import compiler, reports
from minitorch2.course.exercise import exercise

PAGE = "layers/bytecode"


def toy_example(a: Tensor, b: Tensor) -> Tensor:
    """Return a product, with a branch on data before it."""
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def counts_after(calls: list[Tensor]) -> tuple[int, int]:
    """Return how many graphs and how many frames' rests these calls of the example compile."""
    fast = compiler.compile(toy_example, backend="eager")
    with stages.collect() as log:
        for b in calls:
            fast(torch.ones(2), b)
    return log.counts["graphs"], log.counts["graphs"] - 1


def chain(x: Any, y: Any) -> Any:
    """Return a polynomial, without branches or calls."""
    z = x * y + x
    return z - y * y


@exercise(
    PAGE,
    "look",
    question="""
        `toy_example` is called with `b = ones`, again with `b = ones`, then with `b = -ones`.
        How many graphs are compiled, and how many of them are graphs of continuations? Set
        `graphs` and `continuations`.
    """,
    stub="""
        from minitorch2.course.exercises.bytecode import toy_example

        graphs = ...
        continuations = ...
    """,
    hints=(
        "The first graph ends at the branch. Each way behind it has a continuation.",
        "A continuation is compiled when it is first called.",
    ),
    solution="""
        import torch

        from minitorch2.course.exercises.bytecode import counts_after

        ones = torch.ones(2)
        graphs, continuations = counts_after([ones, ones, -ones])
    """,
)
def count_parts(graphs: int, continuations: int) -> None:
    """Count them in the report."""
    ones = torch.ones(2)
    found = counts_after([ones, ones, -ones])
    assert (graphs, continuations) == found, f"{graphs} and {continuations} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        Write `program(a, b)` with the results of `toy_example`, so that no continuation is
        needed: one graph, no break.
    """,
    stub="""
        import torch


        def program(a, b):
            x = a / (torch.abs(a) + 1)
            if b.sum() < 0:
                b = b * -1
            return x * b
    """,
    hints=("Compute both ways, and let a tensor choose: `torch.where`.",),
    solution="""
        import torch


        def program(a, b):
            x = a / (torch.abs(a) + 1)
            return x * torch.where(b.sum() < 0, -b, b)
    """,
)
def without_continuations(program: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Compare on both ways, and ask for breaks."""
    a = torch.tensor([1.0, -3.0])
    for b in (torch.ones(2), -torch.ones(2)):
        torch.testing.assert_close(program(a, b), toy_example(a, b))
    found = reports.explain(program, backend="eager")(a, torch.ones(2))
    assert found.graph_break_count == 0, "there is still a break"


@exercise(
    PAGE,
    "build",
    question="""
        Write `names(code)`: the names of a code object's instructions, read from the bytes of
        `code.co_code`. Caches between instructions do not count.
    """,
    stub="""
        import dis


        def names(code):
            return [dis.opname[byte] for byte in code.co_code]
    """,
    hints=(
        "An instruction is two bytes: its number and its argument.",
        '`dis.opname[number]` is the name; leave out "CACHE".',
    ),
    solution="""
        import dis


        def names(code):
            found = [dis.opname[number] for number in code.co_code[::2]]
            return [name for name in found if name != "CACHE"]
    """,
)
def read_bytes(names: Callable[[types.CodeType], list[str]]) -> None:
    """Compare with the module `dis`."""
    for function in (chain, toy_example, counts_after):
        expected = [step.opname for step in dis.get_instructions(function)]
        found = list(names(function.__code__))
        assert found == expected, f"{function.__name__} begins {expected[:3]}, not {found[:3]}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `record(function)`: run the instructions of a function such as `chain` on names
        instead of numbers. Return the operations as `(result, symbol, left, right)` in their
        order; results are called "t0", "t1" and so on.
    """,
    stub="""
        import dis


        def record(function):
            stack, operations = [], []
            local = {name: name for name in function.__code__.co_varnames}
            for step in dis.get_instructions(function):
                print(step.opname, step.argval)
            return operations
    """,
    hints=(
        "LOAD_FAST pushes `local[name]`, STORE_FAST pops into it, BINARY_OP pops two.",
        "From Python 3.13 on, one instruction may load or store two names: `argval` is a tuple.",
    ),
    solution="""
        import dis
        import re


        def record(function):
            stack, operations = [], []
            local = {name: name for name in function.__code__.co_varnames}
            for step in dis.get_instructions(function):
                if "_FAST" in step.opname:
                    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
                    for verb, name in zip(re.findall("LOAD|STORE", step.opname), names):
                        if verb == "LOAD":
                            stack.append(local[name])
                        else:
                            local[name] = stack.pop()
                elif step.opname == "BINARY_OP":
                    right, left = stack.pop(), stack.pop()
                    result = f"t{len(operations)}"
                    operations.append((result, step.argrepr, left, right))
                    stack.append(result)
            return operations
    """,
)
def record_operations(record: Callable[..., list[tuple[str, str, str, str]]]) -> None:
    """Run the record, and compare with the function."""
    for function in (chain, lambda x, y: x * x * y, lambda x, y: (x - y) * (y - x)):
        world: dict[str, Any] = {"x": 3, "y": 5}
        operations = record(function)
        assert operations, "nothing is recorded"
        for result, symbol, left, right in operations:
            values = world[left], world[right]
            world[result] = {
                "*": values[0] * values[1],
                "+": values[0] + values[1],
                "-": values[0] - values[1],
            }[symbol]
        expected = function(3, 5)
        assert world[result] == expected, f"your record gives {world[result]}, not {expected}"
