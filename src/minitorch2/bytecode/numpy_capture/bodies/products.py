"""Products, of vectors, matrices and signals."""

from __future__ import annotations

from typing import Any

import torch

from minitorch2.bytecode.numpy_capture.bodies.dtypes import promoted, refuse, stored, tensor_of


def factors(*tensors: Any) -> list[Any]:
    """Return the operands of a product in their common dtype."""
    parts = promoted([tensor_of(tensor) for tensor in tensors])
    if parts[0].dtype in (torch.bool, torch.float16):
        refuse("a product of these numbers")
    return parts


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """``numpy.dot``"""
    left, right = factors(a, b)
    if not left.ndim or not right.ndim:
        return stored(left * right, out)
    if right.ndim <= 2:
        return stored(torch.matmul(left, right), out)
    return stored(torch.tensordot(left, right, ([left.ndim - 1], [right.ndim - 2])), out)


def matmul(a: Any, b: Any, out: Any = None) -> Any:
    """``numpy.matmul``"""
    left, right = factors(a, b)
    return stored(torch.matmul(left, right), out)


def vecdot(a: Any, b: Any) -> Any:
    """``numpy.vecdot``"""
    left, right = factors(a, b)
    return torch.linalg.vecdot(left, right)


def inner(a: Any, b: Any) -> Any:
    """``numpy.inner``"""
    left, right = factors(a, b)
    if not left.ndim or not right.ndim:
        return left * right
    return torch.tensordot(left, right, ([left.ndim - 1], [right.ndim - 1]))


def vdot(a: Any, b: Any) -> Any:
    """``numpy.vdot``"""
    left, right = factors(a, b)
    left, right = left.reshape(-1), right.reshape(-1)
    if left.shape != right.shape:
        refuse("numpy.vdot of different sizes")  # which is an error
    return (
        (left.conj_physical() * right).sum()
        if left.is_complex()
        else (left * right).sum(dtype=left.dtype)
    )


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Any:
    """``numpy.cross``"""
    left, right = factors(a, b)
    if axis not in (None, -1) or (axisa, axisb, axisc) != (-1, -1, -1):
        refuse("numpy.cross along another axis")
    if left.shape[-1] != 3 or right.shape[-1] != 3:
        refuse("numpy.cross of two dimensions")
    return torch.linalg.cross(left, right)


def kron(a: Any, b: Any) -> Any:
    """``numpy.kron``"""
    return torch.kron(*promoted([tensor_of(a), tensor_of(b)]))


def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """``numpy.correlate``"""
    longer, shorter = factors(a, v)
    if mode not in ("full", "valid", "same") or not longer.is_floating_point():
        refuse("numpy.correlate of these numbers")
    if longer.ndim != 1 or shorter.ndim != 1 or longer.shape[0] < shorter.shape[0]:
        refuse("numpy.correlate of these arrays")
    size = shorter.shape[0]
    left, right = {"full": (size - 1, size - 1), "valid": (0, 0)}.get(
        mode, (size // 2, size - 1 - size // 2)
    )
    padded = torch.nn.functional.pad(longer, (left, right))
    return padded.unfold(0, size, 1) @ shorter


def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """``numpy.convolve``"""
    left, right = tensor_of(a), tensor_of(v)
    if left.ndim != 1 or right.ndim != 1:
        refuse("numpy.convolve of these arrays")
    if right.shape[0] > left.shape[0]:
        left, right = right, left
    return correlate(left, right.flip(0), mode)


def einsum(
    *operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None,
    order: Any = "K", casting: Any = "safe",
) -> Any:  # fmt: skip
    """``numpy.einsum``"""
    if not isinstance(operands[0], str) or dtype is not None:
        refuse("numpy.einsum in this form")
    parts = factors(*operands[1:])
    made = torch.einsum(operands[0], *parts)
    if len(parts) == 1 and "->" in operands[0]:
        refuse("numpy.einsum that may be a view")
    return stored(made, out)
