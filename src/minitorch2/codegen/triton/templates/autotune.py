"""The choice of products and convolutions that become own kernels, by measurement.

Under `max_autotune` each site (`sites.py`) is run in all its ways. One is the library's call
between the kernels before and behind it. The others are the template with each tile, which computes
none of its operands, or some. The fastest way is kept on disk, under the text of the kernels and
the name of the GPU. So a second process measures nothing, and equal sites are measured once. The
time for a graph is bounded: `trial.py` tries few tiles, and sites whose turn comes too late are
left to the library.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import torch

from minitorch2 import cache, stages
from minitorch2.codegen.triton.availability import is_interpreting
from minitorch2.codegen.triton.templates.sites import Site, find_sites, replaced
from minitorch2.codegen.triton.templates.template import TemplateNode
from minitorch2.codegen.triton.templates.trial import Sizes, Trial
from minitorch2.errors import LoweringError
from minitorch2.logs import get_logger
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.schedule import BaseSchedulerNode, Capabilities, Schedule

_LOGGER = get_logger(__name__)
_WORTH: Final = 0.97
"""What part of the library's time a template may take at most: less is noise."""
SECONDS: Final = 120.0
"""For how long the sites of a graph are measured."""


class Trials:
    """The trials of a graph's sites, each made once.

    Args:
        buffers: every buffer of the graph, by name.
        sizes: what symbolic sizes are in the example.
    """

    def __init__(self, buffers: Mapping[str, Buffer], sizes: Sizes) -> None:
        self.buffers = buffers
        self.sizes = sizes
        self._made: dict[Site, Trial | None] = {}
        self._end = time.monotonic() + SECONDS

    def of(self, site: Site) -> Trial | None:
        """Return the trial of a site; None if it cannot be measured, or has no Triton kernel."""
        if site not in self._made:
            self._made[site] = self._make(site)
        return self._made[site]

    def _make(self, site: Site) -> Trial | None:
        gpu = name_of(site.product.kernel.device)
        try:
            return None if gpu is None else Trial(site, self.buffers, self.sizes, gpu)
        except LoweringError as error:
            _LOGGER.info("no template for %s: %s", site.product.name, error)
            return None

    def are_over(self) -> bool:
        """Return whether the time for measurements is over."""
        return time.monotonic() > self._end

    def compile_ahead(self, sites: Iterable[Site]) -> None:
        """Let the kernels of all sites that have to be measured compile side by side."""
        unknown = [trial for site in sites if (trial := self.of(site)) and not trial.is_known()]
        different = {trial.key.digest: trial for trial in unknown}
        for trial in different.values():
            trial.start()
        if unknown:
            text = "%d products and convolutions are measured, %d different ones, in %d ways"
            ways = sum(1 + len(trial.ways) for trial in different.values())
            _LOGGER.info(text, len(unknown), len(different), ways)


Chooser = Callable[[Site, Trials], TemplateNode | None]
"""`choose(site, trials)`: how to compute a site, or None for the library."""


def with_templates(
    lowered: LoweredGraph, plan: Schedule, capabilities: Capabilities, choose: Chooser | None = None
) -> Schedule:
    """Return the schedule with templates where `choose` says so (default: by measuring)."""
    trials = Trials(lowered.by_name(), lowered.hints)
    trials.compile_ahead(find_sites(plan, lowered.output_names))
    choose = choose or choose_by_measuring
    templates: dict[BaseSchedulerNode, TemplateNode] = {}
    taken = set[BaseSchedulerNode]()
    for site in find_sites(plan, lowered.output_names, taken):
        template = choose(site, trials)
        if template is not None:
            templates[site.epilogue or site.product] = template
            taken |= {*template.absorbed, *site.behind}
    return replaced(lowered, plan, capabilities, templates, taken)


def choose_by_measuring(site: Site, trials: Trials) -> TemplateNode | None:
    """Return the fastest way on this GPU, from the cache if it was measured before."""
    trial = trials.of(site)
    if trial is None:
        return None
    found = cache.load(trial.key)
    if found is None:
        if trials.are_over():
            stages.count("autotune_skipped")
            _LOGGER.warning("%s is left to the library: its turn came late", site.product.name)
            return None
        try:
            with stages.phase("autotune"):
                times = trial.milliseconds()
        except torch.OutOfMemoryError as error:
            _LOGGER.info("%s is not measured: %s", site.product.name, error)
            return None
        stages.count("autotune_candidates", len(times))
        _LOGGER.info("%s", describe(trial, times))
        found = json.dumps(best_of(times)).encode()
        cache.store(trial.key, found)
    number = json.loads(found)
    return None if number is None else trial.ways[number]


def describe(trial: Trial, times: Sequence[float]) -> str:
    """Return the times of a trial as a line: the library's, then the templates', fastest first."""
    library, *others = times
    ways = sorted(zip(others, map(str, trial.ways), strict=True))
    texts = "; ".join(f"{way}: {spent:.4f}" for spent, way in ways)
    return f"{trial.site.product.name}: library {library:.4f} ms; {texts}"


def best_of(times: Sequence[float]) -> int | None:
    """Return the number of the fastest template, if it is worth it; time 0 is the library's."""
    library, *others = times
    best = min(range(len(others)), key=others.__getitem__, default=None)
    return None if best is None or others[best] > _WORTH * library else best


def name_of(device: torch.device) -> str | None:
    """Return the name of the GPU that measures; None if nothing can be measured."""
    can_measure = device.type == "cuda" and not is_interpreting()
    return torch.cuda.get_device_name(device) if can_measure else None
