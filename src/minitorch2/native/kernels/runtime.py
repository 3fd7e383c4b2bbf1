"""Kernel text -> a callable kernel, compiled at most once per text, in this process and on disk."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from time import perf_counter
from typing import Any, Final

from minitorch2 import cache as disk
from minitorch2 import config, stages
from minitorch2.errors import BackendError
from minitorch2.logs import get_logger
from minitorch2.native.kernels.launcher import join, make_launcher
from minitorch2.native.kernels.python_launcher import PythonLauncher, launch_in_turn
from minitorch2.native.kernels.stepping import step_kernel
from minitorch2.native.llvm import machine_code
from minitorch2.native.llvm.emission import Emission

_LOGGER = get_logger(__name__)


@dataclass(frozen=True)
class KernelSource:
    """A range kernel as text.

    Args:
        name: the function's name in `text`.
        text: `def name(lo, hi, pointer..., size..., error): ...` in Numba's subset, ending in
            `return 0`; its free names are those of `vocabulary`.
        pointers: the element type name of each pointer argument, as `float32`.
        sizes: how many int64 arguments follow.
        grain: iterations that are worth a thread of their own; or elements, if there is an `inner`.
        inner: the size argument that counts the elements of an iteration, where that varies.
    """

    name: str
    text: str
    pointers: tuple[str, ...]
    sizes: int
    grain: int
    inner: int | None = None

    def code(self) -> str:
        """Return the text without comments, under a neutral name: equal code, equal kernel."""
        text = re.sub(r"^ *#.*\n", "", self.text, flags=re.MULTILINE).strip()
        return text.replace(f"def {self.name}(", "def kernel(", 1)

    def key(self) -> str:
        """Return a text that is equal for kernels with the same code, types and grain."""
        return repr((self.code(), self.pointers, self.sizes, self.grain, self.inner))

    def work(self, n: int, words: Sequence[int]) -> int:
        """Return the number of threads worth starting for `n` iterations with these arguments."""
        place = None if self.inner is None else len(self.pointers) + self.inner
        return (n if place is None else n * words[place]) // max(1, self.grain)

    def user_lines(self) -> list[str]:
        """Return the user's lines that the kernel computes, from the comments of its text."""
        return re.findall(r"^ *# (.*)$", self.text, flags=re.MULTILINE)


@dataclass
class KernelStatistics:
    """The counts of kernels that this process has compiled, loaded or shared, and the seconds."""

    compiled: int = 0
    loaded: int = 0
    shared: int = 0
    compile_seconds: float = 0.0


STATISTICS = KernelStatistics()
_JITTED: dict[tuple[object, ...], PythonLauncher] = {}
"""The kernels that Numba has compiled."""
_ENTRIES: dict[str, int] = {}
"""The addresses of the kernels' entries, by the digest of their keys."""
_BEGUN: dict[str, Callable[[], bytes]] = {}
"""What waits for the object code of kernels that are about to be loaded."""


def load_kernel(source: KernelSource) -> Callable[..., None]:
    """`kernel(n, tensor..., size...)`: does iterations 0 <= i < n; a tensor may be an address."""
    with stages.phase("kernel_compile"):
        return LOADERS[config.current().cpu_compiler](source)


def _step(source: KernelSource) -> PythonLauncher:
    filename = f"<minitorch2 kernel {source.name} {kernel_key(source).digest[:16]}>"
    return step_kernel(source.name, source.text, source.pointers, filename)


def _load(source: KernelSource) -> Callable[..., None]:
    entry = _entry(source)
    arguments = len(source.pointers) + source.sizes
    inner = None if source.inner is None else len(source.pointers) + source.inner
    return make_launcher(
        source.name,
        entry,
        arguments=arguments,
        grain=source.grain,
        inner=inner,
        threads=config.current().threads,
    )


def join_kernels(name: str, kernels: Sequence[Callable[..., None]]) -> Callable[..., None]:
    """Join several loaded kernels: `joined(n, tensor..., size..., n, tensor..., ...)`."""
    in_python = [kernel for kernel in kernels if isinstance(kernel, PythonLauncher)]
    return launch_in_turn(name, in_python) if in_python else join(name, kernels)


def begin_kernel(source: KernelSource) -> None:
    """Read a kernel from the cache, or begin to compile it: `load_kernel` will ask for it.

    Raises:
        BackendError: the front end refuses it.
    """
    key = kernel_key(source)
    is_own = LOADERS[config.current().cpu_compiler] is _load
    if is_own and key.digest not in _ENTRIES and key.digest not in _BEGUN:
        with stages.phase("kernel_compile"):
            _BEGUN[key.digest] = _begin(source, key)


