"""Traces of functions and modules: one call is recorded as a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from minitorch2.errors import ConfigError, TraceError
from minitorch2.native.torch_internals.dispatch import BelowAutograd
from minitorch2.native.torch_internals.gradients import preserve_versions
from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.python_constants import PythonConstant
from minitorch2.script.ir.types import ClassType, Type
from minitorch2.script.operators.schema import Argument, FunctionSchema
from minitorch2.script.tracing.assumptions import CHOICES
from minitorch2.script.tracing.caught_errors import CaughtErrors
from minitorch2.script.tracing.check_trace import Recorded, check
from minitorch2.script.tracing.recorder import Recorder
from minitorch2.script.tracing.structure import Unpacker, data_of, packed, type_of_example
from minitorch2.script.tracing.surroundings import first_line, line_with, reached, reached_tensors
from minitorch2.script.tracing.traced_tensor import RECORDING


@dataclass(frozen=True)
class TracedFunction:
    """A trace, in the form of a compiled function.

    Attributes:
        name: the function's name.
        schema: its parameters and result; a module's trace begins with ``self``.
        graph: the operators of the recorded call, and checks of what it relied on.
        original: what was traced.
        assumptions: see `trace`.
        constants: what scripted functions that it calls have read of Python objects.
    """

    name: str
    schema: FunctionSchema
    graph: Graph
    original: Callable[..., Any]
    assumptions: str = "check"
    constants: tuple[PythonConstant, ...] = ()


def trace(
    function: Callable[..., Any],
    example_inputs: Any,
    *,
    assumptions: str = "check",
    check_trace: bool = True,
    strict: bool = True,
    self_type: ClassType | None = None,
    module_types: Mapping[str, Type] | None = None,
) -> TracedFunction:
    """Record a call of a function or a module as a graph (PyTorch 2 paper, section 2.1).

    The graph holds for other sizes. The assumptions of the call are checked in each later call.

    Args:
        function: a function, or an `nn.Module`, whose parameters become attributes of ``self``.
        example_inputs: a tensor, or a tuple of arguments: tensors, numbers and containers of them.
        assumptions: where a later call differs, raise `TraceDivergedError` (``"check"``), run the
            Python function (``"python"``), or compute what the graph says (``"ignore"``).
        check_trace: record twice, and compare.
        strict: raise where that finds a difference; else warn.
        self_type: the type of a module.
        module_types: types of submodules by their paths.

    Raises:
        TraceError: the function does what no trace can hold.
    """
    if assumptions not in CHOICES:
        raise ConfigError(f"assumptions={assumptions!r} is none of {', '.join(CHOICES)}")
    arguments = bind(function, example_inputs)
    types = self_type, module_types

    def again() -> Recorded:
        return record(function, arguments, assumptions, *types)

    recorded = again()
    if check_trace:
        check(function, recorded, again, strict)
    traced: TracedFunction = recorded.trace
    return traced


def bind(function: Callable[..., Any], example_inputs: Any) -> dict[str, Any]:
    """Return the examples by the names of the parameters."""
    examples = (
        tuple(example_inputs) if isinstance(example_inputs, tuple | list) else (example_inputs,)
    )
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        bound = inspect.signature(called).bind(*examples)
    except ValueError:  # a function of C has no signature
        return {f"input_{place}": example for place, example in enumerate(examples)}
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            named |= {f"{name}_{place}": item for place, item in enumerate(value)}
        else:
            named[name] = value
    return named


def record(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    assumptions: str,
    self_type: ClassType | None,
    module_types: Mapping[str, Type] | None,
) -> Recorded:
    """Record one call; nothing that it draws or writes remains."""
    recorder = Recorder(checks=assumptions != "ignore", ambient_grad=torch.is_grad_enabled())
    recorder.permitted = set(reached_tensors(reached(function)))
    name = getattr(function, "__name__", type(function).__name__)
    recorder.graph.name = name
    parameters = []
    if isinstance(function, torch.nn.Module):
        parameters.append(_add_module(recorder, function, self_type, module_types))
    unpacker, copies, given = Unpacker(recorder), dict[int, Any](), []
    for parameter, example in arguments.items():
        kind = type_of_example(example)
        parameters.append(Argument(parameter, kind))
        value = recorder.graph.add_input(parameter, kind)
        given.append(unpacker.unpack(copied(example, copies), value, parameter))
    with _unchanged(recorder, function):
        forms = [containers_of(value) for value in given]
        result = run_traced(recorder, function, given)
        refuse_changed(function, dict(zip(arguments, given, strict=True)), forms)
    returned = Argument("", recorder.graph.outputs[0].type)
    schema = FunctionSchema(name, "", tuple(parameters), (returned,))
    constants = () if assumptions == "ignore" else recorder.constants.all()
    traced = TracedFunction(name, schema, recorder.graph, function, assumptions, constants)

    def eager() -> Any:
        copies: dict[int, Any] = {}
        with _unchanged(recorder, function):
            return function(*(copied(example, copies) for example in arguments.values()))

    return Recorded(traced, data_of(result), eager)


def run_traced(recorder: Recorder, function: Callable[..., Any], given: Sequence[Any]) -> Any:
    """Call the function, and complete the graph; return what the function returns."""
    token = RECORDING.set(recorder)
    try:
        with BelowAutograd(), recorder:
            with CaughtErrors(recorder) as errors:
                result = function(*given)
            if recorder.checks:
                errors.check()
            output = packed(recorder, result)
            recorder.end()
    finally:
        RECORDING.reset(token)
    recorder.graph.add_output(output)
    return result


def containers_of(value: Any) -> list[tuple[Any, ...]]:
    """Return the identities of what lists and dicts of an argument hold, in order."""
    if isinstance(value, dict):
        inner = [part for item in value.values() for part in containers_of(item)]
        return [(*value, *map(id, value.values())), *inner]
    if isinstance(value, list | tuple):
        return [tuple(map(id, value)), *(part for item in value for part in containers_of(item))]
    return []


def refuse_changed(
    function: Callable[..., Any], given: Mapping[str, Any], forms: Sequence[Any]
) -> None:
    """Raise if the function has changed a list or a dict that is an argument.

    Raises:
        TraceError: a call of the graph would not change it.
    """
    for (name, value), form in zip(given.items(), forms, strict=True):
        if containers_of(value) != form:
            raise TraceError(
                f"the traced function changes its argument {name}, which a graph does not do",
                code="trace-writes",
                fix="return the new value, or script the function",
                user_line=line_with(function, name) or first_line(function),
            )


def copied(example: Any, copies: dict[int, Any]) -> Any:
    """Return an example whose tensors are copies: a trace writes to no argument of the user's."""
    if isinstance(example, torch.Tensor):
        if id(example) not in copies:
            copy = example.detach().clone().requires_grad_(example.requires_grad)
            copies[id(example)] = copy if example.is_leaf else copy.clone()
        return copies[id(example)]
    if isinstance(example, dict):
        return {key: copied(item, copies) for key, item in example.items()}
    if isinstance(example, tuple) and hasattr(example, "_fields"):
        return type(example)(*(copied(item, copies) for item in example))
    if isinstance(example, tuple | list):
        return type(example)(copied(item, copies) for item in example)
    return example


