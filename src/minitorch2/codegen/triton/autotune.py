"""Which products and convolutions become kernels of their own: measured, and remembered.

Under `max_autotune` each site is run in all its ways: the kernels before and behind, with the
library's call between them; and the template with each tile, which computes none of its operands,
or all. What was fastest is kept on disk, under the text of the kernels and the name of the GPU, so
that a second process measures nothing.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import Any, Final

import sympy
import torch

from minitorch2 import stages
from minitorch2.codegen import cache
from minitorch2.codegen.common import kernel_name
from minitorch2.codegen.triton.availability import is_interpreting
from minitorch2.codegen.triton.kernel import TritonKernel, print_triton_kernel
from minitorch2.codegen.triton.sites import Site, find_sites
from minitorch2.codegen.triton.template import TILES, TemplateNode, Tile, print_template_kernel
from minitorch2.errors import LoweringError
from minitorch2.logs import get_logger
from minitorch2.loopir.buffers import Buffer, BufferView, ExternKernel
from minitorch2.loopir.expressions import Expr
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.memory_plan import plan_memory
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    KernelNode,
    Schedule,
)

_LOGGER = get_logger(__name__)
_ROUNDS: Final = 7
_CALLS: Final = 20
_WORTH: Final = 0.97
"""What part of the library's time a template may take at most: less is noise."""
Sizes = Mapping[sympy.Symbol, int]
"""The values of symbolic sizes in the example."""
Chooser = Callable[[Site, Mapping[str, Buffer], Sizes], TemplateNode | None]
"""`choose(site, buffers, sizes)`: how to compute a site, or None for the library."""


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
    """The schedule with templates where `choose` says so (default: by measuring)."""
    buffers = buffers_by_name(lowered)
    choose = choose or choose_by_measuring
    templates: dict[BaseSchedulerNode, TemplateNode] = {}
    taken = set[BaseSchedulerNode]()
    for site in find_sites(plan, lowered.output_names, taken):
        template = choose(site, buffers, lowered.hints)
        if template is not None:
            templates[site.epilogue or site.product] = template
            taken |= {*template.absorbed, *site.behind}
    if not templates:
        return plan
    kept = [node for node in plan.nodes if node not in taken or node in templates]
    nodes = [templates.get(node, node) for node in kept]
    result = plan_memory(Schedule(nodes, log=plan.log), lowered, capabilities)
    own = {body.name for template in templates.values() for body in template.nodes}
    absorbed = {node.name for template in templates.values() for node in template.absorbed}
    result.removed |= absorbed - own
    result.inplace = {new: old for new, old in result.inplace.items() if new not in own}
    stages.count("templates", len(templates))
    return result


def choose_by_measuring(
    site: Site, buffers: Mapping[str, Buffer], sizes: Sizes
) -> TemplateNode | None:
    """The fastest way on this GPU, from the cache if it was measured before."""
    device = site.product.kernel.device
    gpu = name_of(device)
    if gpu is None:
        return None
    try:
        ways = candidates(site)
        kernels = [_kernel(way, buffers) for way in (*ways, *site.prologues, *site.behind)]
    except LoweringError as error:
        _LOGGER.info("no template for %s: %s", site.product.name, error)
        return None
    key = cache.key_of(
        "autotune",
        site.product.name,
        gpu=gpu,
        torch=torch.__version__,
        sizes=repr(sorted((str(symbol), hint) for symbol, hint in sizes.items())),
        library=repr((site.product.kernel.target, site.product.kernel.fixed_layout())),
        kernels=" ".join(kernel.source.key() for kernel in kernels),
    )
    found = cache.load(key)
    if found is None:
        with stages.phase("autotune"):
            times = measure(site, ways, buffers, sizes)
        found = json.dumps(best_of(times)).encode()
        cache.store(key, found)
    number = json.loads(found)
    return None if number is None else ways[number]


def best_of(times: Sequence[float]) -> int | None:
    """The number of the fastest template, if it is worth it; the library's time is the first."""
    library, *others = times
    best = min(range(len(others)), key=others.__getitem__, default=None)
    return None if best is None or others[best] > _WORTH * library else best


def name_of(device: torch.device) -> str | None:
    """The GPU that measures; None where nothing can be measured."""
    can_measure = device.type == "cuda" and not is_interpreting()
    return torch.cuda.get_device_name(device) if can_measure else None


def candidates(site: Site, tiles: Iterable[Tile] = TILES) -> list[TemplateNode]:
    """Every template of a site: no prologue or some, and each tile that its sizes can fill."""
    m, n = site.sum.m, site.sum.n
    fitting = [
        tile
        for tile in tiles
        if (tile.x <= 16 or not isinstance(m, int) or tile.x < 2 * m)
        and (tile.y <= 64 or tile.y < 2 * n)
    ]
    counts = range(len(site.prologues) + 1)
    subsets = chain.from_iterable(combinations(site.prologues, count) for count in counts)
    return [TemplateNode(site, tile, subset) for subset in subsets for tile in fitting]


