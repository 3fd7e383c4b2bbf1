"""The memory of tensors inside compiled functions: addresses, storages and ``resize_``."""

import torch
from torch import nn

import minitorch2
from minitorch2 import stages
from tests.unit.bytecode.torch_values.programs import check_row, table

ADDRESSES = [
    "x + 1 if x.data_ptr() == q.data_ptr() else x - 1",
    "x + 1 if x.data_ptr() == x[1].data_ptr() else x - 1",
    "x + 1 if x[1:].data_ptr() == x[1].data_ptr() else x - 1",
    "x + 1 if x.untyped_storage().data_ptr() == x[1].untyped_storage().data_ptr() else x - 1",
    "x + 1 if w.untyped_storage().data_ptr() != w.detach().untyped_storage().data_ptr() else w",
    "a = x * 2\nx + 1 if a.data_ptr() == a.view(-1).data_ptr() else x - 1",
    "a = x * 2\nx + 1 if a.data_ptr() == x.data_ptr() else x - 1",
    "a = x.contiguous()\nx + 1 if a.data_ptr() == x.data_ptr() else x - 1",
    "len({t.data_ptr() for t in (x, q, x.view(-1), x.t())}) + x",
    "s_ = {}\nfor t in (x, x[0], q):\n    s_.setdefault(t.data_ptr(), []).append(t)\n"
    "[sum(t.sum() for t in g) for g in s_.values()]",
    "s_ = {(t.device, t.untyped_storage().data_ptr(), t.untyped_storage().nbytes())\n"
    "      for t in (x, x[0], q)}\nlen(s_) + x",
    "e.data_ptr(), e.untyped_storage().data_ptr() == 0, x.data_ptr() == 0, bool(x.data_ptr())",
    "x[:0].data_ptr(), x[:0].untyped_storage().data_ptr() == x.data_ptr()",
    "x.untyped_storage().nbytes(), x.untyped_storage().size(), len(x.untyped_storage()), x + 1",
    "x[0].untyped_storage().nbytes() + x, (x.double() * 2).untyped_storage().nbytes()",
    "x + x[1].storage_offset()",
    "str(x.untyped_storage().device), x + 1",
    "x.is_set_to(q), x.is_set_to(x.view(3, 4)), x.is_set_to(x[:2]), x.is_set_to(x.t()), x + 1",
    "x.view(torch.int32).data_ptr() == x.data_ptr(), x + 1",
    "a = x.data_ptr()\nx.data = x * 2\na == x.data_ptr(), x + 1",
    "a = x[0]\na[:2].untyped_storage().data_ptr() == x.untyped_storage().data_ptr(), x * 2",
    "x.data_ptr() == id(x), x + 1",
    ("x + x.data_ptr() % 1", "identity"),
]


@table(ADDRESSES)
def test_addresses(row):
    check_row(row)


RESIZED = [
    "a = x.clone()\na.resize_(2, 3)\na + 1",
    "a = x.clone()\nb_ = a.view(-1)\na.resize_(2, 3)\na.mul_(2)\na, b_",
    "a = x.clone()\na.resize_((4, 3)).add_(1)\na",
    "a = torch.empty(0)\na.resize_(3, 4)\na.copy_(x)\na * 2",
    "a = torch.empty(0)\na.resize_as_(x).copy_(x)\na + 1",
    "a = x[0].clone()\na.resize_(6)\na[4:] = 7\na",
    "x.resize_(2, 3)\nx + 1",
    "x.resize_(2, 3)\nx.mul_(2)\nx",
    "x.resize_(3, 4)\nx * 2",
    "a = x.t()\na.resize_(4, 3)\na * 2",
    "a = x[1:].clone()\na.resize_(0)\na.sum(), a",
    "i.resize_(2, 2)\ni + 1",
    "w.resize_(2, 3)\nw",
    "a = w * 2\na.resize_(2, 3)\na",
    ("x.resize_(30)\nx.fill_(1)\nx", "tensor-method"),
    ("a = x.clone()\nb_ = a.view(-1)\na.resize_(20)\na.fill_(2)\nb_ * 2", "tensor-method"),
]


@table(RESIZED)
def test_resized(row):
    check_row(row)


class Tied(nn.Module):
    """Counts its different weights as libraries of models do."""

    def __init__(self, tied):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, x):
        groups = {}
        for name, p in [("a", self.embedding.weight), ("b", self.head.weight)]:
            storage = p.untyped_storage()
            groups.setdefault((p.device, storage.data_ptr(), storage.nbytes()), []).append(name)
        scale = 0.5 if any(len(names) > 1 for names in groups.values()) else 1.0
        return self.head(self.embedding(x)) * scale


def test_tied_weights_are_found_in_one_graph():
    x = torch.tensor([0, 3])
    for tied in (True, False):
        model = Tied(tied)
        with stages.collect() as log:
            torch.testing.assert_close(minitorch2.compile(model, fullgraph=True)(x), model(x))
        assert log.counts["graphs"] == 1


def alike(x, y):
    return x + 1 if x.data_ptr() == y.data_ptr() else x - 1


def bytes_of(x):
    return x + x.untyped_storage().nbytes()


def test_other_memory_is_noticed():
    compiled = minitorch2.compile(alike, fullgraph=True, backend="eager")
    x = torch.ones(4)
    for pair in ((x, torch.ones(4)), (x, x[:]), (x[:2], x[2:]), (x, x), (x, torch.ones(4))):
        assert compiled(*pair).tolist() == alike(*pair).tolist()


def test_memory_of_another_size_is_noticed():
    for dynamic in (False, True):
        compiled = minitorch2.compile(bytes_of, fullgraph=True, backend="eager", dynamic=dynamic)
        x = torch.ones(4)
        for part in (x, torch.zeros(4), x[:2], x[:3], torch.ones(5), torch.ones(6)):
            assert compiled(part).tolist() == bytes_of(part).tolist()


def test_resized_to_a_size_that_varies():
    def resized(x):
        y = torch.empty(0)
        y.resize_(2, x.shape[0] + 1)
        return y.fill_(3) * x.sum()

    compiled = minitorch2.compile(resized, fullgraph=True, dynamic=True)
    with stages.collect() as log:
        for size in (3, 4, 5):
            x = torch.ones(size)
            torch.testing.assert_close(compiled(x), resized(x))
    assert log.counts["graphs"] == 1
