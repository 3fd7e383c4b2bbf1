"""Autocast's cache: the first cast of a leaf serves all regions inside the outermost one."""

from functools import partial

import pytest
import torch

import minitorch2

CPU = partial(torch.autocast, "cpu")
UNCACHED = partial(CPU, cache_enabled=False)


def nested_casts(x, w, autocast=CPU):
    with autocast(torch.bfloat16):
        y = w @ w
        with autocast(torch.float16):
            return y.float() + w @ w + x


def casts_in_turn(x, w, autocast=CPU):
    with autocast(torch.bfloat16):
        y = w @ w
    with autocast(torch.float16):
        return y.float() + w @ w + x


def casts_behind_a_plain_region(x, w, autocast=CPU):
    with autocast(torch.float16):
        y = w @ w
        with autocast(enabled=False):
            y = y + (w @ w).half()
            with autocast(torch.bfloat16):
                return y.float() + w @ w + x


def casts_without_cache(x, w, autocast=UNCACHED):
    return nested_casts(x, w, autocast)


def casts_of_no_leaf(x, w):
    return nested_casts(x, w * 2)


def casts_of_a_changed_leaf(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        y = w @ w
        with torch.no_grad():
            w.mul_(2)
        return y + w @ w + x


CASTS = (
    nested_casts, casts_in_turn, casts_behind_a_plain_region, casts_without_cache,
    casts_of_no_leaf, casts_of_a_changed_leaf,
)  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", CASTS, ids=lambda program: program.__name__)
def test_the_first_cast_of_a_leaf_serves_the_whole_outer_autocast(program, dynamic):
    """A region of another dtype inside cast it again, where eager has a cache."""
    fast = minitorch2.compile(program, fullgraph=True, dynamic=dynamic)
    for size in (4, 6):
        results = []
        for call in (program, fast):
            torch.manual_seed(size)
            w = torch.randn(size, size, requires_grad=True)
            y = call(torch.randn(size, size), w)
            y.float().square().sum().backward()
            results.append((y.dtype, y.detach(), w.grad))
        (dtype, *wanted), (own_dtype, *given) = results
        assert own_dtype is dtype
        torch.testing.assert_close(given, wanted, rtol=2e-2, atol=2e-1)
        assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_an_error_inside_autocast_leaves_no_region_and_no_cached_cast(backend):
    """The count of regions stayed, so that casts of weights were kept for ever."""
    weight = torch.eye(4, requires_grad=True)

    def program(x):
        with torch.autocast("cpu", torch.bfloat16), torch.autocast("cpu", torch.float16):
            return (x @ weight) @ torch.ones(3, 3)

    fast = minitorch2.compile(program, backend=backend)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            fast(torch.ones(4, 4))
        assert torch.autocast_increment_nesting() == 1
        assert torch.autocast_decrement_nesting() == 0
