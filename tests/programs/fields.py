"""Programs of many fields, each with a way of its own to use the language."""

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import io
import itertools
import logging
import math
import operator
import random
import types
from typing import Any, NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs import T, program


@program
def ddim_with_schedules(c):
    class Schedule:
        __slots__ = ("alphas", "_steps", "eta")

        def __init__(self, steps, eta=0.0):
            self._steps, self.eta = steps, eta
            self.alphas = torch.cumprod(1 - torch.linspace(1e-3, 0.2, steps), 0)

        @property
        def steps(self):
            return self._steps

        @steps.setter
        def steps(self, value):
            if value < 2:
                raise ValueError(f"{value=} is too few")
            self._steps = value

        def __iter__(self):
            ts = range(len(self.alphas) - 1, -1, -(len(self.alphas) // self._steps))
            yield from zip(ts, [*ts[1:], -1])

    class Denoiser(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(d + 4, 16), nn.GELU(), nn.Linear(16, d))
            self.d = d

        def forward(self, x, t, *, guidance=None):
            freq = torch.exp(-math.log(100.0) * torch.arange(2) / 2) * t
            emb = torch.cat([freq.sin(), freq.cos()]).expand(x.shape[0], -1)
            eps = self.inner(torch.cat([x, emb], -1))
            return eps if guidance is None else eps + guidance * (eps - eps.mean(0))

    torch.manual_seed(0)
    net, sched = Denoiser(3), Schedule(5, eta=0.3)

    @torch.no_grad()
    def sample(x, sched, noise, guidance=None):
        trace = {}
        for n, (t, prev) in enumerate(sched):
            a = sched.alphas[t]
            b = sched.alphas[prev] if prev >= 0 else torch.ones(())
            eps = net(x, float(t), guidance=guidance)
            x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-3, 3)
            sigma = sched.eta * ((1 - b) / (1 - a) * (1 - a / b)).clamp(min=0).sqrt()
            x = b.sqrt() * x0 + (1 - b - sigma**2).clamp(min=0).sqrt() * eps + sigma * noise[n]
            trace[f"t{t:03d}->{prev}"] = x.abs().mean()
        return x, trace

    run, out = c(sample), []
    sched.alphas = sched.alphas.repeat_interleave(4)
    for n, g in ((2, None), (3, 1.5), (5, None)):
        out.append(run(T(n, 3, seed=n), sched, T(12, n, 3, seed=1), g))
    try:
        c(lambda s: setattr(s, "steps", 1))(sched)
    except ValueError as e:
        out.append(str(e))
    sched.steps = 4
    return out, run(T(2, 3), sched, T(12, 2, 3), None)[1].keys()


@program
def q_learning_with_namedtuples(c):
    class Step(NamedTuple):
        s: torch.Tensor
        a: int
        r: float
        s2: torch.Tensor
        done: bool = False

    class Buffer(collections.deque):
        def draw(self, k):
            batch = random.sample(self, k)
            return Step(*map(self.join, zip(*batch)))

        @staticmethod
        def join(col):
            match col:
                case [torch.Tensor(), *_]:
                    return torch.stack(col)
                case [bool(), *_]:
                    return torch.tensor(col)
                case [int() | float(), *_] as numbers:
                    return torch.tensor(numbers)
                case _:
                    raise TypeError(col)

    torch.manual_seed(0)
    q, target = (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2))
    target.load_state_dict(q.state_dict())
    opt = torch.optim.RMSprop(q.parameters(), 1e-2)

    def td(batch: Step, gamma=0.9):
        value = q(batch.s).gather(1, batch.a[:, None]).squeeze(1)
        with torch.no_grad():
            best = q(batch.s2).argmax(1, keepdim=True)
            wanted = batch.r + gamma * ~batch.done * target(batch.s2).gather(1, best).squeeze(1)
        if (loss := F.smooth_l1_loss(value, wanted)).requires_grad:
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(q.parameters(), 0.5)
            opt.step()
        for mine, theirs in zip(target.parameters(), q.parameters()):
            mine.data.lerp_(theirs.data, 0.1)
        return loss.detach(), batch._replace(s=None, s2=None)

    run, buffer, losses = c(td), Buffer(maxlen=12), []
    for i in range(20):
        buffer.append(Step(T(4, seed=i), i % 3, i * 0.1, T(4, seed=i + 1), i % 7 == 6))
        if len(buffer) >= 6 and i % 4 == 0:
            losses.append(run(buffer.draw(4 + i // 8)))
    return losses, [p.detach() for p in target.parameters()], len(buffer)


@program
def vae_with_dataclasses(c):
    @dataclasses.dataclass
    class Base:
        dim: int
        hidden: int = 6
        names: list = dataclasses.field(default_factory=list)

        def __post_init__(self):
            self.names.append(type(self).__name__)

    @dataclasses.dataclass
    class Config(Base):
        latent: int = 2
        beta: dataclasses.InitVar[float] = 0.5
        weights: dict = dataclasses.field(init=False, repr=False)

        def __post_init__(self, beta):
            super().__post_init__()
            self.weights = {"kl": beta, "rec": 1.0}

    @dataclasses.dataclass(frozen=True, order=True)
    class Terms:
        rec: torch.Tensor
        kl: torch.Tensor

        def total(self, weights):
            fields = dataclasses.fields(self)
            return sum(getattr(self, f.name) * weights[f.name] for f in fields)

    class VAE(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            self.cfg = cfg
            self.enc = nn.Linear(cfg.dim, cfg.hidden)
            self.heads = nn.ModuleDict(
                {k: nn.Linear(cfg.hidden, cfg.latent) for k in ("mu", "logvar")}
            )
            self.dec = nn.Sequential(nn.Linear(cfg.latent, cfg.dim))

        def forward(self, x, noise):
            h = F.softplus(self.enc(x))
            mu, logvar = (head(h) for head in self.heads.values())
            z = torch.addcmul(mu, noise, (logvar / 2).exp())
            kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(-1).mean()
            return Terms(rec=F.mse_loss(self.dec(z), x), kl=kl)

    torch.manual_seed(0)
    cfg = Config(5, beta=0.1)
    vae = VAE(cfg)
    opt = torch.optim.NAdam(vae.parameters(), 2e-2)

    def step(x, noise, cfg):
        terms = vae(x, noise)
        loss = terms.total(cfg.weights)
        opt.zero_grad()
        loss.backward()
        opt.step()
        new = dataclasses.replace(cfg, hidden=cfg.hidden + 1, beta=cfg.weights["kl"] * 0.9)
        named = {f.name: getattr(terms, f.name) for f in dataclasses.fields(terms)}
        return named | {"loss": loss.detach()} | dataclasses.asdict(cfg), new

    run, out = c(step), []
    for i, n in enumerate((4, 6, 3, 6)):
        terms, cfg = run(T(n, 5, seed=i), T(n, 2, seed=i + 9), cfg)
        terms |= {k: v.detach() for k, v in terms.items() if isinstance(v, torch.Tensor)}
        out.append((terms, repr(cfg)))
    return out, [p.detach() for p in vae.parameters()]


@program
def transducer_lattice(c):
    NEG = -1e9

    def loss(logits, targets, lengths):
        b, t_max, u_max, _ = logits.shape
        lp = logits.log_softmax(-1)
        rows = collections.defaultdict(lambda: logits.new_full((b,), NEG))
        rows[0, 0] = logits.new_zeros(b)
        for t, u in itertools.product(range(t_max), range(u_max)):
            if (t, u) == (0, 0):
                continue
            stay = rows[t - 1, u] + lp[:, t - 1, u, 0] if t else rows[-1, u]
            emit = (
                rows[t, u - 1] + lp[:, t, u - 1].gather(1, targets[:, u - 1, None]).squeeze(1)
                if u
                else rows[t, -1]
            )
            rows[t, u] = torch.logaddexp(stay, emit)
        ends = torch.stack([rows[t, u_max - 1] + lp[:, t, u_max - 1, 0] for t in range(t_max)], 1)
        at = (lengths - 1).clamp(min=0, max=t_max - 1)
        return -ends.gather(1, at[:, None]).mean(), len(rows), sorted(rows)[-1]

    run, out = c(loss), []
    for b, t, u in ((2, 3, 2), (3, 3, 2), (2, 4, 3)):
        logits = T(b, t, u, 4, seed=t, grad=True)
        targets = torch.arange(b * (u - 1)).view(b, u - 1) % 3 + 1
        value, *rest = run(logits, targets, torch.arange(1, b + 1))
        value.backward()
        out.append((value.detach(), logits.grad, rest))
    return out


@program
def hypotheses_in_a_dict(c):
    @functools.total_ordering
    class Hyp:
        def __init__(self, tokens, score):
            self.tokens, self.score = tokens, score

        def __eq__(self, other):
            return self.score == other.score

        def __lt__(self, other):
            return (self.score, len(self.tokens)) < (other.score, len(other.tokens))

        def __repr__(self):
            return f"<{'-'.join(map(str, self.tokens))}:{self.score:.3f}>"

    def search(table, start, width, steps):
        beams = {(start,): Hyp((start,), 0.0)}
        for _ in range(steps):
            found = {}
            for key, hyp in beams.items():
                logp = table[key[-1]].log_softmax(-1)
                values, indices = logp.topk(min(width, logp.numel()))
                for v, i in zip(values.tolist(), indices.tolist(), strict=True):
                    new = (*key, i)
                    if new not in found or found[new].score < hyp.score + v:
                        found[new] = Hyp(new, hyp.score + v)
            beams = {h.tokens: h for h in sorted(found.values(), reverse=True)[:width]}
        return beams, max(beams.values()).tokens

    run = c(search)
    return [
        (str(list(beams.values())), best)
        for beams, best in (run(T(n, n, seed=n), 0, w, 3) for n, w in ((3, 2), (4, 2), (4, 3)))
    ]


@program
def message_passing_with_dicts(c):
    class Relation(nn.Module):
        def __init__(self, d, reduce):
            super().__init__()
            self.lin, self.reduce = nn.Linear(d, d, bias=False), reduce

        def forward(self, x, edges, n):
            src, dst = edges
            out = x.new_zeros(n, x.shape[1])
            return out.scatter_reduce(
                0, dst[:, None].expand(-1, x.shape[1]), self.lin(x[src]), self.reduce
            )

    class Net(nn.Module):
        def __init__(self, d, relations):
            super().__init__()
            self.convs = nn.ModuleDict({"__".join(k): Relation(d, r) for k, r in relations.items()})
            self.norm = nn.LayerNorm(d)

        def forward(self, graph):
            out = {}
            for (a, rel, b), edges in graph["edges"].items():
                got = self.convs[f"{a}__{rel}__{b}"](graph[a], edges, graph[b].shape[0])
                out.setdefault(b, []).append(got)
            done = {k: self.norm(graph[k] + torch.stack(v).sum(0)) for k, v in out.items()}
            return {**{k: v for k, v in graph.items() if k not in done}, **done}

    torch.manual_seed(0)
    kinds = {("user", "likes", "item"): "sum", ("item", "of", "user"): "amax",
             ("user", "knows", "user"): "mean"}  # fmt: skip
    net = Net(4, kinds)
    opt = torch.optim.Adagrad(net.parameters(), 0.1)

    def graph(users, items):
        sizes = {"user": users, "item": items}
        edges = {
            k: torch.stack([torch.arange(7) * 3 % sizes[k[0]], torch.arange(7) * 5 % sizes[k[2]]])
            for k in kinds
        }
        return {"user": T(users, 4), "item": T(items, 4, seed=1), "edges": edges, "id": (users,)}

    def step(g):
        out = functools.reduce(lambda g, _: net(g), range(2), g)
        loss = sum(out[k].square().mean() for k in ("user", "item")) + out["user"].abs().max()
        opt.zero_grad(set_to_none=False)
        loss.backward()
        opt.step()
        return loss.detach(), [*out], out["id"]

    run = c(step)
    return [run(graph(u, i)) for u, i in ((3, 4), (4, 5), (5, 3))], [
        p.detach() for p in net.parameters()
    ]


@program
def mixture_density(c):
    class Mixture(collections.namedtuple("Mixture", "logits mean scale")):
        __slots__ = ()

        @classmethod
        def of(cls, raw, k):
            logits, mean, scale = raw.split(k, -1)
            return cls(logits.log_softmax(-1), mean, F.softplus(scale) + 1e-3)

        def log_prob(self, y):
            z = (y[..., None] - self.mean) / self.scale
            return torch.logsumexp(
                self.logits - 0.5 * z * z - self.scale.log() - 0.5 * math.log(2 * math.pi), -1
            )

        def __matmul__(self, w):
            return (self.logits.exp() * self.mean) @ w

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 9))
    opt = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3, history_size=3)

    def fit(x, y):
        def closure():
            opt.zero_grad()
            loss = -Mixture.of(net(x), 3).log_prob(y).mean()
            loss.backward()
            return loss

        first = opt.step(closure)
        with torch.inference_mode():
            mix = Mixture.of(net(x), 3)
            return first.detach(), mix._asdict(), mix @ torch.ones(3), mix._fields

    run, out = c(fit), []
    for n in (6, 8):
        first, mix, mean, fields = run(T(n, 1), T(n, seed=3))
        out.append((first, {k: v.clone() for k, v in mix.items()}, mean.clone(), fields))
    return out, [p.detach() for p in net.parameters()]


@program
def kalman_with_slots(c):
    class Gaussian:
        __slots__ = ("mean", "cov", "log_evidence", "__weakref__")

        def __init__(self, mean, cov, log_evidence=0.0):
            self.mean, self.cov, self.log_evidence = mean, cov, log_evidence

        def __rmatmul__(self, a):
            return Gaussian(a @ self.mean, a @ self.cov @ a.mT, self.log_evidence)

        def __add__(self, noise):
            return Gaussian(self.mean, self.cov + noise, self.log_evidence)

        def __iter__(self):
            return (getattr(self, s) for s in self.__slots__[:3])

        def observe(self, h, r, y):
            s = h @ self.cov @ h.mT + r
            chol, _ = torch.linalg.cholesky_ex(s)
            k = torch.cholesky_solve(h @ self.cov, chol).mT
            e = y - h @ self.mean
            z = torch.linalg.solve_triangular(chol, e[:, None], upper=False)
            ll = -0.5 * z.square().sum() - chol.diagonal().log().sum()
            eye = torch.eye(len(self.mean))
            return Gaussian(self.mean + k @ e, (eye - k @ h) @ self.cov, self.log_evidence + ll)

    def smooth(ys, q):
        a = torch.tensor([[1.0, 0.1], [0.0, 1.0]])
        h, r = torch.tensor([[1.0, 0.0]]), torch.eye(1) * 0.1
        state, means = Gaussian(torch.zeros(2), torch.eye(2)), []
        for y in ys:
            state = (a @ state) + torch.eye(2) * q.exp()
            state = state.observe(h, r, y)
            means.append(state.mean)
        _, cov, evidence = state
        return torch.stack(means), cov, evidence

    run, out, q = c(smooth), [], torch.tensor(-2.0, requires_grad=True)
    for n in (3, 4, 3):
        means, cov, evidence = run(T(n, 1, seed=n), q)
        evidence.backward()
        out.append((means.detach(), cov.detach(), evidence.detach(), q.grad.clone()))
    return out


@program
def hamiltonian_chain(c):
    class Accept(Exception):
        def __init__(self, state):
            super().__init__("accepted")
            self.state = state

    def potential(x):
        return 0.5 * (x**2).sum() + 0.1 * (x**4).sum()

    def leapfrog(x, p, eps, n):
        def force(x):
            x = x.detach().requires_grad_()
            return -torch.autograd.grad(potential(x), x)[0]

        p = p + 0.5 * eps * force(x)
        for i in range(n):
            x = x + eps * p
            if i < n - 1:
                p = p + eps * force(x)
        return x, -(p + 0.5 * eps * force(x))

    def step(x, p, u, stats, *, eps=0.2, n=3):
        try:
            x2, p2 = leapfrog(x, p, eps, n)
            energy = potential(x) + 0.5 * p @ p - potential(x2) - 0.5 * p2 @ p2
            kept = (u.log() < energy).to(x.dtype)
            x = kept * x2 + (1 - kept) * x
            if stats["tried"] % 2:
                raise Accept(x)
        except Accept as e:
            stats["odd"] += 1
            return e.state, str(e)
        else:
            return x, "plain"
        finally:
            stats["tried"] += 1
            stats.update(sizes=[x.shape[0]])

    run, stats = c(step), collections.Counter()
    stats.clear()
    record, out, x = {"tried": 0, "odd": 0}, [], T(3)
    for i in range(4):
        x, said = run(x, T(3, seed=i), torch.tensor(0.5 + i / 10), record, n=2 + i % 2)
        out.append((x, said, dict(record)))
    return out


@program
def adaptive_heun(c):
    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(T(3, 3) * 0.3)
            self.register_buffer("calls", torch.zeros((), dtype=torch.long))

        def __call__(self, t, y):
            self.calls += 1
            return torch.tanh(y @ self.w) * math.cos(t)

    def integrate(f, y, t0, t1, *, rtol=1e-2, limit=40):
        h, t, taken = (t1 - t0) / 4, t0, []
        while t < t1 and len(taken) < limit:
            h = min(h, t1 - t)
            k1 = f(t, y)
            k2 = f(t + h, y + h * k1)
            error = float((h * (k2 - k1) / 2).abs().max())
            if error <= rtol:
                y, t = y + h * (k1 + k2) / 2, t + h
                taken.append(round(h, 4))
            h *= min(2.0, max(0.3, 0.9 * math.sqrt(rtol / max(error, 1e-12))))
        return y, taken

    torch.manual_seed(0)
    f = Field()
    run, out = c(integrate), []
    for n in (2, 3):
        y, taken = run(f, T(n, 3, seed=n), 0.0, 1.0)
        f.zero_grad()
        y.square().sum().backward()
        out.append((y.detach(), taken, f.w.grad.clone(), f.calls.clone()))
    return out


@program
def double_backward_penalties(c):
    class Critic(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.utils.parametrizations.weight_norm(nn.Linear(3, 6)), nn.Linear(6, 1)

        def forward(self, x):
            return self.b(F.silu(self.a(x))).squeeze(-1)

    torch.manual_seed(0)
    critic = Critic()
    opt = torch.optim.Adamax(critic.parameters(), 1e-2)

    def step(real, fake, lam=2.0):
        t = torch.linspace(0, 1, real.shape[0])[:, None]
        mid = torch.lerp(real, fake, t).requires_grad_(True)
        out = critic(mid)
        grads = torch.autograd.grad(out, mid, torch.ones_like(out), create_graph=True)[0]
        hvp = torch.autograd.grad((grads * grads.detach()).sum(), mid, create_graph=True)[0]
        penalty = lam * (grads.norm(2, dim=1) - 1).pow(2).mean() + 1e-2 * hvp.square().mean()
        loss = critic(fake).mean() - critic(real).mean() + penalty
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach(), penalty.detach(), mid.grad is None

    run = c(step)
    return [run(T(n, 3, seed=n), T(n, 3, seed=n + 1)) for n in (4, 5, 6)], [
        p.detach() for p in critic.parameters()
    ]


@program
def lora_by_setattr(c):
    class LoRA(nn.Module):
        def __init__(self, base, rank):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Parameter(T(rank, base.in_features) * 0.1)
            self.up = nn.Parameter(torch.zeros(base.out_features, rank))
            self.merged = False

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("base"), name)

        def forward(self, x):
            y = self.base(x)
            return y if self.merged else y + (x @ self.down.T) @ self.up.T

        @contextlib.contextmanager
        def merge(self):
            delta = self.up @ self.down
            with torch.no_grad():
                self.base.weight += delta
            self.merged = True
            try:
                yield self
            finally:
                with torch.no_grad():
                    self.base.weight -= delta
                self.merged = False

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Sequential(nn.Linear(6, 6), nn.Tanh()))
    for name, module in list(net.named_modules()):
        if isinstance(module, nn.Linear):
            parent = net.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], LoRA(module, 2))
    opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], 0.05)

    def step(x, y):
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach(), net[0].out_features, net[2][0].weight.shape[0]

    def merged(x):
        with contextlib.ExitStack() as stack:
            for m in net.modules():
                if isinstance(m, LoRA):
                    stack.enter_context(m.merge())
            return net(x).detach(), [m.merged for m in net.modules() if isinstance(m, LoRA)]

    run, go = c(step), c(merged)
    out = [run(T(n, 4, seed=n), T(n, 6)) for n in (3, 4, 5)]
    return out, go(T(3, 4)), go(T(4, 4)), [p.detach() for p in net.parameters()]


