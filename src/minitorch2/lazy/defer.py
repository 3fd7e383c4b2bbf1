"""An operator, from its call to its lazy results (LazyTensor paper, section 3).

call ::= record it                        the results are promises
      |  run it at once                   random draws, and numbers of the host
      |  run it in eager mode             what no step can hold; see `fallback.py`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final

import torch

from minitorch2.autograd.schemas import functional_form
from minitorch2.errors import UnsupportedError
from minitorch2.graph.fake_tensor import flat
from minitorch2.graph.user_lines import user_line
from minitorch2.lazy.at_once import note_results, run_event
from minitorch2.lazy.barrier import mark_step
from minitorch2.lazy.draw import draw
from minitorch2.lazy.expect import expected_result
from minitorch2.lazy.fallback import as_lazy, run_fallback
from minitorch2.lazy.infer import map_tensors
from minitorch2.lazy.marks import is_marked, mark_views
from minitorch2.lazy.ordinary import has_lazy, run_recorded
from minitorch2.lazy.plan import BY_SIZE, PLANS, Plan, Way, argument_at, plan_of
from minitorch2.lazy.record import (
    NotPlainError,
    is_plain,
    is_plain_result,
    record,
    value_of_plain,
)
from minitorch2.lazy.step import COUNTS, LOCK, Step, begin, current
from minitorch2.lazy.trie import MISS
from minitorch2.lazy.value import (
    LazyTensor,
    Meta,
    Metas,
    Operator,
    Value,
    View,
    follow,
    undeferred,
)
from minitorch2.lazy.window import WINDOWS, check_windows, note_window
from minitorch2.native.torch_internals.dispatch import make_wrapper_tensor
from minitorch2.native.torch_internals.gradients import InferenceSwitch

_NOTHING: Final[dict[Any, Any]] = {}


def defer(
    func: Operator,
    types: Sequence[type],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] = _NOTHING,
) -> Any:
    """Record a call with a lazy tensor, outside of a region; return its results as lazy tensors.

    Nobody sees operators on ordinary tensors alone. So these enter as copies, and an operator that
    writes to one runs in eager mode.

    Raises what eager mode raises for these arguments, at this line.
    """
    with LOCK:
        made = MISS
        if not WINDOWS:
            made = expected_result(current(), func, args, kwargs, _NOTHING)
        return defer_unexpected(func, args, kwargs, in_region=False) if made is MISS else made


def defer_unexpected(
    func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, in_region: bool
) -> Any:
    """Record a call that is not the expected one; `LOCK` is held.

    Raises what eager mode raises for these arguments, at this line.
    """
    plan = PLANS.get(id(func)) or plan_of(func)
    current().in_region = in_region
    if WINDOWS and plan.written:
        check_windows(plan, args, kwargs)
    if plan.is_recorded:
        first = args[0] if args else None
        is_pending = type(first) is LazyTensor and first.value.step is current()
        if not is_pending and (_are_numbers_of_the_host(args) or _is_number_made(args, kwargs)):
            return _run_now(func, plan, args, kwargs)
        if not in_region and plan.written and _writes_ordinary(plan, args, kwargs):
            return run_fallback(func, plan, args, kwargs)
        return _record(func, plan, args, kwargs)
    if plan.way is Way.RESHAPE:
        return _reshape(func, args, kwargs)
    if plan.way is Way.ZEROS:
        return defer_unexpected(_ZEROS, args, kwargs, in_region=in_region)
    if plan.way is Way.SIZE:
        func, args = BY_SIZE[func], (args[0], [*args[1].size()])
        return _record(func, plan_of(func), args, kwargs)
    if plan.way is Way.DRAW:
        return draw(func, plan, args, kwargs, _record)
    if plan.way is Way.FORM:
        with undeferred():
            return func(*map_tensors(args, _without_data), **kwargs)
    if plan.way is Way.PASS:
        return func(*args, **kwargs)
    if func is _ITEM and is_number(args[0]):
        return _run_now(func, plan, args, kwargs)
    return run_fallback(func, plan, args, kwargs)


LazyTensor.__torch_dispatch__ = staticmethod(defer)  # type: ignore[assignment, method-assign]
_ITEM: Final = torch.ops.aten._local_scalar_dense.default
_AS_STRIDED: Final = torch.ops.aten.as_strided.default
_NEED_UNMARKED: Final = (
    torch.ops.aten.view.dtype,
    torch.ops.aten.view_as_real.default,
    torch.ops.aten.view_as_complex.default,
)
"""Views that refuse, or read as they are, elements that are still to be conjugated or negated."""
_ZEROS: Final = torch.ops.aten.zeros.default
_AS_IT_IS: Final = nullcontext()


def _record(func: Operator, plan: Plan, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if plan.is_view and func in _NEED_UNMARKED and is_marked(args[0]):
        return run_fallback(func, plan, args, kwargs)
    step = current()
    if (
        step.default_dtype is not torch.get_default_dtype()
        or step.is_inference is not torch.is_inference_mode_enabled()
    ):
        mark_step(cause="another default dtype, or inference mode")
        in_region = step.in_region
        begin()
        step = current()
        step.in_region = in_region
    try:
        results = record(step, func, plan, args, kwargs)
    except (NotPlainError, UnsupportedError, NotImplementedError):
        return run_fallback(func, plan, args, kwargs)
    if results is not None and plan.gives_one and len(step.numbers) < step.most_operators:
        return _promise(step, results[0], 0, None, None)
    data: Sequence[Any] = ()
    if results is None and step.in_region and not has_lazy(args, kwargs):
        made = run_recorded(step, func, plan, args, kwargs)
        _end_long_step(step)
        return made
    if results is None:
        given, data = run_event(step, func, plan, args, kwargs)
        is_held = is_plain_result if plan.is_view else is_plain
        if not all(tensor is None or is_held(tensor) for tensor in data):
            step.go_back()
            COUNTS.fallbacks[str(func), str(user_line() or "")] += 1
            return map_tensors(given, as_lazy)
        base = args[0].value.shown() if plan.is_view and type(args[0]) is LazyTensor else args[0]
        results = note_results(step, data, base if plan.is_view else None)
    if plan.written:
        written = plan.written_by(args, kwargs)
        step.writes = step.writes or any(_was_there(step, t) for t in written)
        if plan.counts_writes:
            torch.autograd.graph.increment_version(written)
    made = _results(step, func, plan, args, kwargs, results, data)
    _end_long_step(step)
    return made


def _end_long_step(step: Step) -> None:
    if len(step.numbers) >= step.most_operators:
        mark_step(cause="lazy_most_operators")


def _results(
    step: Step,
    func: Operator,
    plan: Plan,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    metas: Metas,
    data: Sequence[Any],
) -> Any:
    """Return what the operator gives: written arguments as they are, and new lazy tensors."""
    real = iter(data)
    if plan.returned == (0,):
        return args[0]
    if plan.is_view:
        base, offset = _value_of(step, args[0]), args[0].storage_offset()
        several = plan.is_list or len(metas) > 1
        views = (
            View(base, func, args[1:], kwargs, index if several else None)
            for index in range(len(metas))
        )
        # A view of an ordinary tensor is one in inference mode, too: it counts versions.
        is_ordinary = step.is_inference and not args[0].is_inference()
        with InferenceSwitch(False) if is_ordinary else _AS_IT_IS:
            made = [
                _promise(step, meta, offset, view, next(real, None))
                for meta, view in zip(metas, views, strict=True)
            ]
        mark_views(made, args[0], func)
        if func is _AS_STRIDED:
            note_window(args[0], made[0])
    else:
        made = [_promise(step, meta, 0, None, next(real, None)) for meta in metas]
    if plan.is_list:
        return made
    new = iter(made)
    results = [
        next(new, None) if p is None else argument_at(p, args, kwargs) for p in plan.returned
    ]
    return None if not results else results[0] if len(results) == 1 else tuple(results)


def _promise(
    step: Step, meta: Meta | None, offset: int, view: View | None, data: torch.Tensor | None
) -> LazyTensor | None:
    if meta is None:
        step.skip()
        return None
    size, stride, behind, dtype, device, fake = meta
    tensor = make_wrapper_tensor(
        LazyTensor, size, stride, offset + behind, None, dtype, torch.strided, device
    )
    value = tensor.value = Value(data, view, fake)
    step.promise(value)
    return tensor


def _writes_ordinary(plan: Plan, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return any(
        type(t) is not LazyTensor and isinstance(t, torch.Tensor)
        for t in plan.written_by(args, kwargs)
    )


def _was_there(step: Step, tensor: Any) -> bool:
    """Return whether a tensor's memory is older than the step."""
    if type(tensor) is not LazyTensor:
        return isinstance(tensor, torch.Tensor)
    return step.was_there(tensor.value)


