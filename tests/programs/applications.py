"""Applications: trainers, simulations, decoders, planners, as their authors would write them."""

import collections
import contextlib
import copy
import dataclasses
import functools
import heapq
import itertools
import math
import operator
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrizations, parametrize

from tests.programs import T, program


@program
def ema_teacher_with_callbacks(c):
    """A student, an EMA teacher, callbacks by event name, a frozen dataclass of settings."""

    @dataclasses.dataclass(frozen=True)
    class Settings:
        decay: float = 0.9
        temperature: float = 2.0
        callbacks: tuple = ()

    class Trainer:
        def __init__(self, settings):
            torch.manual_seed(0)
            self.settings = settings
            self.student = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))
            self.teacher = copy.deepcopy(self.student).requires_grad_(False)
            self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=0.01)
            self.history = collections.defaultdict(list)
            self.step_number = 0

        def emit(self, event, **info):
            for callback in self.settings.callbacks:
                handler = getattr(callback, f"on_{event}", None)
                if handler is not None:
                    handler(self, **info)

        @torch.no_grad()
        def update_teacher(self):
            d = min(self.settings.decay, (1 + self.step_number) / (10 + self.step_number))
            for t, s in zip(self.teacher.parameters(), self.student.parameters()):
                t.lerp_(s, 1 - d)

        def step(self, x):
            self.emit("begin", x=x)
            with torch.no_grad():
                target = (self.teacher(x) / self.settings.temperature).softmax(-1)
            loss = F.kl_div(F.log_softmax(self.student(x), -1), target, reduction="batchmean")
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            self.step_number += 1
            self.update_teacher()
            self.emit("end", loss=loss.detach())
            return loss.detach()

    class Logger:
        def on_end(self, trainer, loss):
            trainer.history["loss"].append(loss)

    class Warmup:
        def on_begin(self, trainer, x):
            for group in trainer.optimizer.param_groups:
                group["lr"] = 0.01 * min(1.0, (trainer.step_number + 1) / 3)

    t = Trainer(Settings(callbacks=(Logger(), Warmup())))
    run = c(t.step)
    out = [run(T(5, 4, seed=i)) for i in range(5)]
    return out, dict(t.history), [p.detach() for p in t.teacher.parameters()], t.step_number


@program
def verlet_springs(c):
    """A physics simulation with a namedtuple state, an energy, and gradients to the stiffness."""
    State = collections.namedtuple("State", "x v")

    def force(x, k):
        d = x[:, None] - x[None]
        r = (d.square().sum(-1) + 1e-3).sqrt()
        return -(k * (1 - 1 / r)[..., None] * d).sum(1)

    def simulate(state, k, dt, steps):
        energies = []
        f = force(state.x, k)
        for _ in range(steps):
            v = state.v + 0.5 * dt * f
            x = state.x + dt * v
            f = force(x, k)
            state = state._replace(x=x, v=v + 0.5 * dt * f)
            energies.append(0.5 * state.v.square().sum())
        return state, torch.stack(energies)

    run = c(simulate)
    out = []
    for n in (4, 5, 6):
        k = torch.tensor(0.7, requires_grad=True)
        s, e = run(State(T(n, 2, seed=n), torch.zeros(n, 2)), k, 0.01, 4)
        e.sum().backward()
        out.append((type(s).__name__, s.x, s.v, e, k.grad))
    return out


@program
def beam_search_with_heap(c):
    """Beams in a heap of tuples with a counter as tie break; scores read as numbers."""
    table = T(7, 7, seed=3).log_softmax(-1)

    def search(table, start, width, length, end=0):
        counter = itertools.count()
        beams = [(0.0, next(counter), [start])]
        done = []
        for _ in range(length):
            heap = []
            for negative, _, tokens in beams:
                values, indices = table[tokens[-1]].topk(width)
                for value, index in zip(values.tolist(), indices.tolist()):
                    item = (-negative + value, next(counter), [*tokens, index])
                    (done if index == end else heap).append(item)
            beams = [
                (-s, n, t)
                for s, n, t in heapq.nlargest(width, heap, key=lambda item: (item[0], -item[1]))
            ]
            if not beams:
                break
        best = max(
            done or [(-s, n, t) for s, n, t in beams], key=lambda item: item[0] / len(item[2])
        )
        return best[2], round(best[0], 4)

    run = c(search)
    return [run(table, s, 3, 4) for s in (1, 2, 5)]


