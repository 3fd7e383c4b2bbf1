"""`torch.nn.Module`: containers, registries, hooks, buffers, parametrizations, recurrent nets."""

import copy

import pytest
import torch
from torch import nn

import minitorch2
from tests.unit.bytecode.torch_values.programs import check_row, table


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        self.count += 1
        self.calls += 1
        return x * self.count


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        self.last = self.linear(x)
        self.shape = x.shape
        return self.last * 2


class Registering(nn.Module):
    def forward(self, x):
        if not hasattr(self, "offset"):
            self.register_buffer("offset", x.detach().mean(0))
        return x + self.offset


class RegisteringParameter(nn.Module):
    def forward(self, x):
        if "scale" not in self._parameters:
            self.register_parameter("scale", nn.Parameter(torch.ones(4)))
        return x * self.scale


class Making(nn.Module):
    def forward(self, x):
        return nn.ReLU()(x) + nn.Flatten(0)(x).sum()


class Rebinding(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x):
        self.state = self.state * 0.5 + x.detach().mean(0)
        return x + self.state


class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.list = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.dict = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU()})
        self.parameters_ = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(2)])
        self.named = nn.ParameterDict({"k": nn.Parameter(torch.ones(4))})

    def forward(self, x):
        for layer in self.list:
            x = layer(x)
        for index, layer in enumerate(self.list[1:]):
            x = layer(x) + index
        for name, layer in self.dict.items():
            x = layer(x) + len(name)
        for parameter in self.parameters_:
            x = x * parameter
        return x + self.named["k"] + len(self.list) + ("a" in self.dict)


def hooked(kind):
    model = nn.Linear(4, 4)
    if kind == "forward":
        model.register_forward_hook(lambda module, args, output: output * 2)
    elif kind == "pre":
        model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    elif kind == "kwargs":
        model.register_forward_hook(lambda m, args, kw, output: output + 3, with_kwargs=True)
    elif kind == "backward":
        model.register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,))
    elif kind == "backward_pre":
        model.register_full_backward_pre_hook(lambda module, go: (go[0] * 2,))
    return model


MAKERS = {
    "linear": lambda: nn.Linear(4, 4),
    "mlp": lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)),
    "bn": lambda: nn.BatchNorm1d(4),
    "dropout": lambda: nn.Dropout(0.5),
    "lstm": lambda: nn.LSTM(4, 5, batch_first=True),
    "gru": lambda: nn.GRU(4, 5, 2),
    "rnn": lambda: nn.RNN(4, 5),
    "cell": lambda: nn.LSTMCell(4, 5),
    "mha": lambda: nn.MultiheadAttention(4, 2, batch_first=True),
    "encoder": lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
    "decoder": lambda: nn.TransformerDecoderLayer(4, 2, 8, batch_first=True),
    "transformer": lambda: nn.Transformer(4, 2, 1, 1, 8, batch_first=True),
    "weight_norm": lambda: torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
    "spectral_norm": lambda: torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
    "orthogonal": lambda: torch.nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)),
    "old_weight_norm": lambda: torch.nn.utils.weight_norm(nn.Linear(4, 4)),
    "lazy": lambda: nn.LazyLinear(4),
    "embedding": lambda: nn.Embedding(4, 3),
    "bag": lambda: nn.EmbeddingBag(4, 3),
    "counting": Counting,
    "remembering": Remembering,
    "registering": Registering,
    "registering_parameter": RegisteringParameter,
    "making": Making,
    "rebinding": Rebinding,
    "everything": Everything,
    "frozen": lambda: nn.Linear(4, 4).requires_grad_(False),
}
for _kind in ("forward", "pre", "kwargs", "backward", "backward_pre"):
    MAKERS[_kind] = lambda kind=_kind: hooked(kind)


def seeded(make):
    def make_seeded():
        torch.manual_seed(1)
        return make()

    return make_seeded


