"""Functions that `torch.optim` calls, as Python: steps counted in tensors, and fused updates."""

from __future__ import annotations

from typing import Any

import torch


def get_value(x: Any) -> Any:
    """``_get_value`` of `torch.optim`: in eager PyTorch a number, as precise as a double"""
    return x.double() if isinstance(x, torch.Tensor) else x


def zero_grad(self: Any, set_to_none: bool = True) -> None:
    """``Optimizer.zero_grad``: a gradient that becomes None need not be looked at"""
    for group in self.param_groups:
        for parameter in group["params"]:
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                if parameter.grad.grad_fn is not None:
                    parameter.grad.detach_()
                else:
                    parameter.grad.requires_grad_(False)
                parameter.grad.zero_()


def add_(tensor: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``tensor.add_`` with a factor that is a tensor, as optimizers use it when compiled"""
    return tensor.add_(other * alpha)


def addcdiv_(tensor: Any, numerator: Any, denominator: Any, *, value: Any = 1) -> Any:
    """``tensor.addcdiv_`` with a factor that is a tensor, as optimizers use it when compiled"""
    return tensor.add_(numerator / denominator * value)


def foreach_addcdiv_(tensors: Any, numerators: Any, denominators: Any, factors: Any) -> None:
    """``torch._foreach_addcdiv_`` with a tensor of factors, as optimizers use it when compiled"""
    for tensor, numerator, denominator, factor in zip(
        tensors, numerators, denominators, factors, strict=True
    ):
        tensor.add_(numerator / denominator * factor)


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


# Fused updates ------------------------------------------------------------------------------------


def _put(tensor: Any, value: Any, found_inf: Any) -> None:
    """Store a new value, unless gradients were found to be infinite."""
    tensor.copy_(value if found_inf is None else torch.where(found_inf == 1, tensor, value))


def _unscaled(grad: Any, maximize: bool, grad_scale: Any, found_inf: Any) -> Any:
    """Return the gradient to descend along; undo the scaling of a `GradScaler` in place."""
    if grad_scale is not None:
        _put(grad, grad / grad_scale, found_inf)
    return -grad if maximize else grad


def _fused_adam(
    decoupled: bool,
    lists: Any,
    *,
    lr: Any,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> None:
    params, grads, averages, squares, largest, steps = lists
    for i, param in enumerate(params):
        grad = _unscaled(grads[i], maximize, grad_scale, found_inf)
        value = param
        if weight_decay != 0 and decoupled:
            value = param - lr * weight_decay * param
        elif weight_decay != 0:
            grad = grad + param * weight_decay
        step = get_value(steps[i])
        average = torch.lerp(averages[i], grad, 1 - beta1)
        square = squares[i] * beta2 + (1 - beta2) * grad * grad
        top = torch.maximum(largest[i], square) if amsgrad else square
        size = lr / (1 - beta1**step)
        denominator = top.sqrt() / (1 - beta2**step) ** 0.5 + eps
        _put(param, value - size * average / denominator, found_inf)
        _put(averages[i], average, found_inf)
        _put(squares[i], square, found_inf)
        if amsgrad:
            _put(largest[i], top, found_inf)


def fused_adam_(*lists: Any, **options: Any) -> None:
    """``torch._fused_adam_``"""
    _fused_adam(False, lists, **options)


def fused_adamw_(*lists: Any, **options: Any) -> None:
    """``torch._fused_adamw_``"""
    _fused_adam(True, lists, **options)


def fused_sgd_(
    self: Any,
    grads: Any,
    momentum_buffer_list: Any,
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> None:
    """``torch._fused_sgd_``"""
    for i, param in enumerate(self):
        grad = _unscaled(grads[i], maximize, grad_scale, found_inf)
        if weight_decay != 0:
            grad = grad + param * weight_decay
        if momentum != 0:
            buffer = momentum_buffer_list[i]
            kept = grad if is_first_step else momentum * buffer + (1 - dampening) * grad
            grad = grad + momentum * kept if nesterov else kept
            _put(buffer, kept, found_inf)
        _put(param, param - lr * grad, found_inf)


def fused_adagrad_(
    self: Any,
    grads: Any,
    state_sums: Any,
    state_steps: Any,
    *,
    lr: Any,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> None:
    """``torch._fused_adagrad_``"""
    for i, param in enumerate(self):
        grad = _unscaled(grads[i], maximize, grad_scale, found_inf)
        if weight_decay != 0:
            grad = grad + param * weight_decay
        size = lr / (1 + (get_value(state_steps[i]) - 1) * lr_decay)
        total = state_sums[i] + grad * grad
        _put(param, param - size * grad / (total.sqrt() + eps), found_inf)
        _put(state_sums[i], total, found_inf)
