"""Replaying: the rules about addresses and lives of results, with a recorder for the CPU.

On a GPU the same programs run with CUDA graphs.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.autograd import aot_autograd, partition
from minitorch2.autograd.runtime import run_as_it_is
from minitorch2.codegen import replay
from minitorch2.codegen.replay import Recording, Replayed


@dataclass
class _Repeat:
    call: Callable[[list[Any]], list[Any]]
    arguments: list[Any]
    outputs: Sequence[Any]

    def replay(self) -> None:
        for output, new in zip(self.outputs, self.call(list(self.arguments)), strict=True):
            if isinstance(output, torch.Tensor) and output.data_ptr() != new.data_ptr():
                output.copy_(new)


class CpuRecorder:
    """Repeats a call into the memory of its first results, as a CUDA graph would."""

    def __init__(self) -> None:
        self.records = 0

    def stream(self) -> int | None:
        return 0

    def record(self, call: Any, arguments: list[Any]) -> tuple[Any, list[Any]]:
        self.records += 1
        outputs = call(list(arguments))
        return _Repeat(call, [_at_address(a) for a in arguments], outputs), outputs


def _at_address(argument: Any) -> Any:
    """What lies at the address of an argument, without holding its memory."""
    if not isinstance(argument, torch.Tensor) or not argument.numel():
        return argument
    length = replay._span(argument).numel() * argument.itemsize
    memory = (ctypes.c_char * length).from_address(argument.data_ptr())
    flat = torch.frombuffer(memory, dtype=argument.dtype)
    return flat.as_strided(argument.size(), argument.stride())


def affine(arguments: list[Any]) -> list[Any]:
    x, w = arguments
    arguments.clear()
    return [x * w + 1]


def replayed(call: Any) -> tuple[Replayed, CpuRecorder]:
    recorder = CpuRecorder()
    return Replayed(call, recorder), recorder


def test_the_second_call_is_recorded_and_later_ones_are_replayed() -> None:
    x, w = torch.randn(5), torch.randn(5)
    fast, recorder = replayed(affine)
    for _ in range(5):
        x.normal_()
        arguments = [x, w]
        (result,) = fast(arguments)
        assert torch.equal(result, x * w + 1) and arguments == []
        del result
    assert recorder.records == 1 and not fast.recordings[0].copies


def test_an_argument_that_moves_is_copied_and_the_others_are_not() -> None:
    w = torch.randn(5)
    fast, recorder = replayed(affine)
    kept = []
    for _ in range(6):
        kept.append(torch.randn(5))
        assert torch.equal(fast([kept[-1], w])[0], kept[-1] * w + 1)
    assert recorder.records == 1
    assert list(fast.recordings[0].copies) == [0]
    assert fast.recordings[0].fixed == [0, w.data_ptr()]


def test_results_that_are_held_are_never_overwritten() -> None:
    x, w = torch.randn(5), torch.randn(5)
    fast, recorder = replayed(affine)
    held = []
    for _ in range(4):
        x.normal_()
        held.append((fast([x, w])[0][1:], (x * w + 1)[1:]))  # a view holds its memory, too
    assert all(torch.equal(got, expected) for got, expected in held)
    held.clear()
    for _ in range(10):
        fast([x, w])
    assert recorder.records == 3


def test_one_who_holds_everything_gets_launches_and_a_reason(caplog: Any) -> None:
    x, w = torch.randn(5), torch.randn(5)
    fast, recorder = replayed(affine)
    held = []
    for _ in range(20):
        x.normal_()
        held.append((fast([x, w])[0], x * w + 1))
    assert all(torch.equal(got, expected) for got, expected in held)
    assert recorder.records == replay.MOST_RECORDINGS
    assert "results of 8 calls are held" in caplog.text


def test_a_new_step_records_again_what_was_given_up() -> None:
    x, w = torch.randn(5), torch.randn(5)
    fast, recorder = replayed(affine)
    held = [(fast([x.normal_(), w])[0], x * w + 1) for _ in range(20)]
    assert fast.refusal is not None
    minitorch2.cudagraph_mark_step_begin()
    assert fast.refusal is None and not fast.recordings
    for _ in range(5):
        assert torch.equal(fast([x.normal_(), w])[0], x * w + 1)
    assert recorder.records == replay.MOST_RECORDINGS + 1
    assert all(torch.equal(got, expected) for got, expected in held)


def test_results_change_in_place_as_they_like() -> None:
    x, w = torch.randn(5), torch.randn(5)
    fast, _ = replayed(affine)
    for _ in range(4):
        result = fast([x, w])[0]
        assert result._version == 0
        result.add_(1)
        assert torch.equal(result, x * w + 2)


def test_results_in_the_memory_of_arguments_stay_there() -> None:
    def views(arguments: list[Any]) -> list[Any]:
        (x,) = arguments
        return [x, x[2:], x + 1, 7, None]

    fast, _ = replayed(views)
    for _ in range(5):
        x = torch.randn(6)
        same, part, new, number, nothing = fast([x])
        assert same.data_ptr() == x.data_ptr() and torch.equal(part, x[2:])
        assert part.data_ptr() == x[2:].data_ptr() and torch.equal(new, x + 1)
        assert (number, nothing) == (7, None)


def test_arguments_with_gaps_are_copied_with_their_gaps() -> None:
    fast, _ = replayed(affine)
    kept = []
    for _ in range(4):
        kept.append((torch.randn(4, 6)[:, ::2], torch.randn(3).expand(4, 3)))
        x, w = kept[-1]
        torch.testing.assert_close(fast([x, w])[0], x * w + 1)


def test_activations_choose_the_recording_that_was_made_for_them() -> None:
    """Two forwards, then two backwards: gradients of accumulated steps."""
    forward, _ = replayed(lambda a: [a[0].sin(), a[0] * 2])
    backward, recorder = replayed(lambda a: [a[0] * 3])
    x = torch.randn(5)
    for _ in range(6):
        first = forward([x.normal_()])
        expected = x * 2 * 3
        second = forward([x.normal_()])
        for results, answer in ((second, x * 2 * 3), (first, expected)):
            torch.testing.assert_close(backward([results[1]])[0], answer)
        del results, first, second
    assert recorder.records <= 3


class Training:
    """A model whose forward and backward are replayed, and the same model in eager PyTorch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(partition, "_donated", lambda *_: ())  # as on a GPU
        self.calls: list[Replayed] = []

        def recorded(gm: Any, example_inputs: Any) -> Replayed:
            self.calls.append(replayed(run_as_it_is(gm, example_inputs))[0])
            return self.calls[-1]

        torch.manual_seed(0)
        self.model = torch.nn.Sequential(*[Block() for _ in range(3)])
        self.eager = copy.deepcopy(self.model)
        backend = partial(aot_autograd, forward_compiler=recorded)
        self.fast = minitorch2.compile(self.model, backend=backend)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        """Forward and backward of both; the result."""
        expected = self.eager(x).sum()
        expected.backward()
        result: torch.Tensor = self.fast(x).sum()
        result.backward()
        torch.testing.assert_close(result, expected)
        for got, wanted in zip(self.model.parameters(), self.eager.parameters(), strict=True):
            torch.testing.assert_close(got.grad, wanted.grad)
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        for model in (self.model, self.eager):
            model.zero_grad(set_to_none)

    def recordings(self) -> list[Recording]:
        return [recording for call in self.calls for recording in call.recordings]

    def gradients_in_place(self) -> int:
        """How many gradients lie in the memory of recordings."""
        outputs = [o for recording in self.recordings() for o in recording.outputs]
        own = {o.data_ptr() for o in outputs if isinstance(o, torch.Tensor)}
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        return sum(gradient.data_ptr() in own for gradient in gradients)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.nn.functional.gelu(self.linear(x)))


