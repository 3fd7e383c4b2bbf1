"""The operation of a node, however it was written: an aten operator's name and bound arguments.

``x @ y``, ``torch.matmul(x, y)``, ``x.matmul(other=y)`` and ``aten.matmul.default(x, y)`` are one
operation::

    operation ::= name {parameter: argument}        # every parameter with its value or default

So a rule is written once and found in captured graphs and in aten graphs alike. Different spellings
of one operation become equal, too. A permutation that swaps the last two dimensions is ``mT``, any
conversion of dtype is ``to``, and dimensions count from the end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch

from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.node import Argument, Node
from minitorch2.graph.symbols import same_sizes
from minitorch2.native.torch_internals.operators import OpOverload

_OPERATORS: Final = {"truediv": "div", "and_": "bitwise_and", "or_": "bitwise_or",
                     "xor": "bitwise_xor", "invert": "bitwise_not"}  # fmt: skip
_SYNONYMS: Final = {"true_divide": "div", "divide": "div", "multiply": "mul", "subtract": "sub",
                    "negative": "neg", "absolute": "abs", "concat": "cat", "concatenate": "cat",
                    "bmm": "matmul", "mm": "matmul"}  # fmt: skip
_TRANSPOSITIONS: Final = frozenset(["transpose", "swapaxes", "swapdims", "permute", "mT"])
_CONVERSIONS: Final = frozenset([
    "to", "type", "type_as", "float", "double", "half", "bfloat16", "int", "long", "bool",
    "_to_copy",
])  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """An operator's name and its arguments by the names of the parameters."""

    name: str
    arguments: Mapping[str, Argument]


def operation(node: Node) -> Operation | None:
    """Return the operation that the node computes; None if it is neither an operator nor known."""
    if node.op not in ("call_function", "call_method"):
        return None
    name, args, kwargs = _called(node)
    if name in _TRANSPOSITIONS:
        return _transposition(name, node, args, kwargs)
    if name in _CONVERSIONS:
        return _conversion(node, args)
    arguments = _bind(node, name, args, kwargs)
    return None if arguments is None else Operation(name, _in_one_form(node, arguments))


def value_of(argument: Argument) -> Argument:
    """Return the number in a tensor filled with it (``torch.full([], 8.0)``), or the argument."""
    if not isinstance(argument, Node) or argument.op not in ("call_function", "call_method"):
        return argument
    name, args, kwargs = _called(argument)
    if name not in ("full", "scalar_tensor"):
        return argument
    bound = _bind(argument, name, args, kwargs) or {}
    number = bound.get("s" if name == "scalar_tensor" else "fill_value", argument)
    return number if not bound.get("size") else argument


def fake_of(argument: Argument) -> Any:
    """Return the fake value of a node; None if it was never computed."""
    return argument.meta.get("val") if isinstance(argument, Node) else None


def _called(node: Node) -> tuple[str, tuple[Argument, ...], dict[str, Argument]]:
    if node.target is getattr:
        return str(node.args[1]), node.args[:1], {}
    name = _name(node.target)
    return _SYNONYMS.get(name, name), node.args, dict(node.kwargs)


def _name(target: Any) -> str:
    if isinstance(target, str):
        return target
    if isinstance(target, OpOverload):
        return str(target._schema.name.split("::")[1])
    name = getattr(target, "__name__", "")
    return _OPERATORS.get(name, name)


