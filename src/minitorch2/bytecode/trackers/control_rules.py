"""Rules for functions that a program has marked, and for its requests to capture.

The marks are those of `minitorch2.marks.controls`. PyTorch's own marks mean the same when a program
written for `torch.compile` is captured. They are recognised by the attributes that the marked
functions carry, and PyTorch's requests by their names.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable
from typing import Any, Final

import torch

from minitorch2.bytecode.frames.skip_files import TORCH
from minitorch2.bytecode.guards.overrides import in_default_device
from minitorch2.bytecode.operators.blocks import note_call
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.modeled import ModeledVariable
from minitorch2.bytecode.trackers.observed import raise_as_observed
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.python_values.classes import constructs
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable, fold
from minitorch2.bytecode.trackers.python_values.functions import FunctionVariable
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, TupleVariable
from minitorch2.errors import ForbiddenError, UnsupportedError
from minitorch2.foundation.module_names import is_in_package
from minitorch2.marks import controls, wrappers

# Marks --------------------------------------------------------------------------------------------


def mark_of(value: object) -> controls.Mark | None:
    """Return the mark of a callable: our own, or our mark that means the same as PyTorch's."""
    found = controls.mark_of(value)
    if found is None and type(value) is types.FunctionType and value.__dict__:
        return _mark_by_torch(value)
    return found


def _mark_by_torch(function: types.FunctionType) -> controls.Mark | None:
    """Return a mark of `torch.compiler`; wrappers have none, though `functools.wraps` copies it."""
    marks = function.__dict__
    copied_from = getattr(marks.get("__wrapped__"), "__dict__", {})
    if _is_disabled_by_torch(function) and not is_captured_as_written(function):
        recursive = marks.get("_torchdynamo_disable_recursive", True)
        return controls.Disabled(marks.get("_torchdynamo_disable_msg"), recursive)
    for name, mark in _TORCH_MARKS.items():
        if marks.get(name) and not copied_from.get(name):
            return mark
    return None


_TORCH_MARKS: Final = {
    "_dynamo_marked_constant": controls.ConstantResult(),
    "_dynamo_forbidden": controls.Forbidden(),
}


ORIGINAL_BY_TORCH: Final = "_torchdynamo_orig_callable"
"""The attribute of what `torch.compile` or `torch.compiler.disable` gives that holds what it was
given."""

_PATCHED_MODULES: Final = ("torch.optim.",)
"""Parts of PyTorch that the first call of `torch.compile` disables, for its own purposes."""


def patched_by_torch(function: types.FunctionType) -> int | None:
    """Return the index of the cell that holds the function which `torch.compile` has replaced."""
    cells = function.__code__.co_freevars
    known = _CELLS_OF_PATCHES.get(str(function.__module__), ())
    return next((cells.index(name) for name in known if name in cells), None)


_CELLS_OF_PATCHES: Final = {
    # The first call of `torch.compile` patches `nn.Module.__init__` and `__setstate__`, to number
    # modules.
    "torch._dynamo.mutation_guard": ("init", "setstate"),
    # `torch.compiler.nested_compile_region`: kernels of equal text are compiled once anyway.
    "torch._higher_order_ops.invoke_subgraph": ("func",),
}


def is_captured_as_written(function: types.FunctionType) -> bool:
    """Return whether a function replaces its original for `torch.compile` only.

    Either `torch.compile` made the function, or it disabled one of PyTorch's own.
    """
    marks, module = function.__dict__, str(function.__module__)
    if marks.get("_torchdynamo_wrapper_id") != id(function):
        return False
    if _is_disabled_by_torch(function) and not module.startswith(_PATCHED_MODULES):
        return False
    return isinstance(marks.get(ORIGINAL_BY_TORCH), types.FunctionType)


def _is_disabled_by_torch(function: types.FunctionType) -> bool:
    marks = function.__dict__
    is_own = marks.get("_torchdynamo_wrapper_id") == id(function)
    return is_own and bool(marks.get("_torchdynamo_disable"))


class MarkedVariable(FunctionVariable):
    """A marked function: as a value it is `plain`, without the mark; a call obeys the mark."""

    def __init__(self, value: Any, mark: controls.Mark, plain: VariableTracker) -> None:
        super().__init__(source=plain.source, guards=plain.guards)
        self.value, self.mark, self.plain = value, mark, plain

    def __repr__(self) -> str:
        return f"MarkedVariable({self.plain}, {self.mark})"

    def python_type(self) -> type:
        return type(self.value)

    def hash_key(self) -> Hashable:
        return self.plain.hash_key()

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        return self.plain.get_attribute(evaluator, name)

    def reconstruct(self, residual: Residual) -> str:
        return self.plain.reconstruct(residual)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        return _CALLS[type(self.mark)](evaluator, self, args, kwargs)


