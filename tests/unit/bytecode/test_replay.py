"""A call in a folder is captured again with the same graphs."""

import functools
import json
import logging
import subprocess
import sys
import threading
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2.bytecode.observe.replay import ReplayError, load_call
from tests.unit.bytecode import other_module

SCALE = 3
BIAS = torch.ones(3)
X = torch.tensor([1.0, -2.0, 3.0])
LAYER = torch.nn.Linear(3, 3)
activation = lambda x: x.relu() * 2  # noqa: E731


def inner(x, bias=None):
    return F.relu(x) * SCALE + (BIAS if bias is None else bias)


@minitorch2.compile(backend="eager")
def outer(x, sizes, *, flag=True):
    y = inner(x.sin())
    if y.sum() > 0 and flag:
        y = y + sizes["a"][0]
    return y


def graphs_of(explanation):
    return [graph.graph.tabular() for graph in explanation.graphs]


def again(tmp_path, function, *args, **kwargs):
    """The saved call, read back; its results are those of the call."""
    saved = load_call(minitorch2.save_call(function, tmp_path, *args, **kwargs))
    expected = function(*args, **kwargs)
    assert torch.equal(saved.function(*saved.args, **saved.kwargs), expected)
    return saved


def test_replay_shows_the_same_graphs(tmp_path):
    folder = minitorch2.save_call(outer, tmp_path / "call", X, {"a": [2]}, flag=True)
    before = minitorch2.explain(outer, backend="eager")(X, {"a": [2]}, flag=True)
    after = minitorch2.replay(folder)
    assert graphs_of(after) == graphs_of(before) and after.graph_count == 2
    assert [b.reason for b in after.breaks] == [b.reason for b in before.breaks]
    assert str(folder) in str(after.breaks[0].line)


def test_another_process_replays_it(tmp_path):
    minitorch2.save_call(lambda x: activation(LAYER(x)), tmp_path, X)
    code = f"import minitorch2; print(minitorch2.replay({str(tmp_path)!r}).graph_count)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "1\n", done.stderr


def test_results_are_the_same(tmp_path):
    again(tmp_path, outer, X, {"a": [2]})


def test_code_is_text_and_data_is_data(tmp_path):
    minitorch2.save_call(outer, tmp_path, X, {"a": [2]})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "call.json", "program.py", "tensors.pt",
    ]  # fmt: skip
    text = (tmp_path / "program.py").read_text()
    assert "def outer(" in text and "def inner(" in text and "compile" not in text
    call = json.loads((tmp_path / "call.json").read_text())
    binds = {step["bind"][1]: step["bind"][2] for step in call["steps"] if "bind" in step}
    assert binds["SCALE"] == 3
    assert call["objects"][binds["F"]["at"]] == {"module": "torch.nn.functional"}
    torch.load(tmp_path / "tensors.pt", weights_only=True)


def test_metadata_and_sharing_of_tensors_are_kept(tmp_path):
    def both(a, b):
        return a + b

    x = torch.ones(4, 3).t().requires_grad_()
    saved = again(tmp_path, both, x, x)
    first, second = saved.args
    assert first is second and first.requires_grad and first.stride() == x.stride()


def test_closures_keep_what_they_close_over(tmp_path):
    rate = 0.5
    layer = torch.nn.Linear(3, 3)

    def scaled(x, depth=2):
        return scaled(layer(x), depth - 1) if depth else x * rate

    again(tmp_path, scaled, X)


# Globals, lambdas, modules, methods


LOGGER = logging.getLogger("replayed")


def reads_globals(x):
    LOGGER.debug("reading")
    return activation(LAYER(x)) + other_module.shift(x)


def test_globals_may_be_modules_and_lambdas(tmp_path):
    saved = again(tmp_path, reads_globals, X)
    assert isinstance(saved.function.__globals__["LAYER"].weight, torch.nn.Parameter)
    assert minitorch2.replay(tmp_path).graph_count == 1


def test_a_lambda_amid_an_expression(tmp_path):
    two = [lambda x: x + 1, lambda x: (lambda y: y * 2)(x) - SCALE]
    again(tmp_path / "a", two[0], X)
    again(tmp_path / "b", two[1], X)
    again(tmp_path / "c", (lambda x, n=SCALE: x * n), X)


class Block(torch.nn.Module):
    scale = SCALE

    def __init__(self, size):
        super().__init__()
        self.first = torch.nn.Linear(size, size)
        self.tied = self.first
        self.register_buffer("mean", torch.zeros(size))
        self.act = F.gelu
        self.rate = torch.nn.Parameter(torch.ones(()))

    def forward(self, x, *, twice: bool = False) -> torch.Tensor:
        y = self.act(self.first(x)) * self.scale - self.mean
        return self.tied(y) * self.rate if twice else self.helper(y)

    def helper(self, y):
        return reads_globals(y)

    @staticmethod
    def plain(x):
        return x * SCALE


