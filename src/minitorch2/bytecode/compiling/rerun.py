"""Rerun a frame in Python if its compiled graph raises.

A graph runs before all side effects of its frame. An operator may raise: an index out of range, a
singular matrix, a failed `torch._check`. Then nothing was done yet, and CPython can run the frame
from its start. So the side effects that come before the operator happen, the user's own handlers
see the exception, and the traceback leads to the user's line.

A graph that writes to its inputs when nothing can fail any more has changed nothing, either. If a
graph writes in between, its inputs and the random generators get back their former state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final

import torch
from torch.profiler import record_function

from minitorch2.bytecode.compiling.backend_calls import is_suppressible
from minitorch2.bytecode.compiling.isolation import ThreadState
from minitorch2.bytecode.frames.skip_files import PACKAGE
from minitorch2.bytecode.frames.steps import calling_all_positionally
from minitorch2.bytecode.operators.fake_call import STATE_CHANGES
from minitorch2.errors import MinitorchError
from minitorch2.errors.cautions import caution
from minitorch2.foundation.generated_code import is_generated
from minitorch2.graph.effects import is_random
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.graph.runtime_checks import SuppositionError
from minitorch2.logs import get_logger
from minitorch2.native.cpython import frame_hook
from minitorch2.native.torch_internals.gradients import innermost_saved_tensor_hooks

_LOGGER = get_logger(__name__)


def writes_late(compiled: Callable[..., Any], writes_tensors: bool) -> bool:
    """Return whether a graph that has raised has changed nothing.

    Args:
        compiled: the function that the backend made; its attribute `writes_last` says that it
            computes everything before it writes to its inputs.
        writes_tensors: whether the graph writes to any.
    """
    return not writes_tensors or getattr(compiled, "writes_last", False)


KEEPING: Final = "minitorch2: keep what the graph will write to"
"""The name of the copies in a profile."""


@dataclass(frozen=True)
class Undoing:
    """A graph that leaves everything as it was if it raises.

    Attributes:
        compiled: the function that the backend made.
        written: the inputs that it writes to.
        generators: the random generators that it draws from.
    """

    compiled: Callable[..., Any]
    written: Sequence[int]
    generators: Sequence[torch.Generator]

    def __call__(self, *inputs: torch.Tensor) -> Any:
        """Return the outputs of the graph."""
        with record_function(KEEPING):
            before = [(inputs[place], inputs[place].detach().clone()) for place in self.written]
            states = [(generator, generator.get_state()) for generator in self.generators]
        try:
            return self.compiled(*inputs)
        except Exception:
            with torch.no_grad():
                for tensor, value in before:
                    tensor.copy_(value)
            for generator, state in states:
                generator.set_state(state)
            raise


def undoing(
    compiled: Callable[..., Any], inputs: Sequence[Node], generators: Sequence[torch.Generator]
) -> Callable[..., Any] | None:
    """Wrap a graph so that it undoes its writes if it raises; None if autograd recorded one.

    Args:
        compiled: the function that the backend made.
        inputs: the inputs that it may have written to when it raises.
        generators: the random generators that it draws from.
    """
    tensors = [v for node in inputs if isinstance(v := node.meta["val"], torch.Tensor)]
    if any(v.is_inference() or (v.requires_grad and not v.is_leaf) for v in tensors):
        return None
    written = [place for place, node in enumerate(inputs) if is_written(node)]
    return Undoing(compiled, written, generators) if written or generators else compiled


def restoring(compiled: Callable[..., Any], module: GraphModule) -> Callable[..., Any]:
    """Wrap a graph so that it leaves the modes of PyTorch that it has entered if it raises.

    Compiled code of a backend that traces, marked by `writes_last`, enters no modes when it is
    called.
    """
    enters = any(node.target in STATE_CHANGES for node in module.graph.nodes)
    if not enters or getattr(compiled, "writes_last", False):
        return compiled

    def run(*inputs: Any) -> Any:
        state = ThreadState.now()
        try:
            return compiled(*inputs)
        except BaseException:
            state.restore()
            raise

    return run


def is_written(node: Node) -> bool:
    """Return whether the graph writes to an input."""
    return getattr(node.meta["val"], "last_write", None) is not None


def generators_of(module: GraphModule) -> list[torch.Generator]:
    """Return PyTorch's own generators that the graph draws from."""
    values = [node.meta.get("val") for node in module.graph.nodes if is_random(node)]
    devices = {value.device for value in values if isinstance(value, torch.Tensor)}
    of_gpus, of_cpu = torch.cuda.default_generators, torch.default_generator
    return [of_gpus[place.index] if place.type == "cuda" else of_cpu for place in devices]


def _raised_by_hook(error: Exception) -> bool:
    """Return whether a hook on saved tensors has raised: it must not see them a second time.

    A checkpoint's hook ends the recomputation with an exception. Operators raise from C++, called
    by generated code.
    """
    if innermost_saved_tensor_hooks(True) is None:
        return False
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    file = "" if place is None else place.tb_frame.f_code.co_filename
    return not (is_generated(file) or file.startswith(PACKAGE))


@dataclass(eq=False)
class Rerun:
    """The Python run of a function's frames whose graph has raised.

    Attributes:
        function: the user's function, or the rest of one.
        handles_errors: whether it may go on behind the operator that raised.
        blame: is told that the backend is at fault; None if that is an error.
        give_up: replaces the backend's compiled code by the graph as it is.
    """

    function: FunctionType
    handles_errors: bool
    blame: Callable[[str], None] | None = None
    give_up: Callable[[], None] = lambda: None
    _has_cautioned: bool = False

    def __call__(self, error: Exception, *values: object) -> object:
        """Run the frame in Python and return its result.

        Args:
            error: the exception that the graph raised.
            values: the values of all parameters, in the order of their slots.

        Raises:
            Exception: the program's own; or `error`, if Python has none to raise and failures of
                backends are not suppressed. Exceptions of hooks on saved tensors come through.
        """
        if _raised_by_hook(error) or not is_suppressible(error):
            raise error
        with frame_hook.disabled():
            result = calling_all_positionally(self.function)(*values)
        if isinstance(error, SuppositionError):
            self._tell_of(error)
        elif not self.handles_errors or isinstance(error, MinitorchError):
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
        if self.blame is None:
            raise error
        self.give_up()
        name = self.function.__qualname__
        self.blame(f"the compiled graph of {name} raised {error!r}, Python does not")
