"""Symbolic sizes: SymPy expressions that travel through PyTorch's own meta kernels.

``torch.SymInt(node)`` accepts any object that answers the SymNode method names. Ours holds a SymPy
expression and the :class:`ShapeEnv` it belongs to. Every branch that a kernel takes on a symbolic
value consults the *hint* (the value in the example input) and records a *guard*: the condition
under which the same branch would be taken again (PyTorch 2 paper, section 5.1).

Sizes 0 and 1 are always specialised (section 5.2), so a symbol stands for an integer of at least 2
and comparisons that this decides need no guard.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

import sympy
import torch

Expr: TypeAlias = "int | sympy.Expr"

SMALLEST_SYMBOLIC_SIZE: Final = 2
"""0 and 1 are specialised, so no symbol can stand for them."""


def expr_of(size: int | float | torch.SymInt | torch.SymFloat | sympy.Expr) -> Any:
    """The expression of a size: a plain number stays as it is, a SymInt gives its SymPy expression.

    >>> expr_of(4)
    4
    >>> env = ShapeEnv()
    >>> expr_of(env.new_size("s0", 8) * 2 + 1)
    2*s0 + 1
    """
    if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return _plain(size.node.expr)
    return size


def free_symbols(value: Any) -> set[sympy.Symbol]:
    """The size symbols that occur in an argument structure."""
    if isinstance(value, sympy.Basic):
        return {symbol for symbol in value.free_symbols if isinstance(symbol, sympy.Symbol)}
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return free_symbols(value.node.expr)
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return set().union(*map(free_symbols, value)) if value else set()
    if isinstance(value, slice):
        return free_symbols((value.start, value.stop, value.step))
    return set()


def _plain(expr: sympy.Basic) -> Any:
    if isinstance(expr, sympy.Integer):
        return int(expr)
    return expr


class ShapeEnv:
    """The size symbols of one compilation, their hints, and the guards recorded so far.

    ``guards`` are SymPy conditions over the symbols, each once, in the order of first need.
    """

    def __init__(self) -> None:
        self.hints: dict[sympy.Symbol, int] = {}
        self.guards: dict[sympy.Basic, None] = {}

    def new_symbol(self, name: str, hint: int) -> sympy.Symbol:
        """Make the symbol ``name``, an integer >= 2 whose value in the example is ``hint``."""
        symbol = sympy.Symbol(name, positive=True, integer=True)
        self.hints[symbol] = hint
        return symbol

    def new_size(self, name: str, hint: int) -> int | torch.SymInt:
        """A symbolic size, or the plain int where ``hint`` is 0 or 1 (0/1 specialization)."""
        if hint < SMALLEST_SYMBOLIC_SIZE:
            return hint
        return self.size_of(self.new_symbol(name, hint))

    def size_of(self, expr: Expr) -> int | torch.SymInt:
        """The SymInt (or plain int) that carries ``expr``."""
        if isinstance(expr, (int, sympy.Integer)):
            return int(expr)
        return torch.SymInt(SymNode(self, expr, int))  # type: ignore[no-untyped-call]

    def hint(self, expr: Any) -> Any:
        """The value of an expression under the example input's sizes."""
        if isinstance(expr, sympy.Basic):
            return expr.xreplace(self.hints)
        return expr

    def evaluate(self, condition: sympy.Basic) -> bool:
        """Decide a condition for this compilation, with a guard unless it always holds (or
        never).
        """
        known = statically_known(condition)
        if known is not None:
            return known
        value = bool(self.hint(condition))
        self.guards[condition if value else sympy.Not(condition)] = None
        return value

    def evaluate_sym_node(self, node: SymNode, *_: object, **__: object) -> bool | int:
        """Decide a symbolic value: the name under which PyTorch's Python kernels ask for it."""
        return node.bool_() if node.pytype is bool else node.int_()

    def specialize(self, expr: sympy.Expr) -> int:
        """The integer value of an expression, fixed by a guard."""
        value = int(self.hint(expr))
        if free_symbols(expr):
            self.evaluate(sympy.Eq(expr, value))
        return value


