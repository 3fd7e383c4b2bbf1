"""Named pieces of memory, and the list of them that lowering builds.

    buffer ::= InputBuffer(name, layout)                          an argument of the graph
            |  ConstantBuffer(name, layout, value)                a tensor attribute of the graph
            |  ComputedBuffer(name, layout, loops)                generated code fills it
            |  ExternKernel(name, layout, target, args, kwargs)   a library call makes or fills it
            |  MultiOutput(name, layout, kernel, position)        one result of such a call
            |  HostCall(name, layout, target, args, kwargs)       a call that makes no tensor
            |  ReinterpretedBuffer(name, layout, base)            another layout on base's memory
    arg    ::= BufferView(buffer, layout) | expr | number | dtype | ... | tuple or list of arg

`ComputedBuffer.layout` is the only field that is written after construction: from flexible to
fixed, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import sympy
import torch

from minitorch2.foundation.blocks import holding
from minitorch2.graph.functional_call import FunctionalCall
from minitorch2.graph.node import Node
from minitorch2.graph.symbols.conditions import Condition
from minitorch2.logs import get_logger
from minitorch2.loopir.layout import FixedLayout, Layout, Size
from minitorch2.loopir.loops import Index, Loops, Scatter

_LOGGER = get_logger(__name__)
Origins = tuple[Node, ...]
ExternArgument: TypeAlias = Any  # `arg` of the grammar; Python has no closed recursive type for it


@dataclass(eq=False)
class Buffer:
    """Memory with a name. `origins` are the graph nodes whose result it holds or computes.

    `symbols` are the sizes known only once the buffer is computed, each with its dimension.
    """

    name: str
    layout: Layout
    origins: Origins = field(default=(), kw_only=True)
    symbols: dict[sympy.Symbol, int] = field(default_factory=dict, kw_only=True)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the elements in memory."""
        return self.layout.dtype

    @property
    def device(self) -> torch.device:
        """The device of the memory."""
        return self.layout.device

    @property
    def size(self) -> Size:
        """The logical size."""
        return self.layout.size

    def fixed_layout(self, stride: Size | None = None) -> FixedLayout:
        """Return the layout with decided strides. If they are still open, they are decided now.

        `stride` is a wish: it counts only while the layout is flexible.
        """
        if not isinstance(self.layout, FixedLayout):
            self.layout = self.layout.fix(stride)
        return self.layout


@dataclass(eq=False)
class InputBuffer(Buffer):
    """An argument of the graph. Its offset is 0: kernels get the address of the first element.

    ``donated``: nothing else reads the memory afterwards; it may be written after its last use.
    ``becomes``: the graph's output that the caller will copy into it; it may be written there.
    """

    donated: bool = False
    becomes: int | None = None


@dataclass(eq=False)
class ConstantBuffer(Buffer):
    """A tensor that belongs to the graph."""

    value: torch.Tensor


@dataclass(eq=False)
class ComputedBuffer(Buffer):
    """Memory that generated loops fill."""

    loops: Loops

    @property
    def base(self) -> str | None:
        """The buffer whose memory, contents included, this one must take over."""
        return self.loops.base if isinstance(self.loops, Scatter) else None

    def run(self, index: Index, reduction_index: Index = ()) -> None:
        """Execute the loop body, with its store, once under the current ops handler."""
        self.loops.run(self.name, self.fixed_layout(), index, reduction_index)


@dataclass(eq=False)
class ReinterpretedBuffer(Buffer):
    """Another layout on the memory of `base`, whose name it has, as made by `as_strided`."""

    base: Buffer


@dataclass(frozen=True)
class BufferView:
    """A strided window on a buffer's memory, as a library call or the caller sees it."""

    buffer: Buffer
    layout: FixedLayout

    @property
    def name(self) -> str:
        """The buffer's name."""
        return self.buffer.name

    def is_whole(self) -> bool:
        """Return whether the window is the buffer itself."""
        return self.layout == self.buffer.layout


