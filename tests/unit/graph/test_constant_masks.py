"""Masks that a graph computes of constants: which are causal, and what reads their values."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import minitorch2
from minitorch2 import stages


def positions(q: Tensor) -> Tensor:
    rows = torch.arange(q.shape[-2], device=q.device)
    return rows[:, None] - rows


def written_over(q: Tensor) -> Tensor:
    mask = torch.ones(q.shape[-2], q.shape[-2])
    return mask.tril_()


CAUSAL: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a triangle of ones": lambda q, s: s.masked_fill(
        torch.tril(torch.ones(s.shape[-2:])) == 0, -math.inf
    ),
    "upper triangle": lambda q, s: s.masked_fill(
        torch.triu(torch.ones(s.shape[-2:], device=q.device), 1).bool(), -1e30
    ),
    "comparison": lambda q, s: torch.where(positions(q) >= 0, s, torch.finfo(s.dtype).min),
    "another comparison": lambda q, s: torch.where(positions(q) > -1, s, -math.inf),
    "added": lambda q, s: s + torch.full(s.shape[-2:], -math.inf).triu(1),
}
OTHERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "strict": lambda q, s: torch.where(positions(q) > 0, s, -1e30),
    "window": lambda q, s: s.masked_fill((positions(q) < 0) | (positions(q) > 3), -math.inf),
    "reversed": lambda q, s: s.masked_fill(positions(q) > 0, -math.inf),
    "not low enough": lambda q, s: torch.where(positions(q) >= 0, s, -5.0),
    "added ones": lambda q, s: s + torch.ones(s.shape[-2:]).tril(),
    "written to": lambda q, s: s.masked_fill(written_over(q) == 0, -math.inf),
    "of the input": lambda q, s: s.masked_fill(torch.ones_like(s).tril() * q[0, 0, 0, 0] == 0, -9),
}


def program(change: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = change(q, q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5)
        return scores.softmax(-1) @ v

    return attention


def given_mask(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mask = nn.Transformer.generate_square_subsequent_mask(q.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def causal_calls(function: Callable[..., Tensor], dynamic: bool | None = None) -> int:
    """Compare values and gradients with eager; return how many calls are known as causal."""
    inputs = [torch.randn(2, 3, 9, 4, requires_grad=True) for _ in range(3)]
    minitorch2.reset()
    with stages.collect() as log:
        found = minitorch2.compile(function, backend="aot_eager", dynamic=dynamic)(*inputs)
    expected = function(*inputs)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    pairs = (torch.autograd.grad(result.square().sum(), inputs) for result in (found, expected))
    torch.testing.assert_close(*pairs, rtol=1e-3, atol=1e-4)
    return sum(text.count("is_causal=True") for text in log.texts("rewrites.txt"))


@pytest.mark.parametrize("name", CAUSAL)
def test_a_causal_mask_of_constants_is_found(name: str) -> None:
    assert causal_calls(program(CAUSAL[name])) == 1


def test_a_causal_mask_that_is_given_to_the_operator_is_found() -> None:
    assert causal_calls(given_mask) == 1


@pytest.mark.parametrize("name", OTHERS)
def test_another_mask_is_kept(name: str) -> None:
    assert causal_calls(program(OTHERS[name])) == 0


def test_a_mask_of_a_symbolic_size_is_kept() -> None:
    assert causal_calls(program(CAUSAL["comparison"]), dynamic=True) == 0


def test_what_only_made_the_mask_goes_even_if_it_might_have_raised() -> None:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows = torch.arange(q.shape[-2])
        order = rows[rows]  # an index out of range would raise
        return F.scaled_dot_product_attention(q, k, v, order[:, None] >= order)

    assert causal_calls(attention) == 1
    minitorch2.reset()
    with stages.collect() as log, torch.no_grad():
        minitorch2.compile(attention, backend="aot_eager")(*(torch.randn(2, 3, 9, 4),) * 3)
    (text,) = log.texts("aten graph.py")
    assert "attention" in text and "arange" not in text


def test_a_default_device_without_data_changes_nothing() -> None:
    with torch.device("meta"):
        inputs = [torch.ones(2, 3, 9, 4) for _ in range(3)]
        found = minitorch2.compile(program(CAUSAL["a triangle of ones"]))(*inputs)
    assert (found.device.type, found.shape) == ("meta", (2, 3, 9, 4))
