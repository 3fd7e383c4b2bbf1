"""Graphs as linear instructions, which the interpreter runs.

    8 = t move(3)              gather registers on the stack, run the operation, store the results
    JumpZ move(4)              an operation returns how far to jump from the next instruction

`move` marks the last read of a register, which is emptied, so that a value dies with its last use.
A `Drop` empties it if the last use depends on the way that control takes. There is a register for
each value and no allocation of them (TorchScript overview, "Interpreter").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.runtime.meanings import Makers, call_of

Stack: TypeAlias = list[Any]
Operation: TypeAlias = Callable[[Stack], int]
"""Pops its arguments off the stack, pushes its results, returns a jump from the next one."""


@dataclass(frozen=True)
class Instruction:
    """One step.

    Attributes:
        name: what the listing calls it: the kind without its namespace.
        operation: what runs, on the stack.
        inputs: registers to gather.
        moves: for each input, whether the register is emptied.
        outputs: registers to store the results in.
        jump: for the reader, where it may go, from the next instruction.
    """

    name: str
    operation: Operation
    inputs: tuple[int, ...] = ()
    moves: tuple[bool, ...] = ()
    outputs: tuple[int, ...] = ()
    jump: int | None = None

    def __str__(self) -> str:
        gathered = zip(self.inputs, self.moves, strict=True)
        reads = ", ".join(
            f"move({register})" if last else str(register) for register, last in gathered
        )
        target = "" if self.jump is None else f" {self.jump:+d}"
        return f"{', '.join(map(str, self.outputs))} = {self.name}{target} {reads}".rstrip()


@dataclass
class _Listing:
    """Instructions from the last to the first, and the registers that are read later."""

    live: set[int]
    reversed: list[Instruction] = field(default_factory=list)

    def add(
        self,
        name: str,
        operation: Operation,
        inputs: Sequence[int] = (),
        outputs: Sequence[int] = (),
        jump: int | None = None,
    ) -> None:
        """Put an instruction before those that are there."""
        self.drop(register for register in outputs if register not in self.live)
        self.live -= {*outputs}
        last = [r not in self.live and r not in inputs[k + 1 :] for k, r in enumerate(inputs)]
        self.live |= {*inputs}
        made = Instruction(name, operation, tuple(inputs), tuple(last), tuple(outputs), jump)
        self.reversed.append(made)

    def drop(self, registers: Iterable[int]) -> None:
        """Empty registers that nothing reads from here on."""
        dropped = tuple(sorted(registers))
        if dropped:
            moves = (True,) * len(dropped)
            self.reversed.append(Instruction("Drop", _drop(len(dropped)), dropped, moves))


class Code:
    """The instructions of a graph; all runs share them.

    Args:
        graph: in static single assignment form, without exits.
        make: makes functions of the graphs that nodes call.

    Attributes:
        instructions: in order; the first loads the inputs, the last stores the results.
        registers: how many there are.
        output_count: how many results the last instruction leaves on the stack.
    """

    def __init__(self, graph: Graph, make: Makers) -> None:
        self._make = make
        self._registers: dict[Value, int] = {}
        self.registers = 0
        self._number(graph.block)
        self.output_count = len(graph.outputs)
        listing = _Listing(set())
        listing.add("Store", _stay, self._of(graph.outputs))
        self._block(graph.block, listing)
        listing.add("Load", _stay, (), self._of(graph.inputs))
        self.instructions = tuple(reversed(listing.reversed))

    def __str__(self) -> str:
        return "\n".join(map(str, self.instructions))

    def _of(self, values: Iterable[Value]) -> tuple[int, ...]:
        return tuple(self._registers[value] for value in values)

    def _add(self, value: Value) -> None:
        if value not in self._registers:
            self._registers[value] = self.registers
            self.registers += 1

    def _number(self, block: Block) -> None:
        """Give each value a register; what a loop carries has that of the loop's output."""
        for value in block.inputs:
            self._add(value)
        for node in block.nodes:
            for value in node.outputs:
                self._add(value)
            if node.kind == "prim::Loop":
                carried = node.blocks[0].inputs[1:]
                self._registers |= zip(carried, self._of(node.outputs), strict=True)
            for inner in node.blocks:
                self._number(inner)

    def _block(self, block: Block, listing: _Listing) -> None:
        for node in reversed(block.nodes):
            if node.kind == "prim::If":
                self._if(node, listing)
            elif node.kind == "prim::Loop":
                self._loop(node, listing)
            else:
                operation = operation_of(node, self._make)
                name = node.kind.partition("::")[2]
                listing.add(name, operation, self._of(node.inputs), self._of(node.outputs))

    def _if(self, node: Node, listing: _Listing) -> None:
        then, otherwise = (self._branch(node, block, listing.live) for block in node.blocks)
        both = then.live | otherwise.live
        for branch in (then, otherwise):
            branch.drop(both - branch.live)
        skipped = len(otherwise.reversed)
        listing.reversed += otherwise.reversed
        listing.reversed.append(Instruction("Jump", lambda stack: skipped, jump=skipped))
        listing.reversed += then.reversed
        listing.live = both
        away = len(then.reversed) + 1
        listing.add("JumpZ", _jump_if_false(away), self._of(node.inputs), jump=away)

    def _branch(self, node: Node, block: Block, live: set[int]) -> _Listing:
        branch = _Listing({*live})
        if node.outputs:
            branch.add("Assign", _stay, self._of(block.outputs), self._of(node.outputs))
        self._block(block, branch)
        return branch

    def _loop(self, node: Node, listing: _Listing) -> None:
        (body,) = node.blocks
        most, *first = self._of(node.inputs)
        carried, count = self._of(node.outputs), self._registers[body.inputs[0]]
        entered, after = (count, *carried), {*listing.live}
        kept = self._read_in(body) | {most}
        listing.drop((kept | {*entered}) - after)
        inner = _Listing(after | kept | {*entered})
        inner.add("LoopNext", _stay, (count, most, *self._of(body.outputs)), entered)
        self._block(body, inner)
        inner.drop({*carried} - inner.live)
        size = len(inner.reversed)
        inner.reversed[0] = replace(inner.reversed[0], operation=_next(size, carried), jump=-size)
        listing.reversed += inner.reversed
        listing.live = after | kept | inner.live | {*entered}
        listing.add("Loop", _begin(size, carried), (most, *first), entered, size)

    def _read_in(self, body: Block) -> set[int]:
        """Return the registers from outside that a loop's body reads."""
        own = {*self._of(body.inputs)}
        read = {*self._of(body.outputs)}
        for node in body.all_nodes():
            own |= {*self._of(node.outputs)}
            read |= {*self._of(node.inputs)}
            for block in node.blocks:
                own |= {*self._of(block.inputs)}
                read |= {*self._of(block.outputs)}
        return read - own


