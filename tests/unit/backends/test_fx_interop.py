"""Conversion to and from torch.fx, both as values and as backends under torch.compile."""

import warnings
from typing import Any

import pytest
import torch
import torch.fx
from torch.nn.attention.flex_attention import flex_attention

import minitorch2
from minitorch2 import config
from minitorch2.backends import from_torch_fx, fx_backend, lookup_backend, to_torch_fx, torch_entry
from minitorch2.backends.fx_interop import wants_torch_fx
from minitorch2.errors import MinitorchWarning
from minitorch2.graph import GraphModule
from minitorch2.graph.verify import verify
from tests.unit.graph.test_graph import slide_graph


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)
        )
        self.scale = torch.nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)[:, 1:5].neg() * self.scale[1:5]


def test_to_fx_and_back() -> None:
    x = torch.randn(4)
    module = GraphModule(slide_graph())
    there = to_torch_fx(module)
    assert isinstance(there, torch.fx.GraphModule)
    assert [n.name for n in there.graph.nodes] == [n.name for n in module.graph.nodes]
    back = from_torch_fx(there)
    verify(back)
    assert back.graph.tabular() == module.graph.tabular()
    for run in (there, back):
        assert torch.equal(run(x, x)[0], x / (x.abs() + 1))


def test_a_traced_module_converts_with_its_attributes() -> None:
    model = Model()
    module = from_torch_fx(torch.fx.symbolic_trace(model))
    verify(module)
    x = torch.randn(3, 4)
    torch.testing.assert_close(module(x), model(x))


def test_who_wants_torch_fx() -> None:
    def annotated(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Any: ...
    def textual(gm: "torch.fx.GraphModule", example_inputs: list[Any]) -> Any: ...
    def plain(gm: Any, example_inputs: Any) -> Any: ...

    assert wants_torch_fx(annotated) and wants_torch_fx(textual)
    assert not wants_torch_fx(plain) and wants_torch_fx(fx_backend(plain))
    assert not wants_torch_fx(len)


def test_a_torch_compile_backend_runs_our_graph() -> None:
    seen: list[str] = []

    def my_compiler(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Any:
        seen.extend(node.op for node in gm.graph.nodes)
        return gm

    x = torch.randn(4)
    run = lookup_backend(my_compiler)(GraphModule(slide_graph()), [x, x])
    assert torch.equal(run(x, x)[0], x / (x.abs() + 1)) and seen.count("call_function") == 4


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [None, True])
def test_training_under_torch_compile(
    monkeypatch: pytest.MonkeyPatch, dynamic: bool | None
) -> None:
    monkeypatch.setattr(torch_entry, "default_backend", lambda *_: "aot_eager_decomp_partition")
    torch.compiler.reset()
    model = Model()
    run = torch.compile(model, backend=torch_entry.minitorch2_backend, dynamic=dynamic)
    for size in (5, 6, 7):
        x = torch.randn(size, 4)
        model.zero_grad()
        loss = run(x).sum()
        loss.backward()
        got = [p.grad.clone() for p in model.parameters()]  # type: ignore[union-attr]
        model.zero_grad()
        expected = model(x).sum()
        expected.backward()
        torch.testing.assert_close(loss, expected)
        for a, p in zip(got, model.parameters(), strict=True):
            torch.testing.assert_close(a, p.grad, rtol=1e-5, atol=1e-5)


def choose(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))


def attend(x: torch.Tensor) -> Any:
    return flex_attention(x, x, x)


@pytest.mark.slow
@pytest.mark.parametrize("program", [choose, attend])
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_operators_of_higher_order_under_torch_compile(program: Any) -> None:
    x = torch.randn(1, 2, 16, 8)
    torch.compiler.reset()
    run = torch.compile(program, backend=torch_entry.minitorch2_backend)
    with config.patch(suppress_errors=True), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.testing.assert_close(run(x), program(x))
    told = [str(each.message) for each in said if issubclass(each.category, MinitorchWarning)]
    assert len(told) == (program is attend), told
    assert all("takes a graph as an argument" in text for text in told)
    torch.testing.assert_close(minitorch2.compile(program)(x), program(x))
    minitorch2.explain(program)(x)  # which raised an error of torch.compile's


def test_the_entry_point_is_declared() -> None:
    from importlib.metadata import entry_points

    names = {point.name: point.value for point in entry_points(group="torch_dynamo_backends")}
    assert names.get("minitorch2") == "minitorch2.backends.torch_entry:minitorch2_backend"


def test_sizes_are_placeholders_in_front():
    """As torch.compile hands them to a backend."""
    seen = []

    def backend(module: torch.fx.GraphModule, inputs):
        seen.append((module, inputs))
        return module.forward

    def f(x, y):
        return x.view(x.shape[0] * x.shape[1] // 2, 2) + y, y * x.shape[1]

    fast = minitorch2.compile(f, backend=backend, dynamic=True)
    for rows in (4, 6, 10):
        x, y = torch.randn(rows, 8), torch.randn(2)
        torch.testing.assert_close(fast(x, y), f(x, y))
    ((module, inputs),) = seen
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    assert names == ["s0", "s1", "x", "y"] and inputs[:2] == [4, 8]
    assert isinstance(next(iter(module.graph.nodes)).meta["val"], torch.SymInt)
