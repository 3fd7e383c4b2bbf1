"""The built-in launcher, with a Python function in the place of the CUDA driver's."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

from minitorch2.native.llvm import machine_code
from minitorch2.native.triton_internals import driver
from minitorch2.native.triton_internals.driver import Binary, LaunchState, make_gpu_launcher

_KIND = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p,
    ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)), ctypes.c_void_p,
)  # fmt: skip
BINARY = Binary(b"", "kernel", threads=128, shared=64)
calls: list[tuple[Any, ...]] = []
answers: list[int] = []
ENGINES: list[object] = []
"""Kept as long as the launchers, whose code they own."""


@_KIND
def launch_kernel(function: int, x: int, y: int, z: int, threads: int, _y: int, _z: int,
                  shared: int, stream: int, words: Any, extra: Any) -> int:  # fmt: skip
    calls.append((function, (x, y, z), threads, shared, stream, [words[i][0] for i in range(4)]))
    return answers.pop() if answers else 0


class _Library:
    cuLaunchKernel = launch_kernel


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The launcher's body, linked with the function above in an engine of its own.

    One engine answers a name with the first code that it was given, so the tests that come later
    on a machine with a GPU would launch nothing.
    """
    monkeypatch.setattr(driver, "cuda_driver", _Library)
    engine = machine_code._engine.__wrapped__()
    ENGINES.append(engine)
    monkeypatch.setattr(machine_code, "_engine", lambda: engine)
    driver._body.cache_clear()
    calls.clear()
    answers.clear()
    yield
    driver._body.cache_clear()


def launcher() -> tuple[Any, LaunchState, list[tuple[int, ...]]]:
    slow: list[tuple[int, ...]] = []
    state = LaunchState(2, lambda *words: slow.append(words))
    return make_gpu_launcher("kernel", state), state, slow


def test_without_code_the_slow_path_is_asked_and_with_code_the_driver() -> None:
    launch, state, slow = launcher()
    assert launch(3, 7, 16, 32) is None
    assert slow == [(3, 7, 16, 32)] and not calls
    state.set(99, BINARY, (True, False))
    launch(3, 7, 16, 33)
    assert calls == [(99, (3, 1, 1), 128, 64, 7, [16, 33, 0, 0])] and len(slow) == 1


def test_words_that_are_not_aligned_take_the_slow_path() -> None:
    launch, state, slow = launcher()
    state.set(99, BINARY, (True, False))
    launch(3, 7, 20, 32)
    assert slow == [(3, 7, 20, 32)] and not calls
    state.set(98, BINARY, (False, False))
    launch(3, 7, 20, 32)
    assert len(calls) == 1 and calls[0][0] == 98


def test_no_programs_are_no_launch() -> None:
    launch, state, _ = launcher()
    state.set(99, BINARY, (True, True))
    assert launch(0, 7, 16, 32) is None and not calls


def test_a_thread_without_a_context_takes_the_slow_path() -> None:
    launch, state, slow = launcher()
    state.set(99, BINARY, (True, True))
    answers.append(201)
    launch(3, 0, 16, 32)
    assert slow == [(3, 0, 16, 32)]


def test_errors() -> None:
    launch, state, _ = launcher()
    state.set(99, BINARY, (True, True))
    with pytest.raises(TypeError, match="takes 4 arguments, not 3"):
        launch(3, 0, 16)
    with pytest.raises(TypeError):
        launch(3, 0, 16, "x")
    answers.append(700)
    with pytest.raises(RuntimeError, match="CUDA error 700"):
        launch(3, 0, 16, 32)


def test_what_the_slow_path_raises_is_raised() -> None:
    state = LaunchState(0, lambda *words: 1 // 0)  # type: ignore[func-returns-value]
    with pytest.raises(ZeroDivisionError):
        make_gpu_launcher("kernel", state)(1, 0)
