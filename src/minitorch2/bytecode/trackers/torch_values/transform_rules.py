"""Transforms of functions (`torch.func`): the function is a graph, the transform a node.

The polyfills of the transforms call `transformed` with functions from tensors to tensors. A
function is evaluated once, on tensors like those that the transform will pass: without the
dimension of a batch, or as leaves of autograd where derivatives are taken. Its graph is the body of
one node, which calls PyTorch's own transform (`minitorch2.graph.transforms`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType
from typing import Any, Final

import torch
from torch.autograd import functional

from minitorch2.bytecode.guards import Guard
from minitorch2.bytecode.guards.sources import ClosureSource, Source
from minitorch2.bytecode.guards.torch_state import Setting
from minitorch2.bytecode.polyfills import transforms as polyfills
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable
from minitorch2.bytecode.trackers.python_values.functions import FunctionVariable
from minitorch2.bytecode.trackers.python_values.mapping import dict_of_names
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, TupleVariable
from minitorch2.bytecode.trackers.subgraph import new_input
from minitorch2.bytecode.trackers.torch_values.recorded import (
    Recorded,
    call_graphs,
    closed,
    tensors_of,
)
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph.fake_tensor import FakeTensor, meta_tensor, same_storage
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.graph.transforms import Transform
from minitorch2.native.torch_internals.gradients import are_transforms_active

_CODE: Final = "function-transform"

# Functions of functions ---------------------------------------------------------------------------

TRANSFORMS: Final[dict[Any, Any]] = {
    torch.vmap: polyfills.vmap,
    torch.func.grad: polyfills.grad,
    torch.func.grad_and_value: polyfills.grad_and_value,
    torch.func.jacrev: polyfills.jacrev,
    torch.func.jacfwd: polyfills.jacfwd,
    torch.func.hessian: polyfills.hessian,
    torch.func.functionalize: polyfills.functionalize,
}
"""Functions that give a function, and what that does: first it takes what it was made with."""


class TransformedVariable(FunctionVariable):
    """The function that a transform makes of another function.

    Attributes:
        transform: a key of `TRANSFORMS`.
        made_with: the arguments of the transform, by name; the first one is the function.
    """

    def __init__(
        self, transform: Any, made_with: dict[str, VariableTracker], **options: Any
    ) -> None:
        super().__init__(**options)
        self.transform, self.made_with = transform, made_with

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        body = evaluator.capture.wrap(TRANSFORMS[self.transform], None)
        return body.call(evaluator, [*self.made_with.values(), *args], kwargs)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        """Return an attribute; name and documentation are those of the original function."""
        function = self.made_with["func"]
        if name == "__wrapped__":
            return function
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return function.get_attribute(evaluator, name)
        return unsupported("attribute", f"attribute {name!r} of a transformed function")

    def rebuild(self, residual: Residual) -> str:
        given = [f"{name}={residual.name_for(value)}" for name, value in self.made_with.items()]
        return f"{residual.reference(self.transform)}({', '.join(given)})"


@cache
def load_transforms() -> None:
    """Let PyTorch import the modules that transforms need, which register classes of pytrees.

    Guards rely on the registered classes, so the import must not come behind them.
    """
    torch.func.grad(torch.sin)(torch.zeros(()))


def _parameters(transform: Any) -> tuple[str, ...]:
    code: CodeType = TRANSFORMS[transform].__code__
    return code.co_varnames[: code.co_posonlyargcount]


def _transform_rule(transform: Any) -> None:
    @handles(transform)
    def make(
        evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        load_transforms()
        bound = _bound(transform, args, kwargs)
        return TransformedVariable(transform, {n: bound[n] for n in _parameters(transform)})


for _transform in TRANSFORMS:
    _transform_rule(_transform)


def _bound(function: Any, args: Arguments, kwargs: Keywords) -> dict[str, VariableTracker]:
    """Return arguments by name, with the defaults of those that are not given."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        unsupported(_CODE, f"{function.__name__}: {error}")
    given: dict[str, VariableTracker] = dict(bound.arguments)
    for name, parameter in bound.signature.parameters.items():
        given.setdefault(name, ConstantVariable(parameter.default))
    return given


def transformed_outside(
    capture: Capture, value: FunctionType, source: Source, guards: frozenset[Guard]
) -> VariableTracker | None:
    """Return the tracker of a function that a transform has made outside; None for others."""
    if not hasattr(value, "__wrapped__") or value.__globals__.get("__package__") != _PACKAGE:
        return None
    transform = _codes().get(value.__code__)
    if transform is None or value.__closure__ is None:
        return None
    cells = {
        name: capture.wrap(cell.cell_contents, ClosureSource(source, i))
        for i, (name, cell) in enumerate(
            zip(value.__code__.co_freevars, value.__closure__, strict=True)
        )
        if name in _parameters(transform)
    }
    made_with = {name: cells.get(name, NONE) for name in _parameters(transform)}
    return TransformedVariable(transform, made_with, source=source, guards=guards)


