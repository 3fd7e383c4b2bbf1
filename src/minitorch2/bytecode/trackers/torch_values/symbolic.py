"""Numbers that depend on sizes of the inputs: symbolic integers, floats and truth values.

They are computed while capturing, by `minitorch2.graph.symbols`; only as an argument of an operator
do they enter the graph, as an expression of size symbols. A branch on one consults the sizes seen
while capturing and adds a guard. PyTorch 2 paper, section 5.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import sympy
import torch

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_as_observed, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import (
    NOT_IMPLEMENTED,
    OPERATORS,
    fold,
    literal,
)
from minitorch2.bytecode.trackers.torch_values.word_size import fits_words
from minitorch2.graph.node import Argument, Node
from minitorch2.graph.symbols import expr_of, free_symbols, print_expr, print_naming
from minitorch2.graph.symbols.conditions import AllOf, Comparison, Condition, Negation, compare
from minitorch2.graph.symbols.floats import (
    BITWISE,
    MATH_FUNCTIONS,
    TOTAL,
    FloatOperation,
    FloatPower,
    FloatSymbol,
)
from minitorch2.graph.symbols.unbacked import unbacked_in

_NUMBERS: Final = (int, float, torch.SymInt, torch.SymFloat)
Symbolic = torch.SymInt | torch.SymFloat | torch.SymBool
PYTHON_TYPES: Final[dict[type, type]] = {
    torch.SymInt: int,
    torch.SymFloat: float,
    torch.SymBool: bool,
}

_FORMS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    operator.lshift: lambda number, places: number * 2**places,
    operator.rshift: lambda number, places: number // 2**places,
    operator.and_: lambda number, mask: (
        number % (mask + 1) if mask >= 0 else number - number % -mask
    ),
    operator.invert: lambda number: -1 - number,
}
"""Functions of an integer in its algebra, where `_has_form`; otherwise they are `BITWISE`."""

_DIVISIONS: Final[dict[Callable[..., Any], str]] = {
    operator.floordiv: "floordiv",
    operator.mod: "mod",
}

_METHODS: Final[dict[str, Any]] = {
    "__abs__": abs,
    "__floor__": math.floor,
    "__ceil__": math.ceil,
    "__trunc__": math.trunc,
    "__int__": torch.sym_int,
    "__float__": torch.sym_float,
    "__neg__": operator.neg,
    "__round__": round,
    "bit_length": int.bit_length,
    "bit_count": int.bit_count,
}


def compute(function: Callable[..., Any], *operands: VariableTracker) -> VariableTracker | None:
    """Apply a function to operands of which one is symbolic; None if none is, or one is unknown.

    If the function has no symbolic form, guards fix the numbers.
    """
    if not any(isinstance(operand, SymbolicNumberVariable) for operand in operands):
        return None
    if not all(operand.is_foldable() for operand in operands):
        return None
    values = [_operand(operand) for operand in operands]
    try:
        is_truth = isinstance(values[0], torch.SymBool)
        if function in MATH_FUNCTIONS and len(values) == 1 and not is_truth:
            return _of_float(function, values[0])
        if not _is_algebra(function, values):
            return fold(function, operands)
        result = _apply(function, values)
    except TypeError:  # the function knows real numbers only, or Python's refusal is wanted
        return fold(function, operands)
    except (ArithmeticError, ValueError) as error:
        raise_as_observed(error)
    _refuse_partial(result)
    return from_number(result)


def _apply(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """Return the function's value. PyTorch computes ``a // b`` of floats as ``floor(a / b)``.

    Python does not: ``1.0 // 0.1`` is 9.
    """
    if function in _FORMS and _has_form(function, *values):
        return _FORMS[function](*values)
    if function in BITWISE and (sizes := [v for v in values if isinstance(v, torch.SymInt)]):
        made = BITWISE[function](*(expr_of(value + 0) for value in values))
        return sizes[0].node.shape_env.number_of(made)
    name = _DIVISIONS.get(function)
    if name is None or not any(isinstance(value, float | torch.SymFloat) for value in values):
        return function(*values)
    node = next(value.node for value in values if isinstance(value, Symbolic))
    left, right = (
        node.make(expr_of(v), float if isinstance(v, float | torch.SymFloat) else int)
        for v in values
    )
    return node.shape_env.number_of(getattr(left, name)(right).expr)


def _of_float(
    function: Callable[..., Any], number: torch.SymInt | torch.SymFloat
) -> VariableTracker:
    """Return a ``math`` function of a symbolic number; raise its error for the example."""
    env, expr = number.node.shape_env, MATH_FUNCTIONS[function](expr_of(number))
    env.hint(expr)
    return from_number(env.number_of(expr))


def _refuse_partial(result: object) -> None:
    """Leave to Python operations on floats from data that raise for some: ``int(x.item())``.

    The graph checks that powers are finite: Python runs the frame for data for which they are not.
    """
    if isinstance(result, Symbolic) and unbacked_in(result):
        for part in getattr(result.node.expr, "atoms", lambda _: ())(FloatOperation):
            if isinstance(part, FloatPower) and part.args[1].is_number:
                for condition in _finite(part.args[0], float(part.args[1])):
                    result.node.shape_env.expect(condition)
            elif not isinstance(part, TOTAL):
                unsupported("scalar-read", f"{result} may raise for some data")


def _finite(base: Any, exponent: float) -> list[Condition]:
    """Return conditions under which a power is a finite float."""
    most = 1e300 ** (1 / max(1, abs(exponent)))
    least = 1 / most if exponent < 0 else 0.0 if exponent % 1 else -most
    return [compare(">=", base, least), compare("<=", base, most)]


def _is_algebra(function: Callable[..., Any], values: Sequence[Any]) -> bool:
    """Return whether the function of these values is an expression or a condition."""
    if all(isinstance(value, bool | torch.SymBool) for value in values):
        return function in (operator.and_, operator.or_, operator.not_)
    if any(not isinstance(value, _NUMBERS) for value in values):
        return False
    if function in BITWISE or function in _FORMS:
        whole = all(isinstance(value, int | torch.SymInt) for value in values)
        any_places = not function.__name__.endswith("shift") or unbacked_in(values[1])
        return whole and bool(any_places or values[1] >= 0)
    is_power = function in (operator.pow, operator.ipow)
    if not is_power or isinstance(values[1], int | torch.SymInt) or unbacked_in(values[0]):
        return True
    return bool(values[0] > 0)


def _has_form(function: Callable[..., Any], number: Any, places: Any = 0) -> bool:
    """Return whether an integer is shifted by a number of places, or masked by its last ones."""
    if not isinstance(number, torch.SymInt) or not isinstance(places, int):
        return False
    is_mask = function is operator.and_
    unit = -places if places < 0 else places + 1
    return unit & (unit - 1) == 0 if is_mask else 0 <= places < 64


def from_number(value: object, owner: VariableTracker | None = None) -> VariableTracker:
    """Return the tracker of a number that metadata of `owner` gave: symbolic if the number is."""
    if isinstance(value, torch.SymInt) and value.node.is_nested_int():
        return _ragged_size(value, owner)
    if isinstance(value, Symbolic) and not _is_known(value):
        return SymbolicNumberVariable(value)
    return literal(_plain(value))


def _is_known(value: Symbolic) -> bool:
    return not isinstance(value.node.expr, sympy.Basic | Comparison | Negation | AllOf)


def _plain(value: object) -> object:
    return value.node.expr if isinstance(value, Symbolic) else value


class SymbolicNumberVariable(VariableTracker):
    """A `torch.SymInt`, `SymFloat` or `SymBool`: Python takes it for an int, float or bool."""

    def __init__(self, value: Symbolic, **options: Any) -> None:
        super().__init__(**options)
        self.number = value

    def __repr__(self) -> str:
        return f"SymbolicNumberVariable({self.number})"

    def python_type(self) -> type:
        return PYTHON_TYPES[type(self.number)]

    def is_foldable(self) -> bool:
        return True

    def is_varying_int(self) -> bool:
        """Return whether it is an integer with a known example, so that guards can ask for it."""
        return isinstance(self.number, torch.SymInt) and self.number.node.has_hint()

    def as_argument(self) -> Argument:
        if isinstance(self.number, torch.SymBool):
            return bool(self.number)  # an option of an operator
        expr = expr_of(self.number)
        return expr if fits_words(self.number.node.shape_env, expr) else self.as_constant()

    def as_constant(self) -> Any:
        """Return the number in the example, fixed by a guard: Python needs to know it.

        Raises:
            UnsupportedError: it comes from a float argument whose guards have failed before.
        """
        node = self.number.node
        for symbol in free_symbols(node.expr) if self.python_type() is float else ():
            record = node.shape_env.symbols.get(symbol)
            if isinstance(symbol, FloatSymbol) and record.marked:
                unsupported("varying-value", f"{record.sources[0]} changes from call to call")
        return self.python_type()(self.number)

    def hash_key(self) -> Hashable:
        return ("constant", self.as_constant())

    def truth(self, evaluator: Evaluator) -> bool:
        return bool(self.number.node.bool_())

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        cls = self.python_type()
        if name == "__class__":
            return literal(cls)
        attribute = getattr(cls, name, None)
        if attribute is None:
            raise_observed(AttributeError, f"{cls.__name__!r} object has no attribute {name!r}")
        if callable(attribute):
            return GetAttrVariable(self, name)
        return literal(getattr(self.as_constant(), name))

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        function = _METHODS.get(name)
        if function is not None and not args:
            return compute(function, self) or fold(function, [self])
        if name in OPERATORS and not all(arg.is_foldable() for arg in args):
            return NOT_IMPLEMENTED
        return fold(getattr(self.as_constant(), name), args, kwargs)

    def rebuild(self, residual: Residual) -> str:
        env = self.number.node.shape_env
        names = {
            symbol: residual.load(record.sources[0])
            for symbol, record in env.symbols.items()
            if record.sources
        }
        for symbol in unbacked_in(self.number):
            if (node := env.symbols[symbol].node) is not None:
                names[symbol] = residual.graph_output(node)
        multiples = env.knowledge.multiples.items()
        names |= {symbol: print_expr(whole, names) for symbol, whole in multiples}
        return print_naming(self.number.node.expr, names, residual.reference)


class RaggedSizeVariable(SymbolicNumberVariable):
    """The size of a jagged tensor's dimension whose rows have different lengths.

    Args:
        owner, dimension: the tracker of a tensor, and the dimension that has the size.
    """

    def __init__(self, value: torch.SymInt, owner: Any, dimension: int) -> None:
        super().__init__(value)
        self.owner, self.dimension = owner, dimension

    def as_argument(self) -> Argument:
        owner: Node = self.owner.node
        node = owner.graph.create_node("call_method", "size", (owner, self.dimension))
        node.meta.update(val=self.number, source=owner.meta.get("source"))
        return node

    def as_constant(self) -> Any:
        return unsupported("tensor-subclass", "the lengths of the rows of a jagged tensor")

    def truth(self, evaluator: Evaluator) -> bool:
        return self.as_constant()  # type: ignore[no-any-return]

    def rebuild(self, residual: Residual) -> str:
        return f"{residual.name_for(self.owner)}.size({self.dimension})"


def _ragged_size(value: torch.SymInt, owner: Any) -> VariableTracker:
    for dimension, size in enumerate(owner.fake.size() if owner else ()):
        if expr_of(size) == expr_of(value):
            return RaggedSizeVariable(value, owner, dimension)
    return unsupported("tensor-subclass", "a multiple of the lengths of a jagged tensor's rows")


def _operand(value: VariableTracker) -> Any:
    if isinstance(value, SymbolicNumberVariable):
        return value.number
    return value.as_constant()
