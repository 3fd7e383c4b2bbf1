"""The parts of random training programs: models, losses, and optimizers with their options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

FEATURES = 6
CLASSES = 4


# Models -------------------------------------------------------------------------------------------


class Tied(nn.Module):
    """Two layers share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(FEATURES, FEATURES)
        self.decode = nn.Linear(FEATURES, FEATURES)
        self.decode.weight = self.encode.weight
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.decode(torch.tanh(self.encode(x))))


class Residual(nn.Module):
    """A block with a skip connection and normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(FEATURES)
        self.inner = nn.Sequential(nn.Linear(FEATURES, 8), nn.GELU(), nn.Linear(8, FEATURES))
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + self.inner(self.norm(x)))


class Convolutional(nn.Module):
    """A convolution with batch normalization over the features."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 3, 3, padding=1, bias=False)  # BatchNorm takes it out again
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(3 * FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.norm(self.conv(x.unsqueeze(1))))
        return self.head(hidden.flatten(1))


class Attentive(nn.Module):
    """Self-attention over the features as a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(1, 4)
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        sequence = self.lift(x.unsqueeze(-1))
        attended, _ = self.attend(sequence, sequence, sequence, need_weights=False)
        return self.head(attended.mean(1))


class Embedding(nn.Module):
    """Indices made of the features choose rows of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 5)
        self.head = nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.table((x * 3).long() % 10).mean(1))


class Unused(nn.Module):
    """One parameter takes no part, another is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, 5)
        self.idle = nn.Linear(3, 3)
        self.head = nn.Linear(5, CLASSES)
        self.inner.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.silu(self.inner(x)))


class Sparse(nn.Module):
    """The same with a table whose gradient is sparse, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, CLASSES, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.table((x * 3).long() % 10).mean(1)


class Bag(nn.Module):
    """Bags of indices, each with a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(10, CLASSES, mode="sum")

    def forward(self, x: Tensor) -> Tensor:
        return self.table((x * 3).long() % 10, per_sample_weights=x.sigmoid())


class Recurrent(nn.Module):
    """The features as a sequence through a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.GRU(1, 3, batch_first=True)
        self.head = nn.Linear(3, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(x.unsqueeze(-1))[0][:, -1])


class Checkpointed(nn.Module):
    """A block with a running statistic is computed again in backward."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(FEATURES, 5, bias=False), nn.BatchNorm1d(5), nn.ELU())
        self.head = nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.inner, x, use_reentrant=False))


class Counting(nn.Module):
    """A buffer and a Python number change in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(FEATURES, CLASSES)
        self.register_buffer("mean", torch.zeros(FEATURES))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return self.head(x - self.mean)


class Hooked(nn.Module):
    """Hooks of modules change what flows forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, 5)
        self.head = nn.Linear(5, CLASSES)
        self.inner.register_forward_hook(lambda module, args, out: out.tanh())
        self.head.register_forward_pre_hook(lambda module, args: (args[0] * 1.5,))
        self.head.register_full_backward_hook(lambda module, ins, outs: (ins[0] * 0.5,))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x))


class Images(nn.Module):
    """Convolutions, groups and pooling over the features as an image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 2, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.head = nn.Linear(4 * 2 * 1, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.silu(self.norm(self.conv(x.reshape(-1, 1, 3, 2))))
        return self.head(F.avg_pool2d(hidden, 2).flatten(1))


def _weight_norm() -> nn.Module:
    first = parametrizations.weight_norm(nn.Linear(FEATURES, 5))
    return nn.Sequential(first, nn.ReLU(), nn.Linear(5, CLASSES))


def _spectral_norm() -> nn.Module:
    first = parametrizations.spectral_norm(nn.Linear(FEATURES, 5))
    return nn.Sequential(first, nn.Tanh(), nn.Linear(5, CLASSES))


def _orthogonal() -> nn.Module:
    first = parametrizations.orthogonal(nn.Linear(FEATURES, FEATURES))
    return nn.Sequential(first, nn.Tanh(), nn.Linear(FEATURES, CLASSES))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(FEATURES, CLASSES),
    "mlp": lambda: nn.Sequential(nn.Linear(FEATURES, 5), nn.ReLU(), nn.Linear(5, CLASSES)),
    "dropout": lambda: nn.Sequential(
        nn.Linear(FEATURES, 5), nn.Dropout(0.3), nn.ELU(), nn.Linear(5, CLASSES)
    ),
    "tied": Tied,
    "residual": Residual,
    "convolutional": Convolutional,
    "attentive": Attentive,
    "embedding": Embedding,
    "unused": Unused,
    "sparse": Sparse,
    "bag": Bag,
    "recurrent": Recurrent,
    "checkpointed": Checkpointed,
    "counting": Counting,
    "hooked": Hooked,
    "images": Images,
    "weight_norm": _weight_norm,
    "spectral_norm": _spectral_norm,
    "orthogonal": _orthogonal,
}