def _add_module(
    recorder: Recorder,
    module: torch.nn.Module,
    self_type: ClassType | None,
    module_types: Mapping[str, Type] | None,
) -> Argument:
    """Let tensors of a module be its attributes, and let the flags ``training`` be checked."""
    kind = self_type or _class_type(module)
    recorder.self_value = recorder.graph.add_input("self", kind)
    inner = module_types or {}
    recorder.module_types = {
        path: inner.get(path, _class_type(part)) for path, part in module.named_modules()
    }
    for path, part in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        tensors = {**vars(part), **part._buffers, **part._parameters}
        for name, tensor in tensors.items():
            if isinstance(tensor, torch.Tensor):
                recorder.path_of.setdefault(id(tensor), prefix + name)
        if recorder.checks and path in recorder.module_types and reads_training(part):
            recorder.check_training(prefix + "training", part.training)
    return Argument("self", kind)


def _class_type(module: torch.nn.Module) -> ClassType:
    kind = type(module)
    return ClassType(f"__torch__.{kind.__module__}.{kind.__qualname__}", kind)


def reads_training(module: torch.nn.Module) -> bool:
    """Return whether a method of the module's class mentions the flag ``training``."""
    for kind in type(module).__mro__:
        if kind is torch.nn.Module:
            return False
        for method in vars(kind).values():
            code = getattr(method, "__code__", None)
            if code is not None and "training" in code.co_names:
                return True
    return False


@contextmanager
def _unchanged(recorder: Recorder, function: Callable[..., Any]) -> Iterator[None]:
    """Give tensors and generators their state back after the block: a trace is not a call."""
    buffers = list(function.buffers()) if isinstance(function, torch.nn.Module) else []
    for buffer in buffers:
        recorder.written[id(buffer)] = buffer, buffer.detach().clone()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            for tensor, before in recorder.written.values():
                if not torch.equal(tensor, before):
                    with torch.no_grad(), preserve_versions(tensor):
                        tensor.copy_(before)