MODELS = {name: seeded(make) for name, make in MAKERS.items()}


LIKE_EACH_OTHER = (
    "linear mlp bn dropout counting remembering making rebinding everything frozen registering"
).split()
"""Modules of which a new one is served by what was compiled for another."""

OWN = ("weight_norm spectral_norm orthogonal old_weight_norm forward pre kwargs").split()
"""Modules with hooks or classes of their own."""

PROGRAMS = [
    "lstm(b)",
    "gru(b)",
    "rnn(b)",
    "cell(x)",
    "mha(b, b, b)",
    "encoder(b)",
    "decoder(b, b)",
    "transformer(b, b)",
    "embedding(j)",
    "bag(j[None])",
    "mlp[0](x), mlp[-1].weight, len(mlp), mlp[:2](x)",
    "[type(layer).__name__ for layer in mlp], [n_ for n_, _ in mlp.named_children()], x + 1",
    "sum(t.sum() for t in mlp.parameters())",
    "[n_ for n_, t in mlp.named_parameters()], x + 1",
    "{n_: t.sum() for n_, t in mlp.named_parameters()}",
    "[n_ for n_, t in mlp.named_modules()], x + 1",
    "len(list(mlp.children())), len(list(mlp.modules())), len(list(mlp.buffers())), x + 1",
    "list(mlp.state_dict()), x + 1",
    "mlp.state_dict()['0.weight'] * 2",
    "mlp.get_submodule('0')(x), mlp.get_parameter('0.weight')",
    "mlp.training, mlp[0].training, x + 1",
    "mlp.eval()\nmlp(x), mlp.training",
    "dropout.eval()\ndropout(x)",
    "dropout.train(False)\nt = dropout(x)\ndropout.train()\nt, dropout(x)",
    "bn(x), bn.running_mean, bn.num_batches_tracked",
    "bn.eval()\nbn(x)",
    "linear.weight.shape, linear.in_features, linear.extra_repr(), linear(x)",
    "linear.weight @ linear.bias, linear.weight.T",
    "linear.forward(x), linear.__call__(x)",
    "hasattr(linear, 'weight'), hasattr(linear, 'nothing'), getattr(linear, 'bias') + 1",
    "linear.nothing",
    "linear.zero_grad()\nlinear(x)",
    "linear.requires_grad_(False)\nlinear(x)",
    "linear.weight.data.mul_(2)\nlinear(x)",
    "with torch.no_grad():\n    linear.weight.mul_(2)\nlinear(x), linear",
    "with torch.no_grad():\n    for t in linear.parameters():\n        t.add_(1)\nlinear(x)",
    ("linear.weight = nn.Parameter(torch.ones(4, 4))\nlinear(x)", "parameter-write"),
    "linear.scale = 3\nlinear(x) * linear.scale, linear",
    "linear.mask = x[0] > 0\nlinear(x) * linear.mask",
    ("linear.to(torch.float64)(d)", "not-inlined"),
    "everything.list[0](x), everything.dict['a'](x), everything.parameters_[1], everything.named['k'], len(everything.list)",
    "list(everything.dict.keys()), [t.shape for t in everything.parameters_], 'k' in everything.named, x + 1",
    "everything.list[-1](x), everything.list[::2][1](x), [l(x) for l in reversed(everything.list)]",
    "M = nn.Linear(4, 4)\nM(x)",
    "M = nn.Sequential(nn.Linear(4, 4), nn.ReLU())\nM(x)",
    "nn.ReLU()(x), nn.Softmax(dim=1)(x), nn.Dropout(0.5)(x), nn.Identity()(x)",
    "nn.LayerNorm(4)(x), nn.Embedding(4, 2)(j), nn.Flatten()(b), nn.GELU()(x)",
    "nn.CrossEntropyLoss()(x, j), nn.MSELoss()(x, x + 1), nn.BCEWithLogitsLoss()(x, x.sigmoid())",
    "nn.LSTM(4, 5, batch_first=True)(b)",
    "nn.GRU(4, 3)(b)",
    "nn.BatchNorm1d(4)(x), nn.Conv2d(3, 2, 3)(im), nn.MaxPool2d(2)(im)",
    "nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])[1](x)",
    "nn.ParameterList([torch.ones(4)])[0] * x",
    "p * 2, p.requires_grad",
    "isinstance(linear, nn.Linear), isinstance(linear, nn.Module), type(linear).__name__, x + 1",
    "linear.apply(lambda layer: None) is linear, x + 1",
    "next(linear.parameters()).device, next(linear.parameters()).dtype, x + 1",
    "F.linear(x, linear.weight.detach(), linear.bias.detach())",
    "torch.func.functional_call(linear, {'weight': torch.ones(4, 4)}, (x,))",
    "torch.nn.utils.parameters_to_vector(bn.parameters())",
    "torch.nn.utils.clip_grad_norm_(linear.parameters(), 1.0)",
    "nn.utils.rnn.pad_sequence([y, y[:2]], batch_first=True)",
    (
        "nn.utils.rnn.pack_padded_sequence(b, torch.tensor([3, 2]), batch_first=True).data * 2",
        "operator-error",
    ),
    ("nn.utils.rnn.pack_sequence([y, y[:2]]).batch_sizes, x + 1", "operator-error"),
]


