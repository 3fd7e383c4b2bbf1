"""Dicts whose class says what subscripting them means."""

from collections import OrderedDict

import torch

import minitorch2
from minitorch2 import stages


class Instances(OrderedDict):
    """Like the table of activations of transformers: classes in, instances out."""

    def __getitem__(self, key):
        return super().__getitem__(key)()


TABLE = Instances(relu=torch.nn.ReLU, tanh=torch.nn.Tanh)


def test_guards_do_not_subscript_such_a_dict():
    compiled = minitorch2.compile(lambda x: TABLE["relu"](x) + 1, backend="eager", fullgraph=True)
    x = torch.tensor([-1.0, 1.0])
    with stages.collect() as log:
        assert torch.equal(compiled(x), torch.tensor([1.0, 2.0]))
        assert torch.equal(compiled(x), torch.tensor([1.0, 2.0]))
    assert log.counts["graphs"] == 1


def test_the_order_of_such_a_dict_is_its_own():
    table = Instances(a=list, b=dict)
    compiled = minitorch2.compile(lambda x: (x + 1, [*table]), backend="eager")
    assert compiled(torch.ones(1))[1] == ["a", "b"]
    table.move_to_end("a")
    assert compiled(torch.ones(1))[1] == ["b", "a"]