@program
def averaged_weights_by_hooks(c):
    class EMA:
        def __init__(self, model, decay):
            self.decay, self.shadow = decay, {}
            self.model, self.updates = model, 0
            self.handle = model.register_forward_hook(self.hook)

        def hook(self, module, args, output):
            if not module.training:
                return None
            self.updates += 1
            decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
            for name, p in module.named_parameters():
                if (old := self.shadow.get(name)) is None:
                    self.shadow[name] = p.detach().clone()
                else:
                    old.mul_(decay).add_(p.detach(), alpha=1 - decay)
            return output * 1.0

        def __enter__(self):
            self.kept = {n: p.data for n, p in self.model.named_parameters()}
            for n, p in self.model.named_parameters():
                p.data = self.shadow[n]
            return self.model.eval()

        def __exit__(self, *exc):
            for n, p in self.model.named_parameters():
                p.data = self.kept.pop(n)
            self.model.train()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.0), nn.Linear(4, 1))
    ema = EMA(model, 0.9)
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True)

    def step(x, y):
        loss = F.huber_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    def evaluate(x):
        with ema as averaged, torch.no_grad():
            return averaged(x)

    run, ev, out = c(step), c(evaluate), []
    for n in (4, 5, 6, 4):
        out.append((run(T(n, 3, seed=n), T(n, 1)), ev(T(n, 3, seed=1))))
    ema.handle.remove()
    return out, run(T(4, 3), T(4, 1)), ema.updates, ema.shadow, model.training