BREAKING_MODELS = ("sparse", "hooked", "checkpointed")
"""Models whose backward is more than operators on strided tensors."""

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": F.cross_entropy,
    "smoothed": lambda out, y: F.cross_entropy(out, y, label_smoothing=0.1),
    "nll": lambda out, y: F.nll_loss(out.log_softmax(-1), y),
    "mse": lambda out, y: F.mse_loss(out, F.one_hot(y, CLASSES).to(out.dtype)),
    "smooth_l1": lambda out, y: F.smooth_l1_loss(out, F.one_hot(y, CLASSES).to(out.dtype)),
    "bce": lambda out, y: F.binary_cross_entropy_with_logits(
        out, F.one_hot(y, CLASSES).to(out.dtype)
    ),
    "margin": F.multi_margin_loss,
    "sum": lambda out, y: (out * y.unsqueeze(-1)).square().sum(),
}

# Optimizers ---------------------------------------------------------------------------------------

Factory = Callable[[Any], torch.optim.Optimizer]

RATES: dict[type[torch.optim.Optimizer], dict[str, Any]] = {
    torch.optim.SGD: {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01},
    torch.optim.Adam: {"lr": 0.01},
    torch.optim.AdamW: {"lr": 0.01, "weight_decay": 0.1},
    torch.optim.Adagrad: {"lr": 0.05, "lr_decay": 0.1},
    torch.optim.Adadelta: {"lr": 0.5},
    torch.optim.Adamax: {"lr": 0.01},
    torch.optim.NAdam: {"lr": 0.01},
    torch.optim.RAdam: {"lr": 0.01},
    torch.optim.RMSprop: {"lr": 0.01, "momentum": 0.5, "centered": True},
    torch.optim.Rprop: {"lr": 0.01},
    torch.optim.ASGD: {"lr": 0.05, "t0": 2},
    torch.optim.Adafactor: {"lr": 0.05},
}
"""Optimizers that take gradients of all shapes, and what they are given."""

OPTIMIZERS: dict[str, Factory] = {
    "plain": lambda p: torch.optim.SGD(p, lr=0.05),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, foreach=True),
    "decoupled": lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "tensor_lr": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
    "groups": lambda p: torch.optim.Adam(_groups(p), lr=0.01),
    "muon": lambda p: torch.optim.Muon([each for each in p if each.ndim == 2], lr=0.01),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3),
    "wolfe": lambda p: torch.optim.LBFGS(p, max_iter=3, line_search_fn="strong_wolfe"),
    "sparseadam": lambda p: torch.optim.SparseAdam(p, lr=0.01),
}


def _groups(parameters: Any) -> list[dict[str, Any]]:
    """Each parameter with a learning rate of its own."""
    return [{"params": [each], "lr": 0.01 / (i + 1)} for i, each in enumerate(parameters)]


def _variants(cls: type[torch.optim.Optimizer]) -> Iterator[tuple[str, Factory]]:
    """An optimizer with each of its options: names and factories."""
    options = {"foreach": True, "fused": True, "maximize": True}
    known = inspect.signature(cls).parameters
    given: list[dict[str, Any]] = [{}, *({k: v} for k, v in options.items() if k in known)]
    for option in given:
        name = "_".join([cls.__name__.lower(), *option])
        yield name, lambda p, option=option: cls(p, **RATES[cls], **option)  # type: ignore[misc]


OPTIMIZERS.update(named for cls in RATES for named in _variants(cls))

BREAKING = ("adafactor", "lbfgs", "wolfe", "sparseadam")
"""Optimizers whose steps branch on their counts, or read them out."""
BY_SIGN = ("rprop", "adafactor", "muon")
"""Optimizers that see no more of a gradient than its sign or its direction."""
WITH_CLOSURE = ("lbfgs", "wolfe")
"""Optimizers that must be given a closure."""
SPARSE = ("plain", "sparseadam", "adagrad")
"""Optimizers that take sparse gradients."""
