"""All ways to compute a site, side by side: their kernels, cache key and times."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, combinations
from typing import Any, Final

import sympy
import torch

from minitorch2 import cache
from minitorch2.codegen.common import kernel_name
from minitorch2.codegen.target import Kernel
from minitorch2.codegen.triton import KernelSource
from minitorch2.codegen.triton.kernel import print_triton_kernel
from minitorch2.codegen.triton.templates.contraction import Contraction
from minitorch2.codegen.triton.templates.sites import Site
from minitorch2.codegen.triton.templates.template import (
    TILES,
    TemplateNode,
    Tile,
    print_template_kernel,
)
from minitorch2.logs import get_logger
from minitorch2.loopir.buffers import Buffer, BufferView, ExternKernel
from minitorch2.loopir.expressions import Expr
from minitorch2.loopir.schedule import KernelNode, SchedulerNode

_LOGGER = get_logger(__name__)
_ROUNDS: Final = 7
_CALLS: Final = 20
_PROCESSORS: Final = 132
"""Of an H100, each of which computes a block at a time."""
_SQUARE: Final = 128 * 128
_LARGE: Final = 4096
"""What a size that varies is taken for."""
Sizes = Mapping[sympy.Symbol, int]
"""The values of symbolic sizes in the example."""
Step = Callable[[int], object]
"""Launches something on a stream."""


def candidates(
    site: Site, prologues: Sequence[SchedulerNode], tiles: Iterable[Tile] = TILES
) -> list[TemplateNode]:
    """Return the templates of a site to try: each suitable tile with each choice of prologues."""
    fitting = [tile for tile in tiles if _suits(tile, site.sum)]
    counts = range(len(prologues) + 1)
    subsets = chain.from_iterable(combinations(prologues, count) for count in counts)
    return [TemplateNode(site, tile, subset) for subset in subsets for tile in fitting]


def _suits(tile: Tile, given: Contraction) -> bool:
    """Return whether a tile's size fits the sum.

    A block must not be larger than the sum, nor so large that half of the GPU has no block, nor so
    small that each processor does many in turn. Steps are not longer than the sums.
    """
    m, n, k = (size if isinstance(size, int) else _LARGE for size in (given.m, given.n, given.k))
    blocks = -(-m // tile.x) * -(-n // tile.y)
    fits = (tile.x <= 16 or tile.x < 2 * m) and (tile.y <= 64 or tile.y < 2 * n)
    is_coarse = tile.x * tile.y > _SQUARE and blocks < _PROCESSORS // 2
    is_fine = tile.x * tile.y < _SQUARE and n > 256 and blocks > 8 * _PROCESSORS
    is_flat = tile.x < 64 and m > 4 * tile.x
    return fits and not (is_coarse or is_fine or is_flat) and (tile.k > 32 or k < 64)


class Trial:
    """A site in all its ways, on the GPU of that name.

    Raises:
        LoweringError: Triton has no such dtype or index arithmetic.
    """

    def __init__(self, site: Site, buffers: Mapping[str, Buffer], sizes: Sizes, gpu: str) -> None:
        self.site = site
        self.buffers = buffers
        self.sizes = sizes
        self.gpu = gpu
        self.device = site.product.kernel.device
        self.ways = candidates(site, [node for node in site.prologues if self._grows(node)])
        self.memory: dict[str, torch.Tensor] = {}
        self._printed: dict[KernelNode, Kernel[KernelSource]] = {}
        self._around = [self._kernel(node) for node in (*site.prologues, *site.behind)]
        self._first = {way.prologues: self._kernel(way) for way in self.ways[::-1]}

    @cached_property
    def key(self) -> cache.Key:
        """The cache key of the answer."""
        call = self.site.product.kernel
        return cache.key_of(
            "autotune",
            call.name,
            gpu=self.gpu,
            torch=torch.__version__,
            sizes=repr(sorted((str(symbol), hint) for symbol, hint in self.sizes.items())),
            library=repr((call.target, call.fixed_layout())),
            kernels=" ".join(k.source.key() for k in (*self._around, *self._first.values())),
            ways=" ".join(repr(way.tile) for way in self.ways),
        )

    def _grows(self, prologue: SchedulerNode) -> bool:
        """Return whether an operand is larger than the buffers that it is computed from.

        Every block that reads it computes it again, which pays if the operand takes longer to load.
        """
        read = sum(self._bytes(name) for name in prologue.read_names)
        return read < self._bytes(prologue.name)

    def _bytes(self, name: str) -> int:
        layout = self.buffers[name].fixed_layout()
        return self._number(layout.storage_size()) * layout.dtype.itemsize

    def _kernel(self, node: KernelNode) -> Kernel[KernelSource]:
        """Return the text of a kernel, printed when it is needed: a known answer needs few."""
        if node not in self._printed:
            self._printed[node] = _print(node, self.buffers)
        return self._printed[node]

    @property
    def _nodes(self) -> tuple[KernelNode, ...]:
        return (*self.site.prologues, *self.site.behind, *self.ways)

    def is_known(self) -> bool:
        """Return whether the answer is in the cache."""
        return cache.load(self.key) is not None

    def start(self) -> None:
        """Let all kernels compile in the background."""
        for node in self._nodes:
            self._load(self._kernel(node))

    def milliseconds(self) -> list[float]:
        """Return the time of each way on random numbers, the library's first."""
        self.start()
        with torch.cuda.device(self.device):
            times = [_milliseconds(steps) for steps in self.runs()]
        self.memory.clear()
        return times

    def runs(self) -> list[list[Step]]:
        """Return the launches of each way, with the kernels of operands that it does not have."""
        site = self.site
        steps = {node: self._launch(self._kernel(node)) for node in self._nodes}
        behind = [steps[node] for node in site.behind]
        library = [*(steps[node] for node in site.prologues), self._call(site.product.kernel)]
        return [[*library, *behind]] + [
            [*(steps[node] for node in site.prologues if node not in way.prologues), steps[way]]
            for way in self.ways
        ]

    def _load(self, kernel: Kernel[KernelSource]) -> Callable[..., None]:
        from minitorch2.codegen.triton import launch  # imports Triton, which may not be there

        source = kernel.source
        return launch.load_triton_kernel(source.name, source.text, self.device.index or 0)

    def _launch(self, kernel: Kernel[KernelSource]) -> Step:
        run = self._load(kernel)
        words = [self._memory_of(name).data_ptr() for name in kernel.buffers]
        numbers = [self._number(size) for size in kernel.sizes]
        programs = self._number(kernel.iterations)
        return lambda stream: run(programs, stream, *words, *numbers)

    def _call(self, kernel: ExternKernel) -> Step:
        arguments = [self._placed(argument) for argument in kernel.args]
        return lambda stream: kernel.target(*arguments)

    def _number(self, expr: Expr) -> int:
        return int(expr.subs(self.sizes)) if isinstance(expr, sympy.Expr) else expr

    def _memory_of(self, name: str) -> torch.Tensor:
        """Return random numbers; zeros where they may be indices."""
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


def _print(node: KernelNode, buffers: Mapping[str, Buffer]) -> Kernel[KernelSource]:
    name = kernel_name(node, 0)
    if isinstance(node, TemplateNode):
        return print_template_kernel(node, buffers, name=name)
    return print_triton_kernel(node, buffers, name=name)


def _milliseconds(steps: Sequence[Step]) -> float:
    """Return the median time of a call; infinite if the GPU has too little shared memory."""

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
