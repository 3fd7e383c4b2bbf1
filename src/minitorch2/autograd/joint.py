"""Trace a captured graph into a functional aten graph, its gradients included.

The captured graph runs on fake tensors under PyTorch's own eager autograd, and a
:class:`~minitorch2.autograd.trace.Tracer` records. The result is the *joint graph* (PyTorch 2
paper, section 3.9; the slides' ``graph(x, g_z)``)::

    joint(inputs..., tangents...) -> (forward outputs..., gradients...)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from minitorch2.autograd.blocks import Blocks, SplitProgram
from minitorch2.autograd.epilogue import (
    Computed,
    Constant,
    Epilogue,
    InputView,
    Mutation,
    OutputNumber,
    OutputView,
    Result,
)
from minitorch2.autograd.functionalize import Storage, TensorState, ViewStep
from minitorch2.autograd.higher_order import run_higher_order
from minitorch2.autograd.kept import kept_values
from minitorch2.autograd.masks import keep_masks_as_bools
from minitorch2.autograd.schemas import memory_root
from minitorch2.autograd.trace import Decompositions, Tracer
from minitorch2.autograd.tracing_state import tracing_state
from minitorch2.autograd.wrappers import WrappedGradient
from minitorch2.errors import UnsupportedError, at_line
from minitorch2.foundation.blocks import replacing
from minitorch2.graph.composite import Composite
from minitorch2.graph.effects import bare_name
from minitorch2.graph.fake_tensor import FakeConverter, FakeTensor, env_of, fake_like, storage_key
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.higher_order import Block, HigherOrder
from minitorch2.graph.history import (
    ENGINE_CALLS,
    MADE_OUTSIDE,
    has_own_gradient,
    makes_history,
    spent_heads,
    tells_spent,
    with_data,
    with_history,
)
from minitorch2.graph.interpreter import Interpreter
from minitorch2.graph.node import Argument, Node
from minitorch2.graph.passes import simplify_sizes
from minitorch2.graph.pipeline import run_passes
from minitorch2.graph.runtime_checks import is_check
from minitorch2.graph.symbol_nodes import is_symbol_node
from minitorch2.graph.symbols import ShapeEnv, expr_of, free_symbols, numbers_of, same_sizes
from minitorch2.graph.symbols.expression import SYMBOLIC
from minitorch2.graph.symbols.unbacked import making_symbols
from minitorch2.graph.value_checks import check_values
from minitorch2.graph.wrapper_tensors import is_wrapper
from minitorch2.native.torch_internals.pytree import TreeSpec, tree_flatten, tree_map

aten = torch.ops.aten


@dataclass(frozen=True)
class Place:
    """The place of a forward output in a run of the captured graph: a written input or a result.
    With ``is_base``, the output is the tensor that this input or result is a view of.
    """

    of_input: bool
    index: int
    is_base: bool = False


@dataclass
class TracedProgram:
    """A functional graph and how to make the program's results of its outputs.

    ``module`` takes ``inputs`` values and then one tangent for each of ``tangent_outputs``; it
    returns ``forward_outputs`` values, then one gradient for each input (None where there is none).
    ``differentiable[i]`` says whether forward output ``i`` carries gradients; ``spent`` which do
    not since their history is used up, with the error; ``places`` where the captured graph has
    those outputs. ``kept`` see `kept_values`.
    """

    module: GraphModule
    inputs: int
    forward_outputs: int
    tangent_outputs: tuple[int, ...]
    differentiable: tuple[bool, ...]
    spent: Mapping[int, str]
    places: Mapping[int, Place]
    epilogue: Epilogue
    output_spec: TreeSpec
    symbols: Mapping[sympy.Symbol, torch.SymInt]
    kept: frozenset[int] = frozenset()

    @property
    def has_backward(self) -> bool:
        """True if some output is differentiable."""
        return bool(self.tangent_outputs)

    def tangents_read(self) -> tuple[frozenset[int], ...]:
        """Return for each input the positions of the tangents on which its gradient depends."""
        graph = self.module.graph
        tangents = graph.placeholders[self.inputs :]
        read: dict[Node, frozenset[int]] = {t: frozenset([k]) for k, t in enumerate(tangents)}
        for node in graph.nodes:
            sources = [read[each] for each in node.all_input_nodes if read[each]]
            read.setdefault(node, frozenset().union(*sources))
        gradients = graph.output_node.args[0][self.forward_outputs :]
        return tuple(read[g] if isinstance(g, Node) else frozenset() for g in gradients)


def trace_program(
    module: GraphModule,
    example_inputs: Sequence[Any],
    decompositions: Decompositions,
    *,
    differentiate: bool,
    split: SplitProgram | None = None,
    env: ShapeEnv | None = None,
) -> TracedProgram:
    """Trace ``module``; with ``differentiate`` the joint graph, else the forward graph alone.

    ``env`` is the environment of a graph that no value in it names.

    With ``split``, which cuts a joint graph, repeated blocks become graphs of their own.

    Raises UnsupportedError where the program has no functional form.
    """

    def trace(block: GraphModule, examples: Sequence[Any], differentiate: bool) -> TracedProgram:
        return trace_program(
            block, examples, decompositions, differentiate=differentiate, split=split
        )

    tracer = _ProgramTracer(module, example_inputs, decompositions)
    tracer.env = env
    tracer.blocks = None if split is None else Blocks(trace, split)
    return tracer.trace(differentiate)


class _ProgramTracer:
    """One tracing. ``leaves`` are the inputs as autograd sees them, ``values`` as the program
    does.
    """

    def __init__(
        self, module: GraphModule, example_inputs: Sequence[Any], decompositions: Decompositions
    ) -> None:
        self.module = module
        self.examples = list(example_inputs)
        self.makes_history = makes_history(module.graph)
        self.records = False
        self.tracer = Tracer(decompositions)
        self.leaves: list[Any] = []
        self.values: list[Any] = []
        self.env: ShapeEnv | None = None
        self.heads: list[Any] = []  # forward outputs: fakes, or numbers
        self.places: dict[int, Place] = {}
        self.blocks: Blocks | None = None

    def trace(self, differentiate: bool) -> TracedProgram:
        with torch.enable_grad():
            self._make_inputs(differentiate)
        self._follow_sizes()
        self.records = torch.is_grad_enabled() and (differentiate or self.makes_history)
        with self._state(), torch.set_grad_enabled(self.records), self.tracer:
            run = _SourceInterpreter(self.module, self.tracer, self.env, self.blocks).run
            output = run(*self.values)
        results, output_spec = tree_flatten(output)
        epilogue = self._plan(results)
        spent = self._spent_heads() if self.makes_history else {}
        forward = self._forward_nodes()
        known = {*self.tracer.graph.nodes}
        try:
            tangents, gradients = self._backward(spent, differentiate)
        except RuntimeError as error:
            if not tells_spent(error) or spent:
                raise
            # The program wrote to what a gradient needs: eager raises if backward is called.
            self._forget_all_but(known)
            spent = self._spent_heads()
            tangents, gradients = self._backward(spent, differentiate)
        if all(gradient is None for gradient in gradients):
            self._forget_all_but(known)
            tangents, gradients = (), []
        spent = {**self._leading_nowhere(tangents), **spent}
        if tangents:
            self._keep_written_inputs()
            keep_masks_as_bools(self.tracer.graph)
        self.tracer.graph.output((*forward, *gradients))
        return TracedProgram(
            module=self._finished(),
            inputs=len(self.values),
            forward_outputs=len(forward),
            tangent_outputs=tangents,
            differentiable=self._differentiable(spent),
            spent=spent,
            places=self.places,
            epilogue=epilogue,
            output_spec=output_spec,
            symbols=self._symbols(),
            kept=kept_values(self.module.graph, self.values, self.heads)
            if tangents
            else frozenset(),
        )

    def _forget_all_but(self, known: Container[Node]) -> None:
        for node in reversed([n for n in self.tracer.graph.nodes if n not in known]):
            self.tracer.graph.erase(node)

    def _follow_sizes(self) -> None:
        """Record the running line of the user with each guard that comes up while tracing."""
        carried = (*self.values, *(n.meta.get("val") for n in self.module.graph.nodes))
        sizes = (size for value in carried for size in getattr(value, "shape", (value,)))
        self.env = env_of(sizes) or self.env
        if self.env is not None:
            self.env.locate = lambda: self.tracer.source
            self.tracer.env = self.env

    def _state(self, autocast: bool = True) -> AbstractContextManager[object]:
        """Put PyTorch in the state in which the program, or its gradients, run."""
        return tracing_state(autocast, symbolic=self.env is not None)

    def _symbols(self) -> dict[sympy.Symbol, torch.SymInt]:
        """Return each size symbol of the inputs as the SymInt that carries it."""
        sizes = [size for value in self.values for size in getattr(value, "shape", (value,))]
        symbols = free_symbols(sizes) | self.tracer.unbacked
        return {} if self.env is None else {s: self.env.number_of(s) for s in symbols}

    def _keep_written_inputs(self) -> None:
        """Copy inputs that are written to, or get other data: backward saves their old values."""
        own, placeholders = self.module.graph.placeholders, self.tracer.graph.placeholders
        replaced = {n.args[0] for n in self.module.graph.nodes if n.target is with_data}
        first = next(n for n in self.tracer.graph.nodes if n.op not in ("placeholder", "get_attr"))
        for index, value in enumerate(self.values):
            if self.leaves[index] is None or not isinstance(value, FakeTensor):
                continue
            if self.tracer.state_of(value).storage.is_written or own[index] in replaced:
                node = placeholders[index]
                with self.tracer.graph.inserting_before(first):
                    copy = self._clone(node)
                for user in [user for user in node.users if user is not copy]:
                    user.replace_input(node, copy)

    def _finished(self) -> GraphModule:
        joint = GraphModule(self.tracer.graph, self.tracer.constants.tensors)
        if self.env is not None:
            simplify_sizes(joint, self.env)
        run_passes("joint", joint)
        return joint

    # Inputs

    def _make_inputs(self, differentiate: bool) -> None:
        converter = FakeConverter()
        placeholders = self.module.graph.placeholders
        if len(placeholders) != len(self.examples):
            raise TypeError(f"the graph takes {len(placeholders)} inputs, not {len(self.examples)}")
        for index, (node, example) in enumerate(zip(placeholders, self.examples, strict=True)):
            leaf = value = _fake_input(converter, node, example)
            first = self._first_occurrence(example)
            if first is not None:  # the same tensor twice: one value, one gradient
                self.tracer.graph.placeholder(node.name).meta["val"] = fake_like(self.values[first])
                leaf, value = None, self.values[first]
            elif isinstance(leaf, FakeTensor):
                leaf.requires_grad_(example.requires_grad and (differentiate or self.makes_history))
                if leaf.requires_grad and not example.is_leaf:
                    value = with_history(leaf)
                self.tracer.add_input(value, node.name, index)
            else:
                self.tracer.graph.placeholder(node.name).meta["val"] = leaf
            self.leaves.append(leaf)
            self.values.append(value)

    def _first_occurrence(self, example: Any) -> int | None:
        """Return the position of an earlier input that is the same tensor object."""
        earlier = self.examples[: len(self.values)]
        same = (i for i, e in enumerate(earlier) if e is example and isinstance(e, torch.Tensor))
        return next(same, None)

    # Outputs

    def _plan(self, results: list[Any]) -> Epilogue:
        mutations = tuple(self._mutations())
        groups: dict[Storage, list[FakeTensor]] = {}
        for result in results:
            if isinstance(result, FakeTensor):
                group = groups.setdefault(self.tracer.state_of(result).storage, [])
                if not any(result is member for member in group):
                    group.append(result)
        bases = {storage: self._base(group) for storage, group in groups.items()}
        indices: dict[int, int] = {}
        epilogue = Epilogue(mutations, tuple(self._result(r, bases, indices) for r in results))
        for index, result in reversed([*enumerate(results)]):
            for tensor in (result, getattr(result, "_base", None)):
                if id(tensor) in indices:
                    self.places[indices[id(tensor)]] = Place(False, index, tensor is not result)
        return epilogue

    def _mutations(self) -> Iterator[Mutation]:
        for index, value in enumerate(self.values):
            if self.leaves[index] is None or not isinstance(value, FakeTensor):
                continue
            if not self.tracer.state_of(value).storage.is_written:
                continue
            self._refuse_overlap(index)
            differentiable = self._is_differentiable_write(index)
            views, part = ((), value) if differentiable else self._written_part(value)
            yield Mutation(index, len(self.heads), differentiable, views)
            self.places[len(self.heads)] = Place(True, index)
            self.heads.append(part)

    def _written_part(self, value: FakeTensor) -> tuple[tuple[ViewStep, ...], FakeTensor]:
        """Return the view of an input that was written to, and its value, which has no gradient."""
        views, node = self.tracer.state_of(value).storage.written or ((), None)
        if not views or node is None:
            part, state = fake_like(value), self.tracer.state_of(value)
        else:
            part, state = fake_like(node.meta["val"]), TensorState(Storage(node), node)
        self.tracer.set_state(part, state)
        return self._with_numbers(views), part

    def _is_differentiable_write(self, index: int) -> bool:
        value, leaf = self.values[index], self.leaves[index]
        if value is leaf:
            return bool(value.grad_fn is not None)
        return value.grad_fn is not None and value.grad_fn.name() != MADE_OUTSIDE

    def _refuse_overlap(self, index: int) -> None:
        written = self.examples[index]
        for other, example in enumerate(self.examples):
            if other == index or example is written or not isinstance(example, torch.Tensor):
                continue
            if storage_key(example) == storage_key(written):
                raise UnsupportedError(
                    "the program writes to an input that shares memory with another input",
                    code="overlapping-inputs",
                    fix="pass one of them, and make the other a view of it inside the program",
                )

    def _base(self, group: list[FakeTensor]) -> FakeTensor | None:
        """Return the tensor that all results of one memory are views of, if there is one."""
        if len(group) == 1:
            return group[0]
        candidates = [t for fake in group for t in (fake, fake._base) if isinstance(t, FakeTensor)]
        chains = [self.tracer.state_of(fake).views for fake in group]

        def leads_to_all(candidate: FakeTensor) -> bool:
            views = self.tracer.state_of(candidate).views
            return all(chain[: len(views)] == views for chain in chains)

        bases = filter(leads_to_all, candidates)
        return max(bases, key=lambda t: t.requires_grad, default=None)

    def _result(
        self, result: Any, bases: dict[Storage, FakeTensor | None], indices: dict[int, int]
    ) -> Result:
        if not isinstance(result, FakeTensor):
            return self._number(result)
        state = self.tracer.state_of(result)
        detached = not result.requires_grad
        cut = result.requires_grad and result.grad_fn is None
        origin = state.storage.input_index
        if origin is not None and not has_own_gradient(result, self.values[origin]):
            views = () if result is self.values[origin] else self._with_numbers(state.views)
            return InputView(origin, views, detached and self.records, cut)
        base = bases[state.storage]
        head = result if base is None or has_own_gradient(result, base) else base
        if id(head) not in indices:
            indices[id(head)] = len(self.heads)
            self.heads.append(head)
        index = indices[id(head)]
        if head is result:
            return Computed(index)
        below = state.views[len(self.tracer.state_of(head).views) :]
        if not detached:
            below = tuple(step.with_gradient() for step in below)
        return OutputView(index, self._with_numbers(below), detached, cut)

    def _with_numbers(self, views: tuple[ViewStep, ...]) -> tuple[ViewStep, ...]:
        """Return views whose symbolic arguments are outputs of the graph."""

        def number(leaf: Any) -> Any:
            if not isinstance(leaf, SYMBOLIC):
                return leaf
            if not isinstance(expr_of(leaf), sympy.Basic):
                return expr_of(leaf)
            self.heads.append(leaf)
            return OutputNumber(len(self.heads) - 1)

        return tuple(
            ViewStep(step.func, tree_map(number, step.args), tree_map(number, step.kwargs))
            for step in views
        )

    def _number(self, result: Any) -> Result:
        if isinstance(result, SYMBOLIC):
            self.heads.append(result)
            return Computed(len(self.heads) - 1)
        return Constant(result)

    def _forward_nodes(self) -> list[Any]:
        """Return the nodes of the forward outputs, each with memory of its own."""
        owners: set[Node] = set()
        nodes: list[Any] = []
        for head in self.heads:
            if not isinstance(head, torch.Tensor):
                nodes.append(expr_of(head))
                continue
            node = self._owned(self.tracer.read(head), owners)
            if not same_sizes(node.meta["val"].stride(), head.stride()):  # written part of a memory
                node = self._owned(self.tracer.state_of(head).view(self.tracer), owners)
            owners.add(memory_root(node))
            nodes.append(node)
        return nodes

    def _owned(self, node: Node, owners: Container[Node]) -> Node:
        """Return the node, or a copy if it has memory of an input or of another output."""
        root = memory_root(node)
        return (
            self._clone(node) if root.op in ("placeholder", "get_attr") or root in owners else node
        )

    def _clone(self, node: Node) -> Node:
        return self.tracer.emit(aten.clone.default, node)

    # Gradients

    def _differentiable(self, spent: Container[int]) -> tuple[bool, ...]:
        return tuple(
            isinstance(head, torch.Tensor) and head.grad_fn is not None and i not in spent
            for i, head in enumerate(self.heads)
        )

    def _leading_nowhere(self, tangents: Container[int]) -> dict[int, str]:
        """Return the results that require grad, as views made under no_grad do, and have none."""
        heads = [(i, head) for i, head in enumerate(self.heads) if isinstance(head, FakeTensor)]
        return {i: "" for i, head in heads if head.requires_grad and i not in tangents}

    def _backward(
        self, spent: Container[int], differentiate: bool
    ) -> tuple[tuple[int, ...], list[Any]]:
        """Return the outputs that get tangents, and the gradients of the leaves."""
        flags = self._differentiable(spent) if differentiate else ()
        tangents = tuple(i for i, flag in enumerate(flags) if flag)
        return tangents, self._gradients(tangents) if tangents else []

    def _gradients(self, tangent_outputs: tuple[int, ...]) -> list[Any]:
        heads = [self.heads[index] for index in tangent_outputs]
        tangents = [self._tangent(index, self.heads[index]) for index in tangent_outputs]
        wanted = self._leaves_with_gradient()
        with self._state(autocast=False), torch.autograd.set_multithreading_enabled(False):
            self.tracer.differentiates = True
            symbols = nullcontext() if self.env is None else making_symbols(self.env)
            with self.tracer, symbols:  # those of the forward pass, or new ones
                # Fakes have no memory to free, and the history may be asked about again.
                given = {"allow_unused": True, "retain_graph": True}
                found = iter(torch.autograd.grad(heads, wanted, tangents, **given))
        gradients = [
            next(found) if isinstance(x, torch.Tensor) and x.requires_grad else None
            for x in self.leaves
        ]
        for index, gradient in enumerate(gradients):
            if gradient is not None and is_wrapper(gradient):
                raise WrappedGradient(index, gradient)
        return [None if g is None else self.tracer.read(g) for g in gradients]

    def _spent_heads(self) -> dict[int, str]:
        with self._state(autocast=False), torch.autograd.set_multithreading_enabled(False):
            return spent_heads(self.heads, self._leaves_with_gradient())

    def _leaves_with_gradient(self) -> list[torch.Tensor]:
        return [x for x in self.leaves if isinstance(x, torch.Tensor) and x.requires_grad]

    def _tangent(self, index: int, head: FakeTensor) -> FakeTensor:
        fake = _dense_like(head)
        graph = self.tracer.graph
        first = next((n for n in graph.nodes if n.op not in ("placeholder", "get_attr")), None)
        with graph.inserting_before(first):
            node = graph.placeholder(f"tangent_{index}")
        node.meta["val"] = fake_like(fake)
        self.tracer.set_state(fake, TensorState(Storage(node), node))
        return fake


def _fake_input(converter: FakeConverter, node: Node, example: Any) -> Any:
    """Return the fake of an example input: the capture's own where that has symbolic sizes."""
    captured = node.meta.get("val")
    if isinstance(captured, SYMBOLIC) or _is_symbolic(captured):
        return fake_like(captured).renew() if isinstance(captured, FakeTensor) else captured
    if isinstance(example, FakeTensor):
        return fake_like(example).renew()
    return converter.convert(example) if isinstance(example, torch.Tensor) else example


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, FakeTensor) and value.is_symbolic


