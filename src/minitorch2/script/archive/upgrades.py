"""Calls of operators that meant something else when an archive was written.

An archive has a version of the operators. PyTorch changed the meaning of a few; a call of an older
version is written anew, so that it gives what it gave then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from minitorch2.errors import ArchiveError
from minitorch2.script.frontend.emission import Arguments, Emission, SugaredValue
from minitorch2.script.frontend.python_values import to_sugared_value
from minitorch2.script.frontend.sugared import ConstantValue
from minitorch2.script.ir.types import FLOAT, NONE, TensorType
from minitorch2.script.syntax.source import SourceRange

Upgrade: TypeAlias = Callable[[Emission, Arguments, SourceRange], SugaredValue | None]
Division: TypeAlias = Callable[[Tensor, Any], Tensor]


def divided(self: Tensor, other: Tensor) -> Tensor:
    """Divide; integers gave integers, rounded towards zero."""
    if self.is_floating_point() or other.is_floating_point():
        return torch.true_divide(self, other)
    return torch.div(self, other, rounding_mode="trunc")


def divided_by_number(self: Tensor, other: int | float) -> Tensor:
    """Divide by a number; integers gave integers, rounded towards zero."""
    if self.is_floating_point() or isinstance(other, float):
        return torch.true_divide(self, other)
    return torch.div(self, other, rounding_mode="trunc")


def divided_in_place(self: Tensor, other: Tensor) -> Tensor:
    """Divide in place; integers were rounded towards zero."""
    if self.is_floating_point() or other.is_floating_point():
        return self.true_divide_(other)
    return self.div_(other, rounding_mode="trunc")


def divided_in_place_by_number(self: Tensor, other: int | float) -> Tensor:
    """Divide in place by a number; integers were rounded towards zero."""
    if self.is_floating_point() or isinstance(other, float):
        return self.true_divide_(other)
    return self.div_(other, rounding_mode="trunc")


def _division(by_tensor: Division, by_number: Division) -> Upgrade:
    def upgrade(
        emission: Emission, arguments: Arguments, where: SourceRange
    ) -> SugaredValue | None:
        given = arguments.positional
        types = [argument.as_value(emission, where).type for argument in given]
        if "rounding_mode" in arguments.keywords or not isinstance(types[0], TensorType):
            return None
        if "out" in arguments.keywords:
            raise ArchiveError(
                "aten::div.out has another meaning since version 4 of the operators",
                fix="save the module again with a newer PyTorch",
                user_line=where,
            )
        function = by_tensor if isinstance(types[1], TensorType) else by_number
        return to_sugared_value(function, where).call(emission, arguments, where)

    return upgrade


def _fill(emission: Emission, arguments: Arguments, where: SourceRange) -> None:
    """Fill with a float: without a dtype, a number of any kind gave the default dtype."""
    dtype = arguments.keywords.get("dtype")
    if dtype is None or dtype.as_value(emission, where).type == NONE:
        value = arguments.positional[1].as_value(emission, where)
        if value.type != FLOAT:
            value = emission.emit("aten::Float", (value,), where)
        arguments.positional[1] = to_sugared_value(value, where)


def _spaced(emission: Emission, arguments: Arguments, where: SourceRange) -> None:
    """Give the number of steps; it was 100 where none was given."""
    given = arguments.positional
    if len(given) == 2:
        given.append(ConstantValue(100))
    elif given[2].as_value(emission, where).type == NONE:
        given[2] = ConstantValue(100)


UPGRADES: Final[Mapping[str, tuple[int, Upgrade]]] = {
    "aten::div": (4, _division(divided, divided_by_number)),
    "aten::div_": (4, _division(divided_in_place, divided_in_place_by_number)),
    "aten::full": (5, _fill),
    "aten::linspace": (8, _spaced),
    "aten::logspace": (9, _spaced),
}
"""The first version of an operator's present meaning, and what an older call becomes.

It returns the result, or None where the changed arguments are enough.
"""
