"""A log of stages that turns what it hears into a store, at the moment when it happens.

The objects that stages describe change later: a schedule reorders loops, a pass rewrites a graph.
So a recorder reads them when a stage is recorded, and keeps records only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from minitorch2 import stages
from minitorch2.explorer import capture, graphs, loops
from minitorch2.explorer.making import Making, Rest
from minitorch2.explorer.steps import StepRecorder
from minitorch2.explorer.store import Compilation, Store
from minitorch2.logs import compile_id

Maker = Callable[[Making, str, Any], None]

MAKERS: dict[str, Maker] = {
    "source.py": capture.show_frame,
    "bytecode_in.txt": capture.show_bytecode,
    "captured_graph.py": capture.show_captured,
    "graph_break": capture.show_break,
    "as_is": capture.show_as_is,
    "guards.py": capture.show_guards,
    "residual.py": capture.show_residual,
    "joint graph.py": graphs.show_joint,
    "forward graph.py": partial(graphs.show_part, part="forward", title="forward graph"),
    "backward graph.py": partial(graphs.show_part, part="backward", title="backward graph"),
    "aten graph.py": partial(graphs.show_part, part="forward", title="graph without gradients"),
    "cut.dot": graphs.show_cut,
    "loopir.py": loops.show_loops,
    "schedule.txt": loops.show_schedule,
    "wrapper.py": loops.show_wrapper,
}
"""The function that shows the subject of each stage."""


class Recorder(stages.StageLog):
    """A log that also fills a store.

    Attributes:
        store: what was recorded so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self._steps = StepRecorder()
        self._makings: dict[str, Making] = {}
        self._outside = Making(self.store, Compilation(""), self._steps)
        self._rests: dict[int, Rest] = {}

    def add(self, stage: stages.Stage, subject: object = None) -> None:
        """Take in a stage, and show its subject in the compilation that is under way."""
        super().add(stage)
        if subject is None and stage.name == "wrapper.py":
            loops.show_program(self._making(), stage.text)
        elif subject is not None and stage.name in MAKERS:
            making = self._making() if stage.name != "as_is" else self._outside
            MAKERS[stage.name](making, stage.text, subject)

    def charge(self, name: str, seconds: float, start: float, elapsed: float) -> None:
        """Charge a phase to the log and to the compilation that is under way."""
        super().charge(name, seconds, start, elapsed)
        if compile_id() in self.store.compilations:
            spent = self.store.at(compile_id()).seconds
            spent[name] = spent.get(name, 0.0) + seconds

    def watch(self) -> stages.Watch | None:
        """Return the function that records steps."""
        return self._steps.watch

    def compile_backward(self) -> None:
        """Compile the backward graphs that have not run yet, so that they are shown, too."""
        for making in self._makings.values():
            backward, making.backward = making.backward, None
            if backward is not None and backward.call is None:
                backward.compile()

    def forget(self, identity: str) -> None:
        """Forget the state of a compilation; a later stage of it begins a new record."""
        self._makings.pop(identity, None)

    def _making(self) -> Making:
        identity = compile_id() or "outside of frames"
        if identity not in self._makings:
            compilation = self.store.at(identity)
            made = Making(self.store, compilation, self._steps, rests=self._rests)
            self._makings[identity] = made
        return self._makings[identity]