class Model(Block):
    def __init__(self):
        super().__init__(3)
        self.blocks = torch.nn.ModuleList([Block(3), Block(3)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return super().forward(x)


def test_a_module_is_kept_by_its_class_and_its_attributes(tmp_path):
    model = Model().eval()
    saved = again(tmp_path, model, X)
    copy = saved.function
    assert type(copy).__name__ == "Model" and copy.first is copy.tied and not copy.training
    assert list(copy.state_dict()) == list(model.state_dict())
    assert minitorch2.replay(tmp_path).graph_count == 1


def test_a_compiled_module_is_kept_as_the_module_that_it_is(tmp_path):
    again(tmp_path, minitorch2.compile(Model(), backend="eager"), X)


def test_methods_of_all_kinds(tmp_path):
    block = Block(3)
    again(tmp_path / "bound", block.helper, X)
    again(tmp_path / "static", Block.plain, X)
    again(tmp_path / "unbound", Block.forward, block, X, twice=True)
    again(tmp_path / "partial", functools.partial(block, twice=True), X)
    again(tmp_path / "torch", torch.sin, X)
    again(tmp_path / "tensor", X.add, X)


def test_local_classes_keep_what_they_close_over(tmp_path):
    size = 3

    class Base(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(size, size)

    class Local(Base):
        width = SCALE

        def forward(self, x):
            return self.layer(x) * size * self.width

    again(tmp_path, Local(), X)


def no_gradient(function):
    @functools.wraps(function)
    def calling(*args):
        with torch.no_grad():
            return function(*args) + 1

    return calling


@no_gradient
def decorated(x):
    return x * SCALE


@torch.no_grad()
def decorated_by_torch(x):
    return x * SCALE


@minitorch2.disable
def disabled(x):
    return x + SCALE


def test_decorators_keep_their_meaning(tmp_path):
    def f(x):
        return decorated(x) + decorated_by_torch(x) + disabled(x)

    again(tmp_path, f, X)
    assert minitorch2.replay(tmp_path).graph_break_count == 1


class Colour(Enum):
    RED = 2


@dataclass
class Settings:
    width: int
    names: list = field(default_factory=list)
    colour: Colour = Colour.RED


class Slots:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 2


class Items(dict):
    pass


Pair = namedtuple("Pair", "left right")


def test_values_of_many_kinds(tmp_path):
    def f(x, *values):
        return x

    settings = Settings(3, ["a"])
    loop = [1]
    loop.append(loop)
    items = Items(a=1)
    items.extra = 2
    values = [
        torch.float16, torch.device("cpu"), torch.Size([2, 3]), {1, 2}, frozenset([3]),
        slice(1, None, 2), range(2, 9, 3), 1 + 2j, b"\x00\xff", ..., float("nan"), float("-inf"),
        OrderedDict(b=1, a=2), settings, Colour.RED, Slots(), items, Pair(1, [2]),
        torch.channels_last, np.arange(3.0), np.float32(2), torch.nn.Linear, torch.sin, max,
        torch.ops.aten.sin.default, {(1, 2): settings},
    ]  # fmt: skip
    minitorch2.save_call(f, tmp_path, X, *values, loop)
    _, *found = load_call(tmp_path).args
    again_loop = found.pop()
    assert again_loop[1] is again_loop
    assert repr(found[:12]) == repr(values[:12])
    names = [type(value).__name__ for value in found]
    assert names == [type(value).__name__ for value in values]
    assert found[13].names == ["a"] and found[13].colour.name == "RED"
    assert found[15].a == 2 and not hasattr(found[15], "b")
    assert (dict(found[16]), found[16].extra) == ({"a": 1}, 2)
    assert (found[17].left, found[17].right) == (1, [2])
    assert found[19].tolist() == [0, 1, 2] and found[20] == 2
    assert found[21] is torch.nn.Linear and found[22] is torch.sin and found[23] is max
    assert found[24] is torch.ops.aten.sin.default
    assert found[25][1, 2] is found[13]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (threading.Lock(), "lock cannot be kept in a folder"),
        (torch.nn.Parameter(X).as_subclass(type("Sub", (torch.Tensor,), {})), "Sub cannot be kept"),
        ((n for n in (1, 2)), "generator cannot be kept"),
        (defaultdict(eval("lambda: 1")), "no text of the lambda"),
    ],
)
def test_what_cannot_be_kept_is_an_error_that_says_what_to_do(tmp_path, value, words):
    with pytest.raises(ReplayError, match=words) as caught:
        minitorch2.save_call(inner, tmp_path, X, value)
    assert caught.value.fix


def test_a_folder_of_another_format_is_refused(tmp_path):
    (tmp_path / "call.json").write_text("{}")
    with pytest.raises(ReplayError, match="another format"):
        load_call(tmp_path)
