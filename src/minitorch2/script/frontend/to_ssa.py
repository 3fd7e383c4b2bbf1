"""Names to values: the first four steps of the conversion to SSA form.

A graph of the emission stores and loads names, and its loops have a block for the condition. The
steps are those of the TorchScript overview ("Conversion To SSA"), in its order:

1. Names that branches and loops store are carried through them, as outputs and inputs.
2. `break` and `continue` become `prim::LoopContinuation`, with the values of the next iteration.
3. The condition of a loop is computed before it and at the end of its body.
4. Loads become the values that were stored, and both kinds of nodes go.

The fifth step is `exit_transform`. It has to come last: types of names are settled by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.ir.types import BOOL, Type, unify
from minitorch2.script.syntax.errors import ScriptError

CARRIED: Final = "carried"
"""The attribute of a loop that has the names of what it carries, until names are gone."""
_EXITS: Final = frozenset(("prim::Return", "prim::Break", "prim::Continue", "prim::RaiseException"))


def to_ssa(graph: Graph) -> None:
    """Replace names by values, in place.

    Raises:
        ScriptError: a name is read that has no value on some way to the place.
    """
    remove_unreachable(graph.block)
    carry_names(graph.block, {})
    continue_loops(graph.block, None)
    inline_conditions(graph.block)
    erase_names(graph.block, {})


def remove_unreachable(block: Block) -> bool:
    """Remove what follows an exit in a block; return whether each way through the block exits.

    A `prim::Exit` stays if its `prim::Enter` comes before the exit. A result of the block that is
    never computed becomes `prim::Uninitialized`.
    """
    ended, depth = False, 0
    doomed = []
    for node in block.nodes:
        if not ended:
            ends = [remove_unreachable(inner) for inner in node.blocks]
            ended = node.kind in _EXITS or (node.kind == "prim::If" and all(ends))
            continue
        depth += node.kind == "prim::Enter"
        if node.kind == "prim::Exit" and not depth:
            continue
        depth -= node.kind == "prim::Exit"
        doomed.append(node)
    for position, value in enumerate(block.outputs):
        if value.node in doomed:
            missing = block.graph.create("prim::Uninitialized", (), (value.type,))
            block.replace_output(position, block.insert(missing).output)
    for node in reversed(doomed):
        node.destroy()
    return ended


def always_exits(block: Block) -> bool:
    """Return whether no way through a block reaches its end."""
    return any(
        node.kind in _EXITS or (node.kind == "prim::If" and all(map(always_exits, node.blocks)))
        for node in block.nodes
    )


# -- 1. names through control flow ----------------------------------------------------------------


def carry_names(block: Block, known: Mapping[str, Type]) -> dict[str, Type]:
    """Let branches and loops give the names that they store to what follows.

    Args:
        block: where to do so; inner blocks as well.
        known: the names that have a value before the block, with their types.

    Returns:
        The names that have a value after it.
    """
    names = dict(known)
    for node in list(block.nodes):
        if node.kind == "prim::Store":
            names[node.attributes["name"]] = node.inputs[0].type
        elif node.kind == "prim::If":
            names |= _carry_through_branches(node, names)
        elif node.kind == "prim::Loop":
            _carry_through_loop(node, names)
    return names


def _carry_through_branches(node: Node, known: Mapping[str, Type]) -> dict[str, Type]:
    """Return the names that have other types, or a value at all, because of the branches."""
    after = [carry_names(block, known) for block in node.blocks]
    ends = [always_exits(block) for block in node.blocks]
    if all(ends):
        return {}
    found: dict[str, Type] = {}
    for name in dict.fromkeys(name for block in node.blocks for name in _stored(block)):
        types = [names.get(name) for names, end in zip(after, ends) if not end]
        joined = _joined(types)
        if joined is not None:
            found[name] = joined
            for block, end in zip(node.blocks, ends):
                block.add_output(_undefined(block, joined) if end else _load(block, name, joined))
            _store_after(node, name, joined)
    return found


def _joined(types: list[Type | None]) -> Type | None:
    first, *others = types
    for other in others:
        first = None if first is None or other is None else unify(first, other)
    return first


def _carry_through_loop(node: Node, known: Mapping[str, Type]) -> None:
    body, condition = node.blocks
    names = [name for name in dict.fromkeys(_stored(body)) if name in known]
    graph, first = node.graph, body.parameters.next
    assert first is not None
    for name in names:
        with graph.inserting_before(node):
            node.add_input(_insert_load(graph, name, known[name], node))
        with graph.inserting_before(first):
            _insert_store(graph, name, body.add_input(name, known[name]), node)
    carry_names(body, known)
    carry_names(condition, known)
    node.attributes[CARRIED] = tuple(names)
    end = always_exits(body)
    for name in names:
        kind = known[name]
        body.add_output(_undefined(body, kind) if end else _load(body, name, kind))
        _store_after(node, name, kind)


def _stored(block: Block) -> list[str]:
    """Return the names that a block stores, inner blocks included."""
    stores = (node for node in block.all_nodes() if node.kind == "prim::Store")
    return [node.attributes["name"] for node in stores]


def _store_after(node: Node, name: str, type: Type) -> None:
    following, value = node.next, node.add_output(name, type)
    assert following is not None
    with node.graph.inserting_before(following):
        _insert_store(node.graph, name, value, node)


def _insert_store(graph: Graph, name: str, value: Value, at: Node) -> None:
    node = graph.create("prim::Store", (value,), 0, range=at.range)
    node.attributes["name"] = name
    graph.insert(node)


def _insert_load(graph: Graph, name: str, type: Type, at: Node) -> Value:
    node = graph.create("prim::Load", (), (type,), range=at.range)
    node.attributes["name"] = name
    return graph.insert(node).output


def _load(block: Block, name: str, type: Type) -> Value:
    """Return what a name has at the end of a block."""
    owner = block.owner
    assert owner is not None
    with block.graph.inserting_at_end(block):
        return _insert_load(block.graph, name, type, owner)


def _undefined(block: Block, type: Type) -> Value:
    return block.insert(block.graph.create("prim::Uninitialized", (), (type,))).output


# -- 2. break and continue ------------------------------------------------------------------------


def continue_loops(block: Block, loop: Node | None) -> None:
    """Replace `prim::Break` and `prim::Continue` by continuations of the loop around the block."""
    for node in list(block.nodes):
        if node.kind in ("prim::Break", "prim::Continue"):
            assert loop is not None
            _continue_loop(node, loop)
            continue
        for inner in node.blocks:
            continue_loops(inner, node if node.kind == "prim::Loop" else loop)


def _continue_loop(node: Node, loop: Node) -> None:
    graph, values = node.graph, list[Value]()
    with graph.inserting_before(node):
        for name, before in zip(loop.attributes[CARRIED], loop.inputs[1:]):
            values.append(_insert_load(graph, name, before.type, node))
        if node.kind == "prim::Break":
            again = graph.constant(False, type=BOOL, range=node.range)
        else:
            again = _inlined_condition(loop)
        made = graph.create("prim::LoopContinuation", (again, *values), 0, range=node.range)
        graph.insert(made)
    node.destroy()


# -- 3. conditions --------------------------------------------------------------------------------


class _Copies(dict[Value, Value]):
    """The copy of each value; values from outside of what is copied stand for themselves."""

    def __missing__(self, value: Value) -> Value:
        return value


def _inlined_condition(loop: Node) -> Value:
    """Insert a copy of a loop's condition; return the value that says whether to go on."""
    graph, condition, copies = loop.graph, loop.blocks[1], _Copies()
    for node in condition.nodes:
        graph.insert(graph.copy_node(node, copies))
    return copies[condition.outputs[0]]


