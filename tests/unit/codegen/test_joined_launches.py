"""Several kernels in one launch for the CPU: threads, errors, the text; optimizers and lists."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch2
from minitorch2 import config, stages
from minitorch2.native.kernels.runtime import KernelSource, join_kernels, load_kernel

GOLDEN = Path(__file__).parents[2] / "golden" / "codegen"
COUNT = """def count(lo, hi, in_out_ptr0, error):
    for i in range(lo, hi):
        in_out_ptr0[i] = in_out_ptr0[i] + 1
    return 0
"""
ROWS = """def rows(lo, hi, in_out_ptr0, size0, error):
    for i in range(lo, hi):
        for r in range(size0):
            in_out_ptr0[i * size0 + r] = in_out_ptr0[i * size0 + r] + 1
    return 0
"""
CHECKED = """def look_up(lo, hi, in_ptr0, error):
    for i in range(lo, hi):
        if in_ptr0[i] >= 5:
            error[0], error[1] = in_ptr0[i], 5
            return 1
    return 0
"""


def count(grain=1):
    return load_kernel(KernelSource("count", COUNT, ("int64",), 0, grain))


def rows(grain=1):
    return load_kernel(KernelSource("rows", ROWS, ("int64",), 1, grain, inner=0))


@settings(max_examples=60)
@given(st.lists(st.integers(0, 700), min_size=1, max_size=9), st.integers(1, 5), st.data())
def test_every_iteration_is_done_once_by_any_number_of_threads(sizes, threads, data):
    with config.patch(threads=threads):
        grains = [data.draw(st.sampled_from([1, 3, 50, 10_000])) for _ in sizes]
        joined = join_kernels("counts", [count(grain) for grain in grains])
    counted = [torch.zeros(size, dtype=torch.int64) for size in sizes]
    for _ in range(2):
        joined(*(word for pair in zip(sizes, counted, strict=True) for word in pair))
    assert all((numbers == 2).all() for numbers in counted)


def test_kernels_whose_iterations_vary_in_length():
    with config.patch(threads=3):
        joined = join_kernels("rows", [rows(), count(), rows()])
    a, b, c = (torch.zeros(n, dtype=torch.int64) for n in (7 * 100, 30, 200 * 0))
    joined(7, a, 100, 30, b, 200, c, 0)
    assert (a == 1).all() and (b == 1).all()


def test_arguments_are_counted_and_checked():
    joined = join_kernels("counts", [count(), count()])
    with pytest.raises(TypeError, match="takes 4 arguments, not 2"):
        joined(0, torch.zeros(1))
    with pytest.raises(TypeError):
        joined(0, torch.zeros(1), 0, 1.5)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_index_out_of_range_in_any_kernel_is_an_error(threads):
    with config.patch(threads=threads):
        look_up = load_kernel(KernelSource("look_up", CHECKED, ("int64",), 0, 1))
        joined = join_kernels("look_ups", [look_up, look_up, look_up])
    fine, wrong = torch.zeros(9, dtype=torch.int64), torch.tensor([1, 2, 77, 3])
    joined(9, fine, 9, fine, 9, fine)
    with pytest.raises(IndexError, match="index 77 is out of bounds for a dimension of size 5"):
        joined(9, fine, 4, wrong, 9, fine)


def test_without_the_compiler():
    with config.patch(cpu_compiler="python"):
        joined = join_kernels("counts", [count(), rows(), count()])
        counted = [torch.zeros(n, dtype=torch.int64) for n in (3, 8, 2)]
        joined(3, counted[0], 4, counted[1], 2, 2, counted[2])
    assert all((numbers == 1).all() for numbers in counted)


def scaled(*tensors):
    return tuple(torch.exp(x * 0.5) for x in tensors)


def test_golden_text(golden):
    """Equal kernels have one definition; the launch has a line for each."""
    compiled = minitorch2.compile(lambda a, b, c, d: (*scaled(a, b, c), d.softmax(-1)))
    inputs = [torch.randn(4, 8), torch.randn(7), torch.randn(3, 3), torch.randn(5, 40)]
    with config.patch(threads=8), stages.collect() as log:
        compiled(*inputs)
    (text,) = log.texts("wrapper.py")
    lines = [line for line in text.splitlines() if "File:" not in line]
    golden(GOLDEN / "joined.py.txt", "\n".join(lines) + "\n")
    assert text.count(" = load_kernel(") == 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32, torch.bool])
def test_mixed_dtypes_and_sizes(dtype, check):
    inputs = [torch.ones(n, dtype=dtype) for n in (0, 1, 5, 30)]
    more = [torch.randn(n) for n in (1, 6, 2)]

    def program(*tensors):
        return *(x + x for x in tensors), tensors[-1].sum()

    log = check(program, *inputs, *more)
    assert log.counts["launches"] < log.counts["kernels"]


def test_sizes_that_are_known_at_the_call_only(check):
    log = check(scaled, *(torch.randn(n) for n in (4, 5, 6, 7)), dynamic=True)
    assert (log.counts["kernels"], log.counts["launches"]) == (4, 1)


OPTIMIZERS = [
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, 1),
    (torch.optim.Adam, {"lr": 0.01}, 2),
    (torch.optim.AdamW, {"lr": 0.01, "foreach": True}, 2),
    (torch.optim.RMSprop, {"lr": 0.01}, 1),
]


@pytest.mark.parametrize(("cls", "options", "launches"), OPTIMIZERS)
def test_optimizers_launch_once_or_twice(cls, options, launches):
    def trained(compile_step):
        torch.manual_seed(0)
        layers = [torch.nn.Linear(n, n + 3) for n in range(4, 20, 3)]
        model = torch.nn.Sequential(*layers)
        optimizer = cls(model.parameters(), **options)
        step = compile_step(optimizer.step)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.linspace(-1, 1, 20).reshape(5, 4)).square().mean().backward()
            step()
        return [*model.parameters()]

    with stages.collect() as log:
        given = trained(lambda step: minitorch2.compile(step))
    for left, right in zip(given, trained(lambda step: step), strict=True):
        torch.testing.assert_close(left, right)
    with config.patch(join_launches=False):
        for left, right in zip(given, trained(lambda s: minitorch2.compile(s)), strict=True):
            assert torch.equal(left, right)
    last = log.texts("schedule.txt")[-1]
    assert sum(
        line.startswith(("Joined ", "Fused ", "Scheduler ")) for line in last.split("\n")
    ) == (launches)
    assert "backward graph" not in "".join(log.texts("wrapper.py"))