def _kernel(node: KernelNode, buffers: Mapping[str, Buffer]) -> TritonKernel:
    name = kernel_name(node, 0)
    if isinstance(node, TemplateNode):
        return print_template_kernel(node, buffers, name=name)
    return print_triton_kernel(node, buffers, name=name)


def measure(
    site: Site, ways: Sequence[TemplateNode], buffers: Mapping[str, Buffer], sizes: Sizes
) -> list[float]:
    """Milliseconds of a site on random numbers: by the library, then by each of the templates."""
    trial = Trial(site, ways, buffers, sizes)
    times = trial.milliseconds()
    stages.count("autotune_candidates", len(times))
    tiles = ", ".join(f"{way} {spent:.4f}" for way, spent in zip(ways, times[1:], strict=True))
    _LOGGER.info("%s: library %.4f ms, templates %s", site.product.name, times[0], tiles)
    return times


Step = Callable[[int], object]
"""Launches something on a stream."""


class Trial:
    """A site in all its ways, with memory for its buffers; kernels compile in the background."""

    def __init__(
        self,
        site: Site,
        ways: Sequence[TemplateNode],
        buffers: Mapping[str, Buffer],
        sizes: Sizes,
    ) -> None:
        self.device = site.product.kernel.device
        self.buffers = buffers
        self.sizes = sizes
        self.memory: dict[str, torch.Tensor] = {}
        before = {node: self._launch(node) for node in site.prologues}
        behind = [self._launch(node) for node in site.behind]
        self.runs = [[*before.values(), self._call(site.product.kernel), *behind]]
        self.runs += [
            [*(before[node] for node in before if node not in way.prologues), self._launch(way)]
            for way in ways
        ]

    def milliseconds(self) -> list[float]:
        """The time of each way, the library's first."""
        with torch.cuda.device(self.device):
            return [_milliseconds(steps) for steps in self.runs]

    def _launch(self, node: KernelNode) -> Step:
        from minitorch2.codegen.triton import launch  # imports Triton, which may not be there

        kernel = _kernel(node, self.buffers)
        source = kernel.source
        run = launch.load_triton_kernel(source.name, source.text, self.device.index or 0)
        words = [self._memory_of(name).data_ptr() for name in kernel.pointers]
        numbers = [self._number(size) for size in kernel.sizes]
        programs = self._number(kernel.programs)
        return lambda stream: run(programs, stream, *words, *numbers)

    def _call(self, kernel: ExternKernel) -> Step:
        arguments = [self._placed(argument) for argument in kernel.args]
        return lambda stream: kernel.target(*arguments)

    def _number(self, expr: Expr) -> int:
        return int(expr.subs(self.sizes)) if isinstance(expr, sympy.Expr) else expr

    def _memory_of(self, name: str) -> torch.Tensor:
        """Random numbers; zeros where they may be indices."""
        if name not in self.memory:
            buffer = self.buffers[name]
            size = self._number(buffer.fixed_layout().storage_size())
            self.memory[name] = torch.zeros(size, dtype=buffer.dtype, device=buffer.device)
            if buffer.dtype.is_floating_point:
                self.memory[name].normal_()
        return self.memory[name]

    def _placed(self, argument: Any) -> Any:
        if isinstance(argument, (tuple, list)):
            return [self._placed(item) for item in argument]
        if not isinstance(argument, BufferView):
            return self._number(argument) if isinstance(argument, sympy.Expr) else argument
        layout = argument.layout
        size, stride = ([self._number(n) for n in part] for part in (layout.size, layout.stride))
        memory = self._memory_of(argument.name)
        return memory.as_strided(size, stride, self._number(layout.offset))


def _milliseconds(steps: Sequence[Step]) -> float:
    """The median of a call's time; infinite if the GPU has not the memory that it shares."""

    def run() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        for step in steps:
            step(stream)

    try:
        run()
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001  whatever it is: the library remains
        _LOGGER.info("a candidate cannot run: %s", error)
        return float("inf")
    graph = torch.cuda.CUDAGraph()  # so that the host's time for a launch does not count
    with torch.cuda.graph(graph):
        for _ in range(_CALLS):
            run()
    spent: list[float] = []
    for _ in range(_ROUNDS):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
        events[0].record()
        graph.replay()
        events[1].record()
        torch.cuda.synchronize()
        spent.append(events[0].elapsed_time(events[1]) / _CALLS)
    return statistics.median(spent)
