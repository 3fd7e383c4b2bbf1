"""The node in a ``torch.SymInt``: an expression, its Python type and its environment.

``torch.SymInt(node)`` accepts any object that answers the method names below, so PyTorch's own meta
kernels compute with our expressions. Each branch that such a kernel takes asks the node for a
``bool``; that is where conditions are decided and guards recorded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import partial, partialmethod
from typing import TYPE_CHECKING, Any, Final

import sympy

from minitorch2.graph.symbols.conditions import (
    Condition,
    all_of,
    any_of,
    compare,
    map_condition,
    opposite,
)
from minitorch2.graph.symbols.division import floor_div, modular_indexing, to_expr
from minitorch2.graph.symbols.floats import (
    BITWISE,
    FLOAT_OPERATIONS,
    AbsoluteValue,
    Rounded,
    RoundedDown,
    RoundedUp,
    SquareRoot,
    ToFloat,
    TrueDivision,
    Truncated,
    operand,
)
from minitorch2.graph.symbols.polynomials import LONGEST, MOST_IN_SIZES, multiply_out, operations_in
from minitorch2.graph.symbols.text import print_condition, print_expr
from minitorch2.graph.symbols.timing import cached_algebra

if TYPE_CHECKING:
    from minitorch2.graph.symbols.shape_env import ShapeEnv


class SymNode:
    """A symbolic number. ``_expr`` is the original expression; ``expr`` is its simplified form."""

    __slots__ = ("shape_env", "pytype", "_expr", "_version")

    def __init__(self, env: ShapeEnv, expr: Any, pytype: type) -> None:
        self.shape_env = env
        self.pytype = pytype
        self._expr = expr
        self._version = 0

    @property
    def expr(self) -> Any:
        """An int, float, bool, expression or condition, after all that was learned so far."""
        knowledge = self.shape_env.knowledge
        if self._version != knowledge.version:
            self._version = knowledge.version
            change = knowledge.simplify
            is_condition = self.pytype is bool
            self._expr = (map_condition if is_condition else _apply)(self._expr, change)
        return self._expr

    def make(self, expr: Any, pytype: type) -> SymNode:
        """Return a node of the same environment; a number if the expression is too long."""
        if isinstance(expr, sympy.Basic) and operations_in(expr) > LONGEST:
            expr = self.shape_env.fix_long(expr)
        return SymNode(self.shape_env, expr, pytype)

    # What it is ----------------------------------------------------------------------------------

    def _is(self, pytype: type) -> bool:
        return self.pytype is pytype

    is_int = partialmethod(_is, int)
    is_float = partialmethod(_is, float)
    is_bool = partialmethod(_is, bool)

    def is_constant(self) -> bool:
        return False

    def is_symbolic(self) -> bool:
        """Return whether the value may still vary; PyTorch asks only such values for symbols."""
        return not isinstance(self.expr, int | float)

    def is_nested_int(self) -> bool:
        return False

    def nested_int(self) -> None:
        return None

    def constant_int(self) -> None:
        return None

    def _known(self, pytype: type) -> Any:
        return self.expr if type(self.expr) is pytype else None

    maybe_as_int = partialmethod(_known, int)
    maybe_as_float = partialmethod(_known, float)
    maybe_as_bool = partialmethod(_known, bool)

    def has_hint(self) -> bool:
        return self.pytype is bool or self.shape_env.has_hint(self.expr)

    @property
    def hint(self) -> Any:
        """The value in the example."""
        return self.pytype(self.shape_env.hint(self.expr))

    _hint = hint

    def require_hint(self, *_: object) -> Any:
        return self.hint

    def clone(self) -> SymNode:
        return self

    wrap_int = partialmethod(make, pytype=int)
    wrap_float = partialmethod(make, pytype=float)

    def wrap_bool(self, value: bool) -> SymNode:
        return self.make(value, bool)

    # Arithmetic of one operand -------------------------------------------------------------------

    def neg(self) -> SymNode:
        return self.make(arithmetic("mul", self.expr, -1, self.pytype), self.pytype)

    def pos(self) -> SymNode:
        return self

    def abs(self) -> SymNode:
        if self.pytype is float:
            return self.make(AbsoluteValue(self.expr), float)
        negative = self.shape_env.evaluate(compare("<", self.expr, 0))
        return self.neg() if negative else self

    def sym_not(self) -> SymNode:
        return self.make(opposite(self.expr), bool)

    def sym_float(self) -> SymNode:
        return self if self.pytype is float else self._converted(ToFloat, float)

    def sym_sqrt(self) -> SymNode:
        return self.make(SquareRoot(self.expr), float)

    def _converted(self, function: Callable[[Any], Any], pytype: type) -> SymNode:
        if self.pytype is int and pytype is int:
            return self
        quotient = _ROUNDED_QUOTIENTS.get(function) if isinstance(self.expr, TrueDivision) else None
        if quotient is not None and all(map(self._is_exact, self.expr.args)):
            return self.make(quotient(*map(to_expr, self.expr.args)), int)
        return self.make(function(self.expr), pytype)

    def _is_exact(self, number: sympy.Expr) -> bool:
        """Return whether an integer is one of those whose quotients round as exact ones do.

        A quotient of such is less than an integer only if its nearest float is, too.
        """
        limits = compare(">=", to_expr(number), 1), compare("<=", to_expr(number), 2**53)
        return bool(number.is_integer) and all(map(self.shape_env.holds, limits))

    sym_int = trunc = partialmethod(_converted, Truncated, int)
    floor = partialmethod(_converted, RoundedDown, int)
    ceil = partialmethod(_converted, RoundedUp, int)

    def round(self, digits: None = None) -> SymNode:
        return self._converted(Rounded, int)

    def sym_sum(self, terms: Iterable[Any]) -> SymNode:
        total = self.make(0, int)
        for term in terms:
            total = total.add(term if isinstance(term, SymNode) else self.make(term, int))  # type: ignore[attr-defined]
        return total

    def sym_ite(self, then: SymNode, other: SymNode) -> SymNode:
        return then if self.bool_() else other

    # Division and extremes need facts about their operands ---------------------------------------

    def floordiv(self, other: SymNode) -> SymNode:
        """``a // b``; the sign of b is decided, since the algebra takes it for positive."""
        if float in (self.pytype, other.pytype):
            return self._float("floordiv", other)
        a, b = self._divided(other)
        if self._is_below(a, b):
            return self.make(0, int)
        return self.make(arithmetic("floordiv", a, b), int)

    int_floordiv = floordiv

    def mod(self, other: SymNode) -> SymNode:
        """``a % b``."""
        if float in (self.pytype, other.pytype):
            return self._float("mod", other)
        a, b = self._divided(other)
        rest = a if self._is_below(a, b) else arithmetic("mod", a, b)
        is_negated = b != other.expr
        return self.make(arithmetic("mul", rest, -1) if is_negated else rest, int)

    def _divided(self, other: SymNode) -> tuple[Any, Any]:
        """Dividend and divisor, both negated if the divisor is negative.

        An unbacked divisor is assumed to be positive.

        Raises:
            ZeroDivisionError: the divisor is 0.
        """
        env, a, b = self.shape_env, self.expr, other.expr
        positive = compare(">", b, 0)
        if not env.can_decide(positive):
            if not env.operator:
                env.expect(positive)
            return a, b
        if env.evaluate(positive):
            return a, b
        if env.evaluate(compare("==", b, 0)):
            raise ZeroDivisionError("integer division or modulo by zero")
        return arithmetic("mul", a, -1), arithmetic("mul", b, -1)

    def _is_below(self, a: Any, b: Any) -> bool:
        """Return whether ``0 <= a < b`` is certain: then ``a // b`` is 0 and ``a % b`` is a."""
        decide = self.shape_env.decide
        return decide(compare(">=", a, 0)) is True and decide(compare("<", a, b)) is True

    def pow(self, other: SymNode) -> SymNode:
        """``a ** b``: a polynomial if b is a number; a shift if a is 2; else b is specialised."""
        if float in (self.pytype, other.pytype):
            return self._float("pow", other)
        if self.expr == 2 and self.shape_env.holds(compare(">=", other.expr, 0)):
            return self.make(BITWISE[operator.lshift](1, other.expr), int)
        exponent = self.shape_env.specialize(other.expr)
        if exponent < 0:
            return self._float("pow", self.make(exponent, int))
        return self.make(arithmetic("pow", self.expr, exponent), int)

    pow_by_natural = pow

    def sym_max(self, other: SymNode) -> SymNode:
        """Return the greater one: one of the two expressions if facts decide, else a ``Max``."""
        return self._extreme(other, ">=", "max")

    def sym_min(self, other: SymNode) -> SymNode:
        """Return the lesser one, like `sym_max`."""
        return self._extreme(other, "<=", "min")

    def _extreme(self, other: SymNode, relation: str, name: str) -> SymNode:
        if float in (self.pytype, other.pytype):
            # As Python's: the first operand stays, unless the other one is beyond it.
            beyond = compare(relation.rstrip("="), other.expr, self.expr)
            if self.pytype is other.pytype and not self.shape_env.can_decide(beyond):
                return self.make(arithmetic(name, self.expr, other.expr, float), float)
            return other if self.shape_env.evaluate(beyond) else self
        known = self.shape_env.decide(compare(relation, self.expr, other.expr))
        if known is not None:
            return self if known else other
        function = sympy.Max if name == "max" else sympy.Min
        return self.make(to_expr(function(self.expr, other.expr)), int)

    def _float(self, name: str, other: SymNode) -> SymNode:
        env, zero = self.shape_env, compare("==", other.expr, 0)
        divides = "div" in name or name == "mod"
        if divides and not env.can_decide(zero):
            env.expect(opposite(zero))
        elif divides and env.evaluate(zero):
            raise ZeroDivisionError("division by zero")
        return self.make(arithmetic(name, self.expr, other.expr, float), float)

    # Decisions -----------------------------------------------------------------------------------

    def condition(self) -> Condition:
        """Return the truth of the value as a condition."""
        if self.pytype is bool:
            return self.expr  # type: ignore[no-any-return]
        return compare("!=", self.expr, 0)

    def bool_(self, file: str = "", line: int = 0) -> bool:
        return self.shape_env.evaluate(self.condition())

    guard_bool = guard_size_oblivious = bool_

    def guard_or_false(self, file: str, line: int) -> bool:
        return self.or_default(False)

    def guard_or_true(self, file: str, line: int) -> bool:
        return self.or_default(True)

    def or_default(self, default: bool) -> bool:
        """Return the truth, or the default if neither facts nor hints decide."""
        condition = self.condition()
        if isinstance(condition, bool) or self.shape_env.can_decide(condition):
            return self.shape_env.evaluate(condition)
        return default

    def expect_true(self, file: str = "", line: int = 0) -> bool:
        return self.shape_env.expect(self.condition())

    def expect_size(self, file: str, line: int) -> bool:
        return self.shape_env.expect(compare(">=", self.expr, 0))

    def int_(self, file: str = "", line: int = 0) -> int:
        return self.shape_env.specialize(self.expr)  # type: ignore[no-any-return]

    guard_int = int_

    def guard_float(self, file: str, line: int) -> float:
        return float(self.shape_env.specialize(self.expr))

    def statically_known_true(self, file: str = "", line: int = 0) -> bool:
        return self.shape_env.decide(self.condition()) is True

    # Layouts: lazy properties of tensors, asked for only where they matter -----------------------

    def is_contiguous(self, sizes: list[SymNode], strides: list[SymNode]) -> SymNode:
        """Return whether the strides are those of a dense row-major tensor."""
        return self.wrap_bool(_is_dense(sizes, strides, range(len(sizes) - 1, -1, -1)))

    def is_channels_last_contiguous_2d(
        self, sizes: list[SymNode], strides: list[SymNode]
    ) -> SymNode:
        """Return whether the strides are those of dense images with innermost channels."""
        return self.wrap_bool(len(sizes) == 4 and _is_dense(sizes, strides, (1, 3, 2, 0)))

    def is_channels_last_contiguous_3d(
        self, sizes: list[SymNode], strides: list[SymNode]
    ) -> SymNode:
        """Return whether the strides are those of dense volumes with innermost channels."""
        return self.wrap_bool(len(sizes) == 5 and _is_dense(sizes, strides, (1, 4, 3, 2, 0)))

    # Claiming less than is true is safe here: such strides are dense in practice.
    is_channels_last_strides_2d = is_channels_last_contiguous_2d
    is_channels_last_strides_3d = is_channels_last_contiguous_3d

    def is_non_overlapping_and_dense(self, sizes: list[SymNode], strides: list[SymNode]) -> SymNode:
        """Return whether the elements fill a piece of memory without holes."""
        return self.wrap_bool(_fills_memory(sizes, strides))

    def is_non_overlapping_and_dense_indicator(
        self, sizes: list[SymNode], strides: list[SymNode]
    ) -> SymNode:
        """Return the same as a number, 0 or 1."""
        return self.make(int(_fills_memory(sizes, strides)), int)

    # Text ----------------------------------------------------------------------------------------

    def _graph_repr(self) -> str:
        return repr(self)

    def __str__(self) -> str:
        return (print_condition if self.pytype is bool else print_expr)(self.expr)

    __repr__ = __str__

    def str(self) -> Any:
        """Return the text; PyTorch calls the method by this name."""
        return self.__str__()