def _call_disabled(
    evaluator: Evaluator, function: MarkedVariable, args: Arguments, kwargs: Keywords
) -> VariableTracker:
    assert isinstance(function.mark, controls.Disabled)
    name = controls.name_of(function.value)
    reason = f": {function.mark.reason}" if function.mark.reason else ""
    return unsupported(
        "disabled",
        f"capture of {name} is disabled{reason}",
        "take minitorch2.disable off it, or call it outside the compiled function",
    )


def _call_disallowed(
    evaluator: Evaluator, function: MarkedVariable, args: Arguments, kwargs: Keywords
) -> VariableTracker:
    name = controls.name_of(function.value)
    return unsupported(
        "disallowed",
        f"{name} is not allowed in graphs",
        f"minitorch2.allow_in_graph({name}) allows it again",
    )


def _call_forbidden(
    evaluator: Evaluator, function: MarkedVariable, args: Arguments, kwargs: Keywords
) -> VariableTracker:
    raise ForbiddenError(
        f"captured code calls {controls.name_of(function.value)}, which is forbidden in graphs",
        fix="call it outside the compiled function, or mark it with minitorch2.disable",
        user_line=evaluator.source_line(),
    )


def _call_allowed(
    evaluator: Evaluator, function: MarkedVariable, args: Arguments, kwargs: Keywords
) -> VariableTracker:
    capture, name = evaluator.capture, controls.name_of(function.value)
    target = in_default_device(function.value, capture.overrides.default_device())
    try:
        return capture.call_in_graph(evaluator, "call_function", target, args, kwargs)
    except UnsupportedError as error:
        if error.code != "folded-value":
            raise
    return unsupported(
        "allowed-result",
        f"{name} is allowed in graphs, but gives something else than tensors",
        f"let {name} return a tensor, or a tuple or list of tensors",
    )


def _call_now(
    evaluator: Evaluator, function: MarkedVariable, args: Arguments, kwargs: Keywords
) -> VariableTracker:
    """Call the function once a frame, even if capture starts again behind a break point."""
    values = [_real_value(evaluator, value) for value in args]
    named = {name: _real_value(evaluator, value) for name, value in kwargs.items()}
    parts = (function.value, *values, *named.values())
    key = (*named, *map(_identity, parts))
    known = evaluator.capture.frame.constants
    if key not in known:
        try:
            known[key] = (function.value(*values, **named), parts)  # the key's ids stay theirs
        except Exception as error:  # noqa: BLE001 (whatever the user's function raises)
            raise_as_observed(error)
    result = known[key][0]
    return evaluator.capture.wrap(result, evaluator.capture.reference(result))


def _identity(value: object) -> Hashable:
    is_literal = value is None or isinstance(value, int | float | complex | str | bytes)
    return (type(value), repr(value)) if is_literal else id(value)


def _real_value(evaluator: Evaluator, tracker: VariableTracker) -> Any:
    """Return a constant, or an object from outside that the captured code has not changed."""
    if tracker.is_constant():
        return tracker.as_constant()
    value = getattr(tracker, "value", MISSING)
    changed = evaluator.capture.side_effects.changed_objects()
    if value is MISSING or any(owner is tracker for owner in changed):
        unsupported(
            "constant-result-argument",
            f"a function with a constant result is given {tracker}",
            "pass constants, or objects made outside the compiled function",
        )
    return value


def _call_substitute(
    evaluator: Evaluator, function: MarkedVariable, args: Arguments, kwargs: Keywords
) -> VariableTracker:
    assert isinstance(function.mark, controls.Substituted)
    operands = (*args, *kwargs.values())
    if function.mark.folds and all(operand.is_constant() for operand in operands):
        return fold(function.value, args, kwargs)
    body = function.mark.body
    tracker = evaluator.capture.wrap(body, evaluator.capture.reference(body))
    return tracker.call(evaluator, args, kwargs)


def _call_repeated(
    evaluator: Evaluator, function: MarkedVariable, args: Arguments, kwargs: Keywords
) -> VariableTracker:
    """Capture the call as any other; note its nodes, to be outlined when the graph is done."""
    graph = evaluator.capture.graph
    last, name = next(reversed(graph.nodes), None), controls.name_of(function.value)
    result = function.plain.call(evaluator, args, kwargs)
    note_call(graph, last, name)
    return result


