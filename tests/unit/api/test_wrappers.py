"""NumPy functions on tensors, and functions that are one node whatever they hold."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch

import minitorch2
from minitorch2.errors import MinitorchError
from minitorch2.testing import assert_same

X = torch.tensor([1.0, -2.0, 3.0])


@minitorch2.wrap_numpy
def spread(x, scale=2, *, more=None):
    y = np.sum(x[:, None] * x, axis=0) * scale
    return {"y": y, "all": (np.max(y), more), "x": x}


def test_a_numpy_function_takes_and_gives_tensors_in_eager_code():
    found = spread(X, more="kept")
    assert_same(found["y"], (X[:, None] * X).sum(0) * 2)
    assert found["all"] == (found["y"].max(), "kept")
    assert found["x"].data_ptr() == X.data_ptr()


def test_what_numpy_cannot_have_in_eager_code_is_an_error():
    x = X.clone().requires_grad_()
    with pytest.raises(MinitorchError, match="need no gradient") as caught:
        spread(x)
    assert "compile" in caught.value.fix
    with torch.no_grad():
        assert_same(spread(x)["y"], spread(X)["y"])


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_compiled_it_is_one_graph_of_tensors_with_gradients(backend, dynamic):
    compiled = minitorch2.compile(spread, backend=backend, fullgraph=True, dynamic=dynamic)
    for size in (3, 5):
        x = torch.linspace(-1, 2, size).requires_grad_()
        found = compiled(x, more="kept")
        wanted = (x[:, None] * x).sum(0) * 2
        torch.testing.assert_close(found["y"], wanted)
        torch.testing.assert_close(found["all"][0], wanted.max())
        assert found["all"][1] == "kept" and found["x"] is not x
        gradients = (torch.autograd.grad(y.sum(), x) for y in (found["y"], wanted))
        torch.testing.assert_close(*gradients)
    assert minitorch2.explain(spread, backend="eager")(X).graph_count == 1


def test_a_numpy_function_amid_tensor_code():
    def program(x):
        return spread(x.sin(), 3)["y"].cos() + x

    assert_same(minitorch2.compile(program, backend="eager", fullgraph=True)(X), program(X))


# One node -----------------------------------------------------------------------------------------

Pair = namedtuple("Pair", "first second")
SEEN = []
WEIGHT = torch.tensor(2.0)


@minitorch2.nonstrict_trace
def opaque(values, factor=1, *, flag=False):
    """Does what capture has no model for."""
    SEEN.append(type(values["x"]))
    exec("y = values['x'].sin() * factor", {}, scope := {"values": values, "factor": factor})
    y = scope["y"] * WEIGHT
    return OrderedDict(pair=Pair(y, [values["rest"][0] + 1, "text", None]), flag=flag)


def program(x):
    found = opaque({"x": x * 2, "rest": (x, 7)}, 3, flag=True)
    pair = found["pair"]
    kept = found["flag"] and pair.second[1:] == ["text", None] and type(pair) is Pair
    return pair.first.cos() + pair.second[0] if kept else x


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
def test_a_nonstrict_function_is_one_node_of_the_graph(backend):
    x = X.clone().requires_grad_()
    compiled = minitorch2.compile(program, backend=backend, fullgraph=True)
    found, wanted = compiled(x), program(x)
    torch.testing.assert_close(found, wanted)
    gradients = (torch.autograd.grad(y.sum(), x) for y in (found, wanted))
    torch.testing.assert_close(*gradients)


def test_capture_does_not_look_inside():
    explanation = minitorch2.explain(program, backend="eager")(X)
    assert explanation.graph_count == 1 and explanation.ops["opaque"] == 1
    assert "sin" not in explanation.ops


def test_each_call_site_has_its_own_constants_and_structure():
    @minitorch2.nonstrict_trace
    def of_many(x, count):
        return [x * n for n in range(1, count + 1)]

    def f(x):
        return sum(of_many(x, 2)) + sum(of_many(x.sin(), 3))

    assert_same(minitorch2.compile(f, backend="eager", fullgraph=True)(X), f(X))


def test_in_eager_code_it_is_the_function_itself():
    assert opaque.__doc__ == "Does what capture has no model for."
    found = opaque({"x": X, "rest": (X,)})
    assert type(found) is OrderedDict and type(found["pair"]) is Pair
