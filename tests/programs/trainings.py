"""Training and inference programs of many kinds, each with changing sizes and two dtypes."""

import abc
import collections
import contextlib
import copy
import dataclasses
import functools
import math
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs import T, program

KINDS = ((4, torch.float32), (6, torch.float64), (3, torch.float32), (7, torch.float64))
"""Sizes and dtypes, in the order in which programs meet them."""


def made(*shape: int, seed: int = 0, like: torch.dtype = torch.float32) -> torch.Tensor:
    """Draw a leaf of a dtype."""
    return T(*shape, seed=seed).to(like).requires_grad_()


@program
def set_transformer(c):
    class Attention(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
            self.heads, self.norm = heads, nn.LayerNorm(d)

        def forward(self, x, y, keep=None):
            k, v = self.kv(y).chunk(2, -1)

            def split(t):
                return t.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

            scores = torch.einsum("...hid,...hjd->...hij", split(self.q(x)), split(k))
            scores = scores / math.sqrt(x.size(-1) // self.heads)
            if keep is not None:
                scores = scores.masked_fill(~keep[..., None, None, :], -math.inf)
            mixed = torch.einsum("...hij,...hjd->...hid", scores.softmax(-1), split(v))
            return self.norm(x + self.o(mixed.transpose(-3, -2).flatten(-2)))

    class Induced(nn.Module):
        def __init__(self, d, heads, points):
            super().__init__()
            self.points = nn.Parameter(torch.randn(points, d))
            self.up, self.down = Attention(d, heads), Attention(d, heads)

        def forward(self, x, keep=None):
            h = self.up(self.points.expand(x.size(0), -1, -1), x, keep)
            return self.down(x, h)

    torch.manual_seed(0)
    out: list[Any] = []
    for n, kind in KINDS:
        net = nn.ModuleList([Induced(8, 2, 3), Induced(8, 4, 2)]).to(kind)

        def run(x, keep):
            for layer in net:
                x = layer(x, keep)
            return (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)

        x, keep = made(2, n, 8, seed=n, like=kind), torch.arange(n)[None] < torch.tensor([[n], [2]])
        y = c(run)(x, keep)
        y.square().sum().backward()
        out.append((y.detach(), x.grad, {k: p.grad for k, p in net.named_parameters()}))
    return out


@program
def codebook_with_moving_averages(c):
    class Codebook(nn.Module):
        def __init__(self, k, d, decay=0.9):
            super().__init__()
            self.decay = decay
            self.register_buffer("codes", T(k, d, seed=3))
            self.register_buffer("counts", torch.ones(k))
            self.register_buffer("sums", self.codes.clone())

        def forward(self, z):
            flat = z.reshape(-1, z.size(-1))
            d = flat.pow(2).sum(1, True) - 2 * flat @ self.codes.T + self.codes.pow(2).sum(1)
            index = d.argmin(1)
            hot = F.one_hot(index, len(self.codes)).to(z.dtype)
            q = F.embedding(index, self.codes).view_as(z)
            if self.training:
                with torch.no_grad():
                    self.counts.mul_(self.decay).add_(hot.sum(0), alpha=1 - self.decay)
                    self.sums.lerp_(hot.T @ flat.detach(), 1 - self.decay)
                    n = self.counts.sum()
                    weight = (self.counts + 1e-5) / (n + len(self.codes) * 1e-5) * n
                    self.codes.copy_(self.sums / weight[:, None])
                    dead = self.counts < 0.05
                    self.codes[dead] = flat[: len(self.codes)].mean(0)
            loss = F.mse_loss(q.detach(), z) * 0.25
            p = hot.mean(0)
            return z + (q - z).detach(), loss, torch.exp(-(p * (p + 1e-9).log()).sum())

    out: list[Any] = []
    for kind in (torch.float32, torch.float64):
        book, seen = Codebook(5, 3).to(kind), []
        run = c(book)
        for n in (4, 6, 3, 6):
            z = made(2, n, 3, seed=n, like=kind)
            q, loss, perplexity = run(z)
            (q.square().sum() + loss).backward()
            seen.append((loss.detach(), perplexity, z.grad))
        book.eval()
        out.append((seen, run(z.detach())[0], dict(book.named_buffers())))
    return out


@program
def sharpness_and_lookahead(c):
    class Sharpness:
        def __init__(self, inner, rho=0.05):
            self.inner, self.rho, self.kept = inner, rho, {}

        @torch.no_grad()
        def climb(self):
            ps = [p for g in self.inner.param_groups for p in g["params"] if p.grad is not None]
            norm = torch.stack([p.grad.norm() for p in ps]).norm()
            for p in ps:
                step = p.grad * (self.rho / (norm + 1e-12))
                self.kept[p] = step
                p.add_(step)
            self.inner.zero_grad()

        @torch.no_grad()
        def step(self):
            for p, step in self.kept.items():
                p.sub_(step)
            self.kept.clear()
            self.inner.step()
            self.inner.zero_grad()

    class Lookahead:
        def __init__(self, parameters, every=2, alpha=0.5):
            self.fast, self.every, self.alpha, self.count = list(parameters), every, alpha, 0
            self.slow = [p.detach().clone() for p in self.fast]

        @torch.no_grad()
        def update(self):
            self.count += 1
            if self.count % self.every:
                return False
            for slow, fast in zip(self.slow, self.fast, strict=True):
                slow += self.alpha * (fast - slow)
                fast.copy_(slow)
            return True

    out: list[Any] = []
    for kind in (torch.float32, torch.float64):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).to(kind)
        sam, ahead = Sharpness(torch.optim.SGD(net.parameters(), 0.1, 0.9)), None
        ahead = Lookahead(net.parameters())

        def step(x, y):
            F.mse_loss(net(x), y).backward()
            sam.climb()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            sam.step()
            return loss.detach(), ahead.update()

        run = c(step)
        got = [run(T(n, 3, seed=n).to(kind), T(n, 1, seed=9).to(kind)) for n in (4, 5, 4, 6)]
        out.append((got, net.state_dict(), ahead.slow, ahead.count))
    return out


@program
def accumulation_without_sync(c):
    class Replica(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module, self.synced, self.log = module, True, []

        @contextlib.contextmanager
        def no_sync(self):
            before, self.synced = self.synced, False
            try:
                yield self
            finally:
                self.synced = before

        def forward(self, *args):
            self.log.append((self.synced, len(args[0])))
            return self.module(*args)

    out: list[Any] = []
    for kind in (torch.float32, torch.float64):
        torch.manual_seed(0)
        net = Replica(nn.Linear(3, 2)).to(kind)
        opt = torch.optim.AdamW(net.parameters(), 0.05)

        def step(batches, targets):
            total = 0.0
            for i, (x, y) in enumerate(zip(batches, targets, strict=True)):
                last = i == len(batches) - 1
                with contextlib.nullcontext() if last else net.no_sync():
                    loss = F.cross_entropy(net(x), y) * len(x) / sum(map(len, batches))
                    loss.backward()
                total = total + loss.detach()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            opt.zero_grad(set_to_none=True)
            return total, norm

        run = c(step)
        for sizes in ((2, 3), (4, 1, 2), (5,), (2, 2)):
            xs = [T(n, 3, seed=n).to(kind) for n in sizes]
            out.append(run(xs, [torch.arange(n) % 2 for n in sizes]))
        out.append((net.log, net.state_dict()))
    return out


@program
def hypernetwork_of_tasks(c):
    class Hyper(nn.Module):
        def __init__(self, tasks, shapes):
            super().__init__()
            self.shapes, total = shapes, sum(math.prod(s) for s in shapes.values())
            self.embed = nn.Embedding(tasks, 4)
            self.head = nn.Sequential(nn.Linear(4, 6), nn.SiLU(), nn.Linear(6, total))

        def forward(self, task):
            flat = self.head(self.embed(task))
            parts = flat.split([math.prod(s) for s in self.shapes.values()], -1)
            return {k: p.view(s) for (k, s), p in zip(self.shapes.items(), parts, strict=True)}

    out: list[Any] = []
    torch.manual_seed(0)
    for n, kind in KINDS:
        target = nn.Sequential(collections.OrderedDict(a=nn.Linear(3, 5), b=nn.Linear(5, 2)))
        target.to(kind)
        hyper = Hyper(3, {k: p.shape for k, p in target.named_parameters()}).to(kind)

        def run(x, task):
            weights = hyper(task)
            y = torch.func.functional_call(target, weights, (x.sin(),))
            return y, sum(w.square().mean() for w in weights.values())

        x = made(n, 3, seed=n, like=kind)
        for task in range(2):
            y, penalty = c(run)(x, torch.tensor(task))
            (y.logsumexp(-1).sum() + penalty).backward()
        out.append((y.detach(), x.grad, [p.grad for p in hyper.parameters()]))
    return out


@program
def meta_learning_two_ways(c):
    def model(params, x):
        h = torch.tanh(x @ params["w1"] + params["b1"])
        return h @ params["w2"]

    def loss_of(params, x, y):
        return F.mse_loss(model(params, x), y)

    def with_transforms(params, task, steps):
        xs, ys, xq, yq = task
        fast = params
        for _ in range(steps):
            grads = torch.func.grad(loss_of)(fast, xs, ys)
            fast = {k: fast[k] - 0.1 * grads[k] for k in fast}
        return loss_of(fast, xq, yq)

    def without(params, task, steps):
        xs, ys, xq, yq = task
        fast = dict(params)
        for _ in range(steps):
            wanted = torch.autograd.grad(
                loss_of(fast, xs, ys), list(fast.values()), create_graph=True
            )
            fast = {k: v - 0.1 * g for (k, v), g in zip(fast.items(), wanted, strict=True)}
        return loss_of(fast, xq, yq)

    out: list[Any] = []
    one, two = c(with_transforms), c(without)
    for n, kind in KINDS:
        shapes = {"w1": (2, 5), "b1": (5,), "w2": (5, 1)}
        params = {k: made(*s, seed=len(k), like=kind) for k, s in shapes.items()}
        task = [T(n, d, seed=n + i).to(kind) for i, d in enumerate((2, 1, 2, 1))]
        for run, steps in ((one, 1), (two, 1), (one, 2), (two, 2)):
            loss = run(params, task, steps)
            out.append((loss.detach(), torch.autograd.grad(loss, list(params.values()))))
    return out


@program
def spiking_with_surrogates(c):
    class Spike(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v, slope):
            ctx.save_for_backward(v)
            ctx.slope, ctx.shape = slope, v.shape
            return (v > 0).to(v.dtype)

        @staticmethod
        def backward(ctx, g):
            (v,) = ctx.saved_tensors
            return g.view(ctx.shape) / (1 + ctx.slope * v.abs()) ** 2, None

    @dataclasses.dataclass
    class State:
        v: torch.Tensor
        spikes: list = dataclasses.field(default_factory=list)

        def reset(self, s):
            self.v = self.v * (1 - s.detach())

    class Layer(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.fc, self.decay = nn.Linear(i, o), nn.Parameter(torch.tensor(2.0))

        def forward(self, x, state, slope):
            state.v = self.decay.sigmoid() * state.v + self.fc(x)
            s = Spike.apply(state.v - 0.3, slope)
            state.reset(s)
            state.spikes.append(s)
            return s

    out: list[Any] = []
    for kind in (torch.float32, torch.float64):
        torch.manual_seed(0)
        layers = nn.ModuleList([Layer(3, 6), Layer(6, 2)]).to(kind)

        def run(xs, slope=5.0):
            states = [State(xs.new_zeros(xs.size(1), each.fc.out_features)) for each in layers]
            for x in xs:
                for layer, state in zip(layers, states, strict=True):
                    x = layer(x, state, slope)
            rates = torch.stack(states[-1].spikes).mean(0)
            return rates, torch.stack([torch.stack(s.spikes).mean() for s in states])

        step = c(run)
        for n in (2, 4, 3):
            x = made(3, n, 3, seed=n, like=kind)
            rates, activity = step(x, slope=float(n))
            (rates.sum() + activity.sum()).backward()
            out.append((rates.detach(), activity.detach(), x.grad))
        out.append([p.grad for p in layers.parameters()])
    return out


@program
def pruning_by_masks(c):
    class Masked(nn.Linear):
        def __init__(self, *a, **k):
            super().__init__(*a, **k)
            self.register_buffer("mask", torch.ones_like(self.weight, dtype=torch.bool))

        def forward(self, x):
            return F.linear(x, self.weight * self.mask, self.bias)

        @torch.no_grad()
        def prune(self, share):
            k = int(share * self.weight.numel())
            if k:
                limit = self.weight.abs().flatten().kthvalue(k).values
                self.mask &= self.weight.abs() > limit
            return self.mask.sum()

    out: list[Any] = []
    for kind in (torch.float32, torch.float64):
        torch.manual_seed(0)
        net = nn.Sequential(Masked(4, 6), nn.ReLU(), Masked(6, 3)).to(kind)
        opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, nesterov=True)

        def step(x, y, share):
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            for m in net.modules():
                if isinstance(m, Masked):
                    m.weight.grad.mul_(m.mask)
            opt.step()
            kept = [m.prune(share) for m in net if isinstance(m, Masked)]
            return loss.detach(), torch.stack(kept)

        run = c(step)
        for n, share in ((4, 0.1), (5, 0.2), (6, 0.4), (3, 0.0)):
            out.append(run(T(n, 4, seed=n).to(kind), torch.arange(n) % 3, share))
        out.append(net.state_dict())
    return out


@program
def contrastive_queue(c):
    class Queue(nn.Module):
        def __init__(self, d, size):
            super().__init__()
            self.register_buffer("keys", F.normalize(T(size, d, seed=5), dim=1))
            self.register_buffer("at", torch.zeros((), dtype=torch.long))
            self.size = size

        @torch.no_grad()
        def push(self, keys):
            places = (self.at + torch.arange(len(keys))) % self.size
            self.keys[places] = keys
            self.at.add_(len(keys)).remainder_(self.size)

    out: list[Any] = []
    for kind in (torch.float32, torch.float64):
        torch.manual_seed(0)
        student = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5)).to(kind)
        teacher, queue = copy.deepcopy(student).requires_grad_(False), Queue(5, 9).to(kind)
        opt = torch.optim.Adam(student.parameters(), 0.01)

        def step(a, b, temperature=0.2):
            with torch.no_grad():
                for p, q in zip(teacher.parameters(), student.parameters(), strict=True):
                    p.mul_(0.9).add_(q, alpha=0.1)
                k = F.normalize(teacher(b), dim=1)
            q = F.normalize(student(a), dim=1)
            logits = torch.cat([(q * k).sum(1, True), q @ queue.keys.clone().T], 1) / temperature
            loss = F.cross_entropy(logits, torch.zeros(len(a), dtype=torch.long))
            opt.zero_grad()
            loss.backward()
            opt.step()
            queue.push(k)
            return loss.detach(), (logits.argmax(1) == 0).float().mean()

        run = c(step)
        for n in (4, 5, 3, 4):
            out.append(run(T(n, 4, seed=n).to(kind), T(n, 4, seed=n + 1).to(kind)))
        out.append((student.state_dict(), teacher.state_dict(), queue.state_dict()))
    return out


