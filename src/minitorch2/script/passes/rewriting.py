"""A pass is a generator of rewrites, as a pass of `minitorch2.graph` is.

It yields each rewrite before it makes it. So the driver logs each one by the name of the pass, and
stops after as many as ``pass_limits`` allow (TorchScript overview, "JIT Optimization Limiter").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from minitorch2 import config
from minitorch2.graph.rewriting import PassOver
from minitorch2.script.ir.graph import Graph, Node
from minitorch2.script.ir.verify import verify
from minitorch2.script.operators import prims as prims  # the rules of its nodes are verified


@dataclass(frozen=True)
class Rewrite:
    """A rewrite that is about to happen: the law it follows, and the node it changes."""

    law: str
    node: Node

    def __str__(self) -> str:
        place = self.node.range
        return f"{self.node.kind}: {self.law}  # {place.file.name}:{place.line}"


Generator: TypeAlias = Callable[..., Iterator[Rewrite]]


class ScriptPass(PassOver[Graph]):
    """A pass over TorchScript graphs: edits a graph in place, returns whether it changed."""

    def _verify(self, target: Graph) -> None:
        if config.current().verify:
            verify(target)


def script_pass(generator: Callable[..., Iterator[Any]]) -> ScriptPass:
    """Make a generator of rewrites a pass, called as the function is; a decorator."""
    return ScriptPass(generator)
