"""Load a kernel's text, compile it, launch it.

A kernel's decorator (`@pointwise(...)`, `@reduction(...)`) makes it a `Launcher` (PyTorch 2 paper,
section 4.5: "the pointwise decorator encodes boilerplate code"). The decorator's arguments are all
that the compiler needs, so kernels are compiled without Triton's JIT front end, which looks at
every argument of every call. They are also compiled at once: the kernels of a graph compile in
threads while the rest of its module is loaded. A wrapper calls a kernel through a built-in function
(`driver.py`).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from minitorch2 import cache as disk
from minitorch2 import config, stages
from minitorch2.codegen.triton import KernelSource
from minitorch2.codegen.triton.availability import is_interpreting
from minitorch2.codegen.triton.values import TRITON_POINTERS
from minitorch2.foundation.generated_code import execute
from minitorch2.native.memory import bytes_at
from minitorch2.native.triton_internals import driver
from minitorch2.native.triton_internals.compiler import ASTSource, GPUTarget
from minitorch2.native.triton_internals.driver import ALIGNMENT, Binary, LaunchState

JitFunction = Any  # triton.JITFunction or InterpretedFunction, which have no types
Word = int | torch.Tensor
"""A kernel's argument: a number, or a tensor that stands for its address."""
Hints = tuple[bool, ...]
"""Which arguments are multiples of `ALIGNMENT`, so that memory can be moved 16 bytes at once."""


class Launcher:
    """A kernel as its decorator describes it.

    Args:
        function: the kernel, as Triton sees it.
        pointers: Triton's types of the pointers, separated by blanks: `"*fp32 *i64"`.
        blocks: the block sizes, by parameter name.
        num_warps: how many warps of 32 threads compute one block.
        checks_indices: whether the kernel may fail with "index out of bounds".
        num_stages: how many steps of a loop are in flight at once, where memory is shared.
    """

    def __init__(
        self,
        function: JitFunction,
        pointers: str,
        blocks: dict[str, int],
        num_warps: int,
        checks_indices: bool = False,
        num_stages: int | None = None,
    ) -> None:
        self.function = function
        self.pointers = pointers.split()
        self.blocks = blocks
        self.options: dict[str, Any] = {"num_warps": num_warps}
        if num_stages is not None:
            self.options["num_stages"] = num_stages
        if checks_indices:  # assertions need `debug`, which would also check for overflow
            self.options |= {"debug": True, "sanitize_overflow": False}
        self.words = [name for name in function.arg_names if name not in blocks]

    def compile_for(self, target: GPUTarget, hints: Hints | None = None) -> Any:
        """Compile without launching, even without a GPU; return Triton's `CompiledKernel`.

        Args:
            target: for example `GPUTarget("cuda", 90, 32)`, a Hopper GPU.
            hints: for each argument, whether it is a multiple of 16; all are if it is None.
        """
        types = [*self.pointers, *["i64"] * (len(self.words) - len(self.pointers))]
        signature = dict(zip(self.words, types)) | dict.fromkeys(self.blocks, "constexpr")
        known = hints or (True,) * len(self.words)
        aligned = {(i,): [["tt.divisibility", ALIGNMENT]] for i, is_so in enumerate(known) if is_so}
        source = ASTSource(self.function, signature, dict(self.blocks), aligned)
        return triton.compile(source, target=target, options=dict(self.options))

    def binary(self, target: GPUTarget, hints: Hints | None = None) -> Binary:
        """Compile the machine code that a device runs."""
        kernel = self.compile_for(target, hints)
        metadata = kernel.metadata
        threads = 32 * metadata.num_warps
        return Binary(kernel.asm["cubin"], metadata.name, threads, metadata.shared)

    def interpret(self, programs: int, stream: int, *given: Word) -> None:
        """Run in Triton's interpreter, which wants tensors."""
        if not programs:
            return
        count, arguments = len(self.pointers), _integers(given)
        tensors = [_element_at(a, p) for a, p in zip(arguments[:count], self.pointers)]
        # Extents are constants: not every version of the interpreter can count to a block.
        named = zip(self.function.arg_names[count:], arguments[count:])
        sizes = [n if name.startswith("ks") else tl.constexpr(n) for name, n in named]
        self.function[(programs,)](*tensors, *sizes, **self.blocks)


