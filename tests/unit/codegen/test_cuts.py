"""Loops that are cut where they change their ways: what they ask, and what they compute."""

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import stages
from minitorch2.loopir.expressions import index_symbol, modular_indexing, simplify

MOVED = {
    "cat": lambda x: torch.cat((x, x * 2), 1),
    "cat of rows": lambda x: torch.cat((x, x * 2), 0),
    "cat of long rows": lambda x: torch.cat((x.view(4, -1), x.view(4, -1) + 1), 1),
    "flat cat": lambda x: torch.cat((x.view(-1), x.view(-1)[:100])),
    "pad": lambda x: F.pad(x, (1, 2, 3, 4), value=5),
    "flat pad": lambda x: F.pad(x.view(-1), (7, 9)),
    "circular": lambda x: F.pad(x[None], (3, 3, 2, 2), mode="circular"),
    "roll": lambda x: x.roll(3, 1),
    "roll of both": lambda x: x.roll((3, 5), (0, 1)),
    "flat roll": lambda x: x.roll(1000),
    "repeat": lambda x: x.repeat(2, 3),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :20] * 2, 1, 30, 50),
    "stepped": lambda x: torch.slice_scatter(x, x[:, :20] * 2, 1, 30, 70, 2),
    "select_scatter": lambda x: torch.select_scatter(x, x[:, 0], 1, 3),
    "nested": lambda x: F.pad(torch.cat((x, x.roll(7, 1)), 1), (2, 2)) + 1,
    "rotated border": lambda x: F.pad(x, (8, 8)).roll(100, 1),
    "rotated halves": lambda x: torch.cat((-x[:, 65:], x[:, :65]), 1) * x.sin(),
}
ASKING = {"stepped", "cat of rows"}
"""Whose last loop does not end where its answers change, or does not ask."""


def kernels(function, x) -> tuple[torch.Tensor, str]:
    with stages.collect() as log:
        result = minitorch2.compile(function, dynamic=False)(x)
    return result, "".join(log.texts("kernel.py"))


@pytest.mark.parametrize("name", MOVED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.bool, torch.bfloat16], ids=str)
def test_cut_loops_compute_what_eager_does(name, dtype):
    x = torch.randint(0, 2 if dtype == torch.bool else 100, (90, 130)).to(dtype)
    if dtype != torch.float32 and name in ("nested", "rotated halves"):
        pytest.skip("arithmetic of floats")
    result, _ = kernels(MOVED[name], x)
    torch.testing.assert_close(result, MOVED[name](x))


@pytest.mark.parametrize("name", sorted(MOVED.keys() - ASKING))
def test_no_turn_of_a_cut_loop_asks_where_it_is(name):
    """No remainder, and no mask that depends on the innermost loop."""
    _, text = kernels(MOVED[name], torch.randn(90, 130))
    inner = "i0" if "flat" in name else "i1"
    asks = [line for line in text.splitlines() if f"int64({inner}" in line or f"({inner} %" in line]
    assert asks == []


def test_a_slice_is_scattered_into_another_dtype():
    """The source kept its own dtype beside the other elements."""
    x, source = torch.rand(40, 130) > 0.5, torch.arange(2600).view(40, 65) % 3
    scatter = lambda x, y: torch.slice_scatter(x, y, 1, 0, 65)  # noqa: E731
    assert torch.equal(minitorch2.compile(scatter)(x, source), scatter(x, source))


def test_a_thread_does_its_part_of_each_cut_loop():
    """The parts begin and end in the midst of cut loops."""
    x = torch.randn(300_000)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        result, text = kernels(lambda x: x.roll(123_456), x)
        assert torch.equal(result, x.roll(123_456)) and "min(hi" in text


def test_short_loops_and_loops_of_many_parts_stay_whole():
    _, short = kernels(lambda x: torch.cat((x, x + 1), 1), torch.randn(100, 8))
    _, many = kernels(lambda x: x.repeat(1, 20), torch.randn(10, 50))
    assert short.count("for i1") == 1 and many.count("for i1") == 1


def test_what_a_sum_of_digits_says_is_found_with_ranges_that_do_not_begin_at_zero():
    i = index_symbol("i")
    ranges = ((i, 397),)
    assert simplify(modular_indexing(i + 403, 1, 400), ranges) == i + 3
    assert simplify(modular_indexing(i + 300, 1, 400), ranges) != i + 300