def _dense_like(head: FakeTensor) -> FakeTensor:
    """Return a tangent with its output's layout, made dense where the output overlaps itself.

    With symbolic strides it is contiguous: the runtime could not tell other strides.
    """
    if 0 in map(expr_of, head.stride()) or env_of(head.stride()) is not None:
        return FakeTensor(head.meta.contiguous(), head.fake_device)
    return FakeTensor(
        torch.empty_strided(head.size(), head.stride(), dtype=head.dtype, device="meta"),
        head.fake_device,
    )


class _SourceInterpreter(Interpreter):
    """The interpreter of the captured graph, which tells the tracer the user's running line."""

    def __init__(
        self,
        module: GraphModule,
        tracer: Tracer,
        env: ShapeEnv | None,
        blocks: Blocks | None = None,
    ) -> None:
        super().__init__(module)
        self.tracer = tracer
        self.env = env
        self.blocks = blocks

    def load(self, argument: Argument) -> Any:
        value = super().load(argument)
        return value if self.env is None else numbers_of(value, self.env)

    def run_node(self, node: Node) -> Any:
        self.tracer.source = node.meta.get("source")
        if is_check(node):
            return self.tracer.record_check(node)
        if is_symbol_node(node) and self.env is not None and node.op == "call_function":
            return node.meta["val"]
        checkpoint, action = self.tracer.checkpoint, f"tracing {bare_name(node) or node.op}"
        if getattr(node.target, "is_recomputed", False):
            checkpoint = checkpoint or node.name
        around = replacing(self.tracer, "checkpoint", checkpoint)
        with around, self._same_symbols(node), at_line(action, node.meta.get("source")):
            value = super().run_node(node)
        history: Any = value.grad_fn if isinstance(value, torch.Tensor) else None
        if self.tracer.source is not None and history is not None:
            history.metadata.setdefault("source", self.tracer.source)
        return value

    def call_function(
        self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if isinstance(target, Block):
            results = self.blocks and self.blocks.run(self.tracer, target, args)
            return results or tuple(self._run_graph(target.body, *args))
        if isinstance(target, HigherOrder):
            return run_higher_order(self.tracer, self._trace_graph, target, args)
        if isinstance(target, Composite):
            return target.run(self._run_graph, *args)
        if target in ENGINE_CALLS:
            return self._run_engine(*args, **kwargs)
        check_values(target, args, kwargs)
        return super().call_function(target, args, kwargs)

    def _run_engine(self, *args: Any, **kwargs: Any) -> Any:
        """Record the gradients that the program itself computes."""
        with torch.autograd.set_multithreading_enabled(False):
            return torch.autograd.grad(*args, **kwargs)

    def _trace_graph(self, module: GraphModule, examples: Sequence[torch.Tensor]) -> GraphModule:
        """Return the functional form of a graph that a node of this graph calls."""
        table = self.tracer.decompositions
        program = trace_program(module, examples, table, differentiate=False, env=self.env)
        assert program.epilogue.is_trivial(program.forward_outputs)
        run_passes("post_grad", program.module)
        return program.module

    def _run_graph(self, module: GraphModule, *inputs: Any) -> Any:
        """Record the operators of a graph that a node of this graph calls."""
        return _SourceInterpreter(module, self.tracer, self.env, self.blocks).run(*inputs)

    def _same_symbols(self, node: Node) -> AbstractContextManager[object]:
        """Give operators that depend on data the same symbols as while capturing."""
        if self.env is None:
            return nullcontext()
        return making_symbols(self.env, node.meta.get("symbols", ()))
