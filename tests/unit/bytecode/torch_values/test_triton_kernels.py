"""The user's own Triton kernels are nodes of the graph, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import minitorch2
from minitorch2 import stages

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BACKENDS = ("eager", "aot_eager", "numba" if DEVICE == "cpu" else "triton")


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


@triton.jit
def scale_kernel(x_ptr, n, factor, BLOCK: tl.constexpr = 32):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pointers = x_ptr + offsets
    tl.store(pointers, tl.load(pointers, mask=offsets < n) * factor, mask=offsets < n)


@triton.heuristics({"DOUBLE": lambda given: given["n"] % 2 == 0, "BLOCK": lambda given: 16})
@triton.jit
def chosen_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, DOUBLE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x_ptr + offsets, mask=offsets < n)
    if DOUBLE:
        value = value * 2
    tl.store(out_ptr + offsets, value, mask=offsets < n)


@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, value + 1, mask=offsets < n)


@torch.library.triton_op("minitorch2_tests_triton::plus", mutates_args={})
def plus(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = out.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)  # noqa: E731
    torch.library.wrap_triton(add_kernel)[grid](x, y, out, n, BLOCK=64)
    return out


plus.register_autograd(lambda ctx, gradient: (gradient, 2 * gradient))


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = out.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=64)
    return out


def by_function_of_the_grid(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return add(x.sin(), y).relu()


def in_place_on_an_intermediate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x * 2
    view = z.view(-1)
    scale_kernel[(triton.cdiv(z.numel(), 32),)](z, z.numel(), 3.0)
    return view + y


def in_place_on_an_argument(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    scale_kernel[(triton.cdiv(x.numel(), 32),)](x, x.numel(), 3.0, BLOCK=32)
    return x + y


def by_keywords_and_onto_itself(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out, n = torch.empty_like(x), x.numel()
    grid = (triton.cdiv(n, 64), 1)
    add_kernel[grid](x_ptr=x, y_ptr=y, out_ptr=out, n=n, BLOCK=64)
    add_kernel[grid](out, y, out, n, BLOCK=64)
    return out


def by_heuristics(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out, n = torch.zeros_like(x), x.numel()
    chosen_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    return out + y


def beside_results_of_the_same_layout(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Memory that a kernel has written in place was given to later results, as if it were free."""
    z, n = x * 2, x.numel()
    scale_kernel[(triton.cdiv(n, 32),)](z, n, 3.0)
    out = torch.zeros_like(x)
    add_kernel[(triton.cdiv(n, 64),)](x, z, out, n, BLOCK=64)
    return torch.stack([out, z + 1, y.sin()])


PROGRAMS = (
    beside_results_of_the_same_layout,
    by_function_of_the_grid,
    in_place_on_an_intermediate,
    in_place_on_an_argument,
    by_keywords_and_onto_itself,
    by_heuristics,
)


def check(
    program: Callable[..., torch.Tensor], backend: str, gradient: bool = False, compiled: int = 2
) -> None:
    """Compare with eager at three sizes; one graph each for the first size and for all others."""
    fast: Any = minitorch2.compile(program, backend=backend, fullgraph=True)
    with stages.collect() as log:
        for n in (300, 100, 132):
            x, y = torch.randn(2, n, device=DEVICE).unbind()
            ours, theirs = (x.clone().requires_grad_(gradient) for _ in range(2))
            result, expected = fast(ours, y), program(theirs, y)
            torch.testing.assert_close(result, expected)
            torch.testing.assert_close(ours, theirs)
            if gradient:
                result.sum().backward()
                expected.sum().backward()
                torch.testing.assert_close(ours.grad, theirs.grad)
    assert log.counts["graphs"] == compiled
    assert not log.counts["graph_breaks"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_launch_is_a_node(program: Callable[..., torch.Tensor], backend: str) -> None:
    check(program, backend)


def test_generated_triton_code_and_the_users_kernel_share_a_program() -> None:
    check(by_function_of_the_grid, "triton")


@pytest.mark.gpu
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tuned_kernel_has_a_grid_for_each_configuration(backend: str) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out, n = torch.empty_like(x), x.numel()
        tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        return out * y

    check(program, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_triton_operator_is_its_kernels_and_has_its_gradient(backend: str) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return plus(x.sin(), y) * torch.ops.minitorch2_tests_triton.plus(y, x)

    check(program, backend, gradient=True)
    fast = minitorch2.compile(program, backend=lambda g, _: graphs.append(g) or g)
    graphs: list[Any] = []
    fast(torch.randn(8, device=DEVICE), torch.randn(8, device=DEVICE))
    launched = [getattr(node.target, "__name__", "") for node in graphs[0].graph.nodes]
    assert launched.count("add_kernel") == 2


def test_arguments_that_overlap_run_in_python() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        z = x * 1
        add_kernel[(1,)](z[:8], z[8:], z[4:12], 8, BLOCK=8)
        return z + 1

    x = torch.randn(16, device=DEVICE)
    torch.testing.assert_close(minitorch2.compile(program)(x), program(x))


def test_a_kernel_that_is_replaced_is_captured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = minitorch2.compile(in_place_on_an_intermediate)
    x, y = torch.randn(2, 40, device=DEVICE).unbind()
    fast(x, y)

    @triton.jit
    def other(x_ptr, n, factor, BLOCK: tl.constexpr = 32):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + offsets, offsets * factor, mask=offsets < n)

    monkeypatch.setitem(globals(), "scale_kernel", other)
    torch.testing.assert_close(fast(x, y), in_place_on_an_intermediate(x, y))
