"""Operators and comparisons of expressions, with the reflected forms of tensors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from typing import Any, Final

import torch

from minitorch2.script.frontend.emission import UNKNOWN, Emission, SugaredValue
from minitorch2.script.frontend.refine import Condition
from minitorch2.script.frontend.sugared import (
    ConstantValue,
    SimpleValue,
    TupleSugar,
    is_constant,
    list_of,
    sugar,
)
from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.types import (
    INT,
    NONE,
    STR,
    EnumType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    is_subtype_of,
)
from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.source import SourceRange

BINARY: Final = {
    "+": "aten::add", "-": "aten::sub", "*": "aten::mul", "/": "aten::div",
    "//": "aten::floordiv", "%": "aten::remainder", "**": "aten::pow", "@": "aten::matmul",
    "&": "aten::__and__", "|": "aten::__or__", "^": "aten::__xor__",
    "<<": "aten::__lshift__", ">>": "aten::__rshift__",
}  # fmt: skip
_COMPARE: Final = {
    "<": "aten::lt", "<=": "aten::le", ">": "aten::gt", ">=": "aten::ge",
    "==": "aten::eq", "!=": "aten::ne",
}  # fmt: skip
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_MOST_FACTORS: Final = 16
"""TorchScript's power of ints is a float: up to this exponent it is a product instead."""

_UNARY: Final = {"-": "aten::neg", "~": "aten::bitwise_not"}
_FOLDED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
    "is": lambda a, b: a is b,
    "is not": lambda a, b: a is not b,
}


