"""Give guards the rest of the program, for the case that one fails.

Guards that stand together become one `prim::bailout`, since one rest serves them all. It reads the
guarded tensors and every other value that the rest needs, and gives the tensors on. Its
``Subgraph`` is the rest: what follows in the block, the iterations that remain of each loop around
it, and what follows those (TorchScript overview, "Profiling Programs": InsertBailoutNodes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitorch2.script.ir.graph import Graph, Node, Value
from minitorch2.script.ir.types import INT, Type, erase_facts
from minitorch2.script.passes.copying import Replacements, block_of, replace_node
from minitorch2.script.passes.insert_guards import GUARD
from minitorch2.script.passes.rewriting import Rewrite, script_pass

BAILOUT = "prim::bailout"


@script_pass
def insert_bailouts(graph: Graph) -> Iterator[Rewrite]:
    """Replace guards by bailouts; guards in a block that cannot be left are removed."""
    runs = list(_runs(graph))
    rests = [rest_of(run) if _can_leave(run[0]) else None for run in runs]
    checked = Replacements()
    for index, (run, rest) in enumerate(zip(runs, rests, strict=True)):
        if rest is None:
            yield Rewrite("there is no way out of its block", run[0])
            made = [guard.inputs[0] for guard in run]
        else:
            yield Rewrite(f"gets rest {index}, with {len(run) - 1} more", run[0])
            made = _bailout(run, rest[0], [checked[value] for value in rest[1]], index)
        for guard, value in zip(run, made, strict=True):
            checked[guard.output] = value
            replace_node(guard, [value])


def _runs(graph: Graph) -> Iterator[list[Node]]:
    """Yield guards in order; those between which nothing is computed, as one list."""
    run: list[Node] = []
    for node in graph.nodes():
        if node.kind != GUARD:
            continue
        if run and not _stand_together(run, node):
            yield run
            run = []
        run.append(node)
    if run:
        yield run


def _stand_together(run: Sequence[Node], guard: Node) -> bool:
    node = run[-1].next
    while node is not None and node.kind == "prim::Constant":
        node = node.next
    return node is guard and all(guard.inputs[0] is not other.output for other in run)


def _can_leave(guard: Node) -> bool:
    return all(owner.kind in ("prim::If", "prim::Loop") for owner in guard.owners())


def _bailout(run: Sequence[Node], rest: Graph, live: Sequence[Value], index: int) -> list[Value]:
    """Insert a bailout at the last guard of a run; return its outputs."""
    types, last = [guard.output.type for guard in run], run[-1]
    bailout = last.graph.create(BAILOUT, live, types, range=run[0].range).insert_before(last)
    bailout.attributes.update(Subgraph=rest, index=index)
    for guard, output in zip(run, bailout.outputs, strict=True):
        output.name = guard.output.name
    return bailout.outputs


class Continuation(dict[Value, Value]):
    """Values of the rest of a program; what it does not compute is one more input of its graph."""

    def __init__(self, name: str) -> None:
        self.graph = Graph(name)
        self.live: list[Value] = []

    def __missing__(self, value: Value) -> Value:
        """Return a new input for a value, or a copy of a constant at the start."""
        if value.node.kind != "prim::Constant":
            return self.add_input(value)
        node = self.graph.copy_node(value.node, {})
        self[value] = node.insert_after(self.graph.block.parameters).output
        return self[value]

    def add_input(self, value: Value) -> Value:
        """Return a new input of the graph for a value."""
        self.live.append(value)
        self[value] = self.graph.add_input(value.name, erase_facts(value.type))
        return self[value]

    def compute(self, kind: str, inputs: Sequence[Value], result: Type) -> Value:
        """Append a node that gives one value."""
        return self.graph.insert(self.graph.create(kind, inputs, [result])).output


def rest_of(run: Sequence[Node]) -> tuple[Graph, list[Value]]:
    """Return the program behind guards, without guards, and what stands for its inputs now.

    The first inputs are the tensors that the guards check.
    """
    rest = Continuation("bailout")
    for guard in run:
        rest[guard.output] = rest.add_input(guard.inputs[0])
    node: Node | None = run[-1]
    while node is not None:
        node = _copy_rest_of_block(node, rest)
    _forget_guards(rest.graph)
    return rest.graph, rest.live


def _copy_rest_of_block(node: Node, rest: Continuation) -> Node | None:
    """Copy what follows a node in its block; return the node that owns the block."""
    block = block_of(node)
    following = node.next
    while following is not None and following is not block.returns:
        rest.graph.insert(rest.graph.copy_node(following, rest))
        following = following.next
    results = [rest[value] for value in block.outputs]
    owner = block.owner
    if owner is None:
        for value in results:
            rest.graph.add_output(value)
        return None
    if owner.kind == "prim::Loop":
        results = _remaining_iterations(owner, results, rest)
    rest.update(zip(owner.outputs, results, strict=True))
    return owner


def _remaining_iterations(loop: Node, results: list[Value], rest: Continuation) -> list[Value]:
    """Append the loop of the iterations that follow the current one; return its outputs."""
    body, graph = loop.blocks[0], rest.graph
    one = graph.constant(1)
    start = rest.compute("aten::add", [rest[body.inputs[0]], one], INT)
    trips = rest.compute("aten::sub", [rest[loop.inputs[0]], start], INT)
    types = [erase_facts(output.type) for output in loop.outputs]
    again = graph.create("prim::Loop", [trips, *results], types, range=loop.range)
    graph.insert(again)
    saved = {value: rest[value] for value in body.inputs if value in rest}
    again.add_block().copy_from(body, rest)
    _count_from(again, start)
    rest.update(saved)
    return again.outputs


def _count_from(loop: Node, start: Value) -> None:
    """Let the body of a loop see numbers of iterations that begin at a value."""
    count = loop.blocks[0].inputs[0]
    if not count.uses:
        return
    graph = loop.graph
    number = graph.create("aten::add", [count, start], [INT], range=loop.range)
    number.insert_after(loop.blocks[0].parameters)
    for use in count.uses:
        if use.user is not number:
            use.user.replace_input(use.index, number.output)


def _forget_guards(graph: Graph) -> None:
    """Remove guards from the rest of a program, and what they made known."""
    for node in list(graph.nodes()):
        if node.kind == GUARD:
            replace_node(node, node.inputs)
            continue
        for value in (*node.outputs, *(v for block in node.blocks for v in block.inputs)):
            value.type = erase_facts(value.type)