@program
def functions_with_state_in_ctx(c):
    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, bounds, *, log=None):
            raise NotImplementedError

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, spec, factor):
            ctx.spec = {**spec, "seen": x.shape}
            ctx.factor = factor
            ctx.mark_non_differentiable(mask := x > spec["high"])
            ctx.save_for_backward(x, mask)
            return x.clamp(spec["low"], spec["high"]) * factor, mask

        @staticmethod
        def backward(ctx, g, _):
            x, mask = ctx.saved_tensors
            inside = ~mask & (x >= ctx.spec["low"])
            assert ctx.spec["seen"] == x.shape
            grad = torch.where(inside, g * ctx.factor, g * ctx.spec.get("leak", 0.0))
            return grad if ctx.needs_input_grad[0] else None, None, None

    def f(x, spec, factor):
        y, mask = Scale.apply(x.sin() * 2, spec, factor)
        z, _ = Scale.apply(y, spec | {"leak": 0.5}, 1)
        return (y * z).sum() + z.mean(), mask.sum(), mask.requires_grad

    run, out = c(f), []
    for n, k in ((4, 2.0), (5, 2.0), (6, 3.0)):
        x = T(n, 2, seed=n, grad=True)
        value, *rest = run(x, {"low": -1.0, "high": 1.0}, k)
        value.backward()
        out.append((value.detach(), rest, x.grad))
    try:
        c(lambda x: Clip.apply(x, (0, 1)))(T(2))
    except NotImplementedError as e:
        out.append(type(e).__name__)
    return out


