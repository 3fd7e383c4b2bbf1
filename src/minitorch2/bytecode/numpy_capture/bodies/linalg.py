"""Linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from minitorch2.bytecode.numpy_capture.bodies.dtypes import promoted, refuse, stored, tensor_of


def numbers(a: Any) -> Any:
    """Return the tensor in a dtype of `numpy.linalg` and `numpy.fft`: at least single precision."""
    value = tensor_of(a)
    if value.dtype is torch.float16:
        refuse("linear algebra in half precision")
    return value if value.is_floating_point() or value.is_complex() else value.to(torch.float64)


def inv(a: Any) -> Any:
    """``numpy.linalg.inv``"""
    return torch.linalg.inv(numbers(a))


def det(a: Any) -> Any:
    """``numpy.linalg.det``"""
    return torch.linalg.det(numbers(a))


def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """``numpy.linalg.cholesky``"""
    if upper:
        refuse("the other triangle, which NumPy reads")
    return torch.linalg.cholesky(numbers(a))


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """``numpy.linalg.eigvalsh``"""
    return torch.linalg.eigvalsh(numbers(a), UPLO=UPLO)


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """``numpy.linalg.svd``"""
    if compute_uv or hermitian:
        refuse("singular vectors, which are known up to their signs")
    return torch.linalg.svdvals(numbers(a))


def slogdet(a: Any, signature: Any = None) -> Any:
    """``numpy.linalg.slogdet``"""
    return tuple(torch.linalg.slogdet(a))


def svdvals(x: Any, /) -> Any:
    """``numpy.linalg.svdvals``"""
    return torch.linalg.svdvals(numbers(x))


def solve(a: Any, b: Any) -> Any:
    """``numpy.linalg.solve``"""
    left, right = promoted([numbers(a), numbers(b)])
    if right.ndim == 1:
        return torch.linalg.solve(left, right.unsqueeze(-1)).squeeze(-1)
    if left.ndim != right.ndim:
        refuse("right sides of other dimensions")
    return torch.linalg.solve(left, right)


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """``numpy.linalg.pinv``"""
    if rcond is not None or rtol is not None or hermitian:
        refuse("a pseudo-inverse with a tolerance")
    return torch.linalg.pinv(numbers(a))


def _along_axis(transform: Callable[..., Any], real: bool = False) -> Callable[..., Any]:
    def body(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        return stored(transform(_real(a) if real else numbers(a), n, axis, norm), out)

    return body


def _over_axes(
    transform: Callable[..., Any], default: Any = None, real: bool = False
) -> Callable[..., Any]:
    def body(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Any:
        if s is not None and axes is None:
            refuse("sizes without axes")
        return stored(transform(_real(a) if real else numbers(a), s, axes, norm), out)

    return body


def _real(a: Any) -> Any:
    value = numbers(a)
    if value.is_complex():
        refuse("the transform of real numbers, of complex ones")
    return value


FOURIER: Final[dict[Any, Callable[..., Any]]] = {
    **{getattr(np.fft, n): _along_axis(getattr(torch.fft, n)) for n in ("fft", "ifft", "hfft")},
    np.fft.irfft: _along_axis(torch.fft.irfft),
    np.fft.rfft: _along_axis(torch.fft.rfft, real=True),
    np.fft.ihfft: _along_axis(torch.fft.ihfft, real=True),
    **{getattr(np.fft, n): _over_axes(getattr(torch.fft, n)) for n in ("fftn", "ifftn", "irfftn")},
    np.fft.rfftn: _over_axes(torch.fft.rfftn, real=True),
    **{
        getattr(np.fft, name): _over_axes(getattr(torch.fft, name), (-2, -1), name == "rfft2")
        for name in ("fft2", "ifft2", "rfft2", "irfft2")
    },
}
"""The transforms of `numpy.fft`."""
