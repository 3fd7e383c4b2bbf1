"""From a functional aten graph to a function that runs it: lower, schedule, print kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import torch

from minitorch2 import config, stages
from minitorch2.codegen import triton
from minitorch2.codegen.common import kernel_name
from minitorch2.codegen.numba.kernel import NumbaKernel, print_kernel
from minitorch2.codegen.program import BoxedCall, load_program
from minitorch2.codegen.replay import replayed
from minitorch2.codegen.standalone import number
from minitorch2.codegen.triton.autotune import buffers_by_name, with_templates
from minitorch2.codegen.triton.availability import is_interpreting, why_unavailable
from minitorch2.codegen.triton.joined import print_joined_kernel, why_alone
from minitorch2.codegen.triton.kernel import can_write_in_place, print_triton_kernel
from minitorch2.codegen.triton.template import TemplateNode, print_template_kernel
from minitorch2.codegen.verify import Facts, verify_wrapper
from minitorch2.codegen.wrapper import JoinedCall, KernelCall, WrapperModule, WrapperPrinter
from minitorch2.errors import BackendError, at_line
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.higher_order import graphs_called_by
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.launches import Refuse, join_launches
from minitorch2.loopir.lower_graph import LoweredGraph, lower_graph
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    JoinedSchedulerNode,
    KernelNode,
    Refusal,
    Schedule,
    bodies,
    kernels_in,
)
from minitorch2.loopir.scheduler import dtypes_of, schedule
from minitorch2.native.kernels.runtime import KernelSource, begin_kernel
from minitorch2.native.kernels.trial import main_text

Target = Literal["numba", "triton"]
ROW_SCRATCH = 32768
"""Elements that a CPU kernel may keep on the stack of a thread: 128 KiB of float32."""
JOINS = 4, 256
"""How many kernels share a launch for the CPU. It takes a line of text for each, and saves only a
sixteenth of a microsecond; but threads share all of them."""


def numba_capabilities() -> Capabilities:
    """Return the capabilities of Numba kernels: a row that fits the stack stays between passes."""
    return Capabilities(
        max_fusion_size=config.current().max_fusion_size,
        row_scratch=ROW_SCRATCH,
        fewest_joined=JOINS[0],
        joins=JOINS[1],
    )


def compile_graph(
    gm: GraphModule,
    example_inputs: Sequence[Any] = (),
    target: Target = "numba",
    capabilities: Capabilities | None = None,
) -> BoxedCall:
    """Compile a functional aten graph whose nodes have `meta["val"]`.

    With the target `triton`, kernels on CUDA tensors are Triton kernels; kernels on CPU tensors are
    compiled with Numba, unless Triton's interpreter is on (`TRITON_INTERPRET=1`).

    Returns a function in the boxed convention: it takes one list of arguments, empties it, and
    returns the list of outputs, with the strides that eager PyTorch would give them.

    Raises:
        LoweringError: the graph is not functional, or a kernel cannot compute an operator.
        BackendError: Triton kernels cannot run here.
    """
    return GraphCompiler(target, capabilities)(gm, example_inputs)


@dataclass
class GraphCompiler:
    """The compiler of graphs; ``printed`` is the wrapper's module of the graph compiled last."""

    target: Target = "numba"
    capabilities: Capabilities | None = None
    printed: WrapperModule | None = None

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any] = ()) -> BoxedCall:
        """Return the compiled graph, as `compile_graph` says."""
        called = dict.fromkeys(graphs_called_by(gm.graph))
        graphs = {inner: self._compile_inner(inner) for inner in called}
        lowered = lower_graph(gm, example_inputs)
        if stages.wanted("loopir.py"):
            stages.record("loopir.py", lowered.print())
        return self.compile(lowered, graphs)

    def _compile_inner(self, graph: GraphModule) -> WrapperModule:
        inner = GraphCompiler(self.target, self.capabilities)
        graph.run_by(inner(graph))
        assert inner.printed is not None
        return inner.printed

    def compile(
        self, lowered: LoweredGraph, graphs: Mapping[GraphModule, WrapperModule] | None = None
    ) -> BoxedCall:
        """Compile a lowered graph: schedule, kernels, wrapper.

        Args:
            graphs: the modules of the graphs that it calls.
        """
        target, capabilities = self.target, self.capabilities or _capabilities(self.target)
        plan = schedule(lowered, capabilities)
        if target == "triton" and config.current().max_autotune:
            plan = with_templates(lowered, plan, capabilities)
        plan = join_launches(plan, lowered, capabilities, _why_alone(lowered, target))
        if stages.wanted("schedule.txt"):
            stages.record("schedule.txt", describe(plan))
        with stages.phase("codegen"):
            self.printed = print_module(lowered, plan, target)
            self.printed.graphs = graphs or {}
            text, main = self.printed.text, self.printed.main()
        stages.record("wrapper.py", text, main)
        _unmark_unwritten(lowered, plan)
        with stages.phase("load"):
            call = load_program(text + main, self.printed.namespace)
        wants_replay = target == "triton" and config.current().cudagraphs
        return replayed(call, lowered) if wants_replay else call