@program
def coupling_flow(c):
    class Step(nn.Module, abc.ABC):
        @abc.abstractmethod
        def forward(self, x): ...

        @abc.abstractmethod
        def inverse(self, y): ...

    class Coupling(Step):
        def __init__(self, d, flip):
            super().__init__()
            self.flip, self.net = (
                flip,
                nn.Sequential(nn.Linear(d // 2, 8), nn.Tanh(), nn.Linear(8, d)),
            )

        def _halves(self, x):
            a, b = x.chunk(2, -1)
            return (b, a) if self.flip else (a, b)

        def forward(self, x):
            a, b = self._halves(x)
            s, t = self.net(a).chunk(2, -1)
            b = b * s.tanh().exp() + t
            return torch.cat((b, a) if self.flip else (a, b), -1), s.tanh().sum(-1)

        def inverse(self, y):
            a, b = self._halves(y)
            s, t = self.net(a).chunk(2, -1)
            b = (b - t) * (-s.tanh()).exp()
            return torch.cat((b, a) if self.flip else (a, b), -1)

    class Mix(Step):
        def __init__(self, d):
            super().__init__()
            q = torch.linalg.qr(T(d, d, seed=2))[0]
            self.weight = nn.Parameter(q)

        def forward(self, x):
            return x @ self.weight, torch.linalg.slogdet(self.weight)[1].expand(len(x))

        def inverse(self, y):
            return torch.linalg.solve(self.weight.T, y.T).T

    out: list[Any] = []
    torch.manual_seed(0)
    for n, kind in KINDS:
        steps = nn.ModuleList([Coupling(4, False), Mix(4), Coupling(4, True)]).to(kind)

        def nll(x):
            total = x.new_zeros(len(x))
            for step in steps:
                x, log = step(x)
                total = total + log
            prior = torch.distributions.Normal(x.new_zeros(()), x.new_ones(()))
            return -(prior.log_prob(x).sum(-1) + total).mean(), x

        def back(z):
            return functools.reduce(lambda z, step: step.inverse(z), reversed(steps), z)

        x = made(n, 4, seed=n, like=kind)
        loss, z = c(nll)(x)
        loss.backward()
        again = c(back)(z.detach())
        out.append((loss.detach(), (again - x).detach().abs().max() < 1e-4, x.grad))
        out.append([p.grad for p in steps.parameters()])
    return out


@program
def curriculum_of_lengths(c):
    @dataclasses.dataclass(frozen=True)
    class Stage:
        length: int
        rate: float
        repeats: int = 1
        name: str = dataclasses.field(default="", compare=False)

    class Meter:
        def __init__(self):
            self.total, self.count = 0.0, 0

        def update(self, value, n=1):
            self.total += value * n
            self.count += n
            return self

        @property
        def mean(self):
            return self.total / max(self.count, 1)

    out: list[Any] = []
    for kind in (torch.float32, torch.float64):
        torch.manual_seed(0)
        cell, head, meters = nn.GRUCell(2, 5).to(kind), nn.Linear(5, 2).to(kind), {}
        opt = torch.optim.RMSprop([*cell.parameters(), *head.parameters()], 0.01)

        def step(x, stage):
            opt.param_groups[0]["lr"] = stage.rate
            h, losses = x.new_zeros(x.size(1), 5), []
            for t in range(stage.length - 1):
                h = cell(x[t], h)
                losses.append(F.smooth_l1_loss(head(h), x[t + 1], beta=0.5))
            loss = torch.stack(losses).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            meters.setdefault(stage.name, Meter()).update(loss.detach(), x.size(1))
            return loss.detach()

        run = c(step)
        plan = [Stage(2, 0.01, 2, "a"), Stage(3, 0.02, 1, "b"), Stage(5, 0.01, 2, "a")]
        for stage in plan:
            for n in range(stage.repeats):
                out.append(run(T(stage.length, n + 2, 2, seed=n).to(kind), stage))
        out.append({k: (m.mean, m.count) for k, m in meters.items()})
        out.append((cell.state_dict(), sorted({s.length for s in plan}, reverse=True)))
    return out
