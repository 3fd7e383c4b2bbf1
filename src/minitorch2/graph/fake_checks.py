"""Checks of arguments that PyTorch's kernels refuse although its meta kernels accept them.

    torch.full((2,), 300, dtype=torch.uint8)    300 does not fit
    x.as_strided((9,), (1,))                    x has 4 elements
    x[:0].max(0)                                there is no greatest element

A refused argument raises while capturing, and then in Python at the user's line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor

from minitorch2.graph.node import map_items
from minitorch2.graph.symbols.conditions import compare
from minitorch2.graph.symbols.expression import expr_of
from minitorch2.native.torch_internals.operators import OpOverload as Operator
from minitorch2.native.torch_internals.pytree import tree_leaves, tree_map_only

aten = torch.ops.aten

_REFUSED: Final = "without overflow"
"""How PyTorch ends what it says of a number that a dtype does not hold."""


def check_arguments(func: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise the error that the operator would raise.

    Args:
        func: an operator whose meta kernel accepts the arguments, or was not asked yet.
        args: its arguments, with meta tensors.
        kwargs: the same by name.

    Raises:
        RuntimeError: a number does not fit a dtype, or a view reaches beyond its memory.
        IndexError: a dimension does not exist, or is empty.
    """
    for check in _CHECKS.get(func, ()):
        check(func, *args, **kwargs)
    numbers = [value for value in (*args, *kwargs.values()) if isinstance(value, _NUMBERS)]
    if numbers and _takes_scalars(func):
        _check_numbers(func, args, kwargs, numbers)


# Numbers -----------------------------------------------------------------------------------------

_NUMBERS: Final = (int, float, torch.SymInt)


@cache
def _takes_scalars(func: Operator) -> bool:
    return any("number" in str(a.type) for a in func._schema.arguments)


def _check_numbers(
    func: Operator, args: Sequence[Any], kwargs: Mapping[str, Any], numbers: Sequence[Any]
) -> None:
    """Try the operator on a few elements if a number does not fit the tensors' dtypes."""
    for dtype in {*_dtypes(args), *_dtypes(kwargs.values())} or {torch.get_default_dtype()}:
        for number in numbers:
            if isinstance(number, torch.SymInt):
                _state_limits(func, args, kwargs, number, dtype)
            elif refusal_of(number, dtype):
                _try(func, args, kwargs)
                return


def _dtypes(values: Any) -> Iterator[torch.dtype]:
    for value in values:
        if isinstance(value, torch.dtype):
            yield value
        elif isinstance(value, Tensor):
            yield value.dtype


def refusal_of(number: complex, dtype: torch.dtype) -> str:
    """Return PyTorch's error for a number that `dtype` does not hold; empty if it holds it.

    >>> refusal_of(255, torch.uint8), refusal_of(256, torch.uint8)
    ('', 'value cannot be converted to type uint8_t without overflow')
    """
    if dtype in _COMMON and -_COMMON[dtype] <= number <= _COMMON[dtype]:  # type: ignore[operator]
        return ""
    try:
        torch.empty((), dtype=dtype).fill_(number)
    except (RuntimeError, OverflowError) as error:
        return str(error).split("\n")[0]
    return ""


_COMMON: Final = {torch.float32: 3e38, torch.float64: 1e308, torch.int64: 2**62, torch.int32: 2**30}
"""Dtypes of most tensors, and numbers that they certainly hold, up to this one."""