def compile_lowered(
    lowered: LoweredGraph, capabilities: Capabilities | None = None, target: Target = "numba"
) -> BoxedCall:
    """Compile a lowered graph."""
    return GraphCompiler(target, capabilities).compile(lowered)


def _unmark_unwritten(lowered: LoweredGraph, plan: Schedule) -> None:
    """Unmark donated arguments that the graph only reads: the caller may keep them."""
    for buffer in lowered.donated.values():
        (node,) = buffer.origins
        node.meta["donated"] = buffer.name in plan.inplace.taken


def print_module(lowered: LoweredGraph, plan: Schedule, target: Target = "numba") -> WrapperModule:
    """Return the kernels and the wrapper of a scheduled graph, as one Python module."""
    dtypes, buffers = dtypes_of(lowered), buffers_by_name(lowered)
    calls: dict[str, KernelCall | JoinedCall] = {}
    definitions: dict[str, str] = {}
    for node in plan.nodes:
        kernels = kernels_in(node)
        if kernels and _is_for_triton(kernels[0], target):
            with _blaming(node):
                calls[node.name] = _triton_call(node, buffers, plan, definitions)
            continue
        each = []
        for kernel in kernels:
            with _blaming(kernel):
                each.append(_kernel_call(kernel, plan, dtypes, definitions, buffers))
        calls |= {kernel.name: call for kernel, call in zip(kernels, each, strict=True)}
        if isinstance(node, JoinedSchedulerNode):
            calls[node.name] = _joined_call(node, each, definitions)
    printer = WrapperPrinter(lowered, plan, calls)
    module = printer.print()
    if config.current().verify:
        verify_wrapper(module.text, Facts(lowered, plan, calls, module.namespace))
    stages.count("intermediate_bytes", printer.memory.peak or 0)
    if stages.wanted("decisions.txt") and (text := str(printer.memory)):
        stages.record("decisions.txt", text)
    return module


def _blaming(node: BaseSchedulerNode) -> AbstractContextManager[None]:
    """Add to errors the operators that a kernel computes, and the user's line of the first one."""
    bodies_of = [body for kernel in kernels_in(node) for body in bodies(kernel)]
    origins = [*dict.fromkeys(origin for body in bodies_of for origin in body.buffer.origins)]
    names = ", ".join(dict.fromkeys(str(origin.target) for origin in origins))
    lines = (origin.meta.get("source") for origin in origins)
    return at_line(f"a kernel for {names}", next(filter(None, lines), None))


def _capabilities(target: Target) -> Capabilities:
    return numba_capabilities() if target == "numba" else triton.CAPABILITIES


def _why_alone(lowered: LoweredGraph, target: Target) -> Refuse:
    """Return the function that says why a kernel cannot share a launch; CPU kernels always can."""
    buffers = buffers_by_name(lowered)

    def refuse(kernel: KernelNode) -> Refusal | None:
        return why_alone(kernel, buffers) if _is_for_triton(kernel, target) else None

    return refuse


def _is_for_triton(node: KernelNode, target: Target) -> bool:
    device = bodies(node)[0].buffer.device
    if target == "numba" or (device.type == "cpu" and not is_interpreting()):
        return False
    missing = why_unavailable(device)
    if missing is not None:
        raise BackendError(missing, code="triton-unavailable", fix="use the backend 'numba'")
    return True


