"""Operators on ordinary tensors in a region, while the step is new: they run and are recorded.

    result ::= an ordinary tensor, which the step knows by its identity while it lives

Nothing is promised, so nothing is wrapped, and a program that runs once holds eager mode's own
tensors. The promises that the step has made before have been kept by then (`Step.meets_new`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from minitorch2.graph.user_lines import user_line
from minitorch2.lazy.at_once import note_results
from minitorch2.lazy.infer import map_tensors
from minitorch2.lazy.interpret import new_results, with_memory
from minitorch2.lazy.plan import PLANS, Plan
from minitorch2.lazy.record import NotPlainError, encode, is_plain_result
from minitorch2.lazy.step import COUNTS, Step
from minitorch2.lazy.trie import MISS
from minitorch2.lazy.value import LazyTensor, Operator


def new_result(step: Step, func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run and record a call of a step that is new; return `MISS` if it needs the longer way.

    Raises:
        Exception: what the operator raises; the step is as before the call.
    """
    plan = PLANS.get(id(func))
    if (
        plan is None
        or not plan.runs_ordinarily
        or not _is_ordinary_call(step, args, kwargs)
        or step.default_dtype is not torch.get_default_dtype()
        or step.is_inference is not torch.is_inference_mode_enabled()
        or len(step.numbers) + 1 >= step.most_operators
    ):
        return MISS
    step.in_region = True
    try:
        event, numbers = encode(step, plan, args, kwargs)
    except NotPlainError:
        return MISS
    step.go_on(event, numbers)
    return run_recorded(step, func, plan, args, kwargs)


def _is_ordinary_call(step: Step, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call begins with an ordinary tensor, and with more than a host's number."""
    first = args[0] if args else None
    if type(first) is list and first:
        first = first[0]
    if type(first) is not torch.Tensor and type(first) is not torch.nn.Parameter:
        return False
    return (bool(first.dim()) or step.ref_made(first) is not None) and not has_lazy(args, kwargs)


def has_lazy(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call has a lazy tensor among its arguments, those in lists included."""
    for argument in (*args, *kwargs.values()):
        kind = type(argument)
        if kind is LazyTensor or (kind is list and LazyTensor in map(type, argument)):
            return True
    return False


def run_recorded(
    step: Step, func: Operator, plan: Plan, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Run the call that was recorded last, on ordinary tensors; return what the operator gives.

    Raises:
        Exception: what the operator raises; the step is as before the call.
    """
    try:
        result = func(*args, **kwargs)
    except BaseException:
        step.go_back()
        raise
    new = new_results(plan, result)
    if not _are_plain(new):
        result = map_tensors(result, with_memory)
        new = new_results(plan, result)
    if not _are_plain(new):
        step.go_back()
        COUNTS.fallbacks[str(func), str(user_line() or "")] += 1
        return result
    if step.place.results is None:
        note_results(step, new, args[0] if plan.is_view else None)
    if plan.written:
        _note_writes(step, plan, plan.written_by(args, kwargs))
    for tensor in new:
        step.make(tensor)
    return result


def _are_plain(new: list[torch.Tensor | None]) -> bool:
    return all(tensor is None or is_plain_result(tensor) for tensor in new)


def _note_writes(step: Step, plan: Plan, written: list[torch.Tensor]) -> None:
    step.writes = step.writes or any(step.ref_made(tensor) is None for tensor in written)
    if plan.counts_writes:
        torch.autograd.graph.increment_version(written)
