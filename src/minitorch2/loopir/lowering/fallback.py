"""Operators without a lowering: the original PyTorch operator is called at run time.

Never an error, always visible: each is counted (`stages.count("fallbacks")`) and logged
(PyTorch 2 paper, section 4.3: "automatically converted into a fallback kernel node").
"""

from __future__ import annotations

from typing import Any

import torch

from minitorch2 import stages
from minitorch2.errors import LoweringError
from minitorch2.graph.effects import is_random
from minitorch2.graph.functional_call import FunctionalCall
from minitorch2.graph.higher_order import HigherOrder
from minitorch2.graph.node import map_items
from minitorch2.graph.symbols import expr_of
from minitorch2.logs import get_logger
from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.buffers import ExternKernel, MultiOutput, current_table
from minitorch2.loopir.layout import FixedLayout, Layout, contiguous_strides
from minitorch2.native.torch_internals.operators import OpOverload

Target = OpOverload | HigherOrder | FunctionalCall

_LOGGER = get_logger(__name__)


def lower_by_fallback(
    target: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], fake: Any, reason: str
) -> Any:
    """Call the operator itself; `fake` is the node's fake result, one or a nest of tensors.

    Raises:
        LoweringError: the operator writes into an argument, which a functional graph has not.
    """
    if target._schema.is_mutable:
        raise LoweringError(f"{target} mutates its arguments: functionalize the graph first")
    report_call("fallback", target, reason)
    return extern_call(target, args, kwargs, fake, is_fallback=True)


def report_call(kind: str, target: object, reason: str) -> None:
    """Say that an operator runs as in eager PyTorch.

    Args:
        kind: ``"fallback"``, or ``"library_call"`` where that is a choice.
        target: the operator.
        reason: why.
    """
    stages.count(f"{kind}s")
    lines = [node.meta.get("source") for node in current_table().origins[-1:]]
    places = "".join(f" at {line.file}:{line.line}" for line in lines if line is not None)
    stages.record(kind, f"{target}{places}: {reason}", subject=(target, lines, reason))
    _LOGGER.info("%s%s runs as in eager PyTorch: %s", target, places, reason)


def extern_call(
    target: Target,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    fake: Any,
    *,
    is_fallback: bool = False,
) -> Any:
    """Return a library call as a buffer, or a nest of buffers, of the shape that `fake` has."""
    table = current_table()
    first = fake if isinstance(fake, torch.Tensor) else next(_tensors_in(fake), None)
    if first is None:
        raise LoweringError(f"{target} returns no tensor")
    args, kwargs = realize_arguments((args, kwargs), str(target))
    kernel = ExternKernel(
        table.next_name(),
        fixed_layout_of(first),
        target,
        args,
        kwargs,
        out_variant_of(target) if isinstance(fake, torch.Tensor) else None,
        has_side_effects=_has_effects(target),
        copies_result=_may_alias(target),
        is_fallback=is_fallback,
        origins=table.origins,
    )
    table.add(kernel)
    if isinstance(fake, torch.Tensor):
        return TensorBox.create(kernel)
    return _outputs(kernel, fake, ())


def _has_effects(target: Target) -> bool:
    """Return whether a call must stay: it draws random numbers, or PyTorch has not made it."""
    if isinstance(target, HigherOrder):
        return any(map(is_random, target.nodes()))
    if isinstance(target, FunctionalCall):
        return True
    is_known = target.namespace in ("aten", "prims")
    return not is_known or torch.Tag.nondeterministic_seeded in target.tags


def _may_alias(target: Target) -> bool:
    """Return whether the result may share memory with an argument."""
    if not isinstance(target, OpOverload):
        return False
    return any(result.alias_info is not None for result in target._schema.returns)


def out_variant_of(target: Target) -> OpOverload | None:
    """Return the overload that writes into given memory, if PyTorch has a real one (not a wrapper).

    An operator whose result would alias its input has none: its result is copied anyway.
    """
    if not isinstance(target, OpOverload):
        return None
    packet = target._overloadpacket
    for name in packet.overloads():  # type: ignore[no-untyped-call]
        candidate = getattr(packet, name)
        is_real = torch.Tag.generated not in candidate.tags
        if is_real and _same_arguments(target, candidate):
            return candidate  # type: ignore[no-any-return]
    return None


def _same_arguments(target: OpOverload, candidate: OpOverload) -> bool:
    wanted = [(a.name, str(a.type)) for a in target._schema.arguments]
    outs = [a for a in candidate._schema.arguments if a.is_out]
    given = [(a.name, str(a.type)) for a in candidate._schema.arguments if not a.is_out]
    return wanted == given and [a.name for a in outs] == ["out"]


def realize_arguments(argument: Any, reader: str) -> Any:
    """Return an argument structure with each tensor as a window on memory."""
    if isinstance(argument, TensorBox):
        return argument.realize(f"{reader} reads memory")
    return map_items(argument, lambda item: realize_arguments(item, reader))


def fixed_layout_of(fake: torch.Tensor) -> FixedLayout:
    """Return the layout of a fake result, which is row-major where the fake is expanded."""
    size, stride = tuple(map(expr_of, fake.shape)), tuple(map(expr_of, fake.stride()))
    if any(step == 0 and extent != 1 for extent, step in zip(size, stride)):
        stride = contiguous_strides(size)
    return FixedLayout(fake.device, fake.dtype, size, stride)


def _tensors_in(fake: Any) -> Any:
    for item in fake:
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, (tuple, list)):
            yield from _tensors_in(item)


def _outputs(kernel: ExternKernel, fake: Any, position: tuple[int, ...]) -> Any:
    if isinstance(fake, (tuple, list)):
        return tuple(_outputs(kernel, item, (*position, i)) for i, item in enumerate(fake))
    if not isinstance(fake, torch.Tensor):
        return fake
    table = current_table()
    layout: Layout = fixed_layout_of(fake)
    output = MultiOutput(table.next_name(), layout, kernel, position, origins=table.origins)
    kernel.outputs.append(output)
    table.add(output)
    return TensorBox.create(output)
