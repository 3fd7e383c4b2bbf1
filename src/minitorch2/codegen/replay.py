"""Replay the launches of a graph instead of repeating them: CUDA graphs.

A compiled graph does the same launches each time. If it is short, the host takes longer to request
them than the GPU takes to run them. A CUDA graph records the launches once, with the addresses that
they read and write, and replays them with one call (PyTorch 2 paper, section 4.7).

    Replayed   ::= call, recordings                a call that is recorded when it comes again
    Recording  ::= graph, fixed, copied, outputs   one record of its launches
    fixed      ::= the addresses of arguments that a recording reads where they are, or 0
    copied     ::= its own copies of arguments that come from elsewhere each time
    outputs    ::= its own memory, which it writes at each replay

Four rules make sure that a replay never reads or writes a wrong address:

1. An argument is read where it is while it stays there, as parameters do. One that has moved is
   copied from then on.
2. A result stays as it is while anyone holds it. A recording whose results are still held is not
   replayed; another one is made. So no result is ever overwritten, and gradients may accumulate.
3. Results of a recording that are arguments of another graph (activations that backward needs) do
   not count as moved: they choose the recording that was made for them.
4. A call that cannot be recorded (varying sizes, CPU tensors, over `MOST_RECORDINGS`) runs
   as if this file did not exist, and the log says why.

A graph that writes to its inputs needs no rule: graphs are functional, and the written values are
copied to the input after the replay.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakSet, WeakValueDictionary

import sympy
import torch

from minitorch2 import stages
from minitorch2.graph.compiled_graph import BoxedCall
from minitorch2.logs import get_logger
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.lower_graph import LoweredGraph
from minitorch2.native.torch_internals.gradients import count_users_of_storage

_LOGGER = get_logger(__name__)
MOST_RECORDINGS = 8
"""Of one graph: for results that are held at once, and for arguments that moved."""
Alias = tuple[int, int]
"""Which argument a result lies in, and how many elements behind its first one."""
_CALLS: WeakSet[Replayed] = WeakSet()
_OWNED: set[int] = set()
"""The addresses of all results of all recordings; they never move."""


def why_not_replayed(lowered: LoweredGraph) -> str | None:
    """Return the reason why a graph's launches cannot be recorded, or None if they can."""
    values = [v for v in (*lowered.inputs, *lowered.buffers) if isinstance(v, Buffer)]
    if any(isinstance(value, sympy.Basic) for value in lowered.inputs) or any(
        isinstance(size, sympy.Basic) for value in values for size in value.size
    ):
        return "its sizes vary"
    devices = {value.device for value in (*values, *lowered.constants.values())}
    if any(device.type != "cuda" for device in devices):
        return "it has tensors on the CPU"
    if len(devices) != 1:
        return "its tensors are on several GPUs" if devices else "it computes nothing"
    return None if lowered.buffers else "it computes nothing"


def replayed(call: BoxedCall, lowered: LoweredGraph) -> BoxedCall:
    """Return the call, recorded and replayed if that is possible; log the reason if it is not."""
    reason = why_not_replayed(lowered)
    if reason is not None:
        _refuse(reason)
        return call
    (device,) = {b.device.index or 0 for b in lowered.buffers}
    return Replayed(call, CudaRecorder(device))


def _refuse(reason: str) -> None:
    stages.count("cudagraphs_refused")
    stages.record("cudagraphs.txt", f"launched, not replayed: {reason}")
    _LOGGER.warning("a graph is launched, not replayed: %s", reason)


