"""nn.Modules as scripts: attributes of all kinds, shared types, containers, and what is refused."""

import io
from typing import Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from minitorch2 import jit
from minitorch2.script.syntax.errors import ScriptError


class Block(nn.Module):
    factor: Final[int]
    limit: int | None

    def __init__(self, factor):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.shift = nn.Parameter(torch.ones(2))
        self.register_buffer("scale", torch.full((2,), 3.0))
        self.register_parameter("absent", None)
        self.factor = factor
        self.limit = None
        self.steps = 2
        self.names = jit.Attribute([], list[str])

    def repeated(self, x, times: int):
        for _ in range(times):
            x = x * self.scale
        return x

    def forward(self, x):
        if self.absent is not None:
            x = x + self.absent
        if self.limit is None:
            x = self.repeated(self.linear(x), self.steps)
        return x * self.factor + self.shift + len(self.names)

    @jit.export
    def doubled(self, x):
        return x * 2


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(1), Block(1), Block(3)])
        self.named = nn.ModuleDict({"first one": nn.ReLU(), "b": nn.Tanh()})
        self.head = nn.Sequential(nn.Linear(2, 3), nn.ReLU())

    def forward(self, x):
        for index, block in enumerate(self.blocks):
            x = block(x) + index
        for module in self.named.values():
            x = module(x)
        return self.head(x) + len(self.blocks)


def test_a_module_is_scripted_with_attributes_of_every_kind():
    block = Block(2)
    script = jit.script(block)
    x = torch.randn(3, 2)
    expected = (block.linear(x) * 9) * 2 + block.shift
    torch.testing.assert_close(script(x), expected)
    torch.testing.assert_close(script(x), expected)
    assert script.doubled(x).equal(x * 2)
    assert script.linear.weight is block.linear.weight
    assert list(script.state_dict()) == ["shift", "scale", "linear.weight", "linear.bias"]


def test_parameters_are_further_inputs_of_the_pure_graph():
    method = jit.script(Block(2))._type.methods["forward"]
    assert ("linear", "weight") in method.member_inputs
    assert ("steps",) in method.member_inputs
    assert not any(node.kind == "prim::GetAttr" for node in method.executor.graph.nodes())
    assert "prim::CallMethod" in str(method.graph)


def test_containers_unroll_and_modules_that_differ_in_values_share_a_type():
    stack = Stack()
    script = jit.script(stack)
    for block in stack.blocks:
        block.names = []
    torch.manual_seed(0)
    x = torch.randn(4, 2)
    torch.testing.assert_close(script(x), stack(x))
    first, second, third = (block._type for block in script.blocks)
    assert first is second
    assert first is not third


def test_gradients_reach_the_parameters_of_the_original():
    stack = Stack()
    for block in stack.blocks:
        block.names = jit.Attribute([], list[str])
    jit.script(stack)(torch.randn(4, 2)).sum().backward()
    assert all(parameter.grad is not None for parameter in stack.parameters())


def test_training_is_a_flag_of_the_scripted_module():
    script = jit.script(nn.Dropout(0.5))
    x = torch.ones(100)
    assert 0 in script(x)
    assert script.eval()(x).equal(x)
    assert 0 in script.train()(x)


def test_unknown_attributes_are_refused():
    class Odd(nn.Module):
        def forward(self, x):
            return x + self.missing

    with pytest.raises(ScriptError, match="has no attribute missing"):
        jit.script(Odd())


def test_a_frozen_module_has_no_parameters():
    stack = nn.Sequential(nn.Linear(2, 3), nn.Tanh()).eval()
    frozen = jit.freeze(jit.script(stack))
    x = torch.randn(5, 2)
    torch.testing.assert_close(frozen(x), stack(x))
    assert not list(frozen.parameters())
    kept = jit.freeze(jit.script(Block(2)).eval(), preserved_attrs=["shift"])
    assert [name for name, _ in kept.named_parameters()] == ["shift"]
    with pytest.raises(ValueError, match="eval"):
        jit.freeze(jit.script(nn.Linear(2, 2)))


