"""Programs that lean on the language: protocols, class hierarchies, generators, retries, parsers."""

import abc
import bisect
import collections
import contextlib
import dataclasses
import enum
import functools
import inspect
import io
import itertools
import json
import math
import operator
import re
import string
import types
import typing
import weakref

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs import T, program


@program
def descriptors_and_slots(c):
    """A typed field descriptor with __set_name__, __slots__, __getattr__ delegation, cached_property."""

    class Positive:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, obj, owner=None):
            return self if obj is None else getattr(obj, self.name)

        def __set__(self, obj, value):
            if isinstance(value, (int, float)) and value <= 0:
                raise ValueError(f"{self.name[1:]} must be positive, not {value}")
            setattr(obj, self.name, value)

    class Base:
        __slots__ = ("_scale", "_count")
        scale, count = Positive(), Positive()

        def __init__(self, scale, count):
            self.scale, self.count = scale, count

    class Kernel(Base):
        __slots__ = ("inner", "__dict__")

        def __init__(self, scale, count, inner):
            super().__init__(scale, count)
            self.inner = inner

        def __getattr__(self, name):
            if name.startswith("raw_"):
                return getattr(self.inner, name[4:])
            raise AttributeError(name)

        @functools.cached_property
        def table(self):
            return torch.arange(self.count) * self.scale

        @property
        def total(self):
            return self.table.sum() + self.raw_bias

        @total.setter
        def total(self, value):
            self.inner.bias = value - self.table.sum()

    class Inner:
        def __init__(self):
            self.bias = torch.ones(())

    def f(x, scale, n):
        k = Kernel(scale, n, Inner())
        y = x * k.total
        k.total = x.sum()
        try:
            k.scale = -1
        except ValueError as e:
            message = str(e)
        try:
            k.missing
        except AttributeError as e:
            message += "/" + str(e)
        return y + k.raw_bias, k.total, message, sorted(vars(k)), hasattr(k, "raw_bias")

    run = c(f)
    return [run(T(3, seed=i), 0.5 + i, 3 + i) for i in range(3)]


@program
def abc_strategies_singledispatch(c):
    """ABCs with abstract properties, registered virtual subclasses, singledispatch and singledispatchmethod, match."""

    class Transform(abc.ABC):
        registry = {}

        def __init_subclass__(cls, /, key=None, **kw):
            super().__init_subclass__(**kw)
            if key:
                Transform.registry[key] = cls

        @property
        @abc.abstractmethod
        def order(self): ...
        @abc.abstractmethod
        def __call__(self, x): ...
        def __or__(self, other):
            return Chain(self, other)

        def __lt__(self, other):
            return self.order < other.order

    class Chain(Transform):
        def __init__(self, *parts):
            self.parts = parts

        order = 99

        def __call__(self, x):
            return functools.reduce(lambda v, p: p(v), sorted(self.parts), x)

    class Scale(Transform, key="scale"):
        order = 2

        def __init__(self, by):
            self.by = by

        def __call__(self, x):
            return x * self.by

    class Shift(Transform, key="shift"):
        order = 1

        def __init__(self, by):
            self.by = by

        def __call__(self, x):
            return x + self.by

    @functools.singledispatch
    def describe(v):
        return "other"

    @describe.register
    def _(v: Scale):
        return f"scale by {v.by}"

    @describe.register(Chain)
    def _(v):
        return " then ".join(describe(p) for p in sorted(v.parts))

    @describe.register(list)
    @describe.register(tuple)
    def _(v):
        return f"{len(v)} things"

    class Visitor:
        @functools.singledispatchmethod
        def visit(self, node, x):
            raise NotImplementedError(type(node).__name__)

        @visit.register
        def _(self, node: dict, x):
            return {k: self.visit(v, x) for k, v in node.items()}

        @visit.register
        def _(self, node: int, x):
            return x + node

        @visit.register
        def _(self, node: str, x):
            match node.split(":"):
                case ["relu"]:
                    return x.relu()
                case ["pow", n] if n.isdigit():
                    return x ** int(n)
                case [("add" | "plus") as op, *rest]:
                    return x + sum(map(float, rest)) + len(op)
                case _:
                    raise LookupError(node)

    def f(x, spec):
        t = Transform.registry["scale"](2.0) | Transform.registry["shift"](1.0)
        try:
            Transform()
        except TypeError as e:
            ab = "abstract" in str(e)
        try:
            missing = Visitor().visit(spec, x)
        except (NotImplementedError, LookupError) as e:
            missing = type(e).__name__ + str(e)
        return t(x), describe(t), describe((1, 2)), describe(3), ab, missing

    run = c(f)
    specs = [
        {"a": 1, "b": {"c": "relu", "d": "pow:3"}},
        {"a": "add:1:2.5"},
        {"z": "nope"},
        {"z": 1.5},
    ]
    return [run(T(4, seed=i), s) for i, s in enumerate(specs)]


