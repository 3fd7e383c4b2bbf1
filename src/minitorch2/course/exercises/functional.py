"""Exercises of the chapter on graphs without mutation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minitorch2.autograd import DECOMPOSITIONS, trace_program
from minitorch2.course.exercise import exercise
from minitorch2.graph import Graph, GraphModule
from minitorch2.graph.dispatch_mode import DispatchMode

PAGE = "gradients/functional"


def writes(x: Tensor) -> Tensor:
    """Return a table whose first row and second column were written."""
    table = x * 2
    table[0].add_(1)
    table[:, 1].mul_(10)
    return table


def functional_text() -> str:
    """Return the text of the functional graph of `writes`."""
    graph = Graph()
    graph.output((graph.call_function(writes, (graph.placeholder("x"),)),))
    module = GraphModule(graph)
    traced = trace_program(module, [torch.zeros(2, 3)], DECOMPOSITIONS, differentiate=False)
    return traced.module.code


class Written(DispatchMode):  # type: ignore[no-untyped-call]
    """Note the operators that write to a tensor."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the operator, and note it if its schema says that it writes."""
        if operator._schema.is_mutable:
            self.seen.append(str(operator))
        return operator(*args, **(kwargs or {}))


@exercise(
    PAGE,
    "look",
    question="""
        How many operators of the functional graph of `writes` put a part back (their names end
        with `_scatter`)? Set `scatters`.
    """,
    stub="""
        from minitorch2.course.exercises.functional import functional_text

        print(functional_text())
        scatters = ...
    """,
    hints=("Each write through a view needs one inverse for each view on its way.",),
    solution="""
        from minitorch2.course.exercises.functional import functional_text

        scatters = functional_text().count("_scatter.default(")
    """,
)
def count_scatters(scatters: int) -> None:
    """Count them in the text."""
    found = functional_text().count("_scatter.default(")
    assert scatters == found, f"{scatters} is not the number: read the graph"


@exercise(
    PAGE,
    "change",
    question="""
        Change `program` so that no operator in it writes to a tensor. The result stays.
    """,
    stub="""
        def program(x):
            table = x * 2
            table[0].add_(1)
            table[:, 1].mul_(10)
            return table
    """,
    hints=(
        "`torch.select_scatter(table, part, dim, index)` is `table` with another row or column.",
        "Read the second part from the table that the first write has made.",
    ),
    solution="""
        import torch


        def program(x):
            table = x * 2
            table = torch.select_scatter(table, table[0] + 1, 0, 0)
            return torch.select_scatter(table, table[:, 1] * 10, 1, 1)
    """,
)
def write_nothing(program: Callable[[Tensor], Tensor]) -> None:
    """Compare, and look at the schema of each operator."""
    x = torch.arange(6.0).reshape(2, 3)
    with Written() as written:
        found = program(x)
    torch.testing.assert_close(found, writes(x))
    assert not written.seen, f"these write: {', '.join(written.seen)}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `put(base, windows, size)`, the inverse of `base.unfold(0, size, size)`: a new
        tensor that is `base` with its windows replaced. A rest behind the last whole window
        stays.
    """,
    stub="""
        def put(base, windows, size):
            return base
    """,
    hints=(
        "The windows one behind the other are the front of the result.",
        "`torch.cat([windows.reshape(-1), rest])`",
    ),
    solution="""
        import torch


        def put(base, windows, size):
            front = windows.reshape(-1)
            return torch.cat([front, base[front.numel() :]])
    """,
)
def put_windows(put: Callable[[Tensor, Tensor, int], Tensor]) -> None:
    """Check both laws of an inverse, the rest, and that nothing is written."""
    for length, size in ((6, 2), (7, 3), (5, 5)):
        base = torch.arange(float(length))
        windows = base.unfold(0, size, size)
        new = windows + 100
        assert torch.equal(put(base, windows, size), base), "what is there changes nothing"
        with Written() as written:
            found = put(base, new, size)
        assert torch.equal(found.unfold(0, size, size), new), "what is written is read"
        rest = windows.numel()
        assert torch.equal(found[rest:], base[rest:]), "the rest must stay"
        assert not written.seen, f"these write: {', '.join(written.seen)}"


@exercise(
    PAGE,
    "build",
    question="""
        Write the class `Storage`. `Storage(value)` holds a list of numbers; `view(start, stop)`
        is a view of it, with `read()` and `write(numbers)`. Lists never change: each write
        makes a new one, which `storage.value` is then. All views read the present value.
    """,
    stub="""
        class View:
            def __init__(self, storage, start, stop):
                self.numbers = storage.value[start:stop]

            def read(self):
                return self.numbers

            def write(self, numbers):
                self.numbers = numbers


        class Storage:
            def __init__(self, value):
                self.value = value

            def view(self, start, stop):
                return View(self, start, stop)
    """,
    hints=(
        "A view keeps its storage and its place, no numbers.",
        "A write is `value[:start] + numbers + value[stop:]`.",
    ),
    solution="""
        class View:
            def __init__(self, storage, start, stop):
                self.storage, self.start, self.stop = storage, start, stop

            def read(self):
                return self.storage.value[self.start : self.stop]

            def write(self, numbers):
                value = self.storage.value
                self.storage.value = value[: self.start] + numbers + value[self.stop :]


        class Storage:
            def __init__(self, value):
                self.value = value

            def view(self, start, stop):
                return View(self, start, stop)
    """,
)
def model_a_storage(Storage: Callable[[list[int]], Any]) -> None:
    """Write through views that overlap, and keep the old values."""
    first = [1, 2, 3, 4]
    storage = Storage(first)
    left, right = storage.view(0, 3), storage.view(2, 4)
    left.write([10, 20, 30])
    assert right.read() == [30, 4], f"the other view reads {right.read()}, not [30, 4]"
    second = storage.value
    right.write([5, 6])
    assert left.read() == [10, 20, 5] and storage.value == [10, 20, 5, 6]
    assert first == [1, 2, 3, 4] and second == [10, 20, 30, 4], "a list has changed"
