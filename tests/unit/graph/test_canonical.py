"""The canonical text of a graph and its hash."""

import operator
import pickle
import subprocess
import sys

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import minitorch2
from minitorch2.graph import Graph, GraphModule, canonical_text, graph_hash

PROGRAM = """
import torch
from minitorch2.graph import Graph, GraphModule, graph_hash
graph = Graph()
x = graph.placeholder("x")
scaled = graph.call_function(torch.mul, (x, graph.get_attr("scale")), {"out": None})
graph.output((graph.call_module("layer", (scaled,)),))
layer = torch.nn.LayerNorm(3, eps=1e-3)
print(graph_hash(GraphModule(graph, {"scale": torch.arange(3.0), "layer": layer})))
"""


def test_the_hash_is_the_same_in_every_process() -> None:
    command = [sys.executable, "-c", PROGRAM]
    first = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    namespace: dict[str, object] = {}
    exec(PROGRAM.replace("print(", "found = ("), namespace)
    assert first.strip() == namespace["found"]


def with_constant(value: object) -> GraphModule:
    graph = Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.mul, (x, graph.get_attr("c"))),))
    return GraphModule(graph, {"c": value})


@pytest.mark.parametrize(
    "other",
    [
        torch.tensor([1.0, 2.5]),
        torch.tensor([1.0, 2.0], dtype=torch.float64),
        torch.tensor([[1.0, 2.0]]),
        torch.tensor([1.0, 2.0], requires_grad=True),
    ],
)
def test_constants_count_by_content(other: torch.Tensor) -> None:
    plain = graph_hash(with_constant(torch.tensor([1.0, 2.0])))
    assert graph_hash(with_constant(torch.tensor([1.0, 2.0]))) == plain
    assert graph_hash(with_constant(other)) != plain


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), (0.0, -0.0), ("a", b"a")])
def test_equal_numbers_of_different_types_differ(one: object, other: object) -> None:
    def adding(value: object) -> GraphModule:
        graph = Graph()
        graph.output((graph.call_function(torch.add, (graph.placeholder("x"), value)),))
        return GraphModule(graph)

    assert graph_hash(adding(one)) != graph_hash(adding(other))


def test_modules_count_by_what_they_compute_with() -> None:
    def calling(layer: torch.nn.Module) -> str:
        graph = Graph()
        graph.output((graph.call_module("layer", (graph.placeholder("x"),)),))
        return graph_hash(GraphModule(graph, {"layer": layer}))

    norm = torch.nn.BatchNorm1d
    assert calling(norm(2)) == calling(norm(2))
    distinct = [norm(2), norm(2, eps=1e-3), norm(2).eval(), torch.nn.BatchNorm2d(2)]
    assert len({calling(layer) for layer in distinct}) == len(distinct)


def test_what_only_this_process_knows_has_no_hash() -> None:
    graph = Graph()
    graph.output((graph.call_function(lambda x: x, (graph.placeholder("x"),)),))
    with pytest.raises(TypeError, match="no hash that other processes know"):
        graph_hash(GraphModule(graph))


def test_random_operators_keep_their_order() -> None:
    def drawing(*names: str) -> str:
        graph = Graph()
        drawn = {name: graph.call_function(getattr(torch, name), (3,)) for name in names}
        graph.output((drawn["rand"], drawn["randn"]))
        return graph_hash(GraphModule(graph))

    assert drawing("rand", "randn") != drawing("randn", "rand")


def test_where_something_is_written_order_counts() -> None:
    def program(read_first: bool) -> str:
        graph = Graph()
        x = graph.placeholder("x")
        if read_first:
            sine = graph.call_function(torch.sin, (x,))
        graph.call_method("add_", (x, 1))
        if not read_first:
            sine = graph.call_function(torch.sin, (x,))
        graph.output((sine,))
        return graph_hash(GraphModule(graph))

    assert program(True) != program(False)


def captured(function: object, *inputs: torch.Tensor) -> GraphModule:
    modules: list[GraphModule] = []

    def keep(module: GraphModule, examples: object) -> GraphModule:
        modules.append(module)
        return module

    minitorch2.compile(function, backend=keep, dynamic=True)(*inputs)
    return modules[0]


def test_symbols_are_renamed() -> None:
    def of_second(rate: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1) * torch.ones(x.shape[0] * x.shape[1]) + rate.sum()

    def renamed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return b.reshape(-1) * torch.ones(b.shape[0] * b.shape[1]) + a.sum()

    sizes = torch.ones(3), torch.ones(4, 5)
    texts = [canonical_text(captured(f, *sizes), types=False) for f in (of_second, renamed)]
    assert texts[0] == texts[1]
    assert "s0*s1" in texts[0]


def test_a_call_of_a_graph_counts_by_that_graph() -> None:
    def text(inner: object) -> str:
        def program(x: torch.Tensor) -> torch.Tensor:
            return checkpoint(inner, x, use_reentrant=False)

        return canonical_text(captured(program, torch.ones(3, requires_grad=True)))

    sine = text(lambda x: x.sin() * 2)
    assert sine == text(lambda y: y.sin() * 2)
    assert sine != text(lambda y: y.sin() * 3)


def test_graphs_of_branches_count() -> None:
    def hashed(otherwise: object) -> str:
        def program(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x + 1, otherwise, (x,))

        module = captured(program, torch.ones(3))
        assert graph_hash(module, types=False) == graph_hash(copied(module), types=False)
        return graph_hash(module)

    assert hashed(lambda x: x * 2) == hashed(lambda y: y * 2) != hashed(lambda x: x * 3)


def copied(module: GraphModule) -> GraphModule:
    copy: GraphModule = pickle.loads(pickle.dumps(module))
    return copy


def test_one_constant_twice_is_not_two() -> None:
    def module(first: torch.Tensor, second: torch.Tensor) -> GraphModule:
        graph = Graph()
        parts = graph.get_attr("a"), graph.get_attr("b")
        graph.output((graph.call_function(operator.add, parts),))
        return GraphModule(graph, {"a": first, "b": second})

    one = torch.ones(2)
    assert graph_hash(module(one, one)) != graph_hash(module(one, one.clone()))