def _jit(source: KernelSource) -> PythonLauncher:
    """Return a kernel that Numba compiles; equal kernels of this process share it."""
    key = source.key(), config.current().threads
    if key not in _JITTED:
        # Deferred: it imports Numba, which no other compiler of kernels needs at run time.
        jit = import_module("minitorch2.native.kernels.jit")
        start = perf_counter()
        try:
            _JITTED[key] = jit.jit_kernel(
                source.name, source.text, source.pointers, source.sizes, source.work
            )
        except jit.REFUSALS as error:
            raise _refused(source, f"numba_{source.name}", error) from error
        STATISTICS.compiled += 1
        STATISTICS.compile_seconds += perf_counter() - start
        stages.count("kernels_compiled")
    return _JITTED[key]


def _entry(source: KernelSource) -> int:
    """Return the address of the kernel's entry; equal texts of any graphs share it."""
    key = kernel_key(source)
    if key.digest in _ENTRIES:
        STATISTICS.shared += 1
        stages.count("kernels_shared")
        return _ENTRIES[key.digest]
    finish = _BEGUN.pop(key.digest, None) or _begin(source, key)
    _ENTRIES[key.digest] = machine_code.load(finish(), _symbol(key))
    return _ENTRIES[key.digest]


def _begin(source: KernelSource, key: disk.Key) -> Callable[[], bytes]:
    """Begin to get a kernel's object code; return a function that waits for it."""
    object_code = disk.load(key)
    if object_code is None:
        return _begin_to_compile(source, key)
    STATISTICS.loaded += 1
    stages.count("kernels_loaded")
    return lambda: object_code


def kernel_key(source: KernelSource) -> disk.Key:
    """Return the content key of a kernel: its text, its types, the compilers and the processor."""
    return disk.key_of(
        "kernel",
        source.name,
        text=source.code(),
        pointers=" ".join(source.pointers),
        sizes=str(source.sizes),
        **machine_code.toolchain(),
    )


def _begin_to_compile(source: KernelSource, key: disk.Key) -> Callable[[], bytes]:
    """Begin to compile a kernel; return a function that waits for its object code."""
    start = perf_counter()
    emission = Emission(link_kernel(source, _symbol(key)))
    in_front_end = perf_counter() - start

    def finish() -> bytes:
        try:
            object_code = emission.object_code()
        except RuntimeError as error:  # as llvmlite raises
            raise _refused(source, _symbol(key), error) from error
        seconds = in_front_end + emission.seconds
        STATISTICS.compiled += 1
        STATISTICS.compile_seconds += seconds
        stages.count("kernels_compiled")
        _LOGGER.debug("compiled %s in %.3f s", source.name, seconds)
        disk.store(key, object_code)
        return object_code

    return finish


def compile_module(source: KernelSource, symbol: str) -> Any:
    """Return the optimized LLVM module of a kernel (to read its assembly: `machine_code.assembly`).

    Raises:
        BackendError: the front end refuses the kernel: a bug of the code generator.
    """
    module = link_kernel(source, symbol)
    machine_code.optimize(module)
    return module


def link_kernel(source: KernelSource, symbol: str) -> Any:
    """Return the LLVM module of a kernel, not yet optimized."""
    # Deferred: it imports Numba, which a process whose kernels are all in the cache does not need.
    linking = import_module("minitorch2.native.kernels.linking")
    try:
        return linking.link_text(source.text, source.pointers, source.sizes, symbol)
    except (SyntaxError, TypeError, RuntimeError) as error:  # llvmlite raises RuntimeError
        raise _refused(source, symbol, error) from error


def _symbol(key: disk.Key) -> str:
    return f"kernel_{key.digest}"


LOADERS: Final[dict[str, Callable[[KernelSource], Callable[..., None]]]] = {
    "minitorch2": _load, "numba": _jit, "python": _step,
}  # fmt: skip
"""What makes a kernel of its text, by the option `cpu_compiler`."""


def _refused(source: KernelSource, symbol: str, error: Exception) -> BackendError:
    """Return the error for a kernel that does not compile; write its text to a file."""
    path = disk.folder() / "refused" / f"{symbol}.py"
    written = disk.write_file(path, source.text.encode())
    lines = str(error).splitlines()
    cause = lines[0] if lines else type(error).__name__
    where = f"the kernel is in {path}; " if written else ""
    return BackendError(
        f"the generated kernel {source.name} does not compile: {cause}",
        code="kernel-refused",
        fix=f"{where}the backend 'aot_eager' does without kernels",
        user_line="\n".join(source.user_lines()) or None,
    )
