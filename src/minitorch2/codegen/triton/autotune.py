"""Which products and convolutions become kernels of their own: measured, and remembered.

Under `max_autotune` each site is run in all its ways: the kernels before and behind, with the
library's call between them; and the template with each tile, which computes none of its operands,
or some. What was fastest is kept on disk, under the text of the kernels and the name of the GPU, so
that a second process measures nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import torch

from minitorch2 import stages
from minitorch2.codegen import cache
from minitorch2.codegen.triton.availability import is_interpreting
from minitorch2.codegen.triton.sites import Site, find_sites
from minitorch2.codegen.triton.template import TemplateNode
from minitorch2.codegen.triton.trial import Sizes, Trial
from minitorch2.errors import LoweringError
from minitorch2.logs import get_logger
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.memory_plan import plan_memory
from minitorch2.loopir.schedule import BaseSchedulerNode, Capabilities, Schedule

_LOGGER = get_logger(__name__)
_WORTH: Final = 0.97
"""What part of the library's time a template may take at most: less is noise."""
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
    compile_ahead(find_sites(plan, lowered.output_names), buffers, lowered.hints)
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


def compile_ahead(sites: Iterable[Site], buffers: Mapping[str, Buffer], sizes: Sizes) -> None:
    """Let the kernels of all sites that have to be measured compile side by side."""
    for site in sites:
        trial, gpu = _trial(site, buffers, sizes), name_of(site.product.kernel.device)
        if trial is not None and gpu is not None and cache.load(trial.key(gpu)) is None:
            trial.start()


def choose_by_measuring(
    site: Site, buffers: Mapping[str, Buffer], sizes: Sizes
) -> TemplateNode | None:
    """The fastest way on this GPU, from the cache if it was measured before."""
    trial, gpu = _trial(site, buffers, sizes), name_of(site.product.kernel.device)
    if trial is None or gpu is None:
        return None
    key = trial.key(gpu)
    found = cache.load(key)
    if found is None:
        try:
            with stages.phase("autotune"):
                times = trial.milliseconds()
        except torch.OutOfMemoryError as error:
            _LOGGER.info("%s is not measured: %s", site.product.name, error)
            return None
        stages.count("autotune_candidates", len(times))
        _LOGGER.info("%s", describe(trial, times))
        found = json.dumps(best_of(times)).encode()
        cache.store(key, found)
    number = json.loads(found)
    return None if number is None else trial.ways[number]


def _trial(site: Site, buffers: Mapping[str, Buffer], sizes: Sizes) -> Trial | None:
    if name_of(site.product.kernel.device) is None:
        return None
    try:
        return Trial(site, buffers, sizes)
    except LoweringError as error:
        _LOGGER.info("no template for %s: %s", site.product.name, error)
        return None


def describe(trial: Trial, times: Sequence[float]) -> str:
    """The times of a trial as a line: the library's, then the templates', fastest first."""
    library, *others = times
    ways = sorted(zip(others, map(str, trial.ways), strict=True))
    texts = "; ".join(f"{way}: {spent:.4f}" for spent, way in ways)
    return f"{trial.site.product.name}: library {library:.4f} ms; {texts}"


def best_of(times: Sequence[float]) -> int | None:
    """The number of the fastest template, if it is worth it; the library's time is the first."""
    library, *others = times
    best = min(range(len(others)), key=others.__getitem__, default=None)
    return None if best is None or others[best] > _WORTH * library else best


def name_of(device: torch.device) -> str | None:
    """The GPU that measures; None where nothing can be measured."""
    can_measure = device.type == "cuda" and not is_interpreting()
    return torch.cuda.get_device_name(device) if can_measure else None