def operation_of(node: Node, make: Makers) -> Operation:
    """Return what a node without blocks does to the stack."""
    call, inputs, outputs = call_of(node, make), len(node.inputs), len(node.outputs)

    def operation(stack: Stack) -> int:
        start = len(stack) - inputs
        args = stack[start:]
        del stack[start:]
        result = call(args)
        del args
        if outputs == 1:
            stack.append(result)
        elif outputs:
            stack.extend(result)
        return 0

    return operation


def _stay(stack: Stack) -> int:
    return 0


def _drop(count: int) -> Operation:
    def drop(stack: Stack) -> int:
        del stack[-count:]
        return 0

    return drop


def _jump_if_false(distance: int) -> Operation:
    return lambda stack: 0 if stack.pop() else distance


def _begin(size: int, carried: Sequence[int]) -> Operation:
    """Take the most trips, whether to begin, and what the loop carries; leave 0 and the latter."""

    def begin(stack: Stack) -> int:
        start = len(stack) - len(carried)
        most, goes = stack[start - 2 : start]
        stack[start - 2 : start] = [0]
        return 0 if goes and most > 0 else size

    return begin


def _next(size: int, carried: Sequence[int]) -> Operation:
    """Take the count, the most trips, whether to go on, and what the loop carries; count on."""

    def go_on(stack: Stack) -> int:
        start = len(stack) - len(carried)
        count, most, goes = stack[start - 3 : start]
        stack[start - 3 : start] = [count + 1]
        return -size if goes and count + 1 < most else 0

    return go_on