@program
def knn_with_chunks(c):
    """k nearest neighbours in chunks, vote by scatter, ties by distance."""

    def knn(x, y, labels, k=3, chunk=4):
        votes = []
        for part in x.split(chunk):
            distance = torch.cdist(part, y)
            near = distance.topk(k, largest=False)
            weights = 1 / (near.values + 1e-6)
            vote = torch.zeros(len(part), 3).scatter_add_(1, labels[near.indices], weights)
            votes.append(vote / vote.sum(1, keepdim=True))
        return torch.cat(votes)

    run = c(knn)
    return [run(T(n, 3, seed=n), T(12, 3, seed=9), torch.arange(12) % 3) for n in (6, 9, 10)]


class Registry(dict):
    def __missing__(self, key):
        raise KeyError(f"no layer called {key}; have {sorted(self)}")

    def register(self, name):
        def add(f):
            self[name] = f
            return f

        return add


LAYERS = Registry()


@LAYERS.register("scale")
class Scale(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d) * 1.5)

    def forward(self, x):
        return x * self.g


@LAYERS.register("mix")
class Mix(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.l = nn.Linear(d, d)

    def forward(self, x):
        return torch.tanh(self.l(x))


@program
def config_built_model(c):
    """A model from a nested dict, a registry with __missing__, attributes by __getattr__ of a proxy."""

    class Config:
        def __init__(self, d):
            object.__setattr__(self, "_d", d)

        def __getattr__(self, name):
            try:
                v = self._d[name]
            except KeyError:
                raise AttributeError(name) from None
            return Config(v) if isinstance(v, dict) else v

        def __contains__(self, k):
            return k in self._d

    class Net(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            torch.manual_seed(1)
            self.cfg = cfg
            self.blocks = nn.ModuleList(LAYERS[n](cfg.width) for n in cfg.layers)

        def forward(self, x):
            for i, b in enumerate(self.blocks):
                y = b(x)
                x = (
                    x + y * self.cfg.residual.scale
                    if getattr(self.cfg, "residual", None) and i in self.cfg.residual.at
                    else y
                )
            if "missing" in self.cfg:
                x = x + LAYERS["nothing"](3)
            return x * getattr(self.cfg, "gain", 2.0)

    out = []
    net = Net(
        Config(
            {"width": 4, "layers": ["scale", "mix", "scale"], "residual": {"scale": 0.5, "at": [1]}}
        )
    )
    run = c(net)
    x = T(2, 4, grad=True)
    y = run(x)
    y.sum().backward()
    out.append((y, x.grad, net.blocks[1].l.weight.grad))
    bad = Net(Config({"width": 4, "layers": ["mix"], "missing": 1}))
    try:
        c(bad)(x)
    except KeyError as e:
        out.append(e.args)
    return out


@program
def policy_gradient(c):
    """REINFORCE with an environment object that changes, sampled actions, an episode that ends."""

    class Env:
        def __init__(self):
            self.state, self.t = torch.zeros(3), 0

        def step(self, a):
            self.t += 1
            self.state = torch.roll(self.state, 1) * 0.9 + F.one_hot(a, 3).float()
            return self.state, self.state[0] - 0.1, self.t >= 4

    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))
    opt = torch.optim.SGD(policy.parameters(), 0.1)

    def episode(env, gumbel):
        logps, rewards, obs, done = [], [], env.state, False
        while not done:
            logits = policy(obs)
            a = (logits + gumbel[env.t]).argmax()
            logps.append(logits.log_softmax(-1)[a])
            obs, r, done = env.step(a)
            rewards.append(r)
        returns = []
        g = torch.zeros(())
        for r in reversed(rewards):
            g = r + 0.99 * g
            returns.insert(0, g)
        returns = torch.stack(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-5)
        loss = -(torch.stack(logps) * returns.detach()).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.item(), env.t

    run = c(episode)
    out = []
    for i in range(4):
        env = Env()
        out.append((run(env, T(6, 3, seed=i)), env.state, env.t))
    return out, [p.detach() for p in policy.parameters()]


