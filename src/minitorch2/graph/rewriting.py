"""A pass is a generator of rewrites: it yields each rewrite before it makes it.

So the driver of a pass can log each rewrite, count them, and stop between any two of them::

    @graph_pass
    def eliminate_dead_code(module):
        for node in reversed(module.graph.nodes):
            if not node.users and not is_impure(node):
                yield Rewrite("nobody reads it", node)
                module.graph.erase(node)

``options={"disabled_passes": ["eliminate_dead_code"]}`` switches it off by name,
``options={"pass_limits": ["eliminate_dead_code=3"]}`` stops it after three rewrites of each graph.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Generic, TypeAlias, TypeVar

from minitorch2 import config, stages
from minitorch2.errors import ConfigError, did_you_mean
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.graph.verify import verify
from minitorch2.logs import get_logger

STAGE = "rewrites.txt"
FUSIONS = "fuse_loops"
"""The name of the scheduler's fusions, which options limit as they limit a pass."""


@dataclass(frozen=True)
class Rewrite:
    """A rewrite that is about to happen: the law it follows, and the node it replaces."""

    law: str
    node: Node

    def __str__(self) -> str:
        source = self.node.meta.get("source")
        return f"{self.node.name}: {self.law}" + (f"  # {source}" if source else "")


Generator: TypeAlias = Callable[..., Iterator[Rewrite]]


Target = TypeVar("Target")


class PassOver(ABC, Generic[Target]):
    """A pass over graphs of one kind: a call edits a graph and returns whether it changed it.

    Each rewrite is logged, by the logger of the pass's own file, with its law and the user's line,
    and counted in `stages` as ``rewrites``. With the option ``verify`` the graph is checked before
    and after.
    """

    def __init__(self, generator: Generator) -> None:
        self.name = generator.__name__
        self.generator = generator
        self._logger = get_logger(generator.__module__ or __name__)
        update_wrapper(self, generator)
        PASSES.setdefault(self.name, self)

    def __repr__(self) -> str:
        return f"<pass {self.name}>"

    @property
    def summary(self) -> str:
        """The first sentence of the pass's file, which says what the pass does."""
        text = inspect.getdoc(inspect.getmodule(self.generator)) or ""
        return text.split("\n\n")[0].replace("\n", " ")

    def __call__(self, target: Target, *arguments: Any) -> bool:
        """Rewrite until nothing is left to do or the limit is reached; whether anything changed.

        Raises VerificationError where the pass breaks the graph, ConfigError for an option that
        names no pass.
        """
        self._verify(target)
        return self.go_on(target, *arguments)

    def go_on(self, target: Target, *arguments: Any) -> bool:
        """Do what a call does on a graph that the pass before has left checked."""
        done = list(self._perform(target, *arguments))
        self._verify(target)
        if not done:
            return False
        self._finish(target)
        self._report(done)
        return True

    @abstractmethod
    def _verify(self, target: Target) -> None:
        """Check the graph before or after the pass."""

    def _finish(self, target: Target) -> None:
        """Bring what depends on the graph up to date; nothing does by default."""
        del target

    def _perform(self, target: Target, *arguments: Any) -> Iterator[str]:
        limit = limit_of(self.name)
        if limit == 0:
            return
        for count, rewrite in enumerate(self.generator(target, *arguments)):
            if count == limit:
                return
            yield str(rewrite)  # now: what is rewritten may be gone afterwards

    def _report(self, done: list[str]) -> None:
        stages.count("rewrites", len(done))
        for rewrite in done:
            self._logger.debug("%s: %s", self.name, rewrite)
        if stages.wanted(STAGE):
            stages.record(STAGE, "\n".join([self.name, *(f"    {rewrite}" for rewrite in done)]))


PASSES: dict[str, PassOver[Any]] = {}
"""Every pass by name, as options speak of them."""


class Pass(PassOver[GraphModule]):
    """A pass over GraphModules."""

    def _verify(self, target: GraphModule) -> None:
        if config.current().verify:
            verify(target)

    def _finish(self, target: GraphModule) -> None:
        target.recompile()


def graph_pass(generator: Generator) -> Pass:
    """Make a generator of rewrites a pass, called as the function is; a decorator."""
    return Pass(generator)


def limit_of(name: str) -> int | None:
    """Return the number of rewrites of one graph that the options allow; None for no limit."""
    options = config.current()
    if _known(options.disabled_passes, name):
        return 0
    limits = dict(_limit(entry) for entry in options.pass_limits)
    return limits[name] if _known(limits, name) else None


def _limit(entry: str) -> tuple[str, int]:
    name, _, number = entry.partition("=")
    if not number.isdigit():
        raise ConfigError(
            f"pass_limits takes entries like 'fold_constants=3', not {entry!r}", code="option-type"
        )
    return name, int(number)


def _known(names: Any, wanted: str) -> bool:
    """Return whether the pass is among these names, all of which must be passes."""
    for name in names:
        if name not in PASSES and name != FUSIONS:
            hint = did_you_mean(name, PASSES, f"; there are {', '.join(PASSES)}")
            raise ConfigError(f"there is no pass {name!r}{hint}", code="unknown-pass")
    return wanted in names
