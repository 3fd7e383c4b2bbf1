"""The target of Halide kernels; those that Halide cannot express are the CPU target's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Final

import torch

from minitorch2 import config, stages
from minitorch2.codegen.halide import KernelSource
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.codegen.spelling import quoted
from minitorch2.codegen.target import Definition, Kernel, Target
from minitorch2.errors import BackendError, LoweringError
from minitorch2.logs import get_logger
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.schedule import BaseSchedulerNode, Capabilities, Schedule, bodies, kernels_in

_LOGGER = get_logger(__name__)


class HalideTarget(Target[Any]):
    """Kernels that Halide compiles, for the CPU."""

    name = "halide"

    def capabilities(self) -> Capabilities:
        """Return the CPU target's limits, so that it can take over each kernel, one a launch."""
        return replace(NUMBA.capabilities(), joins=1)

    def on(self, device: torch.device) -> Target[Any]:
        """Return this target. Raises BackendError without the package, or on another device."""
        if find_spec("halide") is None:
            raise BackendError(
                "Halide is not installed", code="backend-not-available",
                fix="pip install 'minitorch2[halide]', or use the backend 'numba'",
            )  # fmt: skip
        if device.type != "cpu":
            raise BackendError(
                f"a Halide kernel of this target cannot compute on {device}",
                code="wrong-device", fix="use the backend 'triton'",
            )  # fmt: skip
        if config.current().halide_schedule == "anderson2021":
            raise BackendError(
                "the autoscheduler anderson2021 makes schedules for GPUs only",
                code="wrong-device", fix="choose 'adams2019', 'mullapudi2016' or 'li2018'",
            )  # fmt: skip
        return self

    def print(
        self, node: BaseSchedulerNode, plan: Schedule, buffers: Mapping[str, Buffer], name: str
    ) -> Kernel[Any]:
        """Print a kernel, and compile it; the CPU target prints what Halide refuses."""
        # Deferred: a process that finds its graphs in the cache prints no kernel.
        from halide import HalideError

        # Deferred, as above.
        from minitorch2.codegen.halide.kernel import print_halide_kernel

        # Deferred, as above.
        from minitorch2.codegen.halide.launch import object_code

        (kernel,) = kernels_in(node)
        by = config.current().halide_schedule
        stored = [b for b in bodies(kernel) if b.name not in plan.removed and not b.scatters]
        if len(stored) > 1 or len(stored) < len(bodies(kernel)) or by != "ours":
            # Halide's outputs have no order: one may be written before another's reads.
            plan.inplace = plan.inplace.without([body.name for body in stored])
        try:
            printed = print_halide_kernel(kernel, plan, buffers, name, by)
            with stages.phase("kernel_compile"):
                object_code(printed.source)
        except (LoweringError, HalideError) as refusal:
            stages.count("halide_fallbacks")
            stages.record("fallback", f"{name} is a kernel of the CPU target: {refusal}")
            return NUMBA.print(node, plan, buffers, name)
        return printed

    def define(self, kernel: Kernel[Any], device: torch.device) -> Definition:
        """Return the statement that loads a kernel."""
        source = kernel.source
        if not isinstance(source, KernelSource):
            return NUMBA.define(kernel, device)
        return Definition(
            f"\n{source.name} = load_halide_kernel(\n"
            f"    {source.name!r}, {quoted(source.text)},\n    {source.fields()})",
            {"load_halide_kernel": "minitorch2.codegen.halide.launch"},
        )

    def main(self, kernel: Kernel[Any], buffers: Mapping[str, Buffer]) -> str:
        """Return the end of the kernel's file, which runs the kernel alone."""
        source = kernel.source
        if not isinstance(source, KernelSource):
            return NUMBA.main(kernel, buffers)
        from minitorch2.codegen.standalone import number  # deferred, as the printers are

        layouts = [buffers[name].fixed_layout() for name in kernel.buffers]
        memory = [(str(f.dtype), number(f.storage_size())) for f in layouts]
        made = ", ".join(f"random_tensor(({n},), (1,), {dtype}, 'cpu')" for dtype, n in memory)
        call = ", ".join([number(kernel.iterations), "*memory", *map(number, kernel.sizes)])
        return MAIN.format(name=source.name, fields=source.fields(), made=made, call=call)


MAIN: Final = """

if __name__ == "__main__":
    import torch

    from minitorch2.codegen.halide.launch import load_halide_kernel
    from minitorch2.codegen.standalone import measure, random_tensor

    kernel = load_halide_kernel(
        {name!r}, open(__file__).read().partition("\\n\\nif __name__")[0],
        {fields})
    measure(lambda memory: kernel({call}), lambda: [{made}])
"""
HALIDE: Final = HalideTarget()
