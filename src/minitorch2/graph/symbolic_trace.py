"""Write down what a Python function does to tensors by running it on proxies (paper, section 2.4).

A :class:`Proxy` stands for a tensor that has no value, no size and no dtype. Whatever is done to it
becomes a node. What a proxy cannot know, it refuses to tell: a size, an element, the way that a
branch takes. So a trace holds for every input, or there is none. (Capture, which reads bytecode,
needs no such refusal; this is for code that is known to be simple, as the rules in ``patterns/``.)

PyTorch's counterpart is ``torch.fx.symbolic_trace``.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

import torch

from minitorch2.errors import TraceError
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Argument, Node

_METADATA: Final = frozenset([
    "shape", "dtype", "device", "layout", "ndim", "requires_grad", "grad", "grad_fn", "data_ptr",
    "size", "dim", "numel", "nelement", "stride", "storage_offset", "is_contiguous", "is_leaf",
    "is_floating_point", "is_complex", "is_cuda", "is_cpu", "element_size", "get_device",
])  # fmt: skip
_VALUES: Final = frozenset(["item", "tolist", "numpy", "data", "__array__"])


def symbolic_trace(function: Callable[..., Any]) -> GraphModule:
    """The graph of ``function``, one placeholder a parameter.

    Raises TraceError where the function reads a size or a value, or branches on a tensor.

    >>> symbolic_trace(lambda x, y: torch.relu(x) + y).graph.print_tabular()
    opcode         name    target        args
    ----------------------------------------------
    placeholder    x       x             ()
    placeholder    y       y             ()
    call_function  relu    torch.relu    (x,)
    call_function  add     operator.add  (relu, y)
    output         output  output        ((add,),)
    """
    graph = Graph()
    inputs = [Proxy(graph.placeholder(name)) for name in inspect.signature(function).parameters]
    result = function(*inputs)
    graph.output(_nodes(result if isinstance(result, tuple) else (result,)))
    return GraphModule(graph)


class Proxy:
    """A value that records what is done to it."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Proxy:
        return _call_function(function, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        if name in _METADATA:
            _refuse(self.node, f"reads .{name}", "a proxy has no sizes and no dtype")
        if name in _VALUES:
            _refuse(self.node, f"reads .{name}", "a proxy has no elements")
        if name.startswith("__") or not hasattr(torch.Tensor, name):
            raise AttributeError(f"a tensor has no attribute {name!r}")
        if callable(getattr(torch.Tensor, name)):
            return lambda *args, **kwargs: _call_method(name, (self, *args), kwargs)
        return _call_function(getattr, (self, name), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        _call_function(operator.setitem, (self, key, value), {})

    def __bool__(self) -> bool:
        _refuse(self.node, "branches", "which way depends on the value of a tensor")

    def __len__(self) -> int:
        _refuse(self.node, "asks for len()", "a proxy has no sizes")

    def __iter__(self) -> Iterator[Any]:
        _refuse(self.node, "iterates", "how often depends on the size of a tensor")

    def __contains__(self, item: Any) -> bool:
        _refuse(self.node, "asks what is in a tensor", "a proxy has no elements")

    def __index__(self) -> int:
        _refuse(self.node, "makes an integer of a tensor", "a proxy has no elements")

    __int__ = __index__

    def __float__(self) -> float:
        _refuse(self.node, "makes a float of a tensor", "a proxy has no elements")


def _refuse(node: Node, what: str, why: str) -> NoReturn:
    raise TraceError(
        f"the traced function {what} (at {node.name}): {why}",
        fix="take what varies as a parameter, or capture the function with minitorch2.compile",
    )


def _call_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
    graph = _graph_of((*args, *kwargs.values()))
    return Proxy(graph.call_function(function, _nodes(args), _nodes(kwargs)))


def _call_method(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
    graph = _graph_of((*args, *kwargs.values()))
    return Proxy(graph.call_method(name, _nodes(args), _nodes(kwargs)))


def _graph_of(values: Any) -> Graph:
    return next(_proxies(values)).node.graph


def _proxies(value: Any) -> Iterator[Proxy]:
    if isinstance(value, Proxy):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _proxies(item)


def _nodes(value: Any) -> Argument:
    """An argument with the proxies replaced by their nodes."""
    if isinstance(value, Proxy):
        return value.node
    if isinstance(value, (tuple, list)):
        return type(value)(_nodes(item) for item in value)
    if isinstance(value, dict):
        return {key: _nodes(item) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(_nodes(bound) for bound in (value.start, value.stop, value.step)))
    return value


def _binary(function: Callable[..., Any]) -> Callable[[Proxy, Any], Proxy]:
    return lambda self, other: _call_function(function, (self, other), {})


def _reflected(function: Callable[..., Any]) -> Callable[[Proxy, Any], Proxy]:
    return lambda self, other: _call_function(function, (other, self), {})


def _unary(function: Callable[..., Any]) -> Callable[[Proxy], Proxy]:
    return lambda self: _call_function(function, (self,), {})


_REFLECTED: Final = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift,
    operator.rshift,
)  # fmt: skip
_COMPARISONS: Final = (
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne, operator.getitem,
)  # fmt: skip
_UNARY: Final = (operator.neg, operator.pos, operator.invert, operator.abs)

for _function in _REFLECTED:
    setattr(Proxy, f"__r{_function.__name__.rstrip('_')}__", _reflected(_function))
for _function in (*_REFLECTED, *_COMPARISONS):
    setattr(Proxy, f"__{_function.__name__.rstrip('_')}__", _binary(_function))
for _operation in _UNARY:
    setattr(Proxy, f"__{_operation.__name__}__", _unary(_operation))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]  # __eq__ records
