"""Python's generators of random numbers, also the one behind `random.random` and its like.

    k = random.randint(1, 4)            __drawn_0 = random.randint.__self__.randint(1, 4)
    return x + k                   -->  add, = __compiled_fn_0(__drawn_0, x)

The generator itself draws a number, in front of the graph. So the stream is CPython's, and the
number is a symbol without guards, like a number read from a tensor's data. For `choice`, `sample`
and `shuffle` places are drawn. The elements there are symbols too, or are passed on (`selected`). A
call that may fail is left to Python.

If the captured code seeds a generator, its numbers are known. They are drawn while capturing, and
`shuffle` and its like are evaluated. Residual code gives the generator its final state.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from minitorch2.bytecode.guards.drawing import SelectedSource, shuffled
from minitorch2.bytecode.guards.sources import ItemSource, Source
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_as_observed
from minitorch2.bytecode.trackers.opaque import OpaqueVariable
from minitorch2.bytecode.trackers.python_values.classes import constructs
from minitorch2.bytecode.trackers.python_values.constant import (
    NONE,
    ConstantVariable,
    fold,
    is_none,
)
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.python_values.range import RangeVariable
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, SequenceVariable
from minitorch2.bytecode.trackers.side_effects import Effect
from minitorch2.bytecode.trackers.torch_values.symbolic import from_number
from minitorch2.bytecode.trackers.torch_values.tensor_names import words
from minitorch2.graph.scope import keywords
from minitorch2.graph.symbols.ranges import ANY, Range
from minitorch2.native.torch_internals.pytree import tree_leaves

_FLOATS: Final = words(
    "random uniform triangular betavariate expovariate gammavariate gauss lognormvariate"
    " normalvariate vonmisesvariate paretovariate weibullvariate"
)
_LIMITS: Final[dict[str, Callable[..., tuple[int, int]]]] = {
    "randint": lambda a, b: (a, b),
    "randrange": lambda *bounds: (min(found := range(*bounds)), max(found)),
    "getrandbits": lambda k: (0, 2**k - 1),
}
"""Between which numbers an integer lies, for the arguments of the call."""

_WORD: Final = 2**62


_KNOWN: Final = words("getstate randbytes _randbelow binomialvariate")
"""Other methods that give a constant where the state is known."""

_EVALUATED: Final = words("choice choices sample shuffle")
"""Methods that CPython writes in Python, on numbers below a limit."""

_FIRST: Final = {"choice": "seq", "choices": "population", "sample": "population", "shuffle": "x"}
"""The first parameter of each."""


class RandomVariable(ObjectVariable):
    """A `random.Random`.

    Attributes:
        known: a generator in the same state, if the captured code has seeded it.
    """

    knows_methods_by_name = True
    known: random.Random | None = None

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in _FLOATS or name in _LIMITS or name in _KNOWN or name in ("seed", "setstate"):
            self._guard_not_shadowed(evaluator, name)
            return GetAttrVariable(self, name)
        if self.known is None and name in _EVALUATED:
            return GetAttrVariable(self, name)
        return super().get_attribute(evaluator, name)

    def _seed(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        """Model ``seed`` or ``setstate`` with constants: from now on the state is known."""
        if name == "seed" and (is_none(args[0]) if args else not kwargs):
            unsupported("random-state", "random.seed without a number")
        known = random.Random(0)
        made = fold(getattr(known, name), args, kwargs)
        self.known = known
        evaluator.capture.side_effects.change(("random", id(self)), RandomStateEffect(self))
        return made

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name in ("seed", "setstate"):
            return self._seed(evaluator, name, args, kwargs)
        if name == "getstate" and self.known is None:
            unsupported("random-state", "random.getstate of a generator whose state is not known")
        if self.known is not None and (name in _FLOATS or name in _LIMITS or name in _KNOWN):
            return fold(getattr(self.known, name), args, kwargs)
        if name in _EVALUATED and self.known is None:
            return self._select(evaluator, name, args, dict(kwargs))
        if name not in _FLOATS and name not in _LIMITS:
            return super().call_method(evaluator, name, args, kwargs)
        values = [arg.as_constant() for arg in args]
        named = {key: value.as_constant() for key, value in kwargs.items()}
        example, limits = _probed(name, values, named)
        assert self.source is not None
        capture, call = evaluator.capture, call_text(name, values, named)
        number = capture.sizes.of_drawn(capture.draw(self.source, call), example, limits)
        return from_number(number)

    def _select(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        """Model ``choice``, ``choices``, ``sample`` and ``shuffle``: they draw places."""
        kwargs = dict(kwargs)
        population, *rest = args if args else [kwargs.pop(_FIRST[name])]
        if not isinstance(population, SequenceVariable | RangeVariable | ConstantVariable):
            unsupported("random-state", f"random.{name} of a {population.python_type().__name__}")
        elements = operations.iterate(evaluator, population)
        places, values = range(len(elements)), [arg.as_constant() for arg in rest]
        named = {key: value.as_constant() for key, value in kwargs.items()}
        try:
            example = getattr(random.Random(0), name)([*places], *values, **named)
        except Exception as error:  # noqa: BLE001 (the program's own)
            raise_as_observed(error)
        assert self.source is not None
        if name == "shuffle":
            drawn = evaluator.capture.draw(self.source, str(len(elements)), shuffled)
            chosen = [selected(evaluator, elements, ItemSource(drawn, i)) for i in places]
            evaluator.call(population.get_attribute(evaluator, "clear"), [])
            evaluator.call(population.get_attribute(evaluator, "extend"), [ListVariable(chosen)])
            return NONE
        call = call_text(name, [places, *values], named)
        drawn = evaluator.capture.draw(self.source, call)
        if name == "choice":
            return selected(evaluator, elements, drawn)
        count = range(len(example))
        return ListVariable([selected(evaluator, elements, ItemSource(drawn, i)) for i in count])

    def rebuild(self, residual: Residual) -> str:
        return f"{residual.reference(random.Random)}(0)"


@dataclass
class RandomStateEffect(Effect):
    """``generator.setstate(...)``: the state that a seeded generator has at the end."""

    generator: RandomVariable

    def owner(self) -> VariableTracker:
        return self.generator

    def emit(self, residual: Residual) -> None:
        assert self.generator.known is not None, "it was seeded"
        state = residual.reference(self.generator.known.getstate(), "random_state")
        residual.emit(f"{residual.name_for(self.generator)}.setstate({state})")


@constructs(random.Random)
def make_generator(
    evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """``random.Random(seed)``"""
    made = RandomVariable(random.Random, capture=evaluator.capture)
    evaluator.capture.side_effects.new_object(made)
    made.call_method(evaluator, "seed", args, kwargs)
    return made


def call_text(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Return a call of a method with constants as Python text."""
    for value in tree_leaves([args, kwargs]):
        if type(value) not in (int, float, bool, str, range, type(None)):
            unsupported("random-state", f"{name} with a {type(value).__name__}")
    named = keywords({key: repr(each) for key, each in kwargs.items()})
    return f"{name}({', '.join([*map(repr, args), *named])})"