@program
def stacks_of_exits(c):
    class Meter(contextlib.AbstractContextManager):
        def __init__(self, log, name):
            self.log, self.name = log, name

        def __enter__(self):
            self.log.append(f"+{self.name}")
            return self

        def __exit__(self, kind, value, trace):
            self.log.append(f"-{self.name}:{kind and kind.__name__}")
            return isinstance(value, ZeroDivisionError)

    def work(x, log, fail):
        kept = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            meters = [stack.enter_context(Meter(log, i)) for i in range(x.shape[0] % 3 + 1)]
            stack.callback(log.append, "called")
            stack.push(lambda *exc: log.append(exc[0] is not None))
            y = x * len(meters)
            log.append(len(meters))
            if fail == "zero":
                y = y + 1 // (len(meters) - len(meters))
            elif fail == "value":
                raise ValueError(f"size {x.shape[0]}")
            with contextlib.suppress(IndexError):
                y = y + x[x.shape[0] :].sum() + x[[*range(99)][100]]
            kept = stack.pop_all()
        kept.close()
        return y + 1, len(log)

    run, out = c(work), []
    for n in (2, 3, 4):
        for fail in (None, "zero", "value"):
            log = []
            try:
                out.append(run(T(n, 2, seed=n), log, fail))
            except ValueError as e:
                out.append(repr(e))
            out.append(log)
    return out


