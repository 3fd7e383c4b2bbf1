"""Programs that meet corners: penalties, hooks, aliases, odd states, metaclasses, random numbers."""

import bisect
import collections
import contextlib
import copy
import dataclasses
import functools
import json
import math
import re
import struct

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs import T, program


@program
def gan_with_penalty(c):
    torch.manual_seed(0)
    g, d = (
        nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)),
        nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 1)),
    )
    og, od = torch.optim.Adam(g.parameters(), 1e-2), torch.optim.Adam(d.parameters(), 1e-2)

    @contextlib.contextmanager
    def frozen(m):
        flags = [p.requires_grad for p in m.parameters()]
        m.requires_grad_(False)
        try:
            yield m
        finally:
            for p, f in zip(m.parameters(), flags):
                p.requires_grad_(f)

    def step(real, z, n):
        fake = g(z)
        mix = (0.3 * real + 0.7 * fake.detach()).requires_grad_()
        (slope,) = torch.autograd.grad(d(mix).sum(), mix, create_graph=True)
        dl = (
            F.softplus(-d(real)).mean()
            + F.softplus(d(fake.detach())).mean()
            + 0.1 * (slope.norm(dim=1) - 1).square().mean()
        )
        od.zero_grad()
        dl.backward()
        od.step()
        if n % 2 == 0:
            with frozen(d):
                gl = F.softplus(-d(g(z))).mean()
                og.zero_grad()
                gl.backward()
                og.step()
        else:
            gl = torch.zeros(())
        return dl.detach(), gl.detach()

    run = c(step)
    return (
        [run(T(4, 2, seed=i), T(4, 2, seed=9 + i), i) for i in range(4)],
        [p.detach() for p in [*g.parameters(), *d.parameters()]],
        [p.requires_grad for p in d.parameters()],
    )


