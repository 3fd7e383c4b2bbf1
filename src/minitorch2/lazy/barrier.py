"""The barrier: a step ends, runs, and its promises become data (LazyTensor paper, section 4).

    barrier ::= mark_step() | an observation | leaving a region | so many operators

The values that somebody still holds are computed; Python's own references say which those are. A
step that was seen before runs as a program, which is compiled when a step repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter

import torch

from minitorch2 import config, stages
from minitorch2.backends.registry import fitting_backend, lookup_backend
from minitorch2.errors import UnsupportedError
from minitorch2.foundation.compile_lock import COMPILING
from minitorch2.graph.user_lines import user_line
from minitorch2.lazy import trie
from minitorch2.lazy.explain import COMPILATIONS, cause_of, forget
from minitorch2.lazy.interpret import interpret
from minitorch2.lazy.path_graph import CannotCompileError
from minitorch2.lazy.program import Program, choose
from minitorch2.lazy.step import COUNTS, LOCK, TRIE, Step, begin, current, is_pending
from minitorch2.lazy.value import LazyTensor, Value, undeferred
from minitorch2.native.torch_internals.gradients import preserve_versions
from minitorch2.native.torch_internals.modes import DisableTorchFunction


def mark_step(wait: bool = False, *, cause: str = "mark_step") -> None:
    """End the step: compute all values that are held, as one program.

    Args:
        wait: whether to wait until they are there; kernels of a GPU run beside the program.
        cause: what `metrics` says about this barrier.

    Raises:
        Exception: what an operator of the step raises for its data, such as an index out of range.
    """
    with LOCK:
        if current().numbers:
            COUNTS.barriers[cause, str(user_line() or "")] += 1
            _run(begin())
    if wait and torch.cuda.is_available():
        torch.cuda.synchronize()


def sync() -> None:
    """End the step and wait until all its values are there."""
    mark_step(wait=True)


def observe(tensor: torch.Tensor, cause: str, *, exposes: bool = False) -> torch.Tensor:
    """Return the real tensor that a tensor stands for; a step that promises it ends.

    Args:
        tensor: a lazy tensor, or an ordinary one that the step may write.
        cause: the operator or method that looks at it.
        exposes: whether the caller may write to the memory, which the step may have to read first.
    """
    value = tensor.value if type(tensor) is LazyTensor else current().plain.get(id(tensor))
    with LOCK:
        is_promised = current().ref_made(tensor) is not None or (
            value is not None and (is_pending(value.root) or is_pending(value))
        )
        shown = tensor if value is None else value.root.data
        if is_promised or (shown is not None and current().uses(shown, exposes=exposes)):
            mark_step(cause=cause)
        if value is None or type(tensor) is not LazyTensor:
            return tensor
        with undeferred():
            return value.shown()


LazyTensor.observe = staticmethod(observe)


def _run(step: Step) -> None:
    """Run a step that has ended."""
    COUNTS.recorded += len(step.numbers)
    try:
        if step.at_once:
            COUNTS.interpreted += 1
            step.place.note_sample(tuple(step.numbers))
        else:
            _compute(step)
    finally:
        with undeferred():
            step.end()
        TRIE.limit(config.current().lazy_most_places)


def _compute(step: Step) -> None:
    """Compute the promises that are held; of views, their bases are."""
    live = {
        number: value
        for number, value in enumerate(step.held())
        if value is not None and value.view is None and value.data is None
    }
    try:
        if live or step.writes:
            COUNTS.delayed += 1
            COUNTS.seconds_delayed += perf_counter() - step.began
            results = results_of(step, live)
            for number, value in live.items():
                value.data = results[number]
    except BaseException as error:
        for value in live.values():
            value.error = error
        begin()
        raise


def _catch_up(step: Step) -> None:
    """Run the operators that a step has so far; the step goes on."""
    if step.numbers:
        _compute(step)


Step.catch_up = staticmethod(_catch_up)


def results_of(step: Step, live: dict[int, Value]) -> dict[int, torch.Tensor]:
    """Run a step, as a program where that is known or worth to be made; return live values."""
    data = [value.data for value in step.inputs if value.data is not None]
    with ExitStack() as stack:
        stack.enter_context(undeferred())
        stack.enter_context(_default_dtype(step.default_dtype))
        counting = tuple(tensor for tensor in data if not tensor.is_inference())
        stack.enter_context(torch.inference_mode(step.is_inference))
        stack.enter_context(torch.no_grad())
        # Autograd counted these writes when they were recorded.
        stack.enter_context(preserve_versions(counting))
        program = _program(step, frozenset(live), data)
        if program is None:
            COUNTS.interpreted += 1
            return interpret(step, live)
        COUNTS.ran += 1
        return dict(zip(program.outputs, program.run(step.numbers, data), strict=True))


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Let operators take the dtype for new tensors that was set when they were called."""
    now = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(now)


def _program(step: Step, live: frozenset[int], data: Sequence[torch.Tensor]) -> trie.Program | None:
    """Return the program for a step; None where it is to run operator by operator."""
    place = step.place
    program = choose(place.programs, live, step.numbers)
    place.note_sample(tuple(step.numbers))
    if program is not None or place.obstacle:
        return program
    if place.seen <= config.current().lazy_compile_after:
        return None
    cause = cause_of(step, live)
    try:
        program = _compile(step, live, data)
    except (CannotCompileError, UnsupportedError) as error:
        place.obstacle = str(error)
        COUNTS.obstacles[place.obstacle.splitlines()[0], str(user_line() or "")] += 1
        return None
    COMPILATIONS.append(cause)
    place.programs = {**place.programs, live: [program, *place.programs.get(live, ())]}
    return program


def _compile(step: Step, live: frozenset[int], data: Sequence[torch.Tensor]) -> Program:
    name = config.current().backend
    backend = lookup_backend(name) if name else fitting_backend
    with COMPILING, stages.phase("lazy"), torch.device("cpu"), DisableTorchFunction():
        return Program(step.place.path, step.numbers, data, sorted(live), backend)


def reset() -> None:
    """Forget all steps, programs and counts; the pending step runs first."""
    mark_step()
    forget()
    TRIE.limit(-1)
    begin()
