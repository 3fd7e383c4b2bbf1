"""Windows: views by `as_strided`, which may show more of a base than the view they are taken of.

    window ::= part.as_strided(size, stride, offset)       part is a view of base

Autograd computes the gradient of a window in one of two ways:

    before a write to base      of the elements of part; others have no gradient
    behind a write to base      of all elements of the window, as `base.as_strided(...)` has it

For tensors of Python classes PyTorch makes the second of the operators of all views, those of part
included, and so loses elements. In a region a window is a view of the base with the history of the
window on part. Outside of regions nobody sees the call before autograd does: a write is refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import torch

from minitorch2.errors import UnsupportedError
from minitorch2.graph.fake_tensor import flat
from minitorch2.graph.user_lines import user_line
from minitorch2.lazy.plan import Plan
from minitorch2.lazy.step import memory_of
from minitorch2.lazy.value import LazyTensor, undeferred
from minitorch2.native.torch_internals.gradients import CreationMeta, set_creation_meta

OPENERS: Final[set[Any]] = {torch.as_strided, torch.Tensor.as_strided}
"""The functions that make windows."""


def on_base(part: Any, narrow: torch.Tensor) -> torch.Tensor:
    """Return the window on the base of a part, with the history of the window on the part.

    Args:
        part: the tensor that the window was taken of.
        narrow: the window on it, as PyTorch has made it.
    """
    base = narrow._base
    if type(narrow) is not LazyTensor or base is None or base is part or base.dtype != narrow.dtype:
        return narrow
    if not _shows_memory_of(narrow, base):  # which an assignment to `data` has replaced, or `set_`
        return narrow
    if not narrow.requires_grad:
        return _same_form(base, narrow)
    made: torch.Tensor = AsStrided.apply(narrow, (base,))  # type: ignore[no-untyped-call]
    set_creation_meta(made, CreationMeta.DEFAULT)
    return made


def _shows_memory_of(narrow: LazyTensor, base: torch.Tensor) -> bool:
    """Return whether a view shows the memory that its base has now."""
    root = narrow.value.root
    if type(base) is LazyTensor:
        return root is base.value.root
    return root.data is not None and memory_of(root.data) == memory_of(base)


class AsStrided(torch.autograd.Function):
    """A window on the base, whose gradient goes to the window on the part."""

    @staticmethod
    def forward(ctx: Any, narrow: torch.Tensor, base: tuple[torch.Tensor]) -> torch.Tensor:
        """Return the window on the base, which is in a tuple since it gets no gradient here."""
        return _same_form(base[0], narrow)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient as it is."""
        return gradient, None


def _same_form(base: torch.Tensor, narrow: torch.Tensor) -> torch.Tensor:
    return torch.as_strided(base, narrow.size(), narrow.stride(), narrow.storage_offset())


# Outside of regions -------------------------------------------------------------------------------


Form: TypeAlias = "tuple[Sequence[int], Sequence[int], int]"
"""Size, stride, and where the first element lies."""


class _Window(NamedTuple):
    tensor: weakref.ref[LazyTensor]
    part: Form
    line: str


WINDOWS: Final[dict[int, _Window]] = {}
"""The windows on parts that live, by the identity of their tensors."""


def note_window(part: Any, window: LazyTensor | None) -> None:
    """Remember a window until it dies, if it was taken of a view."""
    if window is not None and type(part) is LazyTensor and part._base is not None:
        key = id(window)
        tensor = weakref.ref(window, lambda _: WINDOWS.pop(key, None))
        WINDOWS[key] = _Window(tensor, _form_of(part), str(user_line() or "an unknown line"))


def check_windows(plan: Plan, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Refuse a write behind which autograd would lose a part of a window's gradient.

    Raises:
        UnsupportedError: it is such a write. Nothing is written.
    """
    tensors = [t for t in flat((*args, *kwargs.values())) if isinstance(t, torch.Tensor)]
    gives = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    written = [t.value.root for t in plan.written_by(args, kwargs) if type(t) is LazyTensor]
    for reference, part, line in [*WINDOWS.values()]:
        window = reference()
        if window is None or not (gives or window.requires_grad):
            continue
        if window.value.root in written and _shows_more(_form_of(window), part):
            raise UnsupportedError(
                f"{plan.func} writes to memory that a window by as_strided shows, taken at {line}. "
                "The window shows more than the view that it was taken of, so its gradient "
                "would be wrong behind the write. Take it of that view's base, or run the program "
                "in minitorch2.lazily()."
            )


def _form_of(tensor: torch.Tensor) -> Form:
    return tensor.size(), tensor.stride(), int(tensor.storage_offset())


def _shows_more(window: Form, part: Form) -> bool:
    """Return whether a window shows elements that a part does not show."""
    with undeferred():
        memory = torch.arange(max(_end(window), _end(part)), device="cpu")
        return not bool(torch.isin(memory.as_strided(*window), memory.as_strided(*part)).all())


def _end(form: Form) -> int:
    """Return the place behind the last element of a form."""
    size, stride, first = form
    return first + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
