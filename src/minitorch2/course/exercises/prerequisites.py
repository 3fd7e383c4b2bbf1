"""Exercises of the chapter on what the book takes for granted."""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minitorch2.course.exercise import exercise
from minitorch2.graph.dispatch_mode import DispatchMode

PAGE = "prerequisites"


def mixed(a: int, b: int) -> int:
    """Return a number by three operators."""
    return (a + b) * (a - b)


class Count(DispatchMode):  # type: ignore[no-untyped-call]
    """Count the operators that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the operator, and count it."""
        self.count += 1
        return operator(*args, **(kwargs or {}))


def operators_in_softmax() -> int:
    """Return how many operators run in a softmax of a product."""
    with Count() as mode:
        torch.softmax(torch.ones(2, 2) @ torch.ones(2, 2), 0)
    return int(mode.count)


@exercise(
    PAGE,
    "look",
    question="""
        How many instructions of `mixed` are a `BINARY_OP`, and how deep does its stack get? Set
        `operations` and `depth`.
    """,
    stub="""
        import dis

        from minitorch2.course.exercises.prerequisites import mixed

        dis.dis(mixed)
        operations = ...
        depth = ...
    """,
    hints=("The depth is in `mixed.__code__.co_stacksize`; find the place where it is reached.",),
    solution="""
        import dis

        from minitorch2.course.exercises.prerequisites import mixed

        operations = sum(step.opname == "BINARY_OP" for step in dis.get_instructions(mixed))
        depth = mixed.__code__.co_stacksize
    """,
)
def read_bytecode(operations: int, depth: int) -> None:
    """Ask CPython."""
    names = [step.opname for step in dis.get_instructions(mixed)]
    found = names.count("BINARY_OP"), mixed.__code__.co_stacksize
    assert (operations, depth) == found, f"{operations} and {depth} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        `pair()` returns two functions, each with a number of its own. Change it so that they
        share one cell: `add()` adds 1, and `read()` returns how often `add` was called.
    """,
    stub="""
        def pair():
            def add():
                count = 0
                count += 1

            def read():
                count = 0
                return count

            return add, read
    """,
    hints=(
        "A variable of `pair` itself, and `nonlocal` in the function that stores it.",
        "`add.__closure__[0] is read.__closure__[0]` if they share the cell.",
    ),
    solution="""
        def pair():
            count = 0

            def add():
                nonlocal count
                count += 1

            def read():
                return count

            return add, read
    """,
)
def share_a_cell(pair: Callable[[], tuple[Callable[[], None], Callable[[], int]]]) -> None:
    """Call both, and compare their cells."""
    add, read = pair()
    add()
    add()
    assert read() == 2, f"after two calls of add, read gives {read()}"
    cells = [getattr(each, "__closure__", None) or () for each in (add, read)]
    assert any(a is b for a in cells[0] for b in cells[1]), "they share no cell"
    assert pair()[1]() == 0, "another pair begins at 0"


@exercise(
    PAGE,
    "build",
    question="""
        Write `place(index, strides, offset)`: where in memory an element of a tensor lies,
        counted in elements.
    """,
    stub="""
        def place(index, strides, offset):
            return offset + sum(index)
    """,
    hints=("Each dimension adds its index times its stride.",),
    solution="""
        def place(index, strides, offset):
            return offset + sum(i * stride for i, stride in zip(index, strides))
    """,
)
def find_elements(place: Callable[[Sequence[int], Sequence[int], int], int]) -> None:
    """Look at the memory of views."""
    memory = torch.arange(24.0)
    matrix = memory.reshape(4, 6)
    for view in (matrix, matrix.T, matrix[1:, ::2], matrix[2].expand(3, 6)):
        for index in ((0, 0), (1, 2), (2, 1)):
            expected = int(view[index])
            found = place(index, view.stride(), int(view.storage_offset()))
            assert found == expected, f"{index} of strides {view.stride()} is at {expected}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `tape(y)`: the names of the nodes of autograd from a result to its leaves, each
        node once, a node before those that it leads to. Begin with `y.grad_fn`.
    """,
    stub="""
        def tape(y):
            return [y.grad_fn.name()]
    """,
    hints=(
        "`node.next_functions` are pairs of a node, or None, and a number.",
        "A node that is reached on two ways comes behind both: sort, do not only walk.",
    ),
    solution="""
        def tape(y):
            behind, seen = [], set()

            def visit(node):
                if node is not None and node not in seen:
                    seen.add(node)
                    for following, _ in node.next_functions:
                        visit(following)
                    behind.append(node.name())

            visit(y.grad_fn)
            return behind[::-1]
    """,
)
def walk_the_tape(tape: Callable[[Tensor], list[str]]) -> None:
    """Walk a chain, and a value that is used twice."""
    x = torch.tensor(2.0, requires_grad=True)
    chain = list(tape(torch.exp(torch.sin(x))))
    assert [name.rpartition("::")[2] for name in chain] == [
        "ExpBackward0",
        "SinBackward0",
        "AccumulateGrad",
    ], f"exp(sin(x)) has {chain}"
    shared = torch.sin(x)
    names = list(tape(torch.exp(shared) * shared))
    assert len(names) == 4, f"four nodes, each once; you have {names}"
    order = [names.index(f"{name}Backward0") for name in ("Mul", "Exp", "Sin")]
    assert order == sorted(order), f"a node comes before those that it leads to: {names}"
