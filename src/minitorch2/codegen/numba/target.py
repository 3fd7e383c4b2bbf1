"""The target of kernels for the CPU: text in the part of Python that Numba understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import torch

from minitorch2 import config
from minitorch2.codegen.spelling import escaped
from minitorch2.codegen.target import Definition, Kernel, Target
from minitorch2.errors import BackendError
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.schedule import BaseSchedulerNode, Capabilities, Schedule, kernels_in
from minitorch2.native.kernels.runtime import KernelSource, begin_kernel

ROW_SCRATCH: Final = 32768
"""Elements that a kernel may keep on the stack of a thread: 128 KiB of float32."""
JOINS: Final = 4, 256
"""How many kernels share a launch. It takes a line of text for each, and saves only a sixteenth of
a microsecond; but threads share all of them."""
_RUNTIME: Final = "minitorch2.native.kernels.runtime"


class NumbaTarget(Target[KernelSource]):
    """Kernels that `native.kernels` compiles and runs."""

    name = "numba"

    def capabilities(self) -> Capabilities:
        """Return the limits: a row that fits the stack stays between passes."""
        return Capabilities(
            max_fusion_size=config.current().max_fusion_size,
            row_scratch=ROW_SCRATCH,
            fewest_joined=JOINS[0],
            joins=JOINS[1],
        )

    def on(self, device: torch.device) -> Target[Any]:
        """Return this target. Raises BackendError if the device is not the CPU."""
        if device.type != "cpu":
            raise BackendError(
                f"a kernel for the CPU cannot compute on {device}",
                code="wrong-device", fix="use the backend 'triton'",
            )  # fmt: skip
        return self

    def parts(self, node: BaseSchedulerNode) -> Sequence[BaseSchedulerNode]:
        """Return the kernels of a launch."""
        return kernels_in(node)

    def print(
        self, node: BaseSchedulerNode, plan: Schedule, buffers: Mapping[str, Buffer], name: str
    ) -> Kernel[KernelSource]:
        """Print a kernel as a function of a range of iterations."""
        # Deferred: a process that finds its graphs in the cache prints no kernel.
        from minitorch2.codegen.numba.kernel import print_kernel

        (kernel,) = kernels_in(node)
        return print_kernel(kernel, plan, buffers, name)

    def define(self, kernel: Kernel[KernelSource], device: torch.device) -> Definition:
        """Return the statement that loads a kernel, which LLVM begins to compile at once."""
        source = kernel.source
        begin_kernel(source)
        inner = "" if source.inner is None else f", inner={source.inner}"
        return Definition(
            f"\n{source.name} = load_kernel(KernelSource(\n"
            f"    name={source.name!r}, pointers={source.pointers!r}, sizes={source.sizes}, "
            f"grain={source.grain}{inner},\n    text='''\n{escaped(source.text)}'''))",
            {"KernelSource": _RUNTIME, "load_kernel": _RUNTIME},
        )

    def define_launch(self, name: str, kernels: Sequence[str]) -> Definition:
        """Return the statement that joins kernels; a run of equal ones is a product."""
        runs = ((kernel, len([*run])) for kernel, run in groupby(kernels))
        lists = (f"{count} * [{kernel}]" if count > 1 else f"[{kernel}]" for kernel, count in runs)
        text = f"\n{name} = join_kernels({name!r}, {' + '.join(lists)})"
        return Definition(text, {"join_kernels": _RUNTIME})

    def main(self, kernel: Kernel[KernelSource], buffers: Mapping[str, Buffer]) -> str:
        """Return the end of the kernel's file, which tries the kernel alone."""
        from minitorch2.codegen.standalone import number  # deferred, as the printers are
        from minitorch2.native.kernels.trial import main_text  # needed for files only

        layouts = [buffers[name].fixed_layout() for name in kernel.buffers]
        elements = [number(layout.storage_size()) for layout in layouts]
        sizes = [*map(number, kernel.sizes)]
        return main_text(kernel.source, elements, sizes, number(kernel.iterations))


NUMBA: Final = NumbaTarget()
