"""The outcome of a call: all that a caller can see of it.

outcome ::= Outcome(values, error)
values  ::= {name: tensor, number or text}
name    ::= "result" path  |  "input" number "afterwards" path  |  "gradient of input" number
         |  "printed"
path    ::= the keys, numbers and attributes that lead to a value, and `.grad` of a leaf
"""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import torch

from minitorch2.graph.dispatch_mode import DispatchMode
from minitorch2.marks.dimensions import MARKS


@dataclass
class Outcome:
    """The values that a call left behind, by name, or the exception that it raised."""

    values: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None


def observed(call: Callable[..., Any], inputs: Sequence[Any]) -> Outcome:
    """Call a function, differentiate its results, and return the outcome.

    The gradients are those of all results, each with the same numbers as its tangent. Printed text
    is kept instead of shown.

    Args:
        inputs: the call's own copies: it may write to them.
    """
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            result = call(*inputs)
        seen = dict(named_leaves("result", result))
        found = _gradients(list(seen.values()), inputs)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return Outcome(error=error)
    left = (named_leaves(f"input {i} afterwards", value) for i, value in enumerate(inputs))
    afterwards = dict(_detached(leaf for leaves in left for leaf in leaves))
    printed = {"printed": _without_digits(said.getvalue())} if said.getvalue() else {}
    return Outcome(seen | printed | afterwards | found)


_FRACTION = re.compile(r"\s*[-+]?\d+\.\d*(e[-+]?\d+)?")


def _without_digits(text: str) -> str:
    """Return a text with a sign for each number that has a fraction: it may be rounded."""
    return _FRACTION.sub(" #", text)


LEAVES = (torch.Tensor, torch.dtype, bool, int, float, complex, str, bytes)
"""What is compared as it is."""
OPAQUE = (type, ModuleType, FunctionType)
"""Objects whose attributes are no state of a call."""


def named_leaves(name: str, value: object, *around: object) -> Iterator[tuple[str, Any]]:
    """Yield tensors, numbers and texts inside containers and objects, with the path to each.

    Args:
        around: the containers that hold the value: one that holds itself ends there.
    """
    if isinstance(value, torch.Tensor) and value.is_nested:
        yield from ((f"{name}.{part}", each) for part, each in _parts_of_nested(value))
    elif isinstance(value, LEAVES):
        yield name, value
    elif not isinstance(value, OPAQUE) and not any(value is each for each in around):
        for step, part in _parts(value):
            yield from named_leaves(f"{name}{step}", part, *around, value)


def _parts_of_nested(value: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the plain tensors that a nested tensor is made of."""
    if value.layout is torch.jagged:
        parts = ((name, getattr(value, name)()) for name in ("values", "offsets"))
        yield from parts
    else:
        yield from ((f"unbind()[{row}]", each) for row, each in enumerate(value.unbind()))


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """Yield the parts of a container or an object: public attributes, parameters and buffers."""
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (tuple, list)):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, torch.nn.Module):
        yield from ((f".{key}", part) for key, part in value.named_parameters())
        yield from ((f".{key}", part) for key, part in value.named_buffers())
    else:
        state = getattr(value, "__dict__", {}).items()
        yield from ((f".{key}", part) for key, part in state if not key.startswith("_"))


def _detached(leaves: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield values without their history, and behind a leaf of gradients what it has collected."""
    for name, value in leaves:
        is_tensor = isinstance(value, torch.Tensor)
        yield name, value.detach() if is_tensor else value
        if is_tensor and value.is_leaf and value.grad is not None:
            yield f"{name}.grad", value.grad


def _gradients(results: Sequence[Any], inputs: Sequence[Any]) -> dict[str, Any]:
    """Return the gradients of the inputs that want one; the graph stays for another backward."""
    ends = list({id(v): v for v in results if is_differentiable(v)}.values())
    starts = {i: v for i, v in enumerate(inputs) if is_differentiable(v)}
    if not ends or not starts:
        return {}
    found = torch.autograd.grad(
        ends, list(starts.values()), list(map(_tangent, ends)), retain_graph=True, allow_unused=True
    )
    named = ((f"gradient of input {i}", g) for i, g in zip(starts, found, strict=True))
    return dict(leaf for name, g in named for leaf in _of_gradient(name, g))


def _of_gradient(name: str, gradient: torch.Tensor | None) -> Iterable[tuple[str, Any]]:
    """Return a gradient by its name; of a nested one, the tensors that it is made of."""
    return [(name, None)] if gradient is None else named_leaves(name, gradient)


def is_differentiable(value: object) -> bool:
    """Return whether a value is a tensor whose gradient is recorded."""
    return isinstance(value, torch.Tensor) and value.requires_grad


def _tangent(result: torch.Tensor) -> torch.Tensor:
    """Return numbers between -1 and 1 in the form of a result: no two neighbours are equal."""
    angles = torch.arange(result.numel(), dtype=torch.float64, device=result.device)
    return angles.cos().to(result.dtype).reshape(result.shape)


def copies_of(inputs: Sequence[Any]) -> list[Any]:
    """Return copies of inputs: they share memory as the inputs do, and have their marks.

    A tensor that was computed with a gradient becomes one that was copied with a gradient: programs
    may write to it.
    """
    plain = [v.detach() if isinstance(v, torch.Tensor) else v for v in inputs]
    copies = copy.deepcopy(plain)
    for index, given in enumerate(inputs):
        if hasattr(given, MARKS):
            setattr(copies[index], MARKS, getattr(given, MARKS))
        if is_differentiable(given):
            leaf = copies[index].requires_grad_()
            copies[index] = leaf if given.is_leaf else leaf.clone()
    return copies


_WIDER = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}


def _wider(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype.is_floating_point else _WIDER.get(dtype, dtype)


def in_double(value: Any) -> Any:
    """Return tensors and dtypes in double precision; integers stay."""
    if isinstance(value, torch.Tensor) and _wider(value.dtype) is not value.dtype:
        return value.detach().to(_wider(value.dtype)).requires_grad_(value.requires_grad)
    return _wider(value) if isinstance(value, torch.dtype) else value


class InDouble(DispatchMode):  # type: ignore[no-untyped-call]
    """Runs each operator in double precision, whatever dtype the program asks for."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator on wider tensors."""
        return func(*map(_deep, args), **{name: _deep(v) for name, v in (kwargs or {}).items()})


def _deep(value: Any) -> Any:
    return type(value)(map(_deep, value)) if type(value) in (list, tuple) else in_double(value)


def exact(call: Callable[..., Any], inputs: Sequence[Any]) -> Outcome | None:
    """Return the outcome of a call in double precision; None if the program refuses that.

    Args:
        inputs: copies of the inputs.
    """
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with InDouble():  # type: ignore[no-untyped-call]
            found = observed(call, list(map(in_double, inputs)))
    finally:
        torch.set_default_dtype(before)
    return found if found.error is None else None
