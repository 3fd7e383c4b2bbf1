"""A kernel's file is a program: run alone, it runs the kernel in three ways and compares them.

`python 020_kernel.py` makes random inputs (integers are 0, since they may be indices; a size that
varies is 8). It lets CPython, Numba and the project's own front end run the kernel, compares the
results, and prints the times. `python -m pdb 020_kernel.py` steps through the kernel as CPython
runs it: `b <name of the kernel>`, then `c`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch

from minitorch2 import config
from minitorch2.native.kernels.python_launcher import PythonLauncher
from minitorch2.native.kernels.runtime import KernelSource, load_kernel
from minitorch2.native.kernels.stepping import NAMES, run_in_python

SECONDS_IN_PYTHON = 2.0
ROUNDS = 20
TOLERANCE = 1e-5
"""Compilers may add up a sum in another order."""
BITS = {"uint16": torch.bfloat16}
"""What 16 bits of memory stand for here; a kernel says which 16-bit float it reads."""


def main_text(source: KernelSource, elements: Sequence[str], sizes: Sequence[str], n: str) -> str:
    """Return the end of a kernel's file.

    Args:
        elements: how many elements each pointer's memory has, as text.
        sizes: the size arguments of the call, as text.
        n: its iterations, as text.
    """
    lines = [
        "from minitorch2.native.kernels.trial import Trial",
        f"Trial({source.name}, n={n}, grain={source.grain}, inner={source.inner},",
        f"      pointers={source.pointers},",
        f"      elements=[{', '.join(elements)}], sizes=[{', '.join(sizes)}]).run()",
    ]
    return "\n".join(["", "", 'if __name__ == "__main__":', *(f"    {line}" for line in lines), ""])


@dataclass(frozen=True)
class Trial:
    """A kernel, and the call with which it is tried.

    Args:
        kernel: the function in the kernel's file, whose free names mean nothing yet.
        n, elements, sizes: as in `main_text`, now numbers.
        grain, inner, pointers: as in `KernelSource`.
    """

    kernel: Callable[..., int]
    n: int
    grain: int
    inner: int | None
    pointers: tuple[str, ...]
    elements: Sequence[int]
    sizes: Sequence[int]

    def run(self) -> None:
        """Run the kernel in each way, compare the results, and print the times."""
        made = [_memory(kind, count) for kind, count in zip(self.pointers, self.elements)]
        some, seconds = self._time_in_python([tensor.clone() for tensor in made])
        _say(f"Python      {seconds:12.6f} s, {some} of {self.n} iterations")
        results = {"Python": self._results(self._python(), made, some)}
        for compiler in ("numba", "minitorch2"):
            start = perf_counter()
            launch = self._compiled(compiler)
            compiling = perf_counter() - start
            results[compiler] = self._results(launch, made, some)
            inputs = [tensor.clone() for tensor in made]
            seconds = median(_seconds(launch, self.n, inputs, self.sizes) for _ in range(ROUNDS))
            _say(f"{compiler:11} {seconds:12.6f} s, compiled in {compiling:.3f} s")
        ours = results.pop("minitorch2")
        for way, found in results.items():
            torch.testing.assert_close(found, ours, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
            same = all(map(torch.equal, found, ours))
            _say(f"{way}: {'the same bits' if same else 'nearly the same'} as minitorch2")

    def _python(self) -> PythonLauncher:
        self.kernel.__globals__.update(NAMES)
        return run_in_python(self.kernel, self.pointers)

    def _compiled(self, compiler: str) -> Callable[..., None]:
        text = inspect.getsource(self.kernel)
        name, sizes = self.kernel.__name__, len(self.sizes)
        source = KernelSource(name, text, self.pointers, sizes, self.grain, self.inner)
        with config.patch(cpu_compiler=compiler, cache=False):
            return load_kernel(source)

    def _time_in_python(self, inputs: list[torch.Tensor]) -> tuple[int, float]:
        """Return the number of iterations that Python does in some seconds, and the seconds."""
        launch, some = self._python(), min(1, self.n)
        while True:
            seconds = _seconds(launch, some, inputs, self.sizes)
            if some >= self.n or seconds > SECONDS_IN_PYTHON / 4:
                return some, seconds
            some = min(self.n, 4 * some)

    def _results(
        self, launch: Callable[..., None], made: Sequence[torch.Tensor], n: int
    ) -> list[torch.Tensor]:
        memory = [tensor.clone() for tensor in made]
        launch(n, *memory, *self.sizes)
        return [_values(kind, tensor) for kind, tensor in zip(self.pointers, memory)]


def _seconds(
    launch: Callable[..., None], n: int, inputs: Sequence[torch.Tensor], sizes: Sequence[int]
) -> float:
    start = perf_counter()
    launch(n, *inputs, *sizes)
    return perf_counter() - start


def _memory(kind: str, count: int) -> torch.Tensor:
    """Return memory of random numbers, or zeros for an integer type."""
    dtype = BITS.get(kind) or getattr(torch, kind)
    tensor = torch.zeros(count, dtype=dtype)
    if dtype.is_floating_point:
        tensor.normal_()
    return tensor.view(torch.uint16) if kind in BITS else tensor


def _values(kind: str, memory: torch.Tensor) -> torch.Tensor:
    return memory.view(BITS[kind]) if kind in BITS else memory


def _say(text: Any) -> None:
    sys.stdout.write(f"{text}\n")
