"""Addresses in the text of Triton kernels.

An address is an expression of `xindex`, `yindex` and `rindex`, simplified for their ranges. So a
tensor that is read in the order of the loop needs no division, however many dimensions it has. The
remaining `//` and `%` become variables x0, x1, r2, ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import sympy

from minitorch2.codegen.triton.arguments import KernelArguments
from minitorch2.codegen.triton.body import KernelBody
from minitorch2.codegen.triton.values import EVERYWHERE, Dimensions, K, R, T, Value, X, Y
from minitorch2.errors import LoweringError
from minitorch2.loopir.expressions import (
    Expr,
    FloorDiv,
    ModularIndexing,
    Ranges,
    bounds,
    index_symbol,
    is_nonnegative,
    simplify,
)
from minitorch2.loopir.views import coordinates

XINDEX, YINDEX, RINDEX = map(index_symbol, ("xindex", "yindex", "rindex"))
XNUMEL = index_symbol("xnumel")
"""How many elements are kept, where that is an argument."""
KINDEX, BATCH, TAP = map(index_symbol, ("kindex", "batch", "tap"))
"""What templates also have: rindex down the first dimension, which product, which part of a sum."""
DIMS: Mapping[sympy.Symbol, Dimensions] = {
    XINDEX: X, YINDEX: Y, RINDEX: R, KINDEX: K, BATCH: EVERYWHERE, TAP: T,
}  # fmt: skip
INT32_MAX = 2**31 - 1


def is_narrow(numel: Expr) -> bool:
    """Return whether the addresses of `numel` elements and one block more certainly fit 32 bits."""
    return isinstance(numel, int) and numel + 65536 < INT32_MAX


def is_multiple(address: Expr, count: int) -> bool:
    """Return whether an address moves by single elements or by multiples of `count`.

    Unknown sizes are taken for multiples.
    """
    steps = [term.as_coeff_Mul()[0] for term in sympy.Add.make_args(sympy.sympify(address))]
    return all(step == 1 or step % count == 0 for step in steps)


def unflatten(flat: Expr, sizes: Sequence[Expr], ranges: Ranges) -> tuple[Expr, ...]:
    """Return the index of the element number `flat`, in row-major order."""
    return tuple(simplify(part, ranges) for part in coordinates(flat, tuple(sizes)))


class IndexPrinter:
    """The printer of addresses in a kernel's body; `indirect` holds the symbols bound to values.

    With `widen`, every variable is converted to 64 bits before any arithmetic. `steps` are the
    numbers of neighbours in a block along a dimension. A quotient that all neighbours share is one
    number, computed of the block's offset, as are all values loaded or computed from it alone.
    """

    def __init__(
        self,
        body: KernelBody,
        arguments: KernelArguments,
        ranges: Ranges,
        *,
        widen: bool = False,
        steps: Mapping[sympy.Symbol, int] = MappingProxyType({}),
    ) -> None:
        self.body = body
        self.widen = widen
        self.steps = steps
        self.arguments = arguments
        self.ranges = ranges
        self.indirect: dict[sympy.Symbol, Value] = {}

    def dims(self, expr: Expr) -> Dimensions:
        """Return the dimensions of the block along which the address varies."""
        if isinstance(expr, int):
            return EVERYWHERE
        digits = expr.atoms(FloorDiv, ModularIndexing) if self.steps else ()
        varying = expr.xreplace(
            {digit: sympy.Integer(0) for digit in filter(self._is_common, digits)}
        )
        return EVERYWHERE.union(*(self._symbol_dims(symbol) for symbol in varying.free_symbols))

    def _is_common(self, digit: sympy.Expr) -> bool:
        """Return whether a quotient is the same for all neighbours of a block."""
        step, divisor = self.steps.get(digit.args[0], 0), digit.args[1]
        return step > 1 and bool(divisor.is_Integer) and int(divisor) % step == 0

    def _symbol_dims(self, symbol: sympy.Symbol) -> Dimensions:
        if symbol in self.indirect:
            return self.indirect[symbol].dims
        return DIMS.get(symbol, EVERYWHERE)

    def bind(self, value: Value) -> sympy.Symbol:
        """Return a computed integer as a symbol for addresses."""
        symbol = sympy.Symbol(f"indirect_{value.text}", integer=True)
        self.indirect[symbol] = value
        return symbol

    def fits(self, expr: Expr, most: int = INT32_MAX) -> bool:
        """Return whether the value is certainly within a bound; without one, within 32 bits."""
        limits = bounds(expr, self.ranges)
        return limits is not None and all(
            isinstance(limit, int) and abs(limit) <= most for limit in limits
        )

    def text(self, expr: Expr) -> str:
        """Return the address as text; print the variables that it needs first."""
        if isinstance(expr, int):
            return str(expr)
        if expr.is_Integer:
            return str(int(expr))
        if expr.is_Symbol:
            return self._symbol(expr)
        if expr.is_Add:
            return self._sum(expr)
        if expr.is_Mul:
            return "*".join(self._factor(factor) for factor in expr.args)
        if isinstance(expr, (FloorDiv, ModularIndexing)):
            return self._division(expr)
        if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
            return "*".join([self._factor(expr.base)] * int(expr.exp))
        if not expr.free_symbols & {*DIMS, *self.indirect}:  # a number for the whole kernel
            return self.arguments.size(expr)
        raise LoweringError(f"no Triton text for the index {expr}", code="triton-index")

    def _symbol(self, symbol: sympy.Symbol) -> str:
        text = self._symbol_name(symbol)
        is_size = symbol not in DIMS and symbol not in self.indirect  # an argument of 64 bits
        return f"{text}.to(tl.int64)" if self.widen and not is_size else text

    def _symbol_name(self, symbol: sympy.Symbol) -> str:
        if symbol in DIMS:
            return self._variable(str(symbol), self.dims(symbol))
        if symbol in self.indirect:
            return self.indirect[symbol].text
        return self.arguments.size(symbol)

    def _variable(self, text: str, dims: Dimensions) -> str:
        kind = {X: "x", Y: "y", R: "r", K: "k"}.get(dims, "i")
        return self.body.assign(text, dims, kind)

    def _sum(self, expr: sympy.Expr) -> str:
        """Print the terms of the fastest index first: `r1 + 1024*x0`."""
        order = (RINDEX, KINDEX, YINDEX, XINDEX)
        terms = sorted(expr.args, key=lambda t: (*(not t.has(index) for index in order), str(t)))
        text = " + ".join(self.text(term) for term in terms)
        return text.replace("+ -", "- ")

    def _factor(self, expr: sympy.Expr) -> str:
        text = self.text(expr)
        return f"({text})" if expr.is_Add else text

    def _division(self, expr: sympy.Expr) -> str:
        dims = self.dims(expr)
        numerator, divisor = expr.args[0], expr.args[1]
        if self._is_common(expr):
            name = str(numerator)
            modulus = f" % {expr.args[2]}" if isinstance(expr, ModularIndexing) else ""
            text = f"{name.replace('index', 'offset')} // {divisor}{modulus}"
            return self.body.assign(text, EVERYWHERE, name[0])
        quotient = self._quotient(numerator, divisor)
        if isinstance(expr, FloorDiv):
            return self._variable(quotient, dims)
        modulus = self._divisor(expr.args[2])
        if self._is_nonnegative(numerator):
            return self._variable(f"{quotient} % {modulus}", dims)
        return self._variable(f"lib.mod({quotient}, {self.text(expr.args[2])})", dims)

    def _quotient(self, numerator: sympy.Expr, divisor: sympy.Expr) -> str:
        plain = numerator in DIMS and not self.widen
        base = str(numerator) if plain else self._factor(numerator)
        if divisor == 1:
            return base
        if self._is_nonnegative(numerator):
            return f"{base} // {self._divisor(divisor)}"
        return f"lib.floordiv({base}, {self.text(divisor)})"

    def _divisor(self, expr: sympy.Expr) -> str:
        text = self.text(expr)
        return text if expr.is_Integer or expr.is_Symbol else f"({text})"

    def _is_nonnegative(self, expr: sympy.Expr) -> bool:
        """Return whether a value is not negative, so that C's division agrees with Python's."""
        limits = bounds(expr, self.ranges)
        is_indirect = not expr.free_symbols.isdisjoint(self.indirect)
        return limits is not None and is_nonnegative(limits[0]) and not is_indirect
