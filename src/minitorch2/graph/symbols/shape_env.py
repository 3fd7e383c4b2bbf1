"""The sizes of one compilation: their symbols, their values in the example inputs, the guards.

A size that may vary is a symbol with a *hint*, its value in the example inputs. Known facts about
the symbols decide a condition on sizes if they can. Otherwise the hints decide it, and the answer
is a *guard* over the inputs' sizes (PyTorch 2 paper, section 5.1). Each compiled graph has one
environment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import sympy
import torch

from minitorch2 import stages
from minitorch2.errors import UnsupportedError
from minitorch2.foundation.blocks import replacing
from minitorch2.graph.node import SourceLine, map_items
from minitorch2.graph.symbols.conditions import (
    RELATIONS,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Negation,
    compare,
    identical,
    is_condition,
    map_condition,
    opposite,
)
from minitorch2.graph.symbols.expression import Expr, free_symbols, size_symbol
from minitorch2.graph.symbols.floats import FloatSymbol, is_float_expression, value_of
from minitorch2.graph.symbols.knowledge import Knowledge
from minitorch2.graph.symbols.polynomials import operations_in
from minitorch2.graph.symbols.ranges import ANY, Range
from minitorch2.graph.symbols.sym_node import SymNode
from minitorch2.graph.symbols.text import print_condition

SMALLEST_SYMBOLIC_SIZE: Final = 2
"""0 and 1 are specialised, so no symbol of an input's size stands for them."""

SIZES: Final = Range(SMALLEST_SYMBOLIC_SIZE, math.inf)
"""What is known of the size of an input: it is neither 0 nor 1."""


@dataclass
class SizeSymbol:
    """A symbol and where its value comes from.

    Attributes:
        symbol: the symbol.
        hint: its value in the example inputs; None for one that only data will tell (*unbacked*).
        sources: what has this value at a call, such as ``x.shape[0]``; all of them are equal.
        limits: the values that its guard admits.
        marked: the user asked for this dimension to vary: it must not be specialised.
        line: the user's line that made an unbacked symbol.
        node: the captured graph's node that is the value of an unbacked symbol.
        name: what the user calls such sizes. It is for people: no generated text has it.
    """

    symbol: sympy.Symbol
    hint: int | float | None
    sources: list[Any] = field(default_factory=list)
    limits: Range = SIZES
    marked: bool = False
    line: SourceLine | None = None
    node: Any = None
    name: str = ""

    @property
    def shown(self) -> str:
        """The name that reports show for the symbol."""
        return self.name or str(self.symbol)


@dataclass(frozen=True)
class ShapeGuard:
    """A condition that the compiled graph relies on.

    Attributes:
        condition: over size symbols.
        line: the user's line that was running.
        operator: the operator that asked; empty if Python did.
    """

    condition: Condition
    line: SourceLine | None = None
    operator: str = ""

    def __str__(self) -> str:
        return print_condition(self.condition)


@dataclass(frozen=True)
class RuntimeCheck:
    """A condition on unbacked sizes, which compiled code checks.

    Attributes:
        condition: over symbols.
        message: what the exception says where it does not hold.
        error: the name of the exception's class.
        line: the user's line that states it.
    """

    condition: Condition
    message: str
    error: str = "RuntimeError"
    line: SourceLine | None = None


