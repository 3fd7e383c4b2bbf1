"""Programs to export: each with arguments for a batch of any size, and what varies."""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from minitorch2 import Dim

Pair = namedtuple("Pair", "low high")
BATCH = Dim("batch", min=2, max=64)


@dataclass(frozen=True)
class Entry:
    """A program; ``args(n)`` are arguments for a batch of n, ``shapes`` says that n varies."""

    name: str
    make: Callable[[], Callable[..., Any]]
    args: Callable[[int], tuple[Any, ...]]
    shapes: Any
    kwargs: Callable[[int], dict[str, Any]] = lambda n: {}


ZOO: list[Entry] = []


def x48(n: int) -> tuple[Any, ...]:
    return (torch.randn(n, 8, generator=torch.Generator().manual_seed(n)),)


def image(n: int) -> tuple[Any, ...]:
    return (torch.randn(n, 3, 12, 12, generator=torch.Generator().manual_seed(n)),)


def words(n: int) -> tuple[Any, ...]:
    return (torch.randint(0, 20, (n, 6), generator=torch.Generator().manual_seed(n)),)


def sequence(n: int) -> tuple[Any, ...]:
    return (torch.randn(n, 6, 8, generator=torch.Generator().manual_seed(n)),)


def two(n: int) -> tuple[Any, ...]:
    return (*x48(n), torch.randn(n, 8, generator=torch.Generator().manual_seed(n + 100)))


def entry(args: Callable[[int], tuple[Any, ...]] = x48, shapes: Any = ({0: BATCH},), **more: Any):
    def enter(program: Any) -> Any:
        def make() -> Any:
            torch.manual_seed(0)
            return program().eval() if isinstance(program, type) else program

        ZOO.append(Entry(program.__name__, make, args, shapes, **more))
        return program

    return enter


BOTH = ({0: BATCH}, {0: BATCH})


def sequential(name: str, *layers: Callable[[], nn.Module], args: Any = x48) -> None:
    def make() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(*(layer() for layer in layers)).eval()

    ZOO.append(Entry(name, make, args, ({0: BATCH},)))


sequential("mlp", lambda: nn.Linear(8, 16), nn.GELU, lambda: nn.Linear(16, 4))
sequential("normed", lambda: nn.Linear(8, 8), lambda: nn.LayerNorm(8), lambda: nn.Softmax(-1))
sequential("batch_norm", lambda: nn.Linear(8, 8), lambda: nn.BatchNorm1d(8), nn.SiLU)
sequential("dropped", lambda: nn.Linear(8, 8), lambda: nn.Dropout(0.5), nn.Tanh)
sequential("convolution", lambda: nn.Conv2d(3, 4, 3), nn.ReLU, lambda: nn.Flatten(), args=image)
sequential(
    "pooled", lambda: nn.Conv2d(3, 4, 3, 2), lambda: nn.BatchNorm2d(4), nn.ReLU,
    lambda: nn.MaxPool2d(2), lambda: nn.AdaptiveAvgPool2d(1), nn.Flatten, args=image,
)  # fmt: skip
sequential("groups", lambda: nn.Conv2d(3, 4, 1), lambda: nn.GroupNorm(2, 4), nn.Mish, args=image)
sequential("embedded", lambda: nn.Embedding(20, 8), lambda: nn.Linear(8, 3), args=words)
sequential(
    "transformer", lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), args=sequence
)
sequential("upsampled", lambda: nn.Conv2d(3, 2, 3), lambda: nn.Upsample(scale_factor=2), args=image)


@entry()
def pointwise(x):
    return (x.sin() * 2 + x.abs().sqrt()).clamp(-1, 1)


@entry()
def reductions(x):
    return x.sum(0), x.mean(-1, keepdim=True), x.amax(1), x.std(1), x.argmax(-1)


@entry()
def sizes(x):
    return {"rows": x.shape[0], "twice": x.shape[0] * 2, "zeros": torch.zeros(x.shape[0] + 1)}


@entry()
def views(x):
    return x.view(-1), x.t(), x[1:], x.unflatten(1, (2, 4)).permute(2, 0, 1), x[:, ::2]


@entry()
def the_same(x):
    return x, x + 1, x


@entry()
def constants(x):
    return [x * 2, None, "text", 3, 1.5, (True, x)]


