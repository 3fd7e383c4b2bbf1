"""Modes that decide what operators mean: gradients on or off, and autocast."""

from __future__ import annotations

import torch

from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.types import BOOL, type_of
from minitorch2.script.tracing.graph_writer import GraphWriter


def autocast_state() -> tuple[bool, bool]:
    """Return whether operators are cast on the CPU, and on CUDA."""
    return torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")


class Modes:
    """Notes changes of modes between operators, and puts them into the graph."""

    def __init__(self, writer: GraphWriter, *, ambient_grad: bool) -> None:
        self.writer = writer
        self._ambient_grad = self._grad = ambient_grad
        self._ambient_value: Value | None = None
        self._autocast: tuple[bool, bool] | None = autocast_state()

    def note(self) -> None:
        """Put what has changed since the last operator into the graph."""
        self._set_grad(torch.is_grad_enabled())
        self._note_autocast()

    def end(self) -> None:
        """Give the caller's grad mode back, at the end of the graph."""
        self._set_grad(self._ambient_grad)

    def _set_grad(self, wanted: bool) -> None:
        writer = self.writer
        if wanted == self._grad:
            return
        is_ambient = wanted == self._ambient_grad and self._ambient_value is not None
        value = self._ambient_value if is_ambient else writer.constant(wanted)
        assert value is not None
        node = writer.graph.create(
            "prim::SetGradEnabled", [value], [BOOL], range=writer.places.now()
        )
        before = writer.graph.insert(node).output
        self._ambient_value = self._ambient_value or before
        self._grad = wanted

    def _note_autocast(self) -> None:
        """Let the graph check the caller's autocast where it, or the function, casts operators.

        The casts are in the graph; the caller's autocast must not add others.
        """
        writer, state = self.writer, autocast_state()
        if self._autocast is not None and (any(state) or state != self._autocast):
            ambient, self._autocast = self._autocast, None

            def is_same() -> Value:
                node = writer.graph.create("prim::PythonOp", (), [type_of(ambient)])
                node.attributes["function"] = autocast_state
                return writer.equal(writer.graph.insert(node).output, ambient)

            writer.check(is_same, f"autocast on the CPU and on CUDA is {ambient}", at_entry=True)