@program
def byte_pairs(c):
    """A tokenizer by merges inside the function, then an embedding bag over ragged rows."""
    merges = {("l", "o"): 0, ("lo", "w"): 1, ("e", "r"): 2}
    vocab = collections.OrderedDict(
        (t, i) for i, t in enumerate(["l", "o", "w", "e", "r", "n", "lo", "low", "er", "<unk>"])
    )
    weight = T(10, 4, grad=True)

    def tokenize(word):
        parts = list(word)
        while len(parts) > 1:
            pairs = {(a, b): i for i, (a, b) in enumerate(zip(parts, parts[1:]))}
            best = min(pairs, key=lambda p: merges.get(p, math.inf))
            if best not in merges:
                break
            i = pairs[best]
            parts[i : i + 2] = ["".join(best)]
        return [vocab.get(p, vocab["<unk>"]) for p in parts]

    def embed(words, weight):
        ids, offsets = [], []
        for w in words:
            offsets.append(len(ids))
            ids += tokenize(w.lower())
        return F.embedding_bag(torch.tensor(ids), weight, torch.tensor(offsets), mode="mean")

    run = c(embed)
    out = [run(ws, weight) for ws in (["lower", "Newer"], ["low", "xow", "no"])]
    sum(o.square().sum() for o in out).backward()
    return out, weight.grad


@program
def sparse_graph_diffusion(c):
    """A sparse adjacency, power iteration with early stop by a tolerance."""

    def diffuse(index, n, x, tol):
        a = torch.sparse_coo_tensor(index, torch.ones(index.shape[1]), (n, n)).coalesce()
        deg = torch.sparse.sum(a, 1).to_dense().clamp(min=1)
        for i in range(20):
            y = torch.sparse.mm(a, x) / deg[:, None] * 0.85 + 0.15 * x
            if (y - x).abs().max() < tol:
                return y, i
            x = y
        return x, -1

    run = c(diffuse)
    idx = torch.tensor([[0, 1, 2, 3, 3, 0], [1, 2, 3, 0, 1, 3]])
    return [run(idx, 4, T(4, 2, seed=s), tol) for s, tol in ((0, 1e-1), (1, 1e-1), (2, 1e-2))]


@program
def spectral_filter(c):
    """Complex filters in the frequency domain, polar form, a window, overlap-add."""

    def block(x, w):
        s = torch.fft.rfft(x * torch.hann_window(x.shape[-1], periodic=True))
        mag, ang = s.abs(), s.angle()
        y = torch.polar(mag.clamp(min=1e-6) ** 0.9, ang) * torch.view_as_complex(w)
        z = torch.fft.irfft(y, n=x.shape[-1])
        return z, (y.real**2 + y.imag**2).sum(-1), torch.is_complex(y)

    run = c(block)
    out = []
    for n in (8, 12):
        w = T(n // 2 + 1, 2, seed=n, grad=True)
        z, e, flag = run(T(3, n, seed=n + 1), w)
        (z.square().sum() + e.mean()).backward()
        out.append((z, e, flag, w.grad))
    return out


class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels, mode="round"):
        ctx.save_for_backward(x)
        ctx.limit = levels / 2
        ctx.set_materialize_grads(False)
        q = getattr(torch, mode)(x * levels) / levels
        ctx.mark_non_differentiable(mask := (x.abs() > ctx.limit))
        return q, mask

    @staticmethod
    def backward(ctx, g, _):
        if g is None:
            return None, None, None
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= ctx.limit), None, None


