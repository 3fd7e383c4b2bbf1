"""A small GPT that learns Shakespeare letter by letter, written as for plain PyTorch.

    python examples/gpt.py                # eager
    python examples/gpt.py --compile      # the same lines, through minitorch2.compile

Nothing in the model knows that a compiler exists. `train` takes a function that may wrap the
model, and that is the whole difference between the two commands.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

TEXT_FILE = Path(__file__).parent / "data" / "shakespeare.txt"
Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class GPTConfig:
    """The size of the model; the defaults have 1.3 million parameters."""

    vocabulary: int
    context: int = 64
    width: int = 160
    heads: int = 5
    layers: int = 4
    dropout: float = 0.1


class Attention(nn.Module):
    """Causal self-attention: [batch, time, width] -> the same shape."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.query_key_value = nn.Linear(config.width, 3 * config.width)
        self.project = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        heads = self.query_key_value(x).view(batch, time, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        return self.project(y.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    """Attention, then a two-layer perceptron, each on a normalized copy and added back."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm_2 = nn.LayerNorm(config.width)
        self.perceptron = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
            nn.Dropout(config.dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.perceptron(self.norm_2(x))


class GPT(nn.Module):
    """Tokens [batch, time] -> logits [batch, time, vocabulary], and the loss, given targets."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.apply(self._initialize)

    def _initialize(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(
        self, tokens: Tensor, targets: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.token(tokens) + self.position(positions))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Text:
    """A text as tokens, one per character."""

    def __init__(self, text: str) -> None:
        self.alphabet = sorted(set(text))
        number = {character: i for i, character in enumerate(self.alphabet)}
        self.tokens = torch.tensor([number[character] for character in text])

    def decode(self, tokens: Tensor) -> str:
        return "".join(self.alphabet[i] for i in tokens.tolist())

    def batches(self, count: int, batch: int, context: int, seed: int = 0) -> Iterator[Batch]:
        """`count` random pairs (tokens, the tokens that follow), both [batch, context]."""
        generator = torch.Generator().manual_seed(seed)
        for _ in range(count):
            starts = torch.randint(len(self.tokens) - context, (batch, 1), generator=generator)
            window = self.tokens[starts + torch.arange(context + 1)]
            yield window[:, :-1].contiguous(), window[:, 1:].contiguous()


def learning_rate(step: int, warmup: int = 20, peak: float = 2e-3) -> float:
    """Linear warm-up, then a slow decay."""
    return peak * min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))


def train(
    model: GPT,
    batches: Iterable[Batch],
    compile: Callable[[GPT], Callable[..., tuple[Tensor, Tensor]]] = lambda model: model,
    seed: int = 0,
) -> Iterator[float]:
    """Train with AdamW, one step each time the next loss is asked for."""
    forward = compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate(0))
    model.train()
    for step, (tokens, targets) in enumerate(batches):
        torch.manual_seed(seed + step)  # dropout is the same, whoever trains beside us
        optimizer.param_groups[0]["lr"] = learning_rate(step)
        _, loss = forward(tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


@torch.no_grad()
def generate(model: GPT, tokens: Tensor, count: int) -> Tensor:
    """Append `count` sampled tokens to the tokens [time]."""
    model.eval()
    for _ in range(count):
        logits, _ = model(tokens[None, -model.config.context :])
        tokens = torch.cat([tokens, torch.multinomial(logits[0, -1].softmax(-1), 1)])
    return tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compile", action="store_true", help="through minitorch2.compile")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--sample", type=int, default=300, help="characters to write at the end")
    arguments = parser.parse_args()

    text = Text(TEXT_FILE.read_text(encoding="utf-8"))
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocabulary=len(text.alphabet)))
    batches = text.batches(arguments.steps, arguments.batch, model.config.context)
    if arguments.compile:
        import minitorch2

        losses = train(model, batches, minitorch2.compile)
    else:
        losses = train(model, batches)
    start = time.perf_counter()
    for step, loss in enumerate(losses):
        if step % 20 == 0:
            print(f"step {step:4}  loss {loss:.4f}  {time.perf_counter() - start:6.1f} s")
    print(text.decode(generate(model, text.tokens[:1], arguments.sample)))


if __name__ == "__main__":
    main()
