"""Dicts whose class says what subscripting them means, and ordered dicts with attributes."""

import copy
from collections import OrderedDict

import torch

import minitorch2
from minitorch2 import stages
from tests.unit.bytecode.capturing import capture, check


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


def test_attributes_of_an_ordered_dict_are_seen():
    """They were once missing: `hasattr` said no, and a copy of a state dict lost its versions."""
    state = torch.nn.BatchNorm1d(2).state_dict()

    def program(x):
        total = x + sum(value.sum() for value in state.values())
        return total, hasattr(state, "_metadata"), getattr(state, "other", 3), list(state._metadata)

    check(program, torch.ones(3), graphs=1)

    def copies(x):
        made = copy.deepcopy(state)
        return made._metadata, made["weight"].sum() + x, type(made)

    check(copies, torch.ones(3), breaks=1)


def test_an_attribute_that_an_ordered_dict_gets_later_is_seen():
    table = OrderedDict(a=torch.ones(2))
    compiled = minitorch2.compile(lambda x: (x + table["a"], hasattr(table, "late")))
    assert compiled(torch.ones(2))[1] is False
    table.late = 1
    assert compiled(torch.ones(2))[1] is True


def test_a_state_dict_loads_inside_with_its_versions():
    """Without them the counter of batches would start at 0 again."""
    state = torch.nn.BatchNorm1d(2).state_dict()
    state["num_batches_tracked"] += 5
    model = torch.nn.BatchNorm1d(2)

    def program(x):
        model.load_state_dict(state)
        return x + 1

    torch.testing.assert_close(capture(program)(torch.ones(2)), torch.full((2,), 2.0))
    assert model.num_batches_tracked == 5
