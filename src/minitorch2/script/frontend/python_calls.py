"""Functions that a script leaves to Python: marked ones, and those with a gradient of their own."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from minitorch2.script.frontend.annotations import UnknownTypeError, type_from_object
from minitorch2.script.frontend.emission import Arguments, Emission, SugaredValue
from minitorch2.script.frontend.sugared import SimpleValue
from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.types import ANY, Type
from minitorch2.script.syntax.source import SourceRange


def script_mark(function: Any) -> str | None:
    """Return how a function is marked: ``"ignore"``, ``"unused"``, ``"export"``, or None."""
    mark = getattr(function, "__minitorch2_script__", None)
    if isinstance(mark, str):
        return mark
    text = str(getattr(function, "_torchscript_modifier", "")).lower()
    names = {"unused": "unused", "ignore": "ignore", "export": "export", "ignored": "ignore"}
    return next((name for word, name in names.items() if word in text), None)


def result_of_python(function: Callable[..., Any]) -> Type:
    """Return the type that a function left to Python gives: its annotation's, or Tensor."""
    try:
        return type_from_object(typing.get_type_hints(function).get("return", torch.Tensor))
    except (NameError, TypeError, UnknownTypeError):
        return ANY


def call_python(
    emission: Emission,
    function: Callable[..., Any],
    arguments: Arguments,
    where: SourceRange,
    type_: Type = ANY,
) -> SugaredValue:
    """Insert the call of a Python object when the graph runs; its result is checked."""
    given = [argument.as_value(emission, where) for argument in arguments.all()]
    names = tuple(arguments.keywords)
    node = emission.node("prim::PythonOp", given, (type_,), where, function=function)
    node.attributes["keywords"] = names
    return SimpleValue(node.output)


def is_autograd_function(given: Any) -> bool:
    """Tell whether an object is a class with a gradient of its own."""
    return isinstance(given, type) and issubclass(given, torch.autograd.Function)


@dataclass(frozen=True)
class PythonFunction(SugaredValue):
    """The method `apply` of an `autograd.Function`: Python runs it, and its own gradient."""

    function: types.MethodType
    owner: Any

    def describe(self) -> str:
        return f"the autograd function {self.owner.__qualname__}"

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        type_ = result_of_python(self.owner.forward)
        return call_python(emission, self.function, arguments, where, type_)


@dataclass(frozen=True)
class StaticExit(SugaredValue):
    """The result of what never returns: a value of its type that no way reads."""

    type: Type
    first_class = True

    def as_value(self, emission: Emission, where: SourceRange) -> Value:
        return emission.node("prim::Uninitialized", (), (self.type,), where).output


def raise_unused(
    emission: Emission, function: types.FunctionType, where: SourceRange
) -> SugaredValue:
    """Insert the error that a function marked as unused raises when it is called."""
    emission.node(
        "prim::RaiseException",
        (
            emission.constant(
                f"{function.__qualname__} is marked as unused, and was called", where
            ),
            emission.constant("builtins.NotImplementedError", where),
        ),
        (),
        where,
    )
    return StaticExit(result_of_python(function))
