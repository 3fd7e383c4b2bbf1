"""The Python function that each node without blocks is, for both ways of running a graph."""

from __future__ import annotations

import operator
import pkgutil
import sys
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, TypeAlias

import torch

from minitorch2.native.torch_internals.gradients import write_grad_mode
from minitorch2.native.torch_internals.operators import OpOverload
from minitorch2.script.ir.graph import Graph, Node
from minitorch2.script.ir.types import (
    ClassType,
    DictType,
    ListType,
    PrimitiveType,
    TupleType,
    Type,
    is_subtype_of,
    type_of,
)
from minitorch2.script.operators.registry import operator_of
from minitorch2.script.operators.schema import Argument, FunctionSchema
from minitorch2.script.runtime.fork_join import fork, wait
from minitorch2.script.runtime.tensor_checks import check_of
from minitorch2.script.syntax.errors import ScriptError

Make: TypeAlias = Callable[[Graph], Callable[..., Any]]


@dataclass(frozen=True)
class Makers:
    """The makers of functions for the graphs in a graph: each way of running has its own.

    Attributes:
        function: for graphs that are called.
        region: for the graphs of regions.
        rest: for what runs where a guard fails.
    """

    function: Make
    region: Make
    rest: Make


@dataclass(frozen=True)
class Call:
    """A function, and which inputs of a node it takes.

    Attributes:
        positional: the numbers of the inputs that are given by position.
        keywords: names, and the numbers of the inputs that are given by them.
    """

    function: Callable[..., Any]
    positional: tuple[int, ...]
    keywords: tuple[tuple[str, int], ...] = ()

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Call the function with what is right among all inputs."""
        named = {name: inputs[k] for name, k in self.keywords}
        return self.function(*[inputs[k] for k in self.positional], **named)


class BailedOut(Exception):
    """Leaves a graph with its results from inside of it."""

    def __init__(self, results: tuple[Any, ...]) -> None:
        self.results = results


def call_of(node: Node, make: Makers) -> Call:
    """Return the call that a node is.

    Raises:
        ScriptError: the node has no meaning at run time.
    """
    if node.kind in PRIMITIVES:
        return Call(PRIMITIVES[node.kind](node, make), tuple(range(len(node.inputs))))
    found = operator_of(node)
    if found is None or found.function is None:
        raise ScriptError(f"nothing runs {node.kind}", node.range, code="script-operator")
    if isinstance(found.function, OpOverload):
        return _overload_call(node, found.schema, found.function)
    return Call(found.function, tuple(range(len(node.inputs))))


def _overload_call(node: Node, schema: FunctionSchema, function: OpOverload) -> Call:
    """Return the call of an operator of PyTorch, without arguments that are defaults."""
    arguments = schema.arguments
    given = [k for k in range(len(node.inputs)) if not _is_default(node, k, arguments[k])]
    named = [k for k in given if arguments[k].kwarg_only]
    places = [k for k in given if not arguments[k].kwarg_only]
    positional = tuple(range(max(places, default=-1) + 1))
    return Call(function, positional, tuple((arguments[k].name, k) for k in named))


def _is_default(node: Node, index: int, argument: Argument) -> bool:
    constant = node.constant(index)
    return type(constant) is type(argument.default) and constant == argument.default


def later(graph: Graph, make: Make) -> Callable[..., Any]:
    """Return a graph as a function that is made at its first call."""
    made: list[Callable[..., Any]] = []

    def call(*args: Any) -> Any:
        if not made:
            made.append(make(graph))
        return made[0](*args)

    return call


def end_context(context: Any) -> Any:
    """Leave a context manager."""
    return context.__exit__(None, None, None)


def abandon_context(context: Any) -> Any:
    """Leave a context manager with the error that is being handled."""
    return context.__exit__(*sys.exc_info())


# -- kinds without a schema -----------------------------------------------------------------------


def _identity(node: Node, make: Makers) -> Callable[..., Any]:
    return lambda value: value


def _constant(node: Node, make: Makers) -> Callable[..., Any]:
    value = node.attributes.get("value")
    return lambda: value


def _tuple(node: Node, make: Makers) -> Callable[..., Any]:
    kind = node.output.type
    if isinstance(kind, TupleType) and kind.names is not None:
        return kind.python_class or _named_tuple(kind.name or "Tuple", kind.names)
    return lambda *items: items


@cache
def _named_tuple(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    return namedtuple(name.rpartition(".")[2], fields)


def _dictionary(*items: Any) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))


def _unpack(node: Node, make: Makers) -> Callable[..., Any]:
    count = len(node.outputs)

    def unpack(items: Sequence[Any]) -> Any:
        if len(items) != count:
            few = "not enough" if len(items) < count else "too many"
            raise ValueError(f"{few} values to unpack (expected {count}, got {len(items)})")
        return items[0] if count == 1 else items

    return unpack


def _slice(node: Node, make: Makers) -> Callable[..., Any]:
    begin, end = node.attributes["beg"], node.attributes["end"]
    return lambda items: items[begin:end]


def _object(node: Node, make: Makers) -> Callable[..., Any]:
    owner: Any = getattr(node.output.type, "owner", None)
    return partial(object.__new__, owner.python_class)


def _attribute(node: Node, make: Makers) -> Callable[..., Any]:
    return operator.attrgetter(node.attributes["name"])


def _set_attribute(node: Node, make: Makers) -> Callable[..., Any]:
    name = node.attributes["name"]
    return lambda target, value: setattr(target, name, value)


def _function(node: Node, make: Makers) -> Callable[..., Any]:
    return later(node.attributes["function"].graph, make.function)


def _method(node: Node, make: Makers) -> Callable[..., Any]:
    kind = node.inputs[0].type
    assert isinstance(kind, ClassType)
    owner: Any = kind.owner
    name = node.attributes["name"]
    made: list[Callable[..., Any]] = []

    def call(*args: Any) -> Any:
        if not made:
            made.append(make.function(owner.methods[name].graph))
        return made[0](*args)

    return call


def _fork(node: Node, make: Makers) -> Callable[..., Any]:
    if "name" in node.attributes:
        function = _method(node, make)
    else:
        found = node.attributes.get("Subgraph") or node.attributes["function"].graph
        function = later(found, make.function)
    return lambda *args: fork(function, *args)


def _isinstance(node: Node, make: Makers) -> Callable[..., Any]:
    kinds = node.attributes["types"]
    return lambda value: any(is_instance(value, kind) for kind in kinds)


def is_instance(value: Any, kind: Any) -> bool:
    """Tell whether a value has a type; an empty container has the type of any elements.

    Args:
        value: a value of the language.
        kind: a type, a class of types such as `ListType`, or a class of Python.
    """
    match kind:
        case type():
            return isinstance(type_of(value) if issubclass(kind, Type) else value, kind)
        case PrimitiveType("int") if isinstance(value, bool):
            return True
        case ListType(element):
            is_list = isinstance(value, list | torch.Size)
            return is_list and all(is_instance(part, element) for part in value)
        case DictType(key, element):
            return isinstance(value, dict) and all(
                is_instance(k, key) and is_instance(part, element) for k, part in value.items()
            )
    return is_subtype_of(type_of(value), kind)


def _to_list(node: Node, make: Makers) -> Callable[..., Any]:
    wanted = element = node.output.type
    depth = 0
    while isinstance(element, ListType):
        element, depth = element.element, depth + 1

    def read(tensor: torch.Tensor) -> Any:
        found = type_of(torch.empty((), dtype=tensor.dtype, device="cpu").item())
        if tensor.dim() != depth or found != element:
            shape = f"a tensor of {tensor.dtype} with {tensor.dim()} dimensions"
            raise RuntimeError(f"{shape} is read as {wanted}: annotate what the tensor holds")
        return tensor.tolist()

    return read


def _raise(node: Node, make: Makers) -> Callable[..., Any]:
    def fail(message: Any, kind: str | None = None) -> None:
        raise error_class(kind)(message)

    return fail


def error_class(name: str | None) -> type[BaseException]:
    """Return the class of errors that ``prim::RaiseException`` names, with its module or without.

    It is `RuntimeError` where no class of errors has the name.
    """
    text = name or "RuntimeError"
    try:
        found = pkgutil.resolve_name(text if "." in text else f"builtins.{text}")
    except (AttributeError, ImportError, ValueError):
        return RuntimeError
    return found if isinstance(found, type) and issubclass(found, BaseException) else RuntimeError


def _python(node: Node, make: Makers) -> Callable[..., Any]:
    function, names = node.attributes["function"], node.attributes.get("keywords", ())
    wanted = [output.type for output in node.outputs]
    first_name = len(node.inputs) - len(names)

    def call(*args: Any) -> Any:
        result = function(*args[:first_name], **dict(zip(names, args[first_name:], strict=True)))
        if len(wanted) == 1 and not is_instance(result, wanted[0]):
            name = getattr(function, "__qualname__", repr(function))
            message = f"{name} says that it gives {wanted[0]}, and gives {type_of(result)}"
            raise TypeError(message)
        return result

    return call


def _profile(node: Node, make: Makers) -> Callable[..., Any]:
    record = node.attributes["record"]

    def profile(value: Any) -> Any:
        record.merge(value)
        return value

    return profile


def _bailout(node: Node, make: Makers) -> Callable[..., Any]:
    checks = [check_of(output.type) for output in node.outputs]
    rest = later(node.attributes["Subgraph"], make.rest)
    count = len(node.attributes["Subgraph"].outputs)

    def bailout(*live: Any) -> Any:
        if all(fits(value) for fits, value in zip(checks, live)):
            return live[0] if len(checks) == 1 else live[: len(checks)]
        results = rest(*live)
        raise BailedOut(results if count > 1 else (results,) * count)

    return bailout


def _region(node: Node, make: Makers) -> Callable[..., Any]:
    return later(node.attributes["Subgraph"], make.region)


def _chunk(node: Node, make: Makers) -> Callable[..., Any]:
    chunks, dim = node.attributes["chunks"], node.attributes["dim"]
    unpack = _unpack(node, make)
    return lambda tensor: unpack(torch.chunk(tensor, chunks, dim))


def unwrap(value: Any) -> Any:
    """Return a value that is not None.

    Raises:
        AssertionError: it is.
    """
    assert value is not None, "None, where a value was asserted to be"
    return value


def set_grad_enabled(mode: bool) -> bool:
    """Set the grad mode, and return the one before."""
    before = torch.is_grad_enabled()
    write_grad_mode(mode)
    return before


PRIMITIVES: Final[Mapping[str, Callable[[Node, Makers], Callable[..., Any]]]] = {
    "prim::Constant": _constant,
    "prim::Uninitialized": _constant,
    "prim::TupleConstruct": _tuple,
    "prim::ListConstruct": lambda node, make: lambda *items: [*items],
    "prim::DictConstruct": lambda node, make: _dictionary,
    "prim::TupleUnpack": _unpack,
    "prim::ListUnpack": _unpack,
    "prim::TupleIndex": lambda node, make: operator.getitem,
    "prim::TupleSlice": _slice,
    "prim::CreateObject": _object,
    "prim::EnumName": lambda node, make: operator.attrgetter("name"),
    "prim::EnumValue": lambda node, make: operator.attrgetter("value"),
    "prim::GetAttr": _attribute,
    "prim::SetAttr": _set_attribute,
    "prim::CallFunction": _function,
    "prim::CallMethod": _method,
    "prim::PythonOp": _python,
    "prim::fork": _fork,
    "aten::wait": lambda node, make: wait,
    "prim::tolist": _to_list,
    "prim::isinstance": _isinstance,
    "prim::unchecked_cast": _identity,
    "prim::unchecked_unwrap_optional": lambda node, make: unwrap,
    "prim::format": lambda node, make: str.format,
    "prim::guard": _identity,
    "prim::profile": _profile,
    "prim::bailout": _bailout,
    "prim::DifferentiableGraph": _region,
    "prim::FusionGroup": _region,
    "prim::ConstantChunk": _chunk,
    "prim::RaiseException": _raise,
    "prim::Print": lambda node, make: print,
    "prim::Enter": lambda node, make: lambda context: context.__enter__(),
    "prim::Exit": lambda node, make: end_context,
    "prim::SetGradEnabled": lambda node, make: set_grad_enabled,
}
