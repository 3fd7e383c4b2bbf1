"""A printed kernel in machine code: Halide writes object code once, the cache keeps it.

    program --> pipeline --> object code --> address --> call(n, address..., size...)

Object code refers to Halide's runtime, with its threads, which is compiled once and linked as
kernels are. A process that finds both in the cache does not import Halide. Memory is shared: a call
describes each buffer in the words of a `halide_buffer_t`, around the address of a tensor's data.
"""

from __future__ import annotations

import os
import re
import tempfile
from array import array
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import torch

from minitorch2 import cache as disk
from minitorch2 import config, stages
from minitorch2.codegen.halide import NOTHING_WRONG, Argument, Dim, KernelSource
from minitorch2.foundation.generated_code import execute
from minitorch2.native.kernels.python_launcher import PythonLauncher
from minitorch2.native.llvm import machine_code

RUNTIME: Final = "host-no_asserts-no_bounds_query"
FEATURES: Final = f"{RUNTIME}-strict_float"
"""Memory is addressed as loop bodies say, and NaN and infinities mean what they mean in eager."""
_CODES: Final = {"int": 0, "uint": 1, "float": 2}
_LOADED: dict[str, int] = {}


def object_code(source: KernelSource) -> bytes:
    """Return a kernel's object code, from the cache or from Halide.

    Raises:
        HalideError: Halide refuses the program.
    """
    return _kept("halide kernel", source.key(), lambda path: _write(source, path))


def _kept(layer: str, text: str, write: Callable[[str], None]) -> bytes:
    toolchain = machine_code.toolchain()
    fields = {"halide": version("halide"), "library": disk.digest_of_sources("codegen/halide")}
    key = disk.key_of(layer, text=text, **fields, **toolchain)
    found = disk.load(key)
    if found is None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.o"
            write(str(path))
            found = path.read_bytes()
        disk.store(key, found)
        stages.count("kernels_compiled")
    return found


def pipeline(source: KernelSource) -> tuple[Any, list[Any]]:
    """Run a kernel's program; return Halide's pipeline and its arguments."""
    namespace: dict[str, Any] = {}
    execute(source.text, f"<minitorch2 halide {source.name}>", namespace)
    result: tuple[Any, list[Any]] = namespace[source.name]()
    return result


def _write(source: KernelSource, path: str) -> None:
    import halide as hl  # not needed where the cache has the object code

    made, arguments = pipeline(source)
    made.compile_to_object(path, arguments, _symbol(source), hl.Target(f"{FEATURES}-no_runtime"))


def _write_runtime(path: str) -> None:
    import halide as hl  # not needed where the cache has the runtime

    hl.compile_standalone_runtime(path, hl.Target(RUNTIME))


def _symbol(source: KernelSource) -> str:
    return f"halide_{source.key()}"


@cache
def _runtime() -> None:
    """Link Halide's runtime; its threads are as many as torch's."""
    code = _kept("halide runtime", RUNTIME, _write_runtime)
    set_threads = machine_code.function_at(machine_code.load(code, "halide_set_num_threads"))
    set_threads(config.current().threads or torch.get_num_threads())
    os.register_at_fork(after_in_child=lambda: set_threads(1))


def load_halide_kernel(*fields: Any) -> PythonLauncher:
    """Return a kernel as a function, given the fields of its source.

    The function is `kernel(n, tensor or address..., size...)`.
    """
    source = KernelSource(*fields)
    source = source._replace(arguments=tuple(Argument(*each) for each in source.arguments))
    with stages.phase("kernel_compile"):
        _runtime()
        symbol = _symbol(source)
        if symbol not in _LOADED:
            _LOADED[symbol] = machine_code.load(object_code(source), f"{symbol}_argv")
    run = machine_code.function_at(_LOADED[symbol])
    return PythonLauncher(source.name, 1 + source.pointers + len(source.sizes), _Call(source, run))


class _Call:
    """A call of a compiled pipeline, which finds its arguments in a block of words.

    block ::= address of each argument | size* | (halide_buffer_t, dimensions)* | complaint*

    Only what varies is filled in at each call: addresses, and words made of sizes.
    """

    def __init__(self, source: KernelSource, run: Callable[[int], int]) -> None:
        self.run = run
        self.place = {name: source.pointers + i for i, name in enumerate(source.sizes)}
        self.block, words = array("q"), len(source.words)
        self.inside: dict[int, int] = {}
        self.hosts: list[tuple[int, int, int, Dim]] = []
        self.varying: list[tuple[int, Dim, Dim | None]] = []
        self.complaints: list[tuple[int, Dim]] = []
        self.block.extend([0] * (len(source.arguments) + words))
        for slot, name in enumerate(source.words, source.inputs):
            self.inside[slot] = len(self.block)
            self.varying.append((len(self.block), name, None))
            self.block.append(0)
        limits = iter(source.limits)
        for number, argument in enumerate(source.arguments):
            slot = number if number < source.inputs else number + words
            self._describe(slot, argument, limits)

    def _describe(self, slot: int, argument: Argument, limits: Iterator[Dim]) -> None:
        """Add the words of a buffer; `HalideRuntime.h` says what they mean."""
        begin = self.inside[slot] = len(self.block)
        kind, bits = re.fullmatch(r"([a-z]+)(\d+)", argument.dtype).groups()  # type: ignore[union-attr]
        lanes_and_dims = 1 << 16 | len(argument.dims) << 32
        self.block.extend([0, 0, 0, 0, _CODES[kind] | int(bits) << 8 | lanes_and_dims, 0, 0])
        self.inside[begin + 5] = len(self.block)
        for extent, stride in argument.dims:
            self.varying += [(len(self.block), 0, extent), (len(self.block) + 1, stride, 0)]
            self.block.extend([0, 0])
        if argument.pointer < 0:
            self.inside[begin + 2] = len(self.block)
            self.complaints.append((len(self.block), next(limits)))
            self.block.append(0)
        else:
            self.hosts.append((begin + 2, argument.pointer, int(bits) // 8, argument.offset))

    def __call__(self, n: int, words: list[int]) -> tuple[int, int] | None:
        """Run the pipeline; return an index that was out of range, and the size, or None."""
        if n == 0:
            return None
        block = array("q", self.block)
        base = block.buffer_info()[0]
        for at, inside in self.inside.items():
            block[at] = base + 8 * inside
        for at, pointer, size, offset in self.hosts:  # of no elements: any address will do
            block[at] = words[pointer] + size * self._number(offset, words) or base
        for at, low, high in self.varying:
            number = self._number(low, words)
            block[at] = (
                number if high is None else number & 0xFFFFFFFF | self._number(high, words) << 32
            )
        self.run(base)
        for at, limit in self.complaints:
            if block[at] != NOTHING_WRONG:
                return block[at], self._number(limit, words)
        return None

    def _number(self, dim: Dim, words: list[int]) -> int:
        return dim if isinstance(dim, int) else words[self.place[dim]]