@program
def straight_through(c):
    """A Function with a text argument, a mask without gradient, a ContextVar-like setting."""
    level = [4]

    @contextlib.contextmanager
    def levels(n):
        old, level[0] = level[0], n
        try:
            yield n
        finally:
            level[0] = old

    def f(x, modes):
        total, masks = 0, []
        for i, m in enumerate(modes):
            with levels(2 ** (i + 1)):
                q, mask = Quantize.apply(x, level[0], m)
            total = total + q * (i + 1)
            masks.append(mask)
        return total, torch.stack(masks).sum(), level[0]

    run = c(f)
    out = []
    for modes in (["round"], ["round", "floor", "ceil"]):
        x = (T(4, 5) * 3).requires_grad_()
        y, m, l = run(x, modes)
        y.sum().backward()
        out.append((y, m, l, x.grad))
    return out


@program
def parametrized_weights(c):
    """Orthogonal-ish parametrization, weight norm, spectral norm in eval, swapped and removed."""

    class Symmetric(nn.Module):
        def forward(self, w):
            return w.triu() + w.triu(1).transpose(-1, -2)

        def right_inverse(self, w):
            return w.triu()

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    parametrize.register_parametrization(net[0], "weight", Symmetric())
    parametrizations.weight_norm(net[2])
    run = c(net)
    out = []
    x = T(3, 4)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for i in range(4):
        if i == 2:
            parametrize.remove_parametrizations(net[0], "weight")
            opt = torch.optim.SGD(net.parameters(), 0.1)
        with parametrize.cached() if i == 1 else contextlib.nullcontext():
            y = run(x) + run(x + 1)
        opt.zero_grad()
        y.square().mean().backward()
        opt.step()
        out.append(y.detach())
    return out, [n for n, _ in net.named_parameters()], [p.detach() for p in net.parameters()]


@program
def augmentations(c):
    """Random choices by Python's random, shuffles, flips and crops of images."""

    def flip(x):
        return x.flip(-1)

    def noise(x, s=0.1):
        return x + s * torch.ones_like(x)

    def crop(x):
        i, j = random.randint(0, 2), random.randrange(3)
        return F.pad(x[None, ..., i : i + 4, j : j + 4], (1, 1, 1, 1), mode="reflect")[0]

    class Compose:
        def __init__(self, *fs, p=0.5):
            self.fs, self.p = fs, p

        def __call__(self, x):
            for f in random.sample(self.fs, k=len(self.fs)):
                if random.random() < self.p:
                    x = f(x)
            return x

        def __or__(self, other):
            return Compose(*self.fs, other, p=self.p)

    aug = Compose(flip, functools.partial(noise, s=0.25)) | crop
    random.seed(3)
    run = c(lambda batch: torch.stack([aug(x) for x in batch.unbind()]))
    return [run(T(3, 6, 6, seed=i)) for i in range(4)], random.random()


@program
def numpy_mix(c):
    """A pipeline half in NumPy: percentiles, masks, structured sums, back to tensors."""

    def f(x, q):
        a = x.numpy()
        lo, hi = np.percentile(a, [q, 100 - q])
        clipped = np.clip(a, lo, hi)
        z = (clipped - clipped.mean(axis=0, keepdims=True)) / (clipped.std(axis=0, ddof=1) + 1e-6)
        order = np.argsort(z[:, 0], kind="stable")
        t = torch.from_numpy(z[order].astype(np.float32))
        return t @ t.T, float(lo) < float(hi), int(np.count_nonzero(a > 0))

    run = c(f)
    return [run(T(n, 3, seed=n), 10) for n in (5, 6, 7)]


