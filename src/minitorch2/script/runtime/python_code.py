"""Graphs as Python functions: the fast form in which they run.

    %c = aten::add(%a, %b)                  ->  c = a + b
    prim::If                                ->  if c: ...; y = a
                                                else: ...; y = b        or  a if c else b
    prim::Loop(n, True)                     ->  for i in range(n): ...
    prim::Loop(most, go)                    ->  if go:
                                                    while True: ...
                                                        if not go: break
    %y = prim::bailout[Subgraph=G](%x, %l)  ->  if not fits(x): return bailout(x, l)

A value with one use is written where it is used, if that keeps the order of evaluation. Each node
has the line and the columns of the user's program, so that tracebacks and debuggers show these.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final

import torch

from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.ir.types import BOOL, FLOAT, INT, STR, TupleType, Type
from minitorch2.script.runtime.meanings import (
    Makers,
    abandon_context,
    call_of,
    end_context,
    later,
    set_grad_enabled,
)
from minitorch2.script.runtime.templates import template_of
from minitorch2.script.runtime.tensor_checks import check_text
from minitorch2.script.runtime.variables import Variables
from minitorch2.script.syntax.source import NOWHERE, SourceRange

MOST_TRIPS: Final = 2**63 - 1
_DEEPEST: Final = 30
_CHANGES: Final = frozenset({"aten::append", "aten::_set_item"})
_UNPACKS: Final = frozenset({"prim::TupleUnpack", "prim::ListUnpack"})
_INLINE: Final = (int, float, bool, str, type(None))
_EMPTY: Final[dict[Type, Any]] = {INT: 0, FLOAT: 0.0, BOOL: False, STR: ""}


def compile_graph(
    graph: Graph, *, keeps_names: bool = False, makers: Makers | None = None
) -> Callable[..., Any]:
    """Return a graph as a Python function of its inputs.

    A graph without outputs gives None, one with several gives a tuple.

    Args:
        graph: in static single assignment form, without exits.
        keeps_names: each value that the user named is a variable, which debuggers can show.
        makers: makes functions of the graphs in it; if it is left out, as of this one.
    """
    writer = _Writer(graph, makers or PLAIN, keeps_names=keeps_names)
    code = compile(writer.module(), writer.file, "exec")
    exec(code, writer.globals)
    function: FunctionType = writer.globals[writer.name]
    return function


def text_of(graph: Graph) -> str:
    """Return the Python text of a graph's fast form, for a reader."""
    return ast.unparse(_Writer(graph, PLAIN, keeps_names=False).module())


PLAIN: Final = Makers(compile_graph, compile_graph, compile_graph)
"""Compiles all graphs in a graph as the graph itself."""


@dataclass
class _Pending:
    """An expression that is not written yet: its only reader follows."""

    value: Value
    expression: ast.expr
    depth: int


