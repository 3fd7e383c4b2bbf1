"""A path of the trie, compiled: for which steps it may run, and the run.

admits(program, step)  =>  program(step) == interpret(step)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch

from minitorch2.backends.registry import Backend
from minitorch2.graph.literals import literal
from minitorch2.graph.symbols.admission import assumptions, function_of
from minitorch2.lazy import trie
from minitorch2.lazy.holes import Holes, solve
from minitorch2.lazy.path_graph import graph_of
from minitorch2.lazy.trie import Number, Numbers, Place


class Program:
    """A compiled path.

    Attributes:
        outputs: the numbers of the values that it computes, in order.
        varying: the numbers that vary, as text: ``s0 = 0.0`` is the first size of the first input.
        guards: the conditions on them that compilation assumed, as Python text.
    """

    def __init__(
        self,
        path: Sequence[Place],
        numbers: Sequence[Numbers],
        data: Sequence[torch.Tensor],
        outputs: Sequence[int],
        backend: Backend,
    ) -> None:
        self.outputs = tuple(outputs)
        holes = solve(path, numbers)
        graph = graph_of(path, holes, data, outputs)
        self._parameters = [holes.sources[symbol] for symbol in holes.parameters]
        self._loads = graph.loads
        examples = [load(data) for load in graph.loads]
        self._call = backend(graph.module, [*self._given(numbers), *examples])
        self.varying = {str(s): f"{e}.{k}" for s, (e, k) in holes.sources.items()}
        self.guards = " and ".join(assumptions(holes.env)) or "True"
        self._admission = _Admission(holes, self.guards)
        self._last: tuple[Numbers, ...] = ()

    def admits(self, numbers: Sequence[Numbers]) -> bool:
        """Return whether a step with these numbers may run as this program."""
        given = tuple(numbers)
        if given != self._last:
            if not self._admission.holds(given):
                return False
            self._last = given
        return True

    def run(self, numbers: Sequence[Numbers], data: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run a step that is admitted; return the values of `outputs`."""
        results = self._call(*self._given(numbers), *[load(data) for load in self._loads])
        return [*results]

    def _given(self, numbers: Sequence[Numbers]) -> list[Number]:
        return [numbers[event][k] for event, k in self._parameters]


class _Admission:
    """The conditions on the numbers of a step under which a program computes it."""

    def __init__(self, holes: Holes, guards: str) -> None:
        self._symbols = {str(symbol): where for symbol, where in holes.sources.items()}
        self._sizes = [str(symbol) for symbol in holes.sizes]
        self._constants: list[tuple[int, Numbers]] = []
        self._expressions: list[tuple[int, Callable[..., Numbers]]] = []
        for event, slots in enumerate(holes.slots):
            if any(isinstance(slot, sympy.Basic) for slot in slots):
                text = "".join(f"{_text(slot)}, " for slot in slots)
                self._expressions.append((event, self._function(f"({text})")))
            elif slots:
                self._constants.append((event, slots))
        self._guards = self._function(guards)

    def _function(self, text: str) -> Callable[..., Any]:
        """Return the function of the symbols that a text of this module's own is."""
        return function_of(self._symbols, text)

    def holds(self, numbers: Sequence[Numbers]) -> bool:
        if any(numbers[event] != constant for event, constant in self._constants):
            return False
        at = {name: numbers[event][k] for name, (event, k) in self._symbols.items()}
        if any(at[name] < 2 for name in self._sizes):
            return False
        wanted = (numbers[event] == function(**at) for event, function in self._expressions)
        return all(wanted) and bool(self._guards(**at))


def _text(slot: Any) -> str:
    """Return what a number must equal. The negative of 0.0 equals 0.0 and is another number."""
    is_negated = isinstance(slot, sympy.Mul) and not slot.is_integer
    return f"({slot} or None)" if is_negated else literal(slot)


def choose(
    programs: Mapping[frozenset[int], Sequence[trie.Program]],
    live: frozenset[int],
    numbers: Sequence[Numbers],
) -> trie.Program | None:
    """Return the program with the fewest outputs that computes all live values of this step."""
    fitting = sorted((known for known in programs if live <= known), key=len)
    candidates = (program for known in fitting for program in programs[known])
    return next((program for program in candidates if program.admits(numbers)), None)
