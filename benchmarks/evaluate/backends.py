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
from benchmarks.cases import Function
from benchmarks.compilers import OURS, PEER, Compiler

CAPTURE = f"{OURS}, eager kernels"
HALIDE = f"{OURS}, Halide"
LAZY = f"{OURS}, lazily"
SCRIPT = f"{OURS}, script"
OPENVINO = "torch.compile, OpenVINO"
ONNXRUNTIME = "ONNX Runtime"


def lazily(function: Function) -> Function:
    """A function whose calls are recorded, and run at the end of each call."""

    def call(*inputs: Any) -> Any:
        with minitorch2.lazily():
            return function(*inputs)

    return call


def by_openvino(function: Function) -> Function:
    """A function that torch.compile captures and OpenVINO runs."""
    # Imported here: an optional package, which registers its backend.
    import openvino.torch  # noqa: F401

    return torch.compile(function, backend="openvino")


def by_onnxruntime(function: Function) -> Function:
    """A module that is exported to ONNX at its first call and run by ONNX Runtime.

    Raises:
        TypeError: the function is no module in evaluation mode; ONNX Runtime has no gradients.
    """
    if not isinstance(function, torch.nn.Module) or function.training:
        raise TypeError("ONNX Runtime runs modules in evaluation mode only")
    held: list[Callable[..., Any]] = []

    def call(*inputs: Any) -> Any:
        if not held:
            program = torch.onnx.export(function, inputs, dynamo=True, verbose=False)
            assert program is not None
            held.append(program)
        found = held[0](*inputs)
        return found[0] if len(found) == 1 else tuple(found)

    return call


BACKENDS: dict[str, Callable[[dict[str, Any]], Compiler]] = {
    OURS: lambda options: partial(minitorch2.compile, options=options),
    CAPTURE: lambda _: partial(minitorch2.compile, backend="eager"),
    HALIDE: lambda options: partial(minitorch2.compile, backend="halide", options=options),
    LAZY: lambda _: lazily,
    SCRIPT: lambda _: minitorch2.jit.script,
    PEER: lambda _: torch.compile,
    OPENVINO: lambda _: by_openvino,
    ONNXRUNTIME: lambda _: by_onnxruntime,
}
"""The compiler of a backend for options of `minitorch2.compile`."""

NEEDS = {HALIDE: "halide", OPENVINO: "openvino", ONNXRUNTIME: "onnxscript"}
"""The package that a backend needs."""


def available(device: str) -> list[str]:
    """The backends that can run on a device with what is installed."""
    found = [name for name in BACKENDS if name not in NEEDS or find_spec(NEEDS[name])]
    if device != "cpu":
        return [name for name in found if name not in NEEDS]
    compiler = os.environ.get("CXX") or next(filter(shutil.which, ("g++", "c++", "clang++")), None)
    return found if compiler else [name for name in found if name != PEER]