class OperatorEmitter(Emission):
    """Emits operators and comparisons; subclasses know expressions and conditions."""

    def expression(self, expression: t.Expr, hint: Type | None = None) -> SugaredValue:
        """Return what an expression is."""
        raise NotImplementedError

    def condition(self, expression: t.Expr) -> Condition:
        """Return an expression as a condition of an if, with what it tells of types."""
        raise NotImplementedError

    def value(self, expression: t.Expr, hint: Type | None = None) -> Value:
        """Return the value of an expression; literals without elements have the hinted type."""
        return self.expression(expression, hint).as_value(self, expression.range)

    def _sugared(self, condition: Condition, where: SourceRange) -> SugaredValue:
        if condition.value is None:
            return ConstantValue(condition.known)
        return sugar(condition.value)

    def emit_Unary(self, expression: t.Unary) -> SugaredValue:
        if expression.op == "not":
            return self._sugared(self.condition(expression), expression.range)
        operand = self.expression(expression.operand)
        known = operand.constant()
        if expression.op == "-" and isinstance(known, int | float):
            return ConstantValue(-known)
        value = operand.as_value(self, expression.range)
        if expression.op == "+":
            return sugar(value)
        return sugar(self.emit(_UNARY[expression.op], (value,), expression.range))

    def emit_Binary(self, expression: t.Binary) -> SugaredValue:
        left, right = self.expression(expression.left), self.expression(expression.right)
        if expression.op == "+" and (parts := self._tuples(left, right, expression)) is not None:
            return TupleSugar(parts)
        if expression.op in "+*" and is_tuple(left) != is_tuple(right):
            repeated = self._repeated(left, right, expression)
            if repeated is not None:
                return repeated
            left, right = (self._as_list(side, expression.range) for side in (left, right))
        values = (left.as_value(self, expression.range), right.as_value(self, expression.range))
        return sugar(self.binary(expression.op, *values, expression.range))

    def _repeated(
        self, left: SugaredValue, right: SugaredValue, expression: t.Binary
    ) -> SugaredValue | None:
        """Return a tuple times a constant."""
        given, times = (left, right) if is_tuple(left) else (right, left)
        count, items = times.constant(), given.items(self, expression.range)
        if expression.op != "*" or type(count) is not int or items is None:
            return None
        return TupleSugar(items * count)

    def _tuples(
        self, left: SugaredValue, right: SugaredValue, expression: t.Expr
    ) -> list[SugaredValue] | None:
        """Return the elements of both operands if both are tuples."""
        if not (is_tuple(left) and is_tuple(right)):
            return None
        first = left.items(self, expression.range)
        second = right.items(self, expression.range)
        return None if first is None or second is None else first + second

    def _as_list(self, given: SugaredValue, where: SourceRange) -> SugaredValue:
        """Return a tuple as a list: its number of elements is not known after ``t * n``."""
        items = given.items(self, where) if is_tuple(given) else None
        if items is None:
            return given
        return sugar(list_of(self, [item.as_value(self, where) for item in items], where))

    def binary(self, op: str, left: Value, right: Value, where: SourceRange) -> Value:
        """Emit a binary operator."""
        tensor_left = isinstance(left.type, TensorType)
        tensor_right = isinstance(right.type, TensorType)
        if tensor_right and not tensor_left and not isinstance(left.type, OptionalType):
            return self._reflected(op, left, right, where)
        if op == "**" and left.type == right.type == INT:
            return self._power(left, right, where)
        kind = BINARY[op]
        if op == "//" and tensor_left:
            kind = "aten::floor_divide"
        if op == "%" and left.type == STR:
            return self.emit("aten::percentFormat", (left, right), where)
        return self.emit(kind, (left, right), where)

    def _power(self, left: Value, right: Value, where: SourceRange) -> Value:
        """Emit a power of ints; one with a small constant exponent is an int, as in Python."""
        exponent = right.constant()
        if not isinstance(exponent, int) or not 1 <= exponent <= _MOST_FACTORS:
            return self.emit("aten::pow", (left, right), where)
        result = left
        for _ in range(exponent - 1):
            result = self.emit("aten::mul", (result, left), where)
        return result

    def _reflected(self, op: str, left: Value, right: Value, where: SourceRange) -> Value:
        """Emit an operator of a number and a tensor, as the tensor's reflected method does."""
        if op in ("+", "*", "&", "|", "^"):
            return self.emit(BINARY[op], (right, left), where)
        if op == "-":
            return self.emit("aten::rsub", (right, left), where)
        if op == "/":
            reciprocal = self.emit("aten::reciprocal", (right,), where)
            return self.emit("aten::mul", (reciprocal, left), where)
        if op in ("**", "%"):
            return self.emit(BINARY[op], (left, right), where)
        tensor = self.emit("aten::scalar_tensor", (left,), where)
        return self.binary(op, tensor, right, where)

    def emit_Compare(self, expression: t.Compare) -> SugaredValue:
        if len(expression.rest) > 1:
            return self._sugared(self.condition(expression), expression.range)
        ((op, right),) = expression.rest
        return self.comparison(
            op, self.expression(expression.first), self.expression(right), expression.range
        )

    def comparison(
        self, op: str, left: SugaredValue, right: SugaredValue, where: SourceRange
    ) -> SugaredValue:
        """Emit one comparison; of constants it is a constant."""
        known = (left.constant(), right.constant())
        tensors = any(isinstance(side, torch.Tensor) for side in known)
        if all(side is not UNKNOWN for side in known) and (not tensors or op in ("is", "is not")):
            with suppress(TypeError):  # no schema fits such constants, which the operator tells
                answer = _FOLDED[op](*known)
                if not all(map(is_constant, known)):
                    self.constants.add(known, _compared, _FOLDED[op], answer, where)
                return ConstantValue(answer)
        if op in ("is", "is not"):
            return self._identity(op, left, right, where)
        if op in ("in", "not in"):
            found = self._membership(left, right, where)
            return (
                sugar(self.emit("aten::__not__", (found,), where))
                if op == "not in"
                else sugar(found)
            )
        a, b = left.as_value(self, where), right.as_value(self, where)
        if isinstance(b.type, TensorType) and not isinstance(a.type, TensorType | OptionalType):
            a, b, op = b, a, _MIRRORED[op]
        return sugar(self.emit(_COMPARE[op], (a, b), where))

    def _identity(
        self, op: str, left: SugaredValue, right: SugaredValue, where: SourceRange
    ) -> SugaredValue:
        sides = [
            side.as_value(self, where).type if side.first_class else None for side in (left, right)
        ]
        none = [side == NONE for side in sides]
        if any(none) and not all(none):
            other = sides[none.index(False)]
            if other is None or not may_be_none(other):
                return ConstantValue(op == "is not")
        kind = "aten::__is__" if op == "is" else "aten::__isnot__"
        return sugar(
            self.emit(kind, (left.as_value(self, where), right.as_value(self, where)), where)
        )

    def _membership(self, item: SugaredValue, container: SugaredValue, where: SourceRange) -> Value:
        items = container.items(self, where)
        value = item.as_value(self, where)
        if items is None:
            inside = container.as_value(self, where)
            return self.emit("aten::__contains__", (inside, value), where)
        if not items:
            return self.truth(False, where)
        values = [part.as_value(self, where) for part in items]
        if isinstance(value.type, EnumType):
            equal = [self.emit("aten::eq", (value, part), where) for part in values]
            return reduce(lambda a, b: self.emit("aten::__or__", (a, b), where), equal)
        return self.emit("aten::__contains__", (list_of(self, values, where), value), where)


def _compared(pair: tuple[Any, Any], op: Callable[[Any, Any], Any]) -> Any:
    return op(*pair)


def may_be_none(type_: Type) -> bool:
    """Tell whether a value of a type can be None."""
    return is_subtype_of(NONE, type_)


def is_tuple(given: SugaredValue) -> bool:
    """Tell whether a value is a tuple."""
    return (
        isinstance(given, TupleSugar)
        or isinstance(given.constant(), tuple)
        or (isinstance(given, SimpleValue) and isinstance(given.type, TupleType))
    )
