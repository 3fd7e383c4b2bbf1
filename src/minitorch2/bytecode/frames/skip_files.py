"""The choice of code to capture, by file: user code and model libraries, not their tools.

Frames of the standard library, numpy, PyTorch, Triton and this package are never analysed when the
frame hook meets them (PyTorch 2 paper, section 3.2). Code that this package has written is not
analysed, either. While compiled graphs run or are made, not even the functions that they call are
looked at. Inlining is a little more generous. It evaluates forward methods of `torch.nn` modules,
the Python of NumPy and of Triton, and small, pure parts of the standard library like user code.
"""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FunctionType

import numpy
import torch

from minitorch2.foundation.generated_code import is_generated

# As the files of code objects name them: not resolved where a folder is a symbolic link.
PACKAGE = str(Path(__file__).parents[2]) + "/"
TORCH = str(Path(torch.__file__).parent) + "/"
NUMPY = str(Path(numpy.__file__).parent) + "/"
_TRITON = importlib.util.find_spec("triton")
TRITON = (
    tuple(f"{folder}/" for folder in _TRITON.submodule_search_locations or ()) if _TRITON else ()
)
STANDARD_LIBRARY = str(Path(os.__file__).parent) + "/"
SITE_PACKAGES = (sysconfig.get_paths()["purelib"] + "/", sysconfig.get_paths()["platlib"] + "/")

FROZEN = ("<frozen _collections_abc>", "<frozen abc>", "<frozen os>")
"""Modules that CPython keeps inside of itself, and that are inlined."""
_BODIES = "polyfills numpy_capture/bodies optimizer_capture/bodies.py kernel_capture/operator.py"
STAND_INS = tuple(PACKAGE + "bytecode/" + room for room in _BODIES.split())
MARKS = PACKAGE + "marks/"
COLLECTIVES = PACKAGE + "distributed/collectives.py"
_ROOMS = ["autograd/", "backends/", "codegen/", "native/", "distributed/backward_in_parts.py"]
COMPILER = tuple(PACKAGE + room for room in _ROOMS)
INLINED_TORCH = (
    "__future__.py",
    "_jit_internal.py",
    "_tensor.py",
    "amp/autocast_mode.py",
    "amp/grad_scaler.py",
    "autograd/anomaly_mode.py",
    "autograd/forward_ad.py",
    "autograd/grad_mode.py",
    "backends/",
    "distributed/__init__.py",
    "distributed/distributed_c10d.py",
    "distributed/tensor/_api.py",
    "distributed/tensor/parallel/style.py",
    "distributions/",
    "jit/__init__.py",
    "jit/_trace.py",
    "nn/_reduction.py",
    "nn/attention/__init__.py",
    "nn/functional.py",
    "nn/init.py",
    "nn/modules/",
    "nn/parameter.py",
    "nn/utils/",
    "optim/",
    "overrides.py",
    "random.py",
    "utils/_contextlib.py",
    "utils/_foreach_utils.py",
    "utils/_pytree.py",
    "utils/checkpoint.py",
    "utils/hooks.py",
)
INLINED_NUMPY = ("_core/", "fft/", "lib/", "linalg/")
_STANDARD = """
    abc.py argparse.py bisect.py collections/__init__.py contextlib.py dataclasses.py enum.py
    functools.py heapq.py inspect.py string.py logging/__init__.py operator.py random.py
    statistics.py types.py typing.py warnings.py weakref.py _weakrefset.py
"""
INLINED_STANDARD = tuple(_STANDARD.split())


@lru_cache(maxsize=10_000)
def is_skipped_file(file: str) -> bool:
    """Return whether frames of this file run as they are, without analysis."""
    if is_generated(file):
        return True
    if file.startswith((PACKAGE, TORCH, NUMPY, *TRITON, "<frozen")):
        captured = file.startswith(TORCH + "nn/modules/")
        return not captured or file == TORCH + "nn/modules/module.py"  # it only calls forward
    return file.startswith(STANDARD_LIBRARY) and not file.startswith(SITE_PACKAGES)


def file_of(function: FunctionType) -> str:
    """Return the file of a function's code; its module's file if the code was made of a text."""
    file = function.__code__.co_filename
    return str(function.__globals__.get("__file__", file)) if file == "<string>" else file


def runs_apart(file: str) -> bool:
    """Return whether code of this file is part of compiled code, whose calls are not captured."""
    return is_generated(file) or file.startswith(COMPILER)


def is_override(code: CodeType) -> bool:
    """Return whether PyTorch calls the code for each of its operators.

    If a graph breaks at one operator, a graph of one operator is worth nothing. The functions that
    the override calls are captured.
    """
    return code.co_name in ("__torch_function__", "__torch_dispatch__")


def is_stand_in(file: str) -> bool:
    """Return whether code of this file is evaluated in place of a user's call to a library."""
    return file.startswith((*STAND_INS, NUMPY))


def is_library(file: str) -> bool:
    """Return whether reports name the line that calls code of this file, instead of its own."""
    return file.startswith(TORCH) or is_skipped_file(file)


@cache
def _refused_file(file: str) -> str | None:
    inlined_whole = (*STAND_INS, MARKS, COLLECTIVES, *FROZEN, *TRITON)
    if not is_skipped_file(file) or file.startswith(inlined_whole):
        return None
    for folder, inlined in (
        (TORCH, INLINED_TORCH),
        (NUMPY, INLINED_NUMPY),
        (STANDARD_LIBRARY, INLINED_STANDARD),
    ):
        if file.startswith(folder) and file.removeprefix(folder).startswith(inlined):
            return None
    return f"functions of {file} are not captured"


def refuses_inlining(code: CodeType) -> str | None:
    """Return the reason why a function must not be inlined; None if it may be."""
    reason = _refused_file(code.co_filename)
    return None if reason is None else f"{code.co_qualname}: {reason}"
