"""Convolutions of images with the channels of a pixel beside each other (NHWC).

Tensor cores need this order; otherwise cuDNN would transpose at every call, as oneDNN does on the
CPU. One rule is enough: a convolution makes its input channels-last. PyTorch's operators keep the
order of their arguments. So all values between two convolutions keep it, activations saved for
backward included, and only the first input is copied. The rule is a table of decompositions,
because these run before anything depends on the order.

On the CPU the weight is turned in each call, in order with its image. So a weight that is much
larger than the image decides: both stay row-major.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.names import qualified_name
from minitorch2.graph.node import Node, map_nodes
from minitorch2.native.torch_internals.global_state import HAS_MKLDNN

aten = torch.ops.aten
_FORMAT: Final = torch.channels_last
_DTYPES: Final = (torch.float16, torch.bfloat16, torch.float32)
_LARGE_WEIGHT: Final = 4
"""A weight of more than so many times its image's elements costs more to turn than the image."""
_CPU_GROUP, _GPU_GROUP = 16, 1
"""Wider groups of channels are not faster with channels last; narrow ones are by a half or more,
and their gradients several times (`python -m benchmarks breadth --only ResNeXt`)."""


def _pays(x: Tensor, weight: Tensor, groups: int) -> bool:
    """Return whether the library is faster with channels last: for images, not in wide groups."""
    widest = _GPU_GROUP if _is_on_gpu(x) else _CPU_GROUP
    has_library = _is_on_gpu(x) or HAS_MKLDNN
    has_wide_groups = groups > 1 and weight.shape[1] > widest
    return x.dim() == 4 and x.dtype in _DTYPES and has_library and not has_wide_groups


def _ordered(tensor: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Return an image, or its gradient, in the order in which less is turned for the library."""
    if _is_on_gpu(x) or _elements(weight) <= _LARGE_WEIGHT * _elements(x):
        return tensor.clone(memory_format=_FORMAT)
    if weight.is_contiguous(memory_format=_FORMAT):  # windows of one pixel: any order will do
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def _elements(x: Tensor) -> int:
    count: Any = x.numel()
    if isinstance(count, int):
        return count
    return int(count.node.hint) if count.node.has_hint() else sys.maxsize  # as in a large batch


def _is_on_gpu(x: Tensor) -> bool:
    return x.device.type == "cuda"


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *arguments: Any) -> Tensor:
    """Return the convolution of a channels-last input; its result is channels-last as well.

    cuDNN adds no bias: PyTorch does so after it. Here that is part of the kernel that comes next.
    """
    if not _pays(x, weight, arguments[-1]):
        return aten.convolution.default(x, weight, bias, *arguments)  # type: ignore[no-any-return]
    x = _ordered(x, x, weight)
    if not _is_on_gpu(x):
        return aten.convolution.default(x, weight, bias, *arguments)  # type: ignore[no-any-return]
    result: Tensor = aten.convolution.default(x, _turned(weight), None, *arguments)
    return result if bias is None else result + bias.view(-1, 1, 1)


def _turned(weight: Tensor) -> Tensor:
    """Return the weight in the order of its images.

    cuDNN needs that order; PyTorch would convert the weight in each call, forward and backward.
    """
    is_turned = not _is_on_gpu(weight) or weight.is_contiguous(memory_format=_FORMAT)
    return weight if is_turned else weight.clone(memory_format=_FORMAT)


def convolution_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, sizes: Any, *arguments: Any
) -> tuple[Tensor | None, ...]:
    """Compute the gradients in the same way; the bias's gradient is a sum like any other."""
    if not _pays(x, weight, arguments[-2]):
        return aten.convolution_backward.default(gradient, x, weight, sizes, *arguments)  # type: ignore[no-any-return]
    gradient, image = (_ordered(tensor, x, weight) for tensor in (gradient, x))
    *others, (of_x, of_weight, of_bias) = arguments
    found = aten.convolution_backward.default(
        gradient, image, _turned(weight), sizes, *others, [of_x, of_weight, False]
    )
    total = gradient.sum([0, 2, 3]) if of_bias else None  # fuses with what computes the gradient
    return _as_ordered(found[0], x), _as_ordered(found[1], weight), total


def quotient(x: Tensor, divisor: Any) -> Tensor:
    """Divide the gradient of a mean over pixels before it is expanded to all pixels.

    The small quotient has no order of its own, and takes the order of the image that it meets.
    """
    if x.dim() != 4 or x.stride()[2:] != (0, 0):
        return aten.div.Scalar(x, divisor)  # type: ignore[no-any-return]
    return aten.div.Scalar(x[:, :, :1, :1], divisor).expand(x.shape)  # type: ignore[no-any-return]


def _as_ordered(gradient: Tensor | None, tensor: Tensor) -> Tensor | None:
    """Return a gradient in the order of its input, as autograd requires."""
    if gradient is None or gradient.is_contiguous() or not tensor.is_contiguous():
        return gradient
    return gradient.clone(memory_format=torch.contiguous_format)


CHANNELS_LAST: Final[dict[Any, Callable[..., Any]]] = {
    aten.convolution.default: convolution,
    aten.convolution_backward.default: convolution_backward,
    aten.div.Scalar: quotient,
}
"""Decompositions to add to the table."""

_ORDER_READERS: Final = frozenset({"as_strided", "as_strided_", "set_", "resize_", "resize_as_"})
_LIBRARIES: Final = ("aten", "prims", "minitorch2")


def reads_order(gm: GraphModule) -> bool:
    """Return whether a graph depends on the order of its tensors in memory.

    It does if it names strides, or calls an operator of the user's.
    """
    return any(map(_reads_order, gm.graph.nodes))


def _reads_order(node: Node) -> bool:
    if node.op not in ("call_function", "call_method"):
        return False
    target = node.target
    name = target if isinstance(target, str) else qualified_name(target) or ""
    is_users = name.startswith("torch.ops.") and name.split(".")[2] not in _LIBRARIES
    return is_users or not _ORDER_READERS.isdisjoint(name.split("."))


def with_expected_order(gm: GraphModule) -> GraphModule:
    """Return the graph with results in eager's order: a row-major result stays row-major."""
    copy = gm.copy()
    output = copy.graph.output_node

    def ordered(node: Node) -> Node:
        value = node.meta.get("val")
        is_in_rows = isinstance(value, Tensor) and value.is_contiguous()
        if not is_in_rows or node.op == "placeholder":
            return node
        with copy.graph.inserting_before(output):
            result = copy.graph.call_method("contiguous", (node,))
        result.meta.update(node.meta)
        return result

    output.update_args(map_nodes(output.args, ordered), {})
    return copy
