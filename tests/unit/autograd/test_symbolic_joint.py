"""Joint graphs with symbolic sizes: they trace, partition and run for other sizes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2.autograd import DECOMPOSITIONS, min_cut_partition, trace_program
from minitorch2.graph import ShapeEnv, expr_of, to_fake
from tests.unit.autograd.programs import graph_of

Case = tuple[Callable[..., Any], list[tuple[Any, ...]]]
CASES: dict[str, Case] = {
    "sinsin": (lambda x: x.sin().sin(), [("s0",)]),
    "mlp": (lambda x, w, b: F.gelu(F.linear(x, w, b)), [("s0", "s1"), (32, "s1"), (32,)]),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[1:]), [("s0", "s1")]),
    "softmax": (lambda x: torch.softmax(x, -1), [("s0", "s1")]),
    "attention": (
        lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v,
        [(2, "s0", 64)] * 3,
    ),
    "matmul_of_row": (lambda x, w: x @ w, [(4,), (2, 4, "s0")]),
    "linear_without_bias": (lambda x, w: F.linear(x, w), [(2, "s0", 4), (3, 4)]),
    "bmm_expanded": (lambda a, b: a @ b, [("s1", 1, "s0", 4), (3, 4, "s0")]),
    "sdpa": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(1, 2, "s0", 64)] * 3),
    "view": (lambda x: x.view(-1, 4)[:, :2].sum(0), [("s0", 4)]),
    "cat": (lambda x, y: torch.cat([x, y]).mul(2), [("s0", 4), ("s1", 4)]),
    "split": (lambda x: x.split(4, -1)[1].relu(), [("s0", 16)]),
    "embedding": (lambda w: F.embedding(torch.zeros(3, dtype=torch.long), w), [("s0", 8)]),
    "conv": (lambda x, w: F.conv2d(x, w, padding=1), [("s0", 3, 8, 8), (4, 3, 3, 3)]),
    "dropout": (lambda x: F.dropout(x, 0.5, True), [("s0", "s1")]),
    "cross_entropy": (lambda x: F.cross_entropy(x, torch.zeros(3, dtype=torch.long)), [(3, "s1")]),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), [("s0", 4)]),
}
HINTS = {"s0": 8, "s1": 16}


def sized(shape: tuple[Any, ...], sizes: dict[str, Any]) -> list[Any]:
    return [sizes.get(n, n) for n in shape]


@pytest.mark.parametrize("name", CASES)
def test_one_trace_serves_other_sizes(name: str) -> None:
    program, shapes = CASES[name]
    env = ShapeEnv()
    symbols = {symbol: env.new_size(symbol, hint) for symbol, hint in HINTS.items()}
    examples = [
        to_fake(torch.empty(sized(s, HINTS)), sized(s, symbols)).requires_grad_() for s in shapes
    ]
    joint = trace_program(
        graph_of(lambda *xs: (program(*xs),), len(shapes)),
        examples,
        DECOMPOSITIONS,
        differentiate=True,
    )
    parts = min_cut_partition(joint)
    assert not [g for g in env.guards if "==" in str(g)], "a size was specialised"
    for sizes in (HINTS, {"s0": 5, "s1": 7}):
        compare(program, [torch.randn(sized(s, sizes)).requires_grad_() for s in shapes], parts)


def compare(program: Callable[..., Any], inputs: list[torch.Tensor], parts: Any) -> None:
    torch.manual_seed(1)
    expected = program(*inputs)
    torch.manual_seed(1)
    with torch.no_grad():
        outputs = parts.forward(*inputs)
        torch.testing.assert_close(outputs[0], expected, rtol=1e-5, atol=1e-5)
        tangent = torch.randn_like(expected)
        from minitorch2.autograd.partition import SavedInput

        saved = [(inputs if isinstance(p, SavedInput) else outputs)[p.index] for p in parts.saved]
        gradients = parts.backward(*saved, tangent)
    for got, wanted in zip(gradients, torch.autograd.grad(expected, inputs, tangent), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def test_sizes_in_arguments_are_expressions() -> None:
    env = ShapeEnv()
    size = env.new_size("s0", 8)
    x = to_fake(torch.empty(8, 4), [size, 4])
    joint = trace_program(
        graph_of(lambda x: (x.view(-1) * 2, x.shape[0]), 1),
        [x],
        DECOMPOSITIONS,
        differentiate=False,
    )
    view = next(n for n in joint.module.graph.nodes if n.name == "view")
    assert view.args[1] == [expr_of(size) * 4]  # type: ignore[operator]
    assert joint.module(torch.zeros(3, 4))[1] == 3


def test_a_transposed_result_takes_any_tangent() -> None:
    """The tangent used to be laid out in rows where backward was compiled for columns."""
    compiled = minitorch2.compile(
        lambda x: (x + 1).t() * 1.0, backend="aot_eager_decomp_partition", dynamic=True
    )
    for shape in [(4, 6), (3, 5)]:
        x = torch.randn(shape, requires_grad=True)
        result = compiled(x)
        tangent = torch.randn_like(result)
        result.backward(tangent)
        assert torch.equal(x.grad, tangent.t())  # type: ignore[arg-type]


def test_a_view_of_an_input_is_taken_with_the_sizes_of_the_call() -> None:
    """The view used to hold the symbolic sizes of the first call."""
    compiled = minitorch2.compile(
        lambda x: (x[: (x.shape[0] + 1) // 2], x.sum()), backend="aot_eager", dynamic=True
    )
    for rows in (6, 9, 4):
        x = torch.randn(rows, 3)
        half, _ = compiled(x)
        assert torch.equal(half, x[: (rows + 1) // 2]) and half.data_ptr() == x.data_ptr()