_PACKAGE: Final = torch.vmap.__globals__["__package__"]


@cache
def _codes() -> dict[CodeType, Any]:
    """Return the code of the functions that each transform makes."""
    composed = (torch.func.hessian,)  # its code is that of another transform
    made = (transform for transform in TRANSFORMS if transform not in composed)
    return {transform(torch.sin).__code__: transform for transform in made}


@handles(are_transforms_active)
def transforms_are_active(evaluator: Evaluator) -> VariableTracker:
    """Answer whether a transform of `torch.func` runs: the program's, or one around its call."""
    if id(polyfills.functionalize.__code__) in evaluator.capture.entered:  # it enters none here
        unsupported(_CODE, "whether a transform is active, in a program that has functionalized")
    evaluator.capture.add_guard(Setting(are_transforms_active, (), "False"))
    return ConstantVariable(any(kind != "functional" for kind in evaluator.capture.transforms))


# The functions themselves -------------------------------------------------------------------------


@handles(polyfills.refuse)
def refuse(evaluator: Evaluator, cause: VariableTracker, *code: VariableTracker) -> VariableTracker:
    """`polyfills.refuse`"""
    return unsupported(code[0].as_constant() if code else _CODE, str(cause.as_constant()))


@handles(polyfills.transformed)
def transformed(
    evaluator: Evaluator,
    kind: VariableTracker,
    body: VariableTracker,
    arguments: VariableTracker,
    places: VariableTracker,
    vectors: VariableTracker,
    options: VariableTracker,
) -> VariableTracker:
    """`polyfills.transformed`"""
    point, name = tensors_of(_CODE, arguments), kind.as_constant()
    function = _evaluated(evaluator, name, body, point, places.as_constant())
    settings = options.call(evaluator, [function.found.structure], {}).as_constant()
    target = Transform(name, function.module, len(function.around), settings)
    given = [*function.around, *point, *tensors_of(_CODE, vectors)]
    return TupleVariable(
        [ListVariable(call_graphs(evaluator, target, given)), function.found.structure]
    )


@dataclass
class _Evaluated:
    """A function as a graph.

    Attributes:
        found: the recorded part.
        module: the graph: it takes the values that it reads from around, then the arguments.
        around: the values that it reads from around.
    """

    found: Recorded
    module: GraphModule
    around: list[TensorVariable]


def _evaluated(
    evaluator: Evaluator,
    kind: str,
    body: VariableTracker,
    arguments: Sequence[TensorVariable],
    places: Sequence[int],
) -> _Evaluated:
    """Evaluate a function on tensors as the transform gives them."""
    if kind == "vmap":
        own = [_part(evaluator, x, dim) for x, dim in zip(arguments, places, strict=True)]
    else:
        own = [_leaf(evaluator, x, i in places) for i, x in enumerate(arguments)]
    with _inside(evaluator.capture, kind):
        found = Recorded(evaluator, _CODE, body, own)
    if any(tensor.leaf_grad is not None for tensor in found.tensors):
        unsupported(_CODE, "the transformed function gives a leaf of autograd that it makes")
    (module,), around = closed(evaluator, [found], own)
    return _Evaluated(found, module, around)


@contextmanager
def _inside(capture: Capture, kind: str) -> Iterator[None]:
    """Enter the state in which a transform runs its function: gradients on if it takes them."""
    mode = torch.is_grad_enabled() or kind in _DIFFERENTIATE
    capture.transforms.append(kind)
    try:
        with torch.set_grad_enabled(mode):
            yield
    finally:
        capture.transforms.pop()


_DIFFERENTIATE: Final = ("grad", "jacrev", "vjp", "functional")


def _part(evaluator: Evaluator, tensor: TensorVariable, dim: int) -> TensorVariable:
    """Return a tensor without a dimension: an element of a batch."""
    sizes, strides = list(tensor.fake.shape), list(tensor.fake.stride())
    if not -len(sizes) <= dim < len(sizes):
        unsupported(_CODE, f"dimension {dim} of a tensor with {len(sizes)} dimensions is a batch")
    del sizes[dim], strides[dim]
    fake = FakeTensor(meta_tensor(sizes, strides, tensor.fake.dtype), tensor.fake.fake_device)
    return new_input(evaluator, tensor.node.name, fake)