@program
def flags_and_dispatch(c):
    class Op(enum.Flag):
        NONE = 0
        NEG = enum.auto()
        SQR = enum.auto()
        CUM = enum.auto()
        BOTH = NEG | SQR

    class Mode(str, enum.Enum):  # noqa: UP042
        FAST = "fast"
        SAFE = "safe"

        @classmethod
        def _missing_(cls, value):
            return cls.SAFE

        @property
        def eps(self):
            return {"fast": 0.0, "safe": 1e-3}[self.value]

    @functools.singledispatch
    def apply(arg, x):
        raise TypeError(type(arg).__name__)

    @apply.register
    def _(arg: Op, x):
        for flag in arg:
            match flag:
                case Op.NEG:
                    x = -x
                case Op.SQR:
                    x = x * x
                case Op.CUM:
                    x = x.cumsum(0)
        return x

    @apply.register(list)
    @apply.register(tuple)
    def _(arg, x):
        return functools.reduce(lambda x, a: apply(a, x), arg, x)

    @apply.register
    def _(arg: int | float, x):
        return x * arg

    def f(x, spec, mode):
        mode = Mode(mode)
        y = apply(spec, x) / (x.abs() + mode.eps + 1)
        return y, f"{mode.name}:{mode}", Op.BOTH in Op.BOTH, bool(Op.NONE)

    run, out = c(f), []
    for n, spec, mode in (
        (3, Op.BOTH, "fast"),
        (4, [Op.CUM, 2, (Op.NEG | Op.CUM, 0.5)], "odd"),
        (4, Op.NONE, "safe"),
        (5, (), Mode.FAST),
    ):
        out.append(run(T(n, 2, seed=n), spec, mode))
    try:
        run(T(2, 2), {"no"}, "fast")
    except TypeError as e:
        out.append(str(e))
    return out


