"""The recorder of a trace: it runs operators on data, and puts them into a graph.

It sees operators whole, such as `aten::linear`, since it stands below autograd. Data carry their
autograd history: they run as outside of the trace (TorchScript overview, "Tracer").
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import CodeType
from typing import Any, Final

import torch

from minitorch2.graph.dispatch_mode import DispatchMode
from minitorch2.graph.fake_tensor import same_storage
from minitorch2.native.torch_internals import dispatch
from minitorch2.native.torch_internals.modes import disable_all_modes
from minitorch2.native.torch_internals.operators import OpOverload
from minitorch2.script.ir.graph import Node, Value
from minitorch2.script.ir.python_constants import PythonConstants
from minitorch2.script.ir.types import BOOL, TENSOR
from minitorch2.script.operators.schema import FunctionSchema, parse_schema
from minitorch2.script.tracing.graph_writer import SYMBOLIC
from minitorch2.script.tracing.modes import Modes
from minitorch2.script.tracing.questions import QUESTIONS
from minitorch2.script.tracing.sizes import SymbolicWriter
from minitorch2.script.tracing.traced_tensor import TracedTensor

aten = torch.ops.aten
Operator = OpOverload
OUTSIDE: Final = (
    dispatch.included_dispatch_keys(),
    dispatch.excluded_dispatch_keys(),
)
"""The dispatch keys of a thread in which nothing is traced."""
LIFTS: Final = (aten.lift_fresh.default, aten.lift.default, aten.lift_fresh_copy.default)


@cache
def schema_of(func: Operator) -> FunctionSchema:
    """Return the schema of an operator of PyTorch."""
    return parse_schema(str(func._schema))


def _forward_passes(cls: type[torch.autograd.Function]) -> Iterator[CodeType | None]:
    """Yield the code of the forward passes of a class and of its subclasses."""
    yield getattr(cls.forward, "__code__", None)
    for subclass in cls.__subclasses__():
        yield from _forward_passes(subclass)


class Recorder(SymbolicWriter, DispatchMode):
    """The state of one trace.

    Attributes:
        written: plain tensors that operators write to, with their data before.
        permitted: ids of the tensors that the traced function reaches: it may write to them.
    """

    def __init__(self, *, checks: bool, ambient_grad: bool) -> None:
        SymbolicWriter.__init__(self, checks=checks)
        DispatchMode.__init__(self)  # type: ignore[no-untyped-call]
        self.written: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.permitted: set[int] = set()
        self.constants = PythonConstants()
        self._modes = Modes(self, ambient_grad=ambient_grad)
        self._lifted: TracedTensor | None = None

    def end(self) -> None:
        """Complete the graph: give the caller's grad mode back, and check the last guards."""
        self._modes.end()
        super().end()

    def __torch_dispatch__(
        self,
        func: Operator,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return self.record(func, args, kwargs or {})

    def record(self, func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator on the data, and put it into the graph.

        Returns:
            What the operator gives: traced tensors, and numbers that the graph checks.
        """
        if func in QUESTIONS:
            return QUESTIONS[func](self, *args, **kwargs)
        self.sizes.check_guards()
        if func in LIFTS:
            return self._lift(args[0])
        if func is aten.detach_.default and args[0] is self._lifted:
            return args[0]
        self._refuse_functions()
        self._modes.note()
        node = self._node(func, args, kwargs)
        self._before_writes(func, args, kwargs)
        result = self.run(func, args, kwargs)
        self.sizes.check_guards()
        tensors = list(_tensors((args, tuple(kwargs.values()))))
        return self._results(node.outputs, result, tensors, "::squeeze" in node.kind)

    def run(self, func: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Run an operator on the data, with tracing off and autograd on."""
        real = {key: self._real(value) for key, value in kwargs.items()}
        with dispatch.ForceDispatchKeys(*OUTSIDE):
            return func(*map(self._real, args), **real)

    def _real(self, value: Any) -> Any:
        if isinstance(value, TracedTensor):
            return value.data_now
        if isinstance(value, SYMBOLIC):
            return self.sizes.number(value)
        if isinstance(value, list | tuple):
            return [self._real(item) for item in value]
        return value

    def _node(self, func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Node:
        schema, values = schema_of(func), []
        for place, argument in enumerate(schema.arguments):
            if place < len(args):
                given = args[place]
            else:
                given = kwargs.get(argument.name, argument.default)
            values.append(self.value_of(given, argument.type))
        types = [result.type for result in schema.returns]
        node = self.graph.create(schema.name, values, types, range=self.places.now())
        return self.graph.insert(node)

    def _results(
        self,
        outputs: Sequence[Value],
        result: Any,
        tensors: list[torch.Tensor],
        rank_varies: bool = False,
    ) -> Any:
        """Return the results as the traced function sees them."""
        rank_varies |= any(getattr(tensor, "rank_varies", False) for tensor in tensors)
        given = {id(self._real(tensor)): tensor for tensor in tensors}

        def seen(data: Any, value: Value) -> Any:
            if isinstance(data, torch.Tensor):
                known = given.get(id(data))
                return self.wrap(data, value, "", rank_varies) if known is None else known
            if isinstance(data, list | tuple):
                return [seen(*pair) for pair in zip(data, self.unpack(value, len(data)))]
            if data is not None:
                self.check_number(value, data)
            return data

        if len(outputs) == 1:
            return seen(result, outputs[0])
        several = [seen(*pair) for pair in zip(result or (), outputs)]
        return tuple(several) if several else None

    def _lift(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of a tensor that the program writes as numbers: each call has its own."""
        if isinstance(tensor, TracedTensor):
            return tensor
        data = self.run(torch.Tensor.clone, (tensor,), {})
        with self.inserting(at_entry=True):
            held = self.graph.constant(self.run(torch.Tensor.clone, (tensor,), {}), type=TENSOR)
        self._lifted = self.wrap(
            data, self.emit("aten::clone", held, self.constant(None), type=TENSOR)
        )
        return self._lifted

    def _before_writes(
        self, func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Prepare for what the operator changes besides computing results."""
        if torch.Tag.inplace_view in func.tags and isinstance(args[0], TracedTensor):
            self.sizes.settle(args[0])
            self.changed.add(id(args[0]))
        for place, argument in enumerate(schema_of(func).arguments):
            if argument.alias is None or not argument.alias.is_write:
                continue
            given = args[place] if place < len(args) else kwargs.get(argument.name)
            for tensor in _tensors(given):
                for plain in self._plain_memory(tensor):
                    self._before_write(plain)

    def _plain_memory(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Return the tensors of the program that a write to a tensor, or to a view, changes."""
        if not isinstance(tensor, TracedTensor):
            return [tensor]
        known = [each for each, _ in self.plain.values() if each.layout is torch.strided]
        data = tensor.data_now
        return [t for t in known if data.layout is torch.strided and same_storage(t, data)]

    def _before_write(self, tensor: torch.Tensor) -> None:
        if id(tensor) not in self.permitted and id(tensor) not in self.path_of:
            raise self.refuse(
                "an operator writes to a tensor that the trace did not see made",
                "make the tensor with PyTorch's operators, or give it to the function as an input",
            )
        if id(tensor) not in self.written:
            self.written[id(tensor)] = tensor, self.run(torch.clone, (tensor.detach(),), {})

    def _refuse_functions(self) -> None:
        """Refuse operators of a `torch.autograd.Function`: a graph would lose its backward."""
        frame, passes = sys._getframe(1), {*_forward_passes(torch.autograd.Function)}
        while frame is not None and frame.f_code not in passes:
            if frame.f_locals is not None and frame.f_code.co_name == TRACED:
                return
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None:
            raise self.refuse(
                "a torch.autograd.Function is called, whose backward a graph cannot hold",
                "write it with operators, or call it outside of the traced function",
            )

    def call(self, function: Any, arguments: Sequence[Any], run: Callable[..., Any]) -> Any:
        """Record the call of a scripted function; its graph is inlined, with its control flow.

        Args:
            function: has ``graph`` and ``schema``.
            arguments: in the order of the schema.
            run: the function on data.
        """
        self.sizes.check_guards()
        self._modes.note()
        values = [self.value_of(argument) for argument in arguments]
        outputs = self.graph.insert_graph(function.graph, values)
        with disable_all_modes():
            result = self.run(run, tuple(arguments), {})
        return self._results(outputs, result, list(_tensors(arguments)), True)

    # What Python looks at --------------------------------------------------------------------

    def observe_flag(self, tensor: TracedTensor, name: str) -> bool:
        """Return a tensor's flag, and let the graph check it."""
        flag = bool(getattr(tensor.data_now, name))
        self._modes.note()
        self.check_equal(tensor, f"prim::{name}", flag, f"{name} is {flag}")
        return flag

    def observe_data(self, tensor: TracedTensor) -> torch.Tensor:
        """Return a copy of the data, and let the graph check that they are these."""
        with disable_all_modes():
            data: torch.Tensor = self.run(lambda t: t.detach().clone(), (tensor,), {})
        with self.inserting(at_entry=True):
            expected = self.graph.constant(data, type=TENSOR)
        self.check(
            lambda: self.emit("aten::equal", tensor.value, expected, type=BOOL),
            "the elements of a tensor are those of the example",
            at_entry=False,
        )
        return data


TRACED: Final = "run_traced"
"""The name of the function that calls the traced one: no frame beyond it is the trace's."""


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
