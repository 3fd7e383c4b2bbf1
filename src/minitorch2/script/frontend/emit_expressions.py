"""Expressions become values: arithmetic, conditions with refinements, calls, literals, subscripts."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, Final

from minitorch2.script.frontend.annotations import type_of_annotation
from minitorch2.script.frontend.emission import UNKNOWN, Arguments, Emission, SugaredValue
from minitorch2.script.frontend.emit_calls import elements_of, instance_members, truth_of
from minitorch2.script.frontend.emit_calls import class_types as classes_asked_for
from minitorch2.script.frontend.environment import Variable
from minitorch2.script.frontend.indexing import index_tensor
from minitorch2.script.frontend.python_values import FormValue, converted, to_sugared_value
from minitorch2.script.frontend.refine import (
    Condition,
    Refinements,
    apply,
    both,
    either,
    joined,
    negated,
)
from minitorch2.script.frontend.resolver import MISSING
from minitorch2.script.frontend.sugared import (
    ConstantValue,
    SimpleValue,
    TupleSugar,
    list_of,
    sugar,
)
from minitorch2.script.ir.graph import Block, Value
from minitorch2.script.ir.types import (
    BOOL,
    NONE,
    STR,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    is_subtype_of,
    unify,
)
from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.errors import ScriptError
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


class ExpressionEmitter(Emission):
    """Emits expressions; `expression` gives sugared values, `value` gives values."""

    def value(self, expression: t.Expr, hint: Type | None = None) -> Value:
        """Return the value of an expression; literals without elements have the hinted type."""
        return self.expression(expression, hint).as_value(self, expression.range)

    def expression(self, expression: t.Expr, hint: Type | None = None) -> SugaredValue:
        """Return what an expression is."""
        emit = getattr(self, f"emit_{type(expression).__name__}", None)
        if emit is None:
            message = f"a {type(expression).__name__} has no value here"
            raise ScriptError(message, expression.range, code="expression")
        if isinstance(expression, t.ListLiteral | t.DictLiteral | t.TupleLiteral | t.Conditional
                      | t.ListComprehension):
            found: SugaredValue = emit(expression, hint)
        else:
            found = emit(expression)
        return found

    # -- names, constants, attributes ---------------------------------------------------------

    def emit_Name(self, expression: t.Name) -> SugaredValue:
        name, where = expression.id, expression.range
        found = self.environment.find(name)
        if isinstance(found, Variable):
            return sugar(self.load(name, found, where))
        if found is not None:
            return found
        if (reason := self.environment.why_lost(name)) is not None:
            fix = f"give {name} a value of one type on every way to here"
            message = f"{name} has no value here: {reason}"
            raise ScriptError(message, where, code="maybe-undefined", fix=fix)
        resolved = self.resolver.resolve(name)
        if resolved is MISSING:
            raise self._unknown_name(name, where)
        return to_sugared_value(resolved, where)

    def _unknown_name(self, name: str, where: SourceRange) -> ScriptError:
        known = {name for frame in self.environment.frames for name in frame.variables}
        near = difflib.get_close_matches(name, sorted(known | self.resolver.names()), 1)
        fix = f"did you mean {near[0]}?" if near else f"set {name} before, or import it"
        return ScriptError(f"{name} is not defined", where, code="unknown-name", fix=fix)

    def emit_Constant(self, expression: t.Constant) -> SugaredValue:
        if expression.value is ...:
            message = "`...` stands for dimensions in a subscript only"
            raise ScriptError(message, expression.range, code="ellipsis")
        return ConstantValue(expression.value)

    def emit_Attribute(self, expression: t.Attribute) -> SugaredValue:
        return self.expression(expression.value).attr(self, expression.name, expression.range)

    def emit_FormattedString(self, expression: t.FormattedString) -> SugaredValue:
        text = "".join(
            str(part.value) if isinstance(part, t.Constant) else "{}" for part in expression.parts
        )
        values = [self.value(p) for p in expression.parts if not isinstance(p, t.Constant)]
        where = expression.range
        return sugar(self.emit("aten::format", (self.constant(text, where), *values), where))

    # -- calls --------------------------------------------------------------------------------

    def emit_Call(self, expression: t.Call) -> SugaredValue:
        function = self.expression(expression.function)
        if isinstance(function, FormValue) and function.name in ("annotate", "cast"):
            return self._annotated(expression)
        return function.call(self, self.arguments(expression), expression.range)

    def _annotated(self, expression: t.Call) -> SugaredValue:
        """Emit ``annotate(T, value)``: the value as one of the type."""
        if len(expression.arguments) != 2:
            message = "annotate takes a type and a value"
            raise ScriptError(message, expression.range, code="wrong-arguments")
        type_ = type_of_annotation(expression.arguments[0], self.resolver)
        value = self.value(expression.arguments[1], type_)
        return sugar(self.converted(value, type_, expression.range))

    def converted(self, value: Value, type_: Type, where: SourceRange) -> Value:
        """Return a value as one of a type, or raise."""
        return converted(self, value, type_, where)

    def arguments(self, call: t.Call) -> Arguments:
        """Return the arguments of a call, stars expanded."""
        found = Arguments()
        for argument in call.arguments:
            if isinstance(argument, t.Starred):
                found.positional += self._starred(argument)
            else:
                found.positional.append(self.expression(argument))
        for keyword in call.keywords:
            if keyword.name is None:
                found.keywords.update(self._double_starred(keyword))
            else:
                found.keywords[keyword.name] = self.expression(keyword.value)
        return found

    def _starred(self, argument: t.Starred) -> list[SugaredValue]:
        given = self.expression(argument.value)
        items = elements_of(self, given, argument.range)
        if items is None:
            fix = "pass the list itself, or a tuple with a star"
            raise given.refuse("has no known number of elements", argument.range, "star", fix)
        return items

    def _double_starred(self, keyword: t.Keyword) -> dict[str, SugaredValue]:
        given = self.expression(keyword.value).constant()
        if isinstance(given, dict) and all(isinstance(name, str) for name in given):
            return {k: to_sugared_value(value, keyword.range) for k, value in given.items()}
        message = "`**` needs names that are known while compiling"
        raise ScriptError(message, keyword.range, code="star", fix="write each keyword")

    # -- operators ----------------------------------------------------------------------------

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
        values = (left.as_value(self, expression.range), right.as_value(self, expression.range))
        return sugar(self.binary(expression.op, *values, expression.range))

    def _tuples(
        self, left: SugaredValue, right: SugaredValue, expression: t.Expr
    ) -> list[SugaredValue] | None:
        """Return the elements of both operands if both are tuples."""
        if not (_is_tuple(left) and _is_tuple(right)):
            return None
        first = left.items(self, expression.range)
        second = right.items(self, expression.range)
        return None if first is None or second is None else first + second

    def binary(self, op: str, left: Value, right: Value, where: SourceRange) -> Value:
        """Emit a binary operator."""
        tensor_left = isinstance(left.type, TensorType)
        tensor_right = isinstance(right.type, TensorType)
        if tensor_right and not tensor_left and not isinstance(left.type, OptionalType):
            return self._reflected(op, left, right, where)
        kind = BINARY[op]
        if op == "//" and tensor_left:
            kind = "aten::floor_divide"
        if op == "%" and left.type == STR:
            kind = "aten::percentFormat"
        return self.emit(kind, (left, right), where)

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

    # -- conditions ---------------------------------------------------------------------------

    def emit_Compare(self, expression: t.Compare) -> SugaredValue:
        if len(expression.rest) > 1:
            return self._sugared(self.condition(expression), expression.range)
        ((op, right),) = expression.rest
        return self.comparison(op, self.expression(expression.first), self.expression(right),
                               expression.range)

    def comparison(
        self, op: str, left: SugaredValue, right: SugaredValue, where: SourceRange
    ) -> SugaredValue:
        """Emit one comparison; of constants it is a constant."""
        known = (left.constant(), right.constant())
        if UNKNOWN not in (known[0], known[1]):
            return ConstantValue(_FOLDED[op](*known))
        if op in ("is", "is not"):
            return self._identity(op, left, right, where)
        if op in ("in", "not in"):
            found = self._membership(left, right, where)
            return sugar(self.emit("aten::__not__", (found,), where)) if op == "not in" else sugar(found)
        a, b = left.as_value(self, where), right.as_value(self, where)
        if isinstance(b.type, TensorType) and not isinstance(a.type, TensorType | OptionalType):
            a, b, op = b, a, _MIRRORED[op]
        return sugar(self.emit(_COMPARE[op], (a, b), where))

    def _identity(
        self, op: str, left: SugaredValue, right: SugaredValue, where: SourceRange
    ) -> SugaredValue:
        sides = [side.as_value(self, where).type if side.first_class else None
                 for side in (left, right)]
        none = [side == NONE for side in sides]
        if any(none) and not all(none):
            other = sides[none.index(False)]
            if other is None or not may_be_none(other):
                return ConstantValue(op == "is not")
        kind = "aten::__is__" if op == "is" else "aten::__isnot__"
        return sugar(self.emit(kind, (left.as_value(self, where), right.as_value(self, where)), where))

    def _membership(self, item: SugaredValue, container: SugaredValue, where: SourceRange) -> Value:
        items = container.items(self, where)
        value = item.as_value(self, where)
        if items is None:
            inside = container.as_value(self, where)
            return self.emit("aten::__contains__", (inside, value), where)
        if not items:
            return self.truth(False, where)
        values = [part.as_value(self, where) for part in items]
        return self.emit("aten::__contains__", (list_of(self, values, where), value), where)

    def emit_Logical(self, expression: t.Logical) -> SugaredValue:
        if self._is_condition(expression.left):
            return self._sugared(self.condition(expression), expression.range)
        return self._operand(expression)

    def _is_condition(self, expression: t.Expr) -> bool:
        """Tell whether an expression surely is a bool by its form."""
        if isinstance(expression, t.Logical):
            return self._is_condition(expression.left) and self._is_condition(expression.right)
        if isinstance(expression, t.Unary):
            return expression.op == "not"
        if isinstance(expression, t.Call) and isinstance(expression.function, t.Name):
            return expression.function.id in ("isinstance", "hasattr", "bool", "any", "all")
        return isinstance(expression, t.Compare)

    def _operand(self, expression: t.Logical) -> SugaredValue:
        """Emit ``a and b`` whose value is one of the operands."""
        left = self.expression(expression.left)
        known = left.constant()
        if known is not UNKNOWN:
            takes_right = bool(known) == (expression.op == "and")
            return self.expression(expression.right) if takes_right else left
        value = left.as_value(self, expression.range)
        if value.type == BOOL:
            return self._sugared(self._and_or(expression, Condition(value)), expression.range)
        node = self.if_node(truth_of(self, value, expression.range), expression.range)
        blocks = node.blocks if expression.op == "and" else node.blocks[::-1]
        with self.inside(blocks[0]):
            blocks[0].add_output(self.value(expression.right))
        with self.inside(blocks[1]):
            blocks[1].add_output(self._falsy(value, expression))
        return sugar(self.joined_output(node.blocks, expression.range))

    def _falsy(self, value: Value, expression: t.Logical) -> Value:
        """Return the left operand where it decides: an optional that is true is not None."""
        if expression.op == "or" and isinstance(value.type, OptionalType):
            return self.cast(value, value.type.element, expression.range)
        return value

    def joined_output(self, blocks: Sequence[Block], where: SourceRange) -> Value:
        """Give an if the output that both of its blocks end with, in their common type."""
        types = [block.outputs[-1].type for block in blocks]
        type_ = unify(*types) or joined(types)
        if type_ is None:
            message = f"the two branches have different types: {types[0]} and {types[1]}"
            fix = "give both branches one type"
            raise ScriptError(message, where, code="branch-types", fix=fix)
        for block in blocks:
            with self.graph.inserting_at_end(block):
                index = len(block.outputs) - 1
                block.replace_output(index, self.cast(block.outputs[-1], type_, where))
        assert blocks[0].owner is not None
        return blocks[0].owner.add_output(type=type_)

    def _sugared(self, condition: Condition, where: SourceRange) -> SugaredValue:
        if condition.value is None:
            return ConstantValue(condition.known)
        return sugar(condition.value)

    def condition(self, expression: t.Expr) -> Condition:
        """Return an expression as a condition of an if, with what it tells of types."""
        where = expression.range
        match expression:
            case t.Unary("not", operand):
                return negated(self.condition(operand), self, where)
            case t.Logical():
                return self._and_or(expression, self.condition(expression.left))
            case t.Compare(first, rest) if len(rest) > 1:
                return self.condition(_chained(expression))
            case t.Compare(first, ((("is" | "is not") as op, second),)):
                return self._none_condition(op, first, second, expression)
            case t.Call(t.Name("isinstance"), (t.Name(name), classes), ()):
                return self._instance_condition(name, classes, expression)
        return self._plain_condition(expression)

    def _plain_condition(self, expression: t.Expr) -> Condition:
        found = self.expression(expression)
        known = found.constant()
        if known is not UNKNOWN:
            return Condition(None, bool(known))
        if not found.first_class:
            items = found.items(self, expression.range)
            return Condition(None, True if items is None else bool(items))
        value = found.as_value(self, expression.range)
        refined: Refinements = {}
        if isinstance(expression, t.Name) and isinstance(value.type, OptionalType):
            refined = {expression.id: value.type.element}
        return Condition(truth_of(self, value, expression.range), None, refined)

    def _none_condition(
        self, op: str, first: t.Expr, second: t.Expr, expression: t.Compare
    ) -> Condition:
        left, right = self.expression(first), self.expression(second)
        found = self.comparison(op, left, right, expression.range)
        known = found.constant()
        if known is not UNKNOWN:
            return Condition(None, bool(known))
        value = found.as_value(self, expression.range)
        name = next((side.id for side in (first, second) if isinstance(side, t.Name)), None)
        variable = self.environment.variable(name) if name is not None else None
        if name is None or variable is None or not isinstance(variable.type, OptionalType):
            return Condition(value)
        if None not in (left.constant(), right.constant()):
            return Condition(value)
        is_none, is_not = {name: NONE}, {name: variable.type.element}
        return Condition(value, None, *((is_none, is_not) if op == "is" else (is_not, is_none)))

    def _instance_condition(self, name: str, classes: t.Expr, expression: t.Call) -> Condition:
        variable = self.environment.variable(name)
        plain = self._plain_condition(expression)
        if variable is None or plain.value is None:
            return plain
        wanted = classes_asked_for(self.expression(classes), classes.range)
        members = instance_members(variable.type, wanted)
        if members is None:
            types = [type_ for type_ in wanted if isinstance(type_, Type)]
            only = types[0] if len(wanted) == len(types) == 1 else None
            return Condition(plain.value, None, {} if only is None else {name: only})
        inside, outside = (joined(types) for types in members)
        return Condition(
            plain.value,
            None,
            {} if inside is None else {name: inside},
            {} if outside is None else {name: outside},
        )

    def _and_or(self, expression: t.Logical, left: Condition) -> Condition:
        """Emit the right operand where the left one does not decide, and knows what it tells."""
        if expression.op == "or":
            known = self._short(expression, left, False)
            if known is not None:
                return known
            node, right = self._right(expression, left, left.when_false)
            return Condition(node, None, either(left.when_true, both(left.when_false, right.when_true)),
                             both(left.when_false, right.when_false))
        known = self._short(expression, left, True)
        if known is not None:
            return known
        node, right = self._right(expression, left, left.when_true)
        return Condition(node, None, both(left.when_true, right.when_true),
                         either(left.when_false, both(left.when_true, right.when_false)))

    def _short(self, expression: t.Logical, left: Condition, goes_on: bool) -> Condition | None:
        """Return the result if the left operand is known."""
        if left.value is not None:
            return None
        return self.condition(expression.right) if left.known == goes_on else left

    def _right(
        self, expression: t.Logical, left: Condition, refined: Refinements
    ) -> tuple[Value, Condition]:
        assert left.value is not None
        where = expression.range
        node = self.if_node(left.value, where)
        goes_on, stops = node.blocks if expression.op == "and" else node.blocks[::-1]
        with self.inside(goes_on):
            apply(refined, self, where)
            right = self.condition(expression.right)
            goes_on.add_output(right.as_value(self, where))
        with self.inside(stops):
            stops.add_output(self.truth(expression.op == "or", where))
        return node.add_output(type=BOOL), right

    def emit_Conditional(self, expression: t.Conditional, hint: Type | None) -> SugaredValue:
        condition = self.condition(expression.condition)
        if condition.value is None:
            return self.expression(expression.then if condition.known else expression.otherwise, hint)
        node = self.if_node(condition.value, expression.range)
        sides = ((expression.then, condition.when_true), (expression.otherwise, condition.when_false))
        for block, (side, refined) in zip(node.blocks, sides):
            with self.inside(block):
                apply(refined, self, side.range)
                block.add_output(self.value(side, hint))
        return sugar(self.joined_output(node.blocks, expression.range))

    # -- containers ---------------------------------------------------------------------------

    def emit_TupleLiteral(self, expression: t.TupleLiteral, hint: Type | None) -> SugaredValue:
        hints: Sequence[Type | None] = [None] * len(expression.items)
        if isinstance(hint, TupleType) and len(hint.elements) == len(expression.items):
            hints = hint.elements
        return TupleSugar(self._elements(expression.items, hints))

    def _elements(
        self, items: Sequence[t.Expr], hints: Sequence[Type | None]
    ) -> list[SugaredValue]:
        found = list[SugaredValue]()
        for item, hint in zip(items, hints):
            if isinstance(item, t.Starred):
                found += self._starred(item)
            else:
                found.append(self.expression(item, hint))
        return found

    def emit_ListLiteral(self, expression: t.ListLiteral, hint: Type | None) -> SugaredValue:
        hint = hint.element if isinstance(hint, OptionalType) else hint
        element = hint.element if isinstance(hint, ListType) else None
        parts = self._elements(expression.items, [element] * len(expression.items))
        if parts and not all(part.first_class for part in parts):
            return TupleSugar(parts)
        values = [part.as_value(self, expression.range) for part in parts]
        if element is not None:
            values = [self.converted(value, element, expression.range) for value in values]
        return sugar(list_of(self, values, expression.range, element))

    def emit_DictLiteral(self, expression: t.DictLiteral, hint: Type | None) -> SugaredValue:
        hint = hint.element if isinstance(hint, OptionalType) else hint
        type_ = hint if isinstance(hint, DictType) else None
        keys = [self.value(key) for key in expression.keys]
        values = [self.value(value, type_.value if type_ else None) for value in expression.values]
        if type_ is None:
            key = self._common("keys", keys, STR, expression.range)
            type_ = DictType(key, self._common("values", values, TENSOR, expression.range))
        pairs = [
            part
            for key_, value in zip(keys, values)
            for part in (key_, self.converted(value, type_.value, expression.range))
        ]
        return sugar(self.node("prim::DictConstruct", pairs, (type_,), expression.range).output)

    def _common(self, what: str, values: Sequence[Value], nothing: Type, where: SourceRange) -> Type:
        found = joined([value.type for value in values]) if values else nothing
        if found is None:
            message = f"{what} of one dict have different types"
            raise ScriptError(message, where, code="mixed-dict", fix="give them one type")
        return found

    def emit_ListComprehension(
        self, expression: t.ListComprehension, hint: Type | None
    ) -> SugaredValue:
        iterable = self.expression(expression.iterable)
        items = elements_of(self, iterable, expression.range)
        element = hint.element if isinstance(hint, ListType) else None
        if items is not None and not expression.conditions:
            return self._unrolled(expression, items, element)
        made = self.node("prim::ListConstruct", (), (hint or ListType(TENSOR),), expression.range).output

        def append() -> None:
            value = self.value(expression.element, element)
            if element is None:
                made.type = ListType(value.type)
            self.emit("aten::append", (made, value), expression.range)

        if items is None:
            self._looped(expression, iterable, append)
        else:
            for item in items:
                self.scoped(expression.target, item, lambda: self._filtered(expression.conditions, append))
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
        if not all(part.first_class for part in found):
            return TupleSugar(found)
        values = [part.as_value(self, expression.range) for part in found]
        return sugar(list_of(self, values, expression.range, element))

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
                self.scoped(expression.target, item, lambda: self._filtered(expression.conditions, put))
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

    # -- subscripts ---------------------------------------------------------------------------

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
            raise given.refuse("cannot be sliced like this", where, "slice", "use constants")
        return TupleSugar(items[slice(*bounds)])


def may_be_none(type_: Type) -> bool:
    """Tell whether a value of a type can be None."""
    return is_subtype_of(NONE, type_)


def _is_tuple(given: SugaredValue) -> bool:
    return isinstance(given, TupleSugar) or isinstance(given.constant(), tuple) or (
        isinstance(given, SimpleValue) and isinstance(given.type, TupleType)
    )


def _chained(expression: t.Compare) -> t.Expr:
    """Return ``a < b and b < c`` for ``a < b < c``."""
    (op, middle), *rest = expression.rest
    first = t.Compare(expression.first, ((op, middle),), range=expression.range)
    second = t.Compare(middle, tuple(rest), range=expression.range)
    return t.Logical("and", first, second, range=expression.range)


def _target_names(target: t.Expr) -> list[str]:
    if isinstance(target, t.Name):
        return [target.id]
    items = getattr(target, "items", ())
    return [name for item in items for name in _target_names(item)]
