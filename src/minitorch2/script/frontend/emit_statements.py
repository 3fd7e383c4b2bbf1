"""Statements become nodes: assignments, branches, loops, exits, `with`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from importlib import import_module
from typing import Final

import torch
from torch.overrides import TorchFunctionMode

from minitorch2.script.frontend.annotations import known_annotation
from minitorch2.script.frontend.emission import Arguments, Loop, SugaredValue
from minitorch2.script.frontend.emit_calls import raise_error
from minitorch2.script.frontend.emit_expressions import ExpressionEmitter
from minitorch2.script.frontend.environment import Frame, Variable
from minitorch2.script.frontend.indexing import set_index
from minitorch2.script.frontend.python_calls import StaticExit
from minitorch2.script.frontend.python_values import ClassValue, ExceptionValue, to_sugared_value
from minitorch2.script.frontend.refine import apply
from minitorch2.script.frontend.sugared import SimpleValue, TupleSugar, sugar
from minitorch2.script.ir.graph import Block, Node, Value
from minitorch2.script.ir.types import (
    ANY,
    DEVICE,
    STR,
    ClassType,
    ListType,
    TensorType,
    TupleType,
    Type,
    is_subtype_of,
    unify,
)
from minitorch2.script.operators.match import convert
from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.errors import AbsentAttributeError, ScriptError
from minitorch2.script.syntax.source import SourceRange

_MOST_TRIPS: Final = 2**63 - 1
_ATTRIBUTE_ERROR: Final = "builtins.AttributeError"


class StatementEmitter(ExpressionEmitter):
    """Emits statements into the graph."""

    def statements(self, body: Sequence[t.Stmt]) -> None:
        """Emit statements; those after an exit never run, and are left out."""
        for statement in body:
            if self.environment.frame.exited:
                return
            emit = getattr(self, f"on_{type(statement).__name__}", None)
            if emit is None:
                message = f"{type(statement).__name__} is no statement of a script"
                raise ScriptError(message, statement.range, code="script-statement")
            emit(statement)

    # -- assignments --------------------------------------------------------------------------

    def on_Assign(self, statement: t.Assign) -> None:
        declared = known_annotation(statement.type, self.resolver)
        if statement.value is None:
            return
        value = self.expression(statement.value, declared or self._hint(statement.targets))
        if declared is not None:
            value = sugar(
                self.converted(
                    value.as_value(self, statement.range), declared, statement.value.range
                )
            )
        for target in statement.targets:
            if isinstance(target, t.Name) and declared is not None:
                self.store(target.id, value.as_value(self, target.range), target.range, declared)
            else:
                self.assign(target, value)

    def _hint(self, targets: Sequence[t.Expr]) -> Type | None:
        """Return the declared type of the name that is assigned to."""
        target = targets[0]
        if not isinstance(target, t.Name):
            return None
        variable = self.environment.variable(target.id)
        return variable.declared if variable is not None else None

    def assign(self, target: t.Expr, value: SugaredValue) -> None:
        match target:
            case t.Name(name):
                self._assign_name(name, value, target.range)
            case t.TupleLiteral(items) | t.ListLiteral(items):
                self._unpack(items, value, target.range)
            case t.Attribute(owner, name):
                self.expression(owner).set_attr(self, name, value, target.range)
            case t.Subscript():
                self._set_item(target, value)
            case _:
                message = "this cannot be assigned to"
                raise ScriptError(message, target.range, code="script-target")

    def _assign_name(self, name: str, value: SugaredValue, where: SourceRange) -> None:
        if value.first_class:
            given, old = value.as_value(self, where), self.environment.variable(name)
            listed = None
            if isinstance(given.type, TupleType) and old is not None and old.declared is not None:
                listed = convert(self.graph, given, old.declared, where)
            known = value.constant() if isinstance(value.constant(), bool | Enum) else None
            self.store(name, given if listed is None else listed, where, known=known)
            return
        if self.loops and self.environment.find(name) is not None:
            raise value.refuse(
                f"cannot be given to {name} again in a loop", where, code="script-reassigned"
            )
        self.environment.set_sugared(name, value)

    def _unpack(self, items: Sequence[t.Expr], value: SugaredValue, where: SourceRange) -> None:
        star = next((i for i, item in enumerate(items) if isinstance(item, t.Starred)), None)
        elements = value.items(self, where)
        if elements is None:
            if star is not None:
                raise value.refuse("has no known number of elements", where, code="script-unpack")
            elements = self._list_elements(value, len(items), where)
        if star is not None:
            behind = len(items) - star - 1
            middle = TupleSugar(elements[star : len(elements) - behind])
            elements = [*elements[:star], middle, *elements[len(elements) - behind :]]
        if len(elements) != len(items):
            message = f"{len(elements)} values are unpacked to {len(items)} names"
            raise ScriptError(message, where, code="script-unpack")
        for item, element in zip(items, elements):
            inner = item.value if isinstance(item, t.Starred) else item
            self.assign(inner, element)

    def _list_elements(
        self, value: SugaredValue, count: int, where: SourceRange
    ) -> list[SugaredValue]:
        listed = value.as_value(self, where)
        if isinstance(listed.type, TensorType):
            listed = self.emit("aten::unbind", (listed,), where)
        if not isinstance(listed.type, ListType):
            raise value.refuse("cannot be unpacked", where, code="script-unpack")
        types = [listed.type.element] * count
        return [sugar(v) for v in self.node("prim::ListUnpack", (listed,), types, where).outputs]

    def _set_item(self, target: t.Subscript, value: SugaredValue) -> None:
        owner = self.expression(target.value)
        where = target.range
        given = owner.as_value(self, where)
        new = value.as_value(self, where)
        if isinstance(given.type, TensorType):
            set_index(self, given, self.indices(target.index), new, where)
            return
        if isinstance(given.type, TupleType) or given.type == STR:
            fix = "make a new one, or use a list"
            raise owner.refuse("cannot be written to", where, code="script-immutable", fix=fix)
        self.emit("aten::_set_item", (given, self.value(target.index), new), where)

    def on_AugmentedAssign(self, statement: t.AugmentedAssign) -> None:
        target, where = statement.target, statement.range
        old, added = self.expression(target), self.expression(statement.value)
        if statement.op == "+" and (parts := self._tuples(old, added, statement.value)) is not None:
            self.assign(target, TupleSugar(parts))
            return
        result = self._augmented(
            statement.op,
            old.as_value(self, target.range),
            added.as_value(self, statement.value.range),
            where,
        )
        if not (isinstance(target, t.Attribute) and isinstance(result.type, TensorType)):
            self.assign(target, sugar(result))

    def _augmented(self, op: str, old: Value, added: Value, where: SourceRange) -> Value:
        """Emit the operator in place, for tensors and lists."""
        if isinstance(old.type, TensorType) and op in _IN_PLACE:
            return self.emit(_IN_PLACE[op], (old, added), where)
        if isinstance(old.type, ListType) and op == "+":
            self.emit("aten::extend", (old, added), where)
            return old
        return self.binary(op, old, added, where)

    def on_ExpressionStatement(self, statement: t.ExpressionStatement) -> None:
        if isinstance(statement.value, t.Constant):
            return  # a docstring
        found = self.expression(statement.value)
        if isinstance(found, StaticExit):
            self.environment.frame.exited = True

    def on_Refused(self, statement: t.Refused) -> None:
        raise statement.error

    def on_Import(self, statement: t.Import) -> None:
        try:
            found: object = import_module(statement.module)
            if statement.attribute is not None:
                owner, found = found, getattr(found, statement.attribute)
                self.constants.add(owner, getattr, statement.attribute, found, statement.range)
        except (ImportError, AttributeError) as error:
            raise ScriptError(str(error), statement.range, code="script-import") from error
        value = to_sugared_value(found, statement.range, self.constants)
        self.environment.set_sugared(statement.name, value)

    def on_Pass(self, statement: t.Pass) -> None:
        """Emit nothing."""

    def on_Delete(self, statement: t.Delete) -> None:
        for target in statement.targets:
            if isinstance(target, t.Name):
                self.expression(target)  # refuses an unknown name
                self.environment.remove(target.id, f"{target.id} was deleted")
            elif isinstance(target, t.Subscript):
                owner = self.value(target.value)
                self.emit("aten::Delete", (owner, self.value(target.index)), target.range)
            else:
                raise ScriptError("this cannot be deleted", target.range, code="script-target")

    # -- branches -----------------------------------------------------------------------------

    def on_If(self, statement: t.If) -> None:
        condition = self.condition(statement.condition)
        where = statement.condition.range
        if condition.value is None:
            apply(condition.when_true if condition.known else condition.when_false, self, where)
            self.statements(statement.body if condition.known else statement.orelse)
            return
        node = self.if_node(condition.value, where)
        with self.inside(node.blocks[0]) as first:
            apply(condition.when_true, self, where)
            self._branch(node.blocks[0], first, statement.body)
        with self.inside(node.blocks[1]) as second:
            apply(condition.when_false, self, where)
            self._branch(node.blocks[1], second, statement.orelse)
        self.environment.join(first, second)

    def _branch(self, block: Block, frame: Frame[SugaredValue], body: Sequence[t.Stmt]) -> None:
        """Emit a branch; one that reads an attribute that a module has not raises, as in Python."""
        returns, loops = len(self.returns), len(self.loops)
        try:
            self.statements(body)
        except AbsentAttributeError as error:
            del self.returns[returns:], self.loops[loops:]
            block.destroy()
            where = error.where or body[0].range
            with self.graph.inserting_at_end(block):
                raise_error(self, self.constant(error.cause, where), _ATTRIBUTE_ERROR, where)
            frame.exited = True

    def on_Assert(self, statement: t.Assert) -> None:
        condition = self.condition(statement.test)
        if condition.value is None:
            if not condition.known:
                self._assertion(statement)
                self.environment.frame.exited = True
            return
        node = self.if_node(condition.value, statement.range)
        with self.inside(node.blocks[0]) as first:
            apply(condition.when_true, self, statement.range)
        with self.inside(node.blocks[1]) as second:
            self._assertion(statement)
            second.exited = True
        self.environment.join(first, second)

    def _assertion(self, statement: t.Assert) -> None:
        where = statement.range
        if statement.message is None:
            message = self.constant("", where)
        else:
            message = self._text(self.expression(statement.message), where)
        raise_error(self, message, "builtins.AssertionError", where)

    def _text(self, given: SugaredValue, where: SourceRange) -> Value:
        value = given.as_value(self, where)
        return value if value.type == STR else self.emit("aten::str", (value,), where)

    def on_Raise(self, statement: t.Raise) -> None:
        where = statement.range
        given = None if statement.value is None else self.expression(statement.value)
        if isinstance(given, ClassValue):
            given = given.call(self, Arguments(), where)
        if not isinstance(given, ExceptionValue):
            fix = 'write `raise ValueError("...")`'
            raise ScriptError(
                "only an exception can be raised", where, code="script-raise", fix=fix
            )
        texts = [self._text(part, where) for part in given.arguments.positional]
        message = texts[0] if len(texts) == 1 else self.constant("", where)
        if len(texts) > 1:
            form = self.constant("(" + ", ".join(["{}"] * len(texts)) + ")", where)
            message = self.emit("aten::format", (form, *texts), where)
        name = f"{given.cls.__module__}.{given.cls.__qualname__}"
        raise_error(self, message, name, where)
        self.environment.frame.exited = True

    def on_Return(self, statement: t.Return) -> None:
        hint = self.return_type
        if statement.value is None:
            value = self.constant(None, statement.range)
        else:
            value = self.value(statement.value, hint)
        if hint is not None:
            value = self.converted(value, hint, statement.range)
        self.returns.append(self.node("prim::Return", (value,), (), statement.range))
        self.environment.frame.exited = True

    # -- loops --------------------------------------------------------------------------------

    def on_While(self, statement: t.While) -> None:
        trips = self.constant(_MOST_TRIPS, statement.range)
        self._loop(statement, trips, None)

    def on_For(self, statement: t.For) -> None:
        iterable = self.expression(statement.iterable)
        items = iterable.items(self, statement.iterable.range)
        if items is not None:
            self._unroll(statement, items)
            return
        where = statement.iterable.range
        iteration = iterable.iteration(self, where)

        def bind(index: Value) -> None:
            self.assign(statement.target, iteration.element(index))

        self._loop(statement, iteration.trips, bind)

    def _unroll(self, statement: t.For, items: Sequence[SugaredValue]) -> None:
        if (left := _leaves_loop(statement.body)) is not None:
            message = "a loop over modules or a tuple is unrolled, and cannot be left early"
            fix = "put what follows into an `if`"
            raise ScriptError(message, left.range, code="script-unrolled-exit", fix=fix)
        for item in items:
            if self.environment.frame.exited:
                return
            self.assign(statement.target, item)
            self.statements(statement.body)

    def _loop(self, statement: t.While | t.For, trips: Value, bind: object) -> None:
        """Emit a loop; again with wider types, if an iteration ends with other ones."""
        while True:
            count = len(self.returns)
            node, frame, loop = self._loop_once(statement, trips, bind)
            wider = self._wider(frame, loop)
            if not wider:
                break
            del self.returns[count:]
            node.destroy()
            for name, type_ in wider.items():
                variable = self.environment.variable(name)
                assert variable is not None
                value = self.cast(self.load(name, variable, variable.where), type_, variable.where)
                self.store(name, value, variable.where)
        self._after_loop(frame, loop)

    def _loop_once(
        self, statement: t.While | t.For, trips: Value, bind: object
    ) -> tuple[Node, Frame[SugaredValue], Loop]:
        node = self.loop_node(trips, statement.range)
        body, again = node.blocks
        loop = Loop()
        self.loops.append(loop)
        refined = {}
        with self.inside(again, repeats=True):
            known = self.truth(True, statement.range)
            if isinstance(statement, t.While):
                condition = self.condition(statement.condition)
                refined = dict(condition.when_true)
                known = condition.as_value(self, statement.condition.range)
            again.add_output(known)
        with self.inside(body, repeats=True) as frame:
            if callable(bind):
                bind(body.inputs[0])
            apply(refined, self, statement.range)
            self.statements(statement.body)
            if not frame.exited:
                loop.ends.append(self._changed(frame))
        self.loops.pop()
        return node, frame, loop

    def _changed(self, frame: Frame[SugaredValue]) -> dict[str, Variable]:
        """Return the variables that have been set since a frame was entered, as they are now."""
        frames = self.environment.frames
        inner = frames[frames.index(frame) :]
        names = {name for one in inner for name in (*one.variables, *one.lost)}
        found = {name: self.environment.variable(name) for name in names}
        return {name: variable for name, variable in found.items() if variable is not None}

    def _wider(self, frame: Frame[SugaredValue], loop: Loop) -> dict[str, Type]:
        """Return types that names need before the loop, so that each iteration can begin."""
        found = dict[str, Type]()
        for end in loop.ends:
            for name, variable in end.items():
                before = self.environment.variable(name)
                if before is None:
                    continue
                known = found.get(name, before.type)
                if is_subtype_of(variable.type, known):
                    continue
                both = unify(known, variable.type)
                if both is None:
                    raise self._two_types(name, before, variable)
                found[name] = both
        for name, reason in frame.lost.items():
            before = self.environment.variable(name)
            if before is not None and not reason.endswith("deleted"):
                message = f"{reason}, and was set before the loop"
                raise ScriptError(message, before.where, code="script-two-types")
        return found

    def _two_types(self, name: str, before: Variable, after: Variable) -> ScriptError:
        message = (
            f"{name} has the type {before.type} before the loop (line {before.where.line}), "
            f"and {after.type} after an iteration"
        )
        fix = f"use another name for the value of type {after.type}"
        return ScriptError(message, after.where, code="script-two-types", fix=fix)

    def _after_loop(self, frame: Frame[SugaredValue], loop: Loop) -> None:
        """Names that only the body sets have no value after the loop: it may not run at all."""
        for name in {*frame.variables, *(name for end in loop.ends for name in end)}:
            self.environment.forget_known(name)
        for name in (*frame.variables, *frame.sugared):
            if self.environment.find(name) is None:
                reason = f"only the body of a loop sets {name}, and it may not run"
                self.environment.remove(name, reason)

    def on_Break(self, statement: t.Break) -> None:
        self._exit_loop("prim::Break", statement)

    def on_Continue(self, statement: t.Continue) -> None:
        self._exit_loop("prim::Continue", statement)

    def _exit_loop(self, kind: str, statement: t.Stmt) -> None:
        if not self.loops:
            word = kind.removeprefix("prim::").lower()
            message = f"`{word}` stands outside of a loop"
            raise ScriptError(message, statement.range, code="script-outside-loop")
        self.loops[-1].ends.append(self._changed(self._loop_frame()))
        self.node(kind, (), (), statement.range)
        self.environment.frame.exited = True

    def _loop_frame(self) -> Frame[SugaredValue]:
        """Return the frame of the innermost loop's body."""
        block = self.graph.insertion_point.block
        depth = 0
        while block is not None and block.owner is not None and block.owner.kind != "prim::Loop":
            block, depth = block.owner.block, depth + 1
        return self.environment.frames[-1 - depth]

    # -- with ---------------------------------------------------------------------------------

    def on_With(self, statement: t.With) -> None:
        contexts = [self._enter(item) for item in statement.items]
        self.statements(statement.body)
        for context in reversed(contexts):
            self.node("prim::Exit", (context,), (), statement.range)

    def _enter(self, item: t.WithItem) -> Value:
        given = self.expression(item.context)
        context = given.as_value(self, item.context.range)
        self._refuse_function_mode(context, item.context.range)
        if not isinstance(context.type, ClassType) and context.type != ANY:
            raise given.refuse(
                "is no context manager",
                item.context.range,
                code="script-wrong-type",
                fix="give `torch.no_grad()`, or an object with `__enter__`",
            )
        entered = self.node("prim::Enter", (context,), (ANY,), item.context.range).output
        if item.target is not None:
            self.assign(item.target, SimpleValue(entered))
        return context

    def _refuse_function_mode(self, context: Value, where: SourceRange) -> None:
        """Refuse a context that changes calls of torch's functions: a graph calls operators."""
        made = context.node.attributes.get("function")
        made = torch.device if context.type == DEVICE else made
        if isinstance(made, type) and issubclass(made, (torch.device, TorchFunctionMode)):
            message = f"{made.__name__} changes what torch's functions do, and a graph has none"
            fix = "give the device to each function: `torch.ones(3, device=...)`"
            raise ScriptError(message, where, code="script-wrong-type", fix=fix)


_IN_PLACE: Final = {
    "+": "aten::add_", "-": "aten::sub_", "*": "aten::mul_", "/": "aten::div_",
    "//": "aten::floor_divide_", "%": "aten::remainder_", "**": "aten::pow_",
    "&": "aten::__iand__", "|": "aten::__ior__", "^": "aten::__ixor__",
    "<<": "aten::__ilshift__", ">>": "aten::__irshift__",
}  # fmt: skip


def _leaves_loop(body: Sequence[t.Stmt]) -> t.Stmt | None:
    """Return a `break` or `continue` of the loop that these statements are the body of."""
    for statement in body:
        if isinstance(statement, t.Break | t.Continue):
            return statement
        inner = [*getattr(statement, "body", ()), *getattr(statement, "orelse", ())]
        if not isinstance(statement, t.While | t.For) and (found := _leaves_loop(inner)):
            return found
    return None
