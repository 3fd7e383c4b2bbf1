"""From a frame to compiled code.

The steps of the paper's section 3.2, in order::

    (1) skip check, (2) cache lookup                         dispatch/
    (3) symbolic analysis                                    here, evaluator.py
    (4) the graph is compiled by the backend                 here
    (5) one guard function                                   guards/guard_function.py
    (6) continuation functions                               breaks.py, continuations.py
    (7) residual code                                        residual.py
    (8) guards and residual code are installed and run       dispatch/
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib import import_module
from types import CodeType
from typing import Any, Protocol

import sympy
import torch

from minitorch2 import config, stages
from minitorch2.bytecode.compiling.compiled_frame import CompiledFrame, GraphBreak, canonical
from minitorch2.bytecode.compiling.frame_report import report_capture, report_compiled, report_frame
from minitorch2.bytecode.compiling.reasons import page_of, remedy_of
from minitorch2.bytecode.compiling.rerun import (
    generators_of,
    is_written,
    restoring,
    undoing,
    writes_late,
)
from minitorch2.bytecode.evaluation import handlers
from minitorch2.bytecode.evaluation.capture import FrameCapture
from minitorch2.bytecode.evaluation.frame_evaluator import FrameEvaluator
from minitorch2.bytecode.frames.lifetimes import SEES_DEATH, may_see_death
from minitorch2.bytecode.frames.signature import signature_of
from minitorch2.bytecode.frames.steps import is_suspendable
from minitorch2.bytecode.guards import global_state_guards
from minitorch2.bytecode.guards.filters import GuardFilter, select_guards
from minitorch2.bytecode.guards.guard_function import compile_guards
from minitorch2.bytecode.guards.overrides import without_overrides
from minitorch2.bytecode.guards.settings import OF_OPERATORS, Place
from minitorch2.bytecode.guards.tensor_class import forbid_disguised_tensors
from minitorch2.bytecode.operators.blocks import bound_symbols, outline_blocks
from minitorch2.bytecode.residual.breaks import FrameEnd
from minitorch2.bytecode.residual.continuations import Continuation, Continuations
from minitorch2.bytecode.residual.residual_function import ResidualFunction
from minitorch2.bytecode.residual.suspensions import suspend, suspended
from minitorch2.bytecode.trackers.frame import Frame
from minitorch2.bytecode.trackers.interfaces import GraphInput
from minitorch2.bytecode.trackers.python_values.constant import literal
from minitorch2.bytecode.trackers.torch_values.context import leave_contexts, made_in_inference
from minitorch2.bytecode.trackers.torch_values.hooks import (
    AskedLaterError,
    HistoryEscapesError,
    HistoryWrittenError,
    HooksRunInsideError,
    asked_about,
    check_asked,
)
from minitorch2.bytecode.trackers.torch_values.leaves import check_leaves
from minitorch2.bytecode.trackers.torch_values.selection import (
    SelectionEscapesError,
    check_selections,
)
from minitorch2.errors import GraphBreakError, UnsupportedError
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.history import tells_view
from minitorch2.graph.node import Node, SourceLine
from minitorch2.graph.passes import simplify_sizes
from minitorch2.graph.raising import is_marked, may_raise
from minitorch2.graph.symbol_nodes import Liveness
from minitorch2.graph.symbols import free_symbols
from minitorch2.graph.wrapper_tensors import is_wrapper
from minitorch2.logs import compile_id, get_logger
from minitorch2.native.cpython import frame_hook
from minitorch2.native.torch_internals.gradients import write_grad_mode
from minitorch2.native.torch_internals.modes import pop_function_mode, push_function_mode, set_state

_LOGGER = get_logger(__name__)

assert handlers  # importing them fills the table of instructions

Backend = Callable[[GraphModule, list[torch.Tensor]], Callable[..., Any]]

EARLIER_TRIES = 8
"""The number of instructions before the unsupported one that are tried as break points."""


USER_ERRORS = frozenset({"exception", "operator-error"})
"""Reasons that mean: the program itself raises an exception here."""


class UserProgramError(Exception):
    """With `fullgraph`, the program cannot be one graph because it raises; Python shall run it."""

    def __init__(self, reason: UnsupportedError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class FrameCompiler(Protocol):
    """The interface of the region (`dispatch.Region`) that a compiled frame belongs to."""

    @property
    def fullgraph(self) -> bool:
        """True if a graph break is an error."""

    @property
    def guard_filter(self) -> GuardFilter | None:
        """The user's choice of the guards that are checked."""

    def new_number(self) -> int:
        """Return the next number for the names of compiled graphs and continuations."""

    def compile_graph(self, module: GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        """Run the backend."""

    def suppresses_errors(self) -> bool:
        """Return whether a graph runs in Python if its backend fails."""

    def note_failure(self, failure: str) -> None:
        """Say that a graph runs in Python because its backend failed."""

    @property
    def continuations(self) -> Continuations:
        """All continuations of the region."""

    def continuation(
        self,
        continuation: Continuation,
        namespace: dict[str, object],
        graph_break: GraphBreak | None,
    ) -> object:
        """Make a continuation callable from residual code, behind a break or a suspension."""

    @property
    def capturing(self) -> object:
        """The context in which calls made by residual code are captured."""


def compile_frame(frame: Frame, compiler: FrameCompiler) -> CompiledFrame:
    """FrameCapture a frame and compile what was captured.

    The graph breaks where data are read if the backend must know the number (for a gradient, for
    instance), or if an inlined function branches on it.

    Raises:
        UnsupportedError: no residual code can be made: the frame runs in Python as it is.
        GraphBreakError: there is a graph break, and the region wants one graph.
    """
    forbid_disguised_tensors()
    in_job: Callable[[], AbstractContextManager[object]] = nullcontext
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        in_job = import_module("minitorch2.distributed.job").in_job  # extends this compiler
    try:
        with in_job():
            return _compile_frame(frame, compiler)
    except UnsupportedError as reason:
        if reason.code != "unbacked-size" or not config.current().capture_data_dependent:
            raise
        _LOGGER.debug("once more without numbers that only data will tell: %s", reason)
    with in_job(), config.patch(capture_data_dependent=False):
        return _compile_frame(frame, compiler)


def _compile_frame(frame: Frame, compiler: FrameCompiler) -> CompiledFrame:
    name = frame.code.co_qualname
    _LOGGER.debug("step 3 of 8: symbolic analysis of %s", name)
    report_frame(frame.code)
    with stages.phase("capture"):
        attempt = capture_frame(frame, compiler)
        module, nodes = attempt.finish_graph()
    report_capture(module, attempt.graph_break)
    function_name = f"__compiled_fn_{attempt.number}"
    if module is not None:
        _LOGGER.debug("step 4 of 8: the backend compiles the graph of %s", name)
        attempt.call_graph(function_name, module, nodes)
    capture, residual = attempt.capture, attempt.residual
    with stages.phase("guards"):
        _LOGGER.debug("step 5 of 8: one guard function for %s", name)
        guards = [*capture.guards, *capture.sizes.all_guards(), *global_state_guards()]
        capture.sizes.env.freeze()
        values = capture.references.values
        if compiler.guard_filter is not None:
            guards = select_guards(guards, compiler.guard_filter)
        compiled_guards = compile_guards(guards, canonical(frame.function), values)
        stages.record("guards.py", compiled_guards.source, subject=compiled_guards)
    _LOGGER.debug("step 6 of 8: %d continuation functions", attempt.continuations)
    _LOGGER.debug("step 7 of 8: residual code of %s", name)
    code = residual.compile()
    if frame_hook.why_unavailable() is None:  # residual code is not captured if called inside
        for each in (code, *code.co_consts):
            if isinstance(each, CodeType):
                frame_hook.skip(each)
    compiled = CompiledFrame(
        compiled_guards,
        code,
        residual.source(),
        {name: value for name, value in values.items() if name in code.co_freevars},
        module,
        attempt.graph_break,
        attempt.number,
        frozenset(capture.lines),
        tuple(map(weakref.ref, capture.entered.values())),
        compile_id(),
        shape_env=capture.sizes.env,
        spare=attempt.spare,
        blame=compiler.note_failure if compiler.suppresses_errors() else None,
    )
    report_compiled(compiled)
    return compiled


def capture_frame(frame: Frame, compiler: FrameCompiler) -> Attempt:
    """FrameCapture a frame; once more if an object that the graph makes were seen from outside."""
    try:
        return _capture_frame(frame, compiler)
    except HistoryEscapesError:
        return capture_frame(replace(frame, makes_leaves=False), compiler)
    except HistoryWrittenError as written:
        return capture_frame(replace(frame, writes_history=written.args[0]), compiler)
    except HooksRunInsideError as run:
        return capture_frame(replace(frame, hooks=run.args[0]), compiler)
    except SelectionEscapesError:
        return capture_frame(replace(frame, selects=False), compiler)


def _capture_frame(frame: Frame, compiler: FrameCompiler) -> Attempt:
    """Evaluate a frame symbolically, again if need be, until it ends where residual code can go on.

    An instruction that is not supported becomes the break point of the next attempt. If an object
    that is live there cannot be rebuilt, earlier instructions are tried.
    """
    attempt = Attempt(frame, compiler, {})
    try:
        attempt.run()
        return attempt
    except UnsupportedError as error:
        reason, step = error.with_traceback(None), attempt.evaluator.steps
        reason.user_line = reason.user_line or attempt.evaluator.source_line()
        starts = [*attempt.capture.side_effects.starting_steps(), *attempt.capture.levels]
        steps = (*range(step, max(step - EARLIER_TRIES, 0), -1), *starts[:EARLIER_TRIES])
        places = [(earlier, False) for earlier in steps]
        if attempt.capture.break_at is not None:
            places = [attempt.capture.break_at]
        left = attempt.capture.side_effects.left_generator()
    is_wanted = compiler.fullgraph or attempt.capture.errors_on_break[-1]
    if is_wanted and not ends_segment(reason, frame):
        asked = "with fullgraph=True" if compiler.fullgraph else "under error_on_graph_break(True)"
        if reason.code in USER_ERRORS:
            raise UserProgramError(reason)
        raise graph_break_error(reason, asked)
    is_inlined = attempt.capture.evaluator is not attempt.evaluator
    if (reason.code == "skip-frame" and not is_inlined) or tells_view(reason.__cause__):
        raise reason
    if left is not None:
        name = left.function_name
        cause = f"the generator {name} may be dropped inside a try or with: Python knows when"
        raise UnsupportedError(cause, code="generator", user_line=reason.user_line)
    if reason.code == SEES_DEATH or _may_see_death(attempt):
        cause = f"{reason.cause}; a frame that sees objects die breaks nowhere"
        raise UnsupportedError(cause, code=SEES_DEATH, user_line=reason.user_line)
    if reason.code == "unbacked-size" and is_inlined and config.current().capture_data_dependent:
        raise reason  # a break at the data is one; a break at each branch may be many
    while places:
        earlier, goes_on = places.pop(0)
        attempt = Attempt(frame, compiler, {earlier: reason}, goes_on)
        try:
            attempt.run()
            return attempt
        except AskedLaterError as asked:
            places = [asked.place]
        except UnsupportedError as error:
            if error.code == "nothing-captured":
                break  # nor would it be before
            _LOGGER.debug("no break at step %d of %s: %s", earlier, frame.code.co_name, error)
    raise reason


def _may_see_death(attempt: Attempt) -> bool:
    """Return whether the frame, or a function of its module that it calls, uses weak references."""
    frame, codes = attempt.frame, attempt.capture.entered.values()
    own = (code for code in codes if code.co_filename == frame.code.co_filename)
    named = any(may_see_death(code, frame.globals) for code in own)
    return named or attempt.capture.sees_death


def ends_segment(reason: UnsupportedError, frame: Frame) -> bool:
    """Return whether the user's exception leaves a generator or coroutine, as `close` does it."""
    return reason.code == "exception" and is_suspendable(frame.code)


class Attempt:
    """One evaluation of a frame and the residual code written for it.

    Args:
        break_points: number of the step in front of which the evaluation stops, with the reason.
        goes_on: whether the next graph begins with that step.
    """

    def __init__(
        self,
        frame: Frame,
        compiler: FrameCompiler,
        break_points: dict[int, UnsupportedError],
        goes_on: bool = False,
    ) -> None:
        self.frame = frame
        self.compiler = compiler
        self.goes_on = goes_on
        self.grad_enabled = torch.is_grad_enabled()
        self.capture = FrameCapture(frame)
        self.evaluator = FrameEvaluator(self.capture, break_points)
        self.graph_break: GraphBreak | None = None
        self._broken: GraphBreak | None = None
        self.continuations = 0
        self.spare: tuple[str, Callable[..., Any]] | None = None

    def run(self) -> None:
        """Evaluate the frame and write its residual code.

        Raises:
            UnsupportedError: at the evaluator's present step.
        """
        with torch.set_grad_enabled(self.grad_enabled):
            try:
                reason = self.evaluator.run_to_break()
            finally:
                settings = leave_contexts(self.capture)
            grad_enabled = torch.is_grad_enabled()
        if self.capture.levels:
            raise UnsupportedError(
                "a graph ends inside of forward_ad.dual_level", code="torch-context"
            )
        self.number = self.compiler.new_number()
        self.residual = self._new_residual()
        if reason is not None:
            self._write_break(reason)
        elif self.evaluator.result is not None:
            self.residual.emit(f"return {self.residual.name_for(self.evaluator.result)}")
        else:
            suspend(self._end())
        self.capture.guard_identities()
        with self.residual.writing(self.residual.effects):
            self.capture.side_effects.emit(self.residual)
            check_leaves(self.capture, self.residual)
            check_selections(self.capture, self.residual)
            if reason is not None:
                check_asked(self.capture, self.residual, self.frame.code, self.evaluator.steps)
            self._leave_grad_mode(grad_enabled)
            self._leave_settings(settings)
            self._leave_overrides()

    def _leave_grad_mode(self, enabled: bool) -> None:
        """Restore the grad mode in which the graph started; residual code changes it."""
        if enabled != self.grad_enabled:
            before = (self.grad_enabled,)
            self.capture.graph.call_function(write_grad_mode, before).meta["impure"] = True
            self.residual.emit(f"{self.residual.reference(write_grad_mode)}({enabled})")

    def _leave_settings(self, changed: Sequence[tuple[Place, Any]]) -> None:
        """Restore, in the graph, the settings of PyTorch; residual code changes them."""
        for (write, place), value in changed:
            if write in OF_OPERATORS:
                before = (*place, self.capture.settings[write, place])
                self.capture.graph.call_function(write, before).meta["impure"] = True
            args = ", ".join(self.residual.name_for(literal(each)) for each in (*place, value))
            self.residual.emit(f"{self.residual.reference(write)}({args})")

    def _leave_overrides(self) -> None:
        """Make residual code leave and enter the modes that captured code left and entered."""
        overrides, before = self.capture.overrides, self.frame.overrides
        state = overrides.of_classes, overrides.of_modes
        if state != (before.of_classes, before.of_modes):
            self.residual.emit(f"{self.residual.reference(set_state)}{state}")
        for device in overrides.default:
            setter = self.residual.reference(torch.set_default_device)
            self.residual.emit(f"{setter}({self.residual.name_for(device)})")
        left, entered = overrides.changes()
        for _ in range(left):
            self.residual.emit(f"{self.residual.reference(pop_function_mode)}()")
        for mode in entered:
            name = self.residual.name_for(mode)
            self.residual.emit(f"{self.residual.reference(push_function_mode)}({name})")

    def _new_residual(self) -> ResidualFunction:
        parameters = signature_of(self.frame.code).names
        changed = self.capture.side_effects.changed_names()
        residual = ResidualFunction(
            self.frame.code, parameters, self.frame.globals, self.capture.references, changed
        )
        residual.line = self.evaluator.line
        residual.suspended = lambda frame: suspended(self._end(), frame)
        residual.capturing = self.capture.references.bind("__capturing", self.compiler.capturing)
        for draw in self.capture.draws:
            residual.draw(draw)
        return residual

    def _write_break(self, reason: UnsupportedError) -> None:
        self.residual.line = self.evaluator.next_instruction.line or self.evaluator.line
        line = reason.user_line
        assert isinstance(line, SourceLine)
        self._broken = GraphBreak.of(reason, line)
        self.graph_break = None if ends_segment(reason, self.frame) else self._broken
        end, instruction = self._end(), self.evaluator.next_instruction
        if self.goes_on:
            end.leave(instruction, as_is=False)
        else:
            end.write(instruction)

    def _end(self) -> FrameEnd:
        return FrameEnd(self.evaluator, self.residual, self._bind, self.compiler.continuations)

    def _bind(self, continuation: Continuation, namespace: dict[str, object]) -> str:
        self.continuations += 1
        value = self.compiler.continuation(continuation, namespace, self._broken)
        return self.capture.references.bind(continuation.name, value)

    # The graph -----------------------------------------------------------------------------------

    def finish_graph(self) -> tuple[GraphModule | None, list[Node]]:
        """Return the graph with its outputs, without dead nodes and inputs; None if empty."""
        self.capture.add_checks()  # of numbers that no later operator has read
        graph = self.capture.graph
        outputs = [node for node in graph.nodes if node in self.residual.outputs]
        graph.output(tuple(outputs))
        live = Liveness()
        for node in reversed(graph.nodes):
            is_read = node.users or node.op == "output" or live.is_read(node)
            if is_read or is_marked(node):
                live.note(node.args, dict(node.kwargs))
            else:
                graph.erase(node)
        if self.capture.sizes.env.symbols:
            self._bind_sizes()
        if all(node.op in ("placeholder", "output") for node in graph.nodes):
            return None, []
        outline_blocks(graph)
        return GraphModule(graph), outputs

    def _bind_sizes(self) -> None:
        """Simplify the sizes in arguments; add inputs for sizes that no tensor carries."""
        graph = self.capture.graph
        simplify_sizes(GraphModule(graph), self.capture.sizes.env)
        wanted: set[sympy.Symbol] = set()
        for node in graph.nodes:
            wanted |= free_symbols((node.args, dict(node.kwargs)))
        missing = wanted - bound_symbols(graph.placeholders)
        self.capture.size_inputs(self.capture.sizes.of_inputs(missing))
        positions = {node: i for i, node in enumerate(graph.placeholders)}
        inputs = [*self.capture.numbers, *self.capture.inputs]
        self.capture.inputs = sorted(inputs, key=lambda entry: positions.get(entry.node, -1))

    def call_graph(self, name: str, module: GraphModule, outputs: list[Node]) -> None:
        """Compile the graph with the backend and call the result first of all."""
        alive = set(module.graph.nodes)
        inputs = [entry for entry in self.capture.inputs if entry.node in alive]
        compiled = self.compiler.compile_graph(module, [entry.value for entry in inputs])
        compiled = restoring(compiled, module)
        spare = self._undoing(restoring(module, module), module, inputs)
        safe = self._undoing(compiled, module, inputs)
        run = self._on_plain_tensors(safe or compiled, inputs)
        name = self.capture.references.bind(name, run)
        self.spare = None if spare is None else (name, self._on_plain_tensors(spare, inputs))
        simplify_sizes(module, self.capture.sizes.env)  # the backend may have learned more
        sources = [entry.source for entry in inputs]
        changed = asked_about(self.frame.code, outputs) | made_in_inference(outputs)
        self.residual.call_graph(name, sources, outputs, self.frame.code.co_firstlineno, changed)
        if safe is not None:
            self.residual.rerun_if_graph_raises()

    def _on_plain_tensors(
        self, compiled: Callable[..., Any], inputs: list[GraphInput]
    ) -> Callable[..., Any]:
        """Return the graph without the overrides that were captured with it: they act only once."""
        is_overridden = self.frame.overrides.modes or any(is_wrapper(e.value) for e in inputs)
        return without_overrides(compiled) if is_overridden else compiled

    def _undoing(
        self, compiled: Callable[..., Any], module: GraphModule, inputs: list[GraphInput]
    ) -> Callable[..., Any] | None:
        """Wrap the graph so that it has done nothing if it raises; None if that is impossible."""
        writes = not writes_late(compiled, self.capture.writes_tensors)
        nodes = [entry.node for entry in inputs] if writes else []
        if any(map(is_written, nodes)) and not any(map(may_raise, module.graph.nodes)):
            return None  # copies would cost more than a failure of the backend does harm
        return undoing(compiled, nodes, generators_of(module))


def graph_break_error(
    reason: UnsupportedError, asked: str = "with fullgraph=True"
) -> GraphBreakError:
    """Return the error raised in place of a graph break, where the program has `asked` for it."""
    return GraphBreakError(
        f"graph break {asked}: {reason.cause}",
        code=reason.code,
        fix=remedy_of(reason) or None,
        user_line=reason.user_line,
        see=page_of(reason.code) or None,
    )
