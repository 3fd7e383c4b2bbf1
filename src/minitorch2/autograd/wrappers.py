"""Programs on wrapper tensors, as programs on the plain tensors that the wrappers are made of.

Law::

    f(w)        -->        taken apart(f(put together(plain parts of w)))

Both conversions are autograd functions, so a gradient of ``w`` is put together from those of its
parts. An operator, for example one that dequantizes, may also give ``w`` a plain gradient. It
belongs to no part, and flows through one more input, the *carrier*, which has ``w``'s size and no
memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minitorch2.errors import BackendError, UnsupportedError
from minitorch2.graph.fake_tensor import FakeTensor, meta_tensor
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node, map_nodes
from minitorch2.graph.symbols.expression import SYMBOLIC
from minitorch2.graph.wrapper_tensors import GRADIENTS, Wrapped, is_wrapper, plain_parts
from minitorch2.native.torch_internals.modes import DisableTorchFunctionSubclass
from minitorch2.native.torch_internals.pytree import tree_flatten, tree_unflatten

Run = Callable[..., Any]


class _PutTogether(torch.autograd.Function):
    """``structure, carrier, parts -> tensor``"""

    @staticmethod
    def forward(ctx: Any, structure: Wrapped, carrier: Any, *parts: Any) -> torch.Tensor:
        ctx.structure, ctx.has_carrier = structure.of_gradient, carrier is not None
        carrying = structure.carries_gradients(parts)
        ctx.kinds = [
            _kind(p) if carries else None for p, carries in zip(parts, carrying, strict=True)
        ]
        made = structure.made_of(map(_alias, parts))
        return made.requires_grad_(False) if made.is_leaf else made

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        mine, gradient = ctx.structure, ctx.structure.like(gradient)
        structure = Wrapped.of(gradient)
        if structure is None and ctx.has_carrier:
            return None, gradient, *(None for _ in ctx.kinds)
        if structure is not None and mine.fits(structure):
            parts = _TakeApart.apply(structure, False, gradient)  # type: ignore[no-untyped-call]
            found = dict(zip(structure.names(), parts, strict=True))
            wanted = zip(mine.names(), ctx.kinds, strict=True)
            gradients = [None if kind is None else found.get(name) for name, kind in wanted]
            if [None if g is None else _kind(g) for g in gradients] == ctx.kinds:
                return None, None, *gradients
        made, kind = mine.cls.__name__, type(gradient).__name__
        cause = f"the gradient of a {made} is a {kind} made of other tensors"
        if any(isinstance(size, SYMBOLIC) for known in ctx.kinds if known for size in known[1]):
            raise UnsupportedError(cause, code="tensor-subclass")
        raise BackendError(cause, code="tensor-subclass")


class _TakeApart(torch.autograd.Function):
    """``structure, has carrier, tensor -> (carrier,) parts``"""

    @staticmethod
    def forward(ctx: Any, structure: Wrapped, has_carrier: bool, tensor: Any) -> Any:
        ctx.set_materialize_grads(False)
        parts = [*map(_alias, plain_parts(tensor))]
        ctx.structure, ctx.parts = structure.of_gradient, parts
        ctx.carrying = structure.carries_gradients(parts)
        carrying = zip(parts, ctx.carrying, strict=True)
        ctx.mark_non_differentiable(*(p for p, carries in carrying if not carries))
        return (_carrier(tensor), *parts) if has_carrier else tuple(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        carried, found = gradients[0], gradients[-len(ctx.parts) :]
        if len(gradients) > len(found) and carried is not None:
            return None, None, carried
        if all(gradient is None for gradient in found):
            return None, None, None
        present = [*map(_present, found, ctx.parts, ctx.carrying)]
        if ctx.structure.cls in GRADIENTS and not torch.is_grad_enabled():
            return None, None, ctx.structure.made_of(iter(present))
        return None, None, _PutTogether.apply(ctx.structure, None, *present)  # type: ignore[no-untyped-call]


class _Accept(torch.autograd.Function):
    """``made, tensor, carriers -> tensor``: a gradient made of others leaves by the carriers."""

    @staticmethod
    def forward(ctx: Any, made: WrappedGradient, tensor: Any, *carriers: Any) -> Any:
        ctx.made = made
        return _alias(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        nothing = [None] * len(ctx.made.parts)
        if not is_wrapper(gradient):
            return None, gradient, *nothing
        if not ctx.made.structure.fits(Wrapped.of(gradient)):
            raise UnsupportedError(_OF_OTHERS, code="tensor-subclass")
        return None, None, *_TakeApart.apply(ctx.made.structure, False, gradient)  # type: ignore[no-untyped-call]


class _Send(torch.autograd.Function):
    """``made, tensor -> tensor, carriers``"""

    @staticmethod
    def forward(ctx: Any, made: WrappedGradient, tensor: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.made, ctx.carriers = made, [_zeros(*part) for part in made.parts]
        ctx.carrying = made.structure.carries_gradients(ctx.carriers)
        return _alias(tensor), *ctx.carriers

    @staticmethod
    def backward(ctx: Any, gradient: Any, *parts: Any) -> Any:
        if all(part is None for part in parts):
            return None, gradient
        present = map(_present, parts, ctx.carriers, ctx.carrying)
        whole: Any = _PutTogether.apply(ctx.made.structure, None, *present)  # type: ignore[no-untyped-call]
        return None, whole if gradient is None else whole + gradient


_OF_OTHERS = "the gradient of a plain tensor is made of other tensors"


class WrappedGradient(UnsupportedError):
    """The gradient of a plain input is a tensor made of others.

    Attributes:
        index: which input.
        structure: how the gradient is made.
        parts: size, dtype and device of each plain tensor that it is made of.
    """

    def __init__(self, index: int, gradient: torch.Tensor) -> None:
        super().__init__(_OF_OTHERS, code="tensor-subclass")
        structure = Wrapped.of(gradient)
        assert structure is not None
        self.index, self.structure = index, structure
        self.parts = [(tuple(p.size()), p.dtype, p.device) for p in plain_parts(gradient)]

    def is_fixed(self) -> bool:
        """Return whether all its sizes are numbers."""
        sizes = [*self.structure.size, *(n for size, _, _ in self.parts for n in size)]
        return all(isinstance(n, int) for n in sizes)


def _zeros(size: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return zeros of a size, without memory; fake ones if the size is a symbol."""
    if any(isinstance(n, SYMBOLIC) for n in size):
        return FakeTensor(meta_tensor(size, [0] * len(size), dtype), device)
    return torch.zeros((), dtype=dtype, device=device).expand(size)


