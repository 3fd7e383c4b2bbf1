"""Expressions become values: names, attributes, calls; the classes below know the rest."""

from __future__ import annotations

import difflib
import operator
from enum import Enum
from functools import partial

from minitorch2.script.frontend.annotations import type_of_annotation
from minitorch2.script.frontend.emission import Arguments, Emission, SugaredValue
from minitorch2.script.frontend.emit_calls import emit_annotate
from minitorch2.script.frontend.emit_containers import ContainerEmitter
from minitorch2.script.frontend.enumerations import MemberValue
from minitorch2.script.frontend.environment import Variable
from minitorch2.script.frontend.python_values import FormValue, OperatorValue, to_sugared_value
from minitorch2.script.frontend.resolver import MISSING
from minitorch2.script.frontend.sugared import (
    BoundMethod,
    ConstantValue,
    MethodValue,
    TupleSugar,
    sugar,
)
from minitorch2.script.ir.types import Type
from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange


class ExpressionEmitter(ContainerEmitter):
    """Emits expressions; `expression` gives sugared values, `value` gives values."""

    def expression(self, expression: t.Expr, hint: Type | None = None) -> SugaredValue:
        """Return what an expression is."""
        emit = getattr(self, f"emit_{type(expression).__name__}", None)
        if emit is None:
            message = f"a {type(expression).__name__} has no value here"
            raise ScriptError(message, expression.range, code="script-expression")
        if isinstance(
            expression,
            t.ListLiteral
            | t.DictLiteral
            | t.TupleLiteral
            | t.Conditional
            | t.ListComprehension
            | t.Call,
        ):
            found: SugaredValue = emit(expression, hint)
        else:
            found = emit(expression)
        return found

    # -- names, constants, attributes ---------------------------------------------------------

    def emit_Name(self, expression: t.Name) -> SugaredValue:
        name, where = expression.id, expression.range
        found = self.environment.find(name)
        if (known := self.environment.known(name)) is not None:
            return MemberValue(known) if isinstance(known, Enum) else ConstantValue(known)
        if isinstance(found, Variable):
            return sugar(self.load(name, found, where))
        if found is not None:
            return found
        if (reason := self.environment.why_lost(name)) is not None:
            fix = f"give {name} a value of one type on every way to here"
            message = f"{name} has no value here: {reason}"
            raise ScriptError(message, where, code="script-maybe-undefined", fix=fix)
        resolved = self.resolver.resolve(name)
        if resolved is MISSING:
            raise self._unknown_name(name, where)
        if (source := self.resolver.source(name)) is not None:
            owner, read, key = source
            given = resolved if read is not operator.contains else False
            self.constants.add(owner, read, key, given, where)
        return to_sugared_value(resolved, where, self.constants)

    def _unknown_name(self, name: str, where: SourceRange) -> ScriptError:
        known = {name for frame in self.environment.frames for name in frame.variables}
        near = difflib.get_close_matches(name, sorted(known | self.resolver.names()), 1)
        fix = f"did you mean {near[0]}?" if near else f"set {name} before, or import it"
        return ScriptError(f"{name} is not defined", where, code="script-unknown-name", fix=fix)

    def emit_Constant(self, expression: t.Constant) -> SugaredValue:
        if expression.value is ...:
            message = "`...` stands for dimensions in a subscript only"
            raise ScriptError(message, expression.range, code="script-ellipsis")
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

    def emit_Call(self, expression: t.Call, hint: Type | None = None) -> SugaredValue:
        function = self.expression(expression.function)
        if isinstance(function, FormValue) and function.form is emit_annotate:
            return self._annotated(expression)
        arguments = self.arguments(expression)
        if isinstance(function, MethodValue) and hint is not None and not arguments.all():
            return function.as_type(self, hint, expression.range)
        if arguments.is_open and not isinstance(function, OperatorValue | MethodValue):
            raise function.refuse(
                "takes a known number of arguments, and a star gives more",
                expression.range, code="script-star", fix="pass the list itself",
            )  # fmt: skip
        return function.call(self, arguments, expression.range)

    def _annotated(self, expression: t.Call) -> SugaredValue:
        """Emit ``annotate(T, value)``: the value as one of the type."""
        if len(expression.arguments) != 2:
            message = "annotate takes a type and a value"
            raise ScriptError(message, expression.range, code="script-wrong-arguments")
        type_ = type_of_annotation(expression.arguments[0], self.resolver)
        value = self.value(expression.arguments[1], type_)
        return sugar(self.converted(value, type_, expression.range))

    def emit_Lambda(self, expression: t.Lambda) -> SugaredValue:
        return BoundMethod("a lambda", partial(self._call_lambda, expression))

    def _call_lambda(
        self, function: t.Lambda, _: Emission, arguments: Arguments, where: SourceRange
    ) -> SugaredValue:
        """Emit the body of a lambda where it is called; its names are those of this place."""
        if arguments.keywords or len(arguments.positional) != len(function.parameters):
            message = f"the lambda takes {len(function.parameters)} arguments"
            raise ScriptError(message, where, code="script-wrong-arguments")
        found = list[SugaredValue]()
        names = tuple(t.Name(name, range=function.range) for name in function.parameters)
        target = t.TupleLiteral(names, range=function.range)
        given = TupleSugar(arguments.positional)
        self.scoped(target, given, lambda: found.append(self.expression(function.body)))
        return found[0]
