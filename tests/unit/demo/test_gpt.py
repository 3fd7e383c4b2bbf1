"""The example: a GPT that learns."""

import pytest
import torch

from minitorch2.demo.workloads import examples_folder, load_gpt_example

gpt = load_gpt_example()


@pytest.fixture(scope="module")
def text():
    return gpt.Text((examples_folder() / "data" / "shakespeare.txt").read_text())


def test_the_text_is_plain_and_comes_back(text):
    start = text.decode(text.tokens[:20])
    assert start == "Hamlet\n\nACT I\n\nSCENE"
    assert len(text.alphabet) == 65
    assert "".join(text.alphabet).isascii()


def test_targets_are_the_next_tokens(text):
    (tokens, targets), *_ = text.batches(3, batch=2, context=8)
    assert tokens.shape == targets.shape == (2, 8)
    assert torch.equal(tokens[:, 1:], targets[:, :-1])


def test_batches_repeat_with_the_seed(text):
    first, again = (torch.cat([b[0] for b in text.batches(3, 2, 8, seed=4)]) for _ in range(2))
    assert torch.equal(first, again)


def small(dropout: float = 0.0) -> torch.nn.Module:
    return gpt.GPT(gpt.GPTConfig(65, context=16, width=20, heads=2, layers=2, dropout=dropout))


def test_the_default_model_has_1_3_million_parameters():
    model = gpt.GPT(gpt.GPTConfig(vocabulary=65))
    assert 1.2e6 < sum(parameter.numel() for parameter in model.parameters()) < 1.4e6


def test_a_token_sees_only_those_before_it():
    model = small().eval()
    tokens = torch.randint(65, (1, 16))
    changed = tokens.clone()
    changed[0, 10] += 1 - 2 * (changed[0, 10] == 64)
    difference = (model(tokens)[0] - model(changed)[0]).abs().amax(-1)[0]
    assert torch.equal(difference > 1e-6, torch.arange(16) >= 10)


def test_it_learns(text):
    losses = list(gpt.train(small(), text.batches(50, 8, 16)))
    assert losses[0] == pytest.approx(4.17, abs=0.1)  # log 65: it knows nothing
    assert min(losses[-5:]) < 3.5


def test_train_uses_the_compiled_model(text):
    calls = []

    def compile(model):
        return lambda *inputs: (calls.append(1), model(*inputs))[1]

    list(gpt.train(small(), text.batches(3, 2, 16), compile))
    assert len(calls) == 3


def test_generate_appends(text):
    tokens = gpt.generate(small(), text.tokens[:3], 20)
    assert tokens.shape == (23,)
    assert torch.equal(tokens[:3], text.tokens[:3])
