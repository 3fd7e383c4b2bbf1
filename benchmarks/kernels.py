"""Single kernels at several sizes, forward and backward."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.cases import Case, Function

SIZES = [(64, 64), (512, 512), (2048, 1024)]


def chain(x: Tensor, y: Tensor) -> Tensor:
    """Eight pointwise operators that eager runs one by one."""
    return ((x * y + 1).abs().sqrt() - x.sigmoid()).clamp(-2, 2) * y.tanh()


def residual_gelu(x: Tensor, y: Tensor) -> Tensor:
    return F.gelu(x + y) + x


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x * 0.125, dim=-1)


def total(x: Tensor) -> Tensor:
    return (x * x).sum()


def sum_over(dim: int) -> Function:
    return lambda x: (x * x).sum(dim)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits, targets)


def layer_norm(width: int) -> nn.Module:
    return nn.LayerNorm(width)


def cases() -> list[Case]:
    """Every kernel at every size."""
    return [case for rows, columns in SIZES for case in cases_of(rows, columns)]


def cases_of(rows: int, columns: int) -> list[Case]:
    def one() -> tuple[Tensor, ...]:
        return (torch.randn(rows, columns),)

    def two() -> tuple[Tensor, ...]:
        return torch.randn(rows, columns), torch.randn(rows, columns)

    def labelled() -> tuple[Tensor, ...]:
        return torch.randn(rows, columns), torch.randint(columns, (rows,))

    def named(name: str) -> str:
        return f"{name} {rows}x{columns}"

    return [
        Case(named("pointwise chain"), lambda: chain, two),
        Case(named("gelu + residual"), lambda: residual_gelu, two),
        Case(named("gelu + residual, backward"), lambda: residual_gelu, two, backward=True),
        Case(named("softmax"), lambda: softmax, one),
        Case(named("softmax, backward"), lambda: softmax, one, backward=True),
        Case(named("layer norm"), lambda: layer_norm(columns), one),
        Case(named("layer norm, backward"), lambda: layer_norm(columns), one, backward=True),
        Case(named("sum of squares"), lambda: total, one),
        Case(named("sum over rows"), lambda: sum_over(0), one),
        Case(named("sum over columns"), lambda: sum_over(1), one),
        Case(named("cross entropy"), lambda: cross_entropy, labelled),
        Case(named("cross entropy, backward"), lambda: cross_entropy, labelled, backward=True),
    ]