class ShapeEnv:
    """The size symbols of one compilation and the guards recorded so far.

    Attributes:
        symbols: the symbols of sizes, in the order of the inputs.
        guards: the conditions that were decided by hints, in the order of first need.
        knowledge: the facts that decide conditions without hints.
        implied: how many conditions on symbols needed no guard.
        locate: tells the user's line that is running.
        operator: the operator that is running; empty in Python.
        frozen: guards are compiled already, so no new one may be recorded.
        results: what operators gave for symbolic arguments; fake tensors keep it here.
        numbers: the sizes of inputs that are numbers, and why.
        fixed: float arguments that were specialised.
        checks: conditions on unbacked sizes that are not in the graph yet; see `take_checks`.
        stated: all conditions on unbacked sizes, for the report.
    """

    def __init__(self, *, duck_shapes: bool = True) -> None:
        self.symbols: dict[sympy.Symbol, SizeSymbol] = {}
        self.hints: dict[sympy.Symbol, int | float] = {}
        self.guards: list[ShapeGuard] = []
        self.knowledge = Knowledge()
        self.implied = 0
        self.locate: Callable[[], SourceLine | None] = lambda: None
        self.operator = ""
        self.frozen = False
        self.numbers: dict[Any, str] = {}
        self.fixed: set[sympy.Symbol] = set()
        self.checks: list[RuntimeCheck] = []
        self.stated: list[ShapeGuard] = []
        self.results: dict[Any, Any] = {}
        self.computed: dict[Any, Any] = {}  # marks of tensors' elements, and numbers made of such
        self._duck_shapes = duck_shapes
        self._by_hint: dict[int, SizeSymbol] = {}
        self.by_name: dict[str, SizeSymbol] = {}

    # Symbols -------------------------------------------------------------------------------------

    def new_symbol(self, name: str, hint: int, limits: Range = SIZES) -> sympy.Symbol:
        """Make the symbol ``name`` whose value in the example is ``hint``."""
        symbol = size_symbol(name)
        self.symbols[symbol] = SizeSymbol(symbol, hint, limits=limits)
        self.hints[symbol] = hint
        self.knowledge.bound(symbol, limits)
        return symbol

    def new_size(self, name: str, hint: int) -> int | torch.SymInt:
        """Return a symbolic size, or the plain int if ``hint`` is 0 or 1 (0/1 specialization)."""
        if hint < SMALLEST_SYMBOLIC_SIZE:
            return hint
        return self.size_of(self.new_symbol(name, hint))

    def input_size(
        self,
        source: Any,
        hint: int,
        *,
        shared: bool = True,
        marked: bool = False,
        limits: Range = SIZES,
        name: str = "",
    ) -> int | torch.SymInt:
        """Return the size that ``source`` has: symbolic unless it is 0 or 1.

        With ``shared``, equal hints share a symbol (*duck shaping*): inputs that have one size now
        are expected to have one size later. Sizes of one ``name`` share a symbol, too.
        """
        if hint < SMALLEST_SYMBOLIC_SIZE:
            return hint
        known = self._by_hint.get(hint) if shared else self.by_name.get(name)
        if known is not None:
            if source not in known.sources:
                known.sources.append(source)
            return self.size_of(known.symbol)
        symbol = self.new_symbol(f"s{len(self.symbols)}", hint, limits)
        record = self.symbols[symbol]
        record.sources.append(source)
        record.marked, record.name = marked, name
        if name:
            self.by_name[name] = record
        if self._duck_shapes and shared:
            self._by_hint[hint] = record
        return self.size_of(symbol)

    def input_number(self, source: Any, hint: float, *, marked: bool = False) -> Any:
        """Return the SymInt or SymFloat of an int or float argument, which may have any value."""
        number, is_int = len(self.symbols), isinstance(hint, int)
        symbol = sympy.Symbol(f"s{number}", integer=True) if is_int else FloatSymbol(f"f{number}")
        self.symbols[symbol] = SizeSymbol(symbol, hint, [source], ANY, marked)
        self.hints[symbol] = hint
        return self.number_of(symbol)

    def unbacked_size(self, limits: Range = ANY) -> torch.SymInt:
        """Make an unbacked integer: it has no hint, so no branch may ask for it."""
        return self.number_of(self.unbacked_symbol(int, limits))  # type: ignore[no-any-return]

    def unbacked_symbol(self, pytype: type, limits: Range = ANY) -> sympy.Symbol:
        """Make the symbol of a number that is known at run time only."""
        name = f"u{len(self.symbols)}"
        sign = {"nonnegative": True} if limits.low >= 0 else {}
        is_float = pytype is float
        symbol = FloatSymbol(name) if is_float else sympy.Symbol(name, integer=True, **sign)
        self.symbols[symbol] = SizeSymbol(symbol, None, limits=limits, line=self.locate())
        self.knowledge.bound(symbol, limits)
        return symbol

    def size_of(self, expr: Expr) -> int | torch.SymInt:
        """Return the SymInt (or plain int) that carries ``expr``."""
        if isinstance(expr, (int, sympy.Integer)):
            return int(expr)
        return torch.SymInt(SymNode(self, expr, int))  # type: ignore[no-untyped-call]

    def number_of(self, expr: Any) -> Any:
        """Return the SymInt or SymFloat (or plain number) that carries ``expr``."""
        if isinstance(expr, sympy.Basic) and not expr.is_integer:
            return torch.SymFloat(SymNode(self, expr, float))  # type: ignore[no-untyped-call]
        return self.size_of(expr)

    def simplify(self, expr: Any) -> Any:
        """Simplify an expression by all facts learned so far."""
        return self.knowledge.simplify(expr)

    # Values in the example -----------------------------------------------------------------------

    def hint(self, expr: Any) -> Any:
        """Return the value of an expression under the example's sizes.

        Raises:
            UnsupportedError: it depends on a size that only data will tell.
        """
        if not isinstance(expr, sympy.Basic):
            return expr
        unknown = [s for s in expr.free_symbols if s not in self.hints]
        for symbol in unknown:
            self._learn_hint(symbol, expr)
        if is_float_expression(expr) or isinstance(expr, sympy.Symbol):
            return value_of(expr, self.hints)
        return int(expr.xreplace(self.hints))

    def has_hint(self, expr: Any) -> bool:
        """Return whether the example inputs determine the value of an expression."""
        if not isinstance(expr, sympy.Basic):
            return True
        multiples = self.knowledge.multiples
        return all(
            s in self.hints or (s in multiples and self.has_hint(multiples[s]))
            for s in expr.free_symbols
        )

    def _learn_hint(self, symbol: sympy.Symbol, expr: sympy.Expr) -> None:
        """Set the hint of a symbol that divisibility made."""
        if symbol not in self.knowledge.multiples:
            raise UnsupportedError(
                f"Python needs the number {expr}{self._origin([symbol])}",
                code="unbacked-size",
                fix="keep it in the graph, or do this outside the compiled function",
            )
        self.hints[symbol] = self.hint(self.knowledge.multiples[symbol])

    # Decisions -----------------------------------------------------------------------------------

    def decide(self, condition: Condition) -> bool | None:
        """Return True or False where every admissible size gives the same answer, else None."""
        return self.knowledge.decide(condition)

    def evaluate(self, condition: Condition) -> bool:
        """Decide a condition for this compilation, with a guard unless it always holds (or never).

        Raises:
            UnsupportedError: it depends on a size that only data will tell.
        """
        if isinstance(condition, bool):
            return condition
        known = self.knowledge.decide(condition)
        if known is not None:
            self.implied += 1
            return known
        if not all(map(self.has_hint, condition.symbols)):
            supposed = self._suppose(condition) if self.operator else None
            if supposed is None:
                raise self._undecided(condition)
            return supposed
        value = self._holds_now(condition)
        self._guard(condition if value else opposite(condition))
        return value

    def _undecided(self, condition: Condition) -> UnsupportedError:
        """Return the error for a graph break, with the check that would avoid it."""
        condition = map_condition(condition, self.simplify)
        assert not isinstance(condition, bool)
        text = print_condition(condition)
        asked = self.operator or "the program"
        unknown = [s for s in condition.symbols if not self.has_hint(s)]
        return UnsupportedError(
            f"{asked} needs to know whether {text}{self._origin(unknown)}",
            code="unbacked-size",
            fix=f"state what is known, for instance torch._check({text}) or its opposite",
        )

    def _origin(self, symbols: Iterable[sympy.Symbol]) -> str:
        """Return the lines that made unbacked symbols, as text for an error."""
        records = [self.symbols[s] for s in sorted(symbols, key=str) if s in self.symbols]
        return "".join(f"; {r.symbol} is made by {r.line}" for r in records if r.line)

    def _holds_now(self, condition: Condition) -> bool:
        if isinstance(condition, Comparison):
            left, right = self.hint(condition.left), self.hint(condition.right)
            return bool(RELATIONS[condition.relation](left, right))
        if isinstance(condition, Negation):
            return not self._holds_now(condition.part)
        assert isinstance(condition, AllOf)
        combine = any if isinstance(condition, AnyOf) else all
        return combine([self._holds_now(p) for p in condition.parts if not isinstance(p, bool)])

    def _guard(self, condition: Condition) -> None:
        if self.frozen:
            raise UnsupportedError(
                f"a condition on sizes came up after guards were compiled: {condition}",
                code="late-size-guard",
            )
        self.guards.append(
            ShapeGuard(map_condition(condition, self.simplify), self.locate(), self.operator)
        )
        self.knowledge.learn(condition)

    def can_decide(self, condition: Condition) -> bool:
        """Return whether facts or hints decide a condition."""
        if self.knowledge.decide(condition) is not None:
            return True
        return not isinstance(condition, bool) and all(map(self.has_hint, condition.symbols))

    def holds(self, condition: Condition) -> bool:
        """Return whether a condition holds for the sizes of this compilation, as far as known."""
        return self.can_decide(condition) and self.evaluate(condition)

    def _suppose(self, condition: Comparison | Negation | AllOf) -> bool | None:
        """Decide a condition by the assumption that unbacked sizes are not 0 or 1.

        Operators treat size 1 (broadcasting) and size 0 (empty tensors) as special cases. The
        assumption is checked at run time. Return None if the answer differs between sizes of 2 and
        more.
        """
        supposed = Knowledge()
        for symbol in condition.symbols:
            limits = self.knowledge.ranges.get(symbol, ANY)
            supposed.bound(symbol, limits if self.has_hint(symbol) else limits.meet(SIZES))
        known = supposed.decide(condition)
        if known is not None:
            self.expect(condition if known else opposite(condition))
        return known

    def expect(self, condition: Condition, message: str = "", error: str = "RuntimeError") -> bool:
        """``torch._check(condition)``: decided if it can be, else learned and checked at run time.

        Without a message it is not the program's condition but one that compiling needs. The tracer
        that makes the graph inserts the checks that `take_checks` returns.
        """
        if self.can_decide(condition):
            return self.evaluate(condition)
        condition = map_condition(condition, self.simplify)
        if not message:
            message = f"{self.operator or 'the program'} needs {print_condition(condition)}"
            error = "SuppositionError"
        self.checks.append(RuntimeCheck(condition, message, error, self.locate()))
        self.stated.append(ShapeGuard(condition, self.locate(), self.operator))
        self.knowledge.learn(condition)
        return True

    def take_checks(self) -> list[RuntimeCheck]:
        """Return the checks that were added since the last call."""
        taken, self.checks = self.checks, []
        return taken

    def freeze(self) -> None:
        """End the recording of guards, which are compiled; release data of tracing."""
        self.frozen = True
        self.locate = lambda: None
        self.results.clear()
        self.computed.clear()

    def specialize(self, expr: Any) -> Any:
        """Return the value of an expression in the example inputs, fixed by a guard.

        If floats occur in it, each float symbol is fixed by a guard on its bits.
        """
        expr = self.simplify(expr)
        value = self.hint(expr)
        if isinstance(expr, sympy.Basic) and expr.has(FloatSymbol):
            for symbol in sorted(free_symbols(expr), key=str):
                self._guard_identical(symbol)
            return value
        self.evaluate(compare("==", expr, value))
        return value

    def fix_long(self, expr: Any) -> Any:
        """Return the value of an expression that is too long; make the sizes in it static.

        Raises:
            UnsupportedError: it depends on a size that only data will tell.
        """
        operations = operations_in(expr)
        unknown = [s for s in expr.free_symbols if not self.has_hint(s)]
        if unknown:
            raise UnsupportedError(
                f"a size is written with {operations} operations{self._origin(unknown)}",
                code="long-size",
            )
        stages.count("sizes fixed as expressions grew too long")
        with self.running(f"a size of {operations} operations"):
            for symbol in sorted(expr.free_symbols, key=str):
                self._guard_identical(symbol)
        return self.hint(expr)

    def _guard_identical(self, symbol: sympy.Symbol) -> None:
        value = self.hint(symbol)
        is_float = isinstance(symbol, FloatSymbol)
        self.evaluate(identical(symbol, value) if is_float else compare("==", symbol, value))
        self.fixed.add(symbol)

    def evaluate_sym_node(
        self,
        node: SymNode,
        size_oblivious: bool = False,
        fallback_value: bool | None = None,
        *_: object,
    ) -> Any:
        """Decide a symbolic value; PyTorch's Python kernels call the method by this name.

        A kernel that passes a ``fallback_value`` is right with that value, whatever the sizes are.
        """
        if node.pytype is not bool:
            return node.int_()
        return node.bool_() if fallback_value is None else node.or_default(fallback_value)

    def running(self, operator: str) -> AbstractContextManager[object]:
        """Record this operator as the one that asks for the guards in the block."""
        return replacing(self, "operator", operator)


def map_expressions(argument: Any, change: Callable[[Any], Any]) -> Any:
    """Return an argument structure in which each size expression is changed, in conditions, too."""
    if isinstance(argument, sympy.Basic):
        return change(argument)
    if is_condition(argument):
        return map_condition(argument, change)
    return map_items(argument, lambda item: map_expressions(item, change))


def numbers_of(argument: Any, env: ShapeEnv) -> Any:
    """Return an argument structure with each expression as the symbolic number that carries it."""
    return map_expressions(argument, env.number_of)


def simplified(argument: Any, env: ShapeEnv) -> Any:
    """Return an argument structure with each expression simplified by all facts.

    A float that cannot vary any more becomes a number.
    """

    def simple(expr: Any) -> Any:
        found = env.simplify(expr)
        is_fixed = isinstance(found, sympy.Basic) and not found.free_symbols
        return value_of(found, {}) if is_fixed and is_float_expression(found) else found

    return map_expressions(argument, simple)