@program
def bpe_tokenizer_and_collate(c):
    """A byte-pair tokenizer trained on text, padding by pad_sequence, an LM step on batches of odd lengths."""

    class BPE:
        def __init__(self, text, merges):
            self.ranks, words = {}, collections.Counter(re.findall(r"\w+", text.lower()))
            splits = {w: tuple(w) for w in words}
            for rank in range(merges):
                pairs = collections.Counter()
                for w, n in words.items():
                    for pair in itertools.pairwise(splits[w]):
                        pairs[pair] += n
                if not pairs:
                    break
                best = min(pairs, key=lambda p: (-pairs[p], p))
                self.ranks[best] = rank
                splits = {w: self.merge(s, best) for w, s in splits.items()}
            self.vocab = {
                t: i
                for i, t in enumerate(
                    [
                        "<pad>",
                        "<unk>",
                        *sorted(
                            {p for s in splits.values() for p in s} | set(string.ascii_lowercase)
                        ),
                    ]
                )
            }

        @staticmethod
        def merge(symbols, pair):
            out, i = [], 0
            while i < len(symbols):
                if symbols[i : i + 2] == pair:
                    out.append("".join(pair))
                    i += 2
                else:
                    out.append(symbols[i])
                    i += 1
            return tuple(out)

        def encode(self, text):
            ids = []
            for w in re.findall(r"\w+", text.lower()):
                s = tuple(w)
                while (
                    len(s) > 1
                    and (p := min(itertools.pairwise(s), key=lambda p: self.ranks.get(p, 1e9)))
                    in self.ranks
                ):
                    s = self.merge(s, p)
                ids += [self.vocab.get(t, 1) for t in s]
            return ids

    bpe = BPE("the cat sat on the mat the hat that the cat sat at", 12)
    torch.manual_seed(0)
    emb, rnn, head = (
        nn.Embedding(len(bpe.vocab), 6, padding_idx=0),
        nn.LSTM(6, 8, batch_first=True),
        nn.Linear(8, len(bpe.vocab)),
    )

    def loss(texts):
        ids = [torch.tensor(bpe.encode(t)) for t in texts]
        lengths = torch.tensor([len(i) for i in ids])
        x = nn.utils.rnn.pad_sequence(ids, batch_first=True)
        packed = nn.utils.rnn.pack_padded_sequence(
            emb(x), lengths, batch_first=True, enforce_sorted=False
        )
        y, _ = nn.utils.rnn.pad_packed_sequence(rnn(packed)[0], batch_first=True)
        return F.cross_entropy(head(y)[:, :-1].flatten(0, 1), x[:, 1:].flatten(), ignore_index=0), x

    run, out = c(loss), []
    for texts in (
        ["the cat", "a mat sat"],
        ["that hat", "the"],
        ["on the mat", "zebra cat sat at"],
    ):
        l, x = run(texts)
        l.backward()
        out.append((l.detach(), x, emb.weight.grad.clone()))
    return out


@program
def retry_and_backoff(c):
    """A retry decorator with jitter on Cholesky's failure, exception groups of causes, finally and else."""

    class Exhausted(RuntimeError):
        def __init__(self, tries, last):
            super().__init__(f"gave up after {tries}")
            self.tries, self.last = tries, last

    def retry(times, on=(Exception,)):
        def wrap(f):
            @functools.wraps(f)
            def inner(*a, **k):
                for n in range(times):
                    try:
                        result = f(*a, attempt=n, **k)
                    except on as e:
                        last = e
                    else:
                        inner.log.append(("ok", n))
                        return result
                    finally:
                        inner.calls += 1
                raise Exhausted(times, last) from last

            inner.log, inner.calls = [], 0
            return inner

        return wrap

    @retry(4, on=(torch.linalg.LinAlgError,))
    def chol(K, attempt=0):
        return torch.linalg.cholesky(K + (10.0 ** (attempt - 3)) * torch.eye(K.size(0)))

    def f(K, y):
        try:
            L = chol(K)
        except Exhausted as e:
            return e.tries, type(e.__cause__).__name__, chol.calls
        alpha = torch.cholesky_solve(y[:, None], L)
        return (y @ alpha).squeeze() + 2 * L.diagonal().log().sum(), chol.calls, list(chol.log)

    run, out = c(f), []
    for n, bad in ((3, 0.0), (4, 0.5), (4, 0.005), (3, 50.0)):
        x = T(n, n, seed=n)
        K = (x @ x.T - bad * torch.eye(n) * 1.0 if bad < 1 else -x @ x.T).requires_grad_()
        out.append(run(K, T(n, seed=1)))
        if torch.is_tensor(out[-1][0]) and out[-1][0].dim() == 0:
            out[-1][0].backward()
            out.append(K.grad)
    return out


@program
def registry_config_yaml(c):
    """Nested dataclass configs with field factories, overrides 'a.b=1' parsed by literal types, a build registry with signature binding."""
    REG = {}

    def register(name=None):
        def deco(cls):
            REG[name or cls.__name__.lower()] = cls
            return cls

        return deco

    @dataclasses.dataclass
    class OptCfg:
        name: str = "sgd"
        lr: float = 0.1
        betas: tuple = (0.9, 0.99)

    @dataclasses.dataclass(kw_only=True)
    class Cfg:
        layers: list = dataclasses.field(default_factory=lambda: [4, 6, 2])
        act: str = "gelu"
        opt: OptCfg = dataclasses.field(default_factory=OptCfg)
        dropout: typing.Optional[float] = None

        def __post_init__(self):
            if self.dropout is None:
                self.dropout = 0.0 if len(self.layers) < 4 else 0.1

    def override(cfg, *args):
        for a in args:
            path, value = a.split("=", 1)
            *parents, leaf = path.split(".")
            target = functools.reduce(getattr, parents, cfg)
            kind = type(getattr(target, leaf))
            setattr(
                target,
                leaf,
                kind(json.loads(value)) if kind in (list, tuple, float) else kind(value),
            )
        return cfg

    @register()
    class MLP(nn.Module):
        def __init__(self, layers, act, dropout=0.0, **unused):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(layers, layers[1:]))
            self.act, self.p, self.unused = getattr(F, act), dropout, sorted(unused)

        def forward(self, x):
            for i, l in enumerate(self.layers):
                x = (
                    l(x)
                    if i == len(self.layers) - 1
                    else F.dropout(self.act(l(x)), self.p, self.training)
                )
            return x

    def build(name, cfg):
        cls = REG[name]
        kw = dataclasses.asdict(cfg)
        bound = inspect.signature(cls).bind(**kw)
        bound.apply_defaults()
        return cls(*bound.args, **bound.kwargs)

    out = []
    for args in ((), ("act=tanh", "opt.lr=0.5"), ("layers=[4, 3, 3, 2]", "opt.betas=[0.5, 0.9]")):
        torch.manual_seed(0)
        cfg = override(Cfg(), *args)
        m = build("mlp", cfg).eval()
        opts = {
            "sgd": lambda p: torch.optim.SGD(p, lr=cfg.opt.lr),
            "adam": lambda p: torch.optim.Adam(p, lr=cfg.opt.lr, betas=cfg.opt.betas),
        }
        opt = opts[cfg.opt.name](m.parameters())

        def step(x, *, scale: float = 1.0):
            c2 = dataclasses.replace(cfg, act="relu")
            loss = (m(x) * scale).square().mean() * (2 if c2.act != cfg.act else 1)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss.detach(), dataclasses.asdict(c2), cfg == c2

        run = c(step)
        out.append([run(T(3 + i, 4, seed=i), scale=1.0 + i) for i in range(3)])
    return out


