"""Sizes that vary: the known facts about them, and those that compiling a graph has learned.

While a graph with symbolic sizes is compiled, guards come up: conditions that were decided by the
example's sizes. A graph from the cache brings the same guards. It may be used where they hold of
the present sizes, and then they are guards here too (PyTorch 2 paper, section 5.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import torch

from minitorch2.backends.graph_cache.bypass import Bypass
from minitorch2.graph.fake_tensor import env_of
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.symbols import ShapeEnv, free_symbols, print_condition
from minitorch2.graph.symbols.conditions import map_condition

Guards: TypeAlias = tuple[tuple[str, str], ...]
"""Of each guard the operator that asked, and the condition as Python text."""

_FUNCTIONS: Final = {"float": torch.sym_float, "max": torch.sym_max, "min": torch.sym_min}
"""What conditions call, for numbers and for those that stand for them."""


@dataclass
class Sizes:
    """The sizes of a graph that is about to be compiled.

    ``text`` holds the known facts about them, by the names that they have in this compilation.
    """

    env: ShapeEnv | None
    text: str = field(init=False)

    def __post_init__(self) -> None:
        self.text = "" if self.env is None else "; ".join(_known(self.env))
        self._guards = 0 if self.env is None else len(self.env.guards)
        self._other = self._others()

    @staticmethod
    def of(module: GraphModule) -> Sizes:
        """Return the sizes of a captured graph."""
        values = [node.meta.get("val") for node in module.graph.nodes]
        return Sizes(env_of(size for v in values for size in getattr(v, "shape", (v,))))

    def learned(self) -> Guards:
        """Return the guards that came up since. Raises `Bypass` if something else did."""
        if self.env is None:
            return ()
        new = self.env.guards[self._guards :]
        in_inputs = self.env.knowledge.in_inputs
        conditions = [map_condition(guard.condition, in_inputs) for guard in new]
        named = {str(symbol) for symbol in free_symbols(conditions)}
        if self._others() != self._other or not named <= _names(self.env).keys():
            raise Bypass("compiling learned more of its sizes than guards can tell")
        texts = [*map(print_condition, conditions)]
        try:
            all_hold = self._hold_now(texts)
        except (NameError, TypeError, ValueError) as error:  # a function of floats, for instance
            raise Bypass(f"a guard on its sizes cannot be asked again: {error}") from error
        assert all_hold
        return tuple((guard.operator, text) for guard, text in zip(new, texts, strict=True))

    def admit(self, guards: Guards) -> bool:
        """Return whether guards hold for the present sizes; record them if they do."""
        if self.env is None:
            return not guards
        if not self._hold_now(text for _, text in guards):
            return False
        numbers = {name: self.env.number_of(s) for name, s in _names(self.env).items()}
        for operator, text in guards:
            with self.env.running(operator):
                assert _holds(text, numbers)
        return True

    def _hold_now(self, texts: Iterable[str]) -> bool:
        """Return whether conditions hold for the example's sizes."""
        assert self.env is not None
        hints = {name: self.env.hint(symbol) for name, symbol in _names(self.env).items()}
        return all(_holds(text, hints) for text in texts)

    def _others(self) -> object:
        """Return the state that compiling may change besides guards."""
        if self.env is None:
            return None
        limits = [
            (str(s), record.limits)
            for s, record in self.env.symbols.items()
            if s in _hinted(self.env)
        ]
        return limits, sorted(map(str, self.env.fixed)), len(self.env.numbers)


def _holds(text: str, numbers: Mapping[str, Any]) -> bool:
    return bool(eval(text, {"__builtins__": _FUNCTIONS}, dict(numbers)))


def _hinted(env: ShapeEnv) -> list[Any]:
    return [symbol for symbol, record in env.symbols.items() if record.hint is not None]


def _names(env: ShapeEnv) -> dict[str, Any]:
    """Return the symbols whose values the example determines, by name."""
    return {str(symbol): symbol for symbol in _hinted(env)}


def _known(env: ShapeEnv) -> Iterator[str]:
    for symbol, record in env.symbols.items():
        kind = "unbacked " if record.hint is None else ""
        limits = record.limits, env.knowledge.ranges.get(symbol)
        yield f"{kind}{symbol} {symbol.is_integer} {limits}"
    for guard in (*env.guards, *env.stated):
        yield str(guard)
    for symbol, value in env.knowledge.replacements.items():
        yield f"{symbol} = {value}"
