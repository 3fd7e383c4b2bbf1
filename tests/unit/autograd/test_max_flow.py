"""Least cuts: by hand, and against networkx on random networks."""

import math
import random
from itertools import pairwise

import networkx
import pytest

from minitorch2.autograd.max_flow import sink_side


def test_the_cut_is_where_least_can_flow():
    edges = [("s", "a", 3.0), ("a", "b", 1.0), ("b", "t", 2.0), ("s", "b", 0.5)]
    assert sink_side(edges, "s", "t") == {"b", "t"}


def test_of_equal_cuts_it_is_the_one_nearest_to_the_sink():
    assert sink_side([(1, 2, 1.0), (2, 3, 1.0), (3, 4, 1.0)], 1, 4) == {4}


def test_flow_is_sent_back_where_a_first_path_was_wrong():
    edges = [("s", "a", 1), ("s", "b", 1), ("a", "c", 1), ("b", "c", 1), ("a", "d", 1),
             ("c", "t", 1), ("d", "t", 1)]  # fmt: skip
    assert sink_side(edges, "s", "t") == {"t"}


def test_without_a_path_nothing_is_cut():
    assert sink_side([("s", "a", 1.0), ("b", "t", math.inf)], "s", "t") == {"b", "t"}


def test_a_network_that_cannot_be_cut():
    with pytest.raises(ValueError, match="infinite"):
        sink_side([("s", "a", math.inf), ("a", "t", math.inf)], "s", "t")


def test_a_long_chain_needs_no_stack():
    chain = [*pairwise(range(20_000))]
    edges = [(a, b, 1.0 if a == 7 else 2.0) for a, b in chain]
    assert sink_side(edges, 0, 19_999) == set(range(8, 20_000))


@pytest.mark.parametrize("seed", range(60))
def test_cuts_are_those_of_networkx(seed):
    draw = random.Random(seed)
    nodes = draw.randint(2, 14)
    edges = {
        (draw.randrange(nodes), draw.randrange(nodes)): draw.choice([0.5, 1.0, 2.0, 3.25, math.inf])
        for _ in range(draw.randint(1, 4 * nodes))
    }
    network = networkx.DiGraph()
    network.add_nodes_from(range(nodes))
    for (tail, head), capacity in edges.items():
        if tail != head:
            network.add_edge(tail, head, capacity=capacity)
    given = [(a, b, c) for (a, b), c in edges.items() if a != b]
    try:
        value, (_, beyond) = networkx.minimum_cut(network, 0, nodes - 1)
    except networkx.NetworkXUnbounded:
        with pytest.raises(ValueError):
            sink_side(given, 0, nodes - 1)
        return
    side = sink_side(given, 0, nodes - 1)
    assert sum(c for a, b, c in given if a not in side and b in side) == value
    assert side == beyond
