"""Rules of ``fold_batch_norm``: a normalization with fixed statistics is part of the convolution
before it.

It multiplies each channel by a number and adds another, and so does a convolution; all these
numbers are constants of a frozen graph, so constant folding leaves one convolution. Equal up to
rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from minitorch2.graph.patterns.rule import Constant, rule


def _add_rules(convolution: Callable[..., Any], ones: tuple[int, ...]) -> None:
    """``ones``: the sizes of a weight behind its first dimension, to broadcast along it."""

    def with_bias(
        x: Tensor, w: Constant, b: Constant, mean: Constant, variance: Constant,
        weight: Constant, bias: Constant, momentum: Any, epsilon: float,
        stride: Any, padding: Any, dilation: Any, groups: Any,
    ) -> tuple[Any, Any]:  # fmt: skip
        where = (stride, padding, dilation, groups)
        before = F.batch_norm(
            convolution(x, w, b, *where), mean, variance, weight, bias, False, momentum, epsilon
        )
        factor = weight * torch.rsqrt(variance + epsilon)
        shift = bias - mean * factor if b is None else (b - mean) * factor + bias
        return before, convolution(x, w * factor.reshape(-1, *ones), shift, *where)

    def without_bias(
        x: Tensor, w: Constant, mean: Constant, variance: Constant,
        weight: Constant, bias: Constant, momentum: Any, epsilon: float,
        stride: Any, padding: Any, dilation: Any, groups: Any,
    ) -> tuple[Any, Any]:  # fmt: skip
        rest = (mean, variance, weight, bias, momentum, epsilon)
        return with_bias(x, w, None, *rest, stride, padding, dilation, groups)  # type: ignore[arg-type]

    name = convolution.__name__
    law = f"``batch_norm({name}(x, w, b)) --> {name}(x, w * factor, b * factor + shift)``"
    for sides in (with_bias, without_bias):
        sides.__doc__ = law
        sides.__name__ = f"{name}_{sides.__name__}"
        rule("fold_batch_norm")(sides)


for _convolution, _rank in ((torch.conv1d, 1), (torch.conv2d, 2), (torch.conv3d, 3)):
    _add_rules(_convolution, (1,) * (_rank + 1))
