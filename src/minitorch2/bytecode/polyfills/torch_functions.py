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
