"""Small programs on tensors, as text: compiled, run, and compared with eager by all that shows.

A *row* is a program and what capture makes of it::

    row ::= text                    one graph, no break
         |  (text, code, ...)       the codes of its breaks, in order

A program's text is one expression, or statements of which the last is an expression: its result.
Its parameters are those names of `INPUTS` that it mentions. Shorthands: torch, F, nn, np, math.

Compared are, for results and for arguments afterwards: classes, elements bit for bit, dtype,
device, strides, offsets, requires_grad, is_leaf, gradients; which of them are one object and which
share memory; errors; and the random state. The second call must not compile anything.
"""

from __future__ import annotations

import ast
import linecache
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import checkpoint as checkpointing

import minitorch2
from minitorch2 import config, stages

Row = str | tuple[str, ...]

INPUTS: dict[str, Callable[[], Any]] = {
    "x": lambda: torch.linspace(-2, 3, 12).reshape(3, 4),
    "y": lambda: torch.tensor([0.5, -1.0, 2.0, 3.0]),
    "w": lambda: torch.linspace(0.1, 2, 12).reshape(3, 4).requires_grad_(),
    "v": lambda: torch.linspace(-1, 1, 4).requires_grad_(),
    "p": lambda: nn.Parameter(torch.linspace(-1, 1, 4)),
    "d": lambda: torch.linspace(0, 1, 4, dtype=torch.float64),
    "h": lambda: torch.linspace(0, 1, 4).to(torch.bfloat16),
    "i": lambda: torch.arange(12).reshape(3, 4),
    "j": lambda: torch.tensor([2, 0, 1]),
    "k": lambda: torch.tensor(1),
    "z": lambda: torch.tensor(0.75),
    "m": lambda: torch.arange(12).reshape(3, 4) % 3 == 0,
    "c": lambda: torch.complex(torch.linspace(0, 1, 4), torch.linspace(1, 2, 4)),
    "e": lambda: torch.empty(0, 4),
    "q": lambda: torch.linspace(-1, 1, 16).reshape(4, 4),
    "b": lambda: torch.linspace(-1, 1, 24).reshape(2, 3, 4),
    "im": lambda: torch.linspace(-1, 1, 2 * 3 * 5 * 5).reshape(2, 3, 5, 5),
    "mt": lambda: torch.empty(2, 3, device="meta"),
    "n": lambda: np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "nd": lambda: np.linspace(0.5, 2, 4),
    "ni": lambda: np.arange(4),
    "nb": lambda: np.arange(4) % 2 == 0,
    "s": lambda: 3,
    "f": lambda: 0.5,
    "lst": lambda: [torch.ones(4), torch.zeros(4)],
}
"""What a program may mention, made anew for each run."""

NAMESPACE: dict[str, Any] = {
    "torch": torch,
    "F": F,
    "nn": nn,
    "np": np,
    "math": math,
    "warnings": warnings,
    "checkpoint": checkpointing.checkpoint,
    "__name__": __name__,
}


_CODE = re.compile(r"\[([\w-]+)\]$", re.MULTILINE)
RAISES = {"exception", "operator-error"}
"""Codes of breaks of a program that raises: they need no mention."""


