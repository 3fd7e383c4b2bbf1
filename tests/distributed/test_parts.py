"""A backward graph in parts: eager's gradients, each as soon as it is computed, in one process."""

import gc

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import stages
from minitorch2.backends.graph_cache import bypass
from minitorch2.distributed.cut_backward import cut_backward
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule

aten, collective = torch.ops.aten, torch.ops._c10d_functional
F64 = torch.float64
BACKENDS = ("aot_eager", "aot_eager_decomp_partition", "numba")


class Tied(nn.Module):
    """Weights that are read twice, at both ends of the backward graph."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        return self.first(self.second(self.first(x).relu()).tanh())


class Statistics(nn.Module):
    """A batch norm, which writes to buffers, and random numbers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 6), nn.LayerNorm(6)
        )

    def forward(self, x):
        return self.layers(x)


class Sums(nn.Module):
    """Gradients that are one tensor, or views of one that is read later."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(torch.randn(6)) for _ in range(3))
        self.flat = nn.Parameter(torch.randn(36))

    def forward(self, x):
        return (x + self.a).sin() @ self.flat.view(6, 6) + self.b + self.c


class Two(nn.Module):
    """Two outputs, of which a caller may use one."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        y = self.one(x)
        return y.sin(), self.other(y).cos()


def layers():
    """three layers"""
    first, second, third = nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 6)
    return nn.Sequential(first, nn.GELU(), second, nn.Tanh(), third)


MODELS = {"layers": layers, "tied": Tied, "statistics": Statistics, "sums": Sums}


def compiled(make, backend="aot_eager", bucket_bytes=1):
    """Return two equal models, and the second one compiled."""
    torch.manual_seed(0)
    eager, other = make().double(), make().double()
    other.load_state_dict(eager.state_dict())
    options = {"bucket_bytes": bucket_bytes}
    return eager, other, minitorch2.compile(other, backend=backend, options=options)


