"""A call in a folder is captured again with the same graphs."""

import json

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2.bytecode.observe.replay import ReplayError, load_call

SCALE = 3
BIAS = torch.ones(3)


def inner(x, bias=None):
    return F.relu(x) * SCALE + (BIAS if bias is None else bias)


@minitorch2.compile(backend="eager")
def outer(x, sizes, *, flag=True):
    y = inner(x.sin())
    if y.sum() > 0 and flag:
        y = y + sizes["a"][0]
    return y


X = torch.tensor([1.0, -2.0, 3.0])


def graphs_of(explanation):
    return [graph.graph.tabular() for graph in explanation.graphs]


def test_replay_shows_the_same_graphs(tmp_path):
    folder = minitorch2.save_call(outer, tmp_path / "call", X, {"a": [2]}, flag=True)
    before = minitorch2.explain(outer, backend="eager")(X, {"a": [2]}, flag=True)
    after = minitorch2.replay(folder)
    assert graphs_of(after) == graphs_of(before) and after.graph_count == 2
    assert [b.reason for b in after.breaks] == [b.reason for b in before.breaks]
    assert str(folder) in str(after.breaks[0].line)


def test_results_are_the_same(tmp_path):
    saved = load_call(minitorch2.save_call(outer, tmp_path, X, {"a": [2]}))
    assert torch.equal(saved.function(*saved.args, **saved.kwargs), outer(X, {"a": [2]}))


def test_code_is_text_and_data_is_data(tmp_path):
    minitorch2.save_call(outer, tmp_path, X, {"a": [2]})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "call.json", "program.py", "tensors.pt",
    ]  # fmt: skip
    text = (tmp_path / "program.py").read_text()
    assert "def outer(" in text and "def inner(" in text and "compile" not in text
    call = json.loads((tmp_path / "call.json").read_text())
    assert call["constants"]["SCALE"] == 3
    assert call["imports"]["F"] == "torch.nn.functional"
    torch.load(tmp_path / "tensors.pt", weights_only=True)


def test_metadata_and_sharing_of_tensors_are_kept(tmp_path):
    def both(a, b):
        return a + b

    x = torch.ones(4, 3).t().requires_grad_()
    saved = load_call(minitorch2.save_call(both, tmp_path, x, x))
    first, second = saved.args
    assert first is second and first.requires_grad and first.stride() == x.stride()


def test_closures_become_constants(tmp_path):
    rate = 0.5

    def scaled(x):
        return x * rate

    saved = load_call(minitorch2.save_call(scaled, tmp_path, X))
    assert torch.equal(saved.function(X), X * rate)


def test_what_cannot_be_kept_is_an_error(tmp_path):
    with pytest.raises(ReplayError, match="a Linear cannot be kept"):
        minitorch2.save_call(lambda m: m(X), tmp_path, torch.nn.Linear(3, 3))
    with pytest.raises(ReplayError, match="no Python function"):
        minitorch2.save_call(torch.sin, tmp_path, X)