@program
def streams_and_generators(c):
    """Generator pipelines with send, yield from and return values; infinite loaders; prefetch by a deque; itertools recipes."""

    def batched(it, n):
        it = iter(it)
        while chunk := list(itertools.islice(it, n)):
            yield chunk

    def running_mean():
        total, n, value = 0.0, 0, None
        while True:
            x = yield value
            if x is None:
                return total / max(n, 1)
            total, n = total + x, n + 1
            value = total / n

    def collector(gen, xs):
        next(gen)
        means = [gen.send(x) for x in xs]
        try:
            gen.send(None)
        except StopIteration as e:
            return means, e.value

    def walk(tree, depth=0):
        for k, v in tree.items():
            if isinstance(v, dict):
                n = yield from walk(v, depth + 1)
                yield k, depth, n
            else:
                yield k, depth, v * 2
        return len(tree)

    def f(x, tree):
        rows = [r.sum() for r in x.unbind()]
        means, final = collector(running_mean(), rows)
        chunks = [torch.stack(ch).prod() for ch in batched(rows, 2)]
        leaves = list(walk(tree))
        zipped = list(itertools.zip_longest(rows, chunks, fillvalue=x.new_zeros(())))
        acc = list(itertools.accumulate(rows, lambda a, b: a * 0.5 + b, initial=x.mean()))
        window = collections.deque(maxlen=3)
        out = []
        for r in itertools.chain(rows, reversed(chunks)):
            window.append(r)
            out.append(sum(window) / len(window))
        return means, final, chunks, leaves, [a + b for a, b in zipped], acc, torch.stack(out)

    run, out = c(f), []
    for n in (3, 4, 5):
        x = T(n, 3, seed=n, grad=True)
        r = run(x, {"a": x[0], "b": {"c": 1.5, "d": {"e": x[1] + 1}}})
        (r[1] + r[-1].sum()).backward()
        out.append((r, x.grad))
    return out


