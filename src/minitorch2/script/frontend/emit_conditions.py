"""Conditions, `and`, `or`, conditional expressions: what they give, and what they tell of types."""

from __future__ import annotations

from collections.abc import Sequence

from minitorch2.script.frontend.emission import UNKNOWN, Emission, SugaredValue
from minitorch2.script.frontend.emit_calls import truth_of
from minitorch2.script.frontend.emit_operators import OperatorEmitter
from minitorch2.script.frontend.emit_questions import class_types, emit_isinstance, instance_members
from minitorch2.script.frontend.python_values import FormValue
from minitorch2.script.frontend.refine import (
    Condition,
    Refinements,
    apply,
    both,
    either,
    joined,
    negated,
)
from minitorch2.script.frontend.sugared import is_constant, sugar
from minitorch2.script.ir.graph import Block, Value
from minitorch2.script.ir.types import BOOL, NONE, OptionalType, Type, unify, union_of
from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange


def _truth(given: object, _: object) -> bool:
    return bool(given)


class ConditionEmitter(OperatorEmitter):
    """Emits conditions with their refinements."""

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
            takes_right = self._truth(known, expression.left) == (expression.op == "and")
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
        return sugar(joined_output(self, node.blocks, expression.range))

    def _falsy(self, value: Value, expression: t.Logical) -> Value:
        """Return the left operand where it decides: an optional that is true is not None."""
        if expression.op == "or" and isinstance(value.type, OptionalType):
            return self.cast(value, value.type.element, expression.range)
        return value

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
            case t.Call(
                (t.Name("isinstance") | t.Attribute(_, "isinstance")) as function,
                (t.Name(name), classes),
                (),
            ) if self._asks_class(function):
                return self._instance_condition(name, classes, expression)
        return self._plain_condition(expression)

    def _asks_class(self, function: t.Expr) -> bool:
        found = self.expression(function)
        return isinstance(found, FormValue) and found.form is emit_isinstance

    def _truth(self, known: object, expression: t.Expr) -> bool:
        """Return the truth of a Python object, which may change."""
        answer = bool(known)
        if not is_constant(known):
            self.constants.add(known, _truth, None, answer, expression.range)
        return answer

    def _plain_condition(self, expression: t.Expr) -> Condition:
        found = self.expression(expression)
        known = found.constant()
        if known is not UNKNOWN:
            return Condition(None, self._truth(known, expression))
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
        wanted = class_types(self.expression(classes), classes.range)
        members = instance_members(variable.type, wanted)
        if members is None:
            types = [type_ for type_ in wanted if isinstance(type_, Type)]
            is_all = len(wanted) == len(types)
            return Condition(plain.value, None, {name: union_of(types)} if is_all else {})
        inside, outside = map(union_of, members)
        return Condition(plain.value, None, {name: inside}, {name: outside})

    def _and_or(self, expression: t.Logical, left: Condition) -> Condition:
        """Emit the right operand where the left one does not decide, and knows what it tells.

        A right operand that is known may decide, whatever the left one is.
        """
        goes_on = expression.op == "and"
        if left.value is None:
            return self.condition(expression.right) if left.known == goes_on else left
        node, right = self._right(expression, left, left.when_true if goes_on else left.when_false)
        if right.value is None:
            return left if right.known == goes_on else right
        if goes_on:
            return Condition(
                node,
                None,
                both(left.when_true, right.when_true),
                either(left.when_false, both(left.when_true, right.when_false)),
            )
        return Condition(
            node,
            None,
            either(left.when_true, both(left.when_false, right.when_true)),
            both(left.when_false, right.when_false),
        )

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
            return self.expression(
                expression.then if condition.known else expression.otherwise, hint
            )
        node = self.if_node(condition.value, expression.range)
        sides = (
            (expression.then, condition.when_true),
            (expression.otherwise, condition.when_false),
        )
        for block, (side, refined) in zip(node.blocks, sides):
            with self.inside(block):
                apply(refined, self, side.range)
                block.add_output(self.value(side, hint))
        return sugar(joined_output(self, node.blocks, expression.range))


def joined_output(emission: Emission, blocks: Sequence[Block], where: SourceRange) -> Value:
    """Give an if the output that both of its blocks end with, in their common type."""
    types = [block.outputs[-1].type for block in blocks]
    type_ = unify(*types) or joined(types)
    if type_ is None:
        message = f"the two branches have different types: {types[0]} and {types[1]}"
        fix = "give both branches one type"
        raise ScriptError(message, where, code="script-branch-types", fix=fix)
    for block in blocks:
        with emission.graph.inserting_at_end(block):
            index = len(block.outputs) - 1
            block.replace_output(index, emission.cast(block.outputs[-1], type_, where))
    assert blocks[0].owner is not None
    return blocks[0].owner.add_output(type=type_)


def _chained(expression: t.Compare) -> t.Expr:
    """Return ``a < b and b < c`` for ``a < b < c``."""
    (op, middle), *rest = expression.rest
    first = t.Compare(expression.first, ((op, middle),), range=expression.range)
    second = t.Compare(middle, tuple(rest), range=expression.range)
    return t.Logical("and", first, second, range=expression.range)
