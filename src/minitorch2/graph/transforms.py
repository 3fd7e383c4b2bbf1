"""Transforms of functions, applied to graphs: `torch.vmap`, `torch.func.grad` and their like.

    node ::= name = Transform(kind, body, lifted, options)(*around, *values)
    body ::= graph: *around, *arguments -> results

The body is passed as the function to PyTorch's own transform, so the meaning is that of eager mode.
A tracer sees the operators below the transform. Values that the body reads from outside are not
arguments of the transformed function: they have neither derivatives nor a batch dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
from torch.autograd import forward_ad, functional

from minitorch2.graph.composite import Composite, RunGraph
from minitorch2.graph.graph_module import GraphModule

Function: TypeAlias = Callable[..., tuple[torch.Tensor, ...]]
"""From tensors to a tuple of tensors."""
Values: TypeAlias = Sequence[torch.Tensor]


@dataclass(eq=False)
class Transform(Composite):
    """A transform of functions, applied to a graph.

    Attributes:
        kind: a key of `KINDS`.
        body: the graph of the transformed function.
        lifted: the number of its first inputs that it reads from outside.
        options: keyword arguments of the kind.
    """

    kind: str
    body: GraphModule
    lifted: int
    options: Mapping[str, Any]

    @property
    def __name__(self) -> str:
        return self.kind

    def run(self, run_graph: RunGraph, *inputs: Any) -> tuple[Any, ...]:
        around, values = inputs[: self.lifted], inputs[self.lifted :]

        def function(*arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(run_graph(self.body, *around, *arguments))

        return KINDS[self.kind](function, values, **self.options)


def unpacked(
    tensor: torch.Tensor, level: int | None = None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Give the primal value of a dual tensor and its tangent, as a plain tuple."""
    primal, tangent = forward_ad.unpack_dual(tensor, level=level)  # type: ignore[no-untyped-call]
    return primal, tangent


def _call(function: Function, values: Values) -> tuple[torch.Tensor, ...]:
    """Run the body itself, without a transform."""
    return function(*values)


def _vmap(
    function: Function,
    values: Values,
    in_dims: tuple[int, ...],
    out_dims: tuple[int | None, ...],
    randomness: str,
    chunk_size: int | None,
) -> tuple[torch.Tensor, ...]:
    vmap: Any = torch.vmap
    batched = vmap(function, in_dims, out_dims, randomness, chunk_size=chunk_size)
    return tuple(batched(*values))


def _grad(function: Function, values: Values, argnums: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    """Return gradients of the first result, then the results."""

    def scalar(*arguments: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        value, *auxiliary = function(*arguments)
        return value, tuple(auxiliary)

    gradients, (value, auxiliary) = torch.func.grad_and_value(scalar, argnums, has_aux=True)(
        *values
    )
    return (*gradients, value, *auxiliary)


def _vjp(function: Function, values: Values, primals: int) -> tuple[torch.Tensor, ...]:
    """Return gradients of arguments; the values end in a cotangent for each first result."""
    cotangents = tuple(values[primals:])

    def differentiated(*arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return function(*arguments)[: len(cotangents)]

    vjp: Any = torch.func.vjp
    _, pull_back = vjp(differentiated, *values[:primals])
    return tuple(pull_back(cotangents))


def _jvp(
    function: Function, values: Values, primals: int, outputs: int, strict: bool
) -> tuple[torch.Tensor, ...]:
    """Return the first results, their tangents, then the other results."""

    def split(*arguments: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], ...]:
        results = function(*arguments)
        return results[:outputs], results[outputs:]

    jvp: Any = torch.func.jvp
    point, direction = tuple(values[:primals]), tuple(values[primals:])
    found, tangents, auxiliary = jvp(split, point, direction, strict=strict, has_aux=True)
    return (*found, *tangents, *auxiliary)


def _jacobian_by(transform: Callable[..., Any]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Return derivatives of the first results in all wanted arguments; then the other results."""

    def jacobian(
        function: Function,
        values: Values,
        argnums: tuple[int, ...],
        outputs: int,
        options: Mapping[str, Any],
    ) -> tuple[torch.Tensor, ...]:
        def split(*arguments: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], ...]:
            results = function(*arguments)
            return results[:outputs], results[outputs:]

        rows, auxiliary = transform(split, argnums, has_aux=True, **options)(*values)
        return (*(part for row in rows for part in row), *auxiliary)

    return jacobian


def _of_autograd(
    function: Function, values: Values, name: str, arguments: int, options: Mapping[str, Any]
) -> tuple[torch.Tensor, ...]:
    """Run a function of `torch.autograd.functional`.

    The first values are the arguments, then come the vectors that it multiplies with, if any.
    """
    point, vectors = tuple(values[:arguments]), tuple(values[arguments:])
    given = (vectors,) if vectors else ()

    def called(*arguments: torch.Tensor) -> Any:
        results = function(*arguments)
        return results[0] if name in ("hessian", "hvp", "vhp") else results

    return tuple(_leaves(getattr(functional, name)(called, point, *given, **options)))


def _leaves(nest: Any) -> list[torch.Tensor]:
    if isinstance(nest, torch.Tensor):
        return [nest]
    return [part for each in nest for part in _leaves(each)]


KINDS: Final[Mapping[str, Callable[..., tuple[torch.Tensor, ...]]]] = {
    "call": _call,
    "vmap": _vmap,
    "grad": _grad,
    "vjp": _vjp,
    "jvp": _jvp,
    "jacrev": _jacobian_by(torch.func.jacrev),
    "jacfwd": _jacobian_by(torch.func.jacfwd),
    "functional": _of_autograd,
}
"""From a function, the values it is given and options to the tensors that the transform gives."""
