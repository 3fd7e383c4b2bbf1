"""Exits to values: the last step of the conversion to SSA form (TorchScript overview).

After it a graph has no `prim::LoopContinuation` and no `prim::Return` but that of the blocks. A
branch that always exits gets the rest of its block in its other branch: then no value has to say
whether the exit was taken. If an exit may be taken or not, a value of type bool says so, and the
rest of the block becomes conditional. A block that always raises an exception counts as one that
exits; its results are `prim::Uninitialized`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minitorch2.errors import VerificationError
from minitorch2.script.frontend.remove_outputs import remove_outputs
from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.ir.types import BOOL, Type
from minitorch2.script.syntax.source import SourceRange


def exit_transform(graph: Graph) -> None:
    """Replace exits by outputs of blocks, in place.

    Raises:
        VerificationError: there are ways through the graph that return, and others that do not.
    """
    make_with_blocks(graph.block)
    _exit_loops(graph.block)
    types = next((list(_types(node)) for node in graph.nodes() if node.kind == "prim::Return"), [])
    found = _Exits(graph, "prim::Return", types).of(graph.block)
    if found is not None:
        if not found.is_certain:
            message = "a graph returns on some ways only"
            raise VerificationError(message, code="script-graph")
        graph.block.returns.remove_all_inputs()
        for value in found.values:
            graph.add_output(value)
    remove_with_blocks(graph.block)
    remove_outputs(graph)


def _types(node: Node) -> tuple[Type, ...]:
    return tuple(value.type for value in node.inputs)


def _exit_loops(block: Block) -> None:
    """Let bodies of loops give what their continuations give; inner loops come first."""
    for node in list(block.nodes):
        for inner in node.blocks:
            _exit_loops(inner)
        if node.kind == "prim::Loop":
            body = node.blocks[0]
            carried = [value.type for value in node.outputs]  # values may be of narrower types
            exits = _Exits(node.graph, "prim::LoopContinuation", [BOOL, *carried])
            found = exits.of(body)
            if found is not None:
                exits.replace_outputs(body, found)


@dataclass(frozen=True)
class _Exit:
    """An exit that a block takes, or may take.

    Attributes:
        flag: says whether the exit was taken; None if it always is.
        values: what it gives to its target.
    """

    flag: Value | None
    values: list[Value]

    @property
    def is_certain(self) -> bool:
        return self.flag is None


class _Exits:
    """Replaces the exits of one kind.

    Args:
        graph: where they are.
        kind: the kind of their nodes, whose inputs are what they give.
        types: the types of what they give.
    """

    def __init__(self, graph: Graph, kind: str, types: list[Type]) -> None:
        self.graph = graph
        self.kind = kind
        self.types = types

    def of(self, block: Block) -> _Exit | None:
        """Remove the exits from a block; return what stands for them at its end, if any.

        The outputs of the block mean nothing if the exit was taken.
        """
        for node in list(block.nodes):
            found = self.at(node, block)
            if found is not None:
                return self.after(node, block, found)
        return None

    def at(self, node: Node, block: Block) -> _Exit | None:
        """Return the exit that a node is or contains; what follows it is not changed."""
        if node.kind == self.kind:
            return _Exit(None, list(node.inputs))
        if node.kind == "prim::RaiseException":
            return _Exit(None, self.undefined(block, self.types))
        if node.kind == "prim::If":
            self.sink(node, block)
            return self.of_branches(node)
        if node.kind == "prim::With":
            found = self.of(node.blocks[0])
            return None if found is None else self.given(node, [found], node.blocks[:1])
        if node.kind == "prim::Loop" and self.kind == "prim::Return":
            return self.of_loop(node, block)
        return None

    def after(self, node: Node, block: Block, found: _Exit) -> _Exit:
        """Remove what follows a certain exit, or make it conditional."""
        rest = _following(node)
        if found.is_certain:
            self.set_outputs(block, self.undefined(block, list(_types(block.returns))))
            created = {value.node for value in (*found.values, *block.outputs)}
            for later in reversed(rest):
                if later not in created:
                    later.destroy()
            if node.kind == self.kind:
                node.destroy()
            return found
        return self.skip(rest, block, found) if rest or block.outputs else found

    def skip(self, rest: list[Node], block: Block, found: _Exit) -> _Exit:
        """Run the rest of a block, and compute its outputs, only if the exit was not taken."""
        assert found.flag is not None
        choice = self.insert("prim::If", block, (found.flag,), ())
        gone, other = choice.add_block(), choice.add_block()
        for node in rest:
            node.move_before(other.returns)
        outputs = block.outputs
        self.set_outputs(block, ())
        self.set_outputs(other, outputs)
        second = self.of(other)
        self.set_outputs(gone, self.undefined(gone, [value.type for value in outputs]))
        made = [choice.add_output(value.name, value.type) for value in outputs]
        self.set_outputs(block, made)
        return self.given(choice, [_Exit(None, found.values), second], choice.blocks)

    def of_branches(self, node: Node) -> _Exit | None:
        found = [self.of(block) for block in node.blocks]
        return None if found == [None, None] else self.given(node, found, node.blocks)

    def given(self, node: Node, found: list[_Exit | None], blocks: list[Block]) -> _Exit:
        """Let a node give the exits of its blocks: a flag if some are not certain, and values."""
        certain = all(each is not None and each.is_certain for each in found)
        for block, each in zip(blocks, found):
            if not certain:
                block.add_output(self.flag(block, each))
            values = self.undefined(block, self.types) if each is None else each.values
            for value in values:
                block.add_output(value)
        flag = None if certain else node.add_output("did_exit", BOOL)
        return _Exit(flag, [node.add_output("", type) for type in self.types])

    def of_loop(self, node: Node, block: Block) -> _Exit | None:
        """Let a loop stop where its body exits, and carry the flag and the values out of it."""
        body = node.blocks[0]
        found = self.of(body)
        if found is None:
            return None
        flag, again = self.flag(body, found), body.outputs[0]
        choice = self.insert("prim::If", body, (flag,), (BOOL,))
        stop, go = choice.add_block(), choice.add_block()
        stop.add_output(self.constant(stop, False))
        go.add_output(again)
        body.replace_output(0, choice.output)
        types = [BOOL, *self.types]
        with self.graph.inserting_before(node):
            starts = [self.graph.constant(False, type=BOOL)]
            starts += [self.graph.insert(self.uninitialized(type)).output for type in self.types]
        for start, type, value in zip(starts, types, (flag, *found.values)):
            node.add_input(start)
            body.add_input("", type)
            body.add_output(value)
        did_exit = node.add_output("did_exit", BOOL)
        return _Exit(did_exit, [node.add_output("", type) for type in self.types])

    def replace_outputs(self, block: Block, found: _Exit) -> None:
        """Let a block give the values of its exit if that was taken, else its own outputs."""
        values: Sequence[Value] = found.values
        if found.flag is not None:
            own = block.outputs
            choice = self.insert("prim::If", block, (found.flag,), self.types)
            self.set_outputs(choice.add_block(), values)
            self.set_outputs(choice.add_block(), own)
            values = choice.outputs
        self.set_outputs(block, values)

    # -- sinking

    def sink(self, node: Node, block: Block) -> None:
        """Move the rest of a block into the branch that does not exit, if the other one does.

        In Python: ``if c: return a`` and the rest become ``if c: return a`` ``else:`` the rest.
        """
        leaves = [self.must_leave(branch) for branch in node.blocks]
        rest = _following(node)
        if leaves[0] == leaves[1] or not (rest or block.outputs):
            return
        gone, other = node.blocks if leaves[0] else reversed(node.blocks)
        for output, value in zip(node.outputs, other.outputs):
            output.replace_all_uses_with(value)
        for later in rest:
            later.move_before(other.returns)
        outputs = block.outputs
        self.set_outputs(other, outputs)
        self.set_outputs(gone, self.undefined(gone, [value.type for value in outputs]))
        node.outputs.clear()
        made = [node.add_output(value.name, value.type) for value in outputs]
        self.set_outputs(block, made)

    def must_leave(self, block: Block) -> bool:
        """Return whether each way through a block ends with an exit of this kind, or raises."""
        return any(
            node.kind in (self.kind, "prim::RaiseException")
            or (node.kind == "prim::If" and all(map(self.must_leave, node.blocks)))
            or (node.kind == "prim::With" and self.must_leave(node.blocks[0]))
            for node in block.nodes
        )

    # -- small pieces

    def insert(
        self, kind: str, block: Block, inputs: Sequence[Value], outputs: Sequence[Type]
    ) -> Node:
        return block.insert(self.graph.create(kind, inputs, outputs, range=_range(block)))

    def uninitialized(self, type: Type) -> Node:
        return self.graph.create("prim::Uninitialized", (), (type,))

    def undefined(self, block: Block, types: list[Type]) -> list[Value]:
        """Insert, at the end of a block, values that no run will use."""
        return [block.insert(self.uninitialized(type)).output for type in types]

    def constant(self, block: Block, value: bool) -> Value:
        with self.graph.inserting_at_end(block):
            return self.graph.constant(value, type=BOOL, range=_range(block))

    def flag(self, block: Block, found: _Exit | None) -> Value:
        """Return, at the end of a block, a value that says whether the exit was taken."""
        if found is not None and found.flag is not None:
            return found.flag
        return self.constant(block, found is not None)

    def set_outputs(self, block: Block, values: Sequence[Value]) -> None:
        block.returns.remove_all_inputs()
        for value in values:
            block.add_output(value)


def _following(node: Node) -> list[Node]:
    """Return the nodes after a node in its block."""
    found, later = [], node.next
    while later is not None and node.block is not None and later is not node.block.returns:
        found.append(later)
        later = later.next
    return found


def _range(block: Block) -> SourceRange:
    return block.owner.range if block.owner is not None else block.returns.range


# -- blocks of with statements --------------------------------------------------------------------


def make_with_blocks(block: Block) -> None:
    """Put what stands between `prim::Enter` and `prim::Exit` into a block of a `prim::With`.

    The `prim::Exit` comes into its second block: it runs whether or not the first one exits. Values
    of the first block that later nodes read are its outputs.
    """
    for enter in list(block.nodes):
        if enter.kind == "prim::Enter" and enter.block is block:
            _make_with_block(enter, block)
    for node in block.nodes:
        for inner in node.blocks:
            make_with_blocks(inner)


def _make_with_block(enter: Node, block: Block) -> None:
    inside, leave, depth = list[Node](), None, 0
    for node in _following(enter):
        if node.kind == "prim::Exit" and not depth:
            leave = node
            break
        depth += (node.kind == "prim::Enter") - (node.kind == "prim::Exit")
        inside.append(node)
    if leave is None:
        raise VerificationError("a prim::Enter has no prim::Exit", code="script-graph")
    made = block.graph.create("prim::With", (), 0, range=enter.range).insert_after(leave)
    first, second = made.add_block(), made.add_block()
    for node in inside:
        node.move_before(first.returns)
    leave.move_before(second.returns)
    for value in [value for node in inside for value in node.outputs]:
        outside = [use for use in value.uses if not _is_inside(use.user, first)]
        if outside:
            output = made.add_output(value.name, value.type)
            first.add_output(value)
            for use in outside:
                use.user.replace_input(use.index, output)


def _is_inside(node: Node, block: Block) -> bool:
    at = node.block
    while at is not None and at is not block:
        at = at.owner.block if at.owner is not None else None
    return at is block


def remove_with_blocks(block: Block) -> None:
    """Put the nodes of each `prim::With` back between `prim::Enter` and `prim::Exit`."""
    for node in list(block.nodes):
        for inner in node.blocks:
            remove_with_blocks(inner)
        if node.kind == "prim::With":
            first, second = node.blocks
            for output, value in zip(node.outputs, first.outputs):
                output.replace_all_uses_with(value)
            for each in [*first.nodes, *second.nodes]:
                each.move_before(node)
            node.destroy()