@program
def plugins_with_metaclasses(c):
    class Registry(type):
        known: dict = {}  # noqa: RUF012

        def __new__(mcs, name, bases, body, **options):
            cls = super().__new__(mcs, name, bases, body)
            if options.get("register", True):
                mcs.known[options.get("key", name.lower())] = cls
            return cls

        def __call__(cls, *args, **kwargs):
            made = super().__call__(*args, **kwargs)
            made.key = next(k for k, v in Registry.known.items() if v is cls)
            return made

        def __getitem__(cls, key):
            return Registry.known[key]

        def __contains__(cls, key):
            return key in Registry.known

    class Positive:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, obj, owner=None):
            return self if obj is None else getattr(obj, self.name, 1.0)

        def __set__(self, obj, value):
            if not value > 0:
                raise ValueError(f"{self.name[1:]} must be positive: {value}")
            setattr(obj, self.name, value)

    class Layer(metaclass=Registry, register=False):
        scale = Positive()

        def __init__(self, **kw):
            for k, v in kw.items():
                setattr(self, k, v)

        def __init_subclass__(cls, **kw):
            super().__init_subclass__()
            cls.depth = getattr(cls, "depth", 0) + 1

        @abc.abstractmethod
        def run(self, x): ...

        def __call__(self, x):
            return self.run(x) * self.scale

        def __or__(self, other):
            return Chain(parts=[self, other])

    class Sine(Layer):
        def run(self, x):
            return x.sin()

    class Bump(Sine, key="bump"):
        def run(self, x):
            return torch.exp(-(super().run(x) ** 2))

    class Chain(Layer):
        def run(self, x):
            return functools.reduce(lambda x, p: p(x), self.parts, x)

    def f(x, keys, scale):
        parts = [Layer[k](scale=scale + i) for i, k in enumerate(keys) if k in Layer]
        net = functools.reduce(operator.or_, parts)
        parts[0].scale = x.shape[-1]
        return net(x), [p.key for p in parts], net.depth, type(net).__name__, Layer.scale.name

    run, out = c(f), []
    for n, keys in (
        (2, ["sine", "bump"]),
        (3, ["bump", "none", "sine", "bump"]),
        (4, ["sine"] * 2),
    ):
        out.append(run(T(n, 3, seed=n), keys, 0.5))
    try:
        run(T(2, 3), ["sine", "bump"], -0.5)
    except ValueError as e:
        out.append(str(e))
    return out