_CALLS: Final[dict[type[controls.Mark], Callable[..., VariableTracker]]] = {
    controls.Disabled: _call_disabled,
    controls.Disallowed: _call_disallowed,
    controls.Forbidden: _call_forbidden,
    controls.Allowed: _call_allowed,
    controls.ConstantResult: _call_now,
    controls.Substituted: _call_substitute,
    controls.Repeated: _call_repeated,
}

# Requests -----------------------------------------------------------------------------------------


def request_of(function: types.FunctionType) -> Callable[..., Any] | None:
    """Return our request that one of `torch._dynamo`'s functions stands for, found by name."""
    if not is_in_package(function.__module__, "torch._dynamo"):
        return None
    return _REQUESTS.get(function.__name__)


_REQUESTS: Final[dict[str, Callable[..., Any]]] = {
    "is_compiling": controls.is_compiling,
    "is_dynamo_compiling": controls.is_compiling,
    "graph_break": controls.graph_break,
    "skip_frame": controls.skip_frame,
}


@models(controls.is_compiling)
def is_compiling(evaluator: Evaluator) -> VariableTracker:
    """Return True: this code is being captured."""
    return ConstantVariable(True)


@models(controls.graph_break)
def graph_break(
    evaluator: Evaluator, msg: VariableTracker | None = None, **kwargs: VariableTracker
) -> None:
    """End the graph for the user's own reason; PyTorch's optimizers do not ask for our breaks."""
    if evaluator.code.co_filename.startswith(TORCH):
        return
    text = _text(msg) or "the program asks for a graph break"
    unsupported("graph-break", text, "take minitorch2.graph_break out of the compiled function")


@models(controls.skip_frame)
def skip_frame(evaluator: Evaluator, msg: VariableTracker | None = None) -> None:
    """Leave the function that asks to Python: see `compile_frame.capture_frame`."""
    text = _text(msg) or f"{evaluator.code.co_qualname} asks to run in Python"
    unsupported("skip-frame", text, "take minitorch2.skip_frame out of the compiled function")


def _text(msg: VariableTracker | None) -> str:
    return str(msg.as_constant()) if msg is not None and msg.is_constant() else ""


@models(wrappers.call_flat)
def call_flat(
    evaluator: Evaluator, function: VariableTracker, args: VariableTracker, kwargs: VariableTracker
) -> VariableTracker:
    """Record `wrappers.call_flat` as one node, which gives the tensors in the call's result."""
    called: Any = getattr(function, "value", MISSING)
    if called is MISSING or not isinstance(kwargs, DictVariable):
        cause = f"{function} is made in captured code"
        return unsupported("allowed-result", cause, "define it outside")
    target, capture = wrappers.FlatCall(called), evaluator.capture
    named = {str(key.as_constant()): value for key, value in kwargs.pairs()}
    made = iter(
        capture.call_in_graph(
            evaluator, "call_function", target, args.items(evaluator), named
        ).items(evaluator)
    )

    def tracked(value: Any) -> VariableTracker:
        is_tensor = isinstance(value, torch.Tensor)
        return next(made) if is_tensor else capture.wrap(value, capture.reference(value))

    leaves = ListVariable([*map(tracked, target.leaves)])
    return TupleVariable([leaves, tracked(target.structure)])


class ErrorOnGraphBreakVariable(ModeledVariable):
    """``error_on_graph_break(error)``."""

    def __init__(self, error: bool, **options: Any) -> None:
        super().__init__(**options)
        self.error = error
        self.entered = 0

    def python_type(self) -> type:
        return controls.error_on_graph_break

    def py___enter__(self, evaluator: Evaluator) -> None:
        self.entered += 1
        evaluator.capture.errors_on_break.append(self.error)

    def py___exit__(self, evaluator: Evaluator, *exception: VariableTracker) -> None:
        self.entered -= 1
        evaluator.capture.errors_on_break.pop()

    def reconstruct(self, residual: Residual) -> str:
        cls = residual.reference(controls.error_on_graph_break)
        made = residual.load(self.source) if self.source else f"{cls}({self.error})"
        made = residual.bind(made, "mode")
        with residual.writing(residual.effects):
            for _ in range(self.entered):
                residual.emit(f"{made}.__enter__()")
        return made


@constructs(controls.error_on_graph_break)
def make_error_on_graph_break(evaluator: Evaluator, error: VariableTracker) -> VariableTracker:
    """``error_on_graph_break(error)`` inside captured code."""
    return ErrorOnGraphBreakVariable(error.truth(evaluator))
