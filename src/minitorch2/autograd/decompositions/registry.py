"""The table of decompositions: operator overload -> Python function in terms of other operators.

A decomposition runs while the tracer records, so the operators that it calls may be decomposed
again, to a fixed point (PyTorch 2 paper, section 4.2). A cycle is an error, found when it is
entered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from minitorch2.errors import LoweringError
from minitorch2.graph.extensions import note_extension
from minitorch2.native.torch_internals.operators import OpOverload, OpOverloadPacket

Operator = OpOverload
OperatorPacket = OpOverloadPacket
Decomposition = Callable[..., Any]
Function = TypeVar("Function", bound=Decomposition)

DECOMPOSITIONS: Final[dict[Operator, Decomposition]] = {}
"""The table that our own backends use."""


def register_decomposition(
    *operators: Operator | OperatorPacket, table: dict[Operator, Decomposition] | None = None
) -> Callable[[Function], Function]:
    """Register a function as the meaning of operators (of all functional overloads of a packet).

    Raises LoweringError when an operator already has a decomposition in the table.

    >>> import math, torch
    >>> mine = {}
    >>> @register_decomposition(torch.ops.aten.log2.default, table=mine)
    ... def log2(x):
    ...     return torch.log(x) * (1 / math.log(2))
    >>> [str(operator) for operator in mine]
    ['aten.log2.default']
    """
    target = DECOMPOSITIONS if table is None else table

    def register(function: Function) -> Function:
        for overload in (o for operator in operators for o in _overloads(operator)):
            if overload in target:
                raise LoweringError(
                    f"{overload} already has a decomposition", code="decomposition-twice"
                )
            target[overload] = function
        if target is DECOMPOSITIONS:
            note_extension(function)
        return function

    return register


def _overloads(operator: Operator | OperatorPacket) -> list[Operator]:
    if isinstance(operator, OpOverload):
        return [operator]
    overloads = [getattr(operator, name) for name in operator.overloads()]  # type: ignore[no-untyped-call]
    return [overload for overload in overloads if not overload._schema.is_mutable]
