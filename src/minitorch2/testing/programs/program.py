"""A random program: its text, its arguments, and its comparison with plain CPython."""

from __future__ import annotations

import linecache
import marshal
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import count
from types import FunctionType
from typing import Any

import torch
from hypothesis import strategies as st

from minitorch2.testing.assertions import (
    Observation,
    assert_same_observation,
    observe,
    reached_from,
)
from minitorch2.testing.programs.writer import INDENT, Writer

PRELUDE = files(__package__).joinpath("prelude.py.txt").read_text(encoding="utf-8")
"""What the functions of programs use: globals, functions, classes, a module."""

_PRELUDE_CODE = marshal.dumps(compile(PRELUDE, "<prelude>", "exec", dont_inherit=True))
"""Loading it gives code objects of one's own: compilers keep what they know by code objects."""

_NUMBERS = count()


@dataclass(frozen=True)
class Program:
    """One random program; `source` defines ``f`` and everything it uses."""

    source: str = field(repr=False)

    def load(self) -> FunctionType:
        """Run the source in a fresh module; the function ``f`` of that module."""
        body = self.source.removeprefix(PRELUDE)
        file = f"<program {next(_NUMBERS) % 100}>"
        linecache.cache[file] = (len(body), None, body.splitlines(True), file)
        namespace: dict[str, Any] = {"__name__": "program"}
        exec(marshal.loads(_PRELUDE_CODE), namespace)
        exec(compile(body, file, "exec", dont_inherit=True), namespace)
        function = namespace["f"]
        assert isinstance(function, FunctionType)
        return function

    def arguments(self, function: FunctionType, variant: int) -> list[object]:
        """Return fresh arguments; variants differ in values, and so in the branches taken."""
        generator = torch.Generator().manual_seed(variant)
        x, y = torch.randn(2, 3, generator=generator)
        box = function.__globals__["Box"](y + 1)
        return [x, y, variant % 3, [1, -2, variant], {"a": 1, "b": x * 2}, box]

    def check(
        self,
        compile: Callable[[Any], Callable[..., Any]],
        variants: int = 3,
        tolerance: float = 0.0,
        gradients: bool = False,
    ) -> None:
        """Compare a compiler with plain CPython on several arguments, on the last ones twice.

        Args:
            compile: the compiler; it may change the function's globals when its result is called.
            variants: how many different arguments.
            tolerance: absolute and relative difference allowed between numbers of tensors.
            gradients: whether the tensors require gradients, which are then compared as well.

        Raises:
            AssertionError: a caller can tell the two apart.
        """
        plain, original = self.load(), self.load()
        compiled = compile(original)
        for variant in [*range(variants), variants - 1]:
            wanted = self._observe(plain, plain, variant, gradients)
            given = self._observe(compiled, original, variant, gradients)
            given.error, wanted.error = _unbound_alike(given.error), _unbound_alike(wanted.error)
            try:
                assert_same_observation(given, wanted, tolerance)
            except AssertionError as error:
                error.add_note(self.source.removeprefix(PRELUDE))
                raise

    def _observe(
        self, function: Callable[..., Any], original: FunctionType, variant: int, gradients: bool
    ) -> Observation:
        """Observe one call, and its changes."""
        random.seed(variant)
        args = self.arguments(original, variant)
        leaves = [arg.requires_grad_() for arg in args[:2] if gradients]  # type: ignore[attr-defined]
        if gradients:
            args[:2] = [leaf.clone() for leaf in leaves]  # may be written to
        changed: dict[str, object] = {}

        def watched(*values: object) -> object:
            try:
                result = function(*values)
            finally:
                changed.update(_globals(original))
            return [result, _gradients([result, values, changed], leaves)] if gradients else result

        return observe(watched, args, [args, changed])


def _unbound_alike(error: tuple[str, str] | None) -> tuple[str, str] | None:
    """Return one description for both errors of an unbound variable.

    A variable that closures share is a *free* variable where the function goes on behind a graph
    break: Python then raises NameError instead of its subclass UnboundLocalError.
    """
    unbound = error and _UNBOUND.match(error[1])
    return ("NameError", f"{unbound[1]} is not bound") if unbound else error


_UNBOUND = re.compile(r"cannot access (?:local|free) variable ('\w+')")


def _gradients(values: Sequence[object], leaves: Sequence[torch.Tensor]) -> list[object]:
    """Return gradients of the sum of all tensors that can be reached, with respect to leaves."""
    tensors = [value for value in reached_from(values) if isinstance(value, torch.Tensor)]
    sums = [tensor.sum() for tensor in tensors if tensor.requires_grad]
    if not sums:
        return []
    return list(torch.autograd.grad(sum(sums, torch.zeros(())), leaves, allow_unused=True))


def _globals(function: FunctionType) -> dict[str, object]:
    """Return the globals that programs change, and the state of Python's random numbers."""
    namespace = function.__globals__
    kept = {name: namespace.get(name) for name in ("counter", "history", "layer", "mark")}
    return kept | {"Box.total": namespace["Box"].total, "random": hash(random.getstate())}


@st.composite
def programs(draw: st.DrawFn, depth: int = 2) -> Program:
    """Return a strategy for random programs.

    Args:
        depth: how many blocks a statement may be nested in.
    """
    writer = Writer(draw, depth)
    writer.block(draw(st.integers(2, 6)), INDENT, depth=0)
    values = [name for kind in "TNL" for name in writer.known[kind]]
    kinds = ", ".join(f"type({name})" for name in writer.known["O"])
    lines = ["def f(x, y, n, items, table, box):", f"{INDENT}global counter, mark", *writer.lines]
    lines.append(f"{INDENT}return ({', '.join(values)}, [{kinds}])")
    return Program(PRELUDE + "\n\n" + "\n".join(lines) + "\n")
