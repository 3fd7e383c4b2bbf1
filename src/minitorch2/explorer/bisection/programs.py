"""A captured graph with its inputs, as a program that can be cut down, printed and captured again.

    program ::= Program(graph, inputs)     no attributes: all tensors are inputs

Sizes that varied when the graph was captured vary in each part of it, too: the inputs are marked.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from minitorch2.autograd.lift import lift_attributes
from minitorch2.errors import MinitorchError
from minitorch2.explorer.bisection.outcomes import copies_of
from minitorch2.foundation.source_lines import keep_lines
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.printer import print_python
from minitorch2.marks.dimensions import maybe_mark_dynamic

_NUMBERS = itertools.count()
_TYPES = re.compile(r"  # \(*\w+\[.*$", re.MULTILINE)
"""Comments on the types of values, which are others where inputs were made shorter."""


@dataclass
class Program:
    """A graph without attributes, and a value for each of its placeholders."""

    graph: Graph
    inputs: list[Any]

    @staticmethod
    def of(module: GraphModule, inputs: Sequence[Any]) -> Program:
        """Return a captured graph as a program: the tensors that it holds become inputs."""
        lifted, tensors = lift_attributes(module)
        return Program(lifted.graph.copy(), copies_of([*inputs, *tensors]))

    @property
    def size(self) -> int:
        """The number of operations."""
        return sum(node.op.startswith("call") for node in self.graph.nodes)

    def copy(self) -> Program:
        """Return a program with a graph of its own, and the same inputs."""
        return Program(self.graph.copy(), [*self.inputs])

    def varying(self) -> dict[int, list[int]]:
        """Return the dimensions that vary, by the number of the input."""
        found = {}
        for number, node in enumerate(self.graph.placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                sizes = [isinstance(size, torch.SymInt) for size in value.shape]
                found[number] = [dim for dim, varies in enumerate(sizes) if varies]
        return {number: dims for number, dims in found.items() if dims}

    def text(self) -> str:
        """Return the program as Python: imports, then ``def program(...)``.

        Raises:
            ValueError: a file cannot hold it, since it calls what no import reaches.
        """
        printed = print_python(self.graph)
        if printed.names:
            raise ValueError(f"no import reaches {', '.join(printed.names)}")
        text = re.sub(r"def forward\(self(, )?", "def program(", printed.text)
        return _TYPES.sub("", text)

    def function(self) -> FunctionType:
        """Return the program as a function, which can be captured.

        Raises:
            ValueError: it cannot be written as Python.
        """
        try:
            text = self.text()
        except (KeyError, MinitorchError) as error:
            raise ValueError(f"the program lacks a size: {error}") from error
        file = f"<bisected program {next(_NUMBERS)}>"
        names: dict[str, Any] = {}
        exec(compile(text, file, "exec"), names)
        found: FunctionType = names["program"]
        keep_lines(file, text, found)
        return found

    def arguments(self) -> list[Any]:
        """Return copies of the inputs, with marks on what varies."""
        made = copies_of(self.inputs)
        for number, dims in self.varying().items():
            for dim in dims:
                maybe_mark_dynamic(made[number], dim)
        return made
