"""The evaluation as values see it: the interfaces that trackers are written against.

::

    Evaluator ─ capture ─► Capture ─ side_effects ─► SideEffects
                                   ─ references ───► References
                                   ─ overrides ────► Overrides
    Residual ─ references ───────────────────────────► References

A tracker is handed an evaluator in each operation, and a residual function when it is rebuilt. The
classes behind these interfaces know all trackers, and trackers know the interfaces only. So modules
of `bytecode` import downwards, types included. `evaluation.evaluator.SymbolicEvaluator`,
`evaluation.capture.FrameCapture` and `residual.residual_function.ResidualFunction` lie above.
PyTorch 2 paper, section 3.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import CellType, CodeType
from typing import TYPE_CHECKING, Any, Protocol

import sympy
import torch

from minitorch2.bytecode.guards import Guard
from minitorch2.bytecode.guards.drawing import Drawing
from minitorch2.bytecode.guards.settings import Place
from minitorch2.bytecode.guards.sizes import Sizes, SymbolicLayout
from minitorch2.bytecode.guards.sources import DrawnSource, ReferenceSource, Source
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.machine.program import Program
from minitorch2.bytecode.trackers.frame import Frame
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.graph import Graph
from minitorch2.graph.node import Node, SourceLine
from minitorch2.graph.scope import Scope

if TYPE_CHECKING:
    from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker
    from minitorch2.bytecode.trackers.side_effects import SideEffects

Default = Callable[[], "VariableTracker"]


@dataclass(frozen=True)
class Callee:
    """A Python function as inlining needs it; wrapping of defaults waits until they are used.

    Attributes:
        code: the function's code.
        namespace: its globals.
        defaults: the defaults of the last positional parameters.
        keyword_defaults: the defaults of keyword-only parameters.
        cells: its free variables, in the order of ``co_freevars``.
        name: its qualified name, where that is not the one of the code.
    """

    code: CodeType
    namespace: dict[str, object]
    defaults: Sequence[Default] = ()
    keyword_defaults: Mapping[str, Default] = field(default_factory=dict)
    cells: Sequence[VariableTracker] = ()
    name: str = ""


@dataclass
class GraphInput:
    """A placeholder, the real tensor (or number) seen while capturing, and where to load it."""

    node: Node
    value: Any
    source: Source
    tracker: VariableTracker


class Evaluator(Protocol):
    """One frame that is evaluated symbolically (`evaluator.SymbolicEvaluator`)."""

    code: CodeType
    namespace: dict[str, object]
    locals: dict[str, VariableTracker]
    program: Program
    position: int
    line: int
    stack: list[VariableTracker]
    handled: list[VariableTracker]
    handled_at: list[int]
    result: VariableTracker | None
    yielded: VariableTracker | None
    is_waiting: bool
    is_pending: bool
    names: VariableTracker | None

    @property
    def capture(self) -> Capture: ...
    @property
    def parent(self) -> Evaluator | None: ...
    @property
    def cells(self) -> dict[str, Any]: ...  # by name, a CellVariable
    @property
    def root_step(self) -> int: ...

    def step(self) -> None: ...
    def jump(self, target: Instruction | None) -> None: ...
    def catch(self, error: Any, instruction: Instruction) -> None: ...
    def push(self, value: VariableTracker) -> None: ...
    def pop(self) -> VariableTracker: ...
    def popn(self, count: int) -> list[VariableTracker]: ...
    def call(
        self, function: VariableTracker, args: Arguments = (), kwargs: Keywords | None = None
    ) -> VariableTracker: ...
    def inline(
        self, callee: Callee, args: Arguments, kwargs: Keywords | None = None
    ) -> VariableTracker: ...
    def evaluate_body(self, callee: Callee, names: VariableTracker) -> VariableTracker: ...
    def source_line(self) -> SourceLine: ...
    def user_stack(self) -> tuple[SourceLine, ...]: ...


class References(Protocol):
    """The private names of objects (`references.References`)."""

    scope: Scope
    values: dict[str, object]
    stand_ins: dict[int, tuple[object, VariableTracker]]

    def name(self, value: object, base: str = "") -> str: ...
    def replace(self, name: str, value: object) -> str: ...
    def source(self, value: object, base: str = "") -> ReferenceSource: ...
    def stand_for(self, value: object, tracker: VariableTracker) -> None: ...
    def stands_for(self, value: object) -> VariableTracker | None: ...
    def globals_name(self, namespace: dict[str, object]) -> str: ...


class Overrides(Protocol):
    """The overrides of PyTorch's functions that are in force (`captured_overrides.Overrides`)."""

    of_classes: bool
    of_modes: bool
    modes: list[VariableTracker]
    before: tuple[VariableTracker, ...]

    def set_default(self, device: VariableTracker, mode: VariableTracker | None) -> None: ...
    def innermost(self) -> VariableTracker | None: ...
    def sees(self, target: object) -> bool: ...
    def default_device(self) -> torch.device | None: ...
    def without_innermost(self) -> AbstractContextManager[None]: ...
    def disable(self, *, modes_too: bool) -> tuple[bool, bool]: ...
    def restore(self, before: tuple[bool, bool]) -> None: ...
    def disabled(self, *, modes_too: bool) -> AbstractContextManager[None]: ...


