"""The table from operators to lowerings, and the decorators that fill it.

A lowering is a function of the operator's own arguments, with a `TensorBox` for each tensor; it
gives a `TensorBox` or a tuple of them (PyTorch 2 paper, section 4.3). Most operators are one line:

    @pointwise(aten.silu)
    def silu(dtype, x):
        return ops.mul(x, ops.sigmoid(x))

A pointwise body gets the compute dtype, then one value per positional argument, already promoted
and broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import sympy
import torch

from minitorch2 import config
from minitorch2.graph.extensions import note_extension
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.symbols.floats import FloatBits
from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.expressions import product
from minitorch2.loopir.handlers.counter import body_cost
from minitorch2.loopir.layout import Size
from minitorch2.loopir.loops import Index, Pointwise
from minitorch2.loopir.lowering.fallback import extern_call
from minitorch2.loopir.ops import Value, compute_dtype, ops
from minitorch2.loopir.promotion import Operand, Promotion, computation_type
from minitorch2.loopir.views import broadcast_sizes, expand
from minitorch2.native.torch_internals.operators import (
    OpOverload,
    OpOverloadPacket,
    has_kernel,
    has_kernel_for_key,
)


class NoLoopForm(Exception):
    """Arguments of a lowering have no loop form: the operator itself is called."""


Lowering = Callable[..., Any]
PointwiseBody = Callable[..., Value]
Rule = TypeVar("Rule", bound=Lowering)

LOWERINGS: dict[OpOverload, Lowering] = {}
"""Every operator overload that becomes loops or a planned library call."""


def overloads_of(target: OpOverload | OpOverloadPacket) -> list[OpOverload]:
    """Return the functional overloads of an operator: those that write into no argument."""
    if isinstance(target, OpOverload):
        return [target]
    found = [getattr(target, name) for name in target.overloads()]  # type: ignore[no-untyped-call]
    functional = [o for o in found if not o._schema.is_mutable and _is_traced(o)]
    by_number = [o for o in functional if "name" not in o._overloadname.lower()]
    # Overloads on numbers (`aten.add.int`) return no tensors, others take names of dimensions.
    return [o for o in by_number if any("Tensor" in str(r.type) for r in o._schema.returns)]


def _is_traced(overload: OpOverload) -> bool:
    """Return whether traces have an overload: composite ones become the operators within them.

    Some overloads of TorchScript have a schema and no kernel.
    """
    name = overload.name()  # type: ignore[no-untyped-call]
    return has_kernel(name) and not (has_kernel_for_key(name, "CompositeImplicitAutograd"))


def lowering(*targets: OpOverload | OpOverloadPacket) -> Callable[[Rule], Rule]:
    """Register a function as the lowering of operators (all functional overloads of a packet)."""

    def register(function: Rule) -> Rule:
        note_extension(function)
        for target in targets:
            for overload in overloads_of(target):
                LOWERINGS[overload] = function
        return function

    return register


def pointwise(
    *targets: OpOverload | OpOverloadPacket, promote: Promotion = Promotion.DEFAULT
) -> Callable[[PointwiseBody], PointwiseBody]:
    """Register and return the body for one element as the lowering of elementwise operators."""

    def register(body: PointwiseBody) -> PointwiseBody:
        note_extension(body)

        @lowering(*targets)
        def lowered(*args: Operand, **kwargs: Any) -> TensorBox:
            return make_pointwise(body, args, promote, **kwargs)

        return body

    return register


def register_primitives(names: Sequence[str], promote: Promotion) -> None:
    """Register operators that are one primitive of the same name."""
    for name in names:

        def body(dtype: torch.dtype, *values: Value, name: str = name) -> Value:
            result: Value = getattr(ops, name)(*values)
            return result

        pointwise(getattr(torch.ops.aten, name), promote=promote)(body)


def make_pointwise(
    body: PointwiseBody,
    args: Sequence[Operand],
    promote: Promotion = Promotion.DEFAULT,
    **options: Any,
) -> TensorBox:
    """`body(compute dtype, *values, **options)` over the broadcast of the tensors in `args`.

    Numbers take part in promotion and become constants.
    """
    dtype = computation_type(args, promote)
    result_dtype = torch.bool if promote is Promotion.ALWAYS_BOOL else dtype
    return map_elements(body, args, dtype, result_dtype, **options)


def map_elements(
    body: PointwiseBody,
    args: Sequence[Operand],
    dtype: torch.dtype,
    result_dtype: torch.dtype,
    *,
    casts: Sequence[torch.dtype] = (),
    **options: Any,
) -> TensorBox:
    """Apply a body to values converted to `dtype`; the result is stored as `result_dtype`.

    `casts` gives each argument its own dtype instead.
    """
    tensors = [arg for arg in args if isinstance(arg, TensorBox)]
    size, device = broadcast_sizes([t.size for t in tensors]), device_of(tensors)
    args = [to_device(arg, device) if isinstance(arg, TensorBox) else arg for arg in args]
    dtypes = casts or [dtype] * len(args)
    producers = [_producer(arg, cast, size) for arg, cast in zip(args, dtypes, strict=True)]
    compute, rounds = compute_dtype(dtype), _rounds_to(result_dtype)

    def inner_fn(index: Index) -> Value:
        value = body(compute, *(produce(index) for produce in producers), **options)
        return ops.to_dtype(value, result_dtype) if rounds else value

    return TensorBox.create(Pointwise(device, result_dtype, size, inner_fn))


def _rounds_to(dtype: torch.dtype) -> bool:
    """Return whether a 16-bit result is rounded although its readers compute in float32."""
    return config.current().emulate_eager and dtype != compute_dtype(dtype)


def rounding_of_steps(x: TensorBox) -> Callable[[Value], Value]:
    """Return what rounds a step inside of a function as eager does.

    On the CPU eager has some functions of 16-bit floats whose every step is of 16 bits; on a GPU
    these are computed in float32.
    """
    if x.device.type != "cpu" or not _rounds_to(x.dtype):
        return lambda value: value
    return lambda value: ops.to_dtype(value, x.dtype)


def device_of(tensors: Sequence[TensorBox]) -> torch.device:
    """Return the device of a result: 0-dim CPU tensors and numbers follow the other operands."""
    ordered = sorted(tensors, key=lambda t: (t.device.type == "cpu", t.ndim == 0))
    return ordered[0].device if ordered else torch.device("cpu")


def to_device(x: TensorBox, device: torch.device) -> TensorBox:
    """Copy a 0-dim CPU tensor for a kernel on another device; return any other tensor as it is."""
    if x.device == device:
        return x
    fake = FakeTensor(torch.empty((), dtype=x.dtype, device="meta"), device)
    copied: TensorBox = extern_call(torch.ops.aten._to_copy.default, (x,), {"device": device}, fake)
    return copied


def _producer(arg: Operand, dtype: torch.dtype, size: Size) -> Callable[[Index], Value]:
    if not isinstance(arg, TensorBox):
        number = arg
        return lambda index: number_value(number, compute_dtype(dtype))
    if repeats_expensive_work(arg, size):
        arg.storage.realize("it is expensive and broadcast: every row would repeat it")
    load = expand(arg, size).make_loader()
    if arg.dtype == dtype:
        return load
    return lambda index: ops.to_dtype(load(index), dtype)


def repeats_expensive_work(x: TensorBox, size: Size) -> bool:
    """Return whether broadcasting `x` to `size` would compute expensive functions repeatedly.

    A value that is constant along the last dimension does not count: it leaves the inner loop.
    """
    loops = x.storage.data
    if not isinstance(loops, Pointwise) or x.size == size:
        return False
    extra = product(size[: len(size) - x.ndim])
    pairs = zip(x.size, size[len(size) - x.ndim :], strict=True)
    repeated = extra != 1 or any(own == 1 and target != 1 for own, target in pairs)
    along_last = not x.ndim or x.size[-1] == 1
    return repeated and not along_last and body_cost(loops).expensive > 0


def number_value(number: bool | int | float | sympy.Expr, dtype: torch.dtype) -> Value:
    """Return a Python number or a symbolic size as a value of `dtype`."""
    if isinstance(number, sympy.Expr):
        if number.is_integer:
            return ops.index_expr(number, dtype)
        return ops.to_dtype(_float_value(number), dtype)
    if dtype == torch.bool:
        return ops.constant(bool(number), dtype)
    if dtype.is_floating_point:
        return ops.constant(float(number), dtype)
    return ops.constant(wrapped_integer(int(number), dtype), dtype)


def _float_value(number: sympy.Expr) -> Value:
    """Return a float argument, or a float computed from it and from sizes once in each call."""
    bits = ops.index_expr(FloatBits(number), torch.int64)
    return ops.to_dtype_bitcast(bits, torch.float64, torch.int64)


def wrapped_integer(number: int, dtype: torch.dtype) -> int:
    """Return an integer wrapped around to `dtype`: the same bits, cut off."""
    limits = torch.iinfo(dtype)
    return (number - limits.min) % (1 << limits.bits) + limits.min
