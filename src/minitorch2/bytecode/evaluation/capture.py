"""One attempt to capture a frame: the graph, its inputs, guards and side effects.

A capture owns everything that the frame and the functions inlined into it share. It is thrown away
if the evaluator meets something unsupported; the next attempt then stops in front of that
instruction (`break_points`). So nothing is ever rolled back. PyTorch 2 paper, section 3.4.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import CellType, CodeType, FunctionType
from typing import Any

import sympy
import torch

from minitorch2 import config, stages
from minitorch2.bytecode.building import build, from_graph
from minitorch2.bytecode.building.tensors import wrap_varying_number
from minitorch2.bytecode.frames.names import names_of
from minitorch2.bytecode.frames.signature import signature_of
from minitorch2.bytecode.guards import (
    DistinctObjects,
    DistinctStorages,
    EmptyCell,
    Guard,
    MemoryPattern,
    SameObject,
    TypeMatch,
    memory_pattern,
    repeated_parts,
)
from minitorch2.bytecode.guards.drawing import Draw, Drawing
from minitorch2.bytecode.guards.overrides import mode_at
from minitorch2.bytecode.guards.settings import Place
from minitorch2.bytecode.guards.sizes import Sizes, SymbolicLayout
from minitorch2.bytecode.guards.sources import (
    AttributeSource,
    CellSource,
    DrawnSource,
    FunctionModeSource,
    LocalSource,
    ReferenceSource,
    Source,
    is_drawn,
)
from minitorch2.bytecode.guards.tensor_class import replaced_names
from minitorch2.bytecode.operators.fake_call import (
    ENTER_AUTOCAST,
    EXIT_AUTOCAST,
    FakeCall,
    describe_target,
    refuse_write_to_inference,
)
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.captured_overrides import Overrides
from minitorch2.bytecode.trackers.frame import Frame
from minitorch2.bytecode.trackers.interfaces import Evaluator, GraphInput
from minitorch2.bytecode.trackers.observed import raise_as_observed
from minitorch2.bytecode.trackers.opaque import OpaqueVariable
from minitorch2.bytecode.trackers.python_values.cell import CellVariable
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.references import References
from minitorch2.bytecode.trackers.side_effects import SideEffects
from minitorch2.bytecode.trackers.torch_values.context import under_default_dtype
from minitorch2.bytecode.trackers.torch_values.generator import drawn_from_generator
from minitorch2.bytecode.trackers.torch_values.hooks import (
    STEP,
    HistoryWrittenError,
    HookHandleVariable,
)
from minitorch2.bytecode.trackers.torch_values.nn_module import ModuleVariable
from minitorch2.bytecode.trackers.torch_values.overriding import (
    is_operator,
    method_of,
    of_jagged,
    overridden,
)
from minitorch2.bytecode.trackers.torch_values.selection import Selection
from minitorch2.bytecode.trackers.torch_values.symbolic import SymbolicNumberVariable, from_number
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.errors import UnsupportedError
from minitorch2.foundation.generated_code import DISPATCHER
from minitorch2.graph.fake_tensor import DataDependentError, FakeConverter, FakeTensor, storage_key
from minitorch2.graph.graph import Graph
from minitorch2.graph.higher_order import HigherOrder
from minitorch2.graph.history import tells_view, with_history
from minitorch2.graph.node import Node, SourceLine, map_nodes, nodes_in
from minitorch2.graph.runtime_checks import add_check
from minitorch2.graph.scope import Scope
from minitorch2.graph.symbol_nodes import bind_symbols
from minitorch2.graph.symbols import free_symbols, numbers_of
from minitorch2.graph.symbols.expression import SYMBOL_NAME
from minitorch2.graph.symbols.unbacked import making_symbols, unbacked_in
from minitorch2.graph.wrapper_tensors import is_wrapper, plain_parts
from minitorch2.marks.controls import errors_on_graph_break
from minitorch2.native.torch_internals.dispatch import enable_python_dispatcher
from minitorch2.native.torch_internals.pytree import tree_leaves


@dataclass
class FrameCapture:
    """The state of one attempt at a frame: all that was found so far.

    Attributes:
        frame: the captured call.
        graph: the tensor operations; while a part is recorded apart, the part's operations.
        root: the graph of the whole.
        inputs: the tensors the graph takes, one entry for each tensor object.
        guards: the conditions the captured code relies on, in order of discovery, without repeats.
        references: objects with private names, shared by guards and residual code.
        side_effects: pending writes.
        evaluator: the frame that is being evaluated, which may be an inlined one.
        writes_tensors: whether an operation changes a tensor in place.
        autocasts: the regions of autocast that the program is in: node and context manager.
        errors_on_break: whether a graph break is an error, in each block that says so.
        sizes: the sizes that are symbols, and the guards on them.
        overrides: the overrides of PyTorch's functions that are in force now.
        lines: the user's lines that were evaluated, by file.
        entered: the code of the frame and of all functions inlined into it.
        symbol_nodes: the node that is the value of each unbacked symbol.
        numbers: the inputs that are no tensors; they join `inputs` at the end.
        break_at: the only step at which the graph may break, and whether the next begins there.
        written: the memory that operations may have written to since a tensor was selected.
        selections: tensors that stand for one of two.
        draws: Python's and NumPy's random numbers, drawn in front of the graph.
        inference: the switches of inference mode that the code has entered.
        levels: the steps of the frame that entered those levels of forward mode that it is in.
        transforms: the kinds of transforms that the code that is evaluated is inside of.
        replaced: the tensors given by `functional_call`, by the identity of a module and a name.
        leaves: the leaf tensors that the program makes, in the graph.
        retaining: the tensors that keep their gradients although they are not leaves.
        hooked: the hooks on gradients of tensors that the graph computes.
        warned: the warnings shown by filters that the code has set, by the globals of the lines.
        replaced_data: the fakes that tensors had before their data was assigned.
        assigned_leaves: the fakes of leaves whose data was assigned.
        sees_death: whether a weak reference was made to an object that is new.
        asked_memory: the inputs whose addresses the program compares.
        watches: the functions that are told of each instruction.
    """

    frame: Frame
    graph: Graph = field(default_factory=Graph)
    inputs: list[GraphInput] = field(default_factory=list)
    guards: dict[Guard, None] = field(default_factory=dict)
    references: References = field(init=False)
    side_effects: SideEffects = field(default_factory=SideEffects)
    evaluator: Evaluator | None = None
    writes_tensors: bool = False
    autocasts: list[tuple[Node, object]] = field(default_factory=list)
    errors_on_break: list[bool] = field(default_factory=lambda: [errors_on_graph_break()])
    lines: set[tuple[str, int]] = field(default_factory=set)
    entered: dict[int, CodeType] = field(default_factory=dict)
    source_lines: dict[tuple[int, int], SourceLine] = field(default_factory=dict)
    sizes: Sizes = field(init=False)
    overrides: Overrides = field(init=False)
    symbol_nodes: dict[sympy.Symbol, Node] = field(default_factory=dict)
    numbers: list[GraphInput] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    inference: list[Any] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    break_at: tuple[int, bool] | None = None
    written: set[int] = field(default_factory=set)
    selections: list[Selection] = field(default_factory=list)
    transforms: list[str] = field(default_factory=list)
    replaced: dict[tuple[int, str], VariableTracker] = field(default_factory=dict)
    leaves: list[TensorVariable] = field(default_factory=list)
    retaining: list[TensorVariable] = field(default_factory=list)
    hooked: list[HookHandleVariable] = field(default_factory=list)
    settings: dict[Place, Any] = field(default_factory=dict)
    warned: dict[int, DictVariable] = field(default_factory=dict)
    replaced_data: list[FakeTensor] = field(default_factory=list)
    assigned_leaves: list[FakeTensor] = field(default_factory=list)
    sees_death: bool = False
    asked_memory: dict[Source, torch.Tensor] = field(default_factory=dict)
    watches: tuple[stages.Watch, ...] = field(default_factory=stages.watches)
    _fakes: FakeConverter = field(default_factory=FakeConverter)
    _by_source: dict[Source, VariableTracker] = field(default_factory=dict)
    _by_identity: dict[int, VariableTracker] = field(default_factory=dict)
    _inputs_by_id: dict[int, GraphInput] = field(default_factory=dict)
    _alive: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = self.graph
        code = self.frame.code
        taken = (names_of(code), signature_of(code).names, self.frame.globals)
        self.references = References(Scope(*taken))
        self.sizes = Sizes(self.frame.sizes)
        capture = weakref.ref(self)  # sizes outlive their capture, which holds the user's tensors
        self.sizes.env.locate = lambda: getattr(capture(), "line", None)
        active = self.frame.overrides
        stack = self.reference(mode_at)
        modes = [self.wrap(mode, FunctionModeSource(stack, i)) for i, mode in active.modes]
        self.overrides = Overrides(active.of_classes, active.of_modes, modes, tuple(modes))

    # Guards and values ---------------------------------------------------------------------------

    @property
    def line(self) -> SourceLine | None:
        """The user's line that is being evaluated."""
        return None if self.evaluator is None else self.evaluator.source_line()

    def add_guard(self, guard: Guard) -> Guard:
        """Rely on a guard; equal guards are kept once, with the line that first needed them.

        The class and the layout of what will be drawn at random follow from the call that draws.
        """
        if guard in self.guards or any(is_drawn(source) for source in guard.sources()):
            return guard
        if self.evaluator is not None:
            stack = self.evaluator.user_stack()
            guard = replace(guard, user_line=guard.user_line or stack[-1], user_stack=stack)
        self.guards[guard] = None
        return guard

    def reference(self, value: object, base: str = "") -> ReferenceSource:
        """Return the source of an object that has no path from the frame."""
        return self.references.source(value, base)

    def wrap(self, value: object, source: Source | None) -> VariableTracker:
        """Return the tracker of a real value that `source` loads, or else a private name.

        One object has one tracker: a guard checks that a second path leads to the same object.
        """
        if (made := self.references.stands_for(value)) is not None:
            return made
        source = source or self.reference(value)
        if type(value) is FunctionType and DISPATCHER in value.__globals__:
            # A function that is compiled already is captured as the user wrote it.
            value = value.__dict__["__wrapped__"]
            source = AttributeSource(source, "__wrapped__")
        known = self._by_source.get(source)
        if known is not None:
            return known
        tracker = self._by_source[source] = self._wrap(value, source)
        return tracker

    def known(self, source: Source) -> VariableTracker | None:
        """Return the tracker of the value that was loaded from a source before."""
        return self._by_source.get(source)

    def known_object(self, value: object) -> VariableTracker | None:
        """Return the tracker of an object from outside that was reached before."""
        return self._by_identity.get(id(value))

    def _wrap(self, value: object, source: Source) -> VariableTracker:
        number = wrap_varying_number(self, value, source)
        if number is not None:
            return number
        if source in self.frame.varying:
            guard = self.add_guard(TypeMatch(source, type(value)))
            return OpaqueVariable(type(value), source=source, guards=frozenset([guard]))
        known = self._by_identity.get(id(value))
        if known is not None and known.source is not None:
            if not source.is_fixed:
                known.guards |= {self.add_guard(SameObject(source, known.source))}
            return known
        tracker = build(self, value, source)
        is_number = isinstance(tracker, ConstantVariable | SymbolicNumberVariable)
        if not is_number and tracker.source == source:
            # Not trackers that stand for another object: a polyfill, a method of its owner.
            self._by_identity[id(value)] = tracker
        self._alive.append(value)
        return tracker

    def is_in_module(self, source: Source) -> bool:
        """Return whether a value was reached through an `nn.Module`: it belongs to the model."""
        steps = (self._by_source.get(step) for step in source.path())
        return any(isinstance(step, ModuleVariable) for step in steps)

    def guard_distinct(self, *trackers: VariableTracker) -> None:
        """Guard that values from outside are different objects."""
        sources = [tracker.source for tracker in trackers if tracker.source is not None]
        if len(sources) > 1:
            self.add_guard(DistinctObjects(tuple(sources)))

    def guard_identities(self) -> None:
        """Guard that objects that are changed, or are keys, are not also reached by another path.

        Objects of the class of a changed one stay distinct, and so do keys. If the graph writes to
        a tensor, its inputs share no memory unless they do so now.
        """
        kinds = {owner.python_type() for owner in self.side_effects.changed_objects()}
        keys: dict[type, list[VariableTracker]] = {}
        for tracker in self._by_identity.values():
            if (kind := tracker.python_type()) in kinds or tracker.is_key:
                keys.setdefault(kind, []).append(tracker)
        for alike in keys.values():
            self.guard_distinct(*alike)
        for guard in repeated_parts([(entry.value, entry.source) for entry in self.inputs]):
            self.add_guard(guard)
        storages = {entry.value.untyped_storage()._cdata for entry in self.inputs}
        if self.writes_tensors and len(self.inputs) > 1 and len(storages) == len(self.inputs):
            self.add_guard(DistinctStorages(tuple(entry.source for entry in self.inputs)))
        if len(self.asked_memory) > 1:
            pattern = memory_pattern(*self.asked_memory.values())
            self.add_guard(MemoryPattern(tuple(self.asked_memory), pattern))

    def outer_cell(
        self, name: str, cell: CellType, place: Source, contents: Source
    ) -> CellVariable:
        """Return the tracker of a cell made outside the captured region.

        Closures that share the cell share one tracker. A function that was passed is known by its
        code only, so the next one may have another cell: a guard checks that it is this cell.

        Args:
            name, cell: the variable's name, and the cell object.
            place, contents: load the cell object, and the object in the cell.
        """
        known = self._by_identity.get(id(cell))
        if known is None:
            known = CellVariable(name, place, lambda: self._cell_contents(cell, place, contents))
            self._by_identity[id(cell)] = known
            self._alive.append(cell)
        assert isinstance(known, CellVariable) and known.source is not None
        if known.source != place and isinstance(place.root(), LocalSource | CellSource):
            self.add_guard(SameObject(place, known.source))
        return known

    def _cell_contents(
        self, cell: CellType, place: Source, contents: Source
    ) -> VariableTracker | None:
        try:
            value = cell.cell_contents
        except ValueError:
            self.add_guard(EmptyCell(place))
            return None
        return self.wrap(value, contents)

    # The graph -----------------------------------------------------------------------------------

    def tensor_input(
        self,
        value: torch.Tensor,
        source: Source,
        make: Callable[[Node, FakeTensor], VariableTracker],
        layout: SymbolicLayout | None = None,
        fake: Any = None,
    ) -> VariableTracker:
        """Make a tensor an input of the graph; `make` wraps its node and fake value.

        A tensor reached twice is one input. A tensor made of others has a `fake` already.
        """
        known = self._inputs_by_id.get(id(value))
        if known is not None:
            return known.tracker
        is_made = fake is None and value.requires_grad and not value.is_leaf
        if is_made and self.frame.writes_history:
            self.wrap(value.is_leaf, AttributeSource(source, "is_leaf"))
            fake = with_history(self.fake_of(value, layout))
        with self.root.inserting_before(self._successor(source)):
            node = self.root.placeholder(_input_name(source))
        node.meta["val"] = fake = self.fake_of(value, layout) if fake is None else fake
        steps = source.path()
        node.meta["buffer"] = any(getattr(step, "name", None) == "_buffers" for step in steps)
        tracker = make(node, fake)
        entry = GraphInput(node, value, source, tracker)
        self.inputs.append(entry)
        positions = {node: i for i, node in enumerate(self.root.placeholders)}
        self.inputs.sort(key=lambda known: positions[known.node])
        self._inputs_by_id[id(value)] = entry
        return tracker

    def fake_of(self, value: torch.Tensor, layout: SymbolicLayout | None) -> FakeTensor:
        """Return the fake tensor of a real tensor; with a `layout`, its sizes are symbols."""
        if layout is None:
            return self._fakes.convert(value)
        return self._fakes.convert(value, layout.sizes, layout.strides)

    def input_value(self, tracker: VariableTracker) -> torch.Tensor | None:
        """Return the real tensor that an input of the graph was when it was captured."""
        found = (entry.value for entry in self.inputs if entry.tracker is tracker)
        return next(found, None)

    def inputs_in_memory_of(self, fake: FakeTensor) -> Iterator[GraphInput]:
        """Yield the inputs that share memory with a tensor."""
        tensors = (entry for entry in self.inputs if isinstance(entry.value, torch.Tensor))
        key = storage_key(fake)
        return (entry for entry in tensors if storage_key(entry.node.meta["val"]) == key)

    def _successor(self, source: Source) -> Node | None:
        """Return the node in front of which a new placeholder is put: parameters come first."""
        order: dict[Source, int] = {
            LocalSource(name): i for i, name in enumerate(signature_of(self.frame.code).names)
        }
        place = order.get(source, len(order))
        for entry in self.inputs:
            if order.get(entry.source, len(order)) > place:
                return entry.node
        return next((node for node in self.root.nodes if node.op != "placeholder"), None)

    def call_in_graph(
        self,
        evaluator: Evaluator,
        op: str,
        target: str | Callable[..., Any],
        args: Arguments,
        kwargs: Keywords | None = None,
    ) -> VariableTracker:
        """Record ``target(*args, **kwargs)`` as a node and wrap its outcome.

        Args:
            op: ``"call_function"`` (target is a callable) or ``"call_method"`` (target is a name).

        Raises:
            UnsupportedError: the operator needs data, or fails: Python then makes the call.
        """
        args = [arg.as_operand(evaluator) for arg in args]
        kwargs = {key: value.as_operand(evaluator) for key, value in (kwargs or {}).items()}
        if method_of(target) in replaced_names():
            unsupported("tensor-method", f"{target}: the program has replaced a method of tensors")
        if is_operator(target):
            answer = overridden(evaluator, op, target, args, kwargs)
            if answer is not None:
                return answer
        for rule in (of_jagged, drawn_from_generator, under_default_dtype):
            if (made := rule(evaluator, op, target, args, kwargs)) is not None:
                return made
        node_args = tuple(arg.as_argument() for arg in args)
        node_kwargs = {key: value.as_argument() for key, value in kwargs.items()}
        if any(node.meta.get("inside") for node in nodes_in((*node_args, *node_kwargs.values()))):
            cause = "a tensor made inside a checkpoint or a custom function is used outside"
            raise UnsupportedError(cause, code="side-effect-inside")
        call = FakeCall(op, target, self.values_of(node_args), self.values_of(node_kwargs))
        try:
            value, symbols = self._run(call)
        except UnsupportedError:
            raise
        except Exception as error:
            is_new = self.frame.writes_history is None and "leaf Variable" in str(error)
            if is_new and self._has_made_input(call):
                raise HistoryWrittenError(True) from error
            if tells_view(error):
                raise_as_observed(error)
            cause = f"{describe_target(op, target)} failed: {type(error).__name__}: {error}"
            raise UnsupportedError(cause, code="operator-error") from error
        if call.writes_tensors:
            self._refuse_write_with_history(call)
            inputs = ((entry.value, entry.node.meta["val"]) for entry in self.inputs)
            refuse_write_to_inference(call.written, inputs)
            self._note_write(call)
        self.add_checks()
        node = self.graph.create_node(op, target, node_args, node_kwargs)
        node.meta.update(val=value, source=evaluator.source_line(), raises=call.may_raise)
        node.meta[STEP] = evaluator.root_step
        if call.is_impure:
            node.meta["impure"] = True
        if symbols:
            node.meta["symbols"] = symbols
        self.writes_tensors |= call.writes_tensors
        if target is ENTER_AUTOCAST:
            self.autocasts.append((node, value))
        elif target is EXIT_AUTOCAST:
            self.autocasts.pop()
        return self._outcome(node, value, [*args, *kwargs.values()])

    def _note_write(self, call: FakeCall) -> None:
        """Note the memory that a call may write to, once a tensor was selected by its value."""
        values = tree_leaves((call.args, call.kwargs)) if self.selections else ()
        self.written |= {storage_key(value) for value in values if isinstance(value, FakeTensor)}

    def _refuse_write_with_history(self, call: FakeCall) -> None:
        """Refuse to capture writes to inputs made of other tensors, and to leaves, with history.

        The graph would write to the other tensors, which have none; a leaf allows no write.
        """
        if not torch.is_grad_enabled():
            return
        vals = [entry.node.meta["val"] for entry in self.inputs if is_wrapper(entry.value)]
        wrappers = [value for value in vals if value.requires_grad]
        memory = {storage_key(part) for value in wrappers for part in plain_parts(value)}
        for value in call.written:
            base = getattr(value, "_base", None)
            whole = value if base is None else base
            is_leaf = value.requires_grad and any(whole is each for each in self.assigned_leaves)
            if is_leaf or (memory and storage_key(value) in memory):
                kind = type(wrappers[0] if wrappers else value).__name__
                cause = f"a write to a {kind} that requires gradients"
                raise UnsupportedError(cause, code="tensor-subclass")

    def _has_made_input(self, call: FakeCall) -> bool:
        """Return whether a call's operand is a leaf here alone: a graph outside has made it."""
        values = tree_leaves((call.args, call.kwargs))
        fakes = [value for value in values if isinstance(value, FakeTensor)]
        return any(not e.value.is_leaf for fake in fakes for e in self.inputs_in_memory_of(fake))

    def values_of(self, argument: Any) -> Any:
        """The fake values of nodes."""
        values = map_nodes(argument, lambda node: node.meta["val"])
        return numbers_of(values, self.sizes.env) if self.sizes.env.symbols else values

    def _run(self, call: FakeCall) -> tuple[Any, tuple[sympy.Symbol, ...]]:
        """Return the call's fake value, and its unbacked symbols (known from data only)."""
        env = self.sizes.env
        has_graphs = isinstance(call.target, HigherOrder)  # which may take numbers out of tensors
        takes_data = self.graph is self.root and config.current().capture_data_dependent
        if not has_graphs and not takes_data:
            return self.run_with_sizes(call), ()
        target = describe_target(call.op, call.target)
        with making_symbols(env) as made:
            try:
                value = self.run_with_sizes(call)
            except UnsupportedError as error:
                if error.code == "unbacked-size" and made.used:
                    raise DataDependentError(f"{target} needs data while capturing") from error
                raise
        if has_graphs:  # one of them ran, which may be the other one
            value = tuple(fake.renew() for fake in value)
        # A size that no result has is known in the call alone, which checks it when it runs.
        known = {*self.symbol_nodes}
        made.forget_checks(known.union(*map(unbacked_in, tree_leaves(value))))
        if unbacked_in([stated.condition for stated in env.checks]) & {*made.used} - known:
            raise DataDependentError(f"{target} checks data that it reads itself")
        return value, tuple(made.used)

    def run_with_sizes(self, call: FakeCall) -> Any:
        """Run a call on fake values, whose sizes may be symbols."""
        if not self.sizes.env.symbols:
            return call.run()
        # Composite operators run in their Python form: their C++ form may ask for plain integers.
        target = describe_target(call.op, call.target)
        with self.sizes.env.running(target), enable_python_dispatcher():
            return call.run()

    def add_checks(self) -> None:
        """Put the program's statements on unbacked symbols into the graph."""
        for stated in self.sizes.env.take_checks():
            add_check(self.graph, stated)

    def bind_symbols(self, node: Node) -> None:
        """Make the nodes that are the values of the unbacked symbols in a node's value."""
        new = unbacked_in(node.meta["val"]) - self.symbol_nodes.keys()
        for made in bind_symbols(self.graph, node, new):
            (symbol,) = free_symbols(made.meta["val"])
            self.symbol_nodes[symbol] = made
            self.sizes.env.symbols[symbol].node = made

    def size_inputs(self, wanted: Iterable[sympy.Symbol]) -> None:
        """Make numbers whose symbols no tensor input carries the first inputs of the graph.

        A number known to be even has a symbol for its half, which is found from the number.
        """
        needed = set(wanted)
        for symbol, source in reversed(self.sizes.names().items()):
            if needed.isdisjoint({symbol} | free_symbols(self.sizes.env.simplify(symbol))):
                continue
            with self.root.inserting_before(next(iter(self.root.nodes), None)):
                node = self.root.placeholder(str(symbol))
            number = node.meta["val"] = self.sizes.env.number_of(symbol)
            tracker, hint = from_number(number), self.sizes.env.symbols[symbol].hint
            self.numbers.insert(0, GraphInput(node, hint, source, tracker))

    def draw(self, generator: Source, call: str, function: Drawing | None = None) -> DrawnSource:
        """Let residual code draw in front of the graph; return the source of what it draws."""
        if self.graph is not self.root or not config.current().capture_data_dependent:
            unsupported("random-state", "a random number where it cannot be a symbol")
        name = self.references.scope.fresh(f"__drawn_{len(self.draws)}")
        self.draws.append(Draw(name, generator, call, function))
        return DrawnSource(name)

    def _outcome(
        self, node: Node, value: object, inputs: Iterable[VariableTracker]
    ) -> VariableTracker:
        """Return the tracker of a node's value; an in-place operator returns its operand."""
        guards: frozenset[Guard] = frozenset()
        for tracker in inputs:
            if isinstance(value, torch.Tensor) and getattr(tracker, "fake", None) is value:
                return tracker
            guards |= tracker.guards
        result = from_graph(self, node, value)
        result.guards |= guards
        return result


def _input_name(source: Source) -> str:
    """Return a placeholder's name: the variable for a local, the whole path otherwise."""
    name = "_".join(part for part in _words(str(source))) or "input"
    return f"{name}_" if SYMBOL_NAME.fullmatch(name) else name


def _words(text: str) -> Iterator[str]:
    word = ""
    for character in text:
        if character.isalnum() or character == "_":
            word += character
        elif word:
            yield word.strip("_") or "_"
            word = ""
    if word:
        yield word
