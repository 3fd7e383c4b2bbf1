"""Halide kernels: the third handler over the same loop bodies.

Halide is a language for loops in which values and the order of their computation are two texts. An
*algorithm* defines functions of integers. A *schedule* says where they are computed, and in which
loops. A loop body is a value without an order, so it is an algorithm as it stands.

    elementary.py  `erf` and its like: the source of the CPU's functions, run on expressions
    functions.py   primitives as Halide expressions, which a printed kernel calls `lib`
    handler.py     `HalideHandler`: a loop body becomes names for expressions
    kernel.py      `print_halide_kernel`: functions, reductions and outputs of a fused kernel
    schedule.py    the order of their computation: ours, or an autoscheduler's
    launch.py      a kernel's program -> object code, in the cache -> a call with addresses
    target.py      kernels as the compiler of graphs asks for them, and those left to the CPU target
"""

from __future__ import annotations

from typing import NamedTuple

from minitorch2 import cache

NOTHING_WRONG = -(1 << 63)
"""What a kernel stores instead of an index out of range."""
Dim = int | str
"""A number, or the name of the size argument that it is."""


class Argument(NamedTuple):
    """A buffer of a compiled pipeline: the kernel's pointer, or -1 for a complaint.

    `dims` are extents and strides, innermost first; the offset and strides count elements.
    """

    pointer: int
    dtype: str
    dims: tuple[tuple[Dim, Dim], ...]
    offset: Dim = 0


class KernelSource(NamedTuple):
    """The program of a kernel, and what its pipeline is given.

    Args:
        pointers: how many addresses the kernel takes.
        sizes: the names of its size arguments; `words` are those that the pipeline takes.
        arguments: the pipeline's buffers; its sizes come after the first `inputs` of them.
        limits: the size that each complaint's index should be below.
    """

    name: str
    text: str
    pointers: int
    sizes: tuple[str, ...]
    words: tuple[str, ...]
    arguments: tuple[Argument, ...]
    inputs: int
    limits: tuple[Dim, ...] = ()

    def fields(self) -> str:
        """Return what follows the text, as Python."""
        plain = self._replace(arguments=tuple(tuple(each) for each in self.arguments))  # type: ignore[misc]
        return ", ".join(map(repr, plain[2:]))

    def key(self) -> str:
        """Return a text that is equal for kernels that compute the same."""
        code = "\n".join(line for line in self.text.splitlines() if line.strip()[:1] != "#")
        code = code.replace(f"def {self.name}(", "def kernel(")
        return cache.digest_of(code, repr((self.sizes, self.words, self.arguments, self.limits)))