class Capture(Protocol):
    """The state that a frame and the functions inlined into it share (`capture.FrameCapture`).

    Lists of trackers that only one kind of tracker fills are lists of ``Any``.
    """

    evaluator: Evaluator | None
    graph: Graph
    root: Graph
    inputs: list[GraphInput]
    numbers: list[GraphInput]
    symbol_nodes: dict[sympy.Symbol, Node]
    side_effects: SideEffects
    sizes: Sizes
    autocasts: list[tuple[Node, object]]
    errors_on_break: list[bool]
    break_at: tuple[int, bool] | None
    written: set[int]
    levels: list[int]
    inference: list[Any]
    transforms: list[str]
    lines: set[tuple[str, int]]
    entered: dict[int, CodeType]
    source_lines: dict[tuple[int, int], SourceLine]
    replaced: dict[tuple[int, str], VariableTracker]
    settings: dict[Place, Any]
    replaced_data: list[FakeTensor]
    assigned_leaves: list[FakeTensor]
    sees_death: bool
    asked_memory: dict[Source, torch.Tensor]
    watches: tuple[Any, ...]

    @property
    def frame(self) -> Frame: ...
    @property
    def references(self) -> References: ...
    @property
    def overrides(self) -> Overrides: ...
    @property
    def line(self) -> SourceLine | None: ...
    @property
    def selections(self) -> list[Any]: ...
    @property
    def leaves(self) -> list[Any]: ...
    @property
    def retaining(self) -> list[Any]: ...
    @property
    def hooked(self) -> list[Any]: ...
    @property
    def warned(self) -> dict[int, Any]: ...

    def add_guard(self, guard: Guard) -> Guard: ...
    def guard_distinct(self, *trackers: VariableTracker) -> None: ...
    def reference(self, value: object, base: str = "") -> ReferenceSource: ...
    def wrap(self, value: object, source: Source | None) -> VariableTracker: ...
    def known(self, source: Source) -> VariableTracker | None: ...
    def known_object(self, value: object) -> VariableTracker | None: ...
    def is_in_module(self, source: Source) -> bool: ...
    def outer_cell(
        self, name: str, cell: CellType, place: Source, contents: Source
    ) -> Any: ...  # a CellVariable
    def tensor_input(
        self,
        value: torch.Tensor,
        source: Source,
        make: Callable[[Node, FakeTensor], VariableTracker],
        layout: SymbolicLayout | None = None,
        fake: Any = None,
    ) -> VariableTracker: ...
    def fake_of(self, value: torch.Tensor, layout: SymbolicLayout | None) -> FakeTensor: ...
    def input_value(self, tracker: VariableTracker) -> torch.Tensor | None: ...
    def inputs_in_memory_of(self, fake: FakeTensor) -> Iterator[GraphInput]: ...
    def size_inputs(self, wanted: Iterable[Any]) -> None: ...
    def call_in_graph(
        self,
        evaluator: Evaluator,
        op: str,
        target: str | Callable[..., Any],
        args: Arguments,
        kwargs: Keywords | None = None,
    ) -> VariableTracker: ...
    def values_of(self, argument: Any) -> Any: ...
    def run_with_sizes(self, call: Any) -> Any: ...
    def add_checks(self) -> None: ...
    def bind_symbols(self, node: Node) -> None: ...
    def draw(
        self, generator: Source, call: str, function: Drawing | None = None
    ) -> DrawnSource: ...


class Residual(Protocol):
    """The residual function that is being written (`residual.ResidualFunction`)."""

    code: CodeType
    line: int
    effects: list[Any]
    loads: list[Any]

    @property
    def capturing(self) -> str: ...
    @property
    def references(self) -> References: ...
    @property
    def outputs(self) -> dict[Node, str]: ...
    @property
    def suspended(self) -> Callable[[Any], str] | None: ...

    def name_for(self, tracker: VariableTracker) -> str: ...
    def is_named(self, tracker: VariableTracker) -> bool: ...
    def set_name(self, tracker: VariableTracker, name: str) -> None: ...
    def bind(self, expression: str, base: str = "value") -> str: ...
    def operand(self, tracker: VariableTracker) -> str: ...
    def arguments(self, args: Iterable[VariableTracker], kwargs: Keywords) -> str: ...
    def keywords(self, values: Keywords) -> list[str]: ...
    def load(self, source: Source) -> str: ...
    def reference(self, value: object, base: str = "") -> str: ...
    def graph_output(self, node: Node, tracker: VariableTracker | None = None) -> str: ...
    def global_place(self, namespace: dict[str, object], name: str) -> str: ...
    def new_name(self, base: str, *, is_hint: bool = False) -> str: ...
    def hint(self, tracker: VariableTracker, name: str) -> None: ...
    def emit(self, text: str) -> None: ...
    def emit_in_block(self, text: str) -> None: ...
    def indent(self, levels: int = 1) -> None: ...
    def dropping(self, exception: str) -> AbstractContextManager[None]: ...
    def writing(self, section: list[Any]) -> AbstractContextManager[None]: ...
