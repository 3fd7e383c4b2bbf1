"""Random graphs with If and Loop: text to graph to text is the identity, and copies verify."""

from hypothesis import given
from hypothesis import strategies as st

from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.parse_ir import parse_graph
from minitorch2.script.ir.types import BOOL, INT, TENSOR
from minitorch2.script.ir.verify import verify
from minitorch2.script.operators import prims

assert prims.PRIMS  # the rules of types hold from here on

NAMES = st.sampled_from(["", "x", "y.1", "x.2.3", "12"])


class Builder:
    """Builds a graph of tensors by what `draw` says."""

    def __init__(self, draw):
        self.draw = draw
        self.graph = Graph()
        visible = [self.graph.add_input(draw(NAMES)) for _ in range(2)]
        self.n = self.graph.add_input("n", INT)
        self.c = self.graph.add_input("c", BOOL)
        for value in self.fill(visible, 2):
            self.graph.add_output(value)

    def pick(self, visible):
        return self.draw(st.sampled_from(visible))

    def fill(self, visible, depth):
        """Insert nodes at the insertion point; return one of the values seen there."""
        visible = list(visible)
        for kind in self.draw(st.lists(st.sampled_from(["op", "if", "loop"]), max_size=4)):
            if kind == "op" or not depth:
                node = self.insert("aten::relu", (self.pick(visible),), (TENSOR,))
            else:
                node = getattr(self, "add_" + kind)(visible, depth - 1)
            visible += node.outputs
        return [self.pick(visible)]

    def insert(self, kind, inputs, outputs):
        node = self.graph.insert(self.graph.create(kind, inputs, outputs))
        for value in node.outputs:
            value.name = self.draw(NAMES)
        return node

    def add_if(self, visible, depth):
        node = self.insert("prim::If", (self.c,), (TENSOR,))
        for _ in range(2):
            self.fill_block(node.add_block(), visible, depth)
        return node

    def add_loop(self, visible, depth):
        node = self.insert("prim::Loop", (self.n, self.c, self.pick(visible)), (TENSOR,))
        block = node.add_block()
        block.add_input("i", INT)
        carried = block.add_input(self.draw(NAMES))
        block.add_output(self.c)
        self.fill_block(block, [*visible, carried], depth)
        return node

    def fill_block(self, block, visible, depth):
        with self.graph.inserting_at_end(block):
            results = self.fill(visible, depth)
        for value in results:
            block.add_output(value)


@given(st.data())
def test_text_to_graph_to_text_is_the_identity(data):
    graph = Builder(data.draw).graph
    verify(graph)
    text = str(graph)
    read = parse_graph(text)
    verify(read)
    assert str(read) == text == str(graph.copy()) == str(parse_graph(str(read)))


@given(st.data())
def test_a_copy_is_sound_and_the_first_graph_can_go(data):
    graph = Builder(data.draw).graph
    text, copy = str(graph), graph.copy()
    graph.block.destroy()
    assert len(graph.block.nodes) == 0 and all(not value.uses for value in graph.inputs)
    verify(copy)
    assert str(copy) == text
