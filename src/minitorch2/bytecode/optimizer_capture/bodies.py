"""Functions that `torch.optim` calls, as Python: steps counted in tensors, and fused updates."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from minitorch2.bytecode.polyfills.transforms import refuse


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


def step_if_finite(self: Any, optimizer: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
    """``GradScaler._maybe_opt_step``: Python runs the frame if a gradient is infinite, which is
    rare"""
    for found_inf in state["found_inf_per_device"].values():
        torch._check(found_inf == 0)  # type: ignore[no-untyped-call]
    return optimizer.step(*args, **kwargs)


def step_on_plateau(self: Any, metrics: Any, epoch: Any = None) -> None:
    """``ReduceLROnPlateau.step``: the graph chooses among numbers, where Python branches"""
    groups, kind = self.optimizer.param_groups, type(self)
    if kind is not ReduceLROnPlateau or epoch is not None or len(groups) != len(self.min_lrs):
        refuse("a plateau with an epoch, other rates or methods of its own", "not-inlined")
    self.last_epoch += 1
    current, best = _number(float(metrics)), _number(self.best)
    is_better = self._is_better(current, best)
    cooldown = torch.as_tensor(self.cooldown_counter)
    is_cooling = cooldown > 0
    bad = torch.where(is_better | is_cooling, 0, torch.as_tensor(self.num_bad_epochs) + 1)
    is_reduced = bad > self.patience
    for group, least in zip(groups, self.min_lrs, strict=True):
        old = _number(group["lr"])
        new = (old * self.factor).clamp(min=least)
        chosen = torch.where(is_reduced & (old - new > self.eps), new, old)
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(chosen)
        else:
            group["lr"] = chosen.item()
    self.best = torch.where(is_better, current, best).item()
    self.num_bad_epochs = torch.where(is_reduced, 0, bad).item()
    cooldown = torch.where(is_reduced, self.cooldown, cooldown - is_cooling.to(torch.int64))
    self.cooldown_counter = cooldown.item()
    rates = [group["lr"] for group in groups]
    self._last_lr = [lr.clone() if isinstance(lr, torch.Tensor) else lr for lr in rates]


def _number(value: Any) -> Any:
    return torch.as_tensor(value, dtype=torch.float64)


# Fused updates ------------------------------------------------------------------------------------


def _options(given: Any) -> Any:
    return SimpleNamespace(**{"grad_scale": None, "found_inf": None, **given})


def _put(tensor: Any, value: Any, o: Any) -> None:
    """Store a new value, unless gradients were found to be infinite."""
    tensor.copy_(value if o.found_inf is None else torch.where(o.found_inf == 1, tensor, value))


def _unscaled(grad: Any, o: Any) -> Any:
    """Return the gradient to descend along; undo the scaling of a `GradScaler` in place."""
    if o.grad_scale is not None:
        _put(grad, grad / o.grad_scale, o)
    return -grad if o.maximize else grad


def _fused_adam(decoupled: bool, lists: Any, o: Any) -> None:
    params, grads, averages, squares, largest, steps = lists
    for i, param in enumerate(params):
        grad = _unscaled(grads[i], o)
        value = param
        if o.weight_decay != 0 and decoupled:
            value = param - o.lr * o.weight_decay * param
        elif o.weight_decay != 0:
            grad = grad + param * o.weight_decay
        step = get_value(steps[i])
        average = torch.lerp(averages[i], grad, 1 - o.beta1)
        square = squares[i] * o.beta2 + (1 - o.beta2) * grad * grad
        top = torch.maximum(largest[i], square) if o.amsgrad else square
        size = o.lr / (1 - o.beta1**step)
        denominator = top.sqrt() / (1 - o.beta2**step) ** 0.5 + o.eps
        _put(param, value - size * average / denominator, o)
        _put(averages[i], average, o)
        _put(squares[i], square, o)
        if o.amsgrad:
            _put(largest[i], top, o)


def fused_adam_(*lists: Any, **options: Any) -> None:
    """``torch._fused_adam_``"""
    _fused_adam(False, lists, _options(options))


def fused_adamw_(*lists: Any, **options: Any) -> None:
    """``torch._fused_adamw_``"""
    _fused_adam(True, lists, _options(options))


def fused_sgd_(self: Any, grads: Any, momentum_buffer_list: Any, **options: Any) -> None:
    """``torch._fused_sgd_``"""
    o = _options(options)
    for i, param in enumerate(self):
        grad = _unscaled(grads[i], o)
        if o.weight_decay != 0:
            grad = grad + param * o.weight_decay
        if o.momentum != 0:
            buffer = momentum_buffer_list[i]
            kept = grad if o.is_first_step else o.momentum * buffer + (1 - o.dampening) * grad
            grad = grad + o.momentum * kept if o.nesterov else kept
            _put(buffer, kept, o)
        _put(param, param - o.lr * grad, o)


def fused_adagrad_(self: Any, grads: Any, sums: Any, steps: Any, **options: Any) -> None:
    """``torch._fused_adagrad_``"""
    o = _options(options)
    for i, param in enumerate(self):
        grad = _unscaled(grads[i], o)
        if o.weight_decay != 0:
            grad = grad + param * o.weight_decay
        size = o.lr / (1 + (get_value(steps[i]) - 1) * o.lr_decay)
        total = sums[i] + grad * grad
        _put(param, param - size * grad / (total.sqrt() + o.eps), o)
        _put(sums[i], total, o)
