"""Exercises of the chapter on a compiler in 300 lines."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from minitorch2.course.exercise import exercise

PAGE = "finale"


def normalized(x: Tensor) -> Tensor:
    """Return rows without their mean, over their largest distance from it."""
    centred = x - x.sum(1, keepdim=True) / x.shape[1]
    return centred / centred.amax(1, keepdim=True)


@exercise(
    PAGE,
    "look",
    question="""
        How many kernels does the compiler of this chapter make of `normalized`, fused and not
        fused? Set `apart` and `fused`. Run it in a checkout of the repository.
    """,
    stub="""
        from examples.compiler import Entry
        from minitorch2.course.exercises.finale import normalized

        apart = ...
        fused = ...
    """,
    hints=("`len(Entry(normalized, (x,), fuse=False).forward.texts)`",),
    solution="""
        import torch

        from examples.compiler import Entry
        from minitorch2.course.exercises.finale import normalized

        apart, fused = (
            len(Entry(normalized, (torch.ones(4, 5),), fuse=fuse).forward.texts)
            for fuse in (False, True)
        )
    """,
)
def count_kernels(apart: int, fused: int, Entry: Callable[..., Any]) -> None:
    """Ask the compiler that the answer imports."""
    inputs = (torch.ones(4, 5),)
    found = tuple(len(Entry(normalized, inputs, fuse=fuse).forward.texts) for fuse in (False, True))
    assert (apart, fused) == found, f"{apart} and {fused} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        The compiler records operators that write to their arguments as if they did not. Change
        `checked(operator)`, which is called for each of them: it returns the operator, and
        raises a `ValueError` with its name if it writes.
    """,
    stub="""
        def checked(operator):
            return operator
    """,
    hints=("`operator._schema.is_mutable` tells.",),
    solution="""
        def checked(operator):
            if operator._schema.is_mutable:
                raise ValueError(f"{operator} writes to its arguments")
            return operator
    """,
)
def refuse_writes(checked: Callable[[Any], Any]) -> None:
    """Try operators of both kinds."""
    aten = torch.ops.aten
    for operator in (aten.add.Tensor, aten.sin.default, aten.view.default):
        assert checked(operator) is operator, f"{operator} writes to nothing"
    for operator in (aten.add_.Tensor, aten.sin.out, aten.copy_.default):
        try:
            checked(operator)
        except ValueError as error:
            assert str(operator) in str(error), "the message must name the operator"
            continue
        raise AssertionError(f"{operator} writes to an argument")


@exercise(
    PAGE,
    "build",
    question="""
        Write `may_fuse(writes, reads, rows)`: two loops over the same rows run as one if each
        turn of the second reads only what its own turn of the first has written.
        `writes(row)` and `reads(row)` are the sets of cells of a turn.
    """,
    stub="""
        def may_fuse(writes, reads, rows):
            return True
    """,
    hints=(
        "Cells that the first loop does not write at all may be read by all.",
        "A turn may not read what another turn writes, be it earlier or later.",
    ),
    solution="""
        def may_fuse(writes, reads, rows):
            written = set().union(*(writes(row) for row in range(rows)))
            return all((reads(row) & written) <= writes(row) for row in range(rows))
    """,
)
def judge_a_fusion(may_fuse: Callable[..., bool]) -> None:
    """Judge the legal program of the chapter, its mirror, and readers of other memory."""

    def totals(row: int) -> Collection[Any]:
        return {("total", row)}

    cases: dict[str, tuple[Callable[[int], Collection[Any]], bool]] = {
        "a row reads its own sum": (totals, True),
        "a row reads all sums": (lambda row: {("total", r) for r in range(4)}, False),
        "a row reads the next sum": (lambda row: {("total", row + 1)}, False),
        "a row reads the sum before": (lambda row: {("total", row - 1)}, False),
        "a row reads an input": (lambda row: {("x", 0), ("x", row)}, True),
    }
    for name, (reads, expected) in cases.items():
        found = bool(may_fuse(totals, reads, 4))
        assert found is expected, f"{name}: {expected}, not {found}"


@exercise(
    PAGE,
    "build",
    question="""
        A running sum is neither a scalar function of an index nor a reduction. Write
        `cumsum(rows, columns)`: the text of a function `kernel(x, out)` that fills `out[i, j]`
        with the sum of `x[i, 0]` to `x[i, j]`, in two loops that read each element once.
    """,
    stub='''
        def cumsum(rows, columns):
            return """
        def kernel(x, out):
            for i in range(ROWS):
                for j in range(COLUMNS):
                    out[i, j] = x[i, j]
        """.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
    ''',
    hints=("The accumulator is set for each row, and stored in each turn of the inner loop.",),
    solution='''
        def cumsum(rows, columns):
            return f"""
        def kernel(x, out):
            for i in range({rows}):
                total = 0.0
                for j in range({columns}):
                    total += x[i, j]
                    out[i, j] = total
        """
    ''',
)
def write_a_scan(cumsum: Callable[[int, int], str]) -> None:
    """Run the text on memory that counts reads."""
    for rows, columns in ((2, 3), (1, 5), (3, 1)):
        reads: list[Any] = []

        class Memory(dict[Any, float]):
            def __getitem__(self, index: Any, reads: list[Any] = reads) -> float:
                reads.append(index)
                return super().__getitem__(index)

        x = torch.randn(rows, columns, dtype=torch.float64)
        cells = {(i, j): x[i, j].item() for i in range(rows) for j in range(columns)}
        names: dict[str, Any] = {}
        exec(cumsum(rows, columns), names)
        out: dict[Any, float] = {}
        names["kernel"](Memory(cells), out)
        found = torch.tensor([[out[i, j] for j in range(columns)] for i in range(rows)])
        torch.testing.assert_close(found.double(), x.cumsum(1), rtol=1e-5, atol=1e-5)
        assert len(reads) == rows * columns, f"{len(reads)} reads of {rows * columns} elements"