def _leaf(evaluator: Evaluator, tensor: TensorVariable, requires_grad: bool) -> TensorVariable:
    """Return a tensor without a history; derivatives may be taken in it."""
    fake = tensor.fake
    made = FakeTensor(meta_tensor(fake.shape, fake.stride(), fake.dtype), fake.fake_device)
    if requires_grad:
        if not (fake.dtype.is_floating_point or fake.dtype.is_complex):
            unsupported(_CODE, f"a derivative in a tensor of {fake.dtype}")
        made.requires_grad_()
    return new_input(evaluator, tensor.node.name, made)


# Recorded calls -----------------------------------------------------------------------------------


class CallVariable(VariableTracker):
    """A call of a function, whose derivative will be asked for.

    Attributes:
        module: the function's graph.
        lifted: the number of its inputs, the first ones, that it reads from around.
        inputs: the values that it reads from around, then its arguments.
        writes: the nodes so far that may write to tensors.
    """

    def __init__(
        self, module: GraphModule, lifted: int, inputs: Sequence[TensorVariable], writes: set[Node]
    ) -> None:
        super().__init__()
        self.module, self.lifted, self.inputs, self.writes = module, lifted, inputs, writes

    def reconstruct(self, residual: Residual) -> str:
        return unsupported(_CODE, "a derivative as a function leaves the compiled function")


@handles(polyfills.recorded)
def recorded(
    evaluator: Evaluator, kind: VariableTracker, body: VariableTracker, arguments: VariableTracker
) -> VariableTracker:
    """`polyfills.recorded`"""
    point, name = tensors_of(_CODE, arguments), kind.as_constant()
    places = range(len(point)) if name in _DIFFERENTIATE else ()
    function = _evaluated(evaluator, name, body, point, places)
    # The function runs again for its derivative, and must have the same outcome.
    function.found.part.check_repeatable(_CODE, "in a function that has a derivative")
    target = Transform("call", function.module, len(function.around), {})
    results = call_graphs(evaluator, target, [*function.around, *point])
    inputs = [*function.around, *point]
    writes = _writes_to(evaluator.capture, inputs)
    kept = CallVariable(function.module, len(function.around), inputs, writes)
    return TupleVariable([ListVariable(results), function.found.structure, kept])


def _writes_to(capture: Capture, tensors: Sequence[TensorVariable]) -> set[Node]:
    """Return nodes that may write to the memory of some tensors."""

    def may_write(node: Node) -> bool:
        read = [used.meta["val"] for used in node.all_input_nodes if "val" in used.meta]
        values = [value for value in read if isinstance(value, torch.Tensor)]
        return any(same_storage(value, tensor.fake) for value in values for tensor in tensors)

    return {node for node in capture.graph.nodes if node.meta.get("impure") and may_write(node)}


@handles(polyfills.at_recorded)
def at_recorded(
    evaluator: Evaluator,
    kind: VariableTracker,
    call: VariableTracker,
    vectors: VariableTracker,
    options: VariableTracker,
) -> VariableTracker:
    """`polyfills.at_recorded`"""
    assert isinstance(call, CallVariable)
    if _writes_to(evaluator.capture, call.inputs) != call.writes:
        unsupported(_CODE, "a tensor is written to before the derivative that reads it is taken")
    target = Transform(kind.as_constant(), call.module, call.lifted, options.as_constant())
    given = [*call.inputs, *tensors_of(_CODE, vectors)]
    return ListVariable(call_graphs(evaluator, target, given))


# Functions that are called with a function --------------------------------------------------------


def _inlined(function: Any, body: Any) -> None:
    @handles(function)
    def call(
        evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        load_transforms()
        return evaluator.capture.wrap(body, None).call(evaluator, args, kwargs)


_inlined(torch.func.vjp, polyfills.vjp)
_inlined(torch.func.jvp, polyfills.jvp)
_inlined(torch.func.linearize, polyfills.linearize)


def _functional_rule(function: Any) -> None:
    @handles(function)
    def call(
        evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        load_transforms()
        bound = _bound(function, args, kwargs)
        first = [bound.pop("func"), bound.pop("inputs"), bound.pop("v", NONE)]
        body = evaluator.capture.wrap(polyfills.autograd_functional, None)
        name = ConstantVariable(function.__name__)
        return body.call(evaluator, [name, *first, dict_of_names(bound)], {})


for _function in (
    functional.jacobian,
    functional.hessian,
    functional.vjp,
    functional.jvp,
    functional.hvp,
    functional.vhp,
):
    _functional_rule(_function)
