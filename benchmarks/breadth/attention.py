"""Attention as programs write it: by hand with many biases, in windows, under wide heads."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """``softmax(q @ k.T * scale + bias) @ v``, written by hand, between two projections.

    Args:
        kind: ``"causal"``, ``"full"``, ``"window"``, ``"alibi"``, ``"soft cap"``, ``"relative"``
            or ``"grouped"``; all but the second are causal.
    """

    def __init__(self, kind: str, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.kind, self.heads = kind, heads
        self.groups = heads // 2 if kind == "grouped" else heads
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.entry = nn.Linear(width, 2 * width // heads * self.groups)
        self.nearness = nn.Parameter(0.1 * torch.randn(heads, 64))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q = self.query(x).view(batch, length, self.heads, -1).transpose(1, 2)
        k, v = self.entry(x).view(batch, length, 2, self.groups, -1).permute(2, 0, 3, 1, 4)
        if self.groups < self.heads:
            k, v = (y.repeat_interleave(self.heads // self.groups, 1) for y in (k, v))
        scores = self.biased(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))

    def biased(self, scores: Tensor) -> Tensor:
        """Scores (batch, heads, queries, keys) with the bias and the mask of the kind."""
        place = torch.arange(scores.shape[-1], device=scores.device)
        apart = place[:, None] - place
        if self.kind == "soft cap":
            scores = 30 * torch.tanh(scores / 30)
        if self.kind == "alibi":
            slopes = 2.0 ** -torch.arange(1, self.heads + 1, device=scores.device)
            scores = scores - slopes[:, None, None] * apart
        if self.kind == "relative":
            scores = scores + self.nearness[:, apart.abs().clamp(max=63)]
        if self.kind == "window":
            scores = scores.masked_fill(apart > 32, -math.inf)
        return scores if self.kind == "full" else scores.masked_fill(apart < 0, -math.inf)


class Block(nn.Module):
    """A transformer's block: norms before its halves (GPT-2), or behind them (BERT)."""

    def __init__(self, width: int, heads: int, is_causal: bool) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return self.merge(y.transpose(1, 2).flatten(2))

    def perceptron(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x), approximate="tanh" if self.is_causal else "none"))

    def forward(self, x: Tensor) -> Tensor:
        if self.is_causal:
            x = x + self.attend(self.first(x))
            return x + self.perceptron(self.second(x))
        x = self.first(x + self.attend(x))
        return self.second(x + self.perceptron(x))


class Language(nn.Module):
    """A small language model with a head of so many words, whose weight embeds them, too."""

    def __init__(self, words: int, is_causal: bool, width: int = 128, depth: int = 2) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(512, width)
        self.blocks = nn.Sequential(*(Block(width, 4, is_causal) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.bias = None if is_causal else nn.Parameter(torch.zeros(words))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        return F.linear(self.norm(self.blocks(x)), self.words.weight, self.bias)


class Window(nn.Module):
    """Attention within windows of a picture, shifted or not, with a learned bias (Swin)."""

    def __init__(self, width: int, heads: int, shift: int, side: int = 7) -> None:
        super().__init__()
        self.heads, self.shift, self.side = heads, shift, side
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.nearness = nn.Parameter(0.02 * torch.randn((2 * side - 1) ** 2, heads))
        steps = torch.arange(side)
        place = torch.stack(torch.meshgrid(steps, steps, indexing="ij")).flatten(1)
        apart = place[:, :, None] - place[:, None] + side - 1
        self.register_buffer("apart", apart[0] * (2 * side - 1) + apart[1])
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        up, down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.perceptron = nn.Sequential(up, nn.GELU(), down)

    def attend(self, x: Tensor) -> Tensor:
        side, (high, wide) = self.side, x.shape[1:3]
        x = x.roll((-self.shift, -self.shift), (1, 2)) if self.shift else x
        x = x.unflatten(2, (-1, side)).unflatten(1, (-1, side)).transpose(2, 3).flatten(3, 4)
        rows, columns = high // side, wide // side
        x = x.reshape(len(x) * rows * columns, side * side, -1)
        q, k, v = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q * q.shape[-1] ** -0.5 @ k.transpose(-1, -2)
        scores = scores + self.nearness[self.apart].permute(2, 0, 1)
        y = self.merge((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        y = y.view(-1, rows, columns, side, side, y.shape[-1]).transpose(2, 3)
        y = y.reshape(-1, high, wide, y.shape[-1])
        return y.roll((self.shift, self.shift), (1, 2)) if self.shift else y

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.first(x))
        return x + self.perceptron(self.second(x))


class Swin(nn.Module):
    """Two levels of windows; between them, four neighbours become one (Liu et al., 2021)."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.fine = nn.Sequential(Window(width, 3, 0), Window(width, 3, 3))
        self.norm = nn.LayerNorm(4 * width)
        self.reduce = nn.Linear(4 * width, 2 * width, bias=False)
        self.coarse = nn.Sequential(Window(2 * width, 6, 0), Window(2 * width, 6, 3))
        self.out = nn.Linear(2 * width, 100)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fine(self.stem(x).permute(0, 2, 3, 1))
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        x = self.coarse(self.reduce(self.norm(torch.cat(parts, -1))))
        return self.out(x.mean((1, 2)))
