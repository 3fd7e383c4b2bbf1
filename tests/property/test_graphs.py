"""Random programs of views, writes, pointwise operators and reductions, traced to functional
graphs.
"""

import operator
import pickle

import torch
from hypothesis import given
from hypothesis import strategies as st

from minitorch2.errors import UnsupportedError
from minitorch2.graph import Graph, GraphModule, passes
from minitorch2.graph.interpreter import Interpreter
from minitorch2.graph.verify import verify
from tests.property.random_programs import VALUES, VIEWS, WRITES, RandomProgram, programs
from tests.unit.autograd.programs import check, copies


def inputs() -> list[torch.Tensor]:
    torch.manual_seed(2)
    return [torch.randn(4, 6), torch.randn(4, 6), torch.randn(6)]


@given(programs(VIEWS, WRITES, VALUES, most_steps=12))
def test_values_memory_and_mutations_are_eagers(program: RandomProgram) -> None:
    with torch.no_grad():
        torch.manual_seed(5)
        valid = program.valid_on(copies(inputs()))
        try:
            check(valid, inputs())
        except UnsupportedError as error:  # a documented refusal, never a wrong answer
            assert "expanded" in str(error)


@st.composite
def integer_graphs(draw: st.DrawFn) -> Graph:
    """Graphs of exact arithmetic on Python integers, with dead and repeated nodes."""
    graph = Graph()
    nodes = [graph.placeholder("x"), graph.placeholder("y")]
    for _ in range(draw(st.integers(0, 15))):
        target = draw(st.sampled_from([operator.add, operator.mul, operator.sub]))
        args = tuple(draw(st.one_of(st.sampled_from(nodes), st.integers(-3, 3))) for _ in range(2))
        nodes.append(graph.call_function(target, args))
    graph.output(tuple(draw(st.lists(st.sampled_from(nodes), max_size=3))))
    return graph


@given(integer_graphs(), st.integers(-9, 9), st.integers(-9, 9))
def test_every_way_to_run_a_graph_agrees(graph: Graph, x: int, y: int) -> None:
    verify(graph)
    module = GraphModule(graph)
    expected = module(x, y)
    assert Interpreter(module).run(x, y) == expected
    assert pickle.loads(pickle.dumps(module))(x, y) == expected
    assert module.copy().code == module.code


@given(integer_graphs(), st.integers(-9, 9), st.integers(-9, 9))
def test_passes_keep_values_and_shrink(graph: Graph, x: int, y: int) -> None:
    module = GraphModule(graph)
    expected, length = module(x, y), len(graph)
    for run in (
        passes.eliminate_common_subexpressions,
        passes.eliminate_dead_code,
        passes.fold_constants,
    ):
        run(module)
        verify(module)
        assert module(x, y) == expected and len(graph) <= length
        assert not run(module)


@st.composite
def tensor_graphs(draw: st.DrawFn) -> Graph:
    """Graphs that draw random numbers, write to tensors, and compute some things twice."""
    graph = Graph()
    nodes = [graph.placeholder("x"), graph.placeholder("y")]
    kinds = draw(st.lists(st.sampled_from(list(TENSOR_NODES)), min_size=1, max_size=4))
    for _ in range(draw(st.integers(0, 15))):
        few = st.sampled_from([*nodes[:2], *nodes[-2:]])  # so that things are computed twice
        kind = draw(st.sampled_from(kinds))
        number = draw(st.sampled_from([1, 1.0, True, 2, 0.0, -0.0]))
        nodes.append(TENSOR_NODES[kind](graph, draw(few), draw(few), number))
    results = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=5))
    copied = [r if draw(st.booleans()) else TENSOR_NODES["add"](graph, r, r, 1) for r in results]
    graph.output(tuple(copied))
    return graph


TENSOR_NODES = {
    "sin": lambda graph, a, b, n: graph.call_function(torch.sin, (a,)),
    "add": lambda graph, a, b, n: graph.call_function(torch.add, (a, b)),
    "scale": lambda graph, a, b, n: graph.call_function(operator.mul, (a, n)),
    "random": lambda graph, a, b, n: graph.call_function(torch.rand_like, (a,)),
    "view": lambda graph, a, b, n: graph.call_method("view", (a, -1)),
    "write": lambda graph, a, b, n: graph.call_method("add_", (a, b)),
}


@given(tensor_graphs())
def test_passes_keep_effects(graph: Graph) -> None:
    """Values, writes to inputs, memory of outputs, and the numbers of the random generator."""
    module = GraphModule(graph)
    expected = run_with_effects(module)
    for run in (
        passes.eliminate_common_subexpressions,
        passes.eliminate_dead_code,
        passes.fold_constants,
    ):
        run(module)
        verify(module)
        assert run_with_effects(module) == expected


def run_with_effects(module: GraphModule) -> tuple[list[object], ...]:
    """What can be seen of a run: elements, dtypes, which outputs share memory, what comes next."""
    torch.manual_seed(3)
    inputs = [torch.tensor([1.0, 2.0, -3.0]), torch.tensor([4.0, 5.0, 6.0])]
    outputs = [*inputs, *module(*inputs)]
    values = [(str(value.dtype), repr(value.tolist())) for value in outputs]
    memory = [value.untyped_storage().data_ptr() for value in outputs]
    return values, [memory.index(place) for place in memory], [torch.rand(()).item()]
