"""nn.Module: parameters are inputs, forward is inlined, containers are unrolled, hooks are kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import stages
from tests.unit.bytecode.trackers.program import check

X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.sequence = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.LayerNorm(4))
        self.items = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.table = nn.ModuleDict({"a": nn.GELU(), "b": nn.Tanh()})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(4))])
        self.weight = nn.Parameter(torch.full((4,), 2.0))
        self.register_buffer("offset", torch.ones(4))
        self.dropout = nn.Dropout(0.5)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> Any:
        self.calls += 1
        y = self.sequence(self.linear(x))
        for i, item in enumerate(self.items):
            y = item(y) + i
        for name, activation in self.table.items():
            y = activation(y) + len(name)
        y = self.items[-1](y) * self.scales[0] * self.weight + self.offset
        if self.training:
            y = self.dropout(y)
        return y, len(self.items), "a" in self.table, [n for n, _ in self.named_children()]


def run_module(module: nn.Module, *args: Any) -> tuple[Any, Any, Any]:
    compiled = minitorch2.compile(module, backend="eager")
    with stages.collect() as log:
        torch.manual_seed(0)
        actual = compiled(*args)
    torch.manual_seed(0)
    return actual, module(*args), log


@pytest.mark.parametrize("training", [True, False])
def test_every_container_in_one_graph(training: bool) -> None:
    module = Everything().train(training)
    actual, expected, log = run_module(module, X)
    torch.testing.assert_close(actual[0], expected[0])
    assert actual[1:] == expected[1:] and module.calls == 2
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (1, 0)


def test_gradients_reach_the_parameters() -> None:
    module = Everything().eval()
    actual, expected, _ = run_module(module, X)
    actual[0].sum().backward()
    got = {name: p.grad.clone() for name, p in module.named_parameters()}
    module.zero_grad()
    expected[0].sum().backward()
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(got[name], parameter.grad)


def test_train_and_eval_recompile() -> None:
    module = nn.Dropout(0.5)
    compiled = minitorch2.compile(module, backend="eager")
    assert torch.equal(compiled.eval()(X), X)
    assert not torch.equal(compiled.train()(X), X)
    assert torch.equal(compiled.eval()(X), X)


def test_batch_norm_updates_its_statistics() -> None:
    module, twin = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    compiled = minitorch2.compile(module, backend="eager")
    for _ in range(3):
        torch.testing.assert_close(compiled(X), twin(X))
    torch.testing.assert_close(module.running_mean, twin.running_mean)
    assert module.num_batches_tracked == 3


def test_forward_hooks_run() -> None:
    seen = []
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = minitorch2.compile(module, backend="eager")
    compiled(X)
    module[0].register_forward_hook(lambda m, a, out: seen.append(1) or out * 2)
    torch.testing.assert_close(compiled(X), module(X))
    assert len(seen) == 2


def test_replaced_submodule_and_parameter() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = minitorch2.compile(module, backend="eager")
    compiled(X)
    module[1] = nn.Tanh()
    torch.testing.assert_close(compiled(X), module(X))
    module[0].weight = nn.Parameter(torch.ones(4, 4))
    torch.testing.assert_close(compiled(X), module(X))
    module.append(nn.Linear(4, 2))
    torch.testing.assert_close(compiled(X), module(X))
    module.double()
    torch.testing.assert_close(compiled(X.double()), module(X.double()))


def test_equal_modules_share_one_compilation() -> None:
    compiled = minitorch2.compile(lambda m, x: m(x), backend="eager")
    with stages.collect() as log:
        for _ in range(10):
            module = nn.Linear(4, 4)
            torch.testing.assert_close(compiled(module, X), module(X))
    assert log.counts["graphs"] == 1


def test_tied_parameters_are_one_input() -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    actual, expected, log = run_module(nn.Sequential(first, second), X)
    torch.testing.assert_close(actual, expected)
    assert log.texts("captured_graph")[0].count("placeholder") == 4


def test_buffer_assignment_is_a_side_effect() -> None:
    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total = self.total + x
            return self.total * 2

    module = Running()
    compiled = minitorch2.compile(module, backend="eager")
    compiled(X)
    torch.testing.assert_close(compiled(X), X * 4)
    torch.testing.assert_close(module.total, X * 2)
    assert "total" in dict(module.named_buffers())


LAYERS = [
    (nn.MultiheadAttention(4, 2, batch_first=True), lambda m, x: m(x[None], x[None], x[None])[0]),
    (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), lambda m, x: m(x[None])),
    (nn.Conv2d(1, 2, 1), lambda m, x: m(x[None, None])),
    (nn.Embedding(5, 3), lambda m, x: m((x * 0).long())),
    (nn.LSTMCell(4, 3), lambda m, x: m(x)),
    (nn.GroupNorm(2, 4), lambda m, x: m(x)),
    (nn.Softmax(dim=1), lambda m, x: m(x)),
    (nn.CrossEntropyLoss(), lambda m, x: m(x, torch.tensor([1, 2]))),
]


@pytest.mark.parametrize(("module", "program"), LAYERS, ids=[type(m).__name__ for m, _ in LAYERS])
def test_layers_of_torch_nn(module: nn.Module, program: Any) -> None:
    check(program, module, X)


def test_modules_made_inside() -> None:
    def program(layers: nn.ModuleList, x: torch.Tensor) -> Any:
        loss = nn.CrossEntropyLoss(reduction="sum")
        for layer in layers[:2]:
            x = nn.Tanh()(layer(x))
        return loss(nn.Sequential(nn.ReLU(), layers[2])(x), torch.tensor([1, 2]))

    check(program, nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), X)


def test_module_made_inside_escapes() -> None:
    def program(layers: nn.ModuleList, x: torch.Tensor) -> Any:
        return nn.Sequential(layers[0], nn.ReLU()), x + 1

    layers = nn.ModuleList([nn.Linear(4, 4)])
    made, _ = minitorch2.compile(program, backend="eager")(layers, X)
    assert type(made) is nn.Sequential and made[0] is layers[0] and made.training
    torch.testing.assert_close(made(X), layers[0](X).relu())
    assert [name for name, _ in made.named_parameters()] == ["0.weight", "0.bias"]


def transformer(name: str) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    transformers = pytest.importorskip("transformers")
    sizes = {
        "vocab_size": 50,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 32,
    }
    config = getattr(transformers, f"{name}Config")(**sizes)
    tokens = torch.randint(0, 50, (2, 5), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(tokens)
    mask[0, 3:] = 0
    inputs = {"input_ids": tokens, "attention_mask": mask}
    return getattr(transformers, f"{name}Model")(config).eval(), inputs


@pytest.mark.parametrize("name", ["Bert", "Llama"])
def test_transformers_are_one_graph(name: str) -> None:
    module, inputs = transformer(name)
    compiled = minitorch2.compile(module, backend="eager")
    with torch.no_grad(), stages.collect() as log:
        actual, expected = compiled(**inputs), module(**inputs)
    assert type(actual) is type(expected) and list(actual) == list(expected)
    torch.testing.assert_close(actual.last_hidden_state, expected.last_hidden_state)
    assert log.counts["graphs"] == 1, log.texts("graph_break")
    assert log.counts["graph_breaks"] == 0
