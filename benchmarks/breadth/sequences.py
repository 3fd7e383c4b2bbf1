"""Sequences: recurrent networks, decoding with a cache, recommenders, sound."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class LanguageModel(nn.Module):
    """An embedding, a recurrent network, and the loss of the next token."""

    def __init__(self, recurrent: type[nn.LSTM | nn.GRU], words: int = 500) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 64)
        self.recurrent = recurrent(64, 128, num_layers=2, batch_first=True)
        self.out = nn.Linear(128, words)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.recurrent(self.embedding(tokens[:, :-1]))
        return F.cross_entropy(self.out(states).flatten(0, 1), tokens[:, 1:].flatten())


class CachedDecoder(nn.Module):
    """One more token of a transformer, whose keys and values lie in a cache of fixed length."""

    def __init__(self, width: int = 256, heads: int = 4, depth: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.embedding, self.out = nn.Embedding(1000, width), nn.Linear(width, 1000)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * depth))
        self.project = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.merge = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.up = nn.ModuleList(nn.Linear(width, 8 * width) for _ in range(depth))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(depth))

    def forward(self, token: Tensor, position: Tensor, cache: Tensor) -> Tensor:
        """Tokens (batch), a position (1), and keys and values (depth, 2, batch, heads, n, d)."""
        x = self.embedding(token)
        is_seen = (torch.arange(cache.shape[-2], device=x.device) <= position)[None]
        for i, project in enumerate(self.project):
            q, k, v = project(self.norms[2 * i](x)).view(len(x), 3, self.heads, -1).unbind(1)
            cache = cache.index_copy(4, position, self._entry(cache, i, k, v))
            keys, values = cache[i]
            given = F.scaled_dot_product_attention(q[:, :, None], keys, values, is_seen)
            x = x + self.merge[i](given.flatten(1))
            gate, up = self.up[i](self.norms[2 * i + 1](x)).chunk(2, -1)
            x = x + self.down[i](F.silu(gate) * up)
        return self.out(x)

    def _entry(self, cache: Tensor, layer: int, key: Tensor, value: Tensor) -> Tensor:
        entry = cache[..., :1, :].clone()
        entry[layer] = torch.stack([key, value])[..., None, :]
        return entry


class Recommender(nn.Module):
    """Bags of categories and dense features, their products in pairs, and a perceptron (DLRM)."""

    def __init__(self, bags: int = 8, rows: int = 10_000, width: int = 32) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(bags))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        pairs = (bags + 1) * bags // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 64), nn.ReLU(), nn.Linear(64, 1))
        self.register_buffer("pairs", torch.triu_indices(bags + 1, bags + 1, 1))

    def forward(self, dense: Tensor, categories: Tensor, clicks: Tensor) -> Tensor:
        x = self.bottom(dense)
        found = [bag(ids) for bag, ids in zip(self.bags, categories.unbind(1))]
        vectors = torch.stack([x, *found], 1)
        products = vectors @ vectors.transpose(1, 2)
        chosen = products[:, self.pairs[0], self.pairs[1]]
        logits = self.top(torch.cat([x, chosen], 1)).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits, clicks)


class FactorizationMachine(nn.Module):
    """First and second order effects of categories (Rendle, 2010)."""

    def __init__(self, rows: int = 20_000, width: int = 16) -> None:
        super().__init__()
        self.first, self.second = nn.Embedding(rows, 1), nn.Embedding(rows, width)

    def forward(self, ids: Tensor, clicks: Tensor) -> Tensor:
        vectors = self.second(ids)
        pairs = vectors.sum(1).square() - vectors.square().sum(1)
        logits = self.first(ids).sum((1, 2)) + 0.5 * pairs.sum(1)
        return F.binary_cross_entropy_with_logits(logits, clicks)


def tagger() -> nn.Module:
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(500, 128), encoder, nn.LayerNorm(128), nn.Linear(128, 20))


class WaveNet(nn.Module):
    """Gated causal convolutions whose dilation doubles (van den Oord et al., 2016)."""

    def __init__(self, width: int = 32, depth: int = 6) -> None:
        super().__init__()
        self.stem, self.out = nn.Conv1d(1, width, 1), nn.Conv1d(width, 64, 1)
        rates = [nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(depth)]
        self.rates = nn.ModuleList(rates)
        self.mix = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        x, total = self.stem(x), torch.zeros((), device=x.device)
        for rate, mix in zip(self.rates, self.mix):
            value, gate = rate(F.pad(x, (rate.dilation[0], 0))).chunk(2, 1)
            step = mix(torch.tanh(value) * torch.sigmoid(gate))
            x, total = x + step, total + step
        return self.out(F.relu(total))
