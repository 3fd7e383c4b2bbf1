"""Blocks that a program repeats: captured as they are, outlined, and compiled once."""

import gc

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import minitorch2
from minitorch2 import config, stages
from minitorch2.backends.graph_cache import bypass, lookup
from minitorch2.graph.higher_order import Block, graphs_called_by
from minitorch2.testing import assert_same


def repeated(function):
    return minitorch2.nested_compile_region(function)


class Layer(nn.Module):
    def __init__(self, size=4, rate=0.0):
        super().__init__()
        self.linear, self.norm, self.rate = nn.Linear(size, size), nn.LayerNorm(size), rate

    @repeated
    def forward(self, x):
        y = F.dropout(F.gelu(self.linear(x)), self.rate, self.training)
        return x + self.norm(y)


class Deep(nn.Module):
    def __init__(self, depth=4, rate=0.0):
        super().__init__()
        self.layers = nn.ModuleList(Layer(rate=rate) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * 2


def assert_close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def calls_of(explanation):
    graphs = [graph.graph for graph in explanation.graphs]
    calls = [node for graph in graphs for node in graph.nodes if isinstance(node.target, Block)]
    return len(calls), len({body for graph in graphs for body in graphs_called_by(graph)})


def test_a_repeated_block_is_one_graph_compiled_once():
    x = torch.randn(3, 4)
    with torch.no_grad():
        explanation = minitorch2.explain(Deep(6))(x)
        once = minitorch2.explain(Deep(1))(x)
    assert calls_of(explanation) == (6, 1) and calls_of(once) == (0, 0)
    assert explanation.graph_count == 1 and explanation.op_count == 6 + 6 + 1
    kernels = explanation.counts["kernels_before_fusion"]
    assert kernels == once.counts["kernels_before_fusion"] + 1  # x * 2 is apart
    assert explanation.counts["blocks_shared"] == 5


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
def test_results_and_gradients_are_those_of_the_program(backend, dynamic):
    model = Deep()
    compiled = minitorch2.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)
    for rows in (3, 5):
        x = torch.randn(rows, 4, requires_grad=True)
        found = torch.autograd.grad(compiled(x).sum(), (x, *model.parameters()))
        wanted = torch.autograd.grad(model(x).sum(), (x, *model.parameters()))
        assert_close(found, wanted)


def test_forward_and_backward_of_the_block_are_compiled_once():
    def kernels(depth):
        model, x = Deep(depth), torch.randn(3, 4, requires_grad=True)
        with stages.collect() as log:
            minitorch2.compile(model, fullgraph=True)(x).sum().backward()
        return log.counts["kernels_before_fusion"]

    assert kernels(8) == kernels(3)


def test_dropout_in_a_block_draws_for_each_call_what_eager_draws():
    model = Deep(rate=0.5)
    compiled = minitorch2.compile(model, fullgraph=True)
    x = torch.randn(3, 4, requires_grad=True)
    torch.manual_seed(3)
    found = torch.autograd.grad(compiled(x).sum(), x)
    torch.manual_seed(3)
    assert_close(found, torch.autograd.grad(model(x).sum(), x))


# Programs: the compiled function, and how many calls and graphs of blocks it holds ----------------

WEIGHT = torch.linspace(-1, 1, 16).reshape(4, 4)


@repeated
def shared_weight(x):
    return (x @ WEIGHT).relu()


@repeated
def two_results(x, scale=1.0, *, flag=False):
    y = x * scale
    return {"a": y.sin(), "b": [y.cos(), scale]} if flag else (y.sin(), y.exp())


@repeated
def returns_its_input(x):
    return x, x + 1


@repeated
def gives_a_view(x):
    return (x * 2).t()


@repeated
def gives_a_view_of_its_input(x):
    return x.t()


@repeated
def writes_to_its_input(x):
    return x.add_(1) * 2


@repeated
def writes_to_its_own(x):
    y = x.clone()
    y.add_(1)
    return y * x


@repeated
def without_gradient(x):
    with torch.no_grad():
        y = x.sin()
    return y * x


@repeated
def outer_block(x):
    return shared_weight(x) + shared_weight(x.cos())


@repeated
def makes_constants(x):
    return x + torch.arange(4) * torch.ones(4)


@repeated
def sizes(x):
    return x.reshape(-1)[: x.shape[0]] * x.shape[1]


@repeated
def branches(x):
    return torch.cond(x.sum() > 0, lambda: x.sin(), lambda: x.cos())


STATE = {"calls": 0}


@repeated
def counts_its_calls(x):
    STATE["calls"] += 1
    return x.sin() * 2


def outline(f, *more):
    return lambda x: f(f(x, *more) + 1, *more)


