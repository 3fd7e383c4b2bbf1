"""What happens if a compiled graph raises: the frame runs again, in Python.

A graph runs before all side effects of its frame. If one of its operators raises - an index out of
range, a singular matrix, a failed `torch._check` - then nothing was done yet, and CPython itself
can run the frame from its start: the side effects that come before the operator happen, the user's
own handlers see the exception, and the traceback leads to the user's line. Only random numbers are
drawn a second time.

A graph that writes to its inputs when nothing can fail any more has changed nothing, either. One
that writes in between gets them back as they were, where somebody could tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final

import torch
from torch.profiler import record_function

from minitorch2 import config
from minitorch2.bytecode.machine import frame_hook
from minitorch2.bytecode.skip_files import PACKAGE
from minitorch2.bytecode.steps import calling_all_positionally
from minitorch2.cautions import caution
from minitorch2.generated_code import is_generated
from minitorch2.graph.node import Node
from minitorch2.graph.runtime_checks import SuppositionError
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)


def writes_late(compiled: Callable[..., Any], writes_tensors: bool) -> bool:
    """Whether a graph that has raised has changed nothing.

    Args:
        compiled: what the backend made; its attribute `writes_last` says that it computes
            everything before it writes to its inputs.
        writes_tensors: whether the graph writes to any.
    """
    return not writes_tensors or getattr(compiled, "writes_last", False)


KEEPING: Final = "minitorch2: keep what the graph will write to"
"""How a profile calls the copies."""


@dataclass(frozen=True)
class Undoing:
    """A graph that leaves its inputs as they were if it raises.

    Attributes:
        compiled: what the backend made.
        written: the inputs that it writes to.
    """

    compiled: Callable[..., Any]
    written: Sequence[int]

    def __call__(self, *inputs: torch.Tensor) -> Any:
        """The outputs of the graph."""
        with record_function(KEEPING):
            before = [(inputs[place], inputs[place].detach().clone()) for place in self.written]
        try:
            return self.compiled(*inputs)
        except Exception:
            with torch.no_grad():
                for tensor, value in before:
                    tensor.copy_(value)
            raise


def undoing(compiled: Callable[..., Any], inputs: Sequence[Node]) -> Undoing | None:
    """A graph that gives back what it has written to; None if autograd has recorded a write."""
    values = [node.meta["val"] for node in inputs]
    tensors = [(place, v) for place, v in enumerate(values) if isinstance(v, torch.Tensor)]
    if any(v.is_inference() or (v.requires_grad and not v.is_leaf) for _, v in tensors):
        return None
    return Undoing(compiled, [place for place, value in tensors if value._version])


def _raised_by_hook(error: Exception) -> bool:
    """Whether a hook on saved tensors has raised: it must not see them a second time.

    A checkpoint's hook ends the recomputation so. What operators raise comes from C++, called by
    generated code.
    """
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is None:
        return False
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    file = "" if place is None else place.tb_frame.f_code.co_filename
    return not (is_generated(file) or file.startswith(PACKAGE))


@dataclass(eq=False)
class Rerun:
    """Runs the frames of a function whose graph has raised.

    Attributes:
        function: the user's, or the rest of one.
        handles_errors: whether it may go on behind the operator that raised.
    """

    function: FunctionType
    handles_errors: bool
    _has_cautioned: bool = False

    def __call__(self, error: Exception, *values: object) -> object:
        """The frame's own result.

        Args:
            error: what the graph raised.
            values: those of all parameters, in the order of their slots.

        Raises:
            Exception: the program's own; or `error`, if Python has none to raise and internal
                errors are not suppressed: then the backend is at fault. What a hook on saved
                tensors has raised is raised at once.
        """
        if _raised_by_hook(error):
            raise error
        with frame_hook.disabled():
            result = calling_all_positionally(self.function)(*values)
        if isinstance(error, SuppositionError):
            self._tell_of(error)
        elif not self.handles_errors:
            self._blame_backend(error)
        return result

    def _tell_of(self, error: SuppositionError) -> None:
        name = self.function.__qualname__
        message = f"{name}: {error}; a call that does not meet it ran in Python"
        _LOGGER.info(message)
        if not self._has_cautioned:
            self._has_cautioned = True
            caution(_LOGGER, message)

    def _blame_backend(self, error: Exception) -> None:
        if not config.current().suppress_errors:
            raise error
        name = self.function.__qualname__
        caution(_LOGGER, f"the compiled graph of {name} raised {error!r}, Python does not")