@lru_cache(maxsize=4096)
def statically_known(condition: Any) -> bool | None:
    """True or False where every admissible size gives the same answer, else None.

    Writes each symbol as ``2 + k`` with ``k >= 0``, and lets SymPy decide.

    >>> s = sympy.Symbol("s0", positive=True, integer=True)
    >>> statically_known(sympy.Eq(s, 1)), statically_known(s > 5)
    (False, None)
    """
    if condition in (sympy.true, sympy.false):
        return bool(condition)
    shifted = condition.xreplace(
        {symbol: _at_least_two(symbol) for symbol in condition.free_symbols}
    )
    if isinstance(shifted, sympy.core.relational.Relational):
        shifted = shifted.func(sympy.expand(shifted.lhs - shifted.rhs), 0)
    return bool(shifted) if shifted in (sympy.true, sympy.false) else None


@lru_cache(maxsize=1024)
def _at_least_two(symbol: sympy.Symbol) -> sympy.Expr:
    return (
        sympy.Symbol(f"{symbol.name}_rest", nonnegative=True, integer=True) + SMALLEST_SYMBOLIC_SIZE
    )


def floor_divide(left: Any, right: Any) -> Any:
    """Integer division of size expressions, exact where SymPy sees that it is."""
    return sympy.floor(left / right)


class SymNode:
    """What a ``torch.SymInt`` holds: an expression, its Python type and its environment.

    The method names are those that PyTorch's C++ asks for; the binary ones are filled in below.
    """

    def __init__(self, env: ShapeEnv, expr: Any, pytype: type) -> None:
        self.shape_env = env
        self.expr = sympy.sympify(expr)
        self.pytype = pytype

    def make(self, expr: Any, pytype: type) -> SymNode:
        """A node of the same environment."""
        return SymNode(self.shape_env, expr, pytype)

    def is_int(self) -> bool:
        return self.pytype is int

    def is_float(self) -> bool:
        return self.pytype is float

    def is_bool(self) -> bool:
        return self.pytype is bool

    def is_constant(self) -> bool:
        return False

    def is_symbolic(self) -> bool:
        return True

    def is_nested_int(self) -> bool:
        return False

    def nested_int(self) -> None:
        return None

    def constant_int(self) -> None:
        return None

    def maybe_as_int(self) -> int | None:
        return int(self.expr) if self.expr.is_Integer else None

    def maybe_as_float(self) -> None:
        return None

    def maybe_as_bool(self) -> None:
        return None

    def has_hint(self) -> bool:
        return True

    @property
    def hint(self) -> Any:
        return self.pytype(self.shape_env.hint(self.expr))

    _hint = hint

    def require_hint(self, *_: object) -> Any:
        return self.hint

    def clone(self) -> SymNode:
        return self

    def wrap_int(self, value: int) -> SymNode:
        return self.make(value, int)

    def wrap_float(self, value: float) -> SymNode:
        return self.make(value, float)

    def wrap_bool(self, value: bool) -> SymNode:
        return self.make(sympy.true if value else sympy.false, bool)

    def neg(self) -> SymNode:
        return self.make(-self.expr, self.pytype)

    def pos(self) -> SymNode:
        return self

    def abs(self) -> SymNode:
        return self.make(sympy.Abs(self.expr), self.pytype)

    def sym_not(self) -> SymNode:
        return self.make(sympy.Not(self.expr), bool)

    def sym_float(self) -> SymNode:
        return self.make(self.expr, float)

    def sym_int(self) -> SymNode:
        return self.make(sympy.floor(self.expr), int)

    def trunc(self) -> SymNode:
        return self.sym_int()

    def floor(self) -> SymNode:
        return self.make(sympy.floor(self.expr), int)

    def ceil(self) -> SymNode:
        return self.make(sympy.ceiling(self.expr), int)

    def sym_sqrt(self) -> SymNode:
        return self.make(sympy.sqrt(self.expr), float)

    def sym_sum(self, terms: Iterable[Any]) -> SymNode:
        return self.make(sum(t.expr if isinstance(t, SymNode) else t for t in terms), int)

    def sym_ite(self, then: SymNode, other: SymNode) -> SymNode:
        return then if self.guard_bool("", 0) else other

    def guard_bool(self, file: str, line: int) -> bool:
        return self.shape_env.evaluate(self.expr)

    guard_or_false = guard_or_true = guard_size_oblivious = expect_true = guard_bool

    def bool_(self) -> bool:
        return self.guard_bool("", 0)

    def expect_size(self, file: str, line: int) -> bool:
        return True

    def guard_int(self, file: str, line: int) -> int:
        return self.shape_env.specialize(self.expr)

    def int_(self) -> int:
        return self.guard_int("", 0)

    def guard_float(self, file: str, line: int) -> float:
        return float(self.shape_env.hint(self.expr))

    def statically_known_true(self, file: str = "", line: int = 0) -> bool:
        return statically_known(self.expr) is True

    def is_contiguous(self, sizes: list[SymNode], strides: list[SymNode]) -> SymNode:
        """Whether strides are those of a dense row-major tensor."""
        expected: Any = sympy.Integer(1)
        for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
            if size.expr == 1:
                continue
            if sympy.expand(stride.expr - expected) != 0:
                return self.wrap_bool(False)
            expected = expected * size.expr
        return self.wrap_bool(True)

    def _never(self, sizes: object, strides: object) -> SymNode:
        # Channels-last layouts are not tracked symbolically: claiming less than is true is safe.
        return self.wrap_bool(False)

    is_channels_last_contiguous_2d = is_channels_last_contiguous_3d = _never
    is_channels_last_strides_2d = is_channels_last_strides_3d = _never

    def is_non_overlapping_and_dense(self, sizes: list[SymNode], strides: list[SymNode]) -> SymNode:
        return self.wrap_bool(True)

    def is_non_overlapping_and_dense_indicator(
        self, sizes: list[SymNode], strides: list[SymNode]
    ) -> SymNode:
        return self.make(1, int)

    def _graph_repr(self) -> str:
        return repr(self)

    def __str__(self) -> str:
        return str(self.expr)

    def __repr__(self) -> str:
        return str(self.expr)

    def str(self) -> Any:
        return self.__str__()