@program
def swa_and_state_dicts(c):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    best = {}

    def step(x):
        loss = net(x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sd = net.state_dict()
        for k, v in sd.items():
            best[k] = (
                v.clone()
                if k not in best
                else torch.lerp(best[k], v, 0.5)
                if v.is_floating_point()
                else v.clone()
            )
        snapshot = copy.deepcopy(sd)
        snapshot["extra"] = loss.detach()
        return snapshot, sorted(sd._metadata)

    run = c(step)
    out = [run(T(5, 3, seed=i)) for i in range(3)]
    net.load_state_dict({k: v for k, v in best.items()})
    return out, dict(best), net(T(5, 3)).detach()


@program
def rewind_on_nan(c):
    torch.manual_seed(0)
    net = nn.Linear(2, 1)
    opt = torch.optim.SGD(net.parameters(), 0.1)

    def step(x):
        keep = {k: v.clone() for k, v in net.state_dict().items()}
        loss = net(x).log().mean()
        if not torch.isfinite(loss):
            net.load_state_dict(keep)
            for p in net.parameters():
                p.data.add_(0.1)
            return None
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    run = c(step)
    return [
        run(T(3, 2, seed=i).abs() * s) for i, s in enumerate((1, -1, 1, -1, 1, 1))
    ], net.weight.detach()


@program
def kv_cache_class(c):
    class Cache:
        def __init__(self, n, d):
            self.k, self.v, self.pos = torch.zeros(n, d), torch.zeros(n, d), 0

        def append(self, k, v):
            n = k.shape[0]
            self.k[self.pos : self.pos + n] = k
            self.v[self.pos : self.pos + n] = v
            self.pos += n
            return self.k[: self.pos], self.v[: self.pos]

    def attend(cache, x):
        k, v = cache.append(x + 1, x * 2)
        mask = torch.ones(x.shape[0], k.shape[0], dtype=torch.bool).tril(k.shape[0] - x.shape[0])
        return F.scaled_dot_product_attention(x[None], k[None], v[None], attn_mask=mask)[0]

    run = c(attend)
    cache = Cache(12, 4)
    return [run(cache, T(n, 4, seed=n)) for n in (3, 1, 1, 1, 2)], cache.k, cache.pos


@program
def tree_recursion(c):
    @dataclasses.dataclass(order=True)
    class Node:
        value: float
        kids: list = dataclasses.field(default_factory=list, compare=False)
        cache: torch.Tensor | None = dataclasses.field(default=None, compare=False, repr=False)

    w = T(3, 3, grad=True)

    def encode(node, depth=0):
        kids = [encode(k, depth + 1) for k in sorted(node.kids)]
        h = torch.full((3,), node.value)
        if kids:
            h = h + torch.stack(kids).amax(0)
        node.cache = torch.tanh(h @ w) / (1 + depth)
        return node.cache

    run = c(lambda n: encode(n).sum())
    tree = Node(1.0, [Node(3.0), Node(2.0, [Node(0.5), Node(0.25)])])
    a = run(tree)
    a.backward()
    tree.kids.append(Node(-1.0))
    tree.value = 2.0
    b = run(tree)
    b.backward()
    return a, b, w.grad, tree.kids[1].cache.detach(), repr(tree)


@program
def views_and_aliases(c):
    def f(x, idx):
        a, b = x.chunk(2)
        d = x.diagonal()
        d += 1
        a.mul_(2)
        b[0], b[1] = b[1].clone(), b[0].clone()
        x.T[idx] -= 5
        y = x.view(-1)[::3]
        y.clamp_(max=0.5)
        t = x.unsqueeze(0).expand(2, -1, -1)
        x.index_add_(0, torch.tensor([0, 0, 3]), torch.ones(3, 4))
        m = x > 0
        x.masked_fill_(m, 9)
        x[m] += torch.arange(int(m.sum())).float()
        return a, b, d, t.sum(0), y

    run = c(f)
    out = []
    for i in range(3):
        x = T(4, 4, seed=i)
        out.append((run(x, i), x))
    return out


@program
def hooks_everywhere(c):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    log = []
    net[0].register_full_backward_hook(lambda m, gi, go: log.append(("b", go[0].sum().item())))
    net[2].register_forward_pre_hook(lambda m, a: (a[0] * 2,))
    net[0].weight.register_hook(lambda g: g.clamp(-0.1, 0.1))
    net[1].register_forward_hook(lambda m, a, o: log.append(("f", tuple(o.shape))))

    def step(x):
        y = net(x)
        h = y.register_hook(lambda g: g * 3)
        l = y.square().sum()
        l.backward()
        h.remove()
        return l.detach()

    run = c(step)
    out = []
    for i in range(2):
        net.zero_grad()
        out.append(run(T(2, 3, seed=i)))
        out.append([p.grad.clone() for p in net.parameters()])
    return out, log


@program
def param_groups_changed(c):
    torch.manual_seed(0)
    ps = [nn.Parameter(T(3, seed=i)) for i in range(3)]
    opt = torch.optim.Adam([ps[0]], lr=0.1, amsgrad=True)

    def step(x, n):
        if n == 2:
            opt.add_param_group({"params": [ps[1]], "lr": 0.01, "weight_decay": 0.1})
        if n == 4:
            opt.param_groups[0]["betas"] = (0.5, 0.9)
            opt.state[ps[0]]["exp_avg"].zero_()
        loss = sum((p * x).sum() ** 2 for p in ps)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach(), len(opt.state)

    run = c(step)
    return (
        [run(T(3, seed=7), i) for i in range(6)],
        [p.detach() for p in ps],
        {k: v["step"] for k, v in zip("ab", opt.state.values())},
    )


@program
def implicit_layer(c):
    class Fixed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, w, x):
            z = torch.zeros_like(x)
            for _ in range(8):
                z = torch.tanh(z @ w + x)
            ctx.save_for_backward(w, x, z)
            return z

        @staticmethod
        def backward(ctx, g):
            w, x, z = ctx.saved_tensors
            with torch.enable_grad():
                w_, z_ = w.detach().requires_grad_(), z.detach().requires_grad_()
                x_ = x.detach().requires_grad_()
                f = torch.tanh(z_ @ w_ + x_)
            u = g
            for _ in range(8):
                u = torch.autograd.grad(f, z_, u, retain_graph=True)[0] + g
            return torch.autograd.grad(f, (w_, x_), u)

    w = (T(3, 3) * 0.2).requires_grad_()
    run = c(lambda x: Fixed.apply(w, x).square().sum())
    out = []
    for n in (2, 4):
        x = T(n, 3, seed=n, grad=True)
        l = run(x)
        l.backward()
        out.append((l, x.grad))
    return out, w.grad


@program
def rng_and_dropout_states(c):
    def f(x, seed):
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        a = torch.randn(3) + x
        torch.set_rng_state(state)
        g = torch.Generator().manual_seed(seed)
        b = torch.rand(3, generator=g)
        with torch.random.fork_rng():
            d = torch.randint(0, 10, (3,))
        return a, b, d, F.dropout(x, 0.5).ne(0).sum() >= 0, torch.rand(1)

    run = c(f)
    return [run(T(3, seed=i), i) for i in range(3)]


@program
def strings_and_regex(c):
    def f(x, spec):
        m = re.fullmatch(r"(\w+)\((\d+)(?:,\s*(-?\d+\.\d+))?\)", spec)
        if m is None:
            raise ValueError(f"bad spec {spec!r:>12}")
        name, n, s = m.groups(default="1.0")
        f = {"tile": lambda t: t.repeat(int(n)), "roll": lambda t: t.roll(int(n))}[name]
        return (
            f(x) * float(s),
            f"{name:_^8}|{int(n):03d}|{float(s):+.2e}|{x.dtype}|{tuple(x.shape)!s}",
            json.dumps({"n": int(n), "s": s}),
        )

    run = c(f)
    out = []
    for s in ("tile(2)", "roll(1, -0.5)", "bad", "nope(1)"):
        try:
            out.append(run(T(3), s))
        except (ValueError, KeyError) as e:
            out.append((type(e).__name__, str(e)))
    return out