def program_of(
    text: str, inputs: Iterable[str] = INPUTS, more: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The function that a program's text stands for; its parameters are the inputs it mentions."""
    body = textwrap.dedent(text).strip()
    tree = ast.parse(body)
    mentioned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    parameters = [name for name in inputs if name in mentioned]
    lines = body.splitlines()
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        lines[last.lineno - 1] = (
            lines[last.lineno - 1][: last.col_offset]
            + "return "
            + lines[last.lineno - 1][last.col_offset :]
        )
    source = f"def program({', '.join(parameters)}):\n" + textwrap.indent("\n".join(lines), "    ")
    file = f"<program {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    namespace = {**NAMESPACE, **(more or {})}
    exec(compile(source, file, "exec"), namespace)
    return namespace["program"]


def check_row(
    row: Row,
    inputs: dict[str, Callable[[], Any]] | None = None,
    calls: int = 2,
    any_break: bool = False,
    **more: Any,
) -> stages.StageLog:
    """Check one row; the log of its compilation.

    Args:
        inputs: more things that the program may take as arguments.
        calls: how often it is called.
        any_break: whether breaks are counted at all.
        more: more globals of the program.
    """
    inputs = {**INPUTS, **(inputs or {})}
    text, *codes = (row,) if isinstance(row, str) else row
    function = program_of(text, inputs, more)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    make = lambda: tuple(inputs[name]() for name in names)  # noqa: E731
    log, raised = check(function, make, calls)
    if any_break:
        return log
    found = [_CODE.findall(broken.split("\n", 1)[1])[0] for broken in log.texts("graph_break")]
    assert not log.counts["frames_as_is"], "a frame ran in Python"
    expected = found == codes or (not codes and set(found) <= RAISES and raised)
    assert expected, f"breaks {found}: {log.texts('graph_break')}"
    assert codes or log.counts["graphs"] <= 1, log.texts("captured_graph")
    return log


def check(
    function: Callable[..., Any], make: Callable[[], Sequence[Any]], calls: int = 2
) -> tuple[Any, bool]:
    """Compare compiled and eager calls; the log of the first, and whether eager raises."""
    compiled = minitorch2.compile(function, backend="eager")
    wanted = observe(function, make())
    log = None
    for number in range(calls):
        with config.patch(suppress_errors=False), stages.collect() as again:
            given = observe(compiled, make())
        compare(given, wanted, f"call {number}")
        assert not number or not again.counts["frames"], "the second call compiled something"
        log = log or again
    return log, wanted["error"] is not None


def observe(function: Callable[..., Any], args: Sequence[Any]) -> dict[str, Any]:
    """All that a caller sees of one call: result or error, arguments, gradients, random state."""
    torch.manual_seed(0)
    seen: dict[str, Any] = {"args": args, "result": None, "error": None}
    modes = _modes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            seen["result"] = function(*args)
        except Exception as error:
            seen["error"] = (type(error), str(error))
        seen["modes"] = _modes()
        _restore(modes)
        seen["random"] = torch.rand(())
        _backward(seen["result"])
    return seen


def _modes() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu"),
    )


def _restore(modes: tuple[Any, ...]) -> None:
    torch.set_grad_enabled(modes[0])
    torch.set_default_dtype(modes[2])


def _backward(result: Any) -> None:
    parts = [t for t in tensors_in(result) if t.requires_grad and t.grad_fn is not None]
    parts = [t for t in parts if t.dtype.is_floating_point and t.layout is torch.strided]
    if parts:
        weights = [torch.linspace(1, 2, t.numel(), dtype=t.dtype).reshape(t.shape) for t in parts]
        torch.autograd.backward(parts, weights)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in a nest of containers, modules and objects."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, nn.Module):
        yield from value.parameters()
        yield from value.buffers()


def compare(given: dict[str, Any], wanted: dict[str, Any], where: str) -> None:
    """Check that two observations cannot be told apart."""
    assert given["error"] == wanted["error"], (
        f"{where} raised {given['error']}, eager raises {wanted['error']}"
    )
    for part in ("result", "args", "modes", "random"):
        same(given[part], wanted[part], f"{where}: {part}")
    both = [list(tensors_in([side["args"], side["result"]])) for side in (given, wanted)]
    assert _aliases(both[0]) == _aliases(both[1]), f"{where}: aliasing differs"


def _aliases(tensors: list[torch.Tensor]) -> list[tuple[int, int]]:
    """For each tensor, the first that is the same object and the first that shares its memory."""
    objects = [id(t) for t in tensors]
    storages = [_storage(t) for t in tensors]
    return [(objects.index(o), storages.index(s)) for o, s in zip(objects, storages, strict=True)]


def _storage(tensor: torch.Tensor) -> object:
    if tensor.layout is not torch.strided or tensor.device.type == "meta" or not tensor.numel():
        return id(tensor)
    return tensor.untyped_storage().data_ptr()


