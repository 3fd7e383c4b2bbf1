"""Functions of PyTorch that C++ makes of others, looking at data where shapes would do."""

from __future__ import annotations

from typing import Any

import torch


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """``torch.cov`` without weights; PyTorch's looks at the number of observations as a tensor"""
    if fweights is not None or aweights is not None:
        return torch.ops.aten.cov(
            input, correction=correction, fweights=fweights, aweights=aweights
        )
    rows = input.view(1, -1) if input.ndim < 2 else input
    count = rows.shape[1]
    centered = rows - (rows.sum(1) / count).unsqueeze(1)
    products = centered @ centered.t().conj()
    return torch.true_divide(products, max(count - correction, 0)).squeeze()


def corrcoef(input: Any) -> Any:
    """``torch.corrcoef`` of real numbers"""
    covariance = torch.cov(input)
    if covariance.is_complex():
        return torch.ops.aten.corrcoef(input)
    if covariance.ndim == 0:
        return covariance / covariance
    deviation = covariance.diag().sqrt()
    scaled = covariance / deviation.view(-1, 1) / deviation.view(1, -1)
    return scaled.clip(-1, 1)


def group_tensors(lists: Any, with_indices: bool = False) -> Any:
    """``torch._C._group_tensors_by_device_and_dtype``, by which gradients are clipped"""
    groups: dict[Any, Any] = {}
    for index, row in enumerate(zip(*lists, strict=True)):
        key = row[0].device, row[0].dtype
        columns, indices = groups.setdefault(key, ([[] for _ in lists], []))
        for column, value in zip(columns, row, strict=True):
            column.append(value)
        if with_indices:
            indices.append(index)
    return groups


def addcdiv_(tensor: Any, numerator: Any, denominator: Any, *, value: Any = 1) -> Any:
    """``tensor.addcdiv_`` with a factor that is a tensor, as optimizers use it when compiled"""
    return tensor.add_(numerator / denominator * value)


def foreach_addcdiv_(tensors: Any, numerators: Any, denominators: Any, factors: Any) -> None:
    """``torch._foreach_addcdiv_`` with a tensor of factors, likewise"""
    for tensor, numerator, denominator, factor in zip(
        tensors, numerators, denominators, factors, strict=True
    ):
        tensor.add_(numerator / denominator * factor)