@program
def context_stack_and_hooks(c):
    """ExitStack, contextmanager with a yield in try, a class that patches modules for a while, forward hooks that collect activations."""

    @contextlib.contextmanager
    def frozen(module):
        before = {n: p.requires_grad for n, p in module.named_parameters()}
        for p in module.parameters():
            p.requires_grad_(False)
        try:
            yield module
        finally:
            for n, p in module.named_parameters():
                p.requires_grad_(before[n])

    class Recorder:
        def __init__(self, model, kinds):
            self.acts, self.handles, self.model, self.kinds = {}, [], model, kinds

        def __enter__(self):
            for n, m in self.model.named_modules():
                if isinstance(m, self.kinds):
                    self.handles.append(m.register_forward_hook(functools.partial(self.save, n)))
            return self

        def save(self, name, module, args, out):
            self.acts.setdefault(name, []).append(out)

        def __exit__(self, *exc):
            while self.handles:
                self.handles.pop().remove()
            return False

    class swapped(contextlib.ContextDecorator):
        def __init__(self, obj, **new):
            self.obj, self.new = obj, new

        def __enter__(self):
            self.old = {k: getattr(self.obj, k) for k in self.new}
            for k, v in self.new.items():
                setattr(self.obj, k, v)

        def __exit__(self, *exc):
            for k, v in self.old.items():
                setattr(self.obj, k, v)

    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    settings = types.SimpleNamespace(gain=1.0, bias=0.0)

    @swapped(settings, gain=3.0)
    def loud(x):
        return m(x) * settings.gain + settings.bias

    def f(x, deep):
        with contextlib.ExitStack() as stack:
            rec = stack.enter_context(Recorder(m, (nn.Linear,)))
            if deep:
                stack.enter_context(frozen(m[0]))
                stack.callback(setattr, settings, "bias", 0.0)
                settings.bias = 1.0
            y = loud(x) + m(x) * settings.gain
            inside = [p.requires_grad for p in m.parameters()]
        penalty = sum(a.square().mean() for acts in rec.acts.values() for a in acts)
        return (
            y,
            penalty,
            {k: len(v) for k, v in rec.acts.items()},
            inside,
            vars(settings),
            len(m[0]._forward_hooks),
        )

    run, out = c(f), []
    for i in range(4):
        y, pen, *rest = run(T(3 + i // 2, 3, seed=i), i % 2 == 1)
        (y.sum() + pen).backward()
        out.append(
            (
                y.detach(),
                pen.detach(),
                rest,
                [p.grad if p.grad is None else p.grad.clone() for p in m.parameters()],
            )
        )
        m.zero_grad()
    return out


@program
def symbolic_expressions(c):
    """A small algebra with operator overloading, memoized evaluation, symbolic differentiation and tensors as leaves."""

    class Expr:
        def __add__(s, o):
            return Op("+", s, lift(o))

        __radd__ = __add__

        def __mul__(s, o):
            return Op("*", s, lift(o))

        __rmul__ = __mul__

        def __pow__(s, n):
            return functools.reduce(operator.mul, [s] * n)

        def __neg__(s):
            return -1 * s

        def __sub__(s, o):
            return s + -lift(o)

        def __call__(s, **env):
            return s.eval(env, {})

        def __matmul__(s, o):
            return Op("@", s, o)

    class Var(Expr):
        def __init__(s, name):
            s.name = name

        def eval(s, env, memo):
            return env[s.name]

        def diff(s, name):
            return Const(1.0 if name == s.name else 0.0)

        def __repr__(s):
            return s.name

    class Const(Expr):
        def __init__(s, v):
            s.v = v

        def eval(s, env, memo):
            return s.v

        def diff(s, name):
            return Const(0.0)

        def __repr__(s):
            return f"{s.v:g}"

    class Op(Expr):
        table = {"+": operator.add, "*": operator.mul, "@": torch.matmul, "sin": torch.sin}

        def __init__(s, op, *args):
            s.op, s.args = op, args

        def eval(s, env, memo):
            key = id(s)
            if key not in memo:
                memo[key] = s.table[s.op](*(a.eval(env, memo) for a in s.args))
            return memo[key]

        def diff(s, n):
            match s:
                case Op(op="+", args=(a, b)):
                    return a.diff(n) + b.diff(n)
                case Op(op="*", args=(a, b)):
                    return a.diff(n) * b + a * b.diff(n)
                case Op(op="sin", args=(a,)):
                    return Op("cos", a) * a.diff(n)
            raise TypeError(s.op)

        def __repr__(s):
            return f"({f' {s.op} '.join(map(repr, s.args))})"

    Op.table["cos"] = torch.cos

    def lift(v):
        return v if isinstance(v, Expr) else Const(v)

    def f(x, y, n):
        a, b = Var("a"), Var("b")
        e = (a + 2 * b) ** n - Op("sin", a * b)
        d = e.diff("a")
        value = e(a=x, b=y)
        return (
            value,
            d(a=x, b=y),
            repr(e)[:60],
            torch.autograd.grad(value.sum(), x, create_graph=True)[0],
        )

    run, out = c(f), []
    for n in (2, 3, 2):
        x = T(3 + n, seed=n, grad=True)
        v, d, r, g = run(x, T(3 + n, seed=9), n)
        (g.square().sum()).backward()
        out.append((v.detach(), d.detach(), r, g.detach(), x.grad))
    return out


@program
def autoregressive_sampler(c):
    """Top-k, top-p, temperature and repetition penalty; logits processors as a list of callables; stop strings; a KV cache of lists."""

    class Temperature:
        def __init__(self, t):
            self.t = t

        def __call__(self, ids, s):
            return s / self.t

    class Repetition:
        def __init__(self, p):
            self.p = p

        def __call__(self, ids, s):
            score = s.gather(1, ids)
            return s.scatter(1, ids, torch.where(score < 0, score * self.p, score / self.p))

    class TopK:
        def __init__(self, k):
            self.k = k

        def __call__(self, ids, s):
            return s.masked_fill(
                s < s.topk(min(self.k, s.size(-1)))[0][..., -1, None], -float("inf")
            )

    class TopP:
        def __init__(self, p, keep=1):
            self.p, self.keep = p, keep

        def __call__(self, ids, s):
            sl, si = s.sort(descending=False)
            remove = sl.softmax(-1).cumsum(-1) <= 1 - self.p
            remove[..., -self.keep :] = 0
            return s.masked_fill(remove.scatter(1, si, remove), -float("inf"))

    class Processors(list):
        def __call__(self, ids, s, **kw):
            for p in self:
                s = p(ids, s)
            return s

    torch.manual_seed(0)
    V, D = 11, 8
    wte, qkv, out_ = nn.Embedding(V, D), nn.Linear(D, 3 * D), nn.Linear(D, V)

    def block(x, past=None):
        q, k, v = qkv(x).chunk(3, -1)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        n, m = q.size(1), k.size(1)
        mask = torch.ones(n, m, dtype=torch.bool).tril(m - n)
        a = (q @ k.transpose(1, 2) / math.sqrt(D)).masked_fill(~mask, float("-inf")).softmax(-1)
        return x + a @ v, (k, v)

    @torch.no_grad()
    def generate(ids, processors, steps, stop):
        past, x = None, ids
        texts = [""] * ids.size(0)
        alive = torch.ones(ids.size(0), 1, dtype=torch.long)
        for step in range(steps):
            h, past = block(wte(x), past)
            probs = processors(ids, out_(h[:, -1])).softmax(-1)
            nxt = probs.argmax(-1, keepdim=True) * alive
            ids = torch.cat([ids, nxt], -1)
            for i, t in enumerate(nxt.squeeze(1).tolist()):
                texts[i] += string.ascii_lowercase[t]
                if texts[i].endswith(stop):
                    alive[i] = 0
            if not alive.any():
                break
            x = nxt
        return ids, texts, past[0].shape

    run = c(generate)
    procs = Processors([Repetition(1.3), Temperature(0.7), TopK(6), TopP(0.9)])
    return [
        run(torch.arange(2 * n).view(2, n) % V, procs, 5, s)
        for n, s in ((2, "a"), (3, ("b", "cd")), (4, "zz"))
    ]


@program
def early_stopping_trainer(c):
    """A fit loop with callbacks by weakref, ReduceLROnPlateau, checkpoints in BytesIO, restore, gradient accumulation, history as nested defaultdicts."""

    class EarlyStopping:
        def __init__(self, patience=2, delta=1e-3):
            self.best, self.bad, self.patience, self.delta, self.stop = (
                math.inf,
                0,
                patience,
                delta,
                False,
            )

        def __call__(self, loss):
            if loss < self.best - self.delta:
                self.best, self.bad = loss, 0
                return True
            self.bad += 1
            self.stop = self.bad >= self.patience
            return False

    class Fit:
        def __init__(self):
            torch.manual_seed(0)
            self.m = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
            self.opt = torch.optim.SGD(self.m.parameters(), 0.5, momentum=0.9)
            self.sched = torch.optim.lr_scheduler.ReduceLROnPlateau(
                self.opt, factor=0.5, patience=0
            )
            self.es, self.file = EarlyStopping(), io.BytesIO()
            self.history = collections.defaultdict(lambda: collections.defaultdict(list))

        def epoch(self, batches, train=True, accumulate=2):
            self.m.train(train)
            total, n = 0.0, 0
            for i, (x, y) in enumerate(batches):
                with torch.set_grad_enabled(train):
                    loss = F.mse_loss(self.m(x), y)
                if train:
                    (loss / accumulate).backward()
                    if (i + 1) % accumulate == 0 or i + 1 == len(batches):
                        self.opt.step()
                        self.opt.zero_grad(set_to_none=True)
                total += loss.item() * len(x)
                n += len(x)
            return total / n

        def fit(self, train, valid, epochs):
            for e in range(epochs):
                h = self.history["train"]
                h["loss"].append(self.epoch(train))
                v = self.epoch(valid, train=False)
                self.sched.step(v)
                self.history["valid"]["loss"].append(v)
                h["lr"].append(self.opt.param_groups[0]["lr"])
                if self.es(v):
                    self.file.seek(0)
                    torch.save({"m": self.m.state_dict(), "e": e}, self.file)
                if self.es.stop:
                    break
            self.file.seek(0)
            state = torch.load(self.file, weights_only=True)
            self.m.load_state_dict(state["m"])
            return state["e"]

    fit = Fit()
    data = [(T(4, 3, seed=i), T(4, 3, seed=i).sum(1, keepdim=True)) for i in range(5)]
    best = c(fit.fit)(data[:3], data[3:], 6)
    return (
        best,
        {k: dict(v) for k, v in fit.history.items()},
        [p.detach() for p in fit.m.parameters()],
    )


@program
def int_enum_flags_and_dispatch(c):
    """Enum with methods and aliases, IntFlag arithmetic, StrEnum keys, an Enum made inside, dispatch tables keyed by members."""

    class Pool(enum.Enum):
        MEAN = "mean"
        MAX = "max"
        AVG = "mean"

        def __call__(self, x, dim):
            return x.mean(dim) if self is Pool.MEAN else x.amax(dim)

        @classmethod
        def _missing_(cls, value):
            return (
                cls[value.upper()]
                if isinstance(value, str) and value.upper() in cls.__members__
                else None
            )

    class Do(enum.IntFlag):
        SCALE = enum.auto()
        SHIFT = enum.auto()
        CLIP = enum.auto()
        ALL = SCALE | SHIFT | CLIP

    class Key(str, enum.Enum):
        X = "x"
        Y = "y"

    table = {
        Do.SCALE: lambda x: x * 2,
        Do.SHIFT: lambda x: x + 1,
        Do.CLIP: lambda x: x.clamp(-1, 1),
    }

    def f(x, pool, what):
        Level = enum.Enum("Level", ["LOW", "HIGH"])
        for flag in (Do.SCALE, Do.SHIFT, Do.CLIP):
            if flag in what:
                x = table[flag](x)
        names = [d.name for d in Do if d & what]
        p = Pool(pool)
        level = Level.HIGH if what == Do.ALL else Level.LOW
        out = {Key.X: p(x, 0), Key.Y: p(x, 1)}
        return (
            out["x"],
            out[Key("y")],
            names,
            p.name,
            Pool.AVG is Pool.MEAN,
            level.value,
            int(what),
            (what & ~Do.SHIFT).value,
            len(Pool),
        )

    run = c(f)
    args = [("mean", Do.SCALE), ("MAX", Do.ALL), ("avg", Do.SCALE | Do.CLIP), ("max", Do(0))]
    return [run(T(3 + i, 4, seed=i), *a) for i, a in enumerate(args)]


@program
def vectorized_env_rollout(c):
    """A vectorized cart-pole with dataclass state, auto reset by torch.where, a recurrent policy, returns-to-go, episodes of lists."""

    @dataclasses.dataclass
    class State:
        x: torch.Tensor
        v: torch.Tensor
        steps: torch.Tensor

        def obs(self):
            return torch.stack([self.x, self.v], -1)

        @classmethod
        def zeros(cls, n):
            return cls(*(torch.zeros(n) for _ in dataclasses.fields(cls)))

    class VecEnv:
        metadata = {"limit": 1.0}

        def __init__(self, n, start):
            self.n, self.start, self.state = n, start, State.zeros(n)

        def step(self, action):
            s = self.state
            v = s.v + 0.3 * action
            x = s.x + v
            steps = s.steps + 1
            done = (x.abs() > self.metadata["limit"]) | (steps >= 4)
            reward = 1 - x.square()
            fresh = lambda t, init: torch.where(done, init, t)
            self.state = State(
                fresh(x, self.start), fresh(v, torch.zeros(())), fresh(steps, torch.zeros(()))
            )
            return self.state.obs(), reward, done, {"done": int(done.sum())}

    torch.manual_seed(0)
    cell, pi = nn.GRUCell(2, 6), nn.Linear(6, 1)

    def rollout(env, h, T_):
        obs, infos = env.state.obs(), []
        R, D = [], []
        for _ in range(T_):
            h = cell(obs, h)
            a = torch.tanh(pi(h)).squeeze(-1)
            obs, r, d, info = env.step(a)
            h = h * (~d)[:, None]
            R.append(r), D.append(d), infos.append(info["done"])
        G, acc = [], torch.zeros(env.n)
        for r, d in zip(reversed(R), reversed(D)):
            acc = r + 0.9 * acc * (~d)
            G.insert(0, acc)
        return torch.stack(G), h, infos

    run, out = c(rollout), []
    for n in (3, 4, 5):
        env = VecEnv(n, T(n, seed=n) * 0.3)
        G, h, infos = run(env, torch.zeros(n, 6), 6)
        (-G.mean()).backward()
        out.append((G.detach(), infos, env.state.x.detach(), pi.weight.grad.clone()))
        pi.zero_grad(), cell.zero_grad()
    return out


@program
def tree_lstm_batches(c):
    """A recursive Tree-LSTM on parsed brackets; leaves looked up; a stack machine (shift-reduce) that must agree."""

    def parse(s):
        stack = [[]]
        for tok in re.findall(r"[()]|\w+", s):
            if tok == "(":
                stack.append([])
            elif tok == ")":
                node = tuple(stack.pop())
                stack[-1].append(node)
            else:
                stack[-1].append(tok)
        return stack[0][0]

    torch.manual_seed(0)
    vocab = {w: i for i, w in enumerate("abcd")}

    class TreeLSTM(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.emb, self.lin, self.d = nn.Embedding(4, d), nn.Linear(2 * d, 5 * d), d

        def leaf(self, w):
            h = self.emb(torch.tensor(vocab[w]))
            return h, torch.zeros(self.d)

        def reduce(self, l, r):
            i, fl, fr, o, g = self.lin(torch.cat([l[0], r[0]])).split(self.d)
            cc = i.sigmoid() * g.tanh() + fl.sigmoid() * l[1] + fr.sigmoid() * r[1]
            return o.sigmoid() * cc.tanh(), cc

        def forward(self, tree):
            match tree:
                case str(word):
                    return self.leaf(word)
                case (left, right):
                    return self.reduce(self(left), self(right))
                case (only,):
                    return self(only)
                case (first, *rest):
                    return self.reduce(self(first), self(tuple(rest)))

    m = TreeLSTM(4)

    def both(text):
        tree = parse(text)
        a = m(tree)[0]
        stack = []

        def linear(t):
            if isinstance(t, str):
                yield ("shift", t)
            elif len(t) == 1:
                yield from linear(t[0])
            else:
                yield from linear(t[0])
                yield from linear(t[1] if len(t) == 2 else t[1:])
                yield ("reduce", None)

        for op, w in linear(tree):
            if op == "shift":
                stack.append(m.leaf(w))
            else:
                r, l = stack.pop(), stack.pop()
                stack.append(m.reduce(l, r))
        return a, stack.pop()[0]

    run, out = c(both), []
    for s in ("(a b)", "((a b) (c (d a)))", "(a b c d)", "((a) b)"):
        a, b = run(s)
        (a - 2 * b).square().sum().backward()
        out.append((a.detach(), b.detach(), m.emb.weight.grad.clone()))
        m.zero_grad()
    return out


@program
def pointcloud_and_nms(c):
    """Farthest point sampling, ball query, chamfer, and greedy NMS with a while loop of masks; anchors from meshgrid."""

    def fps(x, k):
        idx = torch.zeros(k, dtype=torch.long)
        d, far = torch.full((x.size(0),), 1e10), 0
        for i in range(k):
            idx[i] = far
            d = torch.minimum(d, (x - x[far]).square().sum(-1))
            far = int(d.argmax())
        return idx

    def ball(x, centers, r, k):
        d = torch.cdist(centers, x)
        order = d.argsort(1)[:, :k]
        near = d.gather(1, order)
        return torch.where(near > r, order[:, :1], order)

    def chamfer(a, b):
        d = torch.cdist(a, b)
        return d.min(1)[0].mean() + d.min(0).values.mean()

    def nms(boxes, scores, thr):
        order, keep = scores.argsort(descending=True), []
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        while order.numel() > 0:
            i = order[0]
            keep.append(i)
            if order.numel() == 1:
                break
            rest = order[1:]
            lt, rb = (
                torch.max(boxes[i, :2], boxes[rest, :2]),
                torch.min(boxes[i, 2:], boxes[rest, 2:]),
            )
            inter = (rb - lt).clamp(min=0).prod(1)
            order = rest[inter / (area[i] + area[rest] - inter) <= thr]
        return torch.stack(keep)

    def f(x, y, size):
        gy, gx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        ctr = torch.stack([gx, gy, gx, gy], -1).reshape(-1, 4).float()
        boxes = ctr + torch.tensor([-0.9, -0.9, 0.9, 0.9])
        kept = nms(boxes, (ctr.sum(1) * 1.7).sin(), 0.1)
        i = fps(x.detach(), 3)
        groups = x[ball(x, x[i], 1.5, 4)] - x[i][:, None]
        return groups.amax(1), chamfer(x, y), kept, i

    run, out = c(f), []
    for n in (6, 7, 9):
        x = T(n, 3, seed=n, grad=True)
        g, d, k, i = run(x, T(n + 1, 3, seed=2), n % 3 + 2)
        (g.sum() + d).backward()
        out.append((g.detach(), d.detach(), k, i, x.grad))
    return out


@program
def lists_of_operations_autograd(c):
    """Micrograd beside torch: a Value class with closures for backward and a topological sort, on tensors; compared."""

    class Value:
        def __init__(self, data, children=(), op=""):
            self.data, self.grad, self._backward, self._prev, self._op = (
                data,
                0.0,
                lambda: None,
                set(children),
                op,
            )

        def __add__(self, o):
            o = o if isinstance(o, Value) else Value(o)
            out = Value(self.data + o.data, (self, o), "+")

            def back():
                self.grad = self.grad + out.grad
                o.grad = o.grad + out.grad

            out._backward = back
            return out

        def __mul__(self, o):
            o = o if isinstance(o, Value) else Value(o)
            out = Value(self.data * o.data, (self, o), "*")

            def back():
                self.grad = self.grad + o.data * out.grad
                o.grad = o.grad + self.data * out.grad

            out._backward = back
            return out

        def tanh(self):
            t = torch.tanh(self.data)
            out = Value(t, (self,), "tanh")

            def back():
                self.grad = self.grad + (1 - t * t) * out.grad

            out._backward = back
            return out

        __radd__, __rmul__ = __add__, __mul__

        def backward(self):
            topo, seen = [], set()

            def build(v):
                if v not in seen:
                    seen.add(v)
                    for ch in sorted(v._prev, key=lambda n: n._op):
                        build(ch)
                    topo.append(v)

            build(self)
            self.grad = torch.ones_like(self.data)
            for v in reversed(topo):
                v._backward()
            return len(topo)

    def f(a, b, n):
        x, y = Value(a), Value(b)
        z = x
        for i in range(n):
            z = (z * y + x * (i + 1.0)).tanh() + 2.0 * z
        count = z.backward()
        return z.data, x.grad, y.grad, count

    run = c(f)
    out = [run(T(n + 2, seed=n), T(n + 2, seed=5), n) for n in (1, 2, 3)]
    return out


@program
def masked_lm_and_schedules(c):
    """BERT-style masking with bernoulli from a generator, cosine schedule with warm-up by LambdaLR, grad scaler off, layer-wise lr decay, gradient noise."""
    torch.manual_seed(0)
    V = 12
    enc = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True),
        2,
        enable_nested_tensor=False,
    )
    emb, pos = nn.Embedding(V, 8), nn.Parameter(torch.zeros(1, 10, 8))
    head = nn.Linear(8, V)
    head.weight = emb.weight
    groups = [
        {"params": l.parameters(), "lr": 0.01 * 0.5**i, "name": f"layer{i}"}
        for i, l in enumerate(enc.layers)
    ]
    groups.append(
        {
            "params": [pos, *{id(p): p for m in (emb, head) for p in m.parameters()}.values()],
            "name": "rest",
        }
    )
    opt = torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1)

    def lr_lambda(step, warm=2, total=6):
        if step < warm:
            return float(step + 1) / warm
        return max(0.0, 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm))))

    sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_lambda)
    gen = torch.Generator().manual_seed(3)

    def mask(ids, special):
        labels = ids.clone()
        prob = torch.full(labels.shape, 0.5)
        prob.masked_fill_(torch.isin(ids, special), 0.0)
        chosen = torch.bernoulli(prob, generator=gen).bool()
        labels[~chosen] = -100
        ids = ids.masked_fill(chosen, V - 1)
        return ids, labels

    def step(ids, pad):
        ids, labels = mask(ids, torch.tensor([0, 1]))
        h = enc(emb(ids) + pos[:, : ids.size(1)], src_key_padding_mask=pad)
        loss = F.cross_entropy(head(h).view(-1, V), labels.view(-1))
        loss.backward()
        with torch.no_grad():
            total = torch.norm(
                torch.stack(
                    [
                        p.grad.norm()
                        for g in opt.param_groups
                        for p in g["params"]
                        if p.grad is not None
                    ]
                )
            )
        opt.step()
        sched.step()
        opt.zero_grad()
        return loss.detach(), total, {g["name"]: g["lr"] for g in opt.param_groups}

    run, out = c(step), []
    for n in (6, 7, 8, 8):
        pad = torch.zeros(2, n, dtype=torch.bool)
        pad[1, -2:] = True
        out.append(run((torch.arange(2 * n).view(2, n) * 5) % (V - 1), pad))
    return out


