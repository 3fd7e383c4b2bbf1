"""Assignment of ``.data`` and writes through it: one graph, with eager's values and gradients."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import minitorch2
from minitorch2 import stages
from tests.unit.bytecode.torch_values.programs import check_row, table

ASSIGNED = [
    "x.data = q[:3] * 2\nx + 1",
    "w.data = x * 2\nw * 3",
    "w.data = w.data * 2\nw * x",
    "p.data = p.data.clamp(-0.5, 0.5)\np * y",
    "p.data = p\np * y",
    "p.data = y\np * 2, y * 3",
    "p.data = y\np",
    "with torch.no_grad():\n    p.data = y * 2\np * y",
    "a = w * 2\na.data = x + 1\na * 3",
    "a = w * 2\na.data = x + 1\na",
    "a = w * 2\nb_ = x + 1\na.data = b_\na.mul_(2)\na, b_",
    "a = x * 2\na.data = q\na, q",
    "a = x.view(-1)\nx.data = x * 2\na * 3, x * 1",
    "a = w.view(-1)\nw.data = x * 2\na * 3, w * 1",
    "a = w + x\nw.data = x + 1\na * w",
    "a = w * x\nw.data = x + 1\na",
    "a = w * x\nw.data.mul_(3)\na",
    "x.data, q.data = q.data, x.data\nx.sum(), q.sum()",
    "w.data = x * 2\na = w * 3\nw.data = w.data + 1\nw * 2, a",
    "for t in (p, v):\n    t.data = t.data.clamp(-0.5, 0.5)\np * 2 + v",
    "setattr(p, 'data', y * 2)\np + 1",
    "torch.Tensor.data.__set__(p, y * 2)\np + 1",
    "p.data = y.double()\np.dtype, y",
    "p.data = torch.cat([p.data, y])\ny, p.shape",
    "p.data = torch.cat([p.data, y])\nwith torch.no_grad():\n    a = p * 2\na",
    "x.data = i\nx + 1",
    "i.data = x * 2\ni * 2",
    "t = nn.Parameter(x)\nt.data = y * 1\nt, t.detach() * 2",
    "p.data = y * 1\n(p.requires_grad, p.is_leaf, p.grad_fn is None, type(p) is nn.Parameter)",
    "p.data = y * 1\np.detach() * 2, p.data + 1",
    "v.data.copy_(y)\nv.data[0] = 5\nv.data *= 2\nv * y",
    "v.data -= 0.1 * y\nv.data.add_(y, alpha=2).clamp_(-1, 1)\nv * y",
    "(v * v * y).sum().backward()\nv.data = v.data - 0.1 * v.grad\nv.detach() * 1",
    "for _ in range(2):\n    (v * v).sum().backward()\n    v.data = v.data - v.grad\ny",
    "v.data = v.data * 2\n(v * v).sum().backward()\ny",
    "w.data = x.t()\nx",
    # An operator has kept the tensor: eager's gradient takes the new data for it.
    ("a = w * w\nw.data = x + 1\na", "tensor-attribute-write"),
    ("a = (w ** 2).sum()\nw.data = x + 1\na", "tensor-attribute-write"),
    # Errors.
    ("p.data = y * 1\np.mul_(2)\np", "tensor-subclass"),
    ("p.data = y * 1\np[0] = 1\np", "tensor-subclass"),
    ("p.data = torch.arange(4)\np", "tensor-attribute-write"),
    ("p.data = 3\np", "tensor-attribute-write"),
]


@table(ASSIGNED)
def test_assigned_data(row):
    check_row(row)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.linear(x))


def average(model, other, x):
    result = model(x)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        q.data = q.data * 0.9 + p.data * 0.1
    return result


def average_in_place(model, other, x):
    result = model(x)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        q.data.mul_(0.9).add_(p.data, alpha=0.1)
    return result


def normalized(model, other, x):
    weight = model.linear.weight
    weight.data = weight.data / weight.data.norm()
    return model(x)


def trained(model, other, x):
    loss = model(x).pow(2).sum()
    loss.backward()
    for p in model.parameters():
        p.data = p.data - 0.1 * p.grad
        p.grad = None
    return loss.detach()


def copied(model, other, x):
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        q.data = p.data.clone()
    return other(x)


def decayed_after_use(model, other, x):
    result = model(x)
    for p in model.linear.parameters():
        p.data = p.data * 0.5
    return result


def outcome(step, model, other, sizes):
    torch.manual_seed(0)
    results = []
    for size in sizes:
        result = step(model, other, torch.randn(size, 3))
        if result.requires_grad:
            result.pow(2).sum().backward()
        results.append(result.detach())
    state = [*model.state_dict().values(), *other.state_dict().values()]
    return results, state, [p.grad for m in (model, other) for p in m.parameters()]


def shared(x, y):
    x.data = y.data
    y.mul_(2)
    return x + y


def test_data_that_is_shared_from_then_on_is_shared_memory():
    compiled = minitorch2.compile(shared, fullgraph=True)
    for _ in range(2):
        x, y = torch.ones(3), torch.full((3,), 2.0)
        assert compiled(x, y).tolist() == [8.0] * 3
        assert x.data_ptr() == y.data_ptr()


STEPS = [average, average_in_place, normalized, trained, copied, decayed_after_use]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
@pytest.mark.parametrize("dynamic", [False, True])
def test_data_of_parameters_is_assigned_in_one_graph(step, dynamic):
    torch.manual_seed(0)
    models = [Model(), Model()]
    twins = copy.deepcopy(models)
    compiled = minitorch2.compile(step, fullgraph=True, dynamic=dynamic)
    sizes = (4, 5, 6) if dynamic else (4, 4, 4)
    with stages.collect() as log:
        given = outcome(compiled, *models, sizes)
    assert_close(given, outcome(step, *twins, sizes), rtol=1e-4, atol=1e-4)
    assert log.counts["graphs"] == 1


def test_backward_computes_again_from_the_data_before_an_assignment():
    """The old data is not where backward would look for it."""

    def assigned(x, y):
        result = torch.sin(x + y) * y
        x.data = y.detach() * 3
        return result

    x, y = torch.randn(3), torch.randn(3)
    for function in (assigned, minitorch2.compile(assigned, fullgraph=True)):
        a, b = (t.clone().requires_grad_() for t in (x, y))
        function(a, b).sum().backward()
        assert_close(a.grad, torch.cos(x + y) * y)
        assert_close(b.grad, torch.cos(x + y) * y + torch.sin(x + y))
        assert_close(a.detach(), y * 3)


# A parameter that stops to require a gradient ---------------------------------------------------


def freezes_a_layer(net, x):
    net[0].requires_grad_(False)
    y = net(x).square().sum()
    y.backward()
    return y.detach()


def freezes_and_thaws(net, x):
    net[0].requires_grad_(False)
    loss = net(x).square().mean()
    loss.backward()
    net[0].requires_grad_(True)
    return loss.detach()


def freezes_by_attribute(net, x):
    net[1].requires_grad_(False)
    net[0].bias.requires_grad = False
    loss = net(x).sum()
    return loss.detach(), loss.backward()


def writes_to_frozen_ones(net, x):
    net[1].requires_grad_(False)
    net[1].weight.mul_(2)
    net[0](x).sum().backward()
    weight = net[1].weight
    return net(x).detach(), weight.requires_grad, weight.is_leaf, weight.grad_fn


def freezes_what_was_used(net, x):
    y = net[0](x)
    net[0].requires_grad_(False)
    (y.square().sum() + net(x).sum()).backward()
    return y.detach()


def all_that_is_left(function, program):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    run, seen = function(program), []
    for step in range(3):
        seen.append(run(net, torch.arange(6.0).reshape(2, 3) + step))
        seen += [(p.requires_grad, p.detach().clone(), p.grad) for p in net.parameters()]
        net.zero_grad()
        if step == 1:
            net.requires_grad_(True)
    return seen


@pytest.mark.parametrize("backend", ["eager", "numba"])
@pytest.mark.parametrize(
    "program, breaks",
    [
        (freezes_a_layer, 0),
        (freezes_and_thaws, 0),
        (freezes_by_attribute, 0),
        (writes_to_frozen_ones, 0),
        (freezes_what_was_used, None),
    ],
)
def test_a_parameter_that_stops_to_require_a_gradient(program, breaks, backend):
    """It was a break for each parameter; one that was used before still is."""
    wanted = all_that_is_left(lambda f: f, program)
    with stages.collect() as log:
        found = all_that_is_left(lambda f: minitorch2.compile(f, backend=backend), program)
    torch.testing.assert_close(found, wanted)
    assert breaks is None or log.counts["graph_breaks"] == breaks
    assert log.counts["graphs"] > 0