@program
def retry_on_failure(c):
    """Exceptions as control flow: jitter until a Cholesky factor exists, a custom error, finally, else."""

    class NotPositive(ArithmeticError):
        def __init__(self, tries, jitter):
            super().__init__(f"gave up after {tries}")
            self.tries, self.jitter = tries, jitter

    log = []

    def factor(a, limit=4):
        jitter = 0.0
        for n in range(limit):
            try:
                l = torch.linalg.cholesky(a + jitter * torch.eye(a.shape[0]))
            except torch.linalg.LinAlgError:
                jitter = max(jitter * 10, 1e-2)
            else:
                return l, n
            finally:
                log.append(n)
        raise NotPositive(limit, jitter)

    def outer(a):
        try:
            return factor(a)
        except NotPositive as e:
            return e.tries, e.jitter, str(e)

    run = c(outer)
    m = T(3, 3)
    spd = m @ m.T + torch.eye(3)
    bad = torch.diag(torch.tensor([1.0, 1.0, -0.05]))
    worse = torch.diag(torch.tensor([1.0, 1.0, -50.0]))
    return [run(a) for a in (spd, bad, worse, spd)], log


class Dual:
    """Dual numbers over tensors with reflected operators and comparison."""

    __slots__ = ("v", "d")

    def __init__(self, v, d=None):
        self.v, self.d = v, torch.zeros_like(v) if d is None else d

    @staticmethod
    def lift(o):
        return o if isinstance(o, Dual) else Dual(torch.as_tensor(float(o)))

    def __add__(self, o):
        o = Dual.lift(o)
        return Dual(self.v + o.v, self.d + o.d)

    __radd__ = __add__

    def __mul__(self, o):
        o = Dual.lift(o)
        return Dual(self.v * o.v, self.v * o.d + self.d * o.v)

    __rmul__ = __mul__

    def __neg__(self):
        return -1 * self

    def __sub__(self, o):
        return self + -Dual.lift(o)

    def __rsub__(self, o):
        return Dual.lift(o) - self

    def __pow__(self, n):
        return functools.reduce(operator.mul, [self] * n)

    def __lt__(self, o):
        return bool((self.v < Dual.lift(o).v).all())

    def __iadd__(self, o):
        o = Dual.lift(o)
        self.v = self.v + o.v
        self.d = self.d + o.d
        return self

    def __matmul__(self, o):
        return Dual(self.v @ o.v, self.v @ o.d + self.d @ o.v)

    def __repr__(self):
        return f"Dual({tuple(self.v.shape)})"


@program
def dual_numbers(c):
    def f(x):
        a = Dual(x, torch.ones_like(x))
        b = 3 - a**3 * 2 + a
        b += 1
        if b < 1e9:
            b = b @ Dual(x.T)
        return b.v, b.d, repr(b), sorted([b, a], key=lambda q: q.v.shape[0])[0] is b

    run = c(f)
    return [run(T(2, n, seed=n)) for n in (2, 3, 4)]


class HookedMixin:
    def __init_subclass__(cls, tag="none", **kw):
        super().__init_subclass__(**kw)
        cls.tag = tag

    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.seen = {}
        self.register_forward_hook(lambda m, i, o: self.seen.__setitem__(m.tag, o.detach().norm()))


class FreezeMixin:
    def freeze(self, flag=True):
        for p in self.parameters():
            p.requires_grad_(not flag)
        return self


class Tower(HookedMixin, FreezeMixin, nn.Module, tag="tower"):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.b(F.relu(self.a(x))) + x


@program
def mixins_and_freezing(c):
    """__init_subclass__ with keywords, a hook that keeps norms, layers frozen inside the function."""
    t = Tower()

    def step(x, frozen):
        t.freeze(False)
        if frozen:
            t.a.requires_grad_(False)
        y = t(x).square().sum()
        t.zero_grad()
        y.backward()
        return y.detach(), [p.requires_grad for p in t.parameters()]

    run = c(step)
    out = []
    for frozen in (False, True, True, False):
        out.append(
            (
                run(T(2, 3), frozen),
                [None if p.grad is None else p.grad.clone() for p in t.parameters()],
                dict(t.seen),
            )
        )
    return out


