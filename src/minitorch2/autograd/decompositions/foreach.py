"""Operators on lists of tensors, as one operator per tensor: optimizers use them.

Separate operators are fused into one kernel over a list, which is the purpose of these operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final

import torch
from torch import Tensor

from minitorch2.autograd.decompositions.registry import Operator, register_decomposition

_UNARY: Final = "abs neg exp log sqrt rsqrt reciprocal sigmoid tanh sign floor ceil"
_BINARY: Final = "add sub mul div pow maximum minimum clamp_min clamp_max"
_TERNARY: Final = "addcmul addcdiv lerp"


_WITH_NUMBER: Final = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _choose(of_tensors: Any, with_number: Any, x: Tensor, other: Any) -> Any:
    return (of_tensors if isinstance(other, Tensor) else with_number)(x, other)


def _per_tensor(name: str) -> Callable[..., list[Tensor]]:
    function = getattr(torch.ops.aten, name)
    if name in _WITH_NUMBER:
        function = partial(_choose, function, getattr(torch.ops.aten, _WITH_NUMBER[name]))

    def decomposition(tensors: Sequence[Tensor], *operands: Any, **options: Any) -> list[Tensor]:
        """Return the operator on each tensor, with that tensor's operand or the one for all."""
        if name in ("addcmul", "addcdiv") and len(operands) == 3:
            scale = operands[2]
            scales = scale if isinstance(scale, (list, tuple)) else repeat(scale)
            rows = zip(tensors, operands[0], operands[1], scales, strict=False)
            return [function(x, a, b, value=value) for x, a, b, value in rows]
        columns = [v if isinstance(v, (list, tuple)) else repeat(v) for v in operands]
        return [function(*row, **options) for row in zip(tensors, *columns, strict=False)]

    return decomposition


# Their first argument is no list (see below), or they read scales out of a tensor.
_OTHERS: Final = ("_foreach_pow.ScalarAndTensor", "_foreach_addcmul.Tensor",
                  "_foreach_addcdiv.Tensor")  # fmt: skip


def _overloads(name: str) -> list[Operator]:
    packet = getattr(torch.ops.aten, f"_foreach_{name}")
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    known = [o for o in overloads if not str(o).endswith(_OTHERS)]
    return [overload for overload in known if not overload._schema.is_mutable]


for _name in f"{_UNARY} {_BINARY} {_TERNARY}".split():
    register_decomposition(*_overloads(_name))(_per_tensor(_name))


@register_decomposition(torch.ops.aten._foreach_pow.ScalarAndTensor)
def _foreach_pow(base: float, exponents: Sequence[Tensor]) -> list[Tensor]:
    """Return one number to the power of each tensor."""
    return [torch.ops.aten.pow.Scalar(base, exponent) for exponent in exponents]


@register_decomposition(torch.ops.aten._foreach_norm.Scalar)
def _foreach_norm(
    tensors: Sequence[Tensor], order: float = 2, dtype: torch.dtype | None = None
) -> list[Tensor]:
    """Return the norm of each tensor, over all of its elements."""
    return [torch.ops.aten.linalg_vector_norm(x, order, dtype=dtype) for x in tensors]
