"""Run the Triton kernels of a program one by one, without a wrapper: the smallest end-to-end path.

On a machine with a GPU the kernels run there, elsewhere in Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from minitorch2.codegen.target import Kernel
from minitorch2.codegen.triton import CAPABILITIES, KernelSource
from minitorch2.codegen.triton.joined import print_joined_kernel, why_alone
from minitorch2.codegen.triton.kernel import can_write_in_place, print_triton_kernel
from minitorch2.codegen.triton.launch import load_triton_kernel
from minitorch2.loopir.buffers import Buffer, BufferView
from minitorch2.loopir.launches import join_launches
from minitorch2.loopir.lower_graph import LoweredGraph, lower_graph
from minitorch2.loopir.schedule import (
    ExternKernelSchedulerNode,
    FusedSchedulerNode,
    JoinedSchedulerNode,
    SchedulerNode,
    bodies,
)
from minitorch2.loopir.scheduler import schedule
from tests.unit.codegen.aten_graph import call_inputs, record

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass
class Kernels:
    """`kernels` of a lowered graph by place in the schedule; `run(inputs)` executes them."""

    lowered: LoweredGraph

    def __post_init__(self) -> None:
        lowered = self.lowered
        self.schedule = schedule(lowered, CAPABILITIES)
        inputs = [b for b in lowered.inputs if isinstance(b, Buffer)]
        buffers = [*inputs, *lowered.constants.values(), *lowered.buffers]
        self.buffers = {buffer.name: buffer for buffer in buffers}
        self.kernels: dict[int, Kernel[KernelSource]] = {}
        self.inplace: dict[str, str] = {}
        for position, node in enumerate(self.schedule.nodes):
            if isinstance(node, (SchedulerNode, FusedSchedulerNode)):
                own = {b.name for b in bodies(node)}
                inplace = {t: s for t, s in self.schedule.inplace.items() if t in own}
                if not can_write_in_place(node, self.buffers):
                    inplace = {}
                self.inplace |= inplace
                self.kernels[position] = print_triton_kernel(
                    node, self.buffers, name=f"kernel_{position}",
                    removed=self.schedule.removed, inplace=inplace,
                )  # fmt: skip

    @property
    def texts(self) -> list[str]:
        return [kernel.source.text for kernel in self.kernels.values()]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        self.memory: dict[str, torch.Tensor] = {}
        self.sizes: dict[Any, int] = {}
        for expected, value in zip(self.lowered.inputs, inputs, strict=True):
            if isinstance(expected, Buffer):
                self.memory[expected.name] = value
            else:
                self.sizes[expected] = value
        self.memory |= {n: c.value.to(DEVICE) for n, c in self.lowered.constants.items()}
        for position, node in enumerate(self.schedule.nodes):
            if isinstance(node, ExternKernelSchedulerNode):
                self._call(node.kernel)
            elif position in self.kernels:
                self._launch(node, self.kernels[position])
        return [self._argument(output) for output in self.lowered.outputs]

    def _launch(self, node: Any, kernel: Kernel[KernelSource]) -> None:
        for body in bodies(node):
            if body.name in self.inplace:
                self.memory[body.name] = self.memory[self.inplace[body.name]]
            elif body.name not in self.schedule.removed:
                self.memory[body.name] = self._poisoned(body.buffer)
        load_triton_kernel(kernel.source.name, kernel.source.text)(*self.arguments(kernel))

    def arguments(self, kernel: Kernel[KernelSource]) -> list[int]:
        addresses = [self.memory[name].data_ptr() for name in kernel.buffers]
        return [self._number(kernel.iterations), 0, *addresses, *map(self._number, kernel.sizes)]

    def _poisoned(self, buffer: Buffer) -> torch.Tensor:
        """New memory full of rubbish, so that an element that no kernel writes is seen."""
        layout = buffer.fixed_layout()
        size, stride = (tuple(map(self._number, part)) for part in (layout.size, layout.stride))
        rubbish = True if layout.dtype == torch.bool else 77
        return torch.empty_strided(size, stride, dtype=layout.dtype, device=DEVICE).fill_(rubbish)

    def _call(self, kernel: Any) -> None:
        kwargs = {name: self._argument(value) for name, value in kernel.kwargs.items()}
        result = kernel.target(*self._argument(kernel.args), **kwargs)
        for buffer, position in [(o, o.position) for o in kernel.outputs] or [(kernel, ())]:
            value = result
            for step in position:
                value = value[step]
            self.memory[buffer.name] = self._poisoned(buffer).copy_(value)

    def _number(self, expr: Any) -> int:
        return int(expr.subs(self.sizes)) if isinstance(expr, sympy.Expr) else expr

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, BufferView):
            layout, tensor = argument.layout, self.memory[argument.name]
            size, stride = (tuple(map(self._number, p)) for p in (layout.size, layout.stride))
            offset = tensor.storage_offset() + self._number(layout.offset)
            return torch.as_strided(tensor, size, stride, offset)
        if isinstance(argument, (tuple, list)):
            return type(argument)(map(self._argument, argument))
        return self._number(argument)


def to_device(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on the device with the same strides and gaps; `Tensor.to` would close the gaps."""
    storage = tensor.untyped_storage()
    count = storage.nbytes() // tensor.itemsize
    whole = torch.as_strided(tensor, (count,), (1,), 0).to(DEVICE)
    return torch.as_strided(whole, tensor.size(), tensor.stride(), tensor.storage_offset())


def kernels_of(
    program: Callable[..., Any], *inputs: torch.Tensor, dynamic: bool = False
) -> Kernels:
    """The kernels of a program, from example inputs."""
    moved = [to_device(tensor) for tensor in inputs]
    gm = record(program, *moved, dynamic=dynamic)
    return Kernels(lower_graph(gm, call_inputs(gm, *moved)))


def check(
    program: Callable[..., Any],
    *inputs: torch.Tensor,
    kernels: int = 1,
    dynamic: bool = False,
    **tolerances: float,
) -> Kernels:
    """Compare kernels with eager PyTorch on the same device; count them."""
    moved = [to_device(tensor) for tensor in inputs]
    gm = record(program, *moved, dynamic=dynamic)
    arguments = call_inputs(gm, *moved)
    made = Kernels(lower_graph(gm, arguments))
    expected = program(*[tensor.clone() for tensor in moved])
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    results = made.run(arguments)
    for result, answer in zip(results, expected, strict=True):
        torch.testing.assert_close(result, answer, equal_nan=True, **tolerances)
    assert len(made.kernels) == kernels, "\n".join(made.texts)
    return made


def joined_texts(program: Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    """The texts of the launches that do several of a program's kernels."""
    lowered = lower_graph(record(program, *inputs))
    buffers = lowered.by_name()
    plan = schedule(lowered, CAPABILITIES)
    plan = join_launches(plan, lowered, CAPABILITIES, lambda kernel: why_alone(kernel, buffers))
    joined = (node for node in plan.nodes if isinstance(node, JoinedSchedulerNode))
    kernels = (
        print_joined_kernel(
            node, buffers, name="joined", removed=frozenset(plan.removed), inplace=plan.inplace
        )
        for node in joined
    )
    return [kernel.source.text for kernel in kernels]
