"""Literals and comprehensions of containers, and subscripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import dropwhile, takewhile
from typing import Any, TypeAlias

from minitorch2.script.frontend.emission import UNKNOWN, Arguments, SugaredValue
from minitorch2.script.frontend.emit_conditions import ConditionEmitter
from minitorch2.script.frontend.emit_iteration import elements_of
from minitorch2.script.frontend.environment import Variable
from minitorch2.script.frontend.indexing import index_tensor
from minitorch2.script.frontend.python_values import converted, to_sugared_value
from minitorch2.script.frontend.refine import apply, joined
from minitorch2.script.frontend.sugared import (
    ConstantValue,
    SimpleValue,
    TupleSugar,
    list_of,
    sugar,
)
from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.types import (
    STR,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
)
from minitorch2.script.operators.match import convert
from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange

OpenElements: TypeAlias = tuple[list[SugaredValue] | SugaredValue, ...]
"""Elements before, between and after lists of which nobody knows how many elements they have."""


class ContainerEmitter(ConditionEmitter):
    """Emits tuples, lists, dicts and their parts."""

    def converted(self, value: Value, type_: Type, where: SourceRange) -> Value:
        """Return a value as one of a type, or raise."""
        return converted(self, value, type_, where)

    def emit_TupleLiteral(self, expression: t.TupleLiteral, hint: Type | None) -> SugaredValue:
        hints: Sequence[Type | None] = [None] * len(expression.items)
        if isinstance(hint, TupleType) and len(hint.elements) == len(expression.items):
            hints = hint.elements
        parts = self.elements(expression.items, hints)
        return TupleSugar(parts) if isinstance(parts, list) else self._joined(parts, expression)

    def elements(
        self, items: Sequence[t.Expr], hints: Sequence[Type | None] | None = None
    ) -> list[SugaredValue] | OpenElements:
        """Return what expressions are, stars expanded where their numbers of elements are known."""
        found = list[list[SugaredValue] | SugaredValue]()
        for item, hint in zip(items, hints or [None] * len(items), strict=True):
            if isinstance(item, t.Starred):
                given = self.expression(item.value)
                expanded = elements_of(self, given, item.range)
                found.append(given if expanded is None else expanded)
            else:
                found.append([self.expression(item, hint)])
        parts = [part for part in found if isinstance(part, list)]
        return [each for part in parts for each in part] if len(parts) == len(found) else (*found,)

    def _joined(self, elements: OpenElements, expression: t.Expr) -> SugaredValue:
        """Return elements as one list: how many there are is not known."""
        where = expression.range
        parts = [self._part(part, where) for part in elements if part != []]
        kinds = {part.type for part in parts}
        if len(kinds) > 1 or not isinstance(parts[0].type, ListType):
            message = f"a star joins {' and '.join(sorted(map(str, kinds)))} here"
            raise ScriptError(message, where, code="script-star", fix="give all elements one type")
        total = parts[0]
        for part in parts[1:]:
            total = self.emit("aten::add", (total, part), where)
        return sugar(total)

    def _part(self, part: list[SugaredValue] | SugaredValue, where: SourceRange) -> Value:
        if isinstance(part, list):
            return list_of(self, [each.as_value(self, where) for each in part], where)
        return part.as_value(self, where)

    def arguments(self, call: t.Call) -> Arguments:
        """Return the arguments of a call, stars expanded.

        A star may have no known number of elements. Then they are one list with the arguments of
        their type before it, and with all arguments behind it.
        """
        parts = self.elements(call.arguments)
        found = Arguments(parts) if isinstance(parts, list) else self._open(parts, call)
        for keyword in call.keywords:
            if keyword.name is None:
                found.keywords.update(self._double_starred(keyword))
            else:
                found.keywords[keyword.name] = self.expression(keyword.value)
        return found

    def _open(self, parts: OpenElements, call: t.Call) -> Arguments:
        before = list[SugaredValue]()
        for part in takewhile(lambda part: isinstance(part, list), parts):
            before += part if isinstance(part, list) else ()
        star, *behind = dropwhile(lambda part: isinstance(part, list), parts)
        assert isinstance(star, SugaredValue)
        kind = star.as_value(self, call.range).type
        types = [each.as_value(self, call.range).type for each in before]
        own = sum(1 for _ in dropwhile(lambda type_: ListType(type_) == kind, types[::-1]))
        listed = self._joined((before[own:], star, *behind), call)
        return Arguments([*before[:own], listed], is_open=True)

    def _double_starred(self, keyword: t.Keyword) -> dict[str, SugaredValue]:
        given = self.expression(keyword.value).constant()
        if isinstance(given, dict) and all(isinstance(name, str) for name in given):
            return {
                name: to_sugared_value(value, keyword.range, self.constants)
                for name, value in given.items()
            }
        message = "`**` needs names that are known while compiling"
        raise ScriptError(message, keyword.range, code="script-star", fix="write each keyword")

    def emit_ListLiteral(self, expression: t.ListLiteral, hint: Type | None) -> SugaredValue:
        hint = hint.element if isinstance(hint, OptionalType) else hint
        element = hint.element if isinstance(hint, ListType) else None
        parts = self.elements(expression.items, [element] * len(expression.items))
        if not isinstance(parts, list):
            return self._joined(parts, expression)
        if not (made := TupleSugar(parts)).first_class:
            return made
        values = [part.as_value(self, expression.range) for part in parts]
        return sugar(self._list(values, element, expression.range))

    def _list(self, values: list[Value], element: Type | None, where: SourceRange) -> Value:
        """Insert a list, of a hinted type of elements if all values fit it."""
        hinted = None if element is None else self._all_as(values, element, where)
        if hinted is None:
            return list_of(self, values, where)
        return list_of(self, hinted, where, element)

    def _all_as(self, values: list[Value], type_: Type, where: SourceRange) -> list[Value] | None:
        """Return values as ones of a type that is hinted; None if one cannot be.

        A hint may come from the type that a name had before.
        """
        found = [convert(self.graph, value, type_, where) for value in values]
        fitting = [value for value in found if value is not None]
        return fitting if len(fitting) == len(values) else None

    def emit_DictLiteral(self, expression: t.DictLiteral, hint: Type | None) -> SugaredValue:
        hint = hint.element if isinstance(hint, OptionalType) else hint
        type_ = hint if isinstance(hint, DictType) else None
        keys = [self.value(key) for key in expression.keys]
        values = [self.value(value, type_.value if type_ else None) for value in expression.values]
        hinted = None if type_ is None else self._all_as(values, type_.value, expression.range)
        if type_ is None or hinted is None:
            key = self._common("keys", keys, STR, expression.range)
            type_ = DictType(key, self._common("values", values, TENSOR, expression.range))
        pairs = [
            part
            for key_, value in zip(keys, hinted or values)
            for part in (key_, self.converted(value, type_.value, expression.range))
        ]
        return sugar(self.node("prim::DictConstruct", pairs, (type_,), expression.range).output)

    def _common(
        self, what: str, values: Sequence[Value], nothing: Type, where: SourceRange
    ) -> Type:
        found = joined([value.type for value in values]) if values else nothing
        if found is None:
            message = f"{what} of one dict have different types"
            raise ScriptError(message, where, code="script-mixed-dict", fix="give them one type")
        return found

    def emit_ListComprehension(
        self, expression: t.ListComprehension, hint: Type | None
    ) -> SugaredValue:
        iterable = self.expression(expression.iterable)
        items = elements_of(self, iterable, expression.range)
        element = hint.element if isinstance(hint, ListType) else None
        if items is not None and not expression.conditions:
            return self._unrolled(expression, items, element)
        made = self.node(
            "prim::ListConstruct", (), (ListType(element or TENSOR),), expression.range
        ).output

        where = expression.element.range

        def append() -> None:
            value = self.value(expression.element, element)
            hinted = None if element is None else convert(self.graph, value, element, where)
            if hinted is None:
                made.type = ListType(value.type)
            self.emit("aten::append", (made, hinted or value), expression.range)

        if items is None:
            self._looped(expression, iterable, append)
        else:
            for item in items:
                self.scoped(
                    expression.target, item, lambda: self._filtered(expression.conditions, append)
                )
        return sugar(made)

    def _unrolled(
        self, expression: t.ListComprehension, items: Sequence[SugaredValue], element: Type | None
    ) -> SugaredValue:
        found = list[SugaredValue]()
        for item in items:
            self.scoped(
                expression.target, item,
                lambda: found.append(self.expression(expression.element, element)),
            )  # fmt: skip
        if not (made := TupleSugar(found)).first_class:
            return made
        values = [part.as_value(self, expression.range) for part in found]
        return sugar(self._list(values, element, expression.range))

    def emit_DictComprehension(self, expression: t.DictComprehension) -> SugaredValue:
        iterable = self.expression(expression.iterable)
        items = elements_of(self, iterable, expression.range)
        type_ = DictType(STR, TENSOR)
        made = self.node("prim::DictConstruct", (), (type_,), expression.range).output

        def put() -> None:
            key, value = self.value(expression.key), self.value(expression.value)
            made.type = DictType(key.type, value.type)
            self.emit("aten::_set_item", (made, key, value), expression.range)

        if items is None:
            self._looped(expression, iterable, put)
        else:
            for item in items:
                self.scoped(
                    expression.target, item, lambda: self._filtered(expression.conditions, put)
                )
        return sugar(made)

    def scoped(self, target: t.Expr, item: SugaredValue, emit: Callable[[], None]) -> None:
        """Emit with the names of a comprehension's target set, which others do not see."""
        saved = {name: self.environment.find(name) for name in _target_names(target)}
        self.assign(target, item)
        emit()
        for name, found in saved.items():
            self.environment.remove(name, f"{name} is the variable of a comprehension")
            if isinstance(found, Variable):
                self.environment.set_variable(name, found)
            elif found is not None:
                self.environment.set_sugared(name, found)

    def _looped(
        self,
        expression: t.ListComprehension | t.DictComprehension,
        iterable: SugaredValue,
        emit: Callable[[], None],
    ) -> None:
        iteration = iterable.iteration(self, expression.iterable.range)
        node = self.loop_node(iteration.trips, expression.range)
        with self.inside(node.blocks[0]):
            item = iteration.element(node.blocks[0].inputs[0])
            self.assign(expression.target, item)
            self._filtered(expression.conditions, emit)
        with self.inside(node.blocks[1]):
            node.blocks[1].add_output(self.truth(True, expression.range))

    def _filtered(self, conditions: Sequence[t.Expr], emit: Callable[[], None]) -> None:
        if not conditions:
            emit()
            return
        condition = self.condition(conditions[0])
        if condition.value is None:
            if condition.known:
                self._filtered(conditions[1:], emit)
            return
        node = self.if_node(condition.value, conditions[0].range)
        with self.inside(node.blocks[0]):
            apply(condition.when_true, self, conditions[0].range)
            self._filtered(conditions[1:], emit)

    def assign(self, target: t.Expr, value: SugaredValue) -> None:
        """Assign to a target; statements know how."""
        raise NotImplementedError

    def emit_Subscript(self, expression: t.Subscript) -> SugaredValue:
        given = self.expression(expression.value)
        where = expression.range
        if isinstance(given, SimpleValue) and isinstance(given.type, TensorType):
            return sugar(index_tensor(self, given.value, self.indices(expression.index), where))
        if isinstance(expression.index, t.Slice):
            return self._slice(given, expression.index, where)
        return given.get_item(self, self.expression(expression.index), where)

    def indices(self, index: t.Expr) -> list[Any]:
        """Return what a tensor is indexed by: values, slices of values, None and `...`."""
        items = index.items if isinstance(index, t.TupleLiteral) else (index,)
        return [self._index(item) for item in items]

    def _index(self, item: t.Expr) -> Any:
        if isinstance(item, t.Slice):
            parts = (item.start, item.stop, item.step)
            return tuple(None if part is None else self.value(part) for part in parts)
        if isinstance(item, t.Constant) and (item.value is ... or item.value is None):
            return item.value
        found = self.expression(item)
        return None if found.constant() is None else found.as_value(self, item.range)

    def _slice(self, given: SugaredValue, index: t.Slice, where: SourceRange) -> SugaredValue:
        parts = [index.start, index.stop, index.step]
        if isinstance(given, SimpleValue) and not isinstance(given.type, TupleType):
            start, stop, step = (None if p is None else self.value(p) for p in parts)
            none, one = self.constant(None, where), self.constant(1, where)
            inputs = (given.value, start or none, stop or none, step or one)
            return sugar(self.emit("aten::slice", inputs, where))
        items = given.items(self, where)
        bounds = [None if part is None else self.expression(part).constant() for part in parts]
        if items is None or UNKNOWN in bounds:
            raise given.refuse(
                "cannot be sliced like this", where, code="script-slice", fix="use constants"
            )
        if given.is_module:
            return given.get_item(self, ConstantValue(slice(*bounds)), where)
        return TupleSugar(items[slice(*bounds)])


def _target_names(target: t.Expr) -> list[str]:
    if isinstance(target, t.Name):
        return [target.id]
    items = getattr(target, "items", ())
    return [name for item in items for name in _target_names(item)]