@pytest.mark.parametrize("name", LIKE_EACH_OTHER)
def test_modules(name):
    check_row(f"{name}(x), {name}(x + 1), {name}", inputs=MODELS)


@pytest.mark.parametrize("name", OWN)
def test_modules_with_hooks_and_parametrizations(name):
    check_row(f"{name}(x), {name}(x + 1), {name}", inputs=MODELS, calls=1)


@pytest.mark.parametrize("name", ["backward", "backward_pre", "registering_parameter", "lazy"])
def test_modules_that_break_the_graph(name):
    check_row(f"{name}(w), {name}(w + 1), {name}", inputs=MODELS, calls=1, any_break=True)


def test_hooks_added_between_calls_are_noticed():
    module = nn.Linear(4, 4)
    compiled = minitorch2.compile(lambda m, x: m(x), backend="eager")
    x = torch.randn(2, 4)
    assert torch.equal(compiled(module, x), module(x))
    handle = module.register_forward_hook(lambda m, args, output: output * 2)
    assert torch.equal(compiled(module, x), module(x))
    handle.remove()
    assert torch.equal(compiled(module, x), module(x))


def test_train_and_eval_between_calls_are_noticed():
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    compiled = minitorch2.compile(module, backend="eager")
    x = torch.randn(5, 4)
    for mode in (True, False, True):
        module.train(mode)
        wanted = copy.deepcopy(module)
        torch.manual_seed(0)
        expected = wanted(x)
        torch.manual_seed(0)
        assert torch.equal(compiled(x), expected)
        assert torch.equal(module[2].running_mean, wanted[2].running_mean)


@table(PROGRAMS)
def test_programs(row):
    check_row(row, inputs=MODELS)


def test_a_parameter_is_changed_in_place_by_its_attribute() -> None:
    """``module.weight += 1`` assigns the very parameter; every assignment broke the graph."""
    linear, same = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    same.load_state_dict(linear.state_dict())

    def step(module: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            module.weight += 1
            module.weight *= module.bias
        return module(x)

    fast = minitorch2.compile(step, fullgraph=True, backend="eager", dynamic=True)
    before = linear.weight
    for n in (2, 3):
        x = torch.randn(n, 2)
        given, wanted = fast(linear, x), step(same, x)
        torch.testing.assert_close(given, wanted)
        given.sum().backward()
        wanted.sum().backward()
    assert linear.weight is before
    torch.testing.assert_close(linear.weight, same.weight)
    torch.testing.assert_close(linear.weight.grad, same.weight.grad)