def _alias(part: torch.Tensor) -> torch.Tensor:
    """Return another tensor on the same memory, without history.

    Under tracing the program's result may be a view of an input: the views that lead to it are made
    again on the caller's tensor, with history. Jagged tensors agree in size only if their offsets
    are one object, so integers, which have no history, stay the object that they are.
    """
    if not part.is_floating_point() and not part.is_complex():
        return part
    return torch.ops.aten.alias.default(part) if isinstance(part, FakeTensor) else part.detach()


def _carrier(tensor: torch.Tensor) -> torch.Tensor:
    return _zeros(tensor.size(), tensor.dtype, tensor.device)


def _kind(tensor: torch.Tensor) -> tuple[torch.dtype, torch.Size]:
    return tensor.dtype, tensor.size()


def _present(gradient: torch.Tensor | None, part: torch.Tensor, carries: bool) -> torch.Tensor:
    """Return zeros for a part without a gradient; an index, which never has one, as it is."""
    if gradient is not None:
        return gradient
    return torch.zeros_like(part) if carries else part


@dataclass(frozen=True, eq=False)
class PutTogether:
    """In a graph: the tensor that plain ones make, of a (symbolic) size."""

    structure: Wrapped
    has_carrier: bool

    __name__ = "put_together"

    def __call__(self, *parts: torch.Tensor) -> torch.Tensor:
        """``(carrier,) parts -> tensor``"""
        carrier, plain = (parts[0], parts[1:]) if self.has_carrier else (None, parts)
        made: torch.Tensor = _PutTogether.apply(self.structure, carrier, *plain)  # type: ignore[no-untyped-call]
        return made


@dataclass(frozen=True, eq=False)
class Accept:
    """In a graph: a plain input whose gradient is made of other tensors."""

    made: WrappedGradient

    __name__ = "accept"

    def __call__(self, tensor: torch.Tensor, *carriers: torch.Tensor) -> torch.Tensor:
        """``tensor, carriers -> tensor``"""
        accepted: torch.Tensor = _Accept.apply(self.made, tensor, *carriers)  # type: ignore[no-untyped-call]
        return accepted


@dataclass(frozen=True, eq=False)
class TakeApart:
    """In a graph: the plain tensors that a tensor is made of, and the numbers of its size."""

    structure: Wrapped

    __name__ = "take_apart"

    def __call__(self, tensor: torch.Tensor) -> list[Any]:
        """``tensor -> parts, sizes, strides``"""
        if not self.structure.fits(Wrapped.of(tensor)):
            cause = f"a {type(tensor).__name__} is made in another way than while capturing"
            raise UnsupportedError(cause, code="tensor-subclass")
        parts: Any = _TakeApart.apply(self.structure, False, tensor)  # type: ignore[no-untyped-call]
        return [*parts, *tensor.size(), *tensor.stride()]


