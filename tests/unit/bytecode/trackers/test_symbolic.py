"""Symbolic numbers: computed while capturing, guarded on when the program branches on them."""

from __future__ import annotations

import operator

import pytest

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.torch_values.symbolic import (
    SymbolicNumberVariable,
    compute,
    from_number,
)
from minitorch2.graph.symbols import ShapeEnv


def symbolic(hint: int = 6) -> SymbolicNumberVariable:
    tracker = from_number(ShapeEnv().new_size("s0", hint))
    assert isinstance(tracker, SymbolicNumberVariable)
    return tracker


def test_arithmetic_stays_symbolic() -> None:
    size = symbolic()
    total = compute(operator.add, compute(operator.mul, size, ConstantVariable(2)), size)
    assert isinstance(total, SymbolicNumberVariable)
    assert str(total.as_argument()) == "3*s0" and total.python_type() is int


def test_either_operand_may_be_the_symbolic_one() -> None:
    size = symbolic()
    evaluator: object = None
    difference = operations.binary(evaluator, "-", ConstantVariable(10), size)  # type: ignore[arg-type]
    assert str(difference.as_argument()) == "10 - s0"


@pytest.mark.parametrize(("symbol", "expected"), [(">", True), ("==", False), ("<=", False)])
def test_comparisons_are_decided_by_the_hint(symbol: str, expected: bool) -> None:
    evaluator: object = None
    verdict = operations.compare(evaluator, symbol, symbolic(6), ConstantVariable(5))  # type: ignore[arg-type]
    assert verdict.truth(evaluator) is expected  # type: ignore[arg-type]


def test_plain_numbers_are_constants() -> None:
    assert isinstance(from_number(3), ConstantVariable)
    assert compute(operator.add, ConstantVariable(1), ConstantVariable(2)) is None