def _probed(name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[float, Range]:
    """Return an example of a call's result, from another stream, and the range of an integer."""
    try:
        if not all(type(value) in (int, float) for value in (*args, *kwargs.values())):
            raise TypeError("an argument that is no number")
        example = getattr(random.Random(0), name)(*args, **kwargs)
        low, high = _LIMITS[name](*args, **kwargs) if name in _LIMITS else (-1, 1)
    except (ArithmeticError, TypeError, ValueError) as error:
        unsupported("random-state", f"random.{name}: {error}")
    if max(-low, high) >= _WORD:
        unsupported("random-state", f"random.{name}: integers of more than 64 bits")
    if type(example) is float:
        return example, ANY
    return example, Range(low, high)


# Choices ------------------------------------------------------------------------------------------


def selected(
    evaluator: Evaluator, elements: Sequence[VariableTracker], index: Source
) -> VariableTracker:
    """``elements[index]``, for an index that residual code knows."""
    if len(elements) == 1:
        return elements[0]
    values: list[Any] = [
        element.as_constant() if element.is_constant() else None for element in elements
    ]
    capture = evaluator.capture
    if all(type(value) is int and abs(value) < _WORD for value in values):
        known = Range(min(values), max(values))
        source = index if values == [*range(len(values))] else SelectedSource(index, tuple(values))
        return from_number(capture.sizes.of_drawn(source, values[0], known))
    if all(type(value) is float for value in values):
        return from_number(capture.sizes.of_drawn(SelectedSource(index, tuple(values)), 0.5, ANY))
    return SelectedVariable(elements, index)


class SelectedVariable(OpaqueVariable):
    """One of some values, to be passed on.

    Args:
        elements: the values.
        index: loads which of them it is.
    """

    def __init__(self, elements: Sequence[VariableTracker], index: Source) -> None:
        super().__init__(object)
        self.elements, self.index = list(elements), index

    def python_type(self) -> type:
        kinds = {element.python_type() for element in self.elements}
        return self.refuse() if len(kinds) > 1 else kinds.pop()

    def refuse(self, *_: object, **__: object) -> NoReturn:
        unsupported("random-state", "the program needs to know what was chosen at random")

    as_constant = as_argument = call = items = truth = refuse

    def reconstruct(self, residual: Residual) -> str:
        names = ", ".join(residual.name_for(element) for element in self.elements)
        return f"({names},)[{residual.load(self.index)}]"
