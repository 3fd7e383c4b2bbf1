"""Least cuts, by hand."""

import math
from itertools import pairwise

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
    edges = [(a, b, 1.0 if a == 7 else 2.0) for a, b in pairwise(range(5_000))]
    assert sink_side(edges, 0, 4_999) == set(range(8, 5_000))