@entry()
def named(x):
    return Pair(x.amin(), x.amax())


@entry(two, BOTH)
def nested(x, y):
    return {"sum": x + y, "parts": [x - y, (x * y,)]}


@entry(two, BOTH)
def joined(x, y):
    return torch.cat([x, y]), torch.stack([x, y]), torch.where(x > y, x, y)


@entry(two, BOTH)
def products(x, y):
    return x @ y.t(), torch.einsum("ij,kj->ik", x, y), torch.bmm(x[:, None], y[:, :, None])


@entry(lambda n: ({"a": x48(n)[0], "b": [x48(n)[0] + 1]},), ({"a": {0: BATCH}, "b": [{0: BATCH}]},))
def containers(inputs):
    return inputs["a"] * inputs["b"][0]


@entry(lambda n: (*x48(n), 3), ({0: BATCH}, None), kwargs=lambda n: {"flip": True})
def numbers(x, power, *, flip=False):
    return x.flip(0) ** power if flip else x**power


@entry()
def integers(x):
    i = (x * 10).to(torch.int64)
    return i // 3, i % 3, i & 6, i.cumsum(0), (x > 0).any(1)


@entry()
def gathered(x):
    order = x.argsort(1)
    return x.gather(1, order), x.index_select(1, torch.tensor([0, 3])), x[:, torch.arange(3)]


@entry()
def sorted_rows(x):
    values, places = x.topk(3, dim=1)
    return values, places, x.sort(1, descending=True).values


@entry()
def written(x):
    y = torch.zeros_like(x)
    y[:, 1:3] = x[:, 1:3]
    y[0] += 1
    return y.mul_(2)


@entry()
def doubles(x):
    return x.double().softmax(-1), x.half().float(), x.bfloat16() + 1


@entry(sequence)
def attention(x):
    q = x.view(x.shape[0], 6, 2, 4).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


@entry()
def made_inside(x):
    return torch.arange(x.shape[0]) + torch.ones(x.shape[0]) * torch.eye(8)[0, 0]


@entry()
def unread(x):
    return torch.ones(3)


@entry(lambda n: (x48(n)[0].t(),), ({1: BATCH},))
def strided(x):
    return x * 2 + x.sum(0)


@entry(lambda n: (x48(2 * n)[0], x48(n)[0]), ({0: 2 * BATCH}, {0: BATCH}))
def related(x, y):
    return x + torch.cat([y, y])


@entry(lambda n: (x48(2 * n)[0],), ({0: Dim.AUTO},))
def halves(x):
    return x.view(2, -1, 8).sum(0)


@entry()
def found(x):
    places = (x > 0).nonzero()
    torch._check(places.shape[0] >= 0)
    return places, x[x > 0].sum(), places.shape[0]


@entry()
def random_like(x):
    return x + torch.rand_like(x) * 0


@entry()
class Counting(nn.Module):
    """Writes to buffers: one as a whole, one in part."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last", torch.zeros(3, 8), persistent=False)

    def forward(self, x):
        self.count += 1
        self.last[1] = x[0]
        return x * self.count, self.last


@entry()
class Tied(nn.Module):
    """Uses one parameter under two names."""

    def __init__(self):
        super().__init__()
        self.one = nn.Linear(8, 8)
        self.other = nn.Linear(8, 8, bias=False)
        self.other.weight = self.one.weight
        self.offset = torch.ones(8)

    def forward(self, x):
        return self.other(self.one(x)) + self.offset


@entry(sequence)
class Recurrent(nn.Module):
    """A recurrent network, whose state starts at zero."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 5)

    def forward(self, x):
        state = x.new_zeros(x.shape[0], 5)
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
        return state


@entry()
class Hooked(nn.Module):
    """A module with a hook, which belongs to the program."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.inner.register_forward_hook(lambda module, args, out: out * 3)

    def forward(self, x):
        return self.inner(x) + 1


@entry()
class Training(nn.Module):
    """A module in training mode: batch statistics are used, and written."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def eval(self):
        return self

    def forward(self, x):
        return self.norm(x)


NAMES = [each.name for each in ZOO]
BY_NAME = dict(zip(NAMES, ZOO, strict=True))
SIZES = (4, 2, 7)