def _apply(expr: Any, change: Callable[[Any], Any]) -> Any:
    return change(expr)


def _is_dense(sizes: list[SymNode], strides: list[SymNode], order: Iterable[int]) -> bool:
    """Return whether dimensions in this order, innermost first, follow each other without holes."""
    expected: Any = 1
    for d in order:
        size, stride = sizes[d].expr, strides[d].expr
        if size == 1:
            continue
        if stride != expected:
            return False
        expected = arithmetic("mul", expected, size)
    return True


def _fills_memory(sizes: list[SymNode], strides: list[SymNode]) -> bool:
    """Return whether some order of the dimensions is dense: find the next one by its stride."""
    left = [(size.expr, stride.expr) for size, stride in zip(sizes, strides, strict=True)]
    left = [(size, stride) for size, stride in left if size != 1]
    expected: Any = 1
    while left:
        found = next((pair for pair in left if pair[1] == expected), None)
        if found is None:
            return False
        left.remove(found)
        expected = arithmetic("mul", expected, found[0])
    return True


# Binary operators ---------------------------------------------------------------------------------


def arithmetic(name: str, a: Any, b: Any, pytype: type = int) -> Any:
    """Return an operation on integers or expressions; sums of products stay sums of products."""
    if pytype is float:
        return FLOAT_OPERATIONS[name](operand(a), operand(b))
    if not isinstance(a, sympy.Basic) and not isinstance(b, sympy.Basic):
        return _PLAIN[name](a, b)
    return _symbolic(name, a, b)


