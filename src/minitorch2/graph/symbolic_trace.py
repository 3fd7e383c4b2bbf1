"""Record a Python function's operations by running it on proxies (paper, section 2.4).

A :class:`Proxy` stands for a tensor that has no value, no size and no dtype. Each operation on it
becomes a node. A proxy raises an error when the function asks for a size, an element, or the truth
value of a branch. So a finished trace is right for every input. (Capture, which reads bytecode, has
no such limits; this is for simple code such as the rules in ``patterns/``.)

PyTorch's counterpart is ``torch.fx.symbolic_trace``.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

import torch

from minitorch2.errors import TraceError
from minitorch2.foundation.module_names import is_in_package
from minitorch2.graph.containers import items_in
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Argument, Node, map_items
from minitorch2.native.torch_internals.modes import EnableTorchFunction

_METADATA: Final = frozenset([
    "shape", "dtype", "device", "layout", "ndim", "requires_grad", "grad", "grad_fn", "data_ptr",
    "size", "dim", "numel", "nelement", "stride", "storage_offset", "is_contiguous", "is_leaf",
    "is_floating_point", "is_complex", "is_cuda", "is_cpu", "element_size", "get_device",
])  # fmt: skip
_VALUES: Final = frozenset(["item", "tolist", "numpy", "data", "__array__"])


def symbolic_trace(function: Callable[..., Any]) -> GraphModule:
    """Trace a function or module to a graph with one placeholder for each parameter.

    A parameter with a default keeps it and is not an input. Tensors of a module, and those that a
    function finds elsewhere, are attributes of the graph. Modules of ``torch.nn`` inside a module
    are called as one node; the trace goes into others.

    Raises TraceError where the function reads a size or a value, branches on a tensor, or takes any
    number of arguments.

    >>> symbolic_trace(lambda x, y: torch.relu(x) + y).graph.print_tabular()
    opcode         name    target        args
    ----------------------------------------------
    placeholder    x       x             ()
    placeholder    y       y             ()
    call_function  relu    torch.relu    (x,)
    call_function  add     operator.add  (relu, y)
    output         output  output        ((add,),)
    """
    trace = _Trace()
    traced: Any = trace.twin(function, "") if isinstance(function, torch.nn.Module) else function
    called = traced.forward if isinstance(traced, torch.nn.Module) else traced
    positional, keywords = list[Proxy](), dict[str, Proxy]()
    for parameter in inspect.signature(called).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TraceError(
                f"the traced function takes any number of arguments, as {parameter}",
                fix="name each input, in a lambda for instance",
            )
        if parameter.default is parameter.empty:
            proxy = Proxy(trace.graph.placeholder(parameter.name), trace)
            if parameter.kind is parameter.KEYWORD_ONLY:
                keywords[parameter.name] = proxy
            else:
                positional.append(proxy)
    with EnableTorchFunction():  # which compiling switches off
        result = traced(*positional, **keywords)
    trace.graph.output(trace.nodes(result if isinstance(result, tuple) else (result,)))
    return GraphModule(trace.graph, trace.attributes)


class _Trace:
    """A graph that is being written, and the tensors and modules that it names."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.attributes: dict[str, Any] = {}
        self._paths: dict[int, str] = {}
        self._twins: dict[int, torch.nn.Module] = {}

    def twin(self, module: torch.nn.Module, prefix: str) -> torch.nn.Module:
        """Copy a module with the same tensors; its submodules record their calls."""
        if id(module) not in self._twins:
            twin = self._twins[id(module)] = copy.copy(module)
            inside = module._modules.items()
            twin._modules = {name: self._part(part, prefix + name) for name, part in inside}
            for table in (module._parameters, module._buffers):
                for name, tensor in table.items():
                    self._paths.setdefault(id(tensor), prefix + name)
            if not prefix:
                members = {**module._parameters, **module._buffers, **module._modules}
                self.attributes |= {
                    name: part for name, part in members.items() if part is not None
                }
        return self._twins[id(module)]

    def _part(self, module: torch.nn.Module | None, path: str) -> torch.nn.Module | None:
        if module is None:
            return None
        is_leaf = is_in_package(type(module).__module__, "torch.nn") and not module._modules
        return _Leaf(self, path) if is_leaf else self.twin(module, f"{path}.")

    def call(
        self, opcode: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Proxy:
        """Record an operation."""
        node = self.graph.create_node(opcode, target, self.nodes(args), self.nodes(kwargs))
        return Proxy(node, self)

    def nodes(self, value: Any) -> Argument:
        """Return an argument with nodes in place of proxies, and attributes in place of tensors."""
        if isinstance(value, Proxy):
            return value.node
        if isinstance(value, torch.Tensor):
            return self._attribute(value)
        return map_items(value, self.nodes)

    def _attribute(self, tensor: torch.Tensor) -> Node:
        if id(tensor) not in self._paths:
            path = next(filter(lambda name: name not in self.attributes, _constants()))
            self._paths[id(tensor)], self.attributes[path] = path, tensor
        return self.graph.get_attr(self._paths[id(tensor)])


def _constants() -> Iterator[str]:
    return (f"constant{number}" for number in itertools.count())


class _Leaf(torch.nn.Module):
    """A stand-in for a module that is called as one node."""

    def __init__(self, trace: _Trace, path: str) -> None:
        super().__init__()
        self.__dict__.update(trace=trace, path=path)

    def forward(self, *args: Any, **kwargs: Any) -> Proxy:
        """Record a call of the module."""
        trace: _Trace = self.__dict__["trace"]
        return trace.call("call_module", self.__dict__["path"], args, kwargs)


class Proxy:
    """A value that records the operations on it."""

    __slots__ = ("node", "trace")

    def __init__(self, node: Node, trace: _Trace) -> None:
        self.node = node
        self.trace = trace

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __str__(self) -> str:
        _refuse(self.node, "makes a text of a tensor", "a proxy has no elements")

    def __format__(self, how: str) -> str:
        return str(self)

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
            return lambda *args, **kwargs: self.trace.call(
                "call_method", name, (self, *args), kwargs
            )
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
    return next(_proxies((args, kwargs))).trace.call("call_function", function, args, kwargs)


def _proxies(value: Any) -> Iterator[Proxy]:
    if isinstance(value, Proxy):
        yield value
    for item in items_in(value):
        yield from _proxies(item)


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