@dataclass(eq=False)
class ExternKernel(Buffer):
    """A call of an operator: `target(*args, **kwargs)`.

    With `out_variant` the result is written into planned memory of `layout`:
    `out_variant(*args, **kwargs, out=buffer)`. Without it the call allocates its own result. If
    that result's strides are not the expected `layout`'s, or `copies_result` says that it aliases
    an input, the caller copies it into `layout`.

    `outputs` lists the `MultiOutput` buffers of a call that gives several tensors; `layout` is
    then that of the first one and the kernel itself has no memory.
    """

    target: Callable[..., Any]
    args: tuple[ExternArgument, ...]
    kwargs: dict[str, ExternArgument]
    out_variant: Callable[..., Any] | None = None
    outputs: list[MultiOutput] = field(default_factory=list)
    has_side_effects: bool = False
    copies_result: bool = False
    is_fallback: bool = False

    def views(self) -> list[BufferView]:
        """Return the tensors that the call reads, left to right."""
        return list(_views_in((self.args, self.kwargs)))

    def given_away(self) -> dict[str, str]:
        """Return, for results that are written arguments themselves, the arguments' buffers."""
        if not isinstance(self.target, FunctionalCall) or not self.target.owned:
            return {}
        places = list(self.target.written)
        end = 1 + max(output.position[0] for output in self.outputs)  # what is written comes last
        last = {o.name: places[o.position[0] - end] for o in self.outputs[-len(places) :]}
        owned = {name: place for name, place in last.items() if place in self.target.owned}
        return {n: view.name for n, i in owned.items() for view in _views_in(self.args[i])}


@dataclass(eq=False)
class HostCall(ExternKernel):
    """A call that reads a number out of memory, or checks a condition: it makes no tensor.

    The number is the value of the one symbol in `symbols`.
    """


@dataclass(eq=False)
class MultiOutput(Buffer):
    """`kernel's result[position]`, where position is a path through nested tuples."""

    kernel: ExternKernel
    position: tuple[int, ...]


def settles_numbers(buffer: Buffer) -> bool:
    """Return whether later code relies on the buffer unread: it sets symbols, or is a check."""
    return bool(buffer.symbols) or isinstance(buffer, HostCall)


def _views_in(argument: ExternArgument) -> Iterator[BufferView]:
    if isinstance(argument, BufferView):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for item in argument:
            yield from _views_in(item)
    elif isinstance(argument, dict):
        yield from _views_in(list(argument.values()))


@dataclass(frozen=True)
class RealizeDecision:
    """The reason why a value was given memory, or why its readers recompute it."""

    name: str
    stored: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {'stored' if self.stored else 'inlined'}, {self.reason}"


class BufferTable:
    """The buffers of the graph being lowered, in the order in which they can be computed.

    While a node is lowered, `origins` are the nodes whose results are being computed, and `result`
    is the node's fake result with the expected size, dtype and device. `known` decides a condition
    on sizes by the guards.
    """

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.decisions: list[RealizeDecision] = []
        self.origins: Origins = ()
        self.result: Any = None
        self.known: Callable[[Condition], bool | None] = lambda condition: None
        self._computed = 0

    @contextmanager
    def working_for(self, inlined: Origins) -> Iterator[None]:
        """Record buffers made in the block as results of the nodes `inlined` and of the current
        node.
        """
        before = self.origins
        self.origins = tuple(dict.fromkeys((*inlined, *before[-1:])))
        yield
        self.origins = before

    def next_name(self) -> str:
        """Return a fresh name: buf0, buf1, ..."""
        self._computed += 1
        return f"buf{self._computed - 1}"

    def add(self, buffer: Buffer) -> None:
        """Append a buffer; all buffers that it reads have been appended before."""
        self.buffers.append(buffer)

    def decide(self, name: str, *, stored: bool, reason: str) -> None:
        """Keep and log one decision to store or to recompute (slides, "rematerialize vs reuse")."""
        self.decisions.append(RealizeDecision(name, stored, reason))
        _LOGGER.debug("%s: %s because %s", name, "stored" if stored else "inlined", reason)


_TABLE: ContextVar[BufferTable] = ContextVar("buffer_table")


def current_table() -> BufferTable:
    """Return the table of the graph being lowered on this thread.

    Raises:
        LookupError: nothing is being lowered.
    """
    return _TABLE.get()


def use_table(table: BufferTable) -> AbstractContextManager[BufferTable]:
    """Register buffers in `table` inside the block."""
    return holding(_TABLE, table)
