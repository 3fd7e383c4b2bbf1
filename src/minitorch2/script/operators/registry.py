"""Operators by kind: those of PyTorch, read on first use, and those that are registered here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch

from minitorch2.native.torch_internals.operators import OpOverload, OpOverloadPacket
from minitorch2.script.ir.graph import Node
from minitorch2.script.ir.types import TensorType, Type, match_type
from minitorch2.script.operators import builtins
from minitorch2.script.operators.schema import FunctionSchema, parse_schema


@dataclass(frozen=True)
class Operator:
    """A schema, and what it computes.

    Attributes:
        function: an operator of PyTorch, or a Python function of all arguments in their order;
            None if only the runtime gives it a meaning.
    """

    schema: FunctionSchema
    function: Callable[..., Any] | None

    def __call__(self, *arguments: Any) -> Any:
        """Compute the results of all arguments, in the order of the schema."""
        assert self.function is not None
        if not isinstance(self.function, OpOverload):
            return self.function(*arguments)
        pairs = list(zip(self.schema.arguments, arguments))
        named = {argument.name: value for argument, value in pairs if argument.kwarg_only}
        return self.function(*arguments[: len(pairs) - len(named)], **named)


# The kinds of `prim` whose schemas are taken from PyTorch; others are nodes of its own IR.
PUBLISHED_PRIMS: Final = frozenset(
    f"prim::{name}"
    for name in (
        *("abs", "min", "max", "rangelist", "data", "type", "index"),
        *("NumToTensor", "unchecked_unwrap_optional"),
    )
)
REGISTERED: Final[dict[str, dict[str, Operator]]] = {}


def register_operator(schema_text: str, function: Callable[..., Any] | None) -> Operator:
    """Add an operator, or replace the one with the same name and overload.

    Args:
        schema_text: its schema.
        function: takes all arguments in the order of the schema; see `Operator`.
    """
    made = Operator(parse_schema(schema_text), function)
    REGISTERED.setdefault(made.schema.name, {})[made.schema.overload] = made
    overloads.cache_clear()
    resolve.cache_clear()
    return made


@cache
def overloads(kind: str) -> tuple[Operator, ...]:
    """Return the operators of a kind such as ``"aten::add"``, in the order of registration.

    PyTorch's operators come first. One that is registered under the same overload takes its place.
    An unknown kind has none.
    """
    found = {made.schema.overload: made for made in _published(kind)}
    return tuple((found | REGISTERED.get(kind, {})).values())


def _published(kind: str) -> list[Operator]:
    """Read PyTorch's operators of a kind."""
    namespace, _, name = kind.partition("::")
    if not name.isidentifier() or (namespace == "prim" and kind not in PUBLISHED_PRIMS):
        return []
    packet = getattr(getattr(torch.ops, namespace), name, None)
    if not isinstance(packet, OpOverloadPacket):
        return []
    names: list[str] = packet.overloads()  # type: ignore[no-untyped-call]
    return [_published_overload(packet, name) for name in names]


def _published_overload(packet: OpOverloadPacket, name: str) -> Operator:
    schema = parse_schema(str(getattr(packet, name)._schema))
    takes_tensors = any(isinstance(each.type, TensorType) for each in schema.arguments)
    python = builtins.function_of(schema.full_name, schema.name, takes_tensors)
    return Operator(schema, python or getattr(packet, _without_twin(name)))


def _without_twin(name: str) -> str:
    """Return the overload that computes: a "hacked twin" differs from it in a type alone.

    `index` takes a list of tensors or None. Its twin takes a list of tensors.
    """
    if not name.endswith("hacked_twin"):
        return name
    return name.removesuffix("hacked_twin").removesuffix("_") or "default"


@cache
def resolve(kind: str, types: tuple[Type, ...]) -> Operator | None:
    """Return the first overload that takes all arguments with these types, as they are."""
    return next((each for each in overloads(kind) if _accepts(each.schema, types)), None)


def _accepts(schema: FunctionSchema, types: Sequence[Type]) -> bool:
    if len(types) != len(schema.arguments) and not _takes_more(schema, types):
        return False
    bindings: dict[str, Type] = {}
    pairs = zip(schema.arguments, types)
    return all(match_type(argument.type, given, bindings) is not None for argument, given in pairs)


def _takes_more(schema: FunctionSchema, types: Sequence[Type]) -> bool:
    return schema.is_varargs and len(types) > len(schema.arguments)


def operator_of(node: Node) -> Operator | None:
    """Return the operator that a node calls, by the types of its inputs; None if it has none.

    Control flow and other kinds without a schema have none.
    """
    return resolve(node.kind, tuple(value.type for value in node.inputs))


for _text, _function in builtins.SCHEMAS.items():
    register_operator(_text, _function)
