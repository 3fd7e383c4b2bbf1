"""What is compared: eager, minitorch2, with `--numba` its kernels as Numba compiles them, with
`--peer` torch.compile, and with `--others` the compilers of `peers`."""

from collections.abc import Callable, Iterable
from typing import Any

import torch

import minitorch2
from benchmarks.peers import installed_peers

Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]

EAGER, OURS, BY_NUMBA, PEER = "eager", "minitorch2", "minitorch2 by Numba", "torch.compile"


def compilers(peer: bool, numba: bool = False, others: bool = False) -> dict[str, Compiler]:
    """The compilers by name, eager first."""
    chosen: dict[str, Compiler] = {EAGER: lambda f: f, OURS: minitorch2.compile}
    if numba:
        chosen[BY_NUMBA] = lambda f: minitorch2.compile(f, options={"cpu_compiler": "numba"})
    if others:
        chosen |= installed_peers()
    return {**chosen, PEER: torch.compile} if peer else chosen


def forget(names: Iterable[str]) -> None:
    """Each case is compiled afresh: the sizes that one has made symbols are none for the next."""
    minitorch2.reset()  # whatever names our options have
    if PEER in names:
        torch.compiler.reset()
