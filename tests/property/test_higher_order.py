"""Random bodies of branches and loops: values and gradients are those of Python's own."""

from collections.abc import Callable

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._higher_order_ops import scan, while_loop

import minitorch2
from minitorch2 import stages
from minitorch2.bytecode.polyfills import higher_order as in_python

Tensors = tuple[torch.Tensor, ...]
Body = Callable[..., torch.Tensor]

UNARY = (torch.sin, torch.tanh, torch.sigmoid, torch.neg, lambda x: x.t().contiguous().t() * 0.5,
         lambda x: x.flip(0), lambda x: x - x.mean(0, keepdim=True), lambda x: x.clone().mul_(0.9),
         lambda x: x.detach() + x)  # fmt: skip
BINARY = (torch.add, torch.mul, torch.maximum, lambda x, y: torch.where(x > 0, x, y))


@st.composite
def bodies(draw: st.DrawFn) -> Body:
    """A function of some tensors of one shape to such a tensor."""
    steps = draw(
        st.lists(
            st.one_of(
                st.tuples(st.sampled_from(UNARY), st.integers(0, 9)),
                st.tuples(st.sampled_from(BINARY), st.integers(0, 9), st.integers(0, 9)),
            ),
            max_size=5,
        )
    )

    def body(*tensors: torch.Tensor) -> torch.Tensor:
        values = list(tensors)
        for operator, *places in steps:
            values.append(operator(*(values[place % len(values)] for place in places)))
        return values[-1]

    return body


def agree(program: Callable[..., Tensors], expected: Callable[..., Tensors], count: int) -> None:
    """Results and gradients of a captured program, whole, and of another in eager PyTorch."""
    torch.manual_seed(1)
    inputs = [torch.randn(3, 4, requires_grad=True) for _ in range(count)]
    compiled = minitorch2.compile(
        program, backend="aot_eager_decomp_partition", fullgraph=True, dynamic=False
    )
    with stages.collect() as log:
        compiled(*inputs)
    assert log.counts["graphs"] == 1
    found = []
    for function in (compiled, expected):
        results = function(*inputs)
        total = sum((r * r).sum() for r in results if r.requires_grad)
        wanted = torch.autograd.grad(total, inputs, allow_unused=True) if total else [None] * count
        gradients = [torch.zeros(3, 4) if g is None else g for g in wanted]
        found.append((results, gradients))
    torch.testing.assert_close(*found, check_stride=False)


@settings(max_examples=25, deadline=None)
@given(bodies(), bodies(), st.floats(-2, 2))
def test_branches(when_true: Body, when_false: Body, limit: float) -> None:
    def using(cond: Callable[..., torch.Tensor]) -> Callable[..., Tensors]:
        def program(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Tensors:
            around = z * 2
            true, false = (lambda x, y: when_true(x, y, around)), (lambda x, y: when_false(x, y, z))
            return cond(x.sum() > limit, true, false, (x, y)), around

        return program

    agree(using(torch.cond), using(in_python.cond), 3)


@settings(max_examples=25, deadline=None)
@given(bodies(), bodies(), st.integers(1, 4))
def test_loops(first: Body, second: Body, steps: int) -> None:
    def using(loop: Callable[..., Tensors]) -> Callable[..., Tensors]:
        def program(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Tensors:
            def step(i: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Tensors:
                return i + 1, first(x, y, z), second(y, z, x)

            return loop(lambda i, x, y: i < steps, step, (torch.tensor(0), x, y))[1:]

        return program

    agree(using(while_loop), using(in_python.while_loop), 3)


@settings(max_examples=25, deadline=None)
@given(bodies(), bodies(), st.booleans())
def test_scans(carry: Body, result: Body, reverse: bool) -> None:
    def using(run: Callable[..., Tensors]) -> Callable[..., Tensors]:
        def program(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Tensors:
            def step(state: torch.Tensor, at: torch.Tensor) -> Tensors:
                return carry(state, at.expand(3, 4), z), result(at.expand(3, 4), state, z)

            return run(step, x, y, dim=0, reverse=reverse)

        return program

    agree(using(scan), using(in_python.scan), 3)