def same(given: Any, wanted: Any, path: str) -> None:
    """Check equality all the way down."""
    assert type(given) is type(wanted) or type(wanted).__name__ == type(given).__name__, (
        f"{path} is a {type(given)}, not a {type(wanted)}"
    )
    if isinstance(wanted, torch.Tensor):
        _same_tensor(given, wanted, path)
    elif isinstance(wanted, np.ndarray):
        assert (given.dtype, given.shape) == (wanted.dtype, wanted.shape), path
        assert given.tobytes() == wanted.tobytes() or _close(given, wanted), (
            f"{path}: {given} is not {wanted}"
        )
    elif isinstance(wanted, np.inexact):
        assert _close(given, wanted), f"{path}: {given} is not {wanted}"
    elif isinstance(wanted, dict):
        assert len(given) == len(wanted), f"{path}: keys {list(given)}, not {list(wanted)}"
        for (key, left), (expected, right) in zip(given.items(), wanted.items(), strict=True):
            same(key, expected, f"a key of {path}")
            same(left, right, f"{path}[{key!r}]")
    elif isinstance(wanted, list | tuple):
        assert len(given) == len(wanted), f"{path}: {len(given)} elements, not {len(wanted)}"
        for number, (left, right) in enumerate(zip(given, wanted, strict=True)):
            same(left, right, f"{path}[{number}]")
    elif isinstance(wanted, nn.Module):
        assert repr(given) == repr(wanted) and given.training == wanted.training, path
        same(dict(given.named_parameters()), dict(wanted.named_parameters()), path)
        same(dict(given.named_buffers()), dict(wanted.named_buffers()), path)
    elif isinstance(wanted, BuiltinFunctionType):
        same(given.__self__, wanted.__self__, f"{path}.__self__")
        assert given.__name__ == wanted.__name__, path
    elif type(wanted).__eq__ is not object.__eq__:
        assert repr(given) == repr(wanted) or given == wanted, f"{path}: {given!r}, not {wanted!r}"


def _close(given: Any, wanted: Any) -> bool:
    """Whether floating point numbers of NumPy and of PyTorch are equal but for rounding."""
    if wanted.dtype.kind not in "fc":
        return False
    near = 10 * float(np.finfo(wanted.dtype).eps)
    return np.allclose(given, wanted, near, near, equal_nan=True)


FORM = (
    "dtype",
    "device",
    "layout",
    "shape",
    "requires_grad",
    "is_leaf",
    "_version",
)


def _same_tensor(given: torch.Tensor, wanted: torch.Tensor, path: str) -> None:
    for name in FORM:
        if name == "_version" and (wanted.is_inference() or "args" not in path):
            continue
        left, right = getattr(given, name), getattr(wanted, name)
        if name == "_version":  # an input is written to or not; how often does not show
            left, right = left > 0, right > 0
        assert left == right, f"{path}: {name} is {left}, not {right}"
    if wanted.layout is not torch.strided:
        return
    assert given.stride() == wanted.stride(), f"{path}: strides {given.stride()}, {wanted.stride()}"
    assert given.storage_offset() == wanted.storage_offset(), f"{path}: offset differs"
    assert given.is_inference() == wanted.is_inference(), f"{path}: is_inference differs"
    if wanted.device.type != "meta":
        left, right = given.detach().resolve_conj(), wanted.detach().resolve_conj()
        assert (
            torch.equal(left.nan_to_num(7), right.nan_to_num(7))
            if right.dtype.is_floating_point
            else (torch.equal(left, right))
        ), f"{path}: {given} is not {wanted}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left, right = given.grad, wanted.grad
    assert (left is None) == (right is None), f"{path}: gradient {left}, not {right}"
    if right is not None:
        _same_tensor(left, right, f"{path}.grad")


def table(rows: Sequence[Row]) -> Any:
    """The decorator of a test with a parameter `row`: each row is a test named by its text."""
    names = [re.sub(r"\s+", " ", row if isinstance(row, str) else row[0]).strip() for row in rows]
    return pytest.mark.parametrize("row", rows, ids=[name[:70] for name in names])
