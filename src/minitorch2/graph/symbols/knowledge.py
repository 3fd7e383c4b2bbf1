"""Known facts about sizes, and the conditions that they decide.

    fact ::= symbol in Range | symbol = expression | expression >= 0 | expression != 0

A recorded guard is a fact from then on, so that fewer later conditions need a guard. PyTorch 2
paper, section 5.2: "we incrementally simplify our symbolic expressions as we learn more facts from
guards". Two kinds of facts change the expressions themselves. By *unification* (``s0 == s1``, ``s1
== 2*s0 + 1``, ``s0 == 8``) one symbol is replaced. By *divisibility* (``s0 % 4 == 0``) a symbol
becomes a multiple of a new one.
"""

from __future__ import annotations

import math
from typing import Any, Final

import sympy

from minitorch2 import stages
from minitorch2.graph.symbols.bindings import solve_for
from minitorch2.graph.symbols.conditions import (
    RELATIONS,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Negation,
    opposite,
)
from minitorch2.graph.symbols.division import FloorDiv, ModularIndexing, to_expr
from minitorch2.graph.symbols.expression import Expr, free_symbols, is_unbacked, size_symbol
from minitorch2.graph.symbols.floats import is_float_expression
from minitorch2.graph.symbols.polynomials import Sum, add, atoms_of, multiply_out, sum_of
from minitorch2.graph.symbols.ranges import ANY, Known, Range, range_of, sum_range
from minitorch2.graph.symbols.timing import cached_algebra

MOST_FACTS_TRIED: Final = 32
"""So many of the latest inequalities are tried to decide another one."""

MOST_STEPS: Final = 1_000_000
"""So many products of facts are compared in one compilation; later conditions become guards."""


@cached_algebra
def expanded(expr: Any) -> Expr:
    """Return the expression as a sum of products, an int if it is one."""
    return to_expr(multiply_out(expr))


@cached_algebra
def difference(left: Any, right: Any) -> Expr:
    """``left - right`` as a sum of products."""
    return to_expr(multiply_out(left - right))