class _OnDevice:
    """A kernel on one device, compiled for aligned addresses, and again if some are not aligned."""

    def __init__(self, launcher: Launcher, device: int) -> None:
        self.launcher = launcher
        self.device = device
        self.target = target_of(device)
        self.state = LaunchState(len(launcher.words), self.compile_and_launch)
        self.launch = driver.make_gpu_launcher(launcher.function.__name__, self.state)
        self.hints: Hints | None = None
        self._logs = stages.open_logs()
        self._ahead: Future[Binary] | None = None
        self._lock = threading.Lock()
        if len(launcher.words) == len(launcher.pointers):  # memory is aligned, sizes may not be
            self._ahead = _compilers().submit(launcher.binary, self.target)

    def compile_and_launch(self, programs: int, stream: int, *given: Word) -> None:
        """Load fitting code and launch it; the built-in function calls this if it has none."""
        words = _integers(given)
        with self._lock:
            found = tuple(word % ALIGNMENT == 0 for word in words)
            fits = self.hints is not None and all(
                a for a, wanted in zip(found, self.hints, strict=True) if wanted
            )
            if fits:  # it was this thread that had no access to the device
                driver.use_device(self.device)
            else:
                self._load(found)
        self.launch(programs, stream, *words)

    def _load(self, found: Hints) -> None:
        """Compile for the alignment that the arguments of this call and of all earlier share."""
        before = self.hints or (True,) * len(found)
        hints = tuple(a and b for a, b in zip(found, before, strict=True))
        # Backward's kernels are loaded by a thread of the autograd engine, which has no log.
        with stages.collect_into(stages.open_logs() or self._logs):
            with stages.phase("kernel_compile"):
                binary = self._compiled(hints)
            with stages.phase("kernel_load"):
                self.state.set(driver.load_binary(binary, self.device), binary, hints)
        self.hints, self._logs = hints, ()

    def _compiled(self, hints: Hints) -> Binary:
        ahead, self._ahead = self._ahead, None
        return ahead.result() if ahead and all(hints) else self.launcher.binary(self.target, hints)


@cache
def target_of(device: int) -> GPUTarget:
    """Return the target for which Triton compiles to run on a device."""
    major, minor = torch.cuda.get_device_capability(device)
    return GPUTarget("cuda", 10 * major + minor, 32)


@cache
def _compilers() -> ThreadPoolExecutor:
    """Return the threads that compile, which mostly run LLVM and ptxas without Python's lock."""
    return ThreadPoolExecutor(min(32, os.cpu_count() or 1), thread_name_prefix="triton")


_NOTHING = """
import triton
import triton.language as tl
from minitorch2.codegen.triton.launch import pointwise

@pointwise(pointers="*fp32", XBLOCK=1, num_warps=1)
@triton.jit
def nothing(out_ptr0, XBLOCK: tl.constexpr):
    tl.store(out_ptr0, 0.0)
"""


@cache
def warm_up(device: int) -> Future[Binary] | None:
    """Compile a kernel that does nothing, in a thread; none if kernels are interpreted.

    Once in a process Triton hashes its own files, loads LLVM and asks for its assembler. That takes
    as long as some kernels, and is over when the first one is printed.
    """
    if is_interpreting():
        return None
    return _compilers().submit(kernel_of("nothing", _NOTHING).binary, target_of(device))


def _integers(words: Sequence[Word]) -> list[int]:
    return [word if isinstance(word, int) else word.data_ptr() for word in words]


def _element_at(address: int, pointer: str) -> torch.Tensor:
    """Return a tensor of one element at an address; the interpreter only asks for the address."""
    dtype = next(dtype for dtype, name in TRITON_POINTERS.items() if name == pointer)
    if address == 0:  # of an empty tensor
        return torch.empty(1, dtype=dtype)
    return torch.frombuffer(bytes_at(address, dtype.itemsize), dtype=dtype)


def pointwise(
    *,
    pointers: str,
    num_warps: int,
    num_stages: int | None = None,
    checks_indices: bool = False,
    **blocks: int,
) -> Callable[[JitFunction], Launcher]:
    """Return the decorator of a kernel without reductions; with `YBLOCK` it works in tiles.

    Args: as of `Launcher`; the blocks are `XBLOCK`, `YBLOCK` and `RBLOCK`, as far as there are any.
    """
    return lambda f: Launcher(f, pointers, blocks, num_warps, checks_indices, num_stages)


reduction = pointwise
"""The decorator of a kernel that visits the elements that it reduces in a loop."""
persistent_reduction = pointwise
"""The decorator of a kernel whose block holds everything that is reduced."""
template = pointwise
"""The decorator of a product or a convolution with its prologues and epilogue."""
joined = pointwise
"""The decorator of several kernels in one, which know their block sizes."""

_LAUNCHERS: dict[str, Launcher] = {}


@cache
def _launcher_on(key: str, device: int) -> Callable[..., None]:
    return _OnDevice(_LAUNCHERS[key], device).launch


def load_triton_kernel(name: str, text: str, device: int = 0) -> Callable[..., None]:
    """`kernel(programs, stream, *addresses, *sizes)`; kernels that compute the same share one."""
    launcher = kernel_of(name, text)
    if is_interpreting():
        return launcher.interpret
    return _launcher_on(KernelSource(name, text).key(), device)


def kernel_of(name: str, text: str) -> Launcher:
    """Return the kernel of a text.

    Triton reads a kernel's source from its file, so the text is written into the cache folder (or
    into a temporary one). Only `text` itself runs, never the file's former content.
    """
    key = KernelSource(name, text).key()
    if key not in _LAUNCHERS:
        _LAUNCHERS[key] = _load(name, text)
    return _LAUNCHERS[key]


def _load(name: str, text: str) -> Launcher:
    path = _write(name, text)
    namespace: dict[str, Any] = {"__name__": f"minitorch2_kernels.{name}", "__file__": str(path)}
    execute(text, str(path), namespace)
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