@dataclass(frozen=True, eq=False)
class Opening:
    """The conversion of one input: it is passed on as it is, or taken apart."""

    structure: Wrapped | None
    has_carrier: bool = False
    gradient: WrappedGradient | None = None

    @staticmethod
    def of(example: Any, gradient: WrappedGradient | None) -> Opening:
        """Return the conversion for inputs like this one."""
        if not is_wrapper(example):
            return Opening(None, False, gradient)
        carries = example.requires_grad and example.layout is not torch.jagged
        carries &= type(example) not in GRADIENTS  # their gradients are of their class
        return Opening(Wrapped.of(example), carries, gradient)

    def open(self, value: Any) -> tuple[Any, ...]:
        """Return the plain tensors of an input."""
        if self.gradient is not None:
            return tuple(_Send.apply(self.gradient, value))  # type: ignore[no-untyped-call]
        if self.structure is None:
            return (value,)
        with DisableTorchFunctionSubclass():
            is_known = self.structure.cls in GRADIENTS  # by guards: sizes are fixed, too
            structure = self.structure if is_known else Wrapped.of(value)
            return tuple(_TakeApart.apply(structure, self.has_carrier, value))  # type: ignore[no-untyped-call]

    def names(self, name: str) -> list[str]:
        """Return the names of the placeholders for one input."""
        if self.gradient is not None:
            carried = self.gradient.structure.names()
            return [name, *(f"{name}_gradient_{part}" for part in carried)]
        if self.structure is None:
            return [name]
        parts = [f"{name}_{part}" for part in self.structure.names()]
        return [f"{name}_carrier", *parts] if self.has_carrier else parts


@dataclass(frozen=True, eq=False)
class Plain:
    """A program on plain tensors, and the conversions from and to the original program.

    Attributes:
        module: the program.
        openings: what becomes of each input.
        results: how each result is put together; None for one that is a result as it stands.
    """

    module: GraphModule
    openings: tuple[Opening, ...]
    results: tuple[Wrapped | None, ...]
    structure: Any

    def open(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the inputs of the plain program."""
        pairs = zip(self.openings, inputs, strict=True)
        return [part for opening, value in pairs for part in opening.open(value)]

    def input_of(self, index: int) -> int:
        """Return the index of the original input to which an input of this program belongs."""
        widths = [len(opening.names("")) for opening in self.openings]
        return next(i for i in range(len(widths)) if index < sum(widths[: i + 1]))

    def around(self, run: Run) -> Run:
        """Return the original program, given a function that runs this one."""

        def call(*inputs: Any) -> Any:
            values = iter(run(*self.open(inputs)))
            results = [_result(structure, values) for structure in self.results]
            return tree_unflatten(results, self.structure)

        call.writes_last = getattr(run, "writes_last", False)  # type: ignore[attr-defined]
        return call


def _result(structure: Wrapped | None, values: Iterator[Any]) -> Any:
    if structure is None:
        return next(values)
    count = sum(1 for _ in structure.names())
    parts = [next(values) for _ in range(count)]
    numbers = [next(values) for _ in range(2 * len(structure.size))]
    known = structure.with_sizes(numbers)
    with DisableTorchFunctionSubclass():
        return _PutTogether.apply(known, None, *parts)  # type: ignore[no-untyped-call]


def on_plain_tensors(
    module: GraphModule, examples: Sequence[Any], gradients: Mapping[int, WrappedGradient]
) -> Plain | None:
    """Return the program on plain tensors; None if inputs and results are plain already.

    Args:
        gradients: those of plain inputs that are made of others, by the input's position.
    """
    results, structure = tree_flatten(module.graph.output_node.args[0])
    known = [r.meta.get("val") if isinstance(r, Node) else None for r in results]
    wrapped = [Wrapped.of(value) if isinstance(value, torch.Tensor) else None for value in known]
    openings = tuple(Opening.of(x, gradients.get(i)) for i, x in enumerate(examples))
    if not any(wrapped) and not gradients and not any(o.structure for o in openings):
        return None
    graph, values = Graph(), {}
    for node, opening in zip(module.graph.placeholders, openings, strict=True):
        values[node] = _put_together(graph, node, opening)
    for node in module.graph.nodes:
        if node.op not in ("placeholder", "output"):
            values[node] = graph.copy_node(node, values.__getitem__)
    outputs: list[Any] = []
    for result, made in zip(results, wrapped, strict=True):
        value = map_nodes(result, values.__getitem__)
        outputs += [value] if made is None else _taken_apart(graph, value, made)
    graph.output(tuple(outputs))
    return Plain(GraphModule(graph, dict(module.attributes)), openings, tuple(wrapped), structure)


def _put_together(graph: Graph, node: Node, opening: Opening) -> Node:
    captured: Any = node.meta.get("val")
    made = [graph.placeholder(name) for name in opening.names(node.name)]
    if opening.structure is None:
        made[0].meta = dict(node.meta)
    if opening.gradient is not None:
        whole = graph.call_function(Accept(opening.gradient), tuple(made))
        whole.meta = dict(node.meta)
        return whole
    if opening.structure is None:
        return made[0]
    for place, part in zip(made[opening.has_carrier :], plain_parts(captured), strict=True):
        place.meta["val"] = part
    if opening.has_carrier:
        made[0].meta["val"] = _carrier(captured)
    structure = Wrapped.of(captured)
    assert structure is not None
    target = PutTogether(structure, opening.has_carrier)
    whole = graph.call_function(target, tuple(made))
    whole.meta = dict(node.meta)
    return whole


def _taken_apart(graph: Graph, value: Node, structure: Wrapped) -> list[Any]:
    whole = graph.call_function(TakeApart(structure), (value,))
    count = sum(1 for _ in structure.names()) + 2 * len(structure.size)
    return [graph.call_function(operator.getitem, (whole, i)) for i in range(count)]
