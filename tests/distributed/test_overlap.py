"""The order of collectives in a graph: early starts, late waits, and the law of the pass."""

import random

import pytest
import torch

from minitorch2.distributed.overlap_collectives import is_start, is_wait, overlap_collectives
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.raising import must_run

aten, collective = torch.ops.aten, torch.ops._c10d_functional


def graph_of(seed, steps=14):
    """Return a random graph of sums, collectives of two groups, waits for them, and writes."""
    draw, graph = random.Random(seed), Graph()
    values = [graph.placeholder(f"x{i}") for i in range(2)]
    started = []
    for _ in range(steps):
        kind = draw.choice(["sin", "add", "start", "start", "wait", "wait", "copy_"])
        if kind == "start":
            arguments = (draw.choice(values), "sum", draw.choice("01"))
            started.append(graph.call_function(collective.all_reduce.default, arguments))
        elif kind == "wait" and started:
            taken = started.pop(draw.randrange(len(started)))
            values.append(graph.call_function(collective.wait_tensor.default, (taken,)))
        elif kind == "sin":
            values.append(graph.call_function(aten.sin.default, (draw.choice(values),)))
        elif kind == "add":
            values.append(graph.call_function(aten.add.Tensor, tuple(draw.choices(values, k=2))))
        elif kind == "copy_" and draw.random() < 0.3:
            graph.call_function(aten.copy_.default, (values[0], draw.choice(values)))
    values += [graph.call_function(collective.wait_tensor.default, (each,)) for each in started]
    graph.output(tuple(values[2:]))
    for node in graph.nodes:
        node.meta["val"] = torch.empty(4)
    return graph


def breaks_of_law(before, after):
    """Return the laws that the order `after` of the nodes `before` breaks."""
    place = {node: position for position, node in enumerate(after)}
    broken = [] if set(before) == set(after) and len(before) == len(after) else ["nodes"]
    if any(place[used] > place[node] for node in after for used in node.all_input_nodes):
        broken.append("data")
    if list(filter(is_start, before)) != list(filter(is_start, after)):
        broken.append("starts")
    for position, node in enumerate(before):
        is_fence = must_run(node) and not (is_start(node) or is_wait(node))
        passed = set(before[:position]) ^ set(after[: place[node]])
        if is_fence and any(is_start(each) or is_wait(each) for each in passed):
            broken.append("effects")
    return broken


@pytest.mark.parametrize("seed", range(60))
def test_collectives_keep_their_order_and_their_data(seed):
    module = GraphModule(graph_of(seed))
    before = [*module.graph.nodes]
    overlap_collectives(module)
    after = [*module.graph.nodes]
    assert breaks_of_law(before, after) == []
    assert not overlap_collectives(module), "a second run finds nothing to do"
    for node in filter(is_start, after):
        last = node.prev
        assert last in node.all_input_nodes or must_run(last) or last.op == "placeholder"


def test_a_pass_that_swaps_two_collectives_is_caught():
    """The law would be worth nothing if it held for this pass, too."""
    caught = 0
    for seed in range(20):
        before = [*graph_of(seed).nodes]
        starts = list(filter(is_start, before))
        if len(starts) > 1:
            after = [*before]
            first, second = before.index(starts[0]), before.index(starts[1])
            after[first], after[second] = after[second], after[first]
            caught += "starts" in breaks_of_law(before, after)
            continue
        caught += 1
    assert caught == 20


def test_computing_lies_between_a_start_and_its_wait():
    """From ``sin; start; wait; cos(x)`` to ``start; sin; cos(x); wait`` where nothing reads it."""
    graph = Graph()
    x = graph.placeholder("x")
    sin = graph.call_function(aten.sin.default, (x,))
    started = graph.call_function(collective.all_reduce.default, (x, "sum", "0"))
    waited = graph.call_function(collective.wait_tensor.default, (started,))
    cos = graph.call_function(aten.cos.default, (x,))
    graph.output((graph.call_function(aten.add.Tensor, (waited, cos)), sin))
    overlap_collectives(GraphModule(graph))
    names = [node.name for node in graph.nodes]
    assert names == ["x", "all_reduce", "sin", "cos", "wait_tensor", "add", "output"]
