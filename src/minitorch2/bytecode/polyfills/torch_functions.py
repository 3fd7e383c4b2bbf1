"""Functions of PyTorch that C++ makes of others, looking at data where shapes would do."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from minitorch2.bytecode.guards.settings import set_anomaly, set_anomaly_of_nan
from minitorch2.native.torch_internals.functions import BackwardHookFunction


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


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Compute `torch.nn.functional.one_hot`; PyTorch's looks at the data inside a transform."""
    if tensor.dtype != torch.int64 or num_classes <= 0:
        return torch.ops.aten.one_hot(tensor, num_classes)
    check = torch.ops.aten._assert_async.msg
    check((tensor >= 0).all(), "Class values must be non-negative.")
    check((tensor < num_classes).all(), "Class values must be smaller than num_classes.")
    classes = torch.arange(num_classes, device=tensor.device)
    return (tensor.unsqueeze(-1) == classes).to(torch.int64)


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


def equal(input: Any, other: Any) -> Any:
    """``torch.equal``, as a number that only data will tell"""
    if (input.dtype, input.device) != (other.dtype, other.device):
        return torch.ops.aten.equal(input, other)
    return input.shape == other.shape and (input == other).all().item()


def allclose(*args: Any, **options: Any) -> Any:
    """``torch.allclose``, as a number that only data will tell"""
    return torch.isclose(*args, **options).all().item()


def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """``torch.istft`` of real signals: the graph checks that windows overlap, not the capture"""
    given = input, n_fft, hop_length, win_length, window, center, normalized, onesided, length
    step = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if return_complex or input.ndim < 2 or not input.is_complex() or not 0 < step <= width <= n_fft:
        return torch.ops.aten.istft(*given, return_complex=return_complex)
    halved = input.shape[-2] != n_fft if onesided is None else onesided
    rows, total = input.shape[:-2], n_fft + step * (input.shape[-1] - 1)
    start = n_fft // 2 if center else 0
    end = total - start if length is None else start + length
    if window is None:
        window = torch.ones(width, dtype=input.real.dtype, device=input.device)
    is_wrong = input.shape[-2] != (n_fft // 2 + 1 if halved else n_fft) or input.numel() == 0
    if is_wrong or end > total or window.shape != (width,) or window.is_complex():
        return torch.ops.aten.istft(*given)
    left = (n_fft - width) // 2
    window = torch.nn.functional.pad(window, (left, n_fft - width - left))
    scale = "ortho" if normalized else "backward"  # of a whole spectrum, eager reads one half
    parts = torch.fft.irfft(input.mT[..., : n_fft // 2 + 1], n_fft, norm=scale) * window

    def overlap(parts: Any, rows: Any) -> Any:
        whole = torch.ops.aten.unfold_backward(parts, [*rows, total], len(rows), n_fft, step)
        return whole[..., start:end]

    weight = overlap(window.square().expand(input.shape[-1], n_fft), ())
    message = "istft: the window overlap add has a minimum below 1e-11"
    torch.ops.aten._assert_async.msg(weight.abs().min() > 1e-11, message)
    return overlap(parts, rows) / weight


def select(tensor: Any, dim: int, index: Any) -> Any:
    """``tensor.select(dim, index)``: without a message, Python runs a frame whose check fails"""
    torch._check(index >= 0, "")  # type: ignore[no-untyped-call]
    torch._check(index < tensor.shape[dim], "")  # type: ignore[no-untyped-call]
    return torch.select(tensor, dim, index)


def is_symmetric(constraint: Any, value: Any) -> Any:
    """`torch.distributions.constraints.symmetric`; that a matrix is square is known at once"""
    if value.shape[-2] != value.shape[-1]:
        return torch.full(value.shape[:-2], False, dtype=torch.bool, device=value.device)
    return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


def is_positive_definite(constraint: Any, value: Any) -> Any:
    """`torch.distributions.constraints.positive_definite`; PyTorch's branches on whether all
    matrices are symmetric"""
    symmetric = is_symmetric(constraint, value)
    if value.shape[-2] != value.shape[-1]:
        return symmetric
    return torch.where(symmetric.all(), torch.linalg.cholesky_ex(value).info.eq(0), symmetric)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """``torch.use_deterministic_algorithms``"""
    torch.set_deterministic_debug_mode((1 if warn_only else 2) if mode else 0)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """``torch.set_anomaly_enabled``, as two settings"""
    set_anomaly(enabled)
    set_anomaly_of_nan(check_nan)


def next_hook_number() -> int:
    """Take the number of a new hook: no other hook has it."""
    RemovableHandle.next_id += 1
    return RemovableHandle.next_id - 1


def make_handle(self: Any, hooks_dict: Any, *, extra_dict: Any = None) -> None:
    """``RemovableHandle(hooks_dict, extra_dict)``: no graph depends on the number of the hook"""
    self.hooks_dict_ref = weakref.ref(hooks_dict)
    self.id = next_hook_number()
    more = [extra_dict] if isinstance(extra_dict, dict) else extra_dict or []
    self.extra_dict_ref = tuple(weakref.ref(each) for each in more)


def hook_tensors(self: Any, set_hook: Any, args: Any) -> Any:
    """``BackwardHook._apply_on_tensors``: of a module that takes or gives one tensor, the hook is
    the tensor's"""
    places = [place for place, value in enumerate(args) if isinstance(value, torch.Tensor)]
    needed = [args[place].requires_grad for place in places]
    if not (any(needed) and torch.is_grad_enabled()):
        return args, None
    made = BackwardHookFunction.apply(*[args[place] for place in places])
    first = made[needed.index(True)]

    def set_on_first(hook: Any) -> Any:
        def of_tensor(gradient: Any) -> Any:
            changed = hook((gradient,), (gradient,))
            return None if changed is None else changed[0]

        return first.register_hook(of_tensor)

    set_hook(SimpleNamespace(register_hook=set_on_first) if len(made) == 1 else first.grad_fn)
    values = list(args)
    for place, tensor in zip(places, made, strict=True):
        values[place] = tensor
    return (tuple(values) if type(args) is tuple else type(args)(*values)), places