@cached_algebra
def _symbolic(name: str, a: Any, b: Any) -> Any:
    result = _SYMBOLIC[name](a, b)
    if name in ("mul", "pow") and isinstance(result, sympy.Basic):
        result = multiply_out(result, MOST_IN_SIZES)
    return to_expr(result)


_PLAIN: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
}
_SYMBOLIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **_PLAIN,
    "floordiv": floor_div,
    "mod": lambda a, b: modular_indexing(a, 1, b),
}
_ROUNDED_QUOTIENTS: Final[dict[Any, Callable[[Any, Any], Any]]] = {
    RoundedDown: partial(arithmetic, "floordiv"),
    RoundedUp: lambda a, b: arithmetic("floordiv", a + b - 1, b),
    Truncated: partial(arithmetic, "floordiv"),
}
"""What rounds a quotient of two positive integers, as an expression of integers."""
_CONDITIONS: Final[dict[str, str]] = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}

_MIRRORED: Final = {"==": "eq", "!=": "ne", "<": "gt", "<=": "ge", ">": "lt", ">=": "le"}


def _number_method(name: str) -> Callable[[SymNode, SymNode], SymNode]:
    def method(self: SymNode, other: SymNode) -> SymNode:
        if other.is_nested_int():
            return getattr(other, name)(self)  # type: ignore[no-any-return]
        pytype = float if self.pytype is float or other.pytype is float else int
        return self.make(arithmetic(name, self.expr, other.expr, pytype), pytype)

    return method


