"""What Table 1 compares: the ways to capture a model, and what each says of its graph breaks.

Graphs run as they were captured (backend "eager"), so that capture alone is measured; ours can run
the whole compiler instead.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import minitorch2
from benchmarks.zoo.programs import Program
from minitorch2 import config, stages

Call = Callable[..., Any]
GRAPH = "captured graph"
"""The profiler's name of a graph's run."""


@dataclass
class Report:
    """What became of a model.

    Attributes:
        graphs: how many graphs were compiled.
        breaks: why graphs ended, or functions were left to Python, by the compiler's own account.
    """

    graphs: int = 0
    breaks: list[str] = field(default_factory=list)

    def mark(self, run: Call) -> Call:
        """A graph that the profiler can tell from what is around it."""
        self.graphs += 1

        def graph(*args: Any, **kwargs: Any) -> Any:
            with torch.profiler.record_function(GRAPH):
                return run(*args, **kwargs)

        return graph


@contextmanager
def ours(
    program: Program, model: nn.Module, report: Report, backend: str = "eager"
) -> Iterator[Call]:
    """minitorch2; its own errors are errors here, and not left to Python."""
    run = minitorch2.lookup_backend(backend)
    with config.patch(suppress_errors=False), stages.collect() as log:
        yield minitorch2.compile(model, backend=lambda *graph: report.mark(run(*graph)))
    report.breaks += log.texts("graph_break") + ["as is"] * log.counts["frames_as_is"]


@contextmanager
def peer(program: Program, model: nn.Module, report: Report) -> Iterator[Call]:
    """torch.compile"""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield torch.compile(model, backend=lambda graph, inputs: report.mark(graph.forward))
    breaks: Counter[str] = torch._dynamo.utils.counters["graph_break"]
    report.breaks += breaks.elements()


@contextmanager
def torchscript(program: Program, model: nn.Module, report: Report) -> Iterator[Call]:
    """torch.jit.script, and torch.jit.trace where that refuses the program."""
    try:
        scripted = torch.jit.script(model)
        yield report.mark(scripted.forward)
    except Exception:
        if report.graphs:
            raise
        yield report.mark(traced(program, model))


def traced(program: Program, model: nn.Module) -> Call:
    """The model as torch.jit.trace records it; buffers are as before."""
    args, kwargs = program.draw(model, 0)
    given = {"example_inputs": args} if args else {"example_kwarg_inputs": kwargs}
    before = copy.deepcopy(model.state_dict())
    with torch.set_grad_enabled(program.trains):
        call: Call = torch.jit.trace(model, **given, strict=False, check_trace=False)
    model.load_state_dict(before)
    return call


CAPTURES = {"minitorch2": ours, "torch.compile": peer, "torchscript": torchscript}