def gradients(run, model, x, use=lambda y: y.square().sum()):
    """Return a result and all gradients of a step."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    torch.manual_seed(1)
    y = run(x)
    use(y).backward()
    first = y[0] if isinstance(y, tuple) else y
    return [first.detach(), x.grad, *(p.grad for p in model.parameters()), *model.buffers()]


def parts_of(log):
    """Return how often a part of a backward graph was compiled."""
    return log.counts["parts_of_backward"]


def test_gradients_of_parts_are_taken_and_not_copied():
    _, model, run = compiled(layers)
    x = torch.randn(4, 6, dtype=F64)
    gradients(run, model, x)
    with torch.profiler.profile() as profile:
        gradients(run, model, x)
    accumulated = [e for e in profile.events() if e.name == "torch::autograd::AccumulateGrad"]
    assert len(accumulated) == 7
    children = {child.name for event in accumulated for child in event.cpu_children}
    assert children == {"aten::detach"}  # a copy would be "aten::copy_"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_parts_are_those_of_eager(name, backend):
    eager, model, run = compiled(MODELS[name], backend)
    with stages.collect() as log:
        for rows in (4, 7):  # then sizes are symbols
            x = torch.randn(rows, 6, dtype=F64)
            torch.testing.assert_close(gradients(run, model, x), gradients(eager, eager, x))
    assert log.counts["graph_breaks"] == 0
    assert parts_of(log) > 2 * (log.counts["graphs"] - 1)


def test_a_bucket_of_all_gradients_leaves_the_graph_whole():
    _, model, run = compiled(layers, bucket_bytes=2**20)
    with stages.collect() as log:
        gradients(run, model, torch.randn(4, 6, dtype=F64))
    assert parts_of(log) == 0


def test_leaves_have_their_gradient_while_later_parts_are_to_be_computed():
    """Hooks of leaves run between the parts; the last layer comes first."""
    _, model, run = compiled(layers)
    seen = []
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda p, name=name: seen.append(
                (name, sum(q.grad is not None for q in model.parameters()))
            )
        )
    run(torch.randn(4, 6, dtype=F64)).sum().backward()
    assert {name for name, ready in seen if ready <= 2} == {"4.weight", "4.bias"}
    assert [ready for _, ready in seen] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("name", MODELS)
def test_hooks_that_write_to_gradients_do_not_change_later_ones(name):
    """A gradient's memory is its leaf's, which an optimizer in a hook may write to."""
    found = []
    for which in (0, 2):
        made = compiled(MODELS[name], "numba")
        model, run = made[min(which, 1)], made[which]
        kept = {}
        for key, parameter in model.named_parameters():

            def take(p, key=key, kept=kept):
                kept[key] = p.grad.clone()
                p.grad.fill_(float("nan"))

            parameter.register_post_accumulate_grad_hook(take)
        torch.manual_seed(1)
        run(
            torch.randn(4, 6, dtype=F64, generator=torch.Generator().manual_seed(2))
        ).square().sum().backward()
        found.append(kept)
    torch.testing.assert_close(found[1], found[0])


def test_a_graph_that_is_kept_is_differentiated_again():
    eager, model, run = compiled(layers, "numba")
    x = torch.randn(4, 6, dtype=F64)
    for each, call in ((eager, eager), (model, run)):
        loss = call(x).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        del each
    for one, other in zip(eager.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad)


@pytest.mark.parametrize("which", [[0], [5], [1, 4]])
def test_gradients_of_some_leaves_alone(which):
    eager, model, run = compiled(layers)
    x, found = torch.randn(4, 6, dtype=F64), []
    for each, call in ((eager, eager), (model, run)):
        leaves = [[*each.parameters()][i] for i in which]
        found.append(torch.autograd.grad(call(x).square().sum(), leaves))
    torch.testing.assert_close(found[1], found[0])


def test_gradients_of_gradients():
    eager, model, run = compiled(layers)
    x, found = torch.randn(4, 6, dtype=F64), []
    for each, call in ((eager, eager), (model, run)):
        first = torch.autograd.grad(call(x).square().sum(), [*each.parameters()], create_graph=True)
        sum(g.square().sum() for g in first).backward()
        found.append([p.grad for p in each.parameters()])
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("used", [0, 1])
def test_an_output_that_nobody_uses(used):
    """Leaves on which only the other output depends have no gradient, as in eager mode."""
    eager, model, run = compiled(Two)
    x = torch.randn(4, 6, dtype=F64)
    both = [
        gradients(call, each, x, lambda y: y[used].sum())[1:]
        for each, call in ((eager, eager), (model, run))
    ]
    torch.testing.assert_close(both[1], both[0])
    assert (both[1][-1] is None) == (used == 0)


def test_parts_come_from_the_cache(tmp_path, monkeypatch):
    """All of them, with the places of their values, in the same order."""
    monkeypatch.setattr(bypass, "EXTENSIONS", list[str]())
    with minitorch2.config.patch(cache_dir=str(tmp_path), verify=False):
        x = torch.randn(4, 6, dtype=F64)
        for step in range(2):
            minitorch2.reset()
            eager, model, run = compiled(layers, "numba")
            with stages.collect(texts=False) as log:
                found = gradients(run, model, x)
            torch.testing.assert_close(found, gradients(eager, eager, x))
            del model, run
            gc.collect()  # the next model shall not share what this one has compiled
            assert log.counts["graphs_loaded" if step else "graphs_compiled"] == 1, log.counts
            assert parts_of(log) == 7


def graph_with_a_collective():
    """Two gradients in front of the wait for a collective, and one behind it."""
    graph = Graph()
    x, tangent = graph.placeholder("x"), graph.placeholder("tangent")
    started = graph.call_function(collective.all_reduce.default, (tangent, "sum", "0"))
    first = graph.call_function(aten.mul.Tensor, (tangent, x))
    second = graph.call_function(aten.sin.default, (first,))
    waited = graph.call_function(collective.wait_tensor.default, (started,))
    third = graph.call_function(aten.mul.Tensor, (waited, second))
    graph.output((first, second, third))
    for node in graph.nodes:
        node.meta["val"] = torch.empty(4)
    return GraphModule(graph)


def test_no_part_ends_while_a_collective_is_under_way():
    graphs, parts = cut_backward(graph_with_a_collective(), 1)
    names = [[n.name for n in each.graph.nodes if n.op == "call_function"] for each in graphs]
    assert names == [["all_reduce", "mul", "sin", "wait_tensor", "clone"], ["mul_1"]]
    assert [part.gradients for part in parts] == [(0, 1), (2,)]
    assert [part.reads for part in parts] == [(1, 0), (3, 2)]