@program
def sliding_views_in_place(c):
    """Life on a torus and a heat equation, in place through views, strided windows."""

    def life(board, steps):
        for _ in range(steps):
            n = sum(
                board.roll((i, j), (0, 1))
                for i in (-1, 0, 1)
                for j in (-1, 0, 1)
                if (i, j) != (0, 0)
            )
            board.copy_(((n == 3) | ((n == 2) & (board == 1))).to(board.dtype))
        return board.sum()

    def heat(u, steps):
        inner = u[1:-1, 1:-1]
        for _ in range(steps):
            inner += 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * inner)
            u[0].fill_(1.0)
            u[:, -1] = u[:, -2]
        windows = u.unfold(0, 2, 1).unfold(1, 2, 1)
        return windows.amax((-1, -2)), u.diagonal()

    a, b = c(life), c(heat)
    out = []
    for n in (5, 6, 7):
        board = (T(n, n, seed=n) > 0).int()
        u = T(n, n, seed=n)
        out.append((a(board, 3), board, b(u, 2), u))
    return out


@program
def loader_in_the_step(c):
    """A DataLoader iterated inside, a collate function, a generator of curricula, a running meter."""

    class Set(torch.utils.data.Dataset):
        def __init__(self):
            self.x, self.y = T(12, 3), (T(12, seed=2) > 0).long()

        def __len__(self):
            return 12

        def __getitem__(self, i):
            return {"x": self.x[i], "y": self.y[i]}

    class Meter:
        def __init__(self):
            self.total, self.n = 0.0, 0

        def update(self, v, n):
            self.total += v * n
            self.n += n

        @property
        def mean(self):
            return self.total / max(1, self.n)

    torch.manual_seed(0)
    net = nn.Linear(3, 2)
    opt = torch.optim.RMSprop(net.parameters(), 0.01)

    def epoch(loader, meter):
        for i, batch in enumerate(loader):
            loss = F.cross_entropy(net(batch["x"]), batch["y"], label_smoothing=0.1)
            opt.zero_grad()
            loss.backward()
            opt.step()
            meter.update(loss.item(), len(batch["x"]))
            if i >= 2:
                break
        return meter.mean

    run = c(epoch)
    m = Meter()
    return (
        [run(torch.utils.data.DataLoader(Set(), batch_size=b), m) for b in (4, 3, 5)],
        net.weight.detach(),
        m.n,
    )


