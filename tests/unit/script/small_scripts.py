"""Functions of ints as graphs that store and load names, and a machine that runs them.

The steps to SSA form are tested with it alone, without types, overloads and sugared values.
"""

import operator

from minitorch2.script.frontend.exit_transform import exit_transform
from minitorch2.script.frontend.to_ssa import to_ssa
from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.types import BOOL, INT
from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.parser import parse_function
from minitorch2.script.syntax.source import SourceFile

OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "%": operator.mod,
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne, "not": operator.not_,
}  # fmt: skip
MOST_TRIPS = 2**63 - 1
UNSET = object()


class Emitter:
    """Writes the graph of a function: ints, control flow, `log(x)`, `with enter(x)` and `raise`."""

    def __init__(self, definition):
        self.graph = Graph(definition.name)
        for parameter in definition.parameters:
            self.store(parameter.name, self.graph.add_input(parameter.name, INT))
        self.body(definition.body)

    def node(self, kind, inputs=(), outputs=(), **attributes):
        node = self.graph.insert(self.graph.create(kind, inputs, outputs))
        node.attributes.update(attributes)
        return node

    def store(self, name, value):
        self.node("prim::Store", [value], name=name)

    def block(self, node, emit, *arguments):
        with self.graph.inserting_at_end(block := node.add_block()):
            value = emit(*arguments)
            if value is not None:
                block.add_output(value)

    def body(self, statements):
        for statement in statements:
            self.statement(statement)

    def statement(self, statement):
        match statement:
            case t.Assign((t.Name(name),), value, _):
                self.store(name, self.value(value))
            case t.If(condition, body, orelse):
                node = self.node("prim::If", [self.value(condition)])
                self.block(node, self.body, body)
                self.block(node, self.body, orelse)
            case t.While(condition, body):
                self.loop(self.graph.constant(MOST_TRIPS), condition, body)
            case t.For(t.Name(name), t.Call(_, (trips,), _), body):
                true = t.Constant(True, range=statement.range)
                self.loop(self.value(trips), true, body, name)
            case t.Return(value):
                self.node("prim::Return", [self.value(value)])
            case t.Break() | t.Continue():
                self.node(f"prim::{type(statement).__name__}")
            case t.Raise():
                self.node("prim::RaiseException", [self.graph.constant("raised")])
            case t.With(items, body):
                contexts = [self.value(item.context.arguments[0]) for item in items]
                for context in contexts:
                    self.node("prim::Enter", [context], [INT])
                self.body(body)
                for context in reversed(contexts):
                    self.node("prim::Exit", [context], [INT])
            case t.ExpressionStatement(value):
                self.value(value)

    def loop(self, trips, condition, body, name=None):
        node = self.node("prim::Loop", [trips])
        self.block(node, self.body_of_loop, node, body, name)
        self.block(node, self.value, condition)

    def body_of_loop(self, node, body, name):
        index = node.blocks[0].add_input("i", INT)
        if name is not None:
            self.store(name, index)
        self.body(body)

    def value(self, expression):
        match expression:
            case t.Name(name):
                return self.node("prim::Load", (), [INT], name=name).output
            case t.Constant(value):
                return self.graph.constant(value)
            case t.Unary(op, operand):
                return self.node("test::op", [self.value(operand)], [BOOL], op=op).output
            case t.Binary(op, left, right):
                return self.node("test::op", map(self.value, (left, right)), [INT], op=op).output
            case t.Compare(left, ((op, right),)):
                return self.node("test::op", map(self.value, (left, right)), [BOOL], op=op).output
            case t.Logical(op, left, right):
                known = t.Constant(op == "or", range=expression.range)
                branches = (right, known) if op == "and" else (known, right)
                return self.choice(left, *branches, BOOL)
            case t.Conditional(condition, then, otherwise):
                return self.choice(condition, then, otherwise, INT)
            case t.Call(t.Name("log"), (value,), _):
                return self.node("test::log", [self.value(value)], [INT]).output
        raise TypeError(expression)

    def choice(self, condition, then, otherwise, type):
        node = self.node("prim::If", [self.value(condition)], [type])
        self.block(node, self.value, then)
        self.block(node, self.value, otherwise)
        return node.output


def graph_of(text):
    """Return the graph of a function's text in SSA form, without exits."""
    graph = Emitter(parse_function(SourceFile(text, "small.py"))).graph
    to_ssa(graph)
    exit_transform(graph)
    check(graph.block, set())
    return graph


def check(block, known):
    """Check that values are defined before they are used, and the arities of control flow."""
    known = known | set(block.inputs)
    for node in block.nodes:
        assert set(node.inputs) <= known, node
        for inner in node.blocks:
            check(inner, known)
        if node.kind == "prim::If":
            assert [len(inner.outputs) for inner in node.blocks] == [len(node.outputs)] * 2
        if node.kind == "prim::Loop":
            (body,) = node.blocks
            assert len(node.inputs) - 1 == len(body.inputs) == len(body.outputs)
            assert len(body.outputs) == len(node.outputs) + 1
        known |= set(node.outputs)
    assert set(block.outputs) <= known


class Machine:
    """Runs a graph; `log` has what it did, in order."""

    def __init__(self):
        self.values, self.log = {}, []

    def call(self, graph, *arguments):
        self.values.update(zip(graph.inputs, arguments))
        (result,) = self.run(graph.block)
        return result

    def run(self, block):
        for node in block.nodes:
            given = [self.values[value] for value in node.inputs]
            self.values.update(zip(node.outputs, self.results(node, given)))
        return [self.values[value] for value in block.outputs]

    def results(self, node, given):
        match node.kind:
            case "prim::Constant":
                return [node.attributes["value"]]
            case "prim::Uninitialized":
                return [UNSET]
            case "prim::RaiseException":
                raise RuntimeError(*given)
            case "prim::If":
                assert isinstance(given[0], bool)
                return self.run(node.blocks[not given[0]])
            case "prim::Loop":
                return self.loop(node.blocks[0], *given)
            case "test::op":
                assert UNSET not in given
                return [OPERATORS[node.attributes["op"]](*given)]
            case "test::log" | "prim::Enter" | "prim::Exit":
                self.log.append((node.kind, *given))
                return given
        raise TypeError(node.kind)

    def loop(self, body, trips, go, *carried):
        index = 0
        while go and index < trips:
            self.values.update(zip(body.inputs, [index, *carried]))
            go, *carried = self.run(body)
            index += 1
        return carried


class Python:
    """What CPython does with the same text; `log` as in `Machine`."""

    def __init__(self):
        self.log = []

    def call(self, text, *arguments):
        names = {"log": lambda value: self.log.append(("test::log", value)), "enter": self.entered}
        exec(text, names)
        return names["f"](*arguments)

    def entered(self, value):
        return Entered(self, value)


class Entered:
    def __init__(self, python, value):
        self.python, self.value = python, value

    def __enter__(self):
        self.python.log.append(("prim::Enter", self.value))

    def __exit__(self, kind, *_):
        if kind is None:
            self.python.log.append(("prim::Exit", self.value))


def outcome(runner, *arguments):
    """Return the result or the exception, and the log."""
    try:
        return runner.call(*arguments), runner.log
    except RuntimeError as error:
        return error.args, runner.log


def assert_as_python(text, calls):
    """The graph and CPython agree for each call; return the graph."""
    graph = graph_of(text)
    for call in calls:
        assert outcome(Machine(), graph, *call) == outcome(Python(), text, *call), text
    return graph
