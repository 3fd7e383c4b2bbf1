"""Random graphs with views, writes, lists, If and Loop: an allowed move changes no result.

`python -m tests.property.test_script_aliasing 5000` is the deep run: so many graphs.
"""

import sys

import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.types import BOOL, INT, TENSOR, ListType
from minitorch2.script.ir.verify import verify
from minitorch2.script.runtime.python_code import compile_graph

KINDS = ["neg", "t", "neg_", "list", "append", "getitem", "getitem", "relu_", "if", "loop"]


class Builder:
    """Builds a graph by what `draw` says; all that a block sees is in `tensors` and `lists`."""

    def __init__(self, draw):
        self.draw = draw
        self.graph = Graph()
        tensors = [self.graph.add_input(name) for name in "xy"]
        self.c = self.graph.add_input("c", BOOL)
        constants = map(self.graph.constant, (2, True, 0, -1))
        self.n, self.yes, self.zero, self.last = constants
        lists = []
        self.fill(tensors, lists, 1, 10)
        for value in tensors:
            self.graph.add_output(value)

    def pick(self, values):
        """Choose one of the last values: they depend on each other most."""
        return self.draw(st.sampled_from(values[-3:]))

    def insert(self, kind, inputs, outputs=(TENSOR,)):
        return self.graph.insert(self.graph.create(kind, inputs, outputs))

    def fill(self, tensors, lists, depth, most):
        for kind in self.draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=most)):
            if kind == "list":
                items = [self.pick(tensors) for _ in range(2)]
                node = self.insert("prim::ListConstruct", items, (ListType(TENSOR),))
                lists.append(node.output)
            elif kind == "append":
                if lists:
                    values = (self.pick(lists), self.pick(tensors))
                    self.insert("aten::append", values, (ListType(TENSOR),))
            elif kind == "getitem":
                if lists:
                    values = (self.pick(lists), self.pick((self.zero, self.last)))
                    tensors.append(self.insert("aten::__getitem__", values).output)
            elif kind in ("if", "loop"):
                if depth:
                    tensors.append(getattr(self, "add_" + kind)(tensors, lists).output)
            else:
                tensors.append(self.insert("aten::" + kind, (self.pick(tensors),)).output)

    def fill_block(self, block, tensors, lists):
        tensors = list(tensors)
        with self.graph.inserting_at_end(block):
            self.fill(tensors, list(lists), 0, 3)
        block.add_output(self.pick(tensors))

    def add_if(self, tensors, lists):
        node = self.insert("prim::If", (self.c,))
        for _ in range(2):
            self.fill_block(node.add_block(), tensors, lists)
        return node

    def add_loop(self, tensors, lists):
        node = self.insert("prim::Loop", (self.n, self.yes, self.pick(tensors)))
        block = node.add_block()
        block.add_input("i", INT)
        carried = block.add_input("w")
        block.add_output(self.yes)
        self.fill_block(block, [*tensors, carried], lists)
        return node


def results(graph):
    """Return what the graph gives: for inputs apart, for the same one twice, and both branches."""
    function = compile_graph(graph)
    found = []
    for shared in (False, True):
        for condition in (False, True):
            x = torch.tensor([[1.0, -2.0], [-3.0, 4.0]])
            y = x if shared else x * -3
            found.append([value.tolist() for value in function(x, y, condition)])
    return found


@given(st.data())
def test_moves_that_are_allowed_change_no_result(data):
    graph = Builder(data.draw).graph
    verify(graph)
    before = results(graph)
    count = len(graph.block.nodes)
    assume(count > 5)
    first = data.draw(st.integers(4, count - 2))
    for last in range(first + 1, count):
        for move in (behind, in_front):
            moved = graph.copy()
            if move(moved, first, last):
                verify(moved)
                assert results(moved) == before


def behind(graph, first, last):
    nodes = graph.block.nodes
    return AliasDb(graph).move_after_topologically_valid(nodes[first], nodes[last])


def in_front(graph, first, last):
    nodes = graph.block.nodes
    return AliasDb(graph).move_before_topologically_valid(nodes[last], nodes[first])


if __name__ == "__main__":
    deep = settings(
        max_examples=int(sys.argv[1]),
        deadline=None,
        derandomize=False,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    deep(test_moves_that_are_allowed_change_no_result)()
    print(f"{sys.argv[1]} graphs, no move changes a result")