def alternating(x):
    return shared_weight(shared_weight(x).sin() + shared_weight(x.t().contiguous()))


def of_two_sizes(x):
    return shared_weight(x).sum() + shared_weight(x[:2]).sum() + shared_weight(x[1:3]).sum()


def with_dicts(x):
    one = two_results(x, flag=True)
    other = two_results(one["a"] + one["b"][0], flag=True)
    return other["b"][0] + other["a"] * other["b"][1]


def mutated_later(x):
    y = shared_weight(x) + 0
    z = shared_weight(y) + 1
    z.mul_(2)
    return z * x


PROGRAMS = {
    "a weight from outside": (outline(shared_weight), 2, 1),
    "two results": (lambda x: sum(two_results(sum(two_results(x)))), 2, 1),
    "of two results one each": (lambda x: two_results(two_results(x)[0])[1], 0, 0),
    "results in a dict": (with_dicts, 2, 1),
    "other constants": (lambda x: two_results(x, 2.0)[0] + two_results(x, 3.0)[0], 0, 0),
    "its input": (lambda x: sum(returns_its_input(sum(returns_its_input(x)))), 2, 1),
    "a view": (lambda x: gives_a_view(x) + gives_a_view(x.sin()), 2, 1),
    "a view, of another order": (outline(gives_a_view), 0, 0),
    "a view of its input": (outline(gives_a_view_of_its_input), 0, 0),
    "a write to its input": (lambda x: outline(writes_to_its_input)(x.clone()), 0, 0),
    "a write to its own": (outline(writes_to_its_own), 2, 1),
    "a part without gradient": (outline(without_gradient), 0, 0),
    "blocks in a block": (outline(outer_block), 2, 1),
    "constants": (outline(makes_constants), 2, 1),
    "sizes": (lambda x: sizes(x) + sizes(x.sin()), 2, 1),
    "a branch": (outline(branches), 2, 1),
    "side effects": (outline(counts_its_calls), 2, 1),
    "calls in turn": (alternating, 3, 1),
    "two sizes": (of_two_sizes, 2, 1),
    "a result that is written to": (mutated_later, 2, 1),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_means_what_it_means_in_eager(name, trained, dynamic):
    function, calls, graphs = PROGRAMS[name]
    x = torch.linspace(-1, 1, 16).reshape(4, 4).requires_grad_(trained)
    STATE["calls"] = 0
    wanted = function(x)
    counted, STATE["calls"] = STATE["calls"], 0
    compiled = minitorch2.compile(function, backend="numba", fullgraph=True, dynamic=dynamic)
    found = compiled(x)
    assert_same(found.detach(), wanted.detach(), tolerance=1e-5)
    assert STATE["calls"] == counted
    if trained:
        assert_close(torch.autograd.grad(found.sum(), x), torch.autograd.grad(wanted.sum(), x))
    if not dynamic:
        assert calls_of(minitorch2.explain(function, backend="eager")(x)) == (calls, graphs)


def test_a_break_in_a_block_leaves_what_is_around_it():
    @repeated
    def breaks(x):
        y = x.sin()
        minitorch2.graph_break()
        return y + 1

    def program(x):
        return breaks(breaks(x) * 2)

    x = torch.randn(4)
    explanation = minitorch2.explain(program, backend="eager")(x)
    assert_same(minitorch2.compile(program, backend="eager")(x), program(x))
    assert explanation.graph_break_count >= 1


def test_autocast_around_a_block_acts_in_it():
    def program(x):
        with torch.autocast("cpu", torch.bfloat16):
            y = shared_weight(shared_weight(x))
        return y, shared_weight(x)

    x = torch.randn(4, 4)
    found = minitorch2.compile(program, fullgraph=True)(x)
    assert [y.dtype for y in found] == [torch.bfloat16, torch.float32]
    assert_same(found, program(x), tolerance=1e-2)


def test_blocks_are_in_the_cache_of_graphs(tmp_path, monkeypatch):
    monkeypatch.setattr(bypass, "EXTENSIONS", list[str]())
    model, x = Deep(), torch.randn(3, 4, requires_grad=True)
    wanted = torch.autograd.grad(model(x).sum(), x)
    counts = []
    with config.patch(cache_dir=str(tmp_path), verify=False):
        for _ in range(2):
            minitorch2.reset()
            gc.collect()
            lookup._PROGRAMS.clear()
            with stages.collect(texts=False) as log:
                compiled = minitorch2.compile(model, fullgraph=True)
                found = torch.autograd.grad(compiled(x).sum(), x)
            assert_close(found, wanted)
            counts.append(log.counts)
    assert counts[0]["graphs_compiled"] == 1 and counts[1]["graphs_loaded"] == 1
    assert "graphs_bypassed" not in counts[0]