@cached_algebra
def _solved(expr: sympy.Expr) -> tuple[tuple[sympy.Symbol, Expr], ...]:
    """Return each symbol that ``expr == 0`` determines, with its value.

    Its coefficient is 1 or -1 and it occurs once, or it is the only symbol and its value an
    integer.
    """
    found = []
    if len(expr.free_symbols) == 1 and (solution := solve_for(expr) or solve_for(-expr)):
        symbol, factor, offset = solution
        return ((symbol, -offset // factor),) if offset % factor == 0 else ()
    for symbol in sorted(expr.free_symbols, key=str):
        coefficient = expr.coeff(symbol, 1)
        rest = expr - coefficient * symbol
        if coefficient in (1, -1) and symbol not in rest.free_symbols:
            found.append((symbol, to_expr(multiply_out(-coefficient * rest))))
    return tuple(found)


class Knowledge:
    """Facts about sizes.

    Attributes:
        ranges: for each symbol, the values that it may have.
        replacements: what a symbol is equal to, in symbols that are not replaced themselves.
        multiples: for a symbol that divisibility made: the expression that it stands for.
        version: how often `replacements` changed; a simplified expression is valid for one version.
        steps: how many products of facts were compared to decide conditions.
    """

    def __init__(self) -> None:
        self.ranges: dict[sympy.Symbol, Range] = {}
        self.replacements: dict[sympy.Symbol, Expr] = {}
        self.multiples: dict[sympy.Symbol, Expr] = {}
        self.version = 0
        self.steps = 0
        self._nonnegative: list[Expr] = []
        self._nonzero: set[Expr] = set()
        self._decided: dict[Condition, bool] = {}
        self._open: set[Condition] = set()
        self._simplified: dict[Any, Any] = {}
        self._bounds: Known = {}

    # Expressions ---------------------------------------------------------------------------------

    def simplify(self, expr: Any) -> Any:
        """Return the expression in symbols that are not replaced."""
        if not self.replacements or not isinstance(expr, sympy.Basic):
            return expr
        known = self._simplified.get(expr)
        if known is None:
            changed = expr.xreplace(self.replacements)
            known = expr if changed == expr else expanded(changed)
            self._simplified[expr] = known
        return known

    def in_inputs(self, expr: Any) -> Any:
        """Return the expression without the symbols that divisibility made."""
        while isinstance(expr, sympy.Basic) and any(s in self.multiples for s in expr.free_symbols):
            expr = expr.xreplace(self.multiples)
        return expr

    def range(self, expr: Expr) -> Range:
        """Return the least and greatest value that an expression can have."""
        return range_of(self.simplify(expr), self.ranges, self._bounds)

    # Questions -----------------------------------------------------------------------------------

    def decide(self, condition: Condition) -> bool | None:
        """Return True or False where every admissible size gives the same answer, else None."""
        if isinstance(condition, bool):
            return condition
        known = self._decided.get(condition)
        if known is None and condition not in self._open:
            known = self._decide(condition)
            if known is None:
                self._open.add(condition)
            else:
                self._decided[condition] = known
        return known

    def _decide(self, condition: Condition) -> bool | None:
        if isinstance(condition, AllOf):
            parts = [self.decide(part) for part in condition.parts]
            dominant = isinstance(condition, AnyOf)
            if dominant in parts:
                return dominant
            return None if None in parts else not dominant
        if isinstance(condition, Negation):
            part = self.decide(condition.part)
            return None if part is None else not part
        assert isinstance(condition, Comparison)
        left, right = self.simplify(condition.left), self.simplify(condition.right)
        if is_float_expression(left) or is_float_expression(right):
            return None
        return self._compare(condition.relation, difference(left, right))

    def _compare(self, relation: str, expr: Expr) -> bool | None:
        """Return whether ``expr relation 0`` holds; None if the facts do not decide it."""
        if isinstance(expr, int):
            return bool(RELATIONS[relation](expr, 0))
        if relation in ("==", "!="):
            zero = self._is_zero(expr)
            return zero if zero is None else zero == (relation == "==")
        least, expected = _NORMAL[relation]
        answer = self._is_nonnegative(expanded(expr - least))
        return answer if answer is None else answer == expected

    def _is_nonnegative(self, expr: Expr) -> bool | None:
        limits = range_of(expr, self.ranges, self._bounds)
        if limits.low >= 0:
            return True
        if limits.high < 0:
            return False
        terms = sum_of(sympy.sympify(expr))
        return None if terms is None else self._by_facts(terms)

    def _by_facts(self, terms: Sum) -> bool | None:
        """Return whether a sum is not negative, by the latest facts about its atoms; None if open.

        A fact about other atoms adds nothing to their ranges, which did not decide.
        """
        opposite_terms = add(_MINUS_ONE, terms, -1)
        atoms = atoms_of(terms).keys()
        for fact in self._nonnegative[-MOST_FACTS_TRIED:]:
            known = sum_of(fact)
            if known is None or atoms.isdisjoint(atoms_of(known)):
                continue
            self.steps += len(terms) + len(known)
            if self.steps > MOST_STEPS:
                stages.count("conditions on sizes that facts were not tried for")
                return None
            if sum_range(add(terms, known, -1), self.ranges, self._bounds).low >= 0:
                return True
            if sum_range(add(opposite_terms, known, -1), self.ranges, self._bounds).low >= 0:
                return False
        return None

    def _is_zero(self, expr: Expr) -> bool | None:
        limits = range_of(expr, self.ranges, self._bounds)
        if limits.low > 0 or limits.high < 0 or _has_rest(sympy.sympify(expr)):
            return False
        if expr in self._nonzero or expanded(-expr) in self._nonzero:
            return False
        if self._nonnegative:
            sides = [self._is_nonnegative(expr), self._is_nonnegative(expanded(-expr))]
            if False in sides:
                return False
            if sides == [True, True]:
                return True
        return None

    # Facts ---------------------------------------------------------------------------------------

    def bound(self, symbol: sympy.Symbol, limits: Range) -> None:
        """Learn the limits of a symbol."""
        before = self.ranges.get(symbol)
        self.ranges[symbol] = (before or ANY).meet(limits)
        if self.ranges[symbol] != before:
            self._bounds.clear()
            self._open.clear()

    def learn(self, condition: Condition) -> None:
        """Take a condition as true from now on."""
        if isinstance(condition, bool):
            return
        self._decided[condition] = True
        self._decided[opposite(condition)] = False
        self._open.clear()
        if isinstance(condition, AllOf):
            if not isinstance(condition, AnyOf):
                for part in condition.parts:
                    self.learn(part)
            return
        if isinstance(condition, Negation):
            return
        left, right = self.simplify(condition.left), self.simplify(condition.right)
        if is_float_expression(left) or is_float_expression(right):
            return
        expr = difference(left, right)
        if isinstance(expr, int):
            return
        if condition.relation == "==":
            self._learn_zero(expr)
        elif condition.relation == "!=":
            self._learn_nonzero(expr)
        else:
            least, positive = _NORMAL[condition.relation]
            bound = expanded(expr - least)
            self._learn_nonnegative(bound if positive else expanded(-1 - bound))

    def _learn_nonnegative(self, expr: Expr) -> None:
        """Narrow the range of s by ``c*s + d >= 0``; keep other facts as they are."""
        if isinstance(expr, int):
            return
        symbols = list(expr.free_symbols)
        if len(symbols) == 1 and expr.is_polynomial(*symbols) and sympy.degree(expr) == 1:
            slope, offset = int(expr.coeff(symbols[0], 1)), int(expr.coeff(symbols[0], 0))
            if slope > 0:
                self.bound(symbols[0], Range(-(offset // slope), math.inf))
            else:
                self.bound(symbols[0], Range(-math.inf, offset // -slope))
        else:
            self._nonnegative.append(expr)

    def _learn_nonzero(self, expr: Expr) -> None:
        self._nonzero.add(expr)
        for symbol, value in _solved(expr):
            limits = self.ranges.get(symbol, ANY)
            if value == limits.low:
                self.bound(symbol, Range(limits.low + 1, math.inf))
            elif value == limits.high:
                self.bound(symbol, Range(-math.inf, limits.high - 1))

    def _learn_zero(self, expr: Expr) -> None:
        if any(map(is_unbacked, free_symbols(expr))):
            # It is checked at run time: a symbol that was replaced would check itself.
            self._learn_nonnegative(expr)
            self._learn_nonnegative(expanded(-expr))
            return
        if self._learn_divisible(expr):
            return
        solved = _solved(expr)
        if solved:
            constants = [pair for pair in solved if isinstance(pair[1], int)]
            # The youngest symbol goes: older ones are those of the first inputs.
            pair = constants[0] if constants else max(solved, key=lambda pair: _age(pair[0]))
            self._replace(*pair)
        else:
            self._nonnegative += [expr, expanded(-expr)]

    def _learn_divisible(self, expr: Expr) -> bool:
        """Replace the symbol a by m times a new symbol, since ``a % m == 0``."""
        if not isinstance(expr, ModularIndexing) or expr.args[1] != 1:
            return False
        dividend, _, modulus = expr.args
        if not dividend.is_Symbol or not modulus.is_Integer:
            return False
        name = f"{dividend.name}_{_identifier(modulus)}"
        # A number may be zero or negative, and so may its half; half of a size is at least 1.
        quotient = size_symbol(name) if dividend.is_positive else sympy.Symbol(name, integer=True)
        self.multiples[quotient] = FloorDiv(dividend, modulus)
        self.bound(quotient, Range(1, math.inf) if dividend.is_positive else ANY)
        self._replace(dividend, to_expr(modulus * quotient))
        return True

    def _replace(self, symbol: sympy.Symbol, value: Expr) -> None:
        limits = self.ranges.get(symbol, ANY)
        rule = {symbol: sympy.sympify(value)}
        for other, expr in self.replacements.items():
            if isinstance(expr, sympy.Basic):
                self.replacements[other] = expanded(expr.xreplace(rule))
        self.replacements[symbol] = value
        self.version += 1
        self._simplified.clear()
        self._open.clear()
        self._nonnegative = [f for f in map(self.simplify, self._nonnegative) if _is_open(f)]
        self._nonzero = {self.simplify(fact) for fact in self._nonzero}
        for end, sign in ((limits.low, 1), (limits.high, -1)):
            if isinstance(value, sympy.Basic) and not math.isinf(end):
                self._learn_nonnegative(expanded(sign * (value - int(end))))


_NORMAL: Final[dict[str, tuple[int, bool]]] = {
    ">=": (0, True),
    ">": (1, True),
    "<": (0, False),
    "<=": (1, False),
}
"""``e relation 0`` as ``e - number >= 0`` (True) or its opposite."""

_MINUS_ONE: Final = {frozenset[tuple[Any, int]](): -1}


def _has_rest(expr: sympy.Expr) -> bool:
    """Return whether ``expr`` is never 0: all coefficients have a divisor, the constant has not."""
    constant, products = expr.as_coeff_Add()
    factors = [term.as_coeff_Mul()[0] for term in sympy.Add.make_args(products)]
    if not constant.is_Integer or not all(factor.is_Integer for factor in factors):
        return False
    divisor = math.gcd(*map(int, factors))
    return divisor > 1 and int(constant) % divisor != 0


def _is_open(fact: Expr) -> bool:
    return isinstance(fact, sympy.Basic) and not fact.is_Integer


def _age(symbol: sympy.Symbol) -> tuple[int, str]:
    digits = "".join(filter(str.isdigit, symbol.name))
    return (int(digits or 0), symbol.name)


def _identifier(expr: sympy.Expr) -> str:
    return "".join(c if c.isalnum() else "_" for c in str(expr))
