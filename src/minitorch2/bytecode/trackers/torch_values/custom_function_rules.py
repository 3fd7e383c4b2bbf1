"""`torch.autograd.Function`: its passes are evaluated into graphs, which become one operator.

The forward pass is evaluated first, then the backward pass on the values that it saved. If forward
mode may ask for it, the pass of forward mode is evaluated, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import torch

from minitorch2.bytecode.operators.custom_function import CustomFunction, Given, LaterPass
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import class_function, class_lookup
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.classes import CLASS_METHODS, ClassVariable
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable
from minitorch2.bytecode.trackers.subgraph import Subgraph, new_input, record
from minitorch2.bytecode.trackers.torch_values.context import grad_mode
from minitorch2.bytecode.trackers.torch_values.recorded import binders
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.tensor_names import words
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph.node import Node

_CODE: Final = "autograd-function"
_BASE_MODULE: Final = "torch.autograd.function"
CONTEXT_METHODS: Final = words(
    "save_for_backward mark_non_differentiable mark_dirty set_materialize_grads save_for_forward"
)
MOST_PATTERNS: Final = 3  # outputs, if the function is told which gradients are missing


class FunctionContext(VariableTracker):
    """The ``ctx`` of a `torch.autograd.Function` while its passes are evaluated.

    Attributes:
        is_forward_mode: whether the pass of forward mode is evaluated.
    """

    def __init__(self, needs_input_grad: Sequence[bool]) -> None:
        super().__init__()
        self.needs_input_grad = TupleVariable([ConstantVariable(n) for n in needs_input_grad])
        self.marks: dict[str, list[VariableTracker]] = {name: [] for name in CONTEXT_METHODS}
        self.attributes: dict[str, VariableTracker] = {}
        self.materializes = True
        self.is_forward_mode = False

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in ("saved_tensors", "saved_variables"):
            method = "save_for_forward" if self.is_forward_mode else "save_for_backward"
            return TupleVariable(self.marks[method])
        if name == "needs_input_grad":
            return self.needs_input_grad
        if name in self.attributes:
            return self.attributes[name]
        if name in CONTEXT_METHODS:
            return GetAttrVariable(self, name)
        if not hasattr(torch.autograd.function.BackwardCFunction, name):
            raise_observed(AttributeError, f"'Backward' object has no attribute {name!r}")
        return unsupported(_CODE, f"ctx.{name} in a torch.autograd.Function")

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        self.attributes[name] = value

    def delete_attribute(self, evaluator: Evaluator, name: str) -> None:
        if self.attributes.pop(name, None) is None:
            raise_observed(AttributeError, name)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name not in CONTEXT_METHODS or kwargs:
            unsupported(_CODE, f"ctx.{name} in a torch.autograd.Function")
        if name == "set_materialize_grads":
            self.materializes = args[0].truth(evaluator)
        self.marks[name] = list(args)
        return NONE

    def marked(self, name: str, value: VariableTracker) -> bool:
        """Return whether a method of this name was given the value."""
        return any(value is other for other in self.marks[name])


def apply(evaluator: Evaluator, cls: VariableTracker, *args: VariableTracker) -> VariableTracker:
    """``Function.apply(...)``"""
    assert isinstance(cls, ClassVariable)
    transforms = [kind for kind in evaluator.capture.transforms if kind != "functional"]
    _check_transforms(cls.value, transforms)
    is_forward_mode = bool(evaluator.capture.levels or {"jvp", "jacfwd"}.intersection(transforms))
    needs = [_needs_gradient(arg, is_forward_mode or bool(transforms)) for arg in args]
    context = FunctionContext(needs)
    if not any(needs):
        return _without_gradient(evaluator, cls.value, context, args)
    taken = [_in_history(arg) if needed else arg for arg, needed in zip(args, needs, strict=True)]
    passes = _Passes(evaluator, cls.value, context, taken)
    function, inputs = passes.assemble(is_forward_mode and _is_own(cls.value, "jvp"))
    given = [TensorVariable(node, node.meta["val"]) for node in inputs]
    result = evaluator.capture.call_in_graph(evaluator, "call_function", function, given)
    made = iter(result.items(evaluator))
    values = [passes.result(next(made), o) if o in passes.tensors else o for o in passes.outputs]
    return TupleVariable(values) if isinstance(passes.returned, TupleVariable) else values[0]


handles(getattr(torch.autograd.Function.apply, "__func__", apply))(apply)
CLASS_METHODS[torch.autograd.Function, "apply"] = apply  # written in C from torch 2.14 on


def _needs_gradient(value: VariableTracker, is_transformed: bool) -> bool:
    """Return whether a gradient may flow to an argument; a transform may take any."""
    if not isinstance(value, TensorVariable):
        return False
    if is_transformed:
        return value.fake.is_floating_point() or value.fake.is_complex()
    return torch.is_grad_enabled() and value.requires_grad


def _in_history(value: VariableTracker) -> VariableTracker:
    """Return the tensor that gradients flow to: that of a leaf which is new is not its data."""
    value.as_argument()  # breaks the graph where such a leaf has none
    return getattr(value, "leaf", None) or value


def _check_transforms(cls: type, transforms: Sequence[str]) -> None:
    """Refuse transforms that PyTorch refuses, and a rule for batches that the user has written."""
    if transforms and not _is_own(cls, "setup_context"):
        unsupported(_CODE, f"{cls.__name__} without setup_context inside a transform")
    if not {"vmap", "jacfwd"}.isdisjoint(transforms) and _is_own(cls, "vmap"):
        unsupported(_CODE, f"{cls.__name__}.vmap inside torch.vmap")


def _is_own(cls: type, name: str) -> bool:
    """Return whether the user's class defines a method."""
    return class_lookup(cls, name)[0].__module__ != _BASE_MODULE