@program
def numpy_in_the_loop(c):
    """NumPy and tensors mixed: from_numpy shares memory, np ops on .numpy(), Fortran order, dtype promotion, structured bins, np.random.default_rng."""

    def f(a, x):
        t = torch.from_numpy(a)
        t.mul_(2)
        m = x.detach().numpy()
        hist, edges = np.histogram(m, bins=4, range=(-2.0, 2.0))
        w = torch.as_tensor(np.asarray(hist, dtype=np.float32))
        q = np.quantile(m, [0.25, 0.75]).astype(np.float32)
        y = (x - float(q[0])) / (float(q[1]) - float(q[0]))
        rng = np.random.default_rng(0)
        order = rng.permutation(len(m))
        z = y[torch.from_numpy(order)]
        return (
            y * w.sum(),
            z,
            t.sum(),
            a.sum(),
            np.asfortranarray(a).flags["F_CONTIGUOUS"],
            float(edges[1]),
            torch.tensor(np.float64(1.5)).dtype,
            (x.sum().item() + np.float32(1)).dtype.name,
        )

    run, out = c(f), []
    for n in (4, 5, 6):
        x = T(n, seed=n, grad=True)
        r = run(np.arange(6.0).reshape(2, 3) * n, x)
        (r[0].sum() + r[1].square().sum()).backward()
        out.append((r, x.grad))
    return out


