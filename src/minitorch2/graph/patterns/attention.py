"""Rules of ``fuse_attention``: attention written by hand becomes ``scaled_dot_product_attention``.

::

    softmax(q @ k.mT * scale + mask) @ v  -->  scaled_dot_product_attention(q, k, v, mask, scale)

People write it in many ways, which are combinations of three choices: how scores are scaled, how
they are masked, in which dtype their softmax is. A choice writes its part of both sides; the rules
are all combinations.

Equal up to rounding. A row in which everything is masked is NaN or the mean of ``v``, without a
gradient; the operator would give another, so such rows are put in again. Dropout in force is left
as it is: the operator would draw other numbers than the program does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as F

from minitorch2.graph.patterns.rule import Condition, rule
from minitorch2.graph.symbols import same_sizes

INFINITY: Final = math.inf

# Scores: ``(q, k, number) -> scores, factor``

SCORES: Final[dict[str, Callable[[Any, Any, Any], tuple[Any, Any]]]] = {
    "q @ k.mT * scale": lambda q, k, n: (q @ k.mT * n, n),
    "q @ k.mT / scale": lambda q, k, n: (q @ k.mT / n, 1 / n),
    "(q * scale) @ k.mT": lambda q, k, n: ((q * n) @ k.mT, n),
    "(q / scale) @ k.mT": lambda q, k, n: ((q / n) @ k.mT, 1 / n),
    "q @ (k.mT * scale)": lambda q, k, n: (q @ (k.mT * n), n),
    "q @ k.mT": lambda q, k, n: (q @ k.mT, 1.0),
}

# Masks: ``(scores, mask, number, zero) -> masked scores, mask to add, what is masked``


def _unmasked(scores: Any, mask: Any, value: Any, zero: Any) -> tuple[Any, Any, Any]:
    return scores, None, None


def _added(scores: Any, mask: Any, value: Any, zero: Any) -> tuple[Any, Any, Any]:
    return scores + mask, mask, mask == -INFINITY


def _filled(scores: Any, mask: Any, value: Any, zero: Any) -> tuple[Any, Any, Any]:
    return scores.masked_fill(mask, value), zero.masked_fill(mask, value), mask


def _chosen(scores: Any, mask: Any, value: Any, zero: Any) -> tuple[Any, Any, Any]:
    return torch.where(mask, scores, value), torch.where(mask, zero, value), ~mask


# What a row is in which everything is masked: by a number, the mean of ``v``; by -inf, NaN.


def _mean(v: Any) -> Any:
    return v.mean(-2, keepdim=True)


def _nan(v: Any) -> Any:
    return math.nan


def _is_low(value: float, **_: Any) -> bool:
    """Return whether any score added to the number is lost in rounding: adding it is replacing."""
    return torch.finfo(torch.float32).min <= value <= -1e30


def _is_infinity(value: float, **_: Any) -> bool:
    return value == -INFINITY


def _is_float(mask: Tensor, **_: Any) -> bool:
    return mask.dtype.is_floating_point


MASKS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any], Condition]]] = {
    "{}": (_unmasked, _nan, lambda **_: True),
    "{} + mask": (_added, _nan, _is_float),
    "({}).masked_fill(mask, value)": (_filled, _mean, _is_low),
    "({}).masked_fill(mask, -inf)": (_filled, _nan, _is_infinity),
    "where(mask, {}, value)": (_chosen, _mean, _is_low),
    "where(mask, {}, -inf)": (_chosen, _nan, _is_infinity),
}

# Masks that are causal for all inputs, since the graph computes them of constants


def _is_triangle(
    mask: Tensor, q: Tensor, k: Tensor, value: float = -INFINITY, hides: bool = False, **_: Any
) -> bool:
    """Return whether each row sees the columns up to its own number, and no other."""
    known: Tensor | None = getattr(mask, "known", None)  # see ``passes/fuse_causal_attention.py``
    if known is None or known.shape[-2:] != (q.shape[-2], k.shape[-2]) or value > -1e30:
        return False
    sees = known ^ hides if known.dtype == torch.bool else known == 0
    is_mask = known.dtype == torch.bool or bool((sees | (known <= -1e30)).all())
    return is_mask and bool((sees == torch.ones_like(sees).tril()).all())


def _hides_triangle(**found: Any) -> bool:
    return _is_triangle(**found, hides=True)


TRIANGLES: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any], Condition]]] = {
    "{} + triangle": (_added, _nan, _is_triangle),
    "({}).masked_fill(triangle, value)": (_filled, _nan, _hides_triangle),
    "where(triangle, {}, value)": (_chosen, _nan, _is_triangle),
}

# Softmax: ``(scores, dtype) -> weights``

WEIGHTS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "softmax({})": lambda scores, dtype: F.softmax(scores, -1),
    "softmax(({}).float()).to(dtype)": (
        lambda scores, dtype: F.softmax(scores.to(torch.float32), -1).to(dtype)
    ),
    "softmax({}, dtype=float32).to(dtype)": (
        lambda scores, dtype: F.softmax(scores, -1, dtype=torch.float32).to(dtype)
    ),
}


def _has_a_kernel(q: Tensor, k: Tensor, v: Tensor, **_: Any) -> bool:
    """Return whether fused kernels exist: four dimensions, the first two equal (no broadcast)."""
    if not all(x.dim() == 4 and x.dtype.is_floating_point for x in (q, k, v)):
        return False
    return same_sizes(q.shape[:2], k.shape[:2]) and same_sizes(k.shape[:3], v.shape[:3])


def _is_one_kernel(q: Tensor, v: Tensor) -> bool:
    """Return whether loops on a GPU become one kernel with masks; gradients have none."""
    is_trained = torch.is_grad_enabled() and (q.requires_grad or v.requires_grad)
    is_short = q.device.type == "cuda" and q.dtype.itemsize == 2
    rows, width = q.shape[-2:]
    return is_short and not is_trained and isinstance(rows, int) and rows >= 16 and width <= 256


def _add_rule(score_form: str, mask_form: str, weight_form: str) -> None:
    scores_of, weights_of = SCORES[score_form], WEIGHTS[weight_form]
    masked, whole_row, holds = (MASKS | TRIANGLES)[mask_form]
    is_causal = mask_form in TRIANGLES

    def attention(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        scale: float,
        mask: Tensor,
        value: float,
        dtype: torch.dtype,
    ) -> tuple[Any, Any]:
        scores, factor = scores_of(q, k, scale)
        scores, bias, away = masked(scores, mask, value, q.new_zeros(()))
        masks = {"is_causal": True} if is_causal else {"attn_mask": bias}
        fused = F.scaled_dot_product_attention(q, k, v, **masks, scale=factor)
        if away is not None and not is_causal:
            fused = torch.where(away.all(-1, keepdim=True), whole_row(v), fused)
        return weights_of(scores, dtype) @ v, fused

    written = weight_form.format(mask_form.format(score_form))
    more = "is_causal=True" if is_causal else "..."
    attention.__doc__ = f"``{written} @ v --> scaled_dot_product_attention(q, k, v, {more})``"

    def condition(**found: Any) -> bool:
        is_masked = masked is not _unmasked and not is_causal
        is_left = is_masked and _is_one_kernel(found["q"], found["v"])
        return not is_left and _has_a_kernel(**found) and holds(**found)

    family = "fuse_causal_attention" if is_causal else "fuse_attention"
    rule(family, when=condition)(attention)


@rule("fuse_causal_attention", when=_is_triangle)
def causal_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: Any) -> tuple[Any, Any]:
    """``attention(q, k, v, triangle) --> attention(q, k, v, is_causal=True)``"""
    return (
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale),
        F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale),
    )


for _forms in product(SCORES, MASKS | TRIANGLES, WEIGHTS):
    _add_rule(*_forms)
