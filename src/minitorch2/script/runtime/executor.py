"""The executor of a graph: it runs it once with profiles, specializes it, and runs the plan.

    run(inputs)
      plan of the ArgumentSpec, if there is one
      else the first `script_profiled_runs` times: the graph as it is, with profiles
      else a copy of the graph: input types, required passes, passes that keep derivatives,
           regions (prim::DifferentiableGraph or prim::FusionGroup), Python

(TorchScript overview, "Graph Executor".)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Final

from minitorch2 import config, stages
from minitorch2.foundation.compile_lock import COMPILING
from minitorch2.logs import get_logger
from minitorch2.script.ir.graph import Graph
from minitorch2.script.passes import pipeline
from minitorch2.script.passes.insert_profiles import insert_profiles
from minitorch2.script.runtime.argument_spec import (
    ArgumentSpec,
    Key,
    key_function,
    specialize_inputs,
)
from minitorch2.script.runtime.code import Code
from minitorch2.script.runtime.interpreter import interpret
from minitorch2.script.runtime.meanings import Makers
from minitorch2.script.runtime.profile import Profile
from minitorch2.script.runtime.python_code import compile_graph
from minitorch2.script.runtime.region import Region
from minitorch2.script.runtime.scalar_code import compile_scalar, is_scalar

_LOGGER = get_logger(__name__)
_OPTIMIZED: Final[ContextVar[bool]] = ContextVar("_OPTIMIZED", default=True)


@contextmanager
def optimized_execution(enabled: bool) -> Iterator[None]:
    """Run scripts with plans during the block, or as they are: then nothing is compiled."""
    token = _OPTIMIZED.set(enabled)
    try:
        yield
    finally:
        _OPTIMIZED.reset(token)


class Plan:
    """A graph for one `ArgumentSpec`, optimized for what profiled runs saw.

    Attributes:
        graph: the optimized graph.
        function: the graph as Python.
        bailouts: how often a guard failed.
        has_bailouts: whether there is a guard that may fail.
    """

    def __init__(self, profiled: Graph, spec: ArgumentSpec) -> None:
        options = config.current()
        self.graph = profiled.copy()
        self.bailouts = 0
        pipeline.guard(self.graph)
        pipeline.make_regions(
            self.graph,
            needs_gradient=spec.needs_gradient,
            smallest=options.script_smallest_region,
        )
        self.has_bailouts = any(node.kind == "prim::bailout" for node in self.graph.nodes())
        self.regions: list[Region] = []
        makers = Makers(compile_graph, self._region, self._rest)
        self.function = compile_graph(self.graph, makers=makers)
        if options.script_numba and is_scalar(self.graph):
            self.function = compile_scalar(self.graph, self.function)
        stages.count("script_plans")
        _LOGGER.info("plan of %s:\n%s", self.graph.name, self.graph)

    def _region(self, graph: Graph) -> Callable[..., Any]:
        self.regions.append(Region(graph, compile_graph(graph)))
        return self.regions[-1]

    def _rest(self, graph: Graph) -> Callable[..., Any]:
        """Return what runs where a guard fails: the rest of the graph as it was."""
        rest = compile_graph(graph)

        def bail_out(*live: Any) -> Any:
            self.bailouts += 1
            stages.count("script_bailouts")
            return rest(*live)

        return bail_out

    @cached_property
    def code(self) -> Code:
        """The plan as instructions."""
        return Code(self.graph, Makers(interpret, interpret, interpret))


class _Specialization:
    """One key of an executor: its profiles, and its plan when there is one.

    Attributes:
        run: runs the inputs. It is the plan itself once there is a plan that has no bailouts.
    """

    def __init__(self, graph: Graph, key: Key) -> None:
        self.spec = ArgumentSpec.of_key(key)
        self.profiled = graph.copy()
        specialize_inputs(self.profiled, self.spec)
        pipeline.prepare(self.profiled)
        insert_profiles(self.profiled, Profile)
        self.profile = compile_graph(self.profiled)
        self.runs_to_profile = config.current().script_profiled_runs
        self.plan: Plan | None = None
        self.plans = 0
        self.run: Callable[..., Any] = self._run

    def _run(self, *inputs: Any) -> Any:
        """Run the plan; make it first, or profile, if that is due."""
        plan = self.plan
        if plan is not None and not plan.bailouts:  # the usual case reads no option
            return plan.function(*inputs)
        if plan is not None and plan.bailouts < config.current().script_most_bailouts:
            return plan.function(*inputs)
        if plan is not None:  # its guards fail too often: see the new sizes, and plan anew
            self.plan, self.runs_to_profile = None, 1
        if self.runs_to_profile > 0:
            self.runs_to_profile -= 1
            return self.profile(*inputs)
        with COMPILING:
            if self.plan is None:
                self.plan = Plan(self.profiled, self.spec)
                self.plans += 1
                if not self.plan.has_bailouts:
                    self.run = self.plan.function
        return self.plan.function(*inputs)


class GraphExecutor:
    """Runs a graph. Its plans are made on demand and kept by `ArgumentSpec`.

    Args:
        graph: as the frontend made it; it stays as it is.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._key = key_function(graph)
        self._known: dict[Key, _Specialization] = {}

    def run(self, inputs: Sequence[Any]) -> Any:
        """Return what the graph gives for inputs in the order of its parameters."""
        if not _OPTIMIZED.get():
            return self.unoptimized(*inputs)
        key = self._key(*inputs)
        found = self._known.get(key)
        return (found or self._specialize(key)).run(*inputs)

    def _specialize(self, key: Key) -> _Specialization:
        with COMPILING:
            if key not in self._known:
                self._known[key] = _Specialization(self.graph, key)
            return self._known[key]

    @cached_property
    def unoptimized(self) -> Callable[..., Any]:
        """The graph as it is, as Python; each value that has a name is a variable."""
        return compile_graph(self.graph, keeps_names=True)

    @property
    def plans(self) -> dict[ArgumentSpec, Plan]:
        """The plans that there are."""
        return {s.spec: s.plan for s in self._known.values() if s.plan is not None}

    def plan_for(self, *inputs: Any) -> Plan | None:
        """Return the plan that inputs run by; None if they are still profiled."""
        found = self._known.get(self._key(*inputs))
        return None if found is None else found.plan

    def graph_for(self, *inputs: Any) -> Graph:
        """Return the graph that runs for some inputs: of the plan, or as it was written."""
        plan = self.plan_for(*inputs)
        return self.graph if plan is None else plan.graph
