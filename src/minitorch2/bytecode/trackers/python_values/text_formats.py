"""``"...".format(...)`` and ``"..." % ...`` of values whose text is known though they vary.

Each value is shown by its own special methods; CPython then puts the texts together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from minitorch2.bytecode.polyfills import texts
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import raise_as_observed, raise_observed
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.python_values.constant import (
    NONE,
    TEXT_METHODS,
    ConstantVariable,
    fold,
)
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable
from minitorch2.bytecode.trackers.rules import raise_real
from minitorch2.native.cpython.library import parse_format, split_field_name


@dataclass
class Format:
    """One call of ``str.format``."""

    evaluator: Evaluator
    args: Sequence[VariableTracker]
    kwargs: Mapping[str, VariableTracker]
    unnamed: int = 0
    numbered: bool = False
    mapping: VariableTracker | None = None

    def text(self, template: str) -> str:
        """Return the template with all of its fields filled in."""
        try:
            parts = list(parse_format(template))
        except ValueError as error:
            raise_as_observed(error)
        return "".join(literal + self._field(*rest) for literal, *rest in parts)

    def _field(self, name: str | None, spec: str, conversion: str | None) -> str:
        if name is None:
            return ""
        value, shown = self._value(name), self.text(spec)
        with_spec = ConstantVariable(shown) if shown else None
        made = operations.format_value(self.evaluator, value, conversion, with_spec)
        return str(made.as_constant())

    def _value(self, name: str) -> VariableTracker:
        first, steps = split_field_name(name)
        value = self._argument(first)
        for is_attribute, step in steps:
            if is_attribute:
                value = value.get_attribute(self.evaluator, step)
            else:
                value = operations.get_item(self.evaluator, value, ConstantVariable(step))
        return value

    def _argument(self, name: int | str) -> VariableTracker:
        if name == "":
            name, self.unnamed = self.unnamed, self.unnamed + 1
        elif isinstance(name, int):
            self.numbered = True
        if self.unnamed and self.numbered:
            raise_real(str.format, [ConstantVariable("{}{0}"), NONE])
        if self.mapping is not None:
            return operations.get_item(self.evaluator, self.mapping, ConstantVariable(str(name)))
        if isinstance(name, str):
            found = self.kwargs.get(name)
            return found or raise_observed(KeyError, name)
        if name >= len(self.args):
            where = "out of range for positional args tuple"
            raise_observed(IndexError, f"Replacement index {name} {where}")
        return self.args[name]


def format_method(
    evaluator: Evaluator, template: str, args: Arguments, kwargs: Keywords
) -> VariableTracker:
    """``template.format(*args, **kwargs)``"""
    return ConstantVariable(Format(evaluator, args, kwargs).text(template))


_CONVERSION: Final = re.compile(
    r"%(?:\((?P<key>[^()]*)\))?(?P<form>[-#0 +]*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?)[hlL]?(?P<kind>.)",
    re.DOTALL,
)


@dataclass
class Percent:
    """One use of ``template % operand``."""

    evaluator: Evaluator
    operand: VariableTracker
    given: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rest = iter(self._elements())

    def _elements(self) -> list[VariableTracker]:
        whole = self.operand
        if isinstance(whole, ObjectVariable) and isinstance(whole.container, TupleVariable):
            whole = whole.container
        return whole.realized() if isinstance(whole, TupleVariable) else [self.operand]

    def template(self, text: str) -> str:
        """Return the template with the texts of values that have one for their conversions."""
        made = _CONVERSION.sub(self._conversion, text)
        is_mapping = isinstance(self.operand, DictVariable)
        self.given += [] if is_mapping else [None for _ in self._rest]
        return made

    def _conversion(self, match: re.Match[str]) -> str:
        key, form, kind = match["key"], match["form"], match["kind"]
        if kind == "%":
            return match[0]
        for _ in range(form.count("*")):
            self.given += [value.as_constant() for value in self._next()]
        for value in self._next() if key is None else [self._named(key)]:
            kind = self._take(value, kind)
        return f"%{form}{kind}"

    def _next(self) -> Iterator[VariableTracker]:
        """Yield the next element of the operand, if there is one."""
        value = next(self._rest, None)
        if value is not None:
            yield value

    def _named(self, key: str) -> VariableTracker:
        return operations.get_item(self.evaluator, self.operand, ConstantVariable(key))

    def _take(self, value: VariableTracker, kind: str) -> str:
        if kind in "diouxX" and isinstance(value, ObjectVariable):
            self._refuse_number(value, kind)
        if kind not in "rsa" or value.is_constant():
            self.given.append(value.as_constant())
            return kind
        text = operations.format_value(self.evaluator, value, kind, None)
        self.given.append(text.as_constant())
        return "s"

    def _refuse_number(self, value: VariableTracker, kind: str) -> None:
        cls = value.python_type()
        if not any(hasattr(cls, name) for name in ("__int__", "__index__")):
            needs = "an integer is" if kind in "oxX" else "a real number is"
            raise_observed(TypeError, f"%{kind} format: {needs} required, not {cls.__name__}")


def percent_operator(
    evaluator: Evaluator, template: str, args: Arguments, kwargs: Keywords
) -> VariableTracker:
    """``template % operand``"""
    use = Percent(evaluator, args[0])
    text = use.template(template)
    return fold(lambda: text % tuple(use.given), [])


def format_map(
    evaluator: Evaluator, template: str, args: Arguments, kwargs: Keywords
) -> VariableTracker:
    """``template.format_map(mapping)``"""
    return ConstantVariable(Format(evaluator, (), {}, mapping=args[0]).text(template))


def substitute(
    evaluator: Evaluator, pattern: re.Pattern[Any], args: Arguments, kwargs: Keywords
) -> VariableTracker:
    """``pattern.sub(function, text)``: the function is called with each match"""
    body = evaluator.capture.wrap(texts.substitute, None)
    return evaluator.call(body, [ConstantVariable(pattern), *args], kwargs)


@models(re.sub)
def substitute_by_text(
    evaluator: Evaluator,
    pattern: VariableTracker,
    repl: VariableTracker,
    string: VariableTracker,
    count: VariableTracker = ConstantVariable(0),  # noqa: B008 (a constant)
    flags: VariableTracker = ConstantVariable(0),  # noqa: B008 (a constant)
) -> VariableTracker:
    """``re.sub``"""
    found = fold(re.compile, [pattern, flags])
    return found.call_method(evaluator, "sub", [repl, string, count], {})


TEXT_METHODS["sub"] = substitute
TEXT_METHODS["format"] = format_method
TEXT_METHODS["format_map"] = format_map
TEXT_METHODS["__mod__"] = percent_operator