@program
def number_types(c):
    def f(x, n):
        k = np.int64(n)
        h = n // 2
        q = divmod(x.shape[0], n)
        r = round(x.shape[0] / n, 2)
        m = torch.tensor(n, dtype=torch.float64)
        y = (
            x * k
            + x**h
            - m
            + (x.shape[0] >> 1)
            + int.from_bytes(struct.pack("<H", n), "little")
            + bisect.bisect([1, 3, 5], n)
        )
        return (
            y,
            y.dtype,
            q,
            r,
            x.new_full((n,), True, dtype=torch.bool).sum().item() + 0.5,
            float("nan") != r,
            (-7) // n,
            math.fsum([0.1] * n),
            max(n, 2.5),
            n**-1,
            ~n,
            x.shape[0] % -n,
        )

    run = c(f)
    return [run(T(s, seed=s), n) for s, n in ((4, 1), (5, 2), (6, 3), (7, 4))]


@program
def metaclass_registry(c):
    class Meta(type):
        registry = {}

        def __new__(m, name, bases, ns, **k):
            cls = super().__new__(m, name, bases, ns)
            m.registry[name] = cls
            return cls

        def __call__(cls, *a, **k):
            o = super().__call__(*a, **k)
            o.made = cls.__name__
            return o

        def __contains__(cls, x):
            return x.dim() == cls.rank

    class Base(metaclass=Meta):
        rank = 1

        def __class_getitem__(cls, n):
            return functools.partial(cls, scale=n)

        def __init__(self, scale=1):
            self.scale = scale

        def __call__(self, x):
            return x * self.scale

    class Two(Base):
        rank = 2

        def __call__(self, x):
            return super().__call__(x).sum(0)

    def f(x, name):
        cls = Meta.registry[name]
        o = cls[3]()
        return o(x), o.made, x in cls, cls.mro()[1].__name__

    run = c(f)
    return [run(T(2, n), k) for n, k in ((2, "Two"), (3, "Base"), (4, "Two"))]


@program
def nested_exceptions(c):
    class Boom(RuntimeError):
        pass

    def f(x, n):
        log = []
        for i in range(4):
            try:
                try:
                    if i == n:
                        raise Boom(i)
                    if i == n + 1:
                        torch.ones(2) @ torch.ones(3)
                    x = x + i
                except Boom as e:
                    raise ValueError("outer") from e
                finally:
                    log.append(i)
            except ValueError as e:
                log.append((type(e.__cause__).__name__, e.__cause__.args, e.__suppress_context__))
                continue
            except RuntimeError as e:
                log.append(type(e).__name__)
                break
            else:
                x = x * 2
        else:
            log.append("all")
        return x, log

    run = c(f)
    return [run(T(3), n) for n in (0, 1, 3, 9)]


@program
def grads_in_odd_ways(c):
    def f(x, w):
        y = (x * w).sum()
        (g,) = torch.autograd.grad(y, w, create_graph=True)
        z = (g * g).sum() + y
        z.backward(inputs=[w], retain_graph=True)
        first = w.grad.clone()
        w.grad = None
        z.backward(torch.tensor(2.0))
        w.grad.mul_(0.5)
        x.grad.requires_grad_(False)
        with torch.no_grad():
            w -= 0.1 * w.grad
        return first, x.grad, w.detach().clone(), w.is_leaf

    run = c(f)
    out = []
    for i in range(3):
        x, w = T(3, seed=i, grad=True), T(3, seed=i + 5, grad=True)
        out.append((run(x, w), w.grad, w._version > 0))
    return out


@program
def conv_augmented_batchnorm_modes(c):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4, momentum=None),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 2),
    )

    def f(x, train):
        net.train(train)
        net[1].momentum = 0.2 if train else None
        y = net(x.contiguous(memory_format=torch.channels_last))
        return y, net[1].num_batches_tracked.clone(), net.training, y.is_contiguous()

    run = c(f)
    out = []
    for i, t in enumerate((True, False, True, True)):
        y = run(T(3, 2, 5 + i, 5, seed=i), t)
        y[0].sum().backward()
        out.append(y)
    return out, net[1].running_var, net[0].weight.grad


@program
def sets_and_order(c):
    def f(x, names):
        seen, out = set(), []
        for n in names:
            if n in seen:
                continue
            seen.add(n)
            out.append(x * len(n))
        rest = {"a", "bb", "dd"} - seen
        both = seen & {"a"}
        seen |= {"new"}
        frozen = frozenset(seen)
        d = dict.fromkeys(names, 0)
        d.update((k, v + 1) for k, v in d.items() if k > "a")
        d.setdefault("q", []).append(1)
        first, *middle, last = sorted(d, key=lambda k: (-len(k), k))
        return (
            torch.stack(out).sum(0),
            sorted(rest),
            both,
            frozen,
            d,
            first,
            middle,
            last,
            [*zip(*[iter("abcdef")] * 2)],
            collections.Counter("abca").most_common(1),
        )

    run = c(f)
    return [run(T(2), n) for n in (["a", "bb", "a"], ["ccc"], ["a", "dd", "bb"])]
