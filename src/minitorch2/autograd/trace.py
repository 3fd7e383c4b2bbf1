"""Record the aten operators that a program runs, as a functional graph.

:class:`Tracer` is a dispatch mode that sees each operator below autograd. So it records the
operators of the forward program and those of PyTorch's own derivative formulas alike (PyTorch 2
paper, section 3.9). Decompositions are applied while recording, to a fixed point (section 4.2).
Writes become new values (``functionalize.py``). An operator that only renames a value gets no node.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import sympy
import torch

from minitorch2.autograd.functionalize import (
    COMPUTED_VIEWS,
    Constants,
    Storage,
    TensorState,
    ViewStep,
    replay,
)
from minitorch2.autograd.layouts import all_laid_out_like, laid_out_like, own_results
from minitorch2.autograd.schemas import (
    alias_facts,
    bind_arguments,
    functional_arguments,
    functional_form,
    is_composite,
)
from minitorch2.autograd.windows import window_steps
from minitorch2.autograd.written_calls import record_written_call
from minitorch2.errors import LoweringError, UnsupportedError
from minitorch2.graph.dispatch_mode import DispatchMode, Launch
from minitorch2.graph.fake_kernels import METADATA_OPERATORS
from minitorch2.graph.fake_tensor import FakeTensor, become, fake_like, flat, run_fake
from minitorch2.graph.graph import Graph
from minitorch2.graph.known_scalars import known_value
from minitorch2.graph.node import Argument, Node, SourceLine, map_items, map_nodes
from minitorch2.graph.runtime_checks import add_check
from minitorch2.graph.symbol_nodes import bind_symbols
from minitorch2.graph.symbols import ShapeEnv, expr_of, same_sizes
from minitorch2.graph.symbols.shape_env import RuntimeCheck
from minitorch2.graph.symbols.unbacked import unbacked_in
from minitorch2.graph.value_checks import check_values
from minitorch2.native.torch_internals.gradients import current_autograd_node
from minitorch2.native.torch_internals.operators import OpOverload as Operator

aten = torch.ops.aten
Decompositions = Mapping[Operator, Callable[..., Any]]

_RENAMES = frozenset({aten.alias.default, aten.detach.default, aten.lift_fresh.default})
_WITH_FUNCTIONAL_FORMS: Final = ("aten", "prims", "minitorch2")
"""Namespaces whose operators that write have a form that gives a fresh result."""
_COPIES = frozenset({aten.clone.default, aten._to_copy.default})
_RESHAPES = frozenset({aten.view.default, aten.expand.default, aten.permute.default,
aten.slice.Tensor,
                       aten.as_strided.default, aten.squeeze.dim})  # fmt: skip

# Their argument is the result's size, in which -1 may stand for a size that is now known.
_SIZED = frozenset({aten.view.default, aten.expand.default})


class Tracer(DispatchMode):
    """The mode that records into ``graph`` every operator on tensors that it knows.

    Args:
        decompositions: operator -> Python function in terms of other operators.

    Raises (while recording): UnsupportedError for an operator without a functional form,
    LoweringError for a cycle of decompositions.
    """

    def __init__(self, decompositions: Decompositions) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self.decompositions = decompositions
        self.constants = Constants()
        self.source: SourceLine | None = None
        self.differentiates = False
        self.checkpoint: str | None = None
        self.env: ShapeEnv | None = None
        self.unbacked: set[sympy.Symbol] = set()
        self._decomposing: list[Operator] = []
        self._ends_in: Operator | None = None
        self._alive: list[FakeTensor] = []  # states hang on fakes; ids must stay valid

    # Tensors and their states

    def add_input(self, fake: FakeTensor, name: str, index: int | None = None) -> Node:
        """Make a placeholder for ``fake``."""
        node = self.graph.placeholder(name)
        node.meta["val"] = fake_like(fake)
        self.set_state(fake, TensorState(Storage(node, input_index=index), node))
        return node

    def set_state(self, fake: FakeTensor, state: TensorState) -> None:
        """Set the state of a fake tensor: the storage and the views that it is in the graph."""
        fake.trace_state = (self, state)  # type: ignore[attr-defined]

    def state_of(self, tensor: torch.Tensor) -> TensorState:
        """Return a tensor's state in the graph; a tensor never seen before becomes a constant."""
        owner, state = getattr(tensor, "trace_state", (None, None))
        if owner is self:
            assert isinstance(state, TensorState)
            return state
        if isinstance(tensor, FakeTensor):
            raise UnsupportedError(f"{tensor} comes from outside the traced program")
        node = self._constant(tensor)
        return TensorState(Storage(node), node)

    def read(self, tensor: torch.Tensor) -> Node:
        """Return the node of the tensor's present value."""
        return self.state_of(tensor).read(self)

    def _constant(self, tensor: torch.Tensor) -> Node:
        known = self.constants.nodes.get(id(tensor))
        if known is not None:
            return known
        name = self.graph.unique_name("constant")
        first = next(iter(self.graph.nodes), None)
        with self.graph.inserting_before(first):
            node = self.graph.create_node("get_attr", name)
        node.name = name
        node.meta["val"] = FakeTensor(tensor.detach().to("meta"), tensor.device)
        self.constants.nodes[id(tensor)] = node
        self.constants.alive.append(tensor)
        held = tensor.clone() if tensor._is_zerotensor() else tensor  # zeros without memory
        self.constants.tensors[name] = held.detach()
        return node

    # Recording

    def see(self, func: Operator, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if not all(issubclass(cls, FakeTensor) for cls in types):
            return NotImplemented  # a class of the user's says what it does with plain tensors
        if func in METADATA_OPERATORS:
            return run_fake(func, args, kwargs)
        decomposed = self._decompose(func, args, kwargs)
        if decomposed is not NotImplemented:
            return decomposed
        facts = alias_facts(func)
        if facts.changes_metadata:
            return self._change_metadata(func, args, kwargs)
        if facts.written:
            return self._write(func, facts.written, args, kwargs)
        if facts.is_view:
            return self._view(func, args, kwargs)
        return self._compute(func, args, kwargs)

    def emit(self, func: Operator, *args: Any, **kwargs: Any) -> Node:
        """Record a functional operator whose tensor arguments are nodes; return its node."""
        if is_composite(func):
            return self._emit_composite(func, args, kwargs)
        fakes = map_nodes((args, kwargs), lambda node: node.meta["val"])
        return self._record(func, args, kwargs, run_fake(func, *fakes))

    def _emit_composite(
        self, func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Node:
        """Record the operators that a composite operator consists of."""

        def as_tensor(node: Node) -> FakeTensor:
            fake = fake_like(node.meta["val"])
            self.set_state(fake, TensorState(Storage(node), node))
            return fake

        fakes, keywords = map_nodes((args, kwargs), as_tensor)
        with self:
            return self.read(func(*fakes, **keywords))

    def _decompose(self, func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        rule = self.decompositions.get(func)
        if rule is not None and self._decomposing[-1:] == [func]:
            self._ends_in = func  # a rule may end in its own operator, with other arguments
            return NotImplemented
        if rule is None:
            if not is_composite(func):
                return NotImplemented
            rule = func.decompose
        elif func in self._decomposing:
            chain = " -> ".join(str(f) for f in [*self._decomposing, func])
            raise LoweringError(f"decompositions form a cycle: {chain}", code="decomposition-cycle")
        if not self._decomposing:
            self._ends_in = None
        self._decomposing.append(func)
        try:
            with self:
                check_values(func, args, kwargs)
                results = rule(*args, **kwargs)
            if len(self._decomposing) > 1 or results is NotImplemented:
                return results
            if self._ends_in is func:
                return results  # such a rule chooses the layout: that is what it is for
            expected = own_results(func, args, kwargs)
            with self:
                return all_laid_out_like(results, expected)
        except UnsupportedError as error:
            if error.code != "unbacked-size" or is_composite(func):
                raise
            return NotImplemented  # the rule must know what only data will tell: no rule, then
        finally:
            self._decomposing.pop()

    def _compute(self, func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = run_fake(func, args, kwargs)
        if func in _COPIES and not isinstance(args[0], torch.Tensor):
            with self:  # a batch rule converts a number of Python's to a type
                return aten.scalar_tensor(args[0], dtype=result.dtype, device=result.device)
        if func in _COPIES and _same_layout(args[0], result):
            return self._fresh(result, self.read(args[0]))
        node_args, node_kwargs = self._as_nodes(args), self._as_nodes(kwargs)
        node = self._record(func, node_args, node_kwargs, result)
        return self._wrap_results(node, result)

    def _wrap_results(self, node: Node, result: Any) -> Any:
        if isinstance(result, FakeTensor):
            return self._fresh(result, node)
        if not isinstance(result, (tuple, list)):
            return result
        return type(result)([self._item(node, index, item) for index, item in enumerate(result)])

    def _item(self, node: Node, index: int, item: Any) -> Any:
        if not isinstance(item, (FakeTensor, tuple, list)):
            return item
        return self._wrap_results(self._record(operator.getitem, (node, index), {}, item), item)

    def _view(self, func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FakeTensor:
        base, *rest = args
        if not isinstance(base, torch.Tensor):  # the conjugate of a Python number
            constant: FakeTensor = func(torch.tensor(base), *rest, **kwargs).resolve_conj()
            return constant
        computed = COMPUTED_VIEWS.get(func, func)
        result: FakeTensor = run_fake(computed, (_as_fake(base), *rest), kwargs)
        if not isinstance(result, FakeTensor):
            raise UnsupportedError(f"{func} returns several views; it needs a decomposition")
        state = self.state_of(base)
        if func is aten.as_strided.default and (state.views or len(rest) > 2):
            return self._window(state, base, rest, result)
        node = state.read(self)
        if func not in _RENAMES and not (func in _RESHAPES and _same_layout(base, result)):
            arguments = [list(result.shape)] if func in _SIZED else self._as_nodes(tuple(rest))
            node = self._record(computed, (node, *arguments), self._as_nodes(kwargs), result)
        step = ViewStep(func, tuple(rest), kwargs)
        self.set_state(result, state.child(step, node))
        self._alive.append(result)
        return result

    def _window(
        self, state: TensorState, base: torch.Tensor, arguments: list[Any], result: FakeTensor
    ) -> FakeTensor:
        """``as_strided`` of a view: a view of the storage's own tensor."""
        steps = window_steps(state, base, *arguments)
        node = replay(self, state.storage.value, steps)[-1]
        self.set_state(result, TensorState(state.storage, node, steps, state.storage.version))
        self._alive.append(result)
        return result

    def _write(
        self,
        func: Operator,
        written: tuple[str, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Compute the written values functionally, assign them, and return the schema's results."""
        bound = bind_arguments(func, args, kwargs)
        targets = [bound[name] for name in written if bound.get(name) is not None]
        if func.namespace not in _WITH_FUNCTIONAL_FORMS:
            return self._write_by_call(func, args, kwargs, targets)
        memories = {id(self.state_of(t).storage) for t in flat(targets) if type(t) is FakeTensor}
        if func.__name__.startswith("_foreach_") and len(memories) < len(targets[0]):
            for number in range(len(targets[0])):  # each reads what the one before has written
                alone = [[a[number]] if isinstance(a, (list, tuple)) else a for a in args]
                self._write(func, written, tuple(alone), kwargs)
            return None
        results, values = self._written_values(func, targets, bound)
        for target, value in zip(flat(targets), flat(values), strict=True):
            self.assign(target, value)
        if not func._schema.returns:
            return None
        returned = results or targets
        return returned[0] if len(func._schema.returns) == 1 else tuple(returned)

    def on_launch(self, launch: Launch, values: Sequence[Any]) -> None:
        """Record the launch of a kernel. Autograd does not see it, as it does not in eager mode."""
        written = [values[index] for index in launch.written()]
        record_written_call(self, launch, values, {}, written, ())

    def _write_by_call(
        self, func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], targets: list[Any]
    ) -> Any:
        """Record an operator of the user's, which writes to its arguments, as a call on copies."""
        found = run_fake(func, args, kwargs)
        results = [] if found is None else flat([found])
        made = record_written_call(self, func, args, kwargs, flat(targets), results)
        returns = func._schema.returns
        if [r for r in returns if r.alias_info is not None]:
            return targets[0] if len(returns) == 1 else tuple(targets)
        return None if found is None else made[0] if len(returns) == 1 else tuple(made)

    def _written_values(
        self, func: Operator, targets: list[Any], bound: dict[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        """Return the operator's other results, and the new value of each written argument."""
        if func is aten.copy_.default:
            return [], [self._fitted(bound["src"], bound["self"])]
        form = functional_form(func)
        with self:
            result = form(**functional_arguments(func, form, bound))
        # A written list of tensors has one result, a list; several arguments have one each, last.
        if len(targets) == 1 and len(form._schema.returns) == 1:
            return [], [result]
        results = list(result)
        return results[: -len(targets)], results[-len(targets) :]

    def assign(self, target: torch.Tensor, value: FakeTensor) -> None:
        """Let a tensor hold another value from here on."""
        if not isinstance(target, FakeTensor):
            raise UnsupportedError("the program writes to a tensor that is a constant of the graph")
        target.note_write()
        if 0 in map(expr_of, target.shape) and 0 not in map(expr_of, value.shape):
            if self.state_of(target).storage.input_index is not None:
                raise UnsupportedError("out= gives an empty input another size")
            with self:
                value = aten._to_copy.default(value, dtype=target.dtype)
            become(target, value)
            self.set_state(target, self.state_of(value))
            return
        fitted = self._fitted(value, target)
        self.state_of(target).write(self, self.read(fitted))

    def _fitted(self, value: Any, target: torch.Tensor) -> FakeTensor:
        """``value`` with the shape, dtype, device and layout of ``target``, as ``copy_`` would
        store it.
        """
        with self:
            if not same_sizes(value.shape, target.shape):
                value = aten.expand.default(value, list(target.shape))
            if value.dtype != target.dtype or value.device != target.device:
                value = aten._to_copy.default(value, dtype=target.dtype, device=target.device)
            if isinstance(value, FakeTensor):
                value = laid_out_like(value, target)
        return _as_fake(value) if isinstance(value, FakeTensor) else value

    def _change_metadata(
        self, func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """``x.t_()``: the same tensor object becomes a view of its storage."""
        tensor = args[0]
        state = self.state_of(tensor)
        if state.storage.input_index is not None:
            raise UnsupportedError(f"{func} changes the shape of an input of the graph")
        with self:
            viewed = functional_form(func)(*args, **kwargs)
        self.set_state(tensor, self.state_of(viewed))
        run_fake(func, args, kwargs)
        return tensor

    def _record(self, func: Any, args: Any, kwargs: Any, value: Any) -> Node:
        self._add_checks()
        node = self.graph.call_function(func, _as_exprs(tuple(args)), _as_exprs(dict(kwargs)))
        node.meta["val"] = _plain_value(value)
        if self.checkpoint is not None:
            node.meta["checkpoint"] = self.checkpoint
        if self.differentiates:
            node.meta["derivative"] = True
        self._follow_autograd()
        if self.source is not None:
            node.meta["source"] = self.source
        if self.env is not None:
            self._bind_symbols(node)
        return node

    def record_call(
        self, target: Callable[..., Any], inputs: Sequence[Node], results: Sequence[FakeTensor]
    ) -> tuple[FakeTensor, ...]:
        """Record a call that is not an operator of PyTorch, with results in new memory."""
        results = [fake.renew() for fake in results]
        node = self._record(target, inputs, {}, tuple(results))
        wrapped: tuple[FakeTensor, ...] = self._wrap_results(node, tuple(results))
        return wrapped

    def record_check(self, captured: Node) -> None:
        """Repeat a check of the captured graph."""
        self._add_checks()
        condition, message, error = captured.args
        add_check(self.graph, RuntimeCheck(condition, message, error, self.source))

    def _add_checks(self) -> None:
        for stated in [] if self.env is None else self.env.take_checks():
            add_check(self.graph, stated)

    def _bind_symbols(self, node: Node) -> None:
        """Insert the node of each unbacked symbol behind the node that determines it."""
        new = unbacked_in(node.meta["val"]) - self.unbacked
        if not new:
            return
        given = unbacked_in([node.meta["val"] for node in self.graph.placeholders])
        for made in bind_symbols(self.graph, node, new - given):
            self.unbacked |= unbacked_in(made.meta["val"])

    def _follow_autograd(self) -> None:
        """Set the user's line, in a derivative, to the line of the operator that it differentiates.

        Only the last autograd node of an operator carries the line; the ones behind it run next.
        """
        running: Any = current_autograd_node()
        if running is not None:
            self.source = running.metadata.get("source", self.source)

    def _fresh(self, fake: FakeTensor, node: Node) -> FakeTensor:
        self.set_state(fake, TensorState(Storage(node), node))
        self._alive.append(fake)
        return fake

    def _as_nodes(self, value: Any) -> Argument:
        if isinstance(value, torch.Tensor):
            return self.read(value)
        return map_items(value, self._as_nodes)


def _as_exprs(value: Any) -> Argument:
    """Symbolic sizes as expressions: the graph holds no SymInts."""
    is_number = isinstance(value, (torch.SymInt, torch.SymFloat))
    return expr_of(value) if is_number else map_items(value, _as_exprs)


def _plain_value(value: Any) -> Any:
    """Return a value without autograd history, which would keep the whole tape alive."""
    if isinstance(value, FakeTensor):
        return fake_like(value)
    return map_items(value, _plain_value)


def _as_fake(tensor: torch.Tensor) -> FakeTensor:
    if isinstance(tensor, FakeTensor):
        return tensor
    fake = FakeTensor(tensor.detach().to("meta"), tensor.device)
    fake.known = known_value(tensor)
    return fake


def _same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (
        (a.dtype, a.device) == (b.dtype, b.device)
        and same_sizes((*a.shape, a.storage_offset()), (*b.shape, b.storage_offset()))
        and same_sizes(a.stride(), b.stride())
    )