@program
def lru_and_weak_caches(c):
    """Position tables by lru_cache, a WeakValueDictionary of modules, a rotary cache grown on demand as buffers, default arguments that keep state."""

    @functools.lru_cache(maxsize=None)
    def slopes(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return tuple(start * start**i for i in range(n))

    class Rotary(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.register_buffer(
                "inv", 1.0 / (100 ** (torch.arange(0, d, 2).float() / d)), persistent=False
            )
            self.seen, self.cos = 0, None

        def grow(self, n):
            if n > self.seen:
                self.seen = n
                fr = torch.outer(torch.arange(n, dtype=self.inv.dtype), self.inv)
                self.cos, self.sin = (torch.cat((fr, fr), -1).cos(), torch.cat((fr, fr), -1).sin())

        def forward(self, x):
            self.grow(x.size(-2))
            cos, sin = self.cos[: x.size(-2)], self.sin[: x.size(-2)]
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat((-b, a), -1) * sin

    pool = weakref.WeakValueDictionary()

    def get(d):
        if d not in pool:
            get.keep = pool[d] = Rotary(d)
        return pool[d]

    def counted(x, log=[]):
        log.append(x.size(0))
        return x + len(log)

    def f(q, k):
        r = get(q.size(-1))
        s = r(q) @ r(k).transpose(-1, -2)
        bias = (
            torch.tensor(slopes(q.size(0)))[:, None, None]
            * -(torch.arange(q.size(1))[:, None] - torch.arange(k.size(1))[None]).abs()
        )
        return (
            (s + bias).softmax(-1),
            counted(q).sum(),
            r.seen,
            len(pool),
        )

    run, out = c(f), []
    for n in (3, 5, 4, 6):
        q = T(2, n, 4, seed=n, grad=True)
        a, s, *rest = run(q, T(2, n + 1, 4, seed=1))
        (a.square().sum() + s).backward()
        out.append((a.detach(), s.detach(), rest, q.grad))
    return out


@program
def module_surgery(c):
    """Fuse conv and batch norm, prune by mask and make it permanent, swap activations by named_children recursion, share weights, parameter groups by filter, apply and to."""
    from torch.nn.utils import prune
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    torch.manual_seed(0)
    m = nn.Sequential(
        collections.OrderedDict(
            conv=nn.Conv2d(1, 4, 3),
            bn=nn.BatchNorm2d(4),
            act=nn.ReLU(),
            body=nn.Sequential(nn.Flatten(), nn.LazyLinear(3), nn.ReLU()),
        )
    )
    m(T(2, 1, 5, 5))

    def replace(module, old, new):
        for n, ch in module.named_children():
            if isinstance(ch, old):
                setattr(module, n, new())
            else:
                replace(ch, old, new)
        return module

    run, out = c(m), [m(T(2, 1, 5, 5, seed=1)).detach()]
    out.append(run(T(2, 1, 5, 5, seed=1)).detach())
    m.eval()
    out.append(run(T(3, 1, 5, 5, seed=1)).detach())
    m.conv, m.bn = fuse_conv_bn_eval(m.conv, m.bn), nn.Identity()
    out.append(run(T(3, 1, 5, 5, seed=1)).detach())
    replace(m, nn.ReLU, lambda: nn.LeakyReLU(0.3))
    out.append(run(T(3, 1, 5, 5, seed=1)).detach())
    prune.l1_unstructured(m.body[1], "weight", amount=0.5)
    y = run(T(3, 1, 5, 5, seed=1))
    y.sum().backward()
    out += [y.detach(), m.body[1].weight_orig.grad.clone()]
    prune.remove(m.body[1], "weight")
    out.append(run(T(3, 1, 5, 5, seed=2)).detach())
    m.to(torch.float64)
    out.append(run(T(2, 1, 5, 5, seed=2).double()).detach())
    m.add_module("last", nn.Linear(3, 3, dtype=torch.float64))
    m.last.weight = nn.Parameter(torch.eye(3, dtype=torch.float64) * 2)
    out.append(run(T(2, 1, 5, 5, seed=2).double()).detach())
    return out, [n for n, _ in m.named_parameters()]


@program
def event_simulation_with_heap(c):
    """Event queue with heapq and dataclass order, bisect on schedules, LRU by OrderedDict.move_to_end, tensors as payloads, __missing__ dicts."""
    import heapq

    @dataclasses.dataclass(order=True)
    class Event:
        time: float
        kind: str = dataclasses.field(compare=False)
        payload: torch.Tensor = dataclasses.field(compare=False, default=None)

    class Lazy(dict):
        def __missing__(self, key):
            self[key] = value = torch.full((2,), float(key))
            return value

    class LRU:
        def __init__(self, n):
            self.n, self.d = n, collections.OrderedDict()

        def get(self, k, make):
            if k in self.d:
                self.d.move_to_end(k)
            else:
                self.d[k] = make(k)
                if len(self.d) > self.n:
                    self.d.popitem(last=False)
            return self.d[k]

    def f(x, horizon, schedule):
        queue, log, table, lru = [], [], Lazy(), LRU(2)
        for i, row in enumerate(x.unbind()):
            heapq.heappush(queue, Event(0.5 * (i * 7 % 4), "arrive", row))
        state = x.new_zeros(x.size(1))
        while queue and queue[0].time < horizon:
            e = heapq.heappop(queue)
            rate = schedule[bisect.bisect_right([t for t, _ in schedule], e.time) - 1][1]
            if e.kind == "arrive":
                state = state + e.payload * rate + lru.get(int(e.time), lambda k: table[k])
                heapq.heappush(queue, Event(e.time + 1.25, "leave", e.payload))
            else:
                state = state - e.payload.relu()
            log.append((round(e.time, 2), e.kind))
        return state, log, sorted(table), list(lru.d)

    run, out = c(f), []
    for n in (3, 4, 5):
        x = T(n, 2, seed=n, grad=True)
        s, *rest = run(x, 2.0 + n / 2, [(0.0, 1.0), (1.0, 0.5), (2.5, 2.0)])
        s.sum().backward()
        out.append((s.detach(), rest, x.grad))
    return out