def _triton_call(
    node: BaseSchedulerNode,
    buffers: Mapping[str, Buffer],
    plan: Schedule,
    definitions: dict[str, str],
) -> KernelCall:
    """Print a Triton kernel; an equal earlier kernel shares its definition."""
    for one in kernels_in(node):
        if isinstance(one, TemplateNode) or not can_write_in_place(one, buffers):
            plan.inplace = plan.inplace.without(one.written_names)
    inplace = {new: plan.inplace[new] for new in node.written_names & plan.inplace.keys()}
    name = kernel_name(node, len(definitions))
    if isinstance(node, JoinedSchedulerNode):
        kernel = print_joined_kernel(
            node, buffers, name=name, removed=frozenset(plan.removed), inplace=inplace
        )
    elif isinstance(node, TemplateNode):
        kernel = print_template_kernel(node, buffers, name=name, removed=plan.removed)
    else:
        (single,) = kernels_in(node)
        kernel = print_triton_kernel(
            single, buffers, name=name, removed=plan.removed, inplace=inplace
        )
    shared = definitions.setdefault(kernel.source.key(), name)
    if shared == name:
        stages.record("kernel.py", kernel.source.text)
    text = kernel.source.text.replace("\\", "\\\\").replace("'''", "\\'\\'\\'")
    device = bodies(kernels_in(node)[0])[0].buffer.device.index
    place = f", device={device}" if device else ""
    definition = f"\n{name} = load_triton_kernel({name!r}, '''\\\n{text}'''{place})"
    return KernelCall(
        shared,
        definition if shared == name else "",
        kernel.programs,
        tuple(map(plan.inplace.owner, kernel.pointers)),
        kernel.sizes,
        takes_stream=True,
    )


def _kernel_call(
    node: Any,
    plan: Schedule,
    dtypes: Mapping[str, torch.dtype],
    definitions: dict[str, str],
    buffers: Mapping[str, Buffer],
) -> KernelCall:
    """Print a kernel; an earlier kernel of the same text shares its definition."""
    device = bodies(node)[0].buffer.device
    if device.type != "cpu":
        raise BackendError(
            f"a kernel for the CPU cannot compute on {device}",
            code="wrong-device", fix="use the backend 'triton'",
        )  # fmt: skip
    kernel = print_kernel(node, plan, dtypes, len(definitions))
    key = repr(
        (kernel.source.code(), kernel.source.pointers, kernel.source.grain, kernel.source.inner)
    )
    name = definitions.setdefault(key, kernel.source.name)
    definition = ""
    if name == kernel.source.name:
        definition = define(kernel.source)
        stages.record("kernel.py", kernel.source.text, _main_of(kernel, buffers))
        begin_kernel(kernel.source)
    return KernelCall(name, definition, kernel.iterations, kernel.buffers, kernel.sizes)


def _main_of(kernel: NumbaKernel, buffers: Mapping[str, Buffer]) -> str:
    """Return the end of the kernel's file, which tries the kernel alone, if a log wants files."""
    if not stages.wanted("kernel.py"):
        return ""
    elements = [number(buffers[name].fixed_layout().storage_size()) for name in kernel.buffers]
    sizes = [number(size) for size in kernel.sizes]
    return main_text(kernel.source, elements, sizes, number(kernel.iterations))


def _joined_call(
    node: JoinedSchedulerNode, calls: Sequence[KernelCall], definitions: dict[str, str]
) -> JoinedCall:
    """Print one launch of printed kernels; equal launches share a definition."""
    runs = ((name, len([*run])) for name, run in groupby(call.name for call in calls))
    lists = (f"{count} * [{name}]" if count > 1 else f"[{name}]" for name, count in runs)
    kernels = " + ".join(lists)
    name = definitions.setdefault(kernels, own := kernel_name(node, len(definitions)))
    definition = f"\n{name} = join_kernels({name!r}, {kernels})" if name == own else ""
    return JoinedCall(name, definition, tuple(calls))


def define(source: KernelSource) -> str:
    """Return the statement that defines a kernel in the wrapper's module."""
    text = source.text.replace("\\", "\\\\").replace("'''", "\\'\\'\\'")
    inner = "" if source.inner is None else f", inner={source.inner}"
    return (
        f"\n{source.name} = load_kernel(KernelSource(\n"
        f"    name={source.name!r}, pointers={source.pointers!r}, sizes={source.sizes}, "
        f"grain={source.grain}{inner},\n    text='''\n{text}'''))"
    )


def describe(plan: Schedule) -> str:
    """Return a schedule as text: nodes in order, then every fusion decision."""
    lines = []
    for node in plan.nodes:
        kind = type(node).__name__.removesuffix("SchedulerNode") or "Scheduler"
        lines.append(f"{kind:7} {node.name}")
    lines += ["", f"removed: {', '.join(sorted(plan.removed)) or 'none'}"]
    lines += [f"{new} takes over the memory of {old}" for new, old in plan.inplace.items()]
    return "\n".join([*lines, "", *map(str, plan.log), *map(str, plan.launches)])
