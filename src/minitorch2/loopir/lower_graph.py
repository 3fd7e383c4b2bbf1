"""From an aten graph to buffers with loop bodies.

The graph is interpreted node by node: each tensor is a `TensorBox`, and each operator's lowering
returns another one (PyTorch 2 paper, section 4.3). A value that is cheap to recompute stays a
function that its readers call. Every other value gets memory here, with a logged reason.

Nodes have the user's names; buffers do not. Inputs are arg0, arg1, ..., constants are constant0,
..., and computed buffers are buf0, buf1, ... So graphs that differ in names only are one program.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import sympy
import torch

from minitorch2 import config, stages
from minitorch2.errors import LoweringError, at_line
from minitorch2.graph.effects import is_random
from minitorch2.graph.functional_call import FunctionalCall
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.higher_order import HigherOrder
from minitorch2.graph.node import Argument, Node, map_items, map_nodes
from minitorch2.graph.raising import may_raise
from minitorch2.graph.runtime_checks import is_check
from minitorch2.graph.symbols import expr_of
from minitorch2.graph.symbols.unbacked import unbacked_in
from minitorch2.loopir.boxes import StorageBox, TensorBox
from minitorch2.loopir.buffers import (
    Buffer,
    BufferTable,
    BufferView,
    ComputedBuffer,
    ConstantBuffer,
    ExternKernel,
    HostCall,
    InputBuffer,
    MultiOutput,
    Origins,
    use_table,
)
from minitorch2.loopir.handlers.counter import body_cost
from minitorch2.loopir.layout import FixedLayout, same_strides
from minitorch2.loopir.loops import Pointwise
from minitorch2.loopir.lowered_graph import LoweredGraph, OutputValue
from minitorch2.loopir.lowering import LOWERINGS
from minitorch2.loopir.lowering.creation import zeros
from minitorch2.loopir.lowering.fallback import (
    extern_call,
    lower_by_fallback,
    realize_arguments,
    report_call,
)
from minitorch2.loopir.lowering.registry import NoLoopForm
from minitorch2.loopir.ops import LOOP_DTYPES
from minitorch2.loopir.readers import all_is_read, kernels_that_read, readers_of, waits_of
from minitorch2.loopir.verify import verify_lowered
from minitorch2.native.torch_internals.operators import OpOverload

__all__ = ["LoweredGraph", "check_tensors", "layout_of", "lower_graph", "positional", "to_exprs"]

LoweredValue: TypeAlias = Any  # TensorBox, Expr, number, None, or nested tuples of them

_EMPTY = torch.ops.aten.empty_strided.default
_UNINITIALIZED = frozenset(
    {_EMPTY, torch.ops.aten.empty.memory_format, torch.ops.aten.empty_like.default}
    | {torch.ops.aten.new_empty.default, torch.ops.aten.new_empty_strided.default}
)
"""Operators whose results hold anything."""

MAX_OPERATIONS = 64
"""A body of more operations gets memory, so that closures cannot grow without bound."""


def lower_graph(gm: GraphModule, example_inputs: Sequence[object] = ()) -> LoweredGraph:
    """Lower a functional aten graph whose nodes all have `meta["val"]`.

    `example_inputs` are not needed: sizes, strides and dtypes come from the graph.

    Raises:
        LoweringError: the graph is not functional, or a node is not an aten operator.
    """
    with stages.phase("lower"), use_table(BufferTable()) as table:
        lowered = _GraphLowering(gm, table).run()
    if config.current().verify:
        verify_lowered(lowered)
    return lowered


class _GraphLowering:
    """One pass over the nodes; `values` maps each node to its lowered value."""

    def __init__(self, gm: GraphModule, table: BufferTable) -> None:
        self.gm = gm
        self.table = table
        self.values: dict[Node, LoweredValue] = {}
        self.result = LoweredGraph([], table.buffers, [], decisions=table.decisions)
        self.returned = set(gm.graph.output_node.all_input_nodes)
        self.bound: set[sympy.Symbol] = set()
        self.waits = waits_of(gm.graph.nodes)

    def run(self) -> LoweredGraph:
        for node in self.gm.graph.nodes:
            self.table.origins = self._origins(node)
            self.values[node] = getattr(self, f"_lower_{node.op}")(node)
            self.table.origins = ()
        for buffer in self.table.buffers:
            buffer.fixed_layout()
        return self.result

    def _origins(self, node: Node) -> Origins:
        """Return the node, and its inputs without memory, whose work the node does."""
        inlined: dict[Node, None] = {}
        for argument in node.all_input_nodes:
            value = self.values.get(argument)
            if isinstance(value, TensorBox) and not value.storage.is_realized():
                inlined |= dict.fromkeys(value.storage.origins)
        return (*inlined, node)

    def _lower_placeholder(self, node: Node) -> LoweredValue:
        value = node.meta["val"]
        self.bound |= unbacked_in(value)
        if not isinstance(value, torch.Tensor):
            self.result.inputs.append(expr_of(value))
            return expr_of(value)
        sizes: tuple[Any, ...] = value.shape
        symbolic = [size for size in sizes if isinstance(size, torch.SymInt)]
        if symbolic:
            self.table.known = symbolic[0].node.shape_env.decide
        self.result.hints |= {
            size.node.expr: size.node.hint for size in symbolic if size.node.has_hint()
        }
        donated, becomes = node.meta.get("donated", False), node.meta.get("becomes")
        name = f"arg{len(self.result.inputs)}"
        buffer = InputBuffer(name, layout_of(value), donated, becomes, origins=(node,))
        self.result.inputs.append(buffer)
        return TensorBox.create(buffer)

    def _lower_get_attr(self, node: Node) -> LoweredValue:
        value = self.gm.lookup(str(node.target))
        if not isinstance(value, torch.Tensor):
            return value
        name = f"constant{len(self.result.constants)}"
        buffer = ConstantBuffer(name, layout_of(value), value, origins=(node,))
        self.result.constants[name] = buffer
        return TensorBox.create(buffer)

    def _lower_call_function(self, node: Node) -> LoweredValue:
        args, kwargs = map_nodes((node.args, dict(node.kwargs)), self.values.__getitem__)
        if node.target is operator.getitem:
            return args[0][args[1]]
        value = node.meta.get("val")
        if is_check(node) or node.target is torch.ops.aten._local_scalar_dense.default:
            return self._call_on_host(node, args, kwargs)
        if isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)):
            return expr_of(value)
        if isinstance(node.target, FunctionalCall):
            return self._call_functionally(node, node.target, args)
        if isinstance(node.target, HigherOrder):
            pairs = zip(args, node.args, strict=True)
            windows = (self._laid_out(v, n.meta["val"], "a graph reads it") for v, n in pairs)
            return extern_call(node.target, tuple(windows), {}, value)
        if not isinstance(node.target, OpOverload):
            raise LoweringError(f"{node.target} is no aten operator", user_line=_line(node))
        if self._is_check_alone(node):
            report_call("library_call", node.target, "it may raise, and nobody reads its result")
            self._call_on_host(node, to_exprs(args), to_exprs(kwargs))
            if not node.users:
                return None
        first = len(self.table.buffers)
        with at_line(f"lowering {node.target}", _line(node)):
            result = self._lower_operator(node, node.target, to_exprs(args), to_exprs(kwargs))
            self._settle(node, result)
        self._bind_symbols(self.table.buffers[first:])
        return result

    def _call_functionally(
        self, node: Node, target: FunctionalCall, args: tuple[Any, ...]
    ) -> LoweredValue:
        """Call the user's function on windows that are laid out as in eager mode."""
        given = [
            self._for_call(node, value, argument)
            for value, argument in zip(args, node.args, strict=True)
        ]
        owned = frozenset(i for i in target.written if self._is_owned(node, node.args[i], given[i]))
        call = replace(target, owned=owned)
        return extern_call(call, tuple(given), {}, node.meta["val"])

    def _for_call(self, reader: Node, value: LoweredValue, argument: Argument) -> Any:
        """Return an argument in memory; uninitialized memory of `reader` alone stays unfilled."""
        if not isinstance(value, TensorBox) or not isinstance(argument, Node):
            return to_exprs(value)
        fake = argument.meta["val"]
        if argument.target in _UNINITIALIZED and set(argument.users) == {reader}:
            layout = layout_of(fake)
            options = {"dtype": layout.dtype, "device": layout.device}
            value = extern_call(_EMPTY, (layout.size, layout.stride), options, fake)
        return self._laid_out(value, fake, "a call reads it")

    def _is_owned(self, reader: Node, argument: Argument, view: Any) -> bool:
        """Return whether the graph owns the memory of an argument, and `reader` alone reads it.

        Equal values that are written are one value until then: as two arguments they need two.
        """
        if not isinstance(argument, Node) or set(argument.users) != {reader}:
            return False
        if reader.args.count(argument) > 1:
            return False
        sharing = [
            value
            for value in self.values.values()
            if isinstance(value, TensorBox) and value.storage.data is view.buffer
        ]
        own = isinstance(view.buffer, ComputedBuffer) or type(view.buffer) is ExternKernel
        return own and len(sharing) <= 1

    def _is_check_alone(self, node: Node) -> bool:
        """Tell whether a call is there to raise or not: nobody reads it, or it has no elements.

        One that draws random numbers stays anyway, at its place among the others that do.
        """
        is_unread = not node.users or _is_empty(node.meta["val"])
        return is_unread and may_raise(node) and not is_random(node)

    def _call_on_host(
        self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> LoweredValue:
        """Read a number, check a condition, or run a call that may raise, at its place."""
        symbols = dict.fromkeys(unbacked_in(node.meta["val"]) - self.bound, 0)
        self.bound |= symbols.keys()
        layout = FixedLayout(torch.device("cpu"), torch.int64, (), ())
        name, origins = self.table.next_name(), self.table.origins
        args, kwargs = realize_arguments((args, kwargs), "a call on the host")
        self.table.add(
            HostCall(name, layout, node.target, args, kwargs, origins=origins, symbols=symbols)  # type: ignore[arg-type]
        )
        return expr_of(node.meta["val"])

    def _bind_symbols(self, buffers: Sequence[Buffer]) -> None:
        """Read unbacked sizes off the first buffer that has them."""
        for buffer in buffers:
            is_several = isinstance(buffer, ExternKernel) and bool(buffer.outputs)
            if isinstance(buffer, ExternKernel | MultiOutput) and not is_several:
                sizes = {size: dim for dim, size in enumerate(buffer.size)}
                new = unbacked_in(buffer.size) - self.bound
                buffer.symbols = {symbol: sizes[symbol] for symbol in new if symbol in sizes}
                self.bound |= buffer.symbols.keys()

    def _lower_operator(
        self, node: Node, target: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> LoweredValue:
        self.table.result = node.meta["val"]
        rule = LOWERINGS.get(target)
        if rule is not None and _is_empty(node.meta["val"]):
            rule = zeros
        reason = "it has no lowering"
        if rule is not None:
            try:
                check_tensors((args, kwargs, node.meta["val"]))
                args, kwargs = positional(target, args, kwargs)
                result = rule(*args, **kwargs)
                if agrees(result, node.meta["val"]):
                    return result
                reason = "its lowering and eager disagree about the result's form"
            except NoLoopForm as form:
                reason = str(form)
        return lower_by_fallback(target, args, kwargs, node.meta["val"], reason)

    def _settle(self, node: Node, result: LoweredValue) -> None:
        """Decide which of a node's results get memory now."""
        fakes = node.meta["val"]
        pairs = [(result, fakes)] if isinstance(result, TensorBox) else zip(result, fakes)
        for box, fake in pairs:
            if not isinstance(box, TensorBox):
                continue
            if isinstance(box.data, StorageBox) and not box.data.is_realized():
                box.data.preferred_stride = tuple(map(expr_of, fake.stride()))
            reason = self._reason_to_store(node, box)
            if reason:
                box.storage.realize(reason)

    def _reason_to_store(self, node: Node, box: TensorBox) -> str | None:
        """Return the reason to give a value memory, or None if its readers recompute it."""
        loops = box.storage.data
        if isinstance(loops, Buffer):
            return None
        if not isinstance(loops, Pointwise):
            return "a reduction is complete only when its loop has ended"
        if node in self.returned and isinstance(box.data, StorageBox):
            return "the graph returns it"
        if may_raise(node) and not all_is_read(node):
            return "it may raise, and a reader leaves out elements"
        cost, readers = body_cost(loops), len([*readers_of(node)])
        if cost.reads and not config.current().inline_pointwise:
            return "inlining is off"
        if cost.operations > MAX_OPERATIONS:
            return f"its body has {cost.operations} operations (limit {MAX_OPERATIONS})"
        limit = config.current().realize_reads_threshold
        if readers > 1 and len(cost.reads) > limit:
            return f"{readers} readers would repeat {len(cost.reads)} loads (limit {limit})"
        if readers > 1 and cost.expensive:
            return f"{readers} readers would repeat {cost.expensive} expensive operations"
        if loops.device.type != "cpu":
            kernels, loads = kernels_that_read(node, self.waits), cost.large_loads(loops.ranges)
            if (kernels - 1) * (loads - 1) > 1:  # more than one store, and a load in each
                return f"{kernels} kernels would repeat {loads} loads"
        self.table.decide(
            node.name, stored=False, reason=f"{cost.operations} operations for {readers} readers"
        )
        return None

    def _lower_output(self, node: Node) -> None:
        fakes = {n: n.meta.get("val") for n in node.all_input_nodes}
        returned = node.args[0]
        for argument in returned if isinstance(returned, (tuple, list)) else (returned,):
            self.result.outputs.append(self._output(argument, fakes.get(argument)))

    def _output(self, argument: Argument, fake: object) -> OutputValue:
        value = self.values[argument] if isinstance(argument, Node) else expr_of(argument)
        if not isinstance(value, TensorBox):
            return value
        assert isinstance(fake, torch.Tensor)
        return self._laid_out(value, fake, "the graph returns it")

    def _laid_out(self, value: TensorBox, fake: torch.Tensor, reason: str) -> BufferView:
        """Return the value in memory, with the strides of its fake."""
        stride = tuple(map(expr_of, fake.stride()))
        if isinstance(value.data, StorageBox) and not value.data.is_realized():
            value.data.preferred_stride = stride
        view = value.realize(reason)
        if same_strides(view.layout.size, view.layout.stride, stride):
            # Strides along a dimension of size 1 move nothing, but the caller can see them.
            return replace(view, layout=replace(view.layout, stride=stride))
        if value.dtype not in LOOP_DTYPES:  # complex, expanded: the operator's whole copy
            return view
        copied = value.copy().storage.realize(f"{reason} with other strides")
        return BufferView(copied, copied.fixed_layout(stride))


def layout_of(tensor: torch.Tensor) -> FixedLayout:
    """Return the layout of a (fake) tensor, with its first element at position 0 as in kernels."""
    return FixedLayout(
        tensor.device,
        tensor.dtype,
        tuple(map(expr_of, tensor.shape)),
        tuple(map(expr_of, tensor.stride())),
    )


def to_exprs(argument: Any) -> Any:
    """Return an argument structure with symbolic integers as expressions."""
    return expr_of(map_items(argument, to_exprs))


def positional(
    target: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a call's arguments by position where the schema allows it, with defaults filled in."""
    rest = dict(kwargs)
    result = list(args)
    for argument in target._schema.arguments[len(args) :]:
        if not argument.kwarg_only:
            result.append(rest.pop(argument.name, argument.default_value))
    return tuple(result), rest


def _is_empty(fake: object) -> bool:
    """Return whether a tensor has no elements, so that no index may be divided by a size of 0."""
    return isinstance(fake, torch.Tensor) and any(expr_of(size) == 0 for size in fake.shape)


def agrees(result: LoweredValue, fake: Any) -> bool:
    """Return whether a lowered value has the dtype, rank and known sizes of the fake result."""
    if isinstance(result, TensorBox):
        pairs = zip(result.size, map(expr_of, fake.shape))
        same_sizes = all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
        return result.dtype == fake.dtype and result.ndim == fake.ndim and same_sizes
    if isinstance(result, (tuple, list)):
        return len(result) == len(fake) and all(map(agrees, result, fake))
    return True


def check_tensors(values: Any) -> None:
    """Loop bodies compute with `LOOP_DTYPES` only, and where there is memory.

    Raises:
        NoLoopForm: a tensor has another dtype, such as a complex one, or is on the device `meta`.
    """
    if isinstance(values, (TensorBox, torch.Tensor)):
        if values.device.type == "meta":
            raise NoLoopForm("a meta tensor has no elements")
        if values.dtype not in LOOP_DTYPES:
            raise NoLoopForm(f"loops do not compute with {values.dtype}")
    elif isinstance(values, (tuple, list, dict)):
        for value in values.values() if isinstance(values, dict) else values:
            check_tensors(value)


def _line(node: Node) -> object | None:
    return node.meta.get("source")