class _Passes:
    """The passes of one call, evaluated.

    Attributes:
        returned: the tracker that the forward pass returned.
        outputs: its elements.
        tensors: the elements that are tensors.
    """

    def __init__(
        self, evaluator: Evaluator, cls: type, context: FunctionContext, args: Arguments
    ) -> None:
        self.evaluator, self.cls, self.context, self.args = evaluator, cls, context, args
        with torch.no_grad():
            self.forward = record(evaluator, lambda: _forward(evaluator, cls, context, args))
        self.returned = self.forward.result
        self.outputs = _results(self.returned)
        self.tensors = [o for o in self.outputs if isinstance(o, TensorVariable)]
        if not all(o.is_constant() or o in self.tensors for o in self.outputs):
            unsupported(_CODE, f"{cls.__name__}.forward gives neither tensors nor constants")

    def result(self, made: VariableTracker, output: VariableTracker) -> VariableTracker:
        """Return an output: an argument that was written to stays the same object."""
        return output if self.context.marked("mark_dirty", output) else made

    def assemble(self, with_jvp: bool) -> tuple[CustomFunction, list[Node]]:
        """Return the operator, and the nodes it takes."""
        backward = {given: self._backward(given) for given in self._patterns()}
        jvp = self._jvp() if with_jvp else None
        later = [*backward.values(), *([] if jvp is None else [jvp])]
        kept = list(dict.fromkeys(node for each in later for node in each.reads))
        results = [tensor.node for tensor in self.tensors]
        results += [n for n in kept if n.graph is self.forward.graph and n not in results]
        given = [n for n in kept if n not in results]
        forward, inputs = self._close(self.forward, results, given, jvp)
        places = [(n not in results, (results if n in results else inputs).index(n)) for n in kept]
        return CustomFunction(
            name=self.cls.__name__,
            forward=forward,
            outputs=len(self.tensors),
            kept=places,
            constant_outputs=[i for i, o in enumerate(self.tensors) if self._is_constant(o)],
            dirty=[inputs.index(n) for n in map(_node, self.context.marks["mark_dirty"]) if n],
            backward={given: each.finish(kept, inputs) for given, each in backward.items()},
            materializes=self.context.materializes,
            jvp=None if jvp is None else jvp.finish(kept, inputs),
            is_once=_is_once(self.cls),
            has_vmap_rule=bool(getattr(self.cls, "generate_vmap_rule", False)),
        ), inputs

    def _is_constant(self, output: TensorVariable) -> bool:
        return self.context.marked("mark_non_differentiable", output)

    def _close(
        self, part: Subgraph, results: list[Node], kept: list[Node], jvp: _Later | None
    ) -> tuple[Any, list[Node]]:
        """Return the forward graph; kept values of its inputs are inputs, read or not."""
        read = part.read(results)
        tangents = [n for n in (() if jvp is None else jvp.sources or ()) if n is not None]
        needed = dict.fromkeys(n for n in (*kept, *tangents) if n not in read)
        needed |= dict.fromkeys(binders(self.evaluator, _CODE, part.symbols(), [*read, *needed]))
        return part.close(results, list(needed))

    def _patterns(self) -> Iterator[Given]:
        """Yield the sets of outputs that may have gradients."""
        count = len(self.tensors)
        if self.context.materializes:
            yield (True,) * count
            return
        if count > MOST_PATTERNS:
            unsupported(_CODE, "set_materialize_grads(False) and many outputs")
        may_have = [(False,) if self._is_constant(o) else (True, False) for o in self.tensors]
        yield from (given for given in product(*may_have) if any(given))

    def _backward(self, given: Given) -> _Later:
        names = [f"grad_{output.node.name}" for output in self.tensors]
        own = [
            _stand_in(self.evaluator, name, output) if is_given else None
            for name, output, is_given in zip(names, self.tensors, given, strict=True)
        ]
        gradients = dict(zip(map(id, self.tensors), own, strict=True))
        part = self._record("backward", [gradients.get(id(o)) for o in self.outputs])
        found = [_node(result) for result in _results(part.result)]
        if any(node is not None for node in found[len(self.args) :]) or len(found) < len(self.args):
            unsupported(_CODE, f"{self.cls.__name__}.backward gives {len(found)} gradients")
        receivers = [_node(arg) for arg in self.args]
        return _Later(self.evaluator, part, own, found[: len(self.args)], None, receivers)

    def _jvp(self) -> _Later:
        self.context.is_forward_mode = True
        own = [
            _stand_in(self.evaluator, f"tangent_{arg.node.name}", arg)
            if isinstance(arg, TensorVariable) and arg.fake.is_floating_point()
            else None
            for arg in self.args
        ]
        part = self._record("jvp", own)
        found = [_node(result) for result in _results(part.result)]
        sources = [None if tangent is None else _node(arg)
                   for arg, tangent in zip(self.args, own, strict=True)]  # fmt: skip
        return _Later(self.evaluator, part, own, found, sources, None)

    def _record(self, name: str, own: Sequence[TensorVariable | None]) -> Subgraph:
        args = [self.context, *(NONE if value is None else value for value in own)]
        function = _static(self.evaluator, self.cls, name)
        with torch.no_grad():
            return record(self.evaluator, lambda: function.call(self.evaluator, args, {}))