def test_training_copies_the_batch_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither parameters, nor what forward keeps for backward, nor gradients."""
    training, batches = Training(monkeypatch), torch.randn(6, 4, 8).unbind()
    for x in batches:
        training.zero_grad()
        training.step(x)
    forward, backward = training.calls
    assert [len(recording.copies) for recording in forward.recordings] == [1]
    # Backward reads the batch, too, and the gradient of the result.
    assert [len(recording.copies) for recording in backward.recordings] == [2]
    assert training.gradients_in_place() == len(list(training.model.parameters()))


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_are_kept_by_whoever_holds_them(
    monkeypatch: pytest.MonkeyPatch, set_to_none: bool
) -> None:
    """Accumulated over two batches, in memory that no later replay writes to."""
    training = Training(monkeypatch)
    for number, x in enumerate(torch.randn(8, 4, 8)):
        if number % 2 == 0:
            training.zero_grad(set_to_none)
        training.step(x)
    assert not any(call.refusal for call in training.calls)
    assert all(len(recording.copies) <= 2 for recording in training.recordings())


def test_results_of_earlier_steps_may_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    training, x = Training(monkeypatch), torch.randn(4, 8)
    losses = []
    for _ in range(5):
        training.zero_grad()
        losses.append(training.step(x))
    assert all(torch.equal(loss, losses[0]) for loss in losses)


def test_what_cannot_be_recorded_is_launched(caplog: Any) -> None:
    class Failing(CpuRecorder):
        def record(self, call: Any, arguments: list[Any]) -> tuple[Any, list[Any]]:
            raise RuntimeError("operation not permitted when stream is capturing")

    x, w = torch.randn(5), torch.randn(5)
    fast = Replayed(affine, Failing())
    for _ in range(3):
        assert torch.equal(fast([x, w])[0], x * w + 1)
    assert "recording failed: operation not permitted" in caplog.text


@pytest.mark.skipif(torch.cuda.is_available(), reason="about tensors on the CPU")
def test_sparse_results_are_launched_and_not_replayed() -> None:
    """A sparse tensor has no memory of its own to which a recording could write."""
    fast, _ = replayed(lambda arguments: [arguments[0].to_sparse()])
    x = torch.eye(3)
    for _ in range(3):
        torch.testing.assert_close(fast([x])[0].to_dense(), x)
    assert "recording failed" in (fast.refusal or "")


def test_tensors_on_the_cpu_are_a_reason(caplog: Any) -> None:
    with stages.collect() as log:
        fast = minitorch2.compile(lambda x: x.sin() + 1, mode="reduce-overhead", backend="triton")
        x = torch.randn(5)
        torch.testing.assert_close(fast(x), x.sin() + 1)
    assert log.counts["cudagraphs_refused"] == 1
    assert "it has tensors on the CPU" in caplog.text


class FakeCuda:
    """The rules of PyTorch's recorder that a program on a GPU has to keep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.living: weakref.WeakSet[Any] = weakref.WeakSet()
        self.emptied: set[Any] = set()
        self.generator = SimpleNamespace(is_recording=False)
        self.generator.clone_state = lambda: False
        self.generator.graphsafe_set_state = partial(setattr, self.generator, "is_recording")
        handles, here = itertools.count(), contextlib.nullcontext()
        stream = SimpleNamespace(cuda_stream=7)
        for name, value in {
            "CUDAGraph": partial(FakeGraph, self),
            "graph_pool_handle": lambda: next(handles),
            "default_generators": [self.generator],
            "current_stream": lambda device: stream,
            "is_current_stream_capturing": lambda: False,
            "synchronize": lambda: None,
            "Stream": lambda: stream,
            "stream": lambda _: here,
            "device": lambda _: here,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value, raising=False)


