"""`lazily()`: inside, operators on ordinary tensors are deferred, too; the program stays the same.

A dispatch mode sees each operator. An ordinary tensor that a pending operator writes must not be
read behind the dispatcher's back: a function mode ends the step before such a method runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from minitorch2 import config
from minitorch2.graph.dispatch_mode import DispatchMode
from minitorch2.lazy.barrier import mark_step, observe
from minitorch2.lazy.control_flow import control_flow_in_python
from minitorch2.lazy.defer import defer_unexpected, is_number
from minitorch2.lazy.expect import expected_result
from minitorch2.lazy.infer import map_tensors
from minitorch2.lazy.ordinary import new_result
from minitorch2.lazy.parameter_lists import Away, lists_of_parameters
from minitorch2.lazy.step import COUNTS, LOCK, current
from minitorch2.lazy.trie import MISS
from minitorch2.lazy.value import LazyTensor, Operator, undeferred
from minitorch2.lazy.visit import FirstVisit, first_visit
from minitorch2.lazy.window import OPENERS, WINDOWS, on_base
from minitorch2.native.torch_internals.dispatch import DisableTorchDispatch
from minitorch2.native.torch_internals.functions import READERS_OF_LENGTHS
from minitorch2.native.torch_internals.modes import (
    DisableTorchFunction,
    count_dispatch_modes,
    innermost_dispatch_mode,
)


@contextmanager
def lazily(*, guarded: bool = True, eager_first: bool = True) -> Iterator[None]:
    """Defer all operators of the block; leaving it computes what is still pending.

    Nothing in the program changes: values, printed text, exceptions, views and gradients are those
    of eager mode, and sizes are plain integers. Steps end at `mark_step`, and where the program
    looks at data.

    Args:
        guarded: whether methods that read memory directly (``numpy``, ``data_ptr``) see pending
            writes of ordinary tensors. It costs about a microsecond a call.
        eager_first: whether operators run in eager mode until the program comes by again: until it
            enters the same line again, or an instruction of the block calls the same function of
            PyTorch again. Only a guarded region sees that.

    Raises:
        Exception: what a pending operator raises for its data.
    """
    with ExitStack() as stack:

        def begin() -> None:
            away = Away(guard)
            stack.enter_context(lists_of_parameters(away))
            stack.enter_context(_Deferring(away))

        stack.callback(mark_step, wait=True, cause="end of the region")
        if config.current().lazy_bf16:
            for kind in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
                if not torch.is_autocast_enabled(kind):  # the program may have chosen another dtype
                    stack.enter_context(torch.autocast(kind, torch.bfloat16))
        visit = first_visit(begin) if guarded and eager_first else None
        stack.enter_context(control_flow_in_python())
        guard = stack.enter_context(_Guard(visit)) if guarded else None
        if visit is None:
            begin()
        yield


class _Deferring(DispatchMode):  # type: ignore[no-untyped-call]
    """Hands every operator to `defer`."""

    def __init__(self, away: Away) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._away = away

    def __torch_dispatch__(
        self,
        func: Operator,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        with LOCK:
            step = current()
            if step.at_once:
                made = new_result(step, func, args, kwargs)
            elif WINDOWS:
                made = MISS
            else:
                made = expected_result(step, func, args, kwargs, step.plain)
            if made is not MISS:
                return made
            if func is _ITEM_OF and is_number(args[0]):
                COUNTS.now += 1
                return func(args[0].value.data if type(args[0]) is LazyTensor else args[0])
            if func is _END_OF_PROFILE:  # of a step that has failed, it may be
                self._away.come_back()
            elif func is _BEGIN_OF_PROFILE and args[0].startswith(_ZERO_GRAD):
                self._away.leave()
            with DisableTorchFunction():
                return defer_unexpected(func, args, kwargs, in_region=True)


def is_deferring() -> bool:
    """Return whether a region defers the operators that are called here."""
    return type(innermost_dispatch_mode()) is _Deferring


_ITEM: Final = torch.Tensor.item
_ITEM_OF: Final = torch.ops.aten._local_scalar_dense.default
_BEGIN_OF_PROFILE: Final = torch.ops.profiler._record_function_enter_new.default
_ZERO_GRAD: Final = "Optimizer.zero_grad#"
_END_OF_PROFILE: Final = torch.ops.profiler._record_function_exit._RecordFunction
_READERS: Final = {
    torch.Tensor.numpy,
    torch.Tensor.tolist,
    torch.Tensor.data_ptr,
    torch.Tensor.untyped_storage,
    torch.Tensor.storage,
    torch.Tensor.__array__,
    torch.Tensor.__deepcopy__,
    torch.Tensor.__reduce_ex__,
    torch.Tensor.__dlpack__,
    torch.Tensor.__repr__,
    torch.Tensor.data.__set__,  # type: ignore[attr-defined]
}
"""Functions that read a tensor's memory without an operator."""
_READERS_OF_INDICES: Final = {torch.tensor_split, torch.Tensor.tensor_split}
"""Functions that read their second argument before they call an operator."""
_INDICES: Final = ("indices", "indices_or_sections", "tensor_indices_or_sections")
_READERS_OF_LISTS: Final = {torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor}
"""Functions that read the numbers in a list without an operator."""


_WATCHED: Final = {
    *(_ITEM, *_READERS, *_READERS_OF_INDICES, *_READERS_OF_LISTS, *READERS_OF_LENGTHS, *OPENERS)
}


class _Guard(TorchFunctionMode):
    """Ends the step before an ordinary tensor's memory is read directly; ends a first visit."""

    def __init__(self, visit: FirstVisit | None) -> None:
        super().__init__()
        self._visit = visit

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if self._visit is not None and not torch.compiler.is_compiling() and self._visit.ends(func):
            self._visit.begin()
            self._visit = None
        if func not in _WATCHED:
            return func(*args, **kwargs) if kwargs else func(*args)
        if func is _ITEM and type(args[0]) is torch.Tensor and _may_read_now(args[0]):
            COUNTS.now += 1
            with DisableTorchDispatch():
                return func(*args)
        if func in OPENERS:
            kwargs = kwargs or {}
            part = args[0] if args else kwargs.get("input")
            return on_base(part, func(*args, **kwargs))
        if func in _READERS and args and type(args[0]) is not LazyTensor:
            observe(args[0], getattr(func, "__name__", str(func)), exposes=True)
            with undeferred():
                real = [observe(a, "data") if type(a) is LazyTensor else a for a in args]
                return func(*real, **(kwargs or {}))
        if func in _READERS_OF_LISTS:
            args = tuple(_read(a) if isinstance(a, list | tuple) else a for a in args)
        elif func in READERS_OF_LENGTHS and type(args[1]) is LazyTensor:
            args = (args[0], _read(args[1]), *args[2:])
        elif func in _READERS_OF_INDICES:
            args = (*args[:1], *map(_read, args[1:]))
            kwargs = {n: _read(a) if n in _INDICES else a for n, a in (kwargs or {}).items()}
        return func(*args, **(kwargs or {}))


def _may_read_now(tensor: torch.Tensor) -> bool:
    """Return whether a number of the host may be read; optimizers do so for each parameter."""
    with DisableTorchFunction():
        return count_dispatch_modes() == 1 and is_number(tensor)


def _read(argument: Any) -> Any:
    """Return an argument with real tensors; lists may hold them."""
    return map_tensors(argument, lambda tensor: observe(tensor, "a look at indices or elements"))
