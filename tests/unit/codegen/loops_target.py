"""A target in few lines: it prints kernels as plain Python loops, and runs them.

It shows what a new target brings: a handler that answers with text, and the methods of `Target`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
import torch

from minitorch2.codegen.common import print_expr
from minitorch2.codegen.spelling import quoted
from minitorch2.codegen.target import Definition, Kernel, Target
from minitorch2.errors import LoweringError
from minitorch2.foundation.generated_code import execute
from minitorch2.loopir.expressions import index_symbols, product
from minitorch2.loopir.handlers.interpreter import ELEMENTWISE_RULES
from minitorch2.loopir.ops import use_handler
from minitorch2.loopir.schedule import Capabilities, bodies
from minitorch2.native.kernels.stepping import Memory

STEPS = {"sum": "{0} + {1}", "max": "np.maximum({0}, {1})"}
STARTS = {"sum": "0", "max": "-np.inf"}


class LoopsHandler:
    """A value is a text; `lines` are those of the innermost loop, `before` those around it."""

    def __init__(self, pointers: dict[str, str], owner: Callable[[str], str]) -> None:
        self.pointers, self.owner = pointers, owner
        self.symbols: dict[str, sympy.Symbol] = {}
        self.reduced: str | None = None
        self.inner: list[str] = []
        self.lines: list[str] = []

    def index(self, expr: Any) -> str:
        found = getattr(expr, "free_symbols", ())
        self.symbols |= {str(s): s for s in found if str(s)[0] not in "ir"}
        return print_expr(expr)

    def place(self, name: str, index: Any) -> str:
        pointer = self.pointers.setdefault(self.owner(name), f"ptr{len(self.pointers)}")
        return f"{pointer}[{self.index(index)}]"

    def load(self, name: str, index: Any) -> str:
        return self.assign(self.place(name, index))

    def store(self, name: str, index: Any, value: str, mode: str = "set") -> None:
        self.lines.append(f"{self.place(name, index)} = {value}")

    store_reduction = store

    def assign(self, text: str) -> str:
        name = f"tmp{len(self.inner) + len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: str) -> str:
        if kind not in STEPS:
            raise LoweringError(f"plain loops have no reduction {kind!r}")
        self.inner = [*self.lines, f"acc = {STEPS[kind].format('acc', value)}"]
        self.lines, self.reduced = [], STARTS[kind]
        return "acc"

    def constant(self, value: Any, dtype: torch.dtype) -> str:
        return f"np.asarray(float('{value}')).astype('{str(dtype)[6:]}')[()]"

    def to_dtype(self, x: str, dtype: torch.dtype) -> str:
        return self.assign(f"np.asarray({x}).astype('{str(dtype)[6:]}')[()]")

    def elementwise(self, name: str, *args: str) -> str:
        return self.assign(f"ops[{name!r}]({', '.join(args)})")

    def __getattr__(self, name: str) -> Callable[..., str]:
        if name not in ELEMENTWISE_RULES:
            raise LoweringError(f"plain loops have no {name!r}")
        return lambda *args: self.elementwise(name, *args)


@dataclass(frozen=True)
class LoopsSource:
    name: str
    text: str
    pointers: tuple[str, ...]

    def key(self) -> str:
        return f"{self.pointers} {self.text.replace(self.name, 'kernel')}"


class LoopsTarget(Target[LoopsSource]):
    name = "loops"

    def capabilities(self) -> Capabilities:
        return Capabilities(max_fusion_size=1)

    def print(self, node: Any, plan: Any, buffers: Mapping[str, Any], name: str) -> Any:
        (body,) = bodies(node)
        pointers: dict[str, str] = {}
        handler = LoopsHandler(pointers, plan.inplace.owner)
        kept, reduced = index_symbols("i", len(body.ranges)), index_symbols("r", 9)
        reduced = reduced[: len(body.reduction_ranges)]
        with use_handler(handler):  # type: ignore[arg-type]
            body.run(kept, reduced)
        lines, depth = [], 1
        for symbol, size in zip(kept, body.ranges, strict=True):
            lines.append(f"{'    ' * depth}for {symbol} in range({handler.index(size)}):")
            depth += 1
        if handler.reduced is not None:
            lines.append(f"{'    ' * depth}acc = {handler.reduced}")
            for deep, (symbol, size) in enumerate(zip(reduced, body.reduction_ranges), depth):
                lines.append(f"{'    ' * deep}for {symbol} in range({handler.index(size)}):")
            inside = "    " * (depth + len(reduced))
            lines += [inside + line for line in handler.inner]
        lines += ["    " * depth + line for line in handler.lines]
        sizes = dict(sorted(handler.symbols.items()))
        head = f"def {name}({', '.join(['n', *pointers.values(), *sizes])}):\n"
        kinds = tuple(str(buffers[root].dtype)[6:] for root in pointers)
        source = LoopsSource(name, head + "\n".join(lines) + "\n", kinds)
        return Kernel(source, product(body.ranges), tuple(pointers), tuple(sizes.values()))

    def define(self, kernel: Kernel[LoopsSource], device: torch.device) -> Definition:
        source = kernel.source
        call = f"load_loops({source.name!r}, {source.pointers!r}, {quoted(source.text)})"
        return Definition(f"\n{source.name} = {call}", {"load_loops": __name__})


def load_loops(name: str, kinds: tuple[str, ...], text: str) -> Callable[..., None]:
    """Return the kernel of a text; it is given tensors or addresses."""
    namespace: dict[str, Any] = {"np": np, "ops": ELEMENTWISE_RULES}
    execute(text, f"<minitorch2 loops {name}>", namespace)

    def launch(n: int, *words: Any) -> None:
        addresses = [w if isinstance(w, int) else w.data_ptr() for w in words[: len(kinds)]]
        memories = [Memory(address, kind) for address, kind in zip(addresses, kinds, strict=True)]
        namespace[name](n, *memories, *words[len(kinds) :])

    return launch


LOOPS = LoopsTarget()
