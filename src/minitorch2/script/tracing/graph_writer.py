"""The graph of a trace while it grows: values for tensors and numbers, checks, constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch

from minitorch2.errors import TraceError
from minitorch2.script.ir.graph import Graph, Value
from minitorch2.script.ir.types import BOOL, INT, NUMBER, TENSOR, TupleType, Type, type_of
from minitorch2.script.syntax.source import SourceRange
from minitorch2.script.tracing.assumptions import raise_unless
from minitorch2.script.tracing.places import Places
from minitorch2.script.tracing.traced_tensor import TracedTensor

SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)


class GraphWriter:
    """Puts values, nodes and checks into a graph, at its entry or where the trace is now.

    Attributes:
        graph: the graph, complete up to the operator that runs now.
        changed: ids of traced tensors whose sizes an operator has changed in place.
        plain: the tensors of the program that occur in the graph, by id.
        path_of: the attributes that lead from the traced module to a tensor, by the tensor's id.
        module_types: the types of submodules by their paths.
    """

    def __init__(self, *, checks: bool) -> None:
        self.graph = Graph()
        self.places = Places()
        self.checks = checks
        self.changed: set[int] = set()
        self.plain: dict[int, tuple[torch.Tensor, Value]] = {}
        self.path_of: dict[int, str] = {}
        self.self_value: Value | None = None
        self.module_types: Mapping[str, Type] = {}
        self._kept: list[TracedTensor] = []
        self._inputs: set[int] = set()
        self._attributes: dict[str, Value] = {}
        self._constants: dict[Any, Value] = {}
        self._entry = self.graph.insert(self.graph.create("prim::Constant", (), 0))

    def end(self) -> None:
        """Complete the graph."""
        self._entry.destroy()

    @contextmanager
    def inserting(self, *, at_entry: bool) -> Iterator[None]:
        """Let new nodes come at the entry of the graph, or where the trace is now."""
        at = self._entry if at_entry else self.graph.block.returns
        with self.graph.inserting_before(at):
            yield

    def emit(self, kind: str, *values: Value, type: Type = INT) -> Value:
        """Insert an operator with one result, and return that."""
        node = self.graph.create(kind, values, [type], range=self.places.now())
        return self.graph.insert(node).output

    def equal(self, value: Value, expected: Any) -> Value:
        """Insert a comparison with a constant."""
        return self.emit("aten::eq", value, self.constant(expected), type=BOOL)

    def constant(self, value: Any, type: Type | None = None) -> Value:
        """Return a constant of the graph; equal ones are one node, at the entry."""
        key = value.__class__, repr(value), type
        if key not in self._constants:
            with self.inserting(at_entry=True):
                self._constants[key] = self.graph.constant(value, type=type)
        return self._constants[key]

    def new_input(self, data: torch.Tensor, value: Value, source: str) -> TracedTensor:
        """Return the traced tensor of an input, or of a part of one."""
        made = self.wrap(data, value, source)
        self._inputs.add(id(made))
        return made

    def wrap(
        self, data: torch.Tensor, value: Value, source: str = "", rank_varies: bool = False
    ) -> TracedTensor:
        """Return a traced tensor; it lives as long as the recorder, which knows it by its id."""
        made = TracedTensor(data, value, source, rank_varies)
        self._kept.append(made)
        return made

    def is_input(self, tensor: TracedTensor) -> bool:
        """Return whether a traced tensor is an input of the graph."""
        return id(tensor) in self._inputs

    def value_of_tensor(self, tensor: torch.Tensor) -> Value:
        """Return the value of a traced tensor, of an attribute, or of a constant tensor."""
        if isinstance(tensor, TracedTensor):
            return tensor.value
        if id(tensor) not in self.plain:
            path = self.path_of.get(id(tensor))
            with self.inserting(at_entry=True):
                value = (
                    self.graph.constant(tensor, type=TENSOR)
                    if path is None
                    else self.attribute(path)
                )
            self.plain[id(tensor)] = tensor, value
        return self.plain[id(tensor)][1]

    def attribute(self, path: str, type: Type = TENSOR) -> Value:
        """Return the value of an attribute of the traced module, by its dotted path."""
        assert self.self_value is not None
        if path not in self._attributes:
            owner, _, name = path.rpartition(".")
            inner = self.attribute_owner(owner)
            with self.inserting(at_entry=True):
                node = self.graph.create("prim::GetAttr", [inner], [type], range=self.places.now())
                node.attributes["name"] = name
                self._attributes[path] = self.graph.insert(node).output
        return self._attributes[path]

    def attribute_owner(self, path: str) -> Value:
        """Return the value of a submodule; the module itself has the empty path."""
        assert self.self_value is not None
        return self.attribute(path, self.module_types[path]) if path else self.self_value

    def unpack(self, value: Value, count: int) -> list[Value]:
        """Return the values of a list, whose length the graph checks, or of a tuple."""
        if isinstance(value.type, TupleType):
            node = self.graph.create("prim::TupleUnpack", [value], value.type.elements)
            return list(self.graph.insert(node).outputs)
        length = self.emit("aten::len", value)
        claim = f"the operator gives {count} results"
        self.check(lambda: self.equal(length, count), claim, at_entry=False)
        element = value.type.element  # type: ignore[attr-defined]
        node = self.graph.create("prim::ListUnpack", [value], [element] * count)
        return list(self.graph.insert(node).outputs)

    # Checks ----------------------------------------------------------------------------------

    def check(
        self,
        condition: Callable[[], Value],
        claim: str,
        where: SourceRange | None = None,
        *,
        at_entry: bool,
    ) -> None:
        """Put a check into the graph; ``condition`` makes the value that it checks."""
        if self.checks:
            with self.inserting(at_entry=at_entry):
                raise_unless(self.graph, condition(), claim, where or self.places.now())

    def check_number(self, value: Value, number: Any) -> None:
        """Let the graph check a number that Python takes out of a tensor."""

        def is_same() -> Value:
            if number != number:
                return self.emit("aten::ne", value, value, type=BOOL)
            is_of_data = isinstance(number, bool) and value.type == NUMBER
            return self.equal(value, int(number) if is_of_data else number)

        self.check(is_same, f"the number is {number}", at_entry=False)

    def check_equal(self, tensor: TracedTensor, kind: str, expected: Any, claim: str) -> None:
        """Let the graph check a property of a tensor."""
        at_entry = self.is_input(tensor) and id(tensor) not in self.changed
        source = f"{tensor.source}: " if tensor.source else ""
        self.check(
            lambda: self.equal(self.emit(kind, tensor.value, type=type_of(expected)), expected),
            source + claim,
            at_entry=at_entry,
        )

    def check_training(self, path: str, expected: bool) -> None:
        """Let the graph check a flag of a module, by the flag's dotted path."""
        self.check(
            lambda: self.equal(self.attribute(path, BOOL), expected),
            f"{path} is {expected}",
            at_entry=True,
        )

    def refuse(self, cause: str, fix: str) -> TraceError:
        """Return the error for what no trace can hold, with the user's line."""
        where = self.places.now()
        line = f"{where.file.name}:{where.line}\n{where.underlined()}"
        return TraceError(
            f"{cause} while a trace is recorded", code="untraceable", fix=fix, user_line=line
        )
