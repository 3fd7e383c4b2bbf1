"""A compiled module is a module of the same class that shares everything with the original."""

import copy
import pickle

import torch
from torch import nn

import minitorch2
from minitorch2 import stages


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros(()))
        self.scale = 2

    def forward(self, x):
        """Doc."""
        return self.norm(self.first(x)) * self.scale

    def half(self, x):
        return x / 2


def pair(net=None):
    net = net or Net()
    return net, minitorch2.compile(net, backend="eager")


X = torch.randn(5, 3)


def test_class_name_parameters_and_state_dict():
    net, compiled = pair()
    assert isinstance(compiled, Net)
    assert type(compiled).__name__ == "Net"
    assert list(compiled.state_dict()) == list(net.state_dict())
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in net.parameters()]
    assert [name for name, _ in compiled.named_modules()] == ["", "first", "norm"]


def test_values_equal_eager_in_one_graph():
    net, compiled = pair()
    other = copy.deepcopy(net)
    with stages.collect() as log:
        for _ in range(3):
            torch.testing.assert_close(compiled(X), other(X))
    assert log.counts["graphs"] == 1
    torch.testing.assert_close(compiled.state_dict(), other.state_dict())


def test_attributes_go_both_ways_and_change_the_result():
    net, compiled = pair()
    compiled.eval()
    assert not net.training
    before = compiled(X)
    net.scale = 4
    assert compiled.scale == 4
    torch.testing.assert_close(compiled(X), before * 2)
    compiled.extra = 1
    assert net.extra == 1
    assert torch.equal(compiled.half(X), X / 2)


def test_train_and_eval_are_separate_entries():
    _, compiled = pair()
    with stages.collect() as log:
        compiled.train()(X)
        compiled.eval()(X)
        compiled.train()(X)
        compiled.eval()(X)
    assert log.counts["graphs"] == 2


def test_hooks_run():
    net, compiled = pair()
    seen = []
    net.register_forward_hook(lambda module, args, output: seen.append("outer"))
    net.first.register_forward_hook(lambda module, args, output: seen.append("inner"))
    compiled(X)
    compiled(X)
    assert seen == ["inner", "outer"] * 2


def test_parameter_that_is_replaced_is_used():
    net, compiled = pair()
    compiled.eval()
    compiled(X)
    net.first.weight = nn.Parameter(torch.zeros(4, 3))
    torch.testing.assert_close(compiled(X), net(X))


def test_copies_and_pickles():
    net, compiled = pair()
    compiled.eval()
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert isinstance(other, Net)
        assert other.first.weight is not net.first.weight
        with stages.collect() as log:
            torch.testing.assert_close(other(X), net(X))
        assert log.counts["graphs"] == 1


def test_forward_method_and_documentation():
    net, compiled = pair()
    compiled.eval()
    torch.testing.assert_close(compiled.forward(X), net(X))
    assert compiled.forward.__doc__ == "Doc."


def test_compiled_module_inside_another_is_inlined():
    inner = minitorch2.compile(nn.Linear(3, 3), backend="eager")
    outer = nn.Sequential(inner, nn.ReLU())
    with stages.collect() as log:
        compiled = minitorch2.compile(outer, backend="eager")
        assert compiled(X).shape == (5, 3)
    assert log.counts["graphs"] == 1
    assert log.counts["graph_breaks"] == 0


def test_gradients_and_optimizer():
    net, compiled = pair()
    other = copy.deepcopy(net)
    for model in (compiled, other):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(X).square().mean().backward()
            optimizer.step()
    torch.testing.assert_close(net.state_dict(), other.state_dict())


def test_sequential_keeps_len_and_indexing():
    compiled = minitorch2.compile(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), backend="eager")
    assert len(compiled) == 2
    assert isinstance(compiled[0], nn.Linear)
    assert compiled(X).shape == (5, 4)


def test_compiling_a_compiled_module_again():
    net, compiled = pair()
    again = minitorch2.compile(compiled, backend="eager")
    assert isinstance(again, Net)
    torch.testing.assert_close(again.eval()(X), net(X))


def test_equal_blocks_compiled_by_one_decorator_share_an_entry():
    """Regional compilation: each had a class of its own, which the guards of the others refused."""
    region = minitorch2.compile(backend="eager", fullgraph=True)
    nets = [Net().eval() for _ in range(4)]
    blocks = [region(net) for net in nets]
    with stages.collect() as log:
        for net, block in zip(nets, blocks, strict=True):
            assert torch.equal(block(X), net(X))
        assert torch.equal(copy.deepcopy(blocks[0])(X), nets[0](X))
    assert log.counts["frames"] == 1
    assert len({type(block) for block in blocks}) == 1