class Elements(nn.Module):
    """Reads elements of containers, at numbers that are known or not, and a property."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)])
        self.chain = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
        self.scales = nn.ParameterList([nn.Parameter(torch.randn(3)) for _ in range(2)])
        self.named = nn.ParameterDict({"a": nn.Parameter(torch.randn(3))})
        self.count = 2

    @property
    def twice(self) -> int:
        return self.count * 2

    @staticmethod
    def times(x, number: int):
        return x * number

    def forward(self, x, index: int):
        x = self.layers[index](x)
        x = self.chain[:2](x) + self.chain[-1](x)
        for scale in self.scales:
            x = x * scale
        for _, shift in self.named.items():
            x = x + shift
        for layer in self.layers.children():
            x = self.times(layer(x), self.twice)
            if isinstance(layer, nn.Linear):
                x = x + 1
        for module in [self.layers[0], self.chain]:
            x = module(x)
        return x


def test_elements_of_containers_are_read_at_any_index():
    module = Elements()
    script = jit.script(module)
    assert script.twice == 4
    x = torch.randn(4, 3)
    for index in (0, 1, 2, -1, 0):
        torch.testing.assert_close(script(x, index), module(x, index))
    with pytest.raises(IndexError, match="out of range"):
        script(x, 3)


@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU])
def test_recurrent_modules_take_tensors_and_packed_sequences(cls):
    module = cls(3, 4)
    script = jit.script(module)
    x = torch.randn(5, 2, 3)
    packed = pack_padded_sequence(x, torch.tensor([5, 3]))
    for given in (x, packed, x, packed):
        expected, got = module(given), script(given)
        torch.testing.assert_close(got[1], expected[1])
    assert isinstance(got[0], PackedSequence)
    torch.testing.assert_close(tuple(got[0]), tuple(expected[0]))
    torch.testing.assert_close(script(x, got[1]), module(x, got[1]))
    file = io.BytesIO()
    jit.save(script, file)
    file.seek(0)
    torch.testing.assert_close(torch.jit.load(file)(x), module(x))


def test_an_attribute_of_a_union_has_the_type_of_its_value():
    pool = nn.MaxPool1d(2, return_indices=True)
    values, indices = pool(torch.randn(2, 3, 8))
    unpool = nn.MaxUnpool1d(2)
    torch.testing.assert_close(jit.script(unpool)(values, indices), unpool(values, indices))


def test_an_attribute_keeps_its_type():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 1

        def forward(self, x):
            self.steps = 1.5
            return x

    with pytest.raises(ScriptError, match="float stands where int is needed"):
        jit.script(Wrong())


class Doubled(nn.Module):
    def forward(self, x: list[Tensor]) -> list[Tensor]:
        return [y * 2 for y in x]


class Unannotated(nn.Module):
    """Calls methods and modules whose parameters have no annotation, with several types."""

    def __init__(self):
        super().__init__()
        self.lists = nn.Sequential(Doubled(), Doubled())
        self.layers = nn.Sequential(nn.Linear(2, 2))
        self.choices = nn.ModuleList([nn.ReLU(), nn.Tanh()])

    def scaled(self, x, by=1, plus=None):
        if plus is not None:
            x = x + plus
        return x * by

    def forward(self, x: Tensor, choice: int):
        first, second = self.lists([x, x + 1])
        x = self.layers(first) + self.scaled(second, 2) + self.scaled(x, plus=3) + self.scaled(x)
        return self.choices[choice].forward(x)


def test_methods_take_the_types_of_arguments_for_parameters_without_annotation():
    model, x = Unannotated(), torch.randn(3, 2)
    script = jit.script(model)
    for choice in (0, 1, -1):
        torch.testing.assert_close(script(x, choice), model(x, choice))
    file = io.BytesIO()
    jit.save(script, file)
    for load in (jit.load, torch.jit.load):
        file.seek(0)
        torch.testing.assert_close(load(file)(x, 1), model(x, 1))