@program
def custom_schedule(c):
    """A LambdaLR of a closure, a cosine with restarts by hand, and gradients clipped by quantile."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.Linear(4, 1))
    opt = torch.optim.Adam(
        [{"params": net[0].parameters(), "lr": 0.02}, {"params": net[2].parameters()}], lr=0.01
    )
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, [lambda e: 0.5 * (1 + math.cos(math.pi * (e % 3) / 3)), lambda e: 0.9**e]
    )
    norms = collections.deque(maxlen=3)

    def step(x):
        loss = net(x).square().mean() + sum(p.abs().sum() for p in net.parameters()) * 1e-3
        opt.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(
            net.parameters(), float(np.quantile(norms, 0.5)) if norms else 10.0
        )
        norms.append(norm.item())
        opt.step()
        sched.step()
        return loss.detach(), sched.get_last_lr()

    run = c(step)
    return (
        [run(T(4, 3, seed=i)) for i in range(6)],
        list(norms),
        [p.detach() for p in net.parameters()],
    )


@program
def plateau_and_checkpoints(c):
    """ReduceLROnPlateau, the best state dict kept, early stop by an exception."""

    class Stop(Exception):
        pass

    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), 0.5, momentum=0.9)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1, factor=0.5)
    best = {"loss": math.inf, "state": None, "bad": 0}

    def step(x, y):
        loss = F.mse_loss(net(x)[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        value = loss.item()
        plateau.step(value)
        if value < best["loss"]:
            best.update(
                loss=value, state={k: v.clone() for k, v in net.state_dict().items()}, bad=0
            )
        else:
            best["bad"] += 1
            if best["bad"] > 3:
                raise Stop(value)
        return value

    run = c(step)
    out = []
    try:
        for i in range(30):
            out.append(run(T(6, 3, seed=0), T(6, seed=1)))
    except Stop as s:
        out.append(("stopped", round(s.args[0], 4)))
    return out, opt.param_groups[0]["lr"], best["state"], best["bad"]


class Labelled(torch.Tensor):
    """A tensor subclass with names of its columns that travel with selections."""

    @staticmethod
    def __new__(cls, data, names):
        return torch.Tensor._make_subclass(cls, data)

    def __init__(self, data, names):
        self.names_ = list(names)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        names = next(
            (a.names_ for a in args if isinstance(a, Labelled) and hasattr(a, "names_")), None
        )
        if isinstance(out, Labelled):
            out.names_ = names
        return out

    def column(self, name):
        return self[:, self.names_.index(name)].as_subclass(torch.Tensor)


@program
def labelled_columns(c):
    def f(t, w):
        s = (t * w).relu() + 1
        return s, s.column("b") - s.column("a"), s.names_, type(s).__name__

    run = c(f)
    out = []
    for n in (2, 3, 4):
        s, d, names, kind = run(Labelled(T(n, 3, seed=n), "abc"), T(3, seed=1))
        out.append((s.as_subclass(torch.Tensor), d, names, kind))
    try:
        run(Labelled(T(2, 3), "xyz"), T(3))
    except ValueError as e:
        out.append(str(e))
    return out


@program
def generators_of_batches(c):
    """Generators with send and return, yield from, chained windows, takewhile on numbers."""

    def windows(x, n):
        for i in range(0, x.shape[0] - n + 1, n):
            yield x[i : i + n]
        return x.shape[0] % n

    def running(xs):
        rest, mean, count = None, 0.0, 0

        def inner():
            nonlocal rest
            rest = yield from xs

        for w in inner():
            count += 1
            mean = mean + (w.mean(0) - mean) / count
        return mean, count, rest

    def averager():
        total, k = 0, 0
        while True:
            value = yield (total / k if k else None)
            if value is None:
                return
            total, k = total + value, k + 1

    def f(x):
        mean, count, rest = running(windows(x, 2))
        g = averager()
        next(g)
        sent = [g.send(w.sum()) for w in windows(x, 3)]
        small = [*itertools.takewhile(lambda i: i * i < x.shape[0], itertools.count())]
        with contextlib.suppress(StopIteration):
            g.send(None)
        return (
            mean,
            count,
            rest,
            torch.stack(sent),
            small,
            list(map(len, itertools.batched(range(5), 2)))
            if hasattr(itertools, "batched")
            else None,
        )

    run = c(f)
    return [run(T(n, 3, seed=n)) for n in (6, 7, 8)]


@program
def flow_with_inverse(c):
    """A normalizing flow of coupling layers with log-determinants, an ABC, cached properties, inverse check."""
    import abc

    class Flow(nn.Module, abc.ABC):
        @abc.abstractmethod
        def inverse(self, z): ...
        @functools.cached_property
        def depth(self):
            return sum(1 for _ in self.modules())

    class Coupling(Flow):
        def __init__(self, d, flip):
            super().__init__()
            self.net, self.flip = (
                nn.Sequential(nn.Linear(d // 2, 8), nn.Tanh(), nn.Linear(8, d)),
                flip,
            )

        def halves(self, x):
            a, b = x.chunk(2, -1)
            return (b, a) if self.flip else (a, b)

        def join(self, a, b):
            return torch.cat((b, a) if self.flip else (a, b), -1)

        def forward(self, x):
            a, b = self.halves(x)
            s, t = self.net(a).chunk(2, -1)
            s = torch.tanh(s)
            return self.join(a, b * s.exp() + t), s.sum(-1)

        def inverse(self, z):
            a, b = self.halves(z)
            s, t = self.net(a).chunk(2, -1)
            return self.join(a, (b - t) * (-torch.tanh(s)).exp())

    torch.manual_seed(0)
    flows = nn.ModuleList(Coupling(4, bool(i % 2)) for i in range(3))

    def nll(x):
        z, logdet = x, x.new_zeros(x.shape[:-1])
        for f in flows:
            z, l = f(z)
            logdet += l
        back = functools.reduce(lambda v, f: f.inverse(v), reversed(flows), z)
        return (
            -(torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1) + logdet).mean(),
            (back - x).abs().max() < 1e-4,
            flows[0].depth,
        )

    run = c(nll)
    out = []
    for n in (3, 5, 6):
        l, ok, depth = run(T(n, 4, seed=n))
        l.backward()
        out.append((l, ok, depth))
    return out, [p.grad for p in flows.parameters()]


@program
def masked_packing(c):
    """Sequences packed by lengths out of data, boolean writes, a dict of lists, index_put with accumulation."""

    def pack(x, mask):
        lengths = mask.sum(1)
        order = lengths.argsort(descending=True, stable=True)
        flat = x[order][mask[order]]
        table = torch.zeros(4).index_put_(
            (lengths.clamp(max=3),), torch.ones(len(lengths)), accumulate=True
        )
        groups = collections.defaultdict(list)
        for row, n in enumerate(lengths.tolist()):
            groups[n].append(row)
        x = x.clone()
        x[~mask] = -1.0
        return flat, table, {k: v for k, v in sorted(groups.items())}, x

    run = c(pack)
    return [run(T(n, 4, seed=n), T(n, 4, seed=n + 1) > -0.3) for n in (3, 5, 6)]


@program
def newton_with_transforms(c):
    """Newton steps by torch.func: hessian, vmap over starts, a partial loss, aux values."""
    from torch.func import grad, hessian, jvp, vmap

    def loss(w, x, y, l2=0.1):
        p = torch.sigmoid(x @ w)
        return F.binary_cross_entropy(p, y) + l2 * w.square().sum(), p

    def newton(w0, x, y, steps):
        f = functools.partial(loss, x=x, y=y, l2=0.2)

        def one(w):
            for _ in range(steps):
                g, _ = grad(f, has_aux=True)(w)
                w = w - torch.linalg.solve(hessian(lambda v: f(v)[0])(w), g)
            return w

        ws = vmap(one)(w0)
        _, t = jvp(lambda v: f(v)[0], (ws[0],), (torch.ones_like(ws[0]),))
        return ws, t

    run = c(newton)
    return [run(T(3, 2, seed=n), T(n, 2, seed=1), (T(n, seed=2) > 0).float(), 2) for n in (5, 6, 7)]


@program
def undo_stack(c):
    """A command pattern: operations pushed on a stack, undone by bound methods kept in a list, __enter__ and __exit__ that swallow."""

    class Canvas:
        def __init__(self, x):
            self.x, self.undo = x, []

        def apply(self, name, *args):
            old = self.x
            self.undo.append(functools.partial(setattr, self, "x", old))
            self.x = getattr(self.x, name)(*args)
            return self

        def __getitem__(self, key):
            return Canvas(self.x[key])

        def __len__(self):
            return len(self.undo)

        def __enter__(self):
            self.mark = len(self.undo)
            return self

        def __exit__(self, kind, error, trace):
            if kind is not None and issubclass(kind, (ValueError, IndexError)):
                while len(self.undo) > self.mark:
                    self.undo.pop()()
                return True

    def f(x, bad):
        canvas = Canvas(x).apply("mul", 2).apply("clamp", -1, 1)
        with canvas:
            canvas.apply("add", 5).apply("sin")
            if bad:
                raise ValueError("no")
        return canvas.x, len(canvas), canvas[0].x

    run = c(f)
    return [run(T(2, 3, seed=i), i % 2 == 1) for i in range(4)]