@dataclass
class Recording:
    """One record of a call, and the memory that it works in."""

    graph: _CudaGraph
    stream: int
    fixed: list[int]
    copies: dict[int, torch.Tensor]
    outputs: list[Any]
    aliases: dict[int, Alias]

    def __post_init__(self) -> None:
        tensors = {i: o for i, o in enumerate(self.outputs) if isinstance(o, torch.Tensor)}
        self._own = [(i, tensor) for i, tensor in tensors.items() if i not in self.aliases]
        _OWNED.update(tensor.data_ptr() for _, tensor in self._own)
        self._storages = [*{tensor.untyped_storage()._cdata for _, tensor in self._own}]
        self._idle = [*map(count_users_of_storage, self._storages)]

    def fits(self, addresses: list[int], stream: int) -> bool:
        """Return whether the arguments that it reads in place are at the recorded addresses.

        The stream must be the same, too: recordings share memory, so they take turns on one stream.
        """
        return addresses == self.fixed and stream == self.stream

    def is_free(self) -> bool:
        """Return whether nothing refers to a result of the last replay any more."""
        return [*map(count_users_of_storage, self._storages)] == self._idle

    def run(self, arguments: list[Any]) -> list[Any]:
        """Copy the arguments that have moved, replay, and return the results as new tensors.

        They lie in the recording's memory.
        """
        if self.copies:
            given = [_span(arguments[position]) for position in self.copies]
            torch._foreach_copy_(list(self.copies.values()), given)
        self.graph.replay()
        results = [*self.outputs]
        for position, tensor in self._own:
            results[position] = tensor.data
        for position, (argument, distance) in self.aliases.items():
            results[position] = _placed_as(self.outputs[position], arguments[argument], distance)
        arguments.clear()
        return results


class Replayed:
    """A call that runs normally once, and is recorded when it comes again."""

    def __init__(self, call: BoxedCall, recorder: CudaRecorder) -> None:
        self.call = call
        self.recorder = recorder
        self.recordings: list[Recording] = []
        self.refusal: str | None = None
        self._last: list[int] | None = None
        self._moving: set[int] = set()
        self._made = 0
        self._holds_too_much = False
        self._lock = threading.Lock()
        _CALLS.add(self)

    def __call__(self, arguments: list[Any]) -> list[Any]:
        stream = self.recorder.stream()
        if self.refusal is not None or stream is None:
            return self.call(arguments)
        addresses = _addresses(arguments)
        with self._lock:
            for position in self._moving:
                addresses[position] = 0
            for recording in self.recordings:
                if recording.fits(addresses, stream) and recording.is_free():
                    return recording.run(arguments)
            return self._first_time(arguments, addresses, stream)

    def begin_step(self) -> None:
        """Count recordings anew, and release those whose results are still held."""
        with self._lock:
            self.recordings = [recording for recording in self.recordings if recording.is_free()]
            self._made = len(self.recordings)
            if self._holds_too_much:
                self.refusal, self._holds_too_much = None, False

    def _first_time(self, arguments: list[Any], addresses: list[int], stream: int) -> list[Any]:
        """Run, and record from the second time on: no recording fits the arguments."""
        last, self._last = self._last, addresses
        if last is None:  # loads kernels and libraries, which a recording must not
            return self.call(arguments)
        self._note_moves(last, addresses)
        if self._made == MOST_RECORDINGS:
            self._holds_too_much = True
            self._give_up(f"results of {len(self.recordings)} calls are held, or addresses change")
            return self.call(arguments)
        return self._record(arguments, addresses, stream)

    def _note_moves(self, last: list[int], addresses: list[int]) -> None:
        """Copy from now on the arguments that have moved since the last recording."""
        pairs = enumerate(zip(last, addresses, strict=True))
        moved = {i for i, (old, new) in pairs if old != new and new not in _OWNED}
        for position in moved:
            addresses[position] = 0
        if moved:
            self._moving |= moved
            self.recordings.clear()

    def _record(self, arguments: list[Any], addresses: list[int], stream: int) -> list[Any]:
        copies = {i: _span(arguments[i]).clone() for i in sorted(self._moving)}
        read = [
            _placed_as(argument, copies[i]) if i in copies else argument
            for i, argument in enumerate(arguments)
        ]
        try:
            graph, outputs = self.recorder.record(self.call, list(read))
            aliases = _aliases(outputs, read)  # sparse results have no memory of their own
        except RuntimeError as error:
            self._give_up(f"recording failed: {str(error).splitlines()[0]}")
            return self.call(arguments)
        del read
        self._made += 1
        stages.count("cudagraphs_recorded")
        flat = {i: _span(copy) for i, copy in copies.items()}
        self.recordings.append(Recording(graph, stream, addresses, flat, outputs, aliases))
        return self.recordings[-1].run(arguments)

    def _give_up(self, reason: str) -> None:
        self.refusal = reason
        self.recordings.clear()
        _refuse(reason)