def _try(func: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Run the operator on real tensors of one or two elements a dimension.

    Raises:
        RuntimeError: it refuses a number; what else it may refuse is due to the small sizes.
    """
    small = [_small(value) for value in args]
    named = {name: _small(value) for name, value in kwargs.items() if name != "device"}
    try:
        if _is_small(func, small, named):
            func(*small, **named)
    except (RuntimeError, OverflowError) as error:
        if _REFUSED in str(error):
            raise
    except Exception:  # noqa: BLE001 - small sizes may fit nothing
        return


def _is_small(func: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether the results have few elements: `arange(n)` has n, and accepts any n."""
    meta = tree_map_only(Tensor, lambda tensor: tensor.to("meta"), (args, kwargs))
    factory = {"device": "meta"} if any(a.name == "device" for a in func._schema.arguments) else {}
    results = tree_leaves(func(*meta[0], **meta[1] | factory))
    return sum(result.numel() for result in results if isinstance(result, Tensor)) <= _FEW


_FEW: Final = 4096
"""Elements that a trial run may compute."""


def _small(value: Any) -> Any:
    if isinstance(value, Tensor):
        shape = [min(int(n), 2) if isinstance(n, int) else 2 for n in value.shape]
        return torch.zeros(shape, dtype=value.dtype)
    is_number = isinstance(value, (torch.SymInt, torch.SymFloat))
    return 1 if is_number else map_items(value, _small)


def _state_limits(
    func: Operator,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    number: torch.SymInt,
    dtype: torch.dtype,
) -> None:
    """Require that a symbolic or unbacked number lies within the limits of the dtype."""
    if dtype.is_floating_point or dtype.is_complex or dtype in (torch.bool, torch.int64):
        return
    limits = torch.iinfo(dtype)
    try:
        _try(func, *_with_number(args, kwargs, number, 2 * limits.max + 2))
    except RuntimeError as error:
        env, low = number.node.shape_env, min(limits.min, -limits.max * (limits.min == 0))
        for operator, limit in ((">=", low), ("<=", limits.max)):
            condition = compare(operator, expr_of(number), limit)
            if not env.expect(condition, str(error), "RuntimeError"):
                raise


def _with_number(
    args: Sequence[Any], kwargs: Mapping[str, Any], number: torch.SymInt, value: int
) -> tuple[list[Any], dict[str, Any]]:
    replaced = [value if each is number else each for each in args]
    return replaced, {name: value if v is number else v for name, v in kwargs.items()}


# Dimensions and memory ---------------------------------------------------------------------------


def _has_elements(func: Operator, x: Tensor, dim: int = 0, *_: Any, **__: Any) -> None:
    """Refuse the greatest or least element of an empty dimension."""
    if (
        isinstance(dim, int)
        and x.dim()
        and -x.dim() <= dim < x.dim()
        and expr_of(x.shape[dim]) == 0
    ):
        name = func._schema.name.split("::")[1]
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


def _has_dimension(func: Operator, x: Tensor, dim: int, *_: Any) -> None:
    """Refuse a dimension that the tensor does not have."""
    least = max(x.dim(), 1)
    if not -least <= dim < least:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-least}, {least - 1}], "
            f"but got {dim})"
        )


def _is_inside(
    func: Operator, x: Tensor, size: Sequence[Any], stride: Sequence[Any], offset: Any = None
) -> None:
    """Refuse a view that reaches beyond the memory of its tensor."""
    start = x.storage_offset() if offset is None else offset
    numbers = [start, *size, *stride]
    if not all(type(number) is int for number in numbers) or 0 in size:
        return
    memory = x.untyped_storage().nbytes()
    reach = start + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
    if type(memory) is int and reach * x.element_size() > memory:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start}, and "
            f"itemsize {x.element_size()} requiring a storage size of {reach * x.element_size()} "
            f"are out of bounds for storage of size {memory}"
        )


def _convolves(
    func: Operator, x: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any,
    *_: Any,
) -> None:  # fmt: skip
    """Refuse a stride or dilation that is not positive, and negative padding."""
    for name, numbers in (("stride", stride), ("dilation", dilation)):
        if any(type(n) is int and n <= 0 for n in numbers):
            raise RuntimeError(f"{name} should be greater than zero")
    if any(type(n) is int and n < 0 for n in padding):
        raise RuntimeError("negative padding is not supported")


def _huber(func: Operator, x: Tensor, target: Tensor, reduction: int = 1, delta: float = 1) -> None:
    """Refuse a middle part whose width is not positive."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")


def _has_dtype(func: Operator, x: Tensor, *, max: Tensor, min: Tensor, **_: Any) -> None:
    """Refuse results that are not of the tensor's own dtype."""
    names = {torch.float32: "float", torch.float64: "double", torch.int64: "long int"}
    for out in (min, max):
        if out.dtype != x.dtype:
            wanted, found = (names.get(t.dtype, str(t.dtype)) for t in (x, out))
            raise RuntimeError(
                f"Expected out tensor to have dtype {wanted}, but got {found} instead"
            )


def _has_boundaries(func: Operator, x: Any, boundaries: Tensor, *_: Any, **__: Any) -> None:
    """Refuse boundaries that are not one vector."""
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )


def _tried(func: Operator, *args: Any, **kwargs: Any) -> None:
    """Try the operator on a few elements: what it refuses there, it refuses for many, too."""
    named = {name: _small(value) for name, value in kwargs.items() if name != "device"}
    with torch.random.fork_rng(devices=()):
        func(*map(_small, args), **named)


def _overloads(packet: Any) -> list[Operator]:
    return [getattr(packet, name) for name in packet.overloads()]


_CHECKS: Final[dict[Operator, tuple[Callable[..., None], ...]]] = {
    **dict.fromkeys((aten.max.dim, aten.min.dim), (_has_elements,)),
    **dict.fromkeys((aten._softmax.default, aten._log_softmax.default), (_has_dimension,)),
    **{
        overload: (_tried,)
        for name in ("complex", "polar", "uniform", "uniform_", "random_", "exponential_")
        for overload in _overloads(getattr(aten, name))
    },
    **dict.fromkeys((aten.bucketize.Tensor, aten.bucketize.Scalar), (_has_boundaries,)),
    aten.aminmax.out: (_has_dtype,),
    aten.convolution.default: (_convolves,),
    aten.huber_loss.default: (_huber,),
    aten.as_strided.default: (_is_inside,),
    aten.as_strided_scatter.default: (
        lambda func, x, source, *window: _is_inside(func, x, *window),
    ),
}