class FakeGraph:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda

    def capture_begin(self, pool: int, capture_error_mode: str) -> None:
        self.cuda.generator.is_recording = True
        assert pool not in self.cuda.emptied, "the pool has lost all of its graphs"
        self.pool = pool
        self.cuda.living.add(self)
        weakref.finalize(self, self.left, self.cuda, pool)

    @staticmethod
    def left(cuda: FakeCuda, pool: int) -> None:
        if not any(graph.pool == pool for graph in cuda.living):
            cuda.emptied.add(pool)

    def capture_end(self) -> None:
        self.cuda.generator.is_recording = False

    def replay(self) -> None:
        pass


def test_recordings_share_a_pool_that_lives_as_long_as_they(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model in training is forgotten, and another one is compiled."""
    cuda, recorder = FakeCuda(monkeypatch), replay.CudaRecorder(0)
    first, _ = recorder.record(lambda a: a, [])
    second, _ = recorder.record(lambda a: a, [])
    assert {graph.pool for graph in cuda.living} == {0}
    del first
    recorder.record(lambda a: a, [])
    assert len(cuda.living) == 1
    del second
    third, _ = recorder.record(lambda a: a, [])
    assert {graph.pool for graph in cuda.living} == {1}
    third.replay()


def test_random_numbers_survive_a_recording_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(FakeGraph):
        def capture_end(self) -> None:
            raise RuntimeError("operation failed due to a previous error during capture")

    cuda = FakeCuda(monkeypatch)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", partial(Broken, cuda))
    with pytest.raises(RuntimeError, match="during capture"):
        replay.CudaRecorder(0).record(lambda a: a, [])
    assert not cuda.generator.is_recording


@pytest.mark.gpu
def test_a_model_in_training_is_replayed() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Dropout(0.5), torch.nn.Linear(128, 8)
    ).cuda()
    fast = minitorch2.compile(model, mode="reduce-overhead")
    with stages.collect() as log:
        for step in range(6):
            x = torch.randn(32, 64, device="cuda")
            gradients = []
            for called in (model, fast):
                model.zero_grad()
                torch.manual_seed(step)
                called(x).square().sum().backward()
                gradients.append([p.grad.clone() for p in model.parameters()])
            for got, expected in zip(*gradients, strict=True):
                torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)
    assert log.counts["cudagraphs_recorded"] and not log.counts["cudagraphs_refused"]


@pytest.mark.gpu
@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_vary_are_a_reason(dynamic: bool | None) -> None:
    fast = minitorch2.compile(lambda x: x.sin() + 1, mode="reduce-overhead", dynamic=dynamic)
    with stages.collect() as log:
        for n in (5, 6, 7, 7, 7):
            x = torch.randn(n, device="cuda")
            torch.testing.assert_close(fast(x), x.sin() + 1)
    assert log.counts["cudagraphs_refused"] == 1


@pytest.mark.gpu
def test_inputs_that_are_written_to_are_replayed() -> None:
    fast = minitorch2.compile(lambda x: x.add_(1).sin(), mode="reduce-overhead")
    x = torch.zeros(5, device="cuda")
    for step in range(1, 6):
        torch.testing.assert_close(fast(x), torch.full((5,), float(step), device="cuda").sin())


@pytest.mark.gpu
def test_after_a_recording_that_fails_random_numbers_are_drawn_as_before() -> None:
    recorder = replay.CudaRecorder(0)
    x = torch.zeros(3, device="cuda")
    with pytest.raises(RuntimeError):
        recorder.record(lambda a: [a[0].cpu()], [x])
    assert torch.rand(3, device="cuda").shape == (3,)
    graph, (result,) = recorder.record(lambda a: [a[0] + 1], [x])
    graph.replay()
    assert torch.equal(result, x + 1)