def begin_step() -> None:
    """Begin a step of the program: results still held no longer prevent recording."""
    for call in list(_CALLS):
        call.begin_step()


def _addresses(arguments: list[Any]) -> list[int]:
    """Return the addresses of tensors; 0 for numbers."""
    try:
        return [*map(torch.Tensor.data_ptr, arguments)]
    except TypeError:
        return [a.data_ptr() if isinstance(a, torch.Tensor) else 0 for a in arguments]


def _span(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's memory from its first to its last element, with gaps, as a vector."""
    if tensor.numel() == 0:
        return tensor.flatten()
    steps = zip(tensor.size(), tensor.stride(), strict=True)
    length = 1 + sum((size - 1) * stride for size, stride in steps)
    return tensor.detach().as_strided((length,), (1,))


def _placed_as(like: torch.Tensor, memory: torch.Tensor, distance: int = 0) -> torch.Tensor:
    """Return a tensor with the size and strides of `like`, placed in `memory`.

    It begins `distance` elements behind the first one of `memory`.
    """
    return memory.as_strided(like.size(), like.stride(), memory.storage_offset() + distance)


def _aliases(outputs: Sequence[Any], arguments: Sequence[Any]) -> dict[int, Alias]:
    """Return the results that lie in the memory of arguments."""
    given = {
        a.untyped_storage()._cdata: i
        for i, a in enumerate(arguments)
        if isinstance(a, torch.Tensor)
    }
    found: dict[int, Alias] = {}
    for i, output in enumerate(outputs):
        if isinstance(output, torch.Tensor) and output.untyped_storage()._cdata in given:
            argument = given[output.untyped_storage()._cdata]
            distance = output.storage_offset() - arguments[argument].storage_offset()
            found[i] = (argument, distance)
    return found


@dataclass(eq=False)
class _Pool:
    """The memory that the recordings of one device and stream share, and the stream to record on.

    All of it except results is free after each replay, for the next graph. A pool lives as long as
    a recording in it: PyTorch takes no new ones into a pool that has lost all.
    """

    handle: Any
    stream: torch.cuda.Stream


class _CudaGraph:
    """A recorded graph, which keeps its pool."""

    def __init__(self, graph: torch.cuda.CUDAGraph, pool: _Pool) -> None:
        self.replay = graph.replay
        self.pool = pool


class CudaRecorder:
    """The recorder of CUDA graphs on one device."""

    _pools: ClassVar[WeakValueDictionary[tuple[int, int], _Pool]] = WeakValueDictionary()

    def __init__(self, device: int) -> None:
        self.device = device

    def stream(self) -> int | None:
        """Return the current stream, unless the caller is recording."""
        if torch.cuda.is_current_stream_capturing():
            return None
        return torch.cuda.current_stream(self.device).cuda_stream

    def record(self, call: BoxedCall, arguments: list[Any]) -> tuple[_CudaGraph, list[Any]]:
        """Record a call without doing it; return the replay, and the tensors of its results.

        Raises:
            RuntimeError: something in it cannot be recorded, as waiting for the GPU.
        """
        generator = torch.cuda.default_generators[self.device]
        state = generator.clone_state()
        try:
            with torch.cuda.device(self.device):
                return self._record(self._pool(), call, arguments)
        except BaseException:  # a recording that fails would leave the generator in its mode
            generator.graphsafe_set_state(state)
            raise

    def _pool(self) -> _Pool:
        key = (self.device, torch.cuda.current_stream(self.device).cuda_stream)
        pool = self._pools.get(key)
        if pool is None:
            handle = torch.cuda.graph_pool_handle()
            pool = self._pools[key] = _Pool(handle, torch.cuda.Stream())  # type: ignore[no-untyped-call]
        return pool

    def _record(
        self, pool: _Pool, call: BoxedCall, arguments: list[Any]
    ) -> tuple[_CudaGraph, list[Any]]:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.stream(pool.stream), torch.no_grad():
            graph.capture_begin(pool=pool.handle, capture_error_mode="thread_local")
            try:
                outputs = call(arguments)
            finally:
                graph.capture_end()
        return _CudaGraph(graph, pool), outputs