def _value_of(step: Step, tensor: torch.Tensor) -> Value:
    if type(tensor) is LazyTensor:
        return tensor.value
    return value_of_plain(step, tensor, shares=False)


def _without_data(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor, or one without elements in the place of a lazy one."""
    if type(tensor) is not LazyTensor:
        return tensor
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device)


# Numbers of the host ------------------------------------------------------------------------------


def _are_numbers_of_the_host(args: tuple[Any, ...]) -> bool:
    """Return whether all tensors are single elements on the CPU whose values are there.

    To compute such a number is cheaper than to record it, and an optimizer may ask for its counts
    of steps without a barrier. Optimizers hold them in lists where parameters are on a GPU.
    """
    first = args[0] if args else None
    if type(first) is list and first:
        first = first[0]
    if not isinstance(first, torch.Tensor) or first.dim() or not first.is_cpu:
        return False
    return all(is_number(a) for a in args if isinstance(a, torch.Tensor | list | tuple))


def _is_number_made(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call makes a single element on the CPU, as ``torch.zeros(())`` does."""
    if not args or type(args[0]) is not list or args[0]:
        return False
    device = kwargs.get("device")
    return device is None or device.type == "cpu"


def is_number(argument: Any) -> bool:
    """Return whether an argument is a number of the host, or a list of such numbers or floats."""
    if type(argument) is list:
        return all(type(item) is float or is_number(item) for item in argument)
    if not isinstance(argument, torch.Tensor) or argument.dim() or not argument.is_cpu:
        return False
    step = current()
    if type(argument) is LazyTensor:
        value = argument.value
        if value.step is step or value.error is not None or value.view is not None:
            return False
        return value.data is not None and not step.has_memory_of(value.data)
    is_new = step.ref_made(argument) is None and not step.has_memory_of(argument)
    return type(argument) is torch.Tensor and is_new


def _run_now(func: Operator, plan: Plan, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    COUNTS.now += 1
    is_lazy = any(type(a) is LazyTensor for a in flat(args))
    if is_lazy:
        real = map_tensors(args, lambda t: t.value.data if type(t) is LazyTensor else t)
    result = func(*(real if is_lazy else args), **kwargs)
    if plan.counts_writes:
        torch.autograd.graph.increment_version(plan.written_by(args, kwargs))
    if plan.returned == (0,):
        return args[0]
    return map_tensors(result, as_lazy) if is_lazy else result


# Changes of metadata ------------------------------------------------------------------------------


def _reshape(func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Let a tensor show its memory as the operator says: ``x.t_()`` is ``x = x.t()``."""
    tensor = args[0]
    try:
        form = functional_form(func)
    except UnsupportedError:
        return run_fallback(func, plan_of(func), args, kwargs)
    if type(tensor) is not LazyTensor or not plan_of(form).is_view:
        return run_fallback(func, plan_of(func), args, kwargs)
    view = _record(form, plan_of(form), args, dict(kwargs))
    tensor.value = view.value
    follow(tensor, view)
    return tensor
