"""The base of the printers of four shapes: arguments, nesting, values of the kernel's own buffers.

Subclasses say how loops nest and where accumulators are: `pointwise`, `rows`, `columns`, `scatter`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import torch

from minitorch2.codegen.common import Block, TextValue, code_in, drop_unused, user_lines
from minitorch2.codegen.numba import operators
from minitorch2.codegen.numba.handler import WRONG, Arguments, NumbaHandler
from minitorch2.codegen.target import Kernel
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.expressions import Expr, index_symbols, product
from minitorch2.loopir.memory_plan import passes
from minitorch2.loopir.ops import ReductionKind, use_handler
from minitorch2.loopir.schedule import KernelNode, Schedule, SchedulerNode, bodies
from minitorch2.native.kernels.names import ELEMENTARY
from minitorch2.native.kernels.runtime import KernelSource

# A thread should get at least so much work; 1 is about a twentieth of a nanosecond.
WORK_OF_A_THREAD = 150_000
_FUNCTION_CALL = re.compile(rf"\b({'|'.join(ELEMENTARY)})\(")


class KernelPrinter:
    """The base of the four printers; subclasses define the nest of loops and the accumulators."""

    def __init__(self, node: KernelNode, schedule: Schedule, buffers: Mapping[str, Buffer]) -> None:
        self.node = node
        self.schedule = schedule
        self.bodies = bodies(node)
        self.levels = passes(node)
        written = {body.name for body in self.bodies}
        read = {name for body in self.bodies for name in body.read_names}
        owner = schedule.inplace.owner
        self.arguments = Arguments(
            {name: buffers[name].dtype for name in {*written, *read, *map(owner, written | read)}},
            {name: owner(name) for name in written | read},
            {owner(name) for name in read - schedule.removed},
            {owner(name) for name in written - schedule.removed},
        )
        self._forget_unread()
        self.handler = NumbaHandler(self.arguments)
        self.handler.on_store = self._keep
        self.handler.reduce = self._reduce
        self.function = self.handler.block
        self.kept = index_symbols("i", len(node.ranges))
        self.reduced = index_symbols("r", len(node.reduction_ranges))
        self.handler.ranges = (
            *zip(self.kept, node.ranges),
            *zip(self.reduced, node.reduction_ranges),
        )
        self.scratch: dict[str, str] = {}
        self.current = self.bodies[0]
        self.several_lines = len(user_lines(node)) > 1

    def _forget_unread(self) -> None:
        """Drop the kernel's own buffers whose values are always in variables from those read."""
        for body in self.bodies:
            readers = [b for b in self.bodies if body.name in b.read_names]
            is_scalar = body.is_reduction or not body.covers_reduction
            same_pass = all(self.levels[b.name] == self.levels[body.name] for b in readers)
            root = self.schedule.inplace.owner(body.name)
            if (is_scalar or same_pass) and root == body.name:
                self.arguments.read.discard(root)

    def print(self, name: str) -> Kernel[KernelSource]:
        """Write all loops, then the function around them."""
        with use_handler(self.handler):
            iterations = self.write_loops()
        grain, inner = self._grain(), self._inner()
        signature = (
            *self.arguments.pointers.values(), *self.arguments.sizes.values(), "error",
        )  # fmt: skip
        lines = [f"def {name}(lo, hi, {', '.join(signature)}):"]
        if not self.several_lines:
            lines += [f"    {line}" for line in user_lines(self.node)]
        lines += self._lines(1)
        if self.handler.checks_late:
            lines += [f"    if {WRONG}:", "        error[0], error[1] = 1, 1", "        return 1"]
        lines.append("    return 0")
        roots = tuple(self.arguments.pointers)
        types = tuple(operators.MEMORY_TYPE[self.arguments.dtypes[root]] for root in roots)
        text = "\n".join(lines) + "\n"
        source = KernelSource(name, text, types, len(self.arguments.sizes), grain, inner)
        return Kernel(source, iterations, roots, tuple(self.arguments.sizes))

    def write_loops(self) -> Expr:
        """Write the body of the function; return the number of iterations."""
        raise NotImplementedError

    def _lines(self, level: int = 0) -> list[str]:
        """Return the lines of the function, without conversions of merely copied elements."""
        return drop_unused(self.function.render(level), {name for name, _ in self.handler.patterns})

    def _grain(self) -> int:
        lines = code_in(self._lines())
        cost = sum(
            10 * len(_FUNCTION_CALL.findall(line)) + (2 if "_ptr" in line else 1) for line in lines
        )
        elements = math.prod(size for size in self.inner_sizes() if isinstance(size, int))
        return max(1, WORK_OF_A_THREAD // max(1, cost * elements))

    def _inner(self) -> int | None:
        """Return the size argument that counts the work of an iteration, if that varies."""
        varying = product(size for size in self.inner_sizes() if not isinstance(size, int))
        if isinstance(varying, int):
            return None
        self.arguments.size(varying)
        return list(self.arguments.sizes).index(varying)

    def inner_sizes(self) -> Sequence[Expr]:
        """Return the loops inside one iteration."""
        raise NotImplementedError

    # -- loops ----------------------------------------------------------------------------------

    def enter(self, header: str, *variables: str) -> Block:
        """Open a loop inside the current one; its variables depend on its depth."""
        block = Block(header, parent=self.handler.block)
        self.handler.block = block
        for variable in variables:
            self.handler.depths[variable] = block.depth
        return block

    def leave(self, block: Block) -> None:
        """Close a loop."""
        block.close()
        assert block.parent is not None
        self.handler.block = block.parent

    def enter_flattened(self, count: int, extra: Expr = 1, extra_name: str = "") -> Block:
        """Open the loop shared by threads over the first `count` kept loops, maybe in blocks."""
        sizes = [*self.node.ranges[:count], *([extra] if extra_name else [])]
        names = [*(str(s) for s in self.kept[:count]), *([extra_name] if extra_name else [])]
        return self.enter_shared(names, sizes)

    def enter_shared(self, names: Sequence[str], sizes: Sequence[Expr]) -> Block:
        """Open one loop shared by threads that stands for a nest of loops."""
        if len(names) == 1:
            return self.enter(f"for {names[0]} in range(lo, hi):", names[0])
        block = self.enter("for i in range(lo, hi):", *names)
        for position, name in enumerate(names):
            inner = product(sizes[position + 1 :])
            text = "i" if inner == 1 else f"i // {self.text(inner)}"
            if position:
                text += f" % {self.text(sizes[position])}"
            block.lines.append(f"{name} = {text}")
        return block

    def local_array(self, prefix: str, length: Expr, dtype: torch.dtype) -> str:
        """Reserve a stack array of the function."""
        name = self.handler.namer.fresh(prefix)
        self.function.lines.append(
            f"{name} = local_array({length}, {operators.MEMORY_TYPE[dtype]})"
        )
        return name

    def text(self, size: Expr) -> str:
        """Return a size as text: a literal, or an expression of size arguments in parentheses."""
        text = self.handler.index(size)[0]
        return text if text.isidentifier() or text.isdigit() else f"({text})"

    def run(self, body: SchedulerNode) -> None:
        """Write a loop body into the current loop."""
        self.current = body
        block, before = self.handler.block, len(self.handler.block.lines)
        body.run(self.kept, self.reduced if body.covers_reduction else ())
        if self.several_lines and len(block.lines) > before:
            block.lines[before:before] = user_lines(body)

    # -- values of the kernel's own buffers --------------------------------------------------------

    def _keep(self, name: str, value: TextValue) -> bool:
        """Remember the value that a body has computed; return whether memory needs it, too."""
        self.handler.at_hand[name] = lambda: value
        if name not in self.schedule.removed:
            return True
        if name in self.scratch:
            element = operators.store(value.dtype, value.text)
            self.handler.block.lines.append(f"{self.scratch[name]}[{self._position()}] = {element}")
        return False

    def _position(self) -> str:
        raise NotImplementedError

    def _reduce(
        self, kind: ReductionKind, dtype: torch.dtype, values: list[TextValue]
    ) -> TextValue:
        raise NotImplementedError

    def node_scans(self) -> bool:
        """Return whether a body is a scan, for which eager keeps float32 in float64."""
        return any(body.is_scan for body in self.bodies)