def _float_method(name: str) -> Callable[[SymNode, SymNode], SymNode]:
    def method(self: SymNode, other: SymNode) -> SymNode:
        return self._float(name, other)

    return method


def _condition_method(relation: str) -> Callable[[SymNode, SymNode], SymNode]:
    def method(self: SymNode, other: SymNode) -> SymNode:
        if other.is_nested_int():
            return getattr(other, _MIRRORED[relation])(self)  # type: ignore[no-any-return]
        return self.make(compare(relation, _number(self), _number(other)), bool)

    return method


def _number(node: SymNode) -> Any:
    """Return the operand of a comparison; a truth value counts as 0 or 1."""
    return int(node.bool_()) if node.pytype is bool else node.expr


def _and(self: SymNode, other: SymNode) -> SymNode:
    return self.make(all_of([self.condition(), other.condition()]), bool)


def _or(self: SymNode, other: SymNode) -> SymNode:
    return self.make(any_of([self.condition(), other.condition()]), bool)


def _install() -> None:
    for name in ("add", "sub", "mul"):
        setattr(SymNode, name, _number_method(name))
    for name in ("truediv", "int_truediv", "float_truediv", "float_pow"):
        setattr(SymNode, name, _float_method(name))
    for name, relation in _CONDITIONS.items():
        setattr(SymNode, name, _condition_method(relation))
    for name in ("and_", "sym_and"):
        setattr(SymNode, name, _and)
    for name in ("or_", "sym_or"):
        setattr(SymNode, name, _or)


_install()