def inline_conditions(block: Block) -> None:
    """Compute conditions of loops before them and at the end of their bodies."""
    for node in list(block.nodes):
        for inner in node.blocks:
            inline_conditions(inner)
        if node.kind == "prim::Loop":
            with node.graph.inserting_before(node):
                node.insert_input(1, _inlined_condition(node))
            body = node.blocks[0]
            with node.graph.inserting_at_end(body):
                body.returns.insert_input(0, _inlined_condition(node))
            node.remove_block(1)


# -- 4. loads and stores --------------------------------------------------------------------------


def erase_names(block: Block, values: Mapping[str, Value]) -> None:
    """Replace each load by the value that was stored last.

    Args:
        block: where to do so; inner blocks as well.
        values: what names have before the block.
    """
    here = dict(values)
    for node in list(block.nodes):
        name = node.attributes.get("name", "")
        if node.kind == "prim::Store":
            here[name] = value = node.inputs[0]
            if not value.name and value.node.kind != "prim::Constant":
                value.name = name
            node.destroy()
        elif node.kind == "prim::Load":
            node.output.replace_all_uses_with(_value_of(name, here, node))
            node.destroy()
        else:
            node.attributes.pop(CARRIED, None)
            for inner in node.blocks:
                erase_names(inner, here)


def _value_of(name: str, values: Mapping[str, Value], load: Node) -> Value:
    if name in values:
        return values[name]
    message = f"`{name}` has no value here on some way through the function"
    fix = f"give `{name}` a value before the branch or the loop that assigns it"
    raise ScriptError(message, load.range, code="script-unset-name", fix=fix)
