"""Each rule of the verifier finds a planted fault, and says which rule and which node."""

import operator
from collections.abc import Callable

import pytest
import torch

from minitorch2.errors import VerificationError
from minitorch2.graph import Graph, GraphModule
from minitorch2.graph.verify import RULES, verify


def good() -> Graph:
    graph = Graph()
    x = graph.placeholder("x")
    node = graph.call_function(operator.add, (x, 1))
    graph.output((graph.call_method("sin", (node,)),))
    return graph


def _opcode(graph: Graph) -> None:
    graph.nodes[1].op = "call"


def _target(graph: Graph) -> None:
    graph.nodes[1].target = "add"


def _receiver(graph: Graph) -> None:
    graph.nodes[2].args = ()


def _placeholder(graph: Graph) -> None:
    with graph.inserting_before(graph.output_node):
        graph.placeholder("late")


def _no_output(graph: Graph) -> None:
    graph.erase(graph.output_node)


def _name(graph: Graph) -> None:
    graph.nodes[1].name = "x"


def _order(graph: Graph) -> None:
    graph.nodes[1].args = (graph.nodes[2], 1)


def _users(graph: Graph) -> None:
    graph.nodes[0].users.clear()


def _link(graph: Graph) -> None:
    graph.nodes[2].prev = graph.nodes[0]


FAULTS: list[tuple[Callable[[Graph], None], str, str]] = [
    (_opcode, "known-opcodes", "add"),
    (_target, "targets-fit-opcodes", "add"),
    (_receiver, "methods-have-receivers", "sin"),
    (_placeholder, "placeholders-come-first", "late"),
    (_no_output, "output-comes-last", "output"),
    (_name, "names-are-unique", "x"),
    (_order, "inputs-are-defined-earlier", "add"),
    (_users, "users-are-exact", "x"),
    (_link, "links-are-mutual", "x"),
]


def test_a_good_graph_passes() -> None:
    verify(good())
    verify(GraphModule(good()))


@pytest.mark.parametrize(("plant", "rule", "node"), FAULTS, ids=[rule for _, rule, _ in FAULTS])
def test_each_rule_finds_its_fault(plant: Callable[[Graph], None], rule: str, node: str) -> None:
    graph = good()
    plant(graph)
    with pytest.raises(VerificationError, match=node) as found:
        verify(graph)
    assert found.value.code == rule


def test_every_rule_has_a_fault() -> None:
    assert {rule.__name__.replace("_", "-") for rule in RULES} == {rule for _, rule, _ in FAULTS}


def test_missing_attribute() -> None:
    graph = Graph()
    graph.output((graph.get_attr("w"),))
    with pytest.raises(VerificationError, match="no attribute 'w'"):
        verify(GraphModule(graph))
    verify(GraphModule(graph, {"w": torch.ones(1)}))
