"""From a captured call to a functional graph of aten operators and its signature.

Parameters and buffers become inputs; writes become outputs. The runtime of a compiled program
makes views of inputs and partial writes around its graph (the epilogue). Here the graph does that,
so that it says all. Its price: results which are views of written inputs are copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch

from minitorch2.autograd.decompositions import REQUIRED_DECOMPOSITIONS
from minitorch2.autograd.epilogue import Computed, Constant, InputView, OutputNumber, Result
from minitorch2.autograd.functionalize import Storage, TensorState, ViewStep, replay
from minitorch2.autograd.joint import TracedProgram, trace_program
from minitorch2.autograd.lift import lift_attributes
from minitorch2.autograd.trace import Decompositions, Tracer
from minitorch2.errors import ExportError
from minitorch2.exporting.capturing import Captured
from minitorch2.exporting.input_sizes import InputSizes
from minitorch2.exporting.mixed_operands import try_mixed_operands
from minitorch2.exporting.signature import Input, InputKind, Output, TensorForm
from minitorch2.graph.fake_tensor import env_of
from minitorch2.graph.graph import Graph
from minitorch2.graph.higher_order import HigherOrder
from minitorch2.graph.node import Node
from minitorch2.graph.symbols import expr_of, print_expr
from minitorch2.native.torch_internals.pytree import tree_map

Roles = Mapping[int, tuple[InputKind, str]]
"""Of each tensor of the model or the call, by its id: its kind, and its path or name."""


class Lowered:
    """A captured call as a functional graph.

    Args:
        decompositions: operators to express by others.

    Attributes:
        graph: functional; sizes may be expressions in its arguments.
        examples: a tensor for each placeholder.
        tensors: those of them that are not the user's, once `inputs` was asked.
        outputs: of the graph, and constant results between them.
        sizes: the sizes that vary; None if all are numbers.
    """

    def __init__(
        self,
        captured: Captured,
        roles: Roles,
        decompositions: Decompositions = REQUIRED_DECOMPOSITIONS,
    ) -> None:
        module, attributes = lift_attributes(captured.module)
        self.examples = [*captured.inputs, *attributes]
        self.traced = trace_program(module, self.examples, decompositions, differentiate=False)
        self.roles = roles
        self.tensors: dict[str, torch.Tensor] = {}
        self.module = self.traced.module
        self.graph = self.module.graph
        values = (node.meta.get("val") for node in self.graph.nodes)
        env = env_of(size for v in values for size in getattr(v, "shape", (v,)))
        self.sizes = None if env is None else InputSizes(env)
        self.outputs = self._with_epilogue(self.traced)
        self._lift_constants()
        _refuse_inner_graphs(self.graph)
        try_mixed_operands(self.graph)

    # The epilogue --------------------------------------------------------------------------------

    def _with_epilogue(self, traced: TracedProgram) -> tuple[Output, ...]:
        """Compute the epilogue in the graph; return what its outputs mean."""
        graph = self.graph
        heads: Sequence[Any] = graph.output_node.args[0]
        graph.erase(graph.output_node)
        emitter = Tracer({})
        emitter.graph = graph
        placeholders = graph.placeholders
        present: dict[int, Node] = {}
        for mutation in traced.epilogue.mutations:
            value, base = heads[mutation.output_index], placeholders[mutation.input_index]
            if mutation.views:
                state = TensorState(
                    Storage(base), base, _filled(mutation.views, heads, self.sizes), -1
                )
                state.write(emitter, value)
                value = state.storage.value
            present[mutation.input_index] = value
        results = [self._result(emitter, each, heads, present) for each in traced.epilogue.results]
        is_value = [isinstance(each, Constant) for each in traced.epilogue.results]
        computed = [r for r, fixed in zip(results, is_value, strict=True) if not fixed]
        graph.output((*present.values(), *computed))
        return (
            *(Output("mutation", index) for index in present),  # of the placeholders
            *(Output("value", value=r) if fixed else Output("result")
              for r, fixed in zip(results, is_value, strict=True)),
        )  # fmt: skip

    def _result(
        self, emitter: Tracer, result: Result, heads: Sequence[Any], present: Mapping[int, Node]
    ) -> Any:
        if isinstance(result, Constant):
            return result.value
        if isinstance(result, Computed):
            return heads[result.index]
        if isinstance(result, InputView):
            base = present.get(result.index, self.graph.placeholders[result.index])
        else:
            base = heads[result.index]
        return replay(emitter, base, _filled(result.views, heads, self.sizes))[-1]

    def _lift_constants(self) -> None:
        """Make inputs of tensors that tracing has found on its way."""
        for node in [n for n in self.graph.nodes if n.op == "get_attr"]:
            value = self.module.lookup(str(node.target))
            last = self.graph.placeholders[-1] if self.graph.placeholders else None
            with self.graph.inserting_before(last.next if last else next(iter(self.graph.nodes))):
                made = self.graph.placeholder(str(node.target))
            made.meta = dict(node.meta)
            node.replace_all_uses_with(made)
            self.graph.erase(node)
            self.examples.append(value)

    # The signature -------------------------------------------------------------------------------

    def inputs(self) -> dict[Node, Input]:
        """Return the input of each placeholder; the tensors that are not the user's are kept."""
        found: dict[Node, Input] = {}
        for node, example in zip(self.graph.placeholders, self.examples, strict=True):
            if not isinstance(example, torch.Tensor):
                raise ExportError(f"the graph has an input that is no tensor: {example!r}")
            kind, target = self.roles.get(id(example), ("constant", f"constant_{len(found)}"))
            if kind != "user":
                self.tensors[target] = example
            found[node] = Input(kind, node.name, target, self.form_of(example, node.meta["val"]))
        return found

    def form_of(self, example: torch.Tensor, value: torch.Tensor) -> TensorForm:
        """Return the form of an input, with the symbols that its fake value carries."""
        size = _plain if self.sizes is None else self.sizes.size
        shape, stride = (
            tuple(_text(size(expr_of(n))) for n in numbers)
            for numbers in (value.shape, value.stride())
        )
        return TensorForm(example.dtype, example.device, shape, stride)


def _plain(size: Any) -> Any:
    return size


def _text(size: Any) -> int | str:
    return int(size) if not isinstance(size, sympy.Basic) else print_expr(size)


def _filled(
    views: tuple[ViewStep, ...], heads: Sequence[Any], sizes: InputSizes | None
) -> tuple[ViewStep, ...]:
    """Return views with the numbers that the graph computes."""

    def fill(leaf: Any) -> Any:
        if not isinstance(leaf, OutputNumber):
            return leaf
        return heads[leaf.index] if sizes is None else sizes.env.number_of(heads[leaf.index])

    return tuple(
        ViewStep(step.func, tree_map(fill, step.args), tree_map(fill, step.kwargs))
        for step in views
    )


def _refuse_inner_graphs(graph: Graph) -> None:
    for node in graph.nodes:
        if isinstance(node.target, HigherOrder):
            raise ExportError(
                f"the program calls {node.name}, an operator that takes functions",
                code="export",
                fix="use torch.where in the place of torch.cond",
                user_line=node.meta.get("source"),
            )
