"""Parts shared by the code generators: text in scopes, shared subexpressions, printed indices.

A `Block` is a loop (or another scope) under construction: lines, and the values that its lines have
named. A look-up in a block searches the blocks around it, too. So equal expressions are computed
once (the CSE cache of the PyTorch 2 paper, section 4.5), in the outermost possible loop. A loop is
appended to the block around it when it is complete. So lines that were hoisted out of it in the
meantime come before it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import sympy
import torch
from sympy.printing.precedence import PRECEDENCE

from minitorch2.graph.symbols.text import ExprPrinter
from minitorch2.loopir.expressions import Expr
from minitorch2.loopir.ops import Value
from minitorch2.loopir.schedule import BaseSchedulerNode, JoinedSchedulerNode
from minitorch2.native.torch_internals.operators import OpOverload

INDENT = "    "


@dataclass(frozen=True)
class TextValue(Value):
    """A value in generated code: an atom or call of text, its compute dtype, the depth of loops
    that it depends on."""

    text: str
    dtype: torch.dtype
    depth: int

    def __str__(self) -> str:
        return self.text


@dataclass
class Block:
    """A scope: its header line (`for i in range(n):`, or "") and its lines and inner scopes."""

    header: str
    parent: Block | None = None
    is_loop: bool = True
    lines: list[str | Block] = field(default_factory=list)
    names: dict[str, TextValue] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """The number of loops around the lines of this block."""
        if self.parent is None:
            return 0
        return self.parent.depth + (1 if self.is_loop else 0)

    def at_depth(self, depth: int) -> Block:
        """Return the block around this one (or itself) whose lines are inside that many loops."""
        block = self
        while block.parent is not None and block.depth > depth and block.is_loop:
            block = block.parent
        return block

    def find(self, key: str) -> TextValue | None:
        """Return the value of an expression in this scope or in one around it."""
        block: Block | None = self
        while block is not None:
            if key in block.names:
                return block.names[key]
            block = block.parent
        return None

    def close(self) -> None:
        """Append the complete block to the block around it."""
        assert self.parent is not None
        if self.lines:
            self.parent.lines.append(self)

    def render(self, level: int = 0) -> Iterator[str]:
        """Yield the lines, indented."""
        if self.header:
            yield INDENT * level + self.header
            level += 1
        for line in self.lines:
            if isinstance(line, Block):
                yield from line.render(level)
            else:
                yield INDENT * level + line


class Namer:
    """Fresh names: `fresh("tmp")` gives tmp0, tmp1, ..."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def fresh(self, prefix: str) -> str:
        """Return a name that was not given before."""
        self._counts[prefix] = self._counts.get(prefix, -1) + 1
        return f"{prefix}{self._counts[prefix]}"


_NAME = re.compile(r"\w+")


def code_in(lines: Iterable[str]) -> list[str]:
    """Return the lines that are not comments: these quote the user's program."""
    return [line for line in lines if not line.lstrip().startswith("#")]


def drop_unused(lines: Iterable[str], names: Collection[str]) -> list[str]:
    """Leave out the lines that assign one of these variables if no other line reads it."""
    kept = list(lines)
    counts = Counter(_NAME.findall("\n".join(code_in(kept)))) if names else Counter()
    unused = {name for name in names if counts[name] == 1}
    return [line for line in kept if line.partition(" = ")[0].strip() not in unused]


class _IndexPrinter(ExprPrinter):
    """Size expressions in the Python that kernels are written in: extremes have two operands,
    and powers are products."""

    def _print_Pow(self, expr: sympy.Pow, rational: bool = False) -> str:
        if not (expr.exp.is_Integer and expr.exp > 0):
            return str(super()._print_Pow(expr, rational))
        base = self.parenthesize(expr.base, PRECEDENCE["Atom"], strict=True)
        return f"({'*'.join([base] * int(expr.exp))})"

    def _print_Max(self, expr: sympy.Max) -> str:
        return str(reduce(lambda a, b: f"max({a}, {b})", map(self._print, expr.args)))

    def _print_Min(self, expr: sympy.Min) -> str:
        return str(reduce(lambda a, b: f"min({a}, {b})", map(self._print, expr.args)))


_PRINTER = _IndexPrinter()


def print_expr(expr: Expr | float) -> str:
    """Return an index or size expression as Python text."""
    return str(_PRINTER.doprint(expr)) if isinstance(expr, sympy.Basic) else repr(expr)


def print_tuple(sizes: Sequence[Expr]) -> str:
    """Return sizes as the text of a tuple."""
    return f"({', '.join(map(print_expr, sizes))}{',' if len(sizes) == 1 else ''})"


def kernel_name(node: BaseSchedulerNode, number: int) -> str:
    """Return a name such as `fused_sin_cos_0`, of the operators in a kernel or a launch."""
    operators = [
        _operator(origin.target) for origin in node.origins if origin.op == "call_function"
    ]
    unique = list(dict.fromkeys(operators))
    if len(unique) > 6:
        unique = [*unique[:5], "and_more"]
    kind = "joined" if isinstance(node, JoinedSchedulerNode) else "fused"
    return "_".join((kind, *unique, str(number)))


def _operator(target: object) -> str:
    name = target._overloadpacket.__name__ if isinstance(target, OpOverload) else str(target)
    return name.strip("_") if name.isidentifier() else "op"


def user_lines(node: BaseSchedulerNode) -> list[str]:
    """Return as comments the lines of the user's program that a kernel computes."""
    sources = [origin.meta.get("source") for origin in node.origins]
    return list(dict.fromkeys(source.comment() for source in sources if source is not None))
