"""What libraries put around tensors: subclasses, modes, sparse tensors, distributions, outputs."""

import torch
from torch.overrides import TorchFunctionMode
from transformers.utils import ModelOutput

import minitorch2
from minitorch2 import stages
from tests.operators.capture_sweep import check as capture_of
from tests.unit.bytecode.torch_values.programs import check_row, table


class Tagged(torch.Tensor):
    pass


class Answer(ModelOutput):
    pass


class Doubling(TorchFunctionMode):
    calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        Doubling.calls += 1
        return func(*args, **(kwargs or {}))


MORE = {
    "Answer": Answer,
    "Normal": torch.distributions.Normal,
    "Categorical": torch.distributions.Categorical,
    "Bernoulli": torch.distributions.Bernoulli,
    "Tagged": Tagged,
}
MODELS = {
    "tagged": lambda: torch.ones(3).as_subclass(Tagged),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "conjugated": lambda: torch.complex(torch.ones(3), torch.ones(3)).conj(),
    "inference": lambda: _in_inference_mode(),
}


def _in_inference_mode():
    with torch.inference_mode():
        return torch.ones(3)


ROWS = [
    "t = x + 1\ntagged + 1, t",
    ("t = x + 1\ntagged, t", *()),
    ("t = x + 1\nsparse @ t[:, :3], t", "tensor-layout"),
    ("t = x + 1\ntype(tagged) is Tagged, isinstance(tagged, torch.Tensor), t",),
    ("t = x + 1\nconjugated * 2, t", "tensor-layout"),
    "inference.is_inference(), inference + 1",
    "Normal(0.0, 1.0, validate_args=False).loc, x + 1",
    "answer = Answer(loss=x * 2, logits=x + 1)\nanswer.loss + answer['logits']",
]


@table(ROWS)
def test_rows(row):
    row = row[0] if isinstance(row, tuple) and len(row) == 1 else row
    check_row(row, inputs=MODELS, **MORE)


def test_distributions_give_what_they_give():
    check_row(("Normal(x, abs(x) + 1).log_prob(y)",), inputs=MODELS, any_break=True, **MORE)
    check_row(("Categorical(logits=x).entropy()",), inputs=MODELS, any_break=True, **MORE)
    check_row(("Normal(x, abs(x) + 1).rsample()",), inputs=MODELS, any_break=True, **MORE)


def test_a_function_mode_sees_every_call():
    compiled = minitorch2.compile(lambda x: (x + 1) * 2, backend="eager")
    x = torch.ones(2)
    assert torch.equal(compiled(x), torch.full((2,), 4.0))
    Doubling.calls = 0
    with Doubling():
        compiled(x)
    assert Doubling.calls >= 2


def test_a_default_device_is_guarded():
    compiled = minitorch2.compile(lambda x: torch.ones(2), backend="eager")
    x = torch.ones(2)
    for name in ("cpu", "meta", "cpu"):
        with torch.device(name):
            assert compiled(x).device.type == name


def test_a_custom_function_reads_globals_under_guards():
    function = minitorch2.compile(lambda x: Scaled.apply(x) * 2, backend="eager")
    for factor in (2.0, 3.0):
        Scaled.factor = factor
        x = torch.ones(2, requires_grad=True)
        function(x).sum().backward()
        assert torch.equal(x.grad, torch.full((2,), 2 * factor))


class Scaled(torch.autograd.Function):
    factor = 1.0

    @staticmethod
    def forward(ctx, x):
        return x * Scaled.factor

    @staticmethod
    def backward(ctx, grad):
        return grad * Scaled.factor


def test_a_checkpoint_recomputes_with_the_backend_that_keeps_it():
    from torch.utils.checkpoint import checkpoint

    with stages.collect() as log:
        function = minitorch2.compile(
            lambda x: checkpoint(torch.sin, x, use_reentrant=False), backend="aot_eager"
        )
        x = torch.ones(2, requires_grad=True)
        function(x).sum().backward()
    assert log.counts["graphs"] == 1 and not log.counts["graph_breaks"]
    assert torch.equal(x.grad, torch.ones(2).cos())


def test_functions_of_pytorch_are_captured():
    names = "add sum cat nn.functional.gelu linalg.inv where index_select narrow_copy fft.fft"
    rows = [capture_of(name, limit=1) for name in names.split()]
    assert {row.status for row in rows} == {"captured"}, rows


def test_sizes_and_numbers_that_come_out_of_data_are_captured():
    names = ("nonzero", "unique", "masked_select", "item", "equal", "allclose")
    rows = [capture_of(name, limit=2) for name in names]
    assert {row.status for row in rows} == {"captured"}, rows