class _Writer:
    def __init__(self, graph: Graph, makers: Makers, *, keeps_names: bool) -> None:
        self.graph = graph
        self.makers = makers
        self.keeps_names = keeps_names
        self.variables = Variables(graph)
        self.globals: dict[str, Any] = {}
        self.name = self.variables.fresh(graph.name)
        ranges = [node.range for node in graph.nodes() if node.range is not NOWHERE]
        self.file = ranges[0].file.name if ranges else "<script>"
        self._range = next((r for r in ranges if r.file.name == self.file), NOWHERE)
        self._first_line = self._range.file.first_line
        self._bound: dict[int, str] = {}
        self._pending: list[_Pending] = []
        self._statements: list[ast.stmt] = []
        self._entered: dict[Value, tuple[list[ast.stmt], int]] = {}
        self._depth = 0

    # -- the function ---------------------------------------------------------------------------

    def module(self) -> ast.Module:
        names = [ast.arg(self.variables[value]) for value in self.graph.inputs]
        arguments = ast.arguments([], names, None, [], [], None, [])
        body, results = self._scope(self.graph.block)
        body.append(self._placed(ast.Return(self._result(results))))
        if any(node.kind == "prim::SetGradEnabled" for node in self.graph.nodes()):
            body = self._with_mode_restored(body)
        function = ast.FunctionDef(self.name, arguments, body, [], None)
        function.lineno = function.end_lineno = self._first_line
        module = ast.Module([function], [])
        return ast.fix_missing_locations(module)

    def _with_mode_restored(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return the body such that an error leaves the grad mode as it was at the start."""
        mode = self.variables.fresh("mode")
        now = ast.Call(self._global("is_grad_enabled", torch.is_grad_enabled), [], [])
        restore = self._global("set_grad_enabled", set_grad_enabled)
        back = ast.Expr(ast.Call(restore, [ast.Name(mode, ast.Load())], []))
        handler = ast.ExceptHandler(None, None, [back, ast.Raise()])
        start = ast.Assign([ast.Name(mode, ast.Store())], now)
        return [self._placed(start), self._placed(ast.Try(body, [handler], [], []))]

    def _result(self, results: list[ast.expr]) -> ast.expr | None:
        if len(results) == 1:
            return results[0]
        return ast.Tuple(results, ast.Load()) if results else None

    def _scope(self, block: Block) -> tuple[list[ast.stmt], list[ast.expr]]:
        """Return the statements of a block, and the expressions of its outputs."""
        outside = self._pending, self._statements
        self._pending, self._statements = [], []
        for node in block.nodes:
            self._node(node)
        results = self._take(block.outputs)
        self._flush()
        statements = self._statements
        self._pending, self._statements = outside
        return statements, results

    def _node(self, node: Node) -> None:
        if node.range.file.name == self.file:
            self._range = node.range
        if node.kind in ("prim::Constant", "prim::Uninitialized"):
            return
        if node.kind == "prim::If":
            self._if(node)
        elif node.kind == "prim::Loop":
            self._loop(node)
        elif node.kind == "prim::bailout":
            self._bailout(node)
        elif node.kind == "prim::Enter":
            self._enter(node)
        elif node.kind == "prim::Exit":
            self._exit(node)
        elif node.kind in _CHANGES and not any(value.uses for value in node.outputs):
            self._change(node)
        else:
            self._give(node, self._expression(node, self._take(node.inputs)))

    # -- expressions ----------------------------------------------------------------------------

    def _take(self, values: Iterable[Value]) -> list[ast.expr]:
        """Return expressions of values; those that wait are used up, if the order allows it."""
        values = list(values)
        waiting = {pending.value for pending in self._pending}
        wanted = [value for value in values if value in waiting]
        start = len(self._pending) - len(wanted)
        if [pending.value for pending in self._pending[start:]] != wanted:
            self._flush()
            start = len(self._pending)
        taken = {pending.value: pending for pending in self._pending[start:]}
        del self._pending[start:]
        self._depth = max((pending.depth for pending in taken.values()), default=0)
        return [taken[v].expression if v in taken else self._read(v) for v in values]

    def _read(self, value: Value) -> ast.expr:
        if value.node.kind == "prim::Uninitialized":
            return ast.Constant(_EMPTY.get(value.type))
        if value.node.kind == "prim::Constant":
            constant = value.constant()
            if type(constant) in _INLINE:
                return ast.Constant(constant)
            return self._global(value.name or "constant", constant)
        return ast.Name(self.variables[value], ast.Load())

    def _global(self, name: str, found: Any) -> ast.Name:
        """Return the name of an object that the function refers to."""
        if getattr(builtins, name, None) is found and name not in self.variables:
            return ast.Name(name, ast.Load())
        if id(found) not in self._bound:
            self._bound[id(found)] = self.variables.fresh(name)
            self.globals[self._bound[id(found)]] = found
        return ast.Name(self._bound[id(found)], ast.Load())

    def _expression(self, node: Node, args: list[ast.expr]) -> ast.expr:
        if node.kind == "prim::TupleConstruct" and not _has_fields(node.output.type):
            return ast.Tuple(args, ast.Load())
        if node.kind == "prim::ListConstruct":
            return ast.List(args, ast.Load())
        if node.kind == "prim::GetAttr":
            return ast.Attribute(args[0], node.attributes["name"], ast.Load())
        if node.kind in _UNPACKS or node.kind == "prim::unchecked_cast":
            return args[0]
        template = template_of(node)
        if template is not None:
            return template(args)
        call = call_of(node, self.makers)
        keywords = [ast.keyword(name, args[k]) for name, k in call.keywords]
        name = node.kind.replace("::", "_")
        return ast.Call(
            self._global(name, call.function), [args[k] for k in call.positional], keywords
        )

    def _placed(self, tree: Any, where: SourceRange | None = None) -> Any:
        """Give new nodes of a tree the present line and columns; return the tree."""
        where = where or self._range
        end = SourceRange(where.file, where.end, where.end)
        place = {"lineno": where.line, "col_offset": where.column}
        place |= {"end_lineno": end.line, "end_col_offset": end.column}
        stack = [tree]
        while stack:
            item = stack.pop()
            if not hasattr(item, "lineno"):
                vars(item).update(place)
                stack.extend(ast.iter_child_nodes(item))
        return tree

    # -- statements -----------------------------------------------------------------------------

    def _give(self, node: Node, expression: ast.expr) -> None:
        """Let an expression wait for its only reader, or write it down."""
        self._placed(expression)
        is_value = len(node.outputs) == 1 and node.kind not in _UNPACKS
        if is_value and self._may_wait(node.output) and self._depth < _DEEPEST:
            self._pending.append(_Pending(node.output, expression, self._depth + 1))
            return
        if not any(value.uses for value in node.outputs):
            if not isinstance(expression, (ast.Name, ast.Constant)):
                self._write(ast.Expr(expression))
        elif is_value:
            self._assign([node.output], [expression])
        else:
            names: list[ast.expr] = [self._target(value) for value in node.outputs]
            self._write(ast.Assign([ast.List(names, ast.Store())], expression))

    def _change(self, node: Node) -> None:
        """Write a change of a list or a dictionary as Python does: nothing reads its result."""
        target, *args = self._take(node.inputs)
        if node.kind == "aten::append":
            self._write(ast.Expr(ast.Call(ast.Attribute(target, "append", ast.Load()), args, [])))
        else:
            place = ast.Subscript(target, args[0], ast.Store())
            self._write(ast.Assign([place], args[1]))

    def _may_wait(self, value: Value) -> bool:
        uses = value.uses
        if len(uses) != 1 or uses[0].user.block is not value.node.block:
            return False
        return not (self.keeps_names and value.name and not value.name[0].isdigit())

    def _write(self, *statements: ast.stmt) -> None:
        self._flush()
        self._statements += [self._placed(statement) for statement in statements]

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        for item in pending:
            target = self._placed(self._target(item.value))
            self._statements.append(self._placed(ast.Assign([target], item.expression)))

    def _target(self, value: Value) -> ast.Name:
        return ast.Name(self.variables[value], ast.Store())

    def _assign(self, values: Sequence[Value], expressions: Sequence[ast.expr]) -> None:
        self._write(*self._assignments([self.variables[v] for v in values], expressions))

    def _assignments(self, names: Sequence[str], expressions: Sequence[ast.expr]) -> list[ast.stmt]:
        """Return statements that assign all at once, in order."""
        pairs = [
            (name, expression)
            for name, expression in zip(names, expressions, strict=True)
            if not (isinstance(expression, ast.Name) and expression.id == name)
        ]
        targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name, _ in pairs]
        written: set[str] = set()
        for name, expression in pairs:
            if written & _names_in(expression):
                left = ast.Tuple(targets, ast.Store())
                right = ast.Tuple([e for _, e in pairs], ast.Load())
                return [self._placed(ast.Assign([left], right))]
            written.add(name)
        return [
            self._placed(ast.Assign([target], expression))
            for target, (_, expression) in zip(targets, pairs, strict=True)
        ]

    # -- control flow ---------------------------------------------------------------------------

    def _if(self, node: Node) -> None:
        where = self._range
        (condition,) = self._take(node.inputs)
        depth = self._depth
        (then, given), (otherwise, other) = (self._scope(block) for block in node.blocks)
        self._range = where
        if len(given) == 1 and not then and not otherwise:
            self._depth = depth + 5
            self._give(node, _choice(condition, given[0], other[0]))
            return
        names = [self.variables[value] for value in node.outputs]
        then += self._assignments(names, given)
        otherwise += self._assignments(names, other)
        if not then:
            condition, then, otherwise = ast.UnaryOp(ast.Not(), condition), otherwise, []
        self._write(ast.If(condition, then or [ast.Pass()], otherwise))

    def _loop(self, node: Node) -> None:
        where = self._range
        (body,) = node.blocks
        most, first, *initial = self._take(node.inputs)
        controls = [most, first]
        carried = [self.variables[value] for value in node.outputs]
        names, values = carried, initial
        if self._assignments(carried, initial):
            for position, control in enumerate(controls):
                if isinstance(control, ast.Constant) or not _names_in(control) & {*carried}:
                    continue
                name = self.variables.fresh("go")
                names, values = [*names, name], [*values, control]
                controls[position] = ast.Name(name, ast.Load())
        before = self._assignments(names, values)
        inner, (again, *results) = self._scope(body)
        self._range = where
        inner += self._step(carried, again, results)
        self._write(*before, self._repeat(node, controls, inner))

    def _step(self, carried: list[str], again: ast.expr, results: list[ast.expr]) -> list[ast.stmt]:
        """Return the end of a loop's body: the next carried values, and whether to go on."""
        if isinstance(again, ast.Constant) and again.value is True:
            return self._assignments(carried, results)
        assignments = self._assignments(carried, results)
        if assignments:
            go = self.variables.fresh("go")
            assignments = self._assignments([go, *carried], [again, *results])
            again = ast.Name(go, ast.Load())
        stop = ast.If(ast.UnaryOp(ast.Not(), again), [ast.Break()], [])
        return [*assignments, self._placed(stop)]

    def _repeat(self, node: Node, controls: list[ast.expr], body: list[ast.stmt]) -> ast.stmt:
        most, first = controls
        trip = node.blocks[0].inputs[0]
        loop: ast.stmt
        if node.constant(0) == MOST_TRIPS and not trip.uses:
            loop = ast.While(ast.Constant(True), body or [ast.Pass()], [])
        else:
            times = ast.Call(ast.Name("range", ast.Load()), [most], [])
            loop = ast.For(self._target(trip), times, body or [ast.Pass()], [])
        if isinstance(first, ast.Constant) and first.value is True:
            return loop
        return ast.If(first, [self._placed(loop)], [])

    def _bailout(self, node: Node) -> None:
        live = self._take(node.inputs)
        self._flush()
        rest = self._global("bailout", later(node.attributes["Subgraph"], self.makers.rest))
        checks: list[ast.expr] = []
        for place, output in enumerate(node.outputs):
            live[place] = tensor = self._named(live[place], output)
            check, facts = check_text(tensor.id, output.type, node.inputs[place].type)
            named = {name: self._global(name, fact).id for name, fact in facts.items()}
            checks.append(ast.parse(check.format(**named), mode="eval").body)
        fits = checks[0] if len(checks) == 1 else ast.BoolOp(ast.And(), checks)
        leave = ast.Return(ast.Call(rest, list(live), []))
        self._write(ast.If(ast.UnaryOp(ast.Not(), fits), [leave], []))
        self._assign(node.outputs, live[: len(node.outputs)])

    def _named(self, expression: ast.expr, checked: Value) -> ast.Name:
        """Return the name of a tensor that is to be checked; give it one if it has none."""
        if isinstance(expression, ast.Name):
            return expression
        alone = len(checked.node.outputs) == 1  # else the variable may hold what is read next
        name = self.variables[checked] if alone else self.variables.fresh(checked.name)
        self._write(*self._assignments([name], [expression]))
        return ast.Name(name, ast.Load())

    def _enter(self, node: Node) -> None:
        """Begin what `prim::Exit` of the same object ends, with an error, too."""
        (context,) = self._take(node.inputs)
        call = ast.Call(ast.Attribute(context, "__enter__", ast.Load()), [], [])
        self._give(node, call)
        self._flush()
        self._entered[node.inputs[0]] = self._statements, len(self._statements)

    def _exit(self, node: Node) -> None:
        (context,) = self._take(node.inputs)
        self._flush()
        end = self._global("end_context", end_context)
        outside, start = self._entered.get(node.inputs[0], (None, 0))
        if outside is self._statements and len(outside) > start:
            body = outside[start:]
            abandon = self._global("abandon_context", abandon_context)
            failed = ast.Expr(ast.Call(abandon, [context], []))
            handler = ast.ExceptHandler(None, None, [failed, ast.Raise()])
            outside[start:] = [self._placed(ast.Try(body, [handler], [], []))]
        self._give(node, ast.Call(end, [context], []))


def _names_in(expression: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _choice(condition: ast.expr, then: ast.expr, otherwise: ast.expr) -> ast.expr:
    """Return ``then if condition else otherwise``, or the shorter form of it."""
    constants = [e.value if isinstance(e, ast.Constant) else ... for e in (then, otherwise)]
    if constants[1] is False and constants[0] is not True:
        return ast.BoolOp(ast.And(), [condition, then])
    if constants[0] is True and constants[1] is not False:
        return ast.BoolOp(ast.Or(), [condition, otherwise])
    if constants[0] is False and constants[1] is True:  # 0.0 and 1.0 equal them
        return ast.UnaryOp(ast.Not(), condition)
    return ast.IfExp(condition, then, otherwise)


def _has_fields(made: Type) -> bool:
    """Tell whether a type is that of a NamedTuple."""
    return isinstance(made, TupleType) and made.names is not None