@program
def coroutine_pipelines(c):
    def averager(decay):
        total, seen = None, 0
        try:
            while True:
                x = yield total
                if x is None:
                    continue
                seen += 1
                total = x if total is None else decay * total + (1 - decay) * x
        except GeneratorExit:
            seen = -seen
        finally:
            seen *= 2

    def windows(xs, k):
        window = collections.deque(maxlen=k)
        for x in xs:
            window.append(x)
            if len(window) == k:
                back = yield torch.stack(tuple(window)).mean(0)
                if back:
                    window.clear()
        return len(window)

    def pipeline(xs, k):
        left = yield from windows(xs, k)
        yield torch.full((2,), float(left))

    def f(xs, k, decay):
        out, avg = [], averager(decay)
        next(avg)
        gen = pipeline(iter(xs), k)
        value = next(gen)
        with contextlib.suppress(StopIteration):
            while True:
                out.append(avg.send(value))
                value = gen.send(len(out) == 2)
        avg.close()
        squares = (o * o for o in out if o.shape[0])
        return torch.stack(out), sum(squares), len(out)

    run = c(f)
    return [run([T(2, seed=i) for i in range(n)], k, 0.5) for n, k in ((5, 2), (6, 2), (6, 3))]


@program
def scopes_and_closures(c):
    def make(n):
        total, calls = torch.zeros(n), 0
        history = []

        def add(x, *, weight=1.0):
            nonlocal total, calls
            calls += 1
            total = total + x * weight
            history.append((lambda k: lambda: k * calls)(len(history)))
            return total

        def peek():
            return total, calls, [h() for h in history]

        return types.SimpleNamespace(
            add=add, peek=peek, names=[j for i in range(3) if (j := i) >= 0]
        )

    x = 5

    def f(acc, xs):
        nonlocal x
        x += 1
        rows = [[a * b for a in xs if a.dim()] for i, b in enumerate(xs) if i % 2 == (x, 0)[1]]
        table = {f"k{i}": v for i, v in enumerate(itertools.chain.from_iterable(rows))}
        del rows
        for k in sorted(table, reverse=True):
            last = acc.add(table[k], weight=len(k) / (i := x))
        return last, i, {len(v): k for k, v in table.items()}

    run, out = c(f), []
    for n in (2, 3, 4):
        acc = make(n)
        for _ in range(2):
            out.append((run(acc, [T(n, seed=i) for i in range(3)]), acc.peek(), x))
    return out


@program
def counters_and_orders(c):
    def f(xs, names):
        groups = collections.OrderedDict()
        counts, first = collections.Counter(names), {}
        for name, x in zip(names, xs):
            groups.setdefault(name, []).append(x)
            first.setdefault(name, len(first))
        groups.move_to_end(names[0])
        merged = collections.ChainMap({"a": xs[0] * 0}, {k: sum(v) for k, v in groups.items()})
        top = counts.most_common(1)[0]
        counts.subtract({"a": 1, "z": 2})
        picked = operator.itemgetter(*sorted(groups)[:2])(merged)
        runs = [(k, len(list(g))) for k, g in itertools.groupby(names)]
        pairs = [a @ b for a, b in itertools.combinations(xs, 2)]
        acc = list(itertools.accumulate(xs, operator.add, initial=xs[0] * 0))
        text = "|".join(f"{k:>3}={v:+d}" for k, v in sorted((+counts).items()))
        return {
            "picked": picked, "last": next(reversed(groups)), "top": top, "runs": runs,
            "pairs": torch.stack(pairs).sum(), "acc": acc[-1], "text": text,
            "methods": operator.methodcaller("clamp", min=0)(acc[-1]), "maps": len(merged.maps),
        }  # fmt: skip

    run = c(f)
    return [run([T(n, seed=i) for i in range(len(s))], s) for n, s in
            ((2, "abca"), (3, "abca"), (4, ["b", "a", "a", "c"]), (2, "zzab"))]  # fmt: skip


@program
def logged_training(c):
    stream = io.StringIO()
    log = logging.getLogger("tests.programs.fields")
    log.handlers[:], log.propagate = [logging.StreamHandler(stream)], False
    log.setLevel(logging.INFO)

    class Trainer:
        def __init__(self):
            torch.manual_seed(0)
            self.model = nn.GRU(3, 4, batch_first=True)
            self.head = nn.Linear(4, 2)
            params = itertools.chain(self.model.parameters(), self.head.parameters())
            self.opt = torch.optim.Adam(params, 1e-2, amsgrad=True)
            self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, 0.05, total_steps=6)
            self.metrics = collections.defaultdict(list)

        def step(self, x, y):
            h, _ = self.model(x)
            loss = F.cross_entropy(self.head(h[:, -1]), y, label_smoothing=0.1)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.sched.step()
            log.debug("never shown %s", x)
            log.info("batch of %d x %d, rate %.4f", *x.shape[:2], self.sched.get_last_lr()[0])
            self.metrics["loss"].append(loss.detach())
            return loss.detach()

    trainer = Trainer()
    run = c(trainer.step)
    out = [run(T(n, t, 3, seed=n), torch.arange(n) % 2) for n, t in ((3, 4), (4, 4), (5, 3))]
    return out, stream.getvalue(), trainer.metrics, [p.detach() for p in trainer.head.parameters()]


