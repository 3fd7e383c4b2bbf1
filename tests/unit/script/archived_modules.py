"""Modules and functions that `torch.jit` scripts or traces and saves, each with inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.shortcut: nn.Module | None = None

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(F.relu(self.norm(self.first(x)), inplace=True))
        if self.shortcut is not None:
            x = self.shortcut(x)
        return F.relu(x + y)


class ResidualNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)
        )
        self.stages = nn.ModuleList([Residual(4), Residual(4)])
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class Dense(nn.Module):
    """Layers that read the list of all earlier results, as in DenseNet."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({str(k): nn.Conv2d(2 + 2 * k, 2, 1) for k in range(3)})

    def forward(self, x: Tensor) -> list[Tensor]:
        found = [x]
        for _, layer in self.layers.items():
            found.append(layer(torch.cat(found, 1)))
        return found


class Squeeze(nn.Module):
    def __init__(self):
        super().__init__()
        self.squeeze = nn.Conv2d(4, 2, 1)
        self.expand = nn.Conv2d(2, 4, 1)

    def scale(self, x: Tensor) -> Tensor:
        means = x.mean([2, 3], keepdim=True)
        return F.hardsigmoid(self.expand(F.silu(self.squeeze(means))))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale(x) * x


class Attention(nn.Module):
    heads: Final[int]

    def __init__(self):
        super().__init__()
        self.heads = 2
        self.projections = nn.Linear(8, 24)
        self.register_buffer("mask", torch.ones(6, 6).tril().bool(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.projections(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        scores = (q @ k.transpose(-2, -1)) / float(q.size(-1)) ** 0.5
        scores = scores.masked_fill(~self.mask[:length, :length], -1e9)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.lstm = nn.LSTM(4, 5, batch_first=True)

    def forward(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if h is None:
            h = torch.zeros(x.size(0), 4, dtype=x.dtype)
        steps: list[Tensor] = []
        for step in x.unbind(1):
            h = self.cell(step, h)
            steps.append(h)
        result, (_, c) = self.lstm(torch.stack(steps, 1))
        return result, c


class Bidirectional(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


class Numbers(nn.Module):
    """Parameters and buffers of many element types."""

    def __init__(self):
        super().__init__()
        self.brain = nn.Parameter(torch.arange(3).to(torch.bfloat16))
        self.waves = nn.Parameter(torch.tensor([1 + 2j, -1j, 0.5], dtype=torch.complex64))
        self.steps = nn.Parameter(torch.tensor([3, 1, 2]), requires_grad=False)
        self.register_buffer("small", torch.tensor([200, 3, 0], dtype=torch.uint8))
        self.register_buffer("flags", torch.tensor([True, False, True]))
        self.register_buffer("exact", torch.tensor(0.1, dtype=torch.float64))
        self.register_buffer("none", None)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y = x[self.steps - 1] * self.brain
        if self.none is not None:
            y = y + 1
        z = (self.waves * x).abs() + self.exact
        return y, z, self.small + 1, torch.where(self.flags, x, -x)


class Tied(nn.Module):
    """Two names of one parameter, and buffers that are views of one memory."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 5, bias=False)
        self.out.weight = self.embedding.weight
        memory = torch.arange(6.0)
        self.register_buffer("whole", memory)
        self.register_buffer("odd", memory[1::2])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.odd.add_(1)
        return self.out(self.embedding(x)), self.whole * 2


class Counter(nn.Module):
    """Attributes that calls change."""

    last: Tensor | None
    names: dict[str, int]
    history: list[int]
    pair: tuple[int, str | None]

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.last = None
        self.names = {"b": 2, "a": 1}
        self.history = []
        self.pair = (3, None)

    def forward(self, x: Tensor) -> tuple[Tensor, int, dict[str, int], list[int]]:
        self.calls += 1
        last = self.last
        if last is not None:
            x = x + last
        self.last = x
        self.names[f"call{self.calls}"] = self.calls
        self.history.append(self.calls * self.pair[0])
        return x, self.calls, self.names, self.history


class Exported(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.encode(x, 1.0)

    @torch.jit.export
    def encode(self, x: Tensor, shift: float = 0.5) -> Tensor:
        return x * self.scale + shift

    @torch.jit.export
    def describe(self, name: str) -> str:
        return name.upper() + ": " + str(3) + f" of {name}"


class Detection(NamedTuple):
    boxes: Tensor
    scores: Tensor
    label: int


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.boxes = nn.Linear(3, 4)
        self.scores = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> list[Detection]:
        found: list[Detection] = []
        for row in x:
            scores = self.scores(row).sigmoid()
            if bool(scores.sum() > 0.2):
                found.append(Detection(self.boxes(row), scores, len(found)))
        return found


@torch.jit.script
class Box:
    def __init__(self, low: Tensor, high: Tensor):
        self.low = low
        self.high = high

    def area(self) -> Tensor:
        return (self.high - self.low).clamp(min=0).prod(-1)

    def grown(self, by: float) -> "Box":
        return Box(self.low - by, self.high + by)


class Boxes(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        box = Box(x, y)
        for k in range(3):
            box = box.grown(float(k))
        return box.area()


def collatz(n: int) -> list[int]:
    steps: list[int] = []
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps.append(n)
    return steps


def words(text: str, times: int) -> tuple[list[str], dict[str, int], str]:
    counts: dict[str, int] = {}
    for word in text.lower().split():
        if word in counts:
            counts[word] += 1
        else:
            counts[word] = 1
    return sorted(counts.keys()), counts, "-".join([text[1:5]] * times) + text.replace("a", "'\n")


def leaves_early(x: Tensor, limit: float) -> tuple[Tensor, int]:
    for k in range(10):
        if k == 1:
            continue
        x = x * 2
        if bool(x.sum() > limit):
            return x, k
        if k > 6:
            break
    return x, 100


def sliced(x: Tensor, items: list[int]) -> tuple[Tensor, list[int], Tensor]:
    x = x.clone()
    x[1:3, ::2] = 7
    x[..., -1] += 1
    items[0], items[-1] = items[-1], items[0]
    return x[:, None, 1:], [i * i for i in items[::-1]], x[torch.tensor([0, 2])]


def table(x: Tensor) -> dict[str, list[tuple[int, Tensor]]]:
    found: dict[str, list[tuple[int, Tensor]]] = {}
    for k, row in enumerate(x):
        key = "even" if k % 2 == 0 else "odd"
        if key not in found:
            found[key] = torch.jit.annotate(list[tuple[int, Tensor]], [])
        found[key].append((k, row))
    return found


def refined(x: Tensor | None, y: list[int] | None) -> Tensor:
    if x is None:
        assert y is not None, "one of both"
        return torch.tensor(y)
    return x if y is None else x.sum() * len(y)


def zipped(a: list[int], b: list[float]) -> tuple[float, dict[int, float]]:
    total = 0.0
    for i, (x, y) in enumerate(zip(a, b)):
        total += i * x * y
    return total, {x: y for x, y in zip(a, b)}  # noqa: C416


def spectral(x: Tensor) -> tuple[Tensor, complex, float]:
    waves = torch.fft.rfft(x)
    number = complex(1.5, -2) * 2
    return torch.view_as_real(waves), number, abs(number) + float("inf")


def factories(n: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    a = torch.arange(n, dtype=torch.int16, device=device)
    return a, torch.full([n, 2], 0.5, dtype=torch.float64), torch.eye(n).to(a.dtype)


def forked(x: Tensor) -> Tensor:
    task = torch.jit.fork(doubled, x)
    return torch.jit.wait(task) + x


def doubled(x: Tensor) -> Tensor:
    return x * 2


class Gate(nn.Module):
    """Is traced with `gated`, which is scripted and keeps its branch."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return gated(self.linear(x))


@torch.jit.script
def gated(x: Tensor) -> Tensor:
    return x * 2 if bool(x.sum() > 0) else x - 1


class Pair(nn.Module):
    def forward(self, x: Tensor, y: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return x.reshape(-1, x.size(-1)) @ y["w"], y["w"].t()


@dataclass(frozen=True)
class Archived:
    """What is saved, how `torch.jit` makes it, and the arguments of its calls, in order."""

    name: str
    make: Callable[[], Any]
    calls: tuple[tuple[Any, ...], ...]
    methods: tuple[str, ...] = ("forward",)


def scripted(thing: Any) -> Callable[[], Any]:
    return lambda: torch.jit.script(thing() if isinstance(thing, type) else thing)


def scripted_for_inference(thing: Callable[[], nn.Module]) -> Callable[[], Any]:
    return lambda: torch.jit.script(thing().eval())


def frozen(thing: Callable[[], nn.Module]) -> Callable[[], Any]:
    return lambda: torch.jit.freeze(torch.jit.script(thing().eval()))


def traced(thing: Callable[[], Any], *inputs: Any) -> Callable[[], Any]:
    return lambda: torch.jit.trace(thing(), inputs)


def image(channels: int, size: int = 6, batch: int = 2) -> Tensor:
    return torch.randn(batch, channels, size, size)


def archived() -> list[Archived]:
    torch.manual_seed(0)
    x23, x53 = torch.randn(2, 3), torch.randn(5, 3)
    return [
        Archived(
            "residual net", scripted_for_inference(ResidualNet), ((image(3),), (image(3, 9),))
        ),
        Archived("residual net in training", scripted(ResidualNet), ((image(3),), (image(3, 8),))),
        Archived("frozen residual net", frozen(ResidualNet), ((image(3),), (image(3, 7, 1),))),
        Archived(
            "traced residual net", traced(lambda: ResidualNet().eval(), image(3)), ((image(3),),)
        ),
        Archived("dense layers", scripted(Dense), ((image(2),), (image(2, 3),))),
        Archived("squeeze and excite", scripted(Squeeze), ((image(4),),)),
        Archived("frozen squeeze", frozen(Squeeze), ((image(4),),)),
        Archived(
            "attention", scripted(Attention), ((torch.randn(2, 5, 8),), (torch.randn(1, 6, 8),))
        ),
        Archived(
            "traced attention", traced(Attention, torch.randn(2, 5, 8)), ((torch.randn(2, 5, 8),),)
        ),
        Archived(
            "recurrent cells",
            scripted(Recurrent),
            ((torch.randn(2, 4, 3),), (torch.randn(3, 2, 3), torch.ones(3, 4))),
        ),
        Archived("many element types", scripted(Numbers), ((torch.randn(3),),)),
        Archived("shared memory", scripted(Tied), ((torch.tensor([1, 3]),),) * 2),
        Archived("changing attributes", scripted(Counter), ((torch.ones(2),),) * 3),
        Archived("exported encode", scripted(Exported), ((x23,), (x23, 1.5)), ("encode",)),
        Archived("exported text", scripted(Exported), (("name",),), ("describe",)),
        Archived("named tuples", scripted(Head), ((x23,), (x53 * 4,))),
        Archived("class of the user", scripted(Boxes), ((x23, x23 + 1),)),
        Archived("collatz", scripted(collatz), ((7,), (27,))),
        Archived("words", scripted(words), (("a rose is A rose", 2),)),
        Archived(
            "early returns",
            scripted(leaves_early),
            ((x23.abs(), 5.0), (x23 * 0, 1.0), (x23.abs(), 1e9)),
        ),
        Archived("slices", scripted(sliced), ((torch.randn(4, 5), [4, 1, 2]),)),
        Archived("dict of lists of tuples", scripted(table), ((x53,),)),
        Archived(
            "optional arguments", scripted(refined), ((x23, None), (None, [1, 2]), (x23, [3]))
        ),
        Archived("zip and enumerate", scripted(zipped), (([1, 2, 3], [0.5, 1.5, 2.5]),)),
        Archived("complex numbers", scripted(spectral), ((torch.randn(8),),)),
        Archived("factories", scripted(factories), ((3, torch.device("cpu")),)),
        Archived("tasks", scripted(forked), ((x23,),)),
        Archived("trace with a script", traced(Gate, x23), ((x23,), (x23 * -9,))),
        Archived(
            "traced function",
            traced(lambda: lambda x, y: (x.sin() @ y, {"a": x}["a"]), x23, x53.t()),
            ((x23, x53.t()),),
        ),
        Archived("trace of a dict", traced(Pair, x23, {"w": x53.t()}), ((x23, {"w": x53.t()}),)),
        Archived("bidirectional LSTM", scripted(Bidirectional), ((torch.randn(4, 2, 3),),)),
        Archived(
            "transformer layer",
            scripted_for_inference(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)),
            ((torch.randn(2, 5, 8),),),
        ),
    ]
