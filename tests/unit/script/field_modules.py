"""Modules in the manner of the field's model files: torchvision, timm, fairseq, torch_geometric."""

# ruff: noqa: UP006, UP007, UP035, UP045, F811  the field writes types in older spellings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class AnchorGenerator(nn.Module):
    __annotations__ = {"cell_anchors": List[Tensor]}

    def __init__(self) -> None:
        super().__init__()
        ratios = ((0.5, 1.0), (1.0, 2.0))
        self.cell_anchors = [self.base(s, r) for s, r in zip(((8, 16), (32, 64)), ratios)]

    def base(self, scales: Tuple[int, ...], ratios: Tuple[float, ...]) -> Tensor:
        heights = torch.sqrt(torch.tensor(ratios))
        sizes = torch.tensor(scales, dtype=torch.float32)
        w = (1 / heights[:, None] * sizes[None, :]).view(-1)
        h = (heights[:, None] * sizes[None, :]).view(-1)
        return (torch.stack([-w, -h, w, h], dim=1) / 2).round()

    def grid(self, sizes: List[List[int]], strides: List[List[Tensor]]) -> List[Tensor]:
        anchors = []
        if not (len(sizes) == len(strides) == len(self.cell_anchors)):
            raise ValueError("needs a size, a stride and anchors for each level")
        for size, stride, base in zip(sizes, strides, self.cell_anchors):
            height, width = size
            down, right = stride
            shifts_x = torch.arange(0, width, dtype=torch.int32) * right
            shifts_y = torch.arange(0, height, dtype=torch.int32) * down
            y, x = torch.meshgrid(shifts_y, shifts_x, indexing="ij")
            x, y = x.reshape(-1), y.reshape(-1)
            shifts = torch.stack((x, y, x, y), dim=1)
            anchors.append((shifts.view(-1, 1, 4) + base.view(1, -1, 4)).reshape(-1, 4))
        return anchors

    def forward(self, image: Tensor, maps: List[Tensor]) -> List[Tensor]:
        sizes = [m.shape[-2:] for m in maps]
        height, width = image.shape[-2:]
        strides = [
            [
                torch.empty((), dtype=torch.int64).fill_(height // g[0]),
                torch.empty((), dtype=torch.int64).fill_(width // g[1]),
            ]
            for g in sizes
        ]
        return self.grid(sizes, strides)


class DetectionHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(*[nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()])
        self.scores = nn.Conv2d(4, 2, 1)
        self.boxes = nn.Conv2d(4, 8, 1)

    def forward(self, maps: List[Tensor]) -> Tuple[Dict[str, Tensor], List[Tuple[int, int]]]:
        scores: List[Tensor] = []
        boxes: List[Tensor] = []
        sizes: List[Tuple[int, int]] = []
        for m in maps:
            t = self.conv(m)
            n, _, h, w = t.shape
            scores.append(self.scores(t).permute(0, 2, 3, 1).reshape(n, -1, 1))
            found = self.boxes(t).view(n, -1, 4, h, w)
            boxes.append(found.permute(0, 3, 4, 1, 2).reshape(n, -1, 4))
            sizes.append((h, w))
        return {"scores": torch.cat(scores, dim=1), "boxes": torch.cat(boxes, dim=1)}, sizes


class BoxCoder(nn.Module):
    clip: Final[float]
    __constants__ = ("weights",)

    def __init__(self) -> None:
        super().__init__()
        self.weights = (10.0, 10.0, 5.0, 5.0)
        self.clip = 4.1

    def single(self, codes: Tensor, boxes: Tensor) -> Tensor:
        widths, heights = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
        x, y = boxes[:, 0] + 0.5 * widths, boxes[:, 1] + 0.5 * heights
        wx, wy, ww, wh = self.weights
        dx, dy = codes[:, 0::4] / wx, codes[:, 1::4] / wy
        dw = torch.clamp(codes[:, 2::4] / ww, max=self.clip)
        dh = torch.clamp(codes[:, 3::4] / wh, max=self.clip)
        cx, cy = dx * widths[:, None] + x[:, None], dy * heights[:, None] + y[:, None]
        half_w = torch.tensor(0.5, dtype=cx.dtype) * torch.exp(dw) * widths[:, None]
        half_h = torch.tensor(0.5, dtype=cy.dtype) * torch.exp(dh) * heights[:, None]
        return torch.stack((cx - half_w, cy - half_h, cx + half_w, cy + half_h), dim=2).flatten(1)

    def forward(self, codes: Tensor, boxes: List[Tensor]) -> Tensor:
        torch._assert(isinstance(boxes, (list, tuple)), "a list of boxes")
        torch._assert(isinstance(codes, Tensor), "a tensor")
        total = 0
        for count in [b.size(0) for b in boxes]:
            total += count
        if total > 0:
            codes = codes.reshape(total, -1)
        return self.single(codes, torch.cat(boxes, dim=0)).reshape(total, -1, 4)


def suppressed(boxes: Tensor, scores: Tensor, threshold: float) -> List[int]:
    kept: List[int] = []
    order = scores.argsort(descending=True)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while order.numel() > 0:
        best = int(order[0])
        kept.append(best)
        if order.numel() == 1:
            break
        rest = order[1:]
        low = torch.max(boxes[best, :2], boxes[rest, :2])
        high = torch.min(boxes[best, 2:], boxes[rest, 2:])
        sides = (high - low).clamp(min=0)
        both = sides[:, 0] * sides[:, 1]
        order = rest[both / (areas[best] + areas[rest] - both) <= threshold]
    return kept


class PostProcess(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.threshold = 0.3
        self.most = 4

    def forward(
        self, boxes: Tensor, scores: Tensor, sizes: List[Tuple[int, int]]
    ) -> List[Dict[str, Tensor]]:
        found: List[Dict[str, Tensor]] = []
        for b, s, (h, w) in zip(boxes, scores, sizes):
            low = b[:, :2].abs()
            corners = torch.cat([low, low + b[:, 2:].abs() + 0.1], dim=1)
            clipped = torch.min(corners, torch.tensor([w, h, w, h], dtype=b.dtype))
            keep = torch.tensor(suppressed(clipped, s, self.threshold)[: self.most])
            found.append({"boxes": clipped[keep], "scores": s[keep], "labels": keep * 2})
        return found


class FeaturePyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleList([nn.Conv2d(c, 4, 1) for c in (2, 3, 4)])
        self.layer = nn.ModuleList([nn.Conv2d(4, 4, 3, padding=1) for _ in range(3)])

    def at(self, x: Tensor, index: int) -> Tensor:
        result = x
        for i, module in enumerate(self.inner):
            if i == index:
                result = module(x)
        return result

    def forward(self, x: Dict[str, Tensor]) -> Dict[str, Tensor]:
        names, values = list(x.keys()), list(x.values())
        last = self.at(values[-1], -1 + len(values))
        results = [self.layer[2](last)]
        for i in range(len(values) - 2, -1, -1):
            inner = self.at(values[i], i)
            last = inner + F.interpolate(last, size=inner.shape[-2:], mode="nearest")
            results.insert(0, last)
        results.append(F.max_pool2d(results[-1], 1, 2, 0))
        names.append("pool")
        return OrderedDict([(k, v) for k, v in zip(names, results)])


class Hypothesis(NamedTuple):
    tokens: List[int]
    score: float
    state: Tensor


class BeamDecoder(nn.Module):
    """A recurrent decoder with beam search."""

    end: Final[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(6, 4)
        self.cell = nn.GRUCell(4, 4)
        self.out = nn.Linear(4, 6)

    def step(self, h: Hypothesis) -> Tuple[Tensor, Tensor]:
        state = self.cell(self.embedding(torch.tensor([h.tokens[-1]])), h.state)
        return F.log_softmax(self.out(state), dim=-1)[0], state

    def forward(self, state: Tensor, beams: int, most: int) -> List[Hypothesis]:
        live: List[Hypothesis] = [Hypothesis([1], 0.0, state)]
        done = torch.jit.annotate(List[Hypothesis], [])
        for _ in range(most):
            grown: List[Tuple[float, int, int]] = []
            states: List[Tensor] = []
            for place, h in enumerate(live):
                scores, new = self.step(h)
                states.append(new)
                top, tokens = scores.topk(beams)
                for k in range(beams):
                    grown.append((h.score + float(top[k].item()), place, int(tokens[k].item())))
            grown.sort(reverse=True)
            following: List[Hypothesis] = []
            for score, place, token in grown[:beams]:
                h = Hypothesis(live[place].tokens + [token], score, states[place])  # noqa: RUF005
                if token == self.end:
                    done.append(h)
                else:
                    following.append(h)
            live = following
            if len(live) == 0:
                break
        return done + live


class IncrementalAttention(nn.Module):
    """Attention that keeps earlier keys and values in a dict, as fairseq does."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(
        self,
        x: Tensor,
        state: Optional[Dict[str, Dict[str, Optional[Tensor]]]] = None,
        mask: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Optional[Dict[str, Dict[str, Optional[Tensor]]]]]:
        q, k, v = self.q(x), self.k(x), self.v(x)
        if state is not None:
            saved: Dict[str, Optional[Tensor]] = {}
            if "attention" in state:
                saved = state["attention"]
            if "k" in saved:
                earlier = saved["k"]
                assert earlier is not None
                k = torch.cat([earlier, k], dim=1)
                earlier_v = saved["v"]
                assert earlier_v is not None
                v = torch.cat([earlier_v, v], dim=1)
            saved["k"], saved["v"] = k, v
            state["attention"] = saved
        weights = torch.bmm(q, k.transpose(1, 2))
        if mask is not None:
            weights = weights.masked_fill(mask.unsqueeze(1).to(torch.bool), float("-inf"))
        return torch.bmm(F.softmax(weights, dim=-1), v), state


class Mode(Enum):
    SUM = "sum"
    MEAN = "mean"


class Pooled(nn.Module):
    def __init__(self, mode: Mode) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, x: Tensor, dims: Optional[List[int]]) -> Tensor:
        if dims is None:
            dims = [0]
        if self.mode == Mode.SUM:
            return x.sum(dims)
        if self.mode == Mode.MEAN:
            return x.mean(dims)
        raise RuntimeError(f"unknown mode {self.mode.name}")


class Messages(nn.Module):
    """A graph convolution with a choice of how messages are gathered."""

    aggr: Final[str]

    def __init__(self, aggr: str) -> None:
        super().__init__()
        self.aggr = aggr
        self.lin = nn.Linear(3, 3)

    def forward(
        self, x: Tensor, edges: Tensor, weight: Optional[Tensor] = None, size: Optional[int] = None
    ) -> Tensor:
        if size is None:
            size = int(edges[1].max()) + 1 if edges.numel() > 0 else 0
        messages = self.lin(x)[edges[0]]
        if weight is not None:
            messages = messages * weight.view(-1, 1)
        index = edges[1].unsqueeze(-1).expand_as(messages)
        out = torch.zeros([size, messages.size(1)], dtype=x.dtype)
        if self.aggr == "add":
            return out.scatter_add(0, index, messages)
        if self.aggr == "max":
            return out.scatter_reduce(0, index, messages, reduce="amax", include_self=False)
        ones = torch.ones_like(edges[1], dtype=x.dtype)
        count = out.new_zeros(size).scatter_add(0, edges[1], ones)
        return out.scatter_add(0, index, messages) / count.clamp(min=1).unsqueeze(-1)


class Overloaded(nn.Module):
    """Takes one tensor or a list of tensors, as dense layers of torchvision do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(6, 2, 1)
        self.efficient = False

    @torch.jit.unused
    def any_requires_grad(self, x: List[Tensor]) -> bool:
        return any(t.requires_grad for t in x)

    @torch.jit.unused
    def checkpointed(self, x: List[Tensor]) -> Tensor:
        return torch.utils.checkpoint.checkpoint(lambda *t: self.conv(torch.cat(t, 1)), *x)

    @torch.jit._overload_method
    def forward(self, input: List[Tensor]) -> Tensor:
        pass

    @torch.jit._overload_method
    def forward(self, input: Tensor) -> Tensor:
        pass

    def forward(self, input: Union[Tensor, List[Tensor]]) -> Tensor:
        if isinstance(input, Tensor):
            parts = [input]
        else:
            parts = input
        if self.efficient and self.any_requires_grad(parts):
            return self.checkpointed(parts)
        return F.relu(self.conv(torch.cat(parts, 1)))


class DenseBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = Overloaded()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.layer([x, y]) + self.layer(torch.cat([y, x], 1))


NOTES: List[str] = []


class Exits(nn.Module):
    """An auxiliary head in training only, an exported method and an ignored one."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ModuleDict(OrderedDict(one=nn.Linear(3, 4), two=nn.Linear(4, 4)))
        self.aux = nn.Linear(4, 2)
        self.head = nn.Linear(4, 2)

    @torch.jit.ignore
    def note(self, name: str) -> None:
        NOTES.append(name)

    @torch.jit.export
    def features(self, x: Tensor) -> Dict[str, Tensor]:
        found: Dict[str, Tensor] = {}
        for name, layer in self.body.items():
            x = torch.tanh(layer(x))
            found[name] = x
        return found

    def forward(self, x: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
        found = self.features(x)
        aux: Optional[Tensor] = None
        if self.training:
            aux = self.aux(found["one"])
        self.note(f"call of {x.size(0)}")
        return self.head(found["two"]), aux


class Windows(nn.Module):
    """Shifted windows, with padding that depends on sizes, as in Swin."""

    def __init__(self, shift: int) -> None:
        super().__init__()
        self.shift = [shift, shift]
        self.window = [2, 2]
        self.qkv = nn.Linear(4, 12)

    def mask(self, x: Tensor, high: int, wide: int, shift: List[int]) -> Tensor:
        a, b = self.window
        mask = x.new_zeros((high, wide))
        rows = ((0, -a), (-a, -shift[0]), (-shift[0], None))
        columns = ((0, -b), (-b, -shift[1]), (-shift[1], None))
        number = 0
        for row in rows:
            for column in columns:
                mask[row[0] : row[1], column[0] : column[1]] = number
                number += 1
        mask = mask.view(high // a, a, wide // b, b).permute(0, 2, 1, 3).reshape(-1, a * b)
        mask = mask.unsqueeze(1) - mask.unsqueeze(2)
        return mask.masked_fill(mask != 0, (-100.0)).masked_fill(mask == 0, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        n, height, width, channels = x.shape
        a, b = self.window
        x = F.pad(x, (0, 0, 0, (b - width % b) % b, 0, (a - height % a) % a))
        _, high, wide, _ = x.shape
        shift = self.shift.copy()
        if a >= high:
            shift[0] = 0
        if b >= wide:
            shift[1] = 0
        if sum(shift) > 0:
            x = torch.roll(x, shifts=(-shift[0], -shift[1]), dims=(1, 2))
        x = x.view(n, high // a, a, wide // b, b, channels).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(-1, a * b, channels)
        qkv = self.qkv(x).reshape(x.size(0), x.size(1), 3, 1, channels).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attention = q.matmul(k.transpose(-2, -1))
        if sum(shift) > 0:
            attention = attention.view(n, -1, 1, a * b, a * b)
            attention = attention + self.mask(x, high, wide, shift).unsqueeze(1).unsqueeze(0)
            attention = attention.view(-1, 1, a * b, a * b)
        x = F.softmax(attention, dim=-1).matmul(v).transpose(1, 2).reshape(x.size(0), -1, channels)
        x = x.view(n, high // a, wide // b, a, b, channels).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(n, high, wide, channels)
        if sum(shift) > 0:
            x = torch.roll(x, shifts=(shift[0], shift[1]), dims=(1, 2))
        return x[:, :height, :width, :].contiguous()


class Transform(nn.Module):
    """Normalizes and batches images of several sizes, as detection models do."""

    def __init__(self) -> None:
        super().__init__()
        self.means = [0.5, 0.4]
        self.deviations = [0.2, 0.3]
        self.divisible = 4

    def normalize(self, image: Tensor) -> Tensor:
        if not image.is_floating_point():
            raise TypeError(f"expected an image of floats, and got {image.dtype}")
        mean = torch.as_tensor(self.means, dtype=image.dtype)
        deviation = torch.as_tensor(self.deviations, dtype=image.dtype)
        return (image - mean[:, None, None]) / deviation[:, None, None]

    def largest(self, sizes: List[List[int]]) -> List[int]:
        most = sizes[0]
        for size in sizes[1:]:
            for index, item in enumerate(size):
                most[index] = max(most[index], item)
        return most

    def forward(
        self, images: List[Tensor], targets: Optional[List[Dict[str, Tensor]]] = None
    ) -> Tuple[Tensor, List[Tuple[int, int]], Optional[List[Dict[str, Tensor]]]]:
        images = [image for image in images]  # noqa: C416
        if targets is not None:
            copied: List[Dict[str, Tensor]] = []
            for target in targets:
                data: Dict[str, Tensor] = {}
                for key, value in target.items():
                    data[key] = value
                copied.append(data)
            targets = copied
        for i in range(len(images)):
            image = images[i]
            if image.dim() != 3:
                raise ValueError(f"images have 3 dimensions, not {image.dim()}")
            images[i] = self.normalize(image)
            if targets is not None:
                targets[i]["boxes"] = targets[i]["boxes"] * 0.5
        sizes: List[Tuple[int, int]] = []
        for image in images:
            size = image.shape[-2:]
            torch._assert(len(size) == 2, f"two sizes are needed, not {len(size)}")
            sizes.append((size[0], size[1]))
        most = list(self.largest([list(image.shape) for image in images]))
        stride = float(self.divisible)
        most[1] = int(torch.ceil(torch.tensor(most[1]) / stride).item() * stride)
        most[2] = int(-(-most[2] // stride) * stride)
        batch = images[0].new_full([len(images), most[0], most[1], most[2]], 0)
        for i in range(batch.shape[0]):
            image = images[i]
            batch[i, : image.shape[0], : image.shape[1], : image.shape[2]].copy_(image)
        return batch, sizes, targets


class Matcher:
    """A plain class with constants, as in torchvision's detection."""

    LOW = -1
    BETWEEN = -2
    __annotations__ = {"LOW": int, "BETWEEN": int}

    def __init__(self, high: float, low: float, allow: bool = False) -> None:
        self.LOW = -1
        self.BETWEEN = -2
        torch._assert(low <= high, "the low threshold is above the high one")
        self.high = high
        self.low = low
        self.allow = allow

    def __call__(self, quality: Tensor) -> Tensor:
        if quality.numel() == 0:
            raise ValueError("no boxes")
        values, matches = quality.max(dim=0)
        every = matches.clone() if self.allow else None
        matches[values < self.low] = self.LOW
        matches[(values >= self.low) & (values < self.high)] = self.BETWEEN
        if self.allow:
            assert every is not None
            best, _ = quality.max(dim=1)
            rows = torch.where(quality == best[:, None])
            matches[rows[1]] = every[rows[1]]
        return matches


class Matched(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matcher = Matcher(0.6, 0.3, allow=True)

    def forward(self, quality: Tensor) -> Tensor:
        return self.matcher(quality)


class Experts(nn.Module):
    """A mixture of experts: each token goes to its two best."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 3, bias=False)
        layers = [(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)) for _ in range(3)]
        self.experts = nn.ModuleList([nn.Sequential(*each) for each in layers])

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        shape = x.shape
        x = x.view(-1, shape[-1])
        logits = self.gate(x)
        weights, chosen = torch.topk(logits.softmax(-1), 2, dim=-1)
        weights /= weights.sum(dim=-1, keepdim=True)
        result = torch.zeros_like(x)
        mask = F.one_hot(chosen, num_classes=3).permute(2, 1, 0)
        for index, expert in enumerate(self.experts):
            place, token = torch.where(mask[index])
            if token.shape[0] > 0:
                result.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        return result.reshape(shape), logits


class StreamingNorm(nn.Module):
    """Statistics in buffers that each call updates."""

    running: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("running", torch.zeros(3))
        self.register_buffer("count", torch.tensor(0))
        self.momentum: Optional[float] = None

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.count.add_(1)
            rate = self.momentum
            if rate is None:
                rate = 1.0 / float(self.count)
            self.running.mul_(1 - rate).add_(x.detach().mean(0), alpha=rate)
        return x - self.running


class Tower(nn.Module):
    """Strings that choose, `hasattr`, and code that is not for scripts, as in timm."""

    def __init__(self, pool: str) -> None:
        super().__init__()
        self.pool = pool
        self.blocks = nn.Sequential()
        for k in range(3):
            self.blocks.add_module(f"block{k}", nn.Linear(3, 3))
        self.drop = 0.0
        self.head = nn.Identity() if pool == "none" else nn.Linear(3, 2)
        self.grad_checkpointing = False

    @torch.jit.ignore
    def set_grad_checkpointing(self, enable: bool = True) -> None:
        self.grad_checkpointing = enable

    def forward_features(self, x: Tensor, stop: int = -1) -> List[Tensor]:
        found: List[Tensor] = []
        for k, block in enumerate(self.blocks):
            x = F.silu(block(x))
            if not torch.jit.is_scripting() and self.grad_checkpointing:
                x = torch.utils.checkpoint.checkpoint(block, x)
            if stop == -1 or k <= stop:
                found.append(x)
        return found

    def forward(self, x: Tensor, logits: bool = True) -> Tensor:
        x = self.forward_features(x)[-1]
        if self.pool == "avg":
            x = x.mean(dim=0, keepdim=True)
        elif self.pool == "max":
            x = x.amax(dim=0, keepdim=True)
        x = F.dropout(x, p=float(self.drop), training=self.training)
        return self.head(x) if logits and hasattr(self, "head") else x


class PackedRecurrent(nn.Module):
    """Sequences of several lengths, step by step, with a list of states."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(3, 4), nn.LSTMCell(4, 4)])

    def forward(
        self, x: Tensor, lengths: Tensor, states: Optional[List[Tuple[Tensor, Tensor]]] = None
    ) -> Tuple[Tensor, List[Tuple[Tensor, Tensor]]]:
        if states is None:
            zeros = torch.zeros(x.size(1), 4, dtype=x.dtype)
            states = [(zeros, zeros) for _ in range(len(self.cells))]
        outputs: List[Tensor] = []
        for t in range(x.size(0)):
            step = x[t]
            alive = (lengths > t).unsqueeze(1)
            following: List[Tuple[Tensor, Tensor]] = []
            for k, cell in enumerate(self.cells):
                h, c = states[k]
                new_h, new_c = cell(step, (h, c))
                h, c = torch.where(alive, new_h, h), torch.where(alive, new_c, c)
                following.append((h, c))
                step = h
            states = following
            outputs.append(step)
        return torch.stack(outputs), states


class Router(nn.Module):
    """Values of several types, refined by `isinstance`, and formatted errors."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(
        self, x: Union[Tensor, List[Tensor], Dict[str, Tensor]], how: str = "sum"
    ) -> Tensor:
        if isinstance(x, Tensor):
            values = [x]
        elif isinstance(x, list):
            values = x[::-1][::2]
        else:
            values = [x[name] for name in sorted(x.keys())]
        if how not in ["sum", "mean"]:
            raise ValueError("{} is none of {}, {}".format(how, "sum", "mean"))
        total = values[0] * self.scale
        for k, value in enumerate(values[1:], 1):
            total = total + value * k
        return total if how == "sum" else total / len(values)


class Rotary(nn.Module):
    """Rotates pairs of channels by angles from a table, which grows where it is too short."""

    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(0, 2), persistent=False)

    def grow(self, length: int) -> None:
        rates = 1.0 / 10.0 ** (torch.arange(0, 4, 2).float() / 4)
        self.table = torch.outer(torch.arange(length).float(), rates)

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        length = x.size(-2) + offset
        if self.table.size(0) < length:
            self.grow(length)
        angles = self.table[offset:length]
        even, odd = x[..., ::2], x[..., 1::2]
        c, s = angles.cos(), angles.sin()
        return torch.stack([even * c - odd * s, even * s + odd * c], dim=-1).flatten(-2)


@dataclass(frozen=True)
class FieldModule:
    """A module, the arguments of a call for a size, and whether its results have gradients."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int], Tuple[Any, ...]]
    trains: bool = True


def maps(n: int) -> List[Tensor]:
    return [torch.randn(1, 4, n + 2, n + 1), torch.randn(1, 4, n, n)]


def boxes(n: int) -> Tensor:
    corners = torch.rand(n, 2)
    return torch.cat([corners, corners + torch.rand(n, 2) + 0.1], 1)


def edges(n: int) -> Tensor:
    return torch.randint(0, n, (2, 3 * n))


def pyramid(n: int) -> Dict[str, Tensor]:
    levels = (("a", 2, 4), ("b", 3, 2), ("c", 4, 1))
    return {name: torch.randn(1, c, s * n, s * n + 1) for name, c, s in levels}


def proposals(n: int) -> Tuple[Any, ...]:
    return torch.rand(2, 3 * n, 4), torch.rand(2, 3 * n), [(1, 2), (2, 1)]


def images(n: int) -> Tuple[Any, ...]:
    targets = [{"boxes": boxes(2)}, {"boxes": boxes(n)}]
    return [torch.rand(2, n + 3, 5), torch.rand(2, 4, 2 * n)], targets


def masked(n: int) -> Tuple[Any, ...]:
    return torch.randn(2, n, 4), None, (torch.arange(n) > 0).expand(2, n)


def kept(n: int) -> Tuple[Any, ...]:
    state = {"attention": {"k": torch.randn(2, 3, 4), "v": torch.randn(2, 3, 4)}}
    return torch.randn(2, n, 4), state


def weighted(n: int) -> Tuple[Any, ...]:
    return torch.randn(n, 3), edges(n), torch.rand(3 * n)


def of_lengths(n: int) -> Tuple[Any, ...]:
    return torch.randn(n, 2, 3), torch.tensor([n, max(1, n // 2)])


def rows(n: int) -> Tuple[Any, ...]:
    return (torch.randn(n, 3),)


def windows(n: int) -> Tuple[Any, ...]:
    return (torch.randn(2, n + 2, 2 * n + 1, 4),)


def field_modules() -> Iterator[FieldModule]:
    made = FieldModule
    yield made("anchors", AnchorGenerator, lambda n: (torch.zeros(1, 3, 99, 88), maps(n)), False)
    yield made("detection head", DetectionHead, lambda n: (maps(n),))
    yield made("box coder", BoxCoder, lambda n: (torch.randn(2 * n, 8), [boxes(n), boxes(n)]))
    yield made("post process", PostProcess, proposals, False)
    yield made("pyramid", FeaturePyramid, lambda n: (pyramid(n),))
    yield made("beam search", BeamDecoder, lambda n: (torch.randn(1, 4), 2, n + 1), False)
    yield made("masked attention", IncrementalAttention, masked)
    yield made("kept attention", IncrementalAttention, kept)
    yield made("sum", lambda: Pooled(Mode.SUM), lambda n: (torch.randn(n, 3, 2), [0, 2]))
    yield made("mean", lambda: Pooled(Mode.MEAN), lambda n: (torch.randn(n, 3), None))
    for way in ("add", "max", "mean"):
        yield made(f"messages, {way}", lambda way=way: Messages(way), weighted)
    yield made("overloads", DenseBlock, lambda n: (torch.randn(2, 4, n), torch.randn(2, 2, n)))
    yield made("exits in training", Exits, rows)
    yield made("exits", lambda: Exits().eval(), rows)
    yield made("windows", lambda: Windows(0), windows)
    yield made("shifted windows", lambda: Windows(1), windows)
    yield made("transform", Transform, images)
    yield made("matcher", Matched, lambda n: (torch.rand(3, 2 * n),), False)
    yield made("experts", Experts, lambda n: (torch.randn(2, n, 4),))
    yield made("streaming norm", StreamingNorm, rows)
    for pool in ("avg", "max", "none"):
        yield made(f"tower, {pool}", lambda pool=pool: Tower(pool), rows)
    yield made("packed recurrence", PackedRecurrent, of_lengths)
    yield made("router of a tensor", Router, lambda n: (torch.randn(n),))
    yield made("router of a list", Router, lambda n: ([torch.randn(n) for _ in "abcd"], "mean"))
    yield made("router of a dict", Router, lambda n: ({"b": torch.randn(n), "a": torch.ones(n)},))
    yield made("rotary", Rotary, lambda n: (torch.randn(2, n, 4), 2))