@dataclass
class _Later:
    """A later pass before the places of its values are known.

    Attributes:
        own: the gradients or tangents that it takes; None for those that are not there.
        found: the nodes that it gives.
        sources: for each argument of a jvp, the node whose tangent it takes.
        receivers: for each argument of a backward pass, the node whose gradient it gives.
    """

    evaluator: Evaluator
    part: Subgraph
    own: Sequence[TensorVariable | None]
    found: Sequence[Node | None]
    sources: Sequence[Node | None] | None
    receivers: Sequence[Node | None] | None

    def __post_init__(self) -> None:
        given = [node for node in self.found if node is not None]
        self.results = list(dict.fromkeys(given))
        own = [tensor.node for tensor in self.own if tensor is not None]
        bound = [*self.part.read(self.results), *own]
        symbols = self.part.symbols()
        last = [*binders(self.evaluator, _CODE, symbols, bound), *own]
        self.graph, inputs = self.part.close(self.results, last)
        self.reads = inputs[: len(inputs) - len(own)]

    def finish(self, kept: Sequence[Node], inputs: Sequence[Node]) -> LaterPass:
        """Return the pass with positions in place of nodes."""
        there = [i for i, tensor in enumerate(self.own) if tensor is not None]
        if self.sources is not None:
            there = [inputs.index(n) for n in self.sources if n is not None]
        places = [self.results.index(node) if node is not None else None for node in self.found]
        gives = [[i] if i is not None else [] for i in places]
        if self.receivers is not None:
            pairs = [*zip(self.receivers, places, strict=True)]
            gives = [[i for to, i in pairs if to is n and i is not None] for n in inputs]
        return LaterPass(self.graph, [kept.index(node) for node in self.reads], there, gives)


def _stand_in(evaluator: Evaluator, name: str, like: TensorVariable) -> TensorVariable:
    """Return a node for a gradient or a tangent of a tensor: it has the tensor's form."""
    fake: Any = torch.empty_like(like.fake)
    return new_input(evaluator, name, fake)


def _forward(
    evaluator: Evaluator, cls: type, context: FunctionContext, args: Arguments
) -> VariableTracker:
    """``forward(ctx, ...)``, or ``forward(...)`` and ``setup_context(ctx, inputs, output)``."""
    function = _static(evaluator, cls, "forward")
    if not _is_own(cls, "setup_context"):
        return function.call(evaluator, [context, *args], {})
    output = function.call(evaluator, args, {})
    inputs = TupleVariable(args)
    _static(evaluator, cls, "setup_context").call(evaluator, [context, inputs, output], {})
    return output


def _static(evaluator: Evaluator, cls: type, name: str) -> VariableTracker:
    found_in, raw = class_lookup(cls, name)
    if not isinstance(raw, staticmethod) or found_in.__module__ == _BASE_MODULE:
        unsupported(_CODE, f"{cls.__name__}.{name} is no static method of its own")
    function = class_function(evaluator, found_in, name, raw, "__func__")
    if name == "backward" and _is_once(cls):
        return function.get_attribute(evaluator, "__wrapped__")
    return function


def _is_once(cls: type) -> bool:
    """Return whether ``backward`` is decorated with `once_differentiable`."""
    backward: Any = getattr(cls, "backward", None)
    namespace = getattr(backward, "__globals__", {})
    return hasattr(backward, "__wrapped__") and namespace.get("__name__") == _BASE_MODULE


def _without_gradient(
    evaluator: Evaluator, cls: type, context: FunctionContext, args: Arguments
) -> VariableTracker:
    """Run only the forward pass; an argument that is returned is a new tensor, unless dirty."""
    with grad_mode(evaluator, False):
        output = _forward(evaluator, cls, context, args)
    results = [
        r.call_method(evaluator, "view_as", [r], {})
        if isinstance(r, TensorVariable) and r in args and not context.marked("mark_dirty", r)
        else r
        for r in _results(output)
    ]
    return TupleVariable(results) if isinstance(output, TupleVariable) else results[0]


def _results(output: VariableTracker) -> list[VariableTracker]:
    return list(output.realized()) if isinstance(output, TupleVariable) else [output]


def _node(value: VariableTracker) -> Node | None:
    return value.node if isinstance(value, TensorVariable) else None
