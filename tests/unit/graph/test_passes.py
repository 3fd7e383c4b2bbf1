"""Golden fixtures of passes, and what passes must not do.

A fixture ``tests/golden/<pass>/<case>.py`` builds a graph and gives inputs, and the pass's further
ARGUMENTS if it has any; ``<case>.txt`` beside it is the code after the pass. Results are equal to
the bit, or within the fixture's TOLERANCE where the law is one of rounding. The graph before, or
the fixture's `reference` if that graph cannot run, and the graph after are run and compared.
``pytest tests/unit/graph --update-golden`` rewrites the texts.
"""

import importlib.util
import operator
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from minitorch2.graph import Graph, GraphModule, passes
from minitorch2.graph.verify import verify

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = sorted(path for name in passes.__all__ for path in (GOLDEN / name).glob("*.py"))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"golden_{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_golden(path: Path, golden: Callable[[Path, str], None]) -> None:
    fixture = load(path)
    before, after = fixture.build(), fixture.build()
    verify(before)
    arguments = getattr(fixture, "ARGUMENTS", ())
    assert getattr(passes, path.parent.name)(after, *arguments) is True
    verify(after)
    golden(path.with_suffix(".txt"), after.code)
    tolerance = getattr(fixture, "TOLERANCE", 0)
    others = getattr(fixture, "inputs", lambda: [torch.randn_like(x) for x in fixture.INPUTS])
    for inputs in (fixture.INPUTS, others()):
        torch.manual_seed(3)
        a = getattr(fixture, "reference", before)(*map(torch.clone, inputs))
        torch.manual_seed(3)
        b = after(*map(torch.clone, inputs))
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    assert getattr(passes, path.parent.name)(after, *arguments) is False  # a fixed point


def test_every_pass_has_a_fixture() -> None:
    assert {path.parent.name for path in CASES} == set(passes.__all__)


def one(target: object, *args: object, returned: bool = True, **kwargs: object) -> GraphModule:
    graph = Graph()
    x = graph.placeholder("x")
    node = graph.call_function(target, tuple(x if a == "x" else a for a in args), kwargs)  # type: ignore[arg-type]
    graph.output((node if returned else x,))
    return GraphModule(graph)


@pytest.mark.parametrize(
    "module",
    [
        one(torch.ops.aten.add_.Tensor, "x", 1, returned=False),
        one(torch.rand, (3,), returned=False),
        one(torch.nn.functional.dropout, "x", 0.5, returned=False),
        one(torch.relu_, "x", returned=False),
        one(torch.add, "x", 1, out="x", returned=False),
        one(operator.setitem, "x", 0, 1.0, returned=False),
        one(operator.iadd, "x", 1, returned=False),
        one(lambda x: None, "x", returned=False),
        one(torch._C._set_grad_enabled, False, returned=False),
    ],
)
def test_dead_code_with_an_effect_stays(module: GraphModule) -> None:
    length = len(module.graph)
    passes.eliminate_dead_code(module)
    assert len(module.graph) == length


def test_attention_is_random_only_with_dropout() -> None:
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    for dropout, stays in ((0.0, False), (0.5, True)):
        module = one(attention, "x", "x", "x", dropout, returned=False)
        passes.eliminate_dead_code(module)
        assert (len(module.graph) == 3) is stays


def twice(target: object, *args: object) -> GraphModule:
    graph = Graph()
    x = graph.placeholder("x")
    a, b = (
        graph.call_function(target, tuple(x if v == "x" else v for v in args))  # type: ignore[arg-type]
        for _ in range(2)
    )
    graph.output((graph.call_function(torch.sub, (a, b)),))
    return GraphModule(graph)


def test_random_operators_are_not_merged() -> None:
    module = twice(torch.rand, 3)
    assert not passes.eliminate_common_subexpressions(module)
    assert module(torch.ones(3))[0].abs().sum() > 0


def test_equal_but_different_scalars_are_not_merged() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    values = [graph.call_function(torch.mul, (x, c)) for c in (1, 1.0, True, 0.0, -0.0)]
    graph.output((graph.call_function(torch.stack, (values,)),))
    assert not passes.eliminate_common_subexpressions(GraphModule(graph))


def test_results_returned_twice_keep_separate_memory() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(tuple(graph.call_function(torch.sin, (x,)) for _ in range(2)))
    module = GraphModule(graph)
    passes.eliminate_common_subexpressions(module)
    a, b = module(torch.ones(2))
    assert a.data_ptr() != b.data_ptr()


def test_a_folded_constant_is_never_handed_out() -> None:
    graph = Graph()
    w = graph.get_attr("w")
    graph.output((graph.call_function(torch.mul, (w, 2)),))
    module = GraphModule(graph, {"w": torch.ones(2)})
    passes.fold_constants(module)
    module()[0].zero_()
    assert torch.equal(module()[0], torch.full((2,), 2.0))


def test_parameters_are_not_constants() -> None:
    graph = Graph()
    x, w = graph.placeholder("x"), graph.get_attr("w")
    double = graph.call_function(torch.mul, (w, 2))
    graph.output((graph.call_function(torch.add, (x, double)),))
    assert not passes.fold_constants(GraphModule(graph, {"w": torch.nn.Parameter(torch.ones(2))}))
