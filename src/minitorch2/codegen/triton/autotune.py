"""Which products become kernels of their own: measured, and remembered.

Under `max_autotune` each product that a pointwise kernel reads is run both ways: the library's
product and the kernel behind it, and the template with each tile. What was fastest is kept on
disk, under the text of the kernels and the name of the GPU, so that a second process measures
nothing.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

import torch

from minitorch2 import stages
from minitorch2.codegen import cache
from minitorch2.codegen.common import kernel_name
from minitorch2.codegen.triton.availability import is_interpreting
from minitorch2.codegen.triton.kernel import TritonKernel, print_triton_kernel
from minitorch2.codegen.triton.template import (
    TILES,
    TemplateNode,
    Tile,
    find_templates,
    print_template_kernel,
)
from minitorch2.errors import LoweringError
from minitorch2.logs import get_logger
from minitorch2.loopir.buffers import Buffer, BufferView
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.memory_plan import plan_memory
from minitorch2.loopir.schedule import Capabilities, ExternKernelSchedulerNode, KernelNode, Schedule

_LOGGER = get_logger(__name__)
_ROUNDS: Final = 7
_CALLS: Final = 20
Choice = Tile | None
Run = Callable[[int], None]
"""Launches one way to compute the product, on a stream."""
Chooser = Callable[[ExternKernelSchedulerNode, KernelNode, Mapping[str, Buffer]], Choice]
"""`choose(product, epilogue, buffers)`: the tile of the template, or None for the library."""


def buffers_by_name(lowered: LoweredGraph) -> dict[str, Buffer]:
    """All buffers of a graph."""
    inputs = [value for value in lowered.inputs if isinstance(value, Buffer)]
    return {b.name: b for b in (*inputs, *lowered.constants.values(), *lowered.buffers)}


def with_templates(
    lowered: LoweredGraph,
    plan: Schedule,
    capabilities: Capabilities,
    choose: Chooser | None = None,
) -> Schedule:
    """The schedule with products as templates where `choose` says so (default: by measuring)."""
    buffers = buffers_by_name(lowered)
    choose = choose or choose_by_measuring
    nodes, products = list(plan.nodes), []
    for product, epilogue in find_templates(plan, lowered.output_names):
        tile = choose(product, epilogue, buffers)
        if tile is not None:
            nodes[nodes.index(epilogue)] = TemplateNode(product, epilogue, tile)
            nodes.remove(product)
            products.append(product.name)
    if not products:
        return plan
    result = plan_memory(Schedule(nodes, log=plan.log), lowered, capabilities)
    result.removed |= set(products)
    own = {b.name for n in nodes if isinstance(n, TemplateNode) for b in n.nodes}
    result.inplace = {new: old for new, old in result.inplace.items() if new not in own}
    stages.count("templates", len(products))
    return result


def choose_by_measuring(
    product: ExternKernelSchedulerNode, epilogue: KernelNode, buffers: Mapping[str, Buffer]
) -> Choice:
    """The fastest way on this GPU, from the cache if it was measured before."""
    device = product.kernel.device
    if device.type != "cuda" or is_interpreting():
        return None
    kernels = _candidates(product, epilogue, buffers)
    library = _library_kernel(product, epilogue, buffers)
    key = cache.key_of(
        "autotune",
        library.source.name,
        gpu=torch.cuda.get_device_name(device),
        torch=torch.__version__,
        library=repr((product.kernel.target, product.kernel.fixed_layout(), library.source.key())),
        templates=" ".join(kernel.source.key() for kernel in kernels.values()),
    )
    found = cache.load(key)
    if found is not None:
        answer = json.loads(found)
        return None if answer is None else Tile(**answer)
    with stages.phase("autotune"):
        choice = _measure(product, library, kernels, buffers)
    cache.store(key, json.dumps(choice and asdict(choice)).encode())
    return choice


def _candidates(
    product: ExternKernelSchedulerNode, epilogue: KernelNode, buffers: Mapping[str, Buffer]
) -> dict[Tile, TritonKernel]:
    kernels: dict[Tile, TritonKernel] = {}
    m, n = product.kernel.size[-2:]
    for tile in TILES:
        if (tile.x > 2 * m and tile.x > 16) or (tile.y > 2 * n and tile.y > 64):
            continue
        node = TemplateNode(product, epilogue, tile)
        name = kernel_name(node, 0)
        try:
            kernels[tile] = print_template_kernel(node, buffers, name=name)
        except LoweringError as error:
            _LOGGER.info("no template for %s: %s", product.name, error)
            return {}
    return kernels


def _library_kernel(
    product: ExternKernelSchedulerNode, epilogue: KernelNode, buffers: Mapping[str, Buffer]
) -> TritonKernel:
    return print_triton_kernel(epilogue, buffers, name=kernel_name(epilogue, 0))


def _measure(
    product: ExternKernelSchedulerNode,
    library: TritonKernel,
    kernels: Mapping[Tile, TritonKernel],
    buffers: Mapping[str, Buffer],
) -> Choice:
    """Time the library and each tile, on random numbers."""
    from minitorch2.codegen.triton import launch  # imports Triton, which may not be there

    device = product.kernel.device
    index = device.index or 0
    memory: dict[str, torch.Tensor] = {}
    for kernel in (library, *kernels.values()):
        for name in (*kernel.pointers, product.name):
            if name not in memory:
                memory[name] = _random(buffers[name])

    def launches(kernel: TritonKernel) -> Run:
        run = launch.load_triton_kernel(kernel.source.name, kernel.source.text, index)
        words = [memory[name].data_ptr() for name in kernel.pointers]
        return lambda stream: run(kernel.programs, stream, *words)

    arguments = [_placed(argument, memory) for argument in product.kernel.args]
    behind = launches(library)

    def by_library(stream: int) -> None:
        product.kernel.target(*arguments)
        behind(stream)

    runs: dict[Choice, Run] = {None: by_library}
    runs |= {tile: launches(kernel) for tile, kernel in kernels.items()}
    with torch.cuda.device(device):
        times = {choice: _milliseconds(run) for choice, run in runs.items()}
    stages.count("autotune_candidates", len(runs))
    best = min(times, key=times.__getitem__)
    _LOGGER.info(
        "%s: library %.4f ms, templates %s", product.name, times[None],
        ", ".join(f"{t.x}x{t.y}x{t.k} {ms:.4f}" for t, ms in times.items() if t is not None),
    )  # fmt: skip
    return best


def _random(buffer: Buffer) -> torch.Tensor:
    """Memory of a buffer: random numbers, zeros where they may be indices."""
    size, dtype = int(buffer.fixed_layout().storage_size()), buffer.dtype
    if dtype.is_floating_point:
        return torch.randn(size, device=buffer.device).to(dtype)
    return torch.zeros(size, dtype=dtype, device=buffer.device)


def _placed(argument: Any, memory: Mapping[str, torch.Tensor]) -> Any:
    if not isinstance(argument, BufferView):
        return argument
    layout = argument.layout
    return memory[argument.name].as_strided(layout.size, layout.stride, layout.offset)


def _milliseconds(run: Run) -> float:
    """The median of a call's time; infinite if the GPU has not the memory that it shares."""
    try:
        run(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001  whatever it is: the library remains
        _LOGGER.info("a candidate cannot run: %s", error)
        return float("inf")
    graph = torch.cuda.CUDAGraph()  # so that the host's time for a launch does not count
    with torch.cuda.graph(graph):
        for _ in range(_CALLS):
            run(torch.cuda.current_stream().cuda_stream)
    spent: list[float] = []
    for _ in range(_ROUNDS):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
        events[0].record()
        graph.replay()
        events[1].record()
        torch.cuda.synchronize()
        spent.append(events[0].elapsed_time(events[1]) / _CALLS)
    return statistics.median(spent)
