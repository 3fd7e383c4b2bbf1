"""The backends that are compared: ours, and those of others that are installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

import minitorch2
from benchmarks import peers
from benchmarks.cases import Function
from benchmarks.compilers import OURS, PEER, Compiler

CAPTURE = f"{OURS}, eager kernels"
HALIDE = f"{OURS}, Halide"
LAZY = f"{OURS}, lazily"
SCRIPT = f"{OURS}, script"


def lazily(function: Function) -> Function:
    """A function whose calls are recorded, and run at the end of each call."""

    def call(*inputs: Any) -> Any:
        with minitorch2.lazily():
            return function(*inputs)

    return call


BACKENDS: dict[str, Callable[[dict[str, Any]], Compiler]] = {
    OURS: lambda options: partial(minitorch2.compile, options=options),
    CAPTURE: lambda _: partial(minitorch2.compile, backend="eager"),
    HALIDE: lambda options: partial(minitorch2.compile, backend="halide", options=options),
    LAZY: lambda _: lazily,
    SCRIPT: lambda _: minitorch2.jit.script,
    PEER: lambda _: torch.compile,
    **{name: lambda _, peer=peer: peer for name, peer in peers.PEERS.items()},
}
"""The compiler of a backend for options of `minitorch2.compile`."""

CPU_ONLY = {HALIDE: lambda: find_spec("halide") is not None} | {
    name: partial(peers.is_installed, name) for name in peers.PEERS
}
"""Of backends that need more packages and a CPU: whether the packages are there."""


def available(device: str) -> list[str]:
    """The backends that can run on a device with what is installed."""
    found = [name for name in BACKENDS if name not in CPU_ONLY or CPU_ONLY[name]()]
    if device != "cpu":
        return [name for name in found if name not in CPU_ONLY]
    compiler = os.environ.get("CXX") or next(filter(shutil.which, ("g++", "c++", "clang++")), None)
    return found if compiler else [name for name in found if name != PEER]
