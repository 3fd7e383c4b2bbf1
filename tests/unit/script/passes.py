"""A pass as a function of text: the graph before it, and the graph after it."""

import textwrap

from minitorch2 import config
from minitorch2.script.ir.parse_ir import parse_graph
from minitorch2.script.ir.types import erase_facts
from minitorch2.script.passes import pipeline


def after(run, text, *arguments):
    """Return the canonical text of a graph after a pass, which verifies it before and after."""
    graph = parse_graph(textwrap.dedent(text))
    with config.patch(verify=True):
        run(graph, *arguments)
    return str(graph)


def assert_becomes(run, before, expected, *arguments):
    """Assert that a pass makes one text of the other."""
    wanted = str(parse_graph(textwrap.dedent(expected)))
    assert after(run, before, *arguments) == wanted


def assert_stays(run, text, *arguments):
    """Assert that a pass leaves a graph alone."""
    assert_becomes(run, text, text, *arguments)


def optimize(graph, *, needs_gradient):
    """Run all lists of passes in order: from a copy of a function's graph to a plan's."""
    pipeline.prepare(graph)
    pipeline.guard(graph)
    pipeline.make_regions(graph, needs_gradient=needs_gradient)


def clear_types(graph):
    """Forget what is known of tensors: dtype, device, sizes and gradient flags."""
    blocks = [graph.block, *(block for node in graph.nodes() for block in node.blocks)]
    for node in (*(block.parameters for block in blocks), *graph.nodes()):
        for value in node.outputs:
            value.type = erase_facts(value.type)