def _bind(
    node: Node, name: str, args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> dict[str, Argument] | None:
    """Return arguments by parameter, with the defaults of the first overload that takes them.

    Other functions of `torch.nn.functional` have their own parameters and defaults.
    """
    given = _by_signature(node.target, args, kwargs)
    for parameters in _overloads(name):
        bound = _by_schema(parameters, args, kwargs) if given is None else _named(parameters, given)
        if bound is not None:
            return bound
    return None if given is None else _defaults(node.target) | given


def _by_schema(
    parameters: tuple[_Parameter, ...], args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> dict[str, Argument] | None:
    positional = [parameter for parameter in parameters if not parameter.keyword_only]
    if len(args) > len(positional):  # x.permute(0, 2, 1): the last parameter takes the rest
        if not positional or not positional[-1].is_list:
            return None
        rest = len(positional) - 1
        args = (*args[:rest], list(args[rest:]))
    given = {p.name: value for p, value in zip(positional, args, strict=False)}
    return _named(parameters, {**given, **kwargs})


def _named(
    parameters: tuple[_Parameter, ...], given: Mapping[str, Argument]
) -> dict[str, Argument] | None:
    """``given`` by the schema's names, with its defaults; None if it has no such parameters."""
    names = {p.name for p in parameters}
    given = {"self" if n == "input" and n not in names else n: v for n, v in given.items()}
    if not given.keys() <= names:
        return None
    result = {p.name: given.get(p.name, p.default) for p in parameters}
    return None if any(value is _MISSING for value in result.values()) else result


_MISSING: Final = inspect.Parameter.empty


@dataclass(frozen=True)
class _Parameter:
    name: str
    default: Any
    keyword_only: bool
    is_list: bool


@cache
def _overloads(name: str) -> tuple[tuple[_Parameter, ...], ...]:
    """Return the parameters of each overload that does not write to its arguments."""
    packet = getattr(torch.ops.aten, name, None) if name.isidentifier() else None
    if packet is None:
        return ()
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    return tuple(
        tuple(_parameter(argument) for argument in schema.arguments)
        for schema in schemas
        if not schema.is_mutable and all(argument.type for argument in schema.arguments)
    )


def _parameter(argument: Any) -> _Parameter:
    # What only PyTorch's dispatcher asks for has no default; no caller in Python gives it.
    default = argument.default_value if argument.has_default_value() else _MISSING
    if argument.name == "cudnn_enabled":
        default = True
    kind = str(argument.type)
    return _Parameter(argument.name, default, argument.kwarg_only, kind.startswith("List["))


def _by_signature(
    target: Any, args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> dict[str, Argument] | None:
    """Bind the arguments of a Python function, such as those of ``torch.nn.functional``."""
    signature = _signature(target) if inspect.isfunction(target) else None
    if signature is None:
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    names = {"p": "p", "training": "train"} if target.__name__ == "dropout" else {}
    return {
        names.get(name, name): value
        for name, value in bound.arguments.items()
        if not name.startswith("_") and not (name == "inplace" and value is False)
    }


@cache
def _defaults(function: Callable[..., Any]) -> dict[str, Argument]:
    parameters = _signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not _MISSING}


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _transposition(
    name: str, node: Node, args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> Operation | None:
    """``mT`` for every way to swap the last two dimensions; other permutations by their order."""
    if name == "mT":
        return Operation("mT", {"self": args[0]})
    value = fake_of(args[0]) if args else None
    bound = _bind(node, name, args, kwargs)
    if bound is None or not isinstance(value, torch.Tensor) or not value.dim():
        return None
    source, *dims = bound.values()
    order = list(range(value.dim()))
    if name == "permute":
        order = [dim % value.dim() for dim in dims[0]]
    else:
        a, b = (dim % value.dim() for dim in dims)
        order[a], order[b] = order[b], order[a]
    last = [*range(value.dim() - 2), value.dim() - 1, value.dim() - 2]
    if value.dim() >= 2 and order == last:
        return Operation("mT", {"self": source})
    return Operation("permute", {"self": source, "dims": order})


def _conversion(node: Node, args: tuple[Argument, ...]) -> Operation | None:
    """Return a conversion of dtype and nothing else, with the dtype it gives."""
    before, after = fake_of(args[0]), fake_of(node)
    if not isinstance(after, torch.Tensor) or not isinstance(before, torch.Tensor):
        dtype = next(iter(node.args[1:]), None)  # in a rule: x.to(dtype)
        return Operation("to", {"self": args[0], "dtype": dtype}) if dtype is not None else None
    if _device(before) != _device(after) or not same_sizes(before.stride(), after.stride()):
        return None
    return Operation("to", {"self": args[0], "dtype": after.dtype})


def _device(value: torch.Tensor) -> torch.device:
    return value.fake_device if isinstance(value, FakeTensor) else value.device


def _in_one_form(node: Node, arguments: dict[str, Argument]) -> dict[str, Argument]:
    """Count dimensions from the end; drop a dtype that is the argument's own."""
    value = fake_of(arguments.get("self", arguments.get("input")))
    if not isinstance(value, torch.Tensor):
        return arguments
    result = dict(arguments)
    if isinstance(result.get("dim"), int) and result["dim"] >= 0 and value.dim():
        result["dim"] -= value.dim()
    if result.get("dtype") == value.dtype:
        result["dtype"] = None
    return result
