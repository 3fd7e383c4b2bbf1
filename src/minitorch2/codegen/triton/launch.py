"""Load a kernel's text, compile it, launch it.

A kernel's decorator (`@pointwise(...)`, `@reduction(...)`) makes it a `Launcher` (PyTorch 2 paper,
section 4.5: "the pointwise decorator encodes boilerplate code"). The decorator's arguments say all
that the compiler needs, so kernels are compiled and launched without Triton's JIT front end, which
looks at every argument of every call: the compiled kernel's own launcher gets plain addresses.
"""

from __future__ import annotations

import ctypes
import hashlib
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from minitorch2 import config, stages
from minitorch2.codegen import cache as disk
from minitorch2.codegen.triton.availability import is_interpreting
from minitorch2.codegen.triton.kernel import KernelSource
from minitorch2.codegen.triton.values import TRITON_POINTERS

ALIGNMENT = 16
"""Compiled code may assume that addresses, and sizes marked so, are multiples of this."""

JitFunction = Any  # triton.JITFunction or InterpretedFunction, which have no types
Hints = tuple[bool, ...]
"""Which arguments are multiples of `ALIGNMENT`, so that memory can be moved 16 bytes at once."""


class Launcher:
    """A kernel: `launcher(programs, *addresses, *sizes)` runs it on the current device and stream.

    Args:
        function: the kernel, as Triton sees it.
        pointers: Triton's types of the pointers, separated by blanks: `"*fp32 *i64"`.
        blocks: the block sizes, by parameter name.
        num_warps: how many warps of 32 threads compute one block.
        checks_indices: whether the kernel may fail with "index out of bounds".
    """

    def __init__(
        self,
        function: JitFunction,
        pointers: str,
        blocks: dict[str, int],
        num_warps: int,
        checks_indices: bool,
    ) -> None:
        self.function = function
        self.pointers = pointers.split()
        self.blocks = blocks
        self.options: dict[str, Any] = {"num_warps": num_warps}
        if checks_indices:  # assertions need `debug`, which would also check for overflow
            self.options |= {"debug": True, "sanitize_overflow": False}
        self._compiled: dict[tuple[int, Hints], Callable[..., None]] = {}
        self._tail = tuple(blocks.values())
        self._run = self._interpret if is_interpreting() else self._launch

    def __call__(self, programs: int, *arguments: int) -> None:
        """Compute so many blocks."""
        if programs:
            self._run(programs, arguments)

    def _launch(self, programs: int, arguments: tuple[int, ...]) -> None:
        driver = triton.runtime.driver.active
        device = driver.get_current_device()
        hints = tuple([argument % ALIGNMENT == 0 for argument in arguments])
        launch = self._compiled.get((device, hints))
        if launch is None:
            launch = self._compiled[device, hints] = self._load(hints, driver.get_current_target())
        launch(programs, driver.get_current_stream(device), arguments)

    def _load(self, hints: Hints, target: GPUTarget) -> Callable[..., None]:
        """Compile and put the code on the current device."""
        kernel = self.compile_for(target, hints)
        run, tail = kernel.run, self._tail  # `run` loads the code, and only then it has a function
        function, metadata = kernel.function, kernel.packed_metadata

        def launch(programs: int, stream: int, arguments: tuple[int, ...]) -> None:
            run(programs, 1, 1, stream, function, metadata, None, None, None, *arguments, *tail)

        return launch

    def compile_for(self, target: GPUTarget, hints: Hints | None = None) -> Any:
        """Compile without launching, also where there is no GPU: Triton's `CompiledKernel`.

        Args:
            target: for example `GPUTarget("cuda", 90, 32)`, a Hopper GPU.
            hints: what is known of each argument; all are multiples of 16 if it is None.
        """
        names = [name for name in self.function.arg_names if name not in self.blocks]
        types = [*self.pointers, *["i64"] * (len(names) - len(self.pointers))]
        signature = dict(zip(names, types)) | dict.fromkeys(self.blocks, "constexpr")
        known = hints or (True,) * len(names)
        aligned = {(i,): [["tt.divisibility", ALIGNMENT]] for i, is_so in enumerate(known) if is_so}
        with stages.phase("kernel_compile"):
            source = ASTSource(self.function, signature, dict(self.blocks), aligned)
            return triton.compile(source, target=target, options=dict(self.options))

    def _interpret(self, programs: int, arguments: tuple[int, ...]) -> None:
        """Run in Triton's interpreter, which wants tensors."""
        count = len(self.pointers)
        tensors = [_element_at(a, p) for a, p in zip(arguments[:count], self.pointers)]
        # As constants, because not every version of the interpreter can count to a block.
        sizes = [tl.constexpr(size) for size in arguments[count:]]
        self.function[(programs,)](*tensors, *sizes, **self.blocks)


def _element_at(address: int, pointer: str) -> torch.Tensor:
    """A tensor of one element that lies at an address; the interpreter only asks where it is."""
    dtype = next(dtype for dtype, name in TRITON_POINTERS.items() if name == pointer)
    if address == 0:  # of an empty tensor
        return torch.empty(1, dtype=dtype)
    memory = (ctypes.c_char * dtype.itemsize).from_address(address)
    return torch.frombuffer(memory, dtype=dtype)


def pointwise(
    *,
    pointers: str,
    XBLOCK: int,
    YBLOCK: int | None = None,
    num_warps: int,
    checks_indices: bool = False,
) -> Callable[[JitFunction], Launcher]:
    """The decorator of a kernel without reductions; with `YBLOCK` it works in tiles."""
    blocks = {"XBLOCK": XBLOCK} | ({} if YBLOCK is None else {"YBLOCK": YBLOCK})
    return lambda function: Launcher(function, pointers, blocks, num_warps, checks_indices)


def reduction(
    *, pointers: str, XBLOCK: int, RBLOCK: int, num_warps: int, checks_indices: bool = False
) -> Callable[[JitFunction], Launcher]:
    """The decorator of a kernel that visits what it reduces in a loop."""
    blocks = {"XBLOCK": XBLOCK, "RBLOCK": RBLOCK}
    return lambda function: Launcher(function, pointers, blocks, num_warps, checks_indices)


persistent_reduction = reduction
"""The decorator of a kernel whose block holds everything that is reduced."""

_LAUNCHERS: dict[str, Launcher] = {}


def load_triton_kernel(name: str, text: str) -> Launcher:
    """The launcher of a kernel; kernels that compute the same share one.

    Triton reads a kernel's source from its file, so the text is written into the cache folder (or
    into a temporary one); what runs is the text, never what the folder held.
    """
    key = KernelSource(name, text).key()
    if key not in _LAUNCHERS:
        _LAUNCHERS[key] = _load(name, text)
    return _LAUNCHERS[key]


def _load(name: str, text: str) -> Launcher:
    path = _write(name, text)
    namespace: dict[str, Any] = {"__name__": f"minitorch2_kernels.{name}", "__file__": str(path)}
    exec(compile(text, str(path), "exec"), namespace)
    launcher = namespace[name]
    assert isinstance(launcher, Launcher)
    return launcher


def _write(name: str, text: str) -> Path:
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    folder = disk.folder() if config.current().cache else _temporary_folder()
    path = folder / "triton" / digest / f"{name}.py"
    if disk.write_file(path, text.encode()):
        return path
    path = _temporary_folder() / digest / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@cache
def _temporary_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="minitorch2-kernels-"))
