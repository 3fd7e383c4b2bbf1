"""Graphs that are the same but for names and order have one hash; any edit gives another."""

import operator
import random

import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from minitorch2.graph import (
    Graph,
    GraphModule,
    Node,
    canonical_text,
    graph_hash,
    map_nodes,
    to_fake,
)
from minitorch2.graph.passes import eliminate_dead_code
from tests.property.test_graphs import integer_graphs


def shuffled(graph: Graph, seed: int) -> Graph:
    """The same operations in another order that respects what they read, under other names."""
    choose, result, copies = random.Random(seed), Graph(), dict[Node, Node]()
    waiting = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    inputs = graph.placeholders
    while waiting or inputs:
        ready = [node for node in waiting if all(n in copies for n in node.all_input_nodes)]
        node = choose.choice([*inputs[:1], *ready])
        (inputs if node.op == "placeholder" else waiting).remove(node)
        args = map_nodes(node.args, copies.__getitem__)
        name = f"n{choose.randrange(10**6)}"
        copies[node] = result.create_node(node.op, node.target, args, name=name)
        copies[node].meta = dict(node.meta)
    result.output(map_nodes(graph.output_node.args[0], copies.__getitem__))
    return result


@given(integer_graphs(), st.integers())
def test_names_and_order_do_not_count(graph: Graph, seed: int) -> None:
    assert canonical_text(GraphModule(graph)) == canonical_text(GraphModule(shuffled(graph, seed)))


@given(integer_graphs(), st.integers(-9, 9), st.integers(-9, 9))
def test_the_canonical_text_is_the_program(graph: Graph, x: int, y: int) -> None:
    namespace: dict[str, object] = {}
    exec(canonical_text(GraphModule(graph)), namespace)
    assert namespace["forward"](None, x, y) == GraphModule(graph)(x, y)


@given(integer_graphs(), st.data())
def test_any_edit_counts(graph: Graph, data: st.DataObject) -> None:
    before = graph_hash(GraphModule(graph))
    eliminate_dead_code(GraphModule(graph))
    assert graph_hash(GraphModule(graph)) == before, "what nobody reads does not count"
    calls = [node for node in graph.nodes if node.op == "call_function"]
    assume(calls)
    node, place = data.draw(st.sampled_from(calls)), data.draw(st.integers(0, 1))
    edit = data.draw(st.sampled_from(["target", "constant", "type", "drop"]))
    if edit == "target":
        others = {operator.add, operator.mul, operator.sub, operator.truediv} - {node.target}
        node.target = data.draw(st.sampled_from(sorted(others, key=str)))
    elif edit == "drop":
        outputs = graph.output_node.args[0]
        assume(outputs)
        graph.output_node.args = (outputs[1:],)
    else:
        constant = 100 if edit == "constant" else 1.0
        node.args = tuple(constant if i == place else arg for i, arg in enumerate(node.args))
    assert graph_hash(GraphModule(graph)) != before


TENSORS = st.builds(
    torch.empty_strided,
    st.just((2, 3)),
    st.sampled_from([(3, 1), (1, 2), (6, 2)]),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.int32]),
    requires_grad=st.just(False),
)


@given(TENSORS, TENSORS)
def test_types_of_inputs_count_if_asked(a: torch.Tensor, b: torch.Tensor) -> None:
    def negated(example: torch.Tensor) -> GraphModule:
        graph = Graph()
        x = graph.placeholder("x")
        x.meta["val"] = to_fake(example)
        graph.output((graph.call_function(torch.neg, (x,)),))
        return GraphModule(graph)

    same = (a.dtype, a.stride()) == (b.dtype, b.stride())
    assert (graph_hash(negated(a)) == graph_hash(negated(b))) == same
    assert graph_hash(negated(a), types=False) == graph_hash(negated(b), types=False)
