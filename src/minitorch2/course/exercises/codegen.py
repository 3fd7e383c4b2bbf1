"""Exercises of the chapters on kernels, for the CPU and under Triton's interpreter."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from minitorch2 import stages
from minitorch2.api import compiler
from minitorch2.course.exercise import exercise

CPU = "layers/codegen"
GPU = "gpu/kernels"
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel of an answer is defined


def wave(x: Tensor) -> Tensor:
    """Return something pointwise."""
    return torch.sin(x) * 2 + 1


def names_of_kernels() -> list[str]:
    """Return the names of the kernels that `wave` is compiled to."""
    with stages.collect() as log:
        compiler.compile(wave)(torch.ones(8))
    lines = "\n".join(log.texts("wrapper.py")).splitlines()
    return [line.split(" = ")[0] for line in lines if " = load_kernel" in line]


@exercise(
    CPU,
    "look",
    question="""
        `wave` is compiled to one kernel. What is its name? Set `kernel`.
    """,
    stub="""
        from minitorch2.course.exercises.codegen import wave

        kernel = ...
    """,
    hints=(
        "`stages.collect()` keeps the wrapper: `log.texts('wrapper.py')[0]`.",
        "The name lists the operators that were fused.",
    ),
    solution="""
        from minitorch2.course.exercises.codegen import names_of_kernels

        (kernel,) = names_of_kernels()
    """,
)
def name_the_kernel(kernel: str) -> None:
    """Compile it and look."""
    assert [kernel] == names_of_kernels(), f"{kernel!r} is not its name"


@exercise(
    CPU,
    "change",
    question="""
        Let CPython run the kernel of `wave`, so that a debugger could step through it: write
        `call(x)`, which compiles and calls `wave` so.
    """,
    stub="""
        import minitorch2
        from minitorch2.course.exercises.codegen import wave


        def call(x):
            return minitorch2.compile(wave)(x)
    """,
    hints=(
        "There is an option for the compiler of CPU kernels: `cpu_compiler`.",
        '`minitorch2.config.patch(cpu_compiler="python")`',
    ),
    solution="""
        from minitorch2 import compile, config
        from minitorch2.course.exercises.codegen import wave


        def call(x):
            with config.patch(cpu_compiler="python"):
                return compile(wave)(x)
    """,
)
def step_through_a_kernel(call: Callable[[Tensor], Tensor]) -> None:
    """Watch which Python functions are called."""
    seen: list[str] = []

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        seen.append(frame.f_code.co_name)

    x = torch.randn(6)
    call(x)  # compiles
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = call(x)
    finally:
        sys.settrace(before)
    torch.testing.assert_close(found, wave(x))
    assert any(name.startswith("fused_") for name in seen), "no kernel was run by CPython"


@exercise(
    CPU,
    "build",
    question="""
        Write `print_kernel(expression)`: the text of `def kernel(n, x, y, out)`, a loop that
        fills `out`. An expression is `"x"`, `"y"`, a number, or `(function, expression...)`
        with the functions `add`, `mul` and `sin`.
    """,
    stub="""
        def print_kernel(expression):
            return "def kernel(n, x, y, out):\\n    pass"
    """,
    hints=(
        'A buffer prints as `x[i]`, `("add", a, b)` as `(a + b)`: print the parts first.',
        "`sin` is in the namespace in which the text is run.",
    ),
    solution="""
        def printed(expression):
            if isinstance(expression, tuple):
                name, *parts = expression
                texts = [printed(part) for part in parts]
                if name == "sin":
                    return f"sin({texts[0]})"
                return f"({(' + ' if name == 'add' else ' * ').join(texts)})"
            return f"{expression}[i]" if isinstance(expression, str) else repr(expression)


        def print_kernel(expression):
            lines = ["def kernel(n, x, y, out):", "    for i in range(n):"]
            return "\\n".join([*lines, f"        out[i] = {printed(expression)}"])
    """,
)
def write_a_printer(print_kernel: Callable[[Any], str]) -> None:
    """Run the texts, and compare with torch."""
    x, y = torch.randn(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    cases = [
        (("add", "x", ("mul", 2.0, "y")), x + 2 * y),
        (("sin", ("mul", "x", "x")), torch.sin(x * x)),
        (("mul", ("add", "x", "y"), ("sin", "y")), (x + y) * torch.sin(y)),
    ]
    for expression, expected in cases:
        text = print_kernel(expression)
        scope: dict[str, Any] = {}
        exec("from math import sin", scope)
        exec(text, scope)
        out = [0.0] * 5
        scope["kernel"](5, x.tolist(), y.tolist(), out)
        found = torch.tensor(out, dtype=torch.float64)
        assert torch.allclose(found, expected), f"{expression} printed as\n{text}\ngives {out}"


@exercise(
    CPU,
    "build",
    question="""
        Write `share(n, threads)`: pairs (lo, hi) of iterations, one for each thread, that
        cover 0 to n once, in order, and differ by at most one iteration in length.
    """,
    stub="""
        def share(n, threads):
            return [(0, n)]
    """,
    hints=("Thread t begins at `n * t // threads`.",),
    solution="""
        def share(n, threads):
            return [(n * t // threads, n * (t + 1) // threads) for t in range(threads)]
    """,
)
def share_a_loop(share: Callable[[int, int], list[tuple[int, int]]]) -> None:
    """Cover loops of several lengths by several threads."""
    for n in (0, 1, 7, 16, 100):
        for threads in (1, 2, 3, 8):
            parts = share(n, threads)
            covered = [i for lo, hi in parts for i in range(lo, hi)]
            lengths = [hi - lo for lo, hi in parts]
            assert covered == list(range(n)), f"share({n}, {threads}) covers {covered}"
            assert len(parts) == threads and max(lengths) - min(lengths) <= 1, f"lengths {lengths}"


@exercise(
    GPU,
    "look",
    question="""
        A kernel computes blocks of 1024 elements. How many programs does a launch have for a
        tensor of 5000 elements? Set `programs`.
    """,
    stub="""
        programs = ...
    """,
    hints=("The last block is not full: it needs a mask.",),
    solution="""
        import triton

        programs = triton.cdiv(5000, 1024)
    """,
)
def count_programs(programs: int) -> None:
    """Compare with the number of blocks that begin below 5000."""
    assert programs == len(range(0, 5000, 1024)), f"{programs} programs are not right"


@exercise(
    GPU,
    "change",
    question="""
        This kernel reads and writes beyond the end if the length is no multiple of the block.
        Mend it. (It runs under Triton's interpreter where there is no GPU.)
    """,
    stub="""
        import triton
        import triton.language as tl


        @triton.jit
        def kernel(x, out, n, BLOCK: tl.constexpr):
            place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out + place, tl.load(x + place) * 2)
    """,
    hints=("`tl.load` and `tl.store` take a `mask`.", "The mask is `place < n`."),
    solution="""
        import triton
        import triton.language as tl


        @triton.jit
        def kernel(x, out, n, BLOCK: tl.constexpr):
            place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            mask = place < n
            tl.store(out + place, tl.load(x + place, mask) * 2, mask)
    """,
)
def mask_the_end(kernel: Any) -> None:
    """Look at what lies behind the end."""
    x, out = torch.ones(32, device=_device()), torch.zeros(32, device=_device())
    kernel[(2,)](x, out, 20, BLOCK=16)
    assert out[:20].eq(2).all(), "the first 20 elements are not doubled"
    assert out[20:].eq(0).all(), "memory behind the end was written"


@exercise(
    GPU,
    "build",
    question="""
        Write `kernel(x, out, columns, BLOCK)`: each program computes the sum of one row of
        `columns` numbers, which fits into a block.
    """,
    stub="""
        import triton
        import triton.language as tl


        @triton.jit
        def kernel(x, out, columns, BLOCK: tl.constexpr):
            row = tl.program_id(0)
            tl.store(out + row, 0.0)
    """,
    hints=(
        "The row begins at `row * columns`; load a block of it under a mask.",
        "What the mask leaves out must be 0: `tl.load(..., mask, other=0.0)`; then `tl.sum`.",
    ),
    solution="""
        import triton
        import triton.language as tl


        @triton.jit
        def kernel(x, out, columns, BLOCK: tl.constexpr):
            row = tl.program_id(0)
            place = tl.arange(0, BLOCK)
            values = tl.load(x + row * columns + place, place < columns, other=0.0)
            tl.store(out + row, tl.sum(values, 0))
    """,
)
def sum_rows(kernel: Any) -> None:
    """Compare with torch."""
    x = torch.randn(4, 10, device=_device())
    out = torch.zeros(4, device=_device())
    kernel[(4,)](x, out, 10, BLOCK=16)
    torch.testing.assert_close(out, x.sum(1))


@exercise(
    GPU,
    "build",
    question="""
        Write `kernel(table, rows, out, count, columns, BLOCK)`, an embedding. Each program
        copies one row of `table`, which has `count` rows, into its row of `out`: the row whose
        number lies in `rows`. As in Python, -1 is the last row.
    """,
    stub="""
        import triton
        import triton.language as tl


        @triton.jit
        def kernel(table, rows, out, count, columns, BLOCK: tl.constexpr):
            place = tl.arange(0, BLOCK)
            values = tl.load(table + place, place < columns)
            tl.store(out + tl.program_id(0) * columns + place, values, place < columns)
    """,
    hints=(
        "An address may come out of memory: `row = tl.load(rows + tl.program_id(0))`.",
        "`tl.where(row < 0, row + count, row)` counts from the end.",
    ),
    solution="""
        import triton
        import triton.language as tl


        @triton.jit
        def kernel(table, rows, out, count, columns, BLOCK: tl.constexpr):
            program, place = tl.program_id(0), tl.arange(0, BLOCK)
            row = tl.load(rows + program)
            row = tl.where(row < 0, row + count, row)
            values = tl.load(table + row * columns + place, place < columns)
            tl.store(out + program * columns + place, values, place < columns)
    """,
)
def gather_rows(kernel: Any) -> None:
    """Compare with indexing, and look behind the last row."""
    table = torch.randn(5, 10, device=_device())
    rows = torch.tensor([3, 0, -1, 3, -5], device=_device())
    out = torch.zeros(6, 10, device=_device())
    kernel[(5,)](table, rows, out, 5, 10, BLOCK=16)
    assert out[5].eq(0).all(), "memory behind the last row was written"
    for place, row in enumerate(rows.tolist()):
        assert torch.equal(out[place], table[row]), f"row {place} must be row {row} of the table"


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
