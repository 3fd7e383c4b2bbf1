"""Operators of the user's: their meta functions are asked, and missing ones are named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.errors import GraphBreakError
from minitorch2.graph.fake_tensor import to_fake
from minitorch2.graph.symbols import ShapeEnv, expr_of

X = torch.randn(4, 6)


@pytest.fixture(scope="module")
def library() -> Iterator[torch.library.Library]:
    """Two operators in the old style: one with a meta function, one without."""
    library = torch.library.Library("minitorch2_tests", "DEF")
    for name in ("halves", "formless"):
        library.define(f"{name}(Tensor x, SymInt n) -> Tensor")
        library.impl(name, lambda x, n: x[:, : x.shape[1] // n].clone(), "CPU")
    fake = lambda x, n: x.new_empty(x.shape[0], x.shape[1] // n)  # noqa: E731
    torch.library.register_fake("minitorch2_tests::halves", fake, lib=library)
    yield library
    library._destroy()


@torch.library.custom_op("minitorch2_tests_new::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@torch.library.custom_op("minitorch2_tests_new::shift", mutates_args={"x"})
def shift(x: torch.Tensor, by: float) -> None:
    x += by


@pytest.mark.parametrize("dynamic", [False, True])
def test_memory_that_an_operator_has_written_is_not_given_to_later_results(dynamic: bool) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, z = x * 2, x.sin()
        shift(y, 1.0)
        shift(z, 2.0)
        other = x.cos()
        shift(other, 3.0)
        return y, z + other, x.exp(), other

    for n in (5, 7):
        x = torch.randn(n)
        fast = minitorch2.compile(program, fullgraph=True, dynamic=dynamic)
        torch.testing.assert_close(fast(x), program(x))


@torch.library.custom_op("minitorch2_tests_new::shift_all", mutates_args={"xs"})
def shift_all(xs: list[torch.Tensor], by: float) -> None:
    for x in xs:
        x += by


def test_equal_values_that_one_operator_writes_have_memory_of_their_own() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = x.sum(0, keepdim=True) + x, x.sum(0, keepdim=True) + x
        shift_all([a, b], 3.0)
        return a * 2, a.sum(0, keepdim=True) + a

    fast = minitorch2.compile(program, fullgraph=True)
    torch.testing.assert_close(fast(X), program(X))


def test_a_missing_meta_function_breaks_the_graph_and_names_the_remedy(
    library: torch.library.Library,
) -> None:
    for program, name in (
        (lambda x: scaled(x, 2.0).sin(), "minitorch2_tests_new::scaled"),
        (lambda x: torch.ops.minitorch2_tests.formless(x, 2).sin(), "minitorch2_tests::formless"),
    ):
        with stages.collect() as log:
            torch.testing.assert_close(minitorch2.compile(program, backend="eager")(X), program(X))
        assert log.counts["graph_breaks"] == 1
        with pytest.raises(GraphBreakError, match=rf'register_fake\("{name}"\)') as caught:
            minitorch2.compile(program, fullgraph=True)(X)
        assert caught.value.code == "no-meta-kernel"


def test_a_registered_meta_function_takes_symbolic_sizes(library: torch.library.Library) -> None:
    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        return torch.ops.minitorch2_tests.halves(x.sin(), n).cos()

    for backend in ("eager", "aot_eager", "numba"):
        fast = minitorch2.compile(program, fullgraph=True, dynamic=True, backend=backend)
        with stages.collect() as log:
            for size in (4, 6, 9):
                x = torch.randn(size, 2 * size)
                torch.testing.assert_close(fast(x, 2), program(x, 2))
        assert log.counts["graphs"] == 1


def test_an_object_of_custom_op_is_a_node() -> None:
    @torch.library.custom_op("minitorch2_tests_new::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    graphs = []
    fast = minitorch2.compile(lambda x: twice(x) + 1, backend=lambda g, _: graphs.append(g) or g)
    torch.testing.assert_close(fast(X), X * 2 + 1)
    calls = (node.target for node in graphs[0].graph.nodes if node.op == "call_function")
    assert next(calls) is torch.ops.minitorch2_tests_new.twice.default


def test_a_fake_tensor_asks_the_meta_function(library: torch.library.Library) -> None:
    env = ShapeEnv()
    fake = to_fake(X, [env.new_size("s0", 4), env.new_size("s1", 6)])
    result = torch.ops.minitorch2_tests.halves(fake, 3)
    assert [str(expr_of(size)) for size in result.shape] == ["s0", "FloorDiv(s1, 3)"]


def test_other_errors_of_operators_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="broadcast"):
        to_fake(X) + to_fake(torch.ones(5))