@program
def delegating_proxies(c):
    class Lazy:
        def __init__(self, make):
            object.__setattr__(self, "_make", make)
            object.__setattr__(self, "_log", [])

        def __getattr__(self, name):
            self._log.append(name)
            if name not in self.__dict__:
                if name.startswith("no_"):
                    raise AttributeError(f"proxy has no {name}")
                self.__dict__[name] = self._make(name)
            return self.__dict__[name]

        def __setattr__(self, name, value):
            self._log.append(f"{name}=")
            self.__dict__[name] = value

        def __delattr__(self, name):
            del self.__dict__[name]

        def __len__(self):
            return len(self.__dict__)

        def __bool__(self):
            return True

    def f(x, proxy):
        y = x @ proxy.weight + proxy.bias
        proxy.bias = proxy.bias * 2
        z = getattr(proxy, "no_way", y * 3)
        if hasattr(proxy, "no_more"):
            z = z + 1
        del proxy.weight
        return y + z + proxy.weight.sum(), len(proxy), sorted(vars(proxy))

    run, out = c(f), []
    shapes = {"weight": (3, 3), "bias": (3,)}
    for n in (2, 3):
        proxy = Lazy(lambda name: T(*shapes[name], seed=len(name)))
        for _ in range(2):
            out.append((run(T(n, 3, seed=n), proxy), list(proxy._log), proxy.bias))
    return out


@program
def retries_and_cleanup(c):
    class Unstable(RuntimeError):
        pass

    def attempt(x, n, log):  # noqa: RET503
        for i in itertools.count(1):
            try:
                y = torch.linalg.cholesky(x @ x.mT + torch.eye(x.shape[0]) * (i - n))
            except torch.linalg.LinAlgError as e:
                log.append(type(e).__name__)
                if i > 3:
                    raise Unstable(f"after {i}") from e
                continue
            else:
                log.append(f"ok {i}")
                return y.diagonal().log().sum(), i
            finally:
                log.append(i)

    def outer(x, n, log):
        try:
            return attempt(x, n, log)
        except Unstable as e:
            return x.sum(), str(e), type(e.__cause__).__name__, e.__suppress_context__

    run, out = c(outer), []
    for size, n in ((2, 0), (3, 2), (3, 9), (4, 3)):
        log = []
        out.append((run(T(size, size, seed=size), n, log), log))
    return out


@program
def packed_sequences_by_hand(c):
    @dataclasses.dataclass(slots=True)
    class Packed:
        data: torch.Tensor
        lengths: tuple[int, ...]

        def __class_getitem__(cls, item):
            return cls

        @classmethod
        def of(cls, rows):
            return cls(torch.cat(rows), tuple(map(len, rows)))

        def __iter__(self):
            yield from self.data.split(self.lengths)

        def __getitem__(self, i):
            match i:
                case int():
                    return self.data.split(self.lengths)[i]
                case slice(start=a, stop=b):
                    return Packed.of(list(self)[a:b])
                case [*many]:
                    return Packed.of([self[j] for j in many])

        def map(self, f):
            return dataclasses.replace(self, data=f(self.data))

        def pad(self, value=0.0):
            rows = [F.pad(r, (0, 0, 0, max(self.lengths) - len(r)), value=value) for r in self]
            return torch.stack(rows)

    torch.manual_seed(0)
    lin = nn.Linear(2, 2)

    def f(rows):
        packed = Packed.of(rows).map(lin).map(torch.tanh)
        best = max(packed.lengths)
        mask = torch.arange(best) < torch.tensor(packed.lengths)[:, None]
        picked = packed[[len(rows) - 1, 0]]
        return packed.pad(-1.0).masked_fill(~mask[..., None], 0).sum(1), picked, packed[1:].lengths

    run, out = c(f), []
    for sizes in ((2, 3, 1), (3, 4, 2), (1, 1, 5, 2)):
        lin.zero_grad()
        value, picked, lengths = run([T(n, 2, seed=n) for n in sizes])
        value.sum().backward()
        out.append((value.detach(), picked.data.detach(), picked.lengths, lengths, lin.weight.grad))
    return out


@program
def sizes_in_texts_and_choices(c):
    def f(x: torch.Tensor, **options: Any):
        n, d = x.shape
        names = [f"{i}/{n}" for i in range(2)] + [
            "%dx%d" % (n, d),  # noqa: UP031
            f"{n:04d}",
            repr(x.shape),
        ]
        half, odd = divmod(n, 2)
        blocks = math.ceil(n / 4)
        pad = (blocks << 2) - n
        y = F.pad(x, (0, 0, 0, pad)).view(blocks, 4, d)
        kind = "even" if not n & 1 else "odd"
        if n in range(6, 9):
            y = y.flip(0)
        order = sorted(options, key=lambda k: (len(k), k))
        scale = math.prod(options[k] for k in order) if order else 1
        mid = x[half : half + 1 + odd].mean(0)
        return y * scale, mid, kind, names, order, n.bit_length(), round(n / d), max(n, d, 5)

    run = c(f)
    calls = (
        (4, {}),
        (5, {"b": 2, "aa": 3}),
        (7, {"b": 2, "aa": 3}),
        (8, {}),
        (9, {}),
        (12, {"z": 0.5}),
    )
    return [run(T(n, 3, seed=n), **options) for n, options in calls]