_INTEGER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": floor_divide,
    "int_floordiv": floor_divide,
    "mod": sympy.Mod,
    "pow": operator.pow,
    "pow_by_natural": operator.pow,
    "sym_max": sympy.Max,
    "sym_min": sympy.Min,
}
_FLOAT: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "truediv": operator.truediv,
    "int_truediv": operator.truediv,
    "float_truediv": operator.truediv,
    "float_pow": operator.pow,
}
_BOOLEAN: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": sympy.Eq,
    "ne": sympy.Ne,
    "lt": sympy.Lt,
    "le": sympy.Le,
    "gt": sympy.Gt,
    "ge": sympy.Ge,
    "and_": sympy.And,
    "or_": sympy.Or,
    "sym_and": sympy.And,
    "sym_or": sympy.Or,
}


def _binary(
    function: Callable[[Any, Any], Any], pytype: type | None
) -> Callable[[SymNode, SymNode], SymNode]:
    def method(self: SymNode, other: SymNode) -> SymNode:
        result = pytype or (float if float in (self.pytype, other.pytype) else int)
        return self.make(function(self.expr, other.expr), result)

    return method


def _install(rules: Iterator[tuple[str, Callable[[Any, Any], Any]]], pytype: type | None) -> None:
    for name, function in rules:
        setattr(SymNode, name, _binary(function, pytype))


_install(iter(_INTEGER.items()), None)
_install(iter(_FLOAT.items()), float)
_install(iter(_BOOLEAN.items()), bool)
