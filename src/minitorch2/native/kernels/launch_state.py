"""The states of launchers: what the machine code of `launcher` reads, made without a compiler.

A state is an array of words, as `launcher` says. A launcher is bound to the address of its state.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache

import torch

from minitorch2.native.cpython.builtin_functions import bind, new_method

ARGUMENTS, THREADS, COUNT, KERNELS = range(4)
ENTRY_AT, GRAIN, WORDS_AT, INNER, KERNEL_SIZE = range(5)
_STATES: dict[int, ctypes.Array[ctypes.c_int64]] = {}
"""What each launcher reads, by its address, which is what the launcher is bound to."""
_forked = False


def run_serially() -> None:
    """Let all kernels, and torch's operators, run on one thread from now on.

    A child of `os.fork` has none of the threads of its parent's OpenMP pool, and would wait for
    them forever, in a kernel as in any operator of torch.
    """
    global _forked
    _forked = True
    torch.set_num_threads(1)
    for state in _STATES.values():
        state[THREADS] = 1


@cache
def survive_forks() -> None:
    """Let a child of `os.fork` run its kernels on one thread, from now on."""
    os.register_at_fork(after_in_child=run_serially)


def kernel_words(entry: int, arguments: int, grain: int, inner: int | None) -> tuple[int, ...]:
    """Return the words of one kernel: see `launcher.make_launcher`."""
    return entry, max(1, grain), arguments, -1 if inner is None else inner


def launcher_of(name: str, words: Sequence[int], body: int) -> Callable[..., None]:
    """Make a launcher with this state, given the address of `launch`."""
    state = (ctypes.c_int64 * len(words))(*words)
    if _forked:
        state[THREADS] = 1
    _STATES[ctypes.addressof(state)] = state
    survive_forks()
    return bind(new_method(name, body), ctypes.addressof(state))


def join_launchers(
    name: str, launchers: Sequence[Callable[..., None]], body: int
) -> Callable[..., None]:
    """Return a launcher of several kernels, given a launcher of each.

    It takes the arguments of the first kernel, then those of the second, and so on. The kernels run
    in any order.
    """
    given = [_STATES[launcher.__self__] for launcher in launchers]  # type: ignore[attr-defined]
    kernels = [word for state in given for word in state[KERNELS:]]
    arguments = sum(state[ARGUMENTS] for state in given)
    return launcher_of(name, (arguments, given[0][THREADS], len(given), *kernels), body)
