"""From a functional aten graph to a function that runs it: lower, schedule, print kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from minitorch2 import config, stages
from minitorch2.codegen.common import kernel_name
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.codegen.target import Definition, Kernel, Launch, Target
from minitorch2.codegen.verify import Facts, verify_wrapper
from minitorch2.codegen.wrapper import WrapperModule, WrapperPrinter
from minitorch2.errors import at_line
from minitorch2.graph.compiled_graph import BoxedCall, CompiledGraph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.higher_order import graphs_called_by
from minitorch2.loopir.buffers import Buffer, InputBuffer
from minitorch2.loopir.launches import join_launches
from minitorch2.loopir.lower_graph import LoweredGraph, lower_graph
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    KernelNode,
    Schedule,
    bodies,
    kernels_in,
)
from minitorch2.loopir.scheduler import schedule


def compile_graph(
    gm: GraphModule, example_inputs: Sequence[Any] = (), target: Target[Any] = NUMBA
) -> BoxedCall:
    """Compile a functional aten graph whose nodes have `meta["val"]`.

    Returns a function in the boxed convention: it takes one list of arguments, empties it, and
    returns the list of outputs, with the strides that eager PyTorch would give them.

    Raises:
        LoweringError: the graph is not functional, or a kernel cannot compute an operator.
        BackendError: kernels of the target cannot run here.
    """
    return GraphCompiler(target)(gm, example_inputs).call


@dataclass(frozen=True)
class GraphCompiler:
    """The compiler of graphs for one target; `capabilities` replace those of the target."""

    target: Target[Any]
    capabilities: Capabilities | None = None

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any] = ()) -> CompiledGraph:
        """Return the compiled graph, as `compile_graph` says."""
        with stages.collect(texts=False) as log:
            called = dict.fromkeys(graphs_called_by(gm.graph))
            graphs = {inner: self._compile_inner(inner) for inner in called}
            lowered = lower_graph(gm, example_inputs)
            if stages.wanted("loopir.py"):
                stages.record("loopir.py", lowered.print(), subject=lowered)
            compiled = self.compile(lowered, graphs)
        return replace(compiled, counts=log.counts)

    def _compile_inner(self, graph: GraphModule) -> Callable[[], str]:
        inner = self(graph)
        graph.run_by(inner.call)
        assert inner.source is not None
        return inner.source

    def compile(
        self, lowered: LoweredGraph, graphs: Mapping[GraphModule, Callable[[], str]] | None = None
    ) -> CompiledGraph:
        """Compile a lowered graph: schedule, kernels, wrapper.

        Args:
            graphs: the modules of the graphs that it calls.
        """
        target, capabilities = self.target, self.capabilities or self.target.capabilities()
        plan = target.planned(schedule(lowered, capabilities), lowered, capabilities)
        buffers = lowered.by_name()
        plan = join_launches(
            plan, lowered, capabilities, lambda k: target.on(device_of(k)).why_alone(k, buffers)
        )
        if stages.wanted("schedule.txt"):
            stages.record("schedule.txt", describe(plan), subject=(plan, capabilities))
        with stages.phase("codegen"):
            module = print_module(lowered, plan, target)
            module.graphs = graphs or {}
            text, main = module.text, module.main()
        stages.record("wrapper.py", text, main, subject=module)
        with stages.phase("load"):
            call = target.load(text + main, module.namespace, lowered)
        return CompiledGraph(call, _written(lowered, plan), module.program)


def _written(lowered: LoweredGraph, plan: Schedule) -> tuple[int, ...]:
    """Return the donated arguments to whose memory the graph writes; it only reads the others."""
    taken = lowered.donated.keys() & plan.inplace.taken
    inputs = enumerate(lowered.inputs)
    return tuple(i for i, b in inputs if isinstance(b, InputBuffer) and b.name in taken)


def print_module(lowered: LoweredGraph, plan: Schedule, target: Target[Any]) -> WrapperModule:
    """Return the kernels and the wrapper of a scheduled graph, as one Python module."""
    kernels = _KernelPrinter(target, plan, lowered.by_name())
    launches = {node.name: kernels.print(node) for node in plan.nodes if kernels_in(node)}
    wrapper = WrapperPrinter(lowered, plan, launches, kernels.definitions)
    module = wrapper.print()
    if config.current().verify:
        verify_wrapper(module.text, Facts(lowered, plan, launches, module.namespace))
    stages.count("intermediate_bytes", wrapper.memory.peak or 0)
    if stages.wanted("decisions.txt") and (text := str(wrapper.memory)):
        stages.record("decisions.txt", text)
    return module


@dataclass
class _KernelPrinter:
    """The printer of a graph's kernels; equal kernels, or launches, share a definition."""

    target: Target[Any]
    plan: Schedule
    buffers: Mapping[str, Buffer]
    definitions: list[Definition] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def print(self, node: BaseSchedulerNode) -> Launch:
        """Print a kernel, or the kernels of a launch."""
        device = device_of(kernels_in(node)[0])
        with _blaming(node):
            target = self.target.on(device)
        parts, names, kernels = target.parts(node), list[str](), list[Kernel[Any]]()
        for part in parts:
            with _blaming(part):
                name = kernel_name(part, len(self.names))
                kernels.append(target.print(part, self.plan, self.buffers, name))
                names.append(self._defined(kernels[-1], target, device))
        if [*parts] != [node]:
            wish = kernel_name(node, len(self.names))
            names = [self.names.setdefault(" ".join(names), wish), *names]
            if names[0] == wish:
                self.definitions.append(target.define_launch(wish, names[1:]))
        return Launch(names[0], tuple(kernels), target.takes_stream)

    def _defined(self, kernel: Kernel[Any], target: Target[Any], device: torch.device) -> str:
        """Return the name of a kernel, which is defined if no earlier one does the same."""
        source = kernel.source
        name = self.names.setdefault(source.key(), source.name)
        if name == source.name:
            main = target.main(kernel, self.buffers) if stages.wanted("kernel.py") else ""
            stages.record("kernel.py", source.text, main)
            self.definitions.append(target.define(kernel, device))
        return name


def _blaming(node: BaseSchedulerNode) -> AbstractContextManager[None]:
    """Add to errors the operators that a kernel computes, and the user's line of the first one."""
    bodies_of = [body for kernel in kernels_in(node) for body in bodies(kernel)]
    origins = [*dict.fromkeys(origin for body in bodies_of for origin in body.buffer.origins)]
    names = ", ".join(dict.fromkeys(str(origin.target) for origin in origins))
    lines = (origin.meta.get("source") for origin in origins)
    return at_line(f"a kernel for {names}", next(filter(None, lines), None))


def device_of(kernel: KernelNode) -> torch.device:
    """Return the device on which a kernel computes."""
    return bodies(kernel)[0].buffer.device


def describe(plan: Schedule) -> str:
    """Return a schedule as text: nodes in order, then every fusion decision."""
    lines = []
    for node in plan.nodes:
        kind = type(node).__name__.removesuffix("SchedulerNode") or "Scheduler"
        lines.append(f"{kind:7} {node.name}")
    lines += ["", f"removed: {', '.join(sorted(plan.removed)) or 'none'}"]
    lines += [f"{new} takes over the memory of {old}" for new, old in plan.inplace.items()]
    return "\n".join([*lines, "", *map(str, plan.log), *map(str, plan.launches)])
