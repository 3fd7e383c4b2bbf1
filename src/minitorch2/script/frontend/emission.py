"""The state of one function while it becomes a graph, and the interface of its sugared values.

`Emission` owns the graph and the environment. A `SugaredValue` is anything that an expression can
be. Most kinds of it, such as modules of Python, have no value in the graph (TorchScript overview,
SugaredValue).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

from minitorch2.script.frontend.environment import Environment, Frame, Variable
from minitorch2.script.frontend.resolver import Resolver
from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.ir.python_constants import PythonConstant, PythonConstants
from minitorch2.script.ir.types import BOOL, INT, NONE, TupleType, Type
from minitorch2.script.operators.match import emit_operator
from minitorch2.script.operators.registry import operator_of
from minitorch2.script.operators.schema import FunctionSchema
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange

UNKNOWN: Final = object()
"""`SugaredValue.constant` of what is not known before the function runs."""


class Callee(Protocol):
    """A compiled function: what ``prim::CallFunction`` calls."""

    @property
    def name(self) -> str:
        """Qualified name."""

    @property
    def schema(self) -> FunctionSchema:
        """Parameters and results."""

    @property
    def constants(self) -> tuple[PythonConstant, ...]:
        """The values that the function reads of Python objects."""


@dataclass
class Arguments:
    """Arguments of a call, stars expanded.

    Attributes:
        is_open: the last positional argument is a list of all further ones.
    """

    positional: list[SugaredValue] = field(default_factory=list)
    keywords: dict[str, SugaredValue] = field(default_factory=dict)
    is_open: bool = False

    def all(self) -> list[SugaredValue]:
        """Return the arguments, those with keywords last."""
        return [*self.positional, *self.keywords.values()]

    def values(
        self, emission: Emission, where: SourceRange
    ) -> tuple[list[Value], dict[str, Value]]:
        """Return the arguments as values of the graph, in order and by name."""
        positional = [given.as_value(emission, where) for given in self.positional]
        named = {name: given.as_value(emission, where) for name, given in self.keywords.items()}
        return positional, named


@dataclass(frozen=True)
class Iteration:
    """How to loop over a value: how often, and the element at an index of type int."""

    trips: Value
    element: Callable[[Value], SugaredValue]


class SugaredValue:
    """Anything that an expression can be while a function is compiled.

    Each method takes the emission that asks, and the range of the expression that asks; a method
    that a kind of value does not have raises `ScriptError`.
    """

    first_class = False
    """The value can be stored, passed and returned: it has a value in the graph."""

    is_module = False
    """The value is a module: containers of such values are no values of the graph."""

    def describe(self) -> str:
        """Return what errors call the value, with an article."""
        return f"a {type(self).__name__}"

    def constant(self) -> Any:
        """Return the Python object that the value surely is, or `UNKNOWN`."""
        return UNKNOWN

    def as_value(self, emission: Emission, where: SourceRange) -> Value:
        """Return the value in the graph."""
        raise self.refuse("cannot be used as a value", where, code="script-not-a-value")

    def has_attr(self, name: str) -> bool:
        """Tell whether `hasattr` gives True."""
        return False

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        """Return the attribute `name`."""
        raise self.refuse(f"has no attribute {name}", where, code="script-no-attribute")

    def set_attr(
        self, emission: Emission, name: str, value: SugaredValue, where: SourceRange
    ) -> None:
        """Set the attribute `name`."""
        raise self.refuse(
            f"has no attribute {name} that can be set", where, code="script-no-attribute"
        )

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        """Return the result of a call."""
        raise self.refuse("cannot be called", where, code="script-not-callable")

    def items(self, emission: Emission, where: SourceRange) -> list[SugaredValue] | None:
        """Return the elements, if their number is known; loops over them are unrolled."""
        return None

    def iteration(self, emission: Emission, where: SourceRange) -> Iteration:
        """Return how a loop that is not unrolled goes over the value."""
        raise self.refuse("cannot be iterated over", where, code="script-not-iterable")

    def get_item(self, emission: Emission, index: SugaredValue, where: SourceRange) -> SugaredValue:
        """Return the element at an index or a key."""
        raise self.refuse("has no elements", where, code="script-not-subscriptable")

    def length(self, emission: Emission, where: SourceRange) -> SugaredValue:
        """Return what `len` gives."""
        raise self.refuse("has no length", where, code="script-no-length")

    def refuse(
        self, what: str, where: SourceRange, *, code: str, fix: str | None = None
    ) -> ScriptError:
        """Return the error for something that this value cannot do."""
        return ScriptError(f"{self.describe()} {what}", where, code=code, fix=fix)


@dataclass
class Loop:
    """A loop that is being emitted: the types of names where an iteration may end."""

    ends: list[dict[str, Variable]] = field(default_factory=list)


class Emission:
    """The state of compiling one function, and the elementary steps.

    Args:
        graph: where nodes go, at its insertion point.
        resolver: knows the names that the function does not set.
        compiler: compiles another function for a call, given its object, values of parameters,
            whose types count where there is no annotation, sugared values of the others, and
            arguments that are None or a bool.
    """

    def __init__(self, graph: Graph, resolver: Resolver, compiler: Compiler) -> None:
        self.graph = graph
        self.resolver = resolver
        self.compiler = compiler
        self.constants = PythonConstants()
        self.environment: Environment[SugaredValue] = Environment()
        self.returns: list[Node] = []
        self.return_type: Type | None = None
        self.loops: list[Loop] = []

    # -- nodes --------------------------------------------------------------------------------

    def node(
        self,
        kind: str,
        inputs: Sequence[Value],
        outputs: Sequence[Type],
        where: SourceRange,
        **attributes: Any,
    ) -> Node:
        """Insert a node that has no schema."""
        node = self.graph.create(kind, inputs, outputs, range=where)
        node.attributes.update(attributes)
        return self.graph.insert(node)

    def emit(
        self,
        kind: str,
        arguments: Sequence[Value],
        where: SourceRange,
        keywords: Mapping[str, Value] | None = None,
    ) -> Value:
        """Insert a call of an operator; several results come as a tuple, and none as None."""
        results = emit_operator(self.graph, kind, arguments, keywords or {}, where)
        if len(results) == 1:
            return results[0]
        return self._result_tuple(results, where) if results else self.constant(None, where)

    def _result_tuple(self, results: Sequence[Value], where: SourceRange) -> Value:
        """Return several results as a tuple; results that have names keep them as its fields."""
        node = results[0].node
        found = operator_of(node)
        names = tuple(result.name for result in found.schema.returns) if found else ()
        value = self.tuple(results, where)
        if all(names) and len(names) == len(results):
            types = tuple(result.type for result in results)
            value.type = TupleType(types, names, node.kind.partition("::")[2])
        return value

    def constant(self, value: Any, where: SourceRange, type: Type | None = None) -> Value:
        """Insert a constant."""
        return self.graph.constant(value, type=type, range=where)

    def tuple(self, values: Sequence[Value], where: SourceRange) -> Value:
        """Insert the construction of a tuple."""
        type_ = TupleType(tuple(value.type for value in values))
        return self.node("prim::TupleConstruct", values, (type_,), where).output

    def cast(self, value: Value, type: Type, where: SourceRange) -> Value:
        """Give a value a wider or a narrower type; nothing happens when the graph runs."""
        if value.type == type:
            return value
        if NONE in (value.type, type):
            return self.constant(None, where, type)
        return self.node("prim::unchecked_cast", (value,), (type,), where).output

    def if_node(self, condition: Value, where: SourceRange) -> Node:
        """Insert an if with two empty blocks."""
        node = self.node("prim::If", (condition,), (), where)
        node.add_block()
        node.add_block()
        return node

    def loop_node(self, trips: Value, where: SourceRange) -> Node:
        """Insert a loop with an empty body, whose input is the index, and an empty condition."""
        node = self.node("prim::Loop", (trips,), (), where)
        node.add_block().add_input("i", INT)
        node.add_block()
        return node

    @contextmanager
    def inside(self, block: Block, *, repeats: bool = False) -> Iterator[Frame[SugaredValue]]:
        """Emit into a block, which a loop may repeat, with a frame of names of its own."""
        frame: Frame[SugaredValue] = Frame(repeats=repeats)
        self.environment.frames.append(frame)
        try:
            with self.graph.inserting_at_end(block):
                yield frame
        finally:
            self.environment.frames.pop()

    # -- names --------------------------------------------------------------------------------

    def store(
        self,
        name: str,
        value: Value,
        where: SourceRange,
        declared: Type | None = None,
        known: bool | Enum | None = None,
    ) -> None:
        """Give a name a value in the graph, which may be a known bool or member."""
        old = self.environment.variable(name)
        declared = declared or (old.declared if old else None)
        self.node("prim::Store", (value,), (), where, name=name)
        self.environment.set_variable(name, Variable(value.type, where, declared, known))

    def load(self, name: str, variable: Variable, where: SourceRange) -> Value:
        """Return the value that a name has here."""
        value = self.node("prim::Load", (), (variable.type,), where, name=name).output
        value.name = name
        return value

    def truth(self, known: bool, where: SourceRange) -> Value:
        """Insert a constant of type bool."""
        return self.constant(known, where, BOOL)


class Compiler(Protocol):
    """Compiles a function that is called; raises `ScriptError`."""

    def __call__(
        self,
        function: Any,
        values: Mapping[str, Value],
        fixed: Mapping[str, SugaredValue],
        known: Mapping[str, bool | Enum | None],
        where: SourceRange,
    ) -> Callee: ...
