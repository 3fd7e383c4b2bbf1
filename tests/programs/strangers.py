"""Programs as strangers write them: each leans on one habit of Python, with changing state."""

import abc
import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import inspect
import itertools
import operator
import string
import types
import weakref
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs import T, program


@program
def nested_dataclass_configs(c):
    """Frozen and mutable dataclasses with factories, replace, __post_init__, InitVar, field order and asdict."""

    @dataclasses.dataclass(frozen=True, order=True)
    class Optim:
        lr: float = 0.1
        betas: tuple = (0.9, 0.99)

    @dataclasses.dataclass
    class Config:
        width: int
        optim: Optim = dataclasses.field(default_factory=Optim)
        scale: dataclasses.InitVar[float] = 1.0
        names: list = dataclasses.field(default_factory=list, compare=False, repr=False)
        version: ClassVar[int] = 3

        def __post_init__(self, scale):
            self.gain = scale * self.width

    def f(x, config):
        config = dataclasses.replace(config, scale=2.0, optim=Optim(lr=config.optim.lr / 2))
        config.names.append(f"w{config.width}")
        fields = [field.name for field in dataclasses.fields(config)]
        y = x * config.gain - config.optim.lr * sum(config.optim.betas) + config.version
        return y, fields, dataclasses.asdict(config)["optim"], config.optim < Optim(), repr(config)

    run, config = c(f), Config(3)
    found = [run(T(3), config), run(T(3, seed=1), config)]
    config.width, Config.version = 5, 4
    return [*found, run(T(3), config), config.names, run(T(3), Config(2, Optim(0.5), 7.0))]


@program
def registry_with_decorators(c):
    """A registry that decorators fill, aliases, replaced entries, and a function that is registered later."""
    registry = {}

    def register(name, *aliases, **defaults):
        def enter(function):
            @functools.wraps(function)
            def call(x, **options):
                return function(x, **{**defaults, **options})

            for key in (name, *aliases):
                registry[key] = call
            return function

        return enter

    @register("scale", "mul", by=2.0)
    def scale(x, by):
        """Scale it."""
        return x * by

    @register("shift", by=1.0, twice=False)
    def shift(x, by, twice):
        return x + by * (1 + twice)

    def f(x, steps):
        log = []
        for step in steps:
            name, _, argument = step.partition(":")
            try:
                function = registry[name]
            except KeyError as error:
                log.append(f"no {error.args[0]} of {len(registry)}")
                continue
            x = function(x, **({"by": float(argument)} if argument else {}))
            log.append(function.__name__ + (function.__doc__ or "").lower())
        return x, log

    run, steps = c(f), ["scale", "shift:3", "mul:0.5", "clip"]
    found = [run(T(4), steps), run(T(4, seed=1), steps[1:])]
    register("clip")(lambda x, by=1.0: x.clamp(-by, by))
    found.append(run(T(4), steps))
    registry["scale"] = lambda x, by=1.0: x - by
    return [*found, run(T(4), steps), scale(T(4), 3)]


@program
def plugin_table(c):
    """Plugins with __init_subclass__, priorities, class attributes that are switched, and a sorted pipeline."""

    class Plugin(abc.ABC):
        table: ClassVar[dict] = {}
        enabled, priority = True, 0

        def __init_subclass__(cls, /, name=None, **options):
            super().__init_subclass__(**options)
            cls.name = name or cls.__name__.lower()
            Plugin.table[cls.name] = cls

        @abc.abstractmethod
        def apply(self, x): ...

    class Double(Plugin):
        priority = 2

        def apply(self, x):
            return x * 2

    class Center(Plugin, name="mean"):
        def apply(self, x):
            return x - x.mean()

    class Halve(Double, name="halve"):
        priority = 1

        def apply(self, x):
            return super().apply(x) / 4

    def f(x):
        used = []
        for cls in sorted(Plugin.table.values(), key=lambda p: (-p.priority, p.name)):
            if not cls.enabled:
                continue
            x = cls().apply(x)
            used.append(cls.name)
        return x, used

    run = c(f)
    found = [run(T(3)), run(T(3, seed=2))]
    Double.enabled = False
    Halve.enabled, Center.priority = True, 9
    found.append(run(T(3)))
    del Plugin.table["mean"]
    return [*found, run(T(3))]


@program
def context_variables(c):
    """Context variables for a mode and a depth, set and reset by a context manager, read by helpers."""
    mode = contextvars.ContextVar("mode", default="train")
    depth = contextvars.ContextVar("depth")

    @contextlib.contextmanager
    def entered(value):
        token = mode.set(value)
        inner = depth.set(depth.get(0) + 1)
        try:
            yield depth.get()
        finally:
            depth.reset(inner)
            mode.reset(token)

    def noise(x):
        return x if mode.get() == "eval" else x + 0.5

    def f(x):
        y = noise(x)
        with entered("eval") as one:
            y = y * noise(x)
            with entered("train") as two:
                y = y - noise(x)
        try:
            inside = depth.get()
        except LookupError:
            inside = None
        return y, one, two, inside, mode.get()

    run = c(f)
    found = [run(T(3))]
    token = mode.set("eval")
    found.append(run(T(3)))
    depth.set(4)
    found.append(run(T(3)))
    mode.reset(token)
    return [*found, run(T(3))]


@program
def enum_dispatch(c):
    """Enums with values, methods, a table of functions, flags, auto and missing values."""

    class Reduction(enum.Enum):
        NONE, MEAN, SUM = "none", "mean", "sum"

        @classmethod
        def _missing_(cls, value):
            return cls.MEAN if value == "avg" else None

        def apply(self, loss):
            match self:
                case Reduction.NONE:
                    return loss
                case Reduction.MEAN:
                    return loss.mean()
            return loss.sum()

    class Option(enum.Flag):
        LOG, SQUARE, CLIP = enum.auto(), enum.auto(), enum.auto()
        ALL = LOG | SQUARE | CLIP

    class Level(enum.IntEnum):
        LOW, HIGH = 1, 5

    steps = {
        Option.SQUARE: torch.square,
        Option.LOG: torch.log1p,
        Option.CLIP: lambda x: x.clamp(max=2),
    }

    def f(x, reduction, options, level):
        for option, function in steps.items():
            if option in options:
                x = function(x)
        names = [option.name for option in Option if option & options]
        return (
            Reduction(reduction).apply(x) * level,
            names,
            level > Level.LOW,
            options == Option.ALL,
        )

    run, x = c(f), T(4).abs()
    return [
        run(x, "mean", Option.LOG, Level.LOW),
        run(x, "avg", Option.LOG | Option.CLIP, Level.HIGH),
        run(x, "none", Option.ALL, Level.HIGH),
        run(x, Reduction.SUM, Option(0), 3),
    ]


@program
def single_dispatch(c):
    """functools.singledispatch over containers and tensors, a method version, and a late registration."""

    @functools.singledispatch
    def total(value):
        return value

    @total.register
    def _(value: torch.Tensor):
        return value.sum()

    @total.register(list)
    @total.register(tuple)
    def _(value):
        return sum((total(part) for part in value), torch.zeros(()))

    @total.register(dict)
    def _(value):
        return total(list(value.values()))

    class Norm:
        power = 2

        @functools.singledispatchmethod
        def of(self, value):
            raise TypeError(f"no norm of {type(value).__name__}")

        @of.register
        def _(self, value: torch.Tensor):
            return value.abs() ** self.power

        @of.register
        def _(self, value: float):
            return abs(value) ** self.power

    norm = Norm()

    def f(x, more):
        try:
            other = norm.of(more)
        except TypeError as error:
            other = str(error)
        return total({"a": x, "b": [x * 2, (x, 1.0)], "c": more}), norm.of(x), other

    run = c(f)
    found = [run(T(3), 2.0), run(T(3), 3)]
    total.register(int)(lambda value: value * 100)
    norm.power = 3
    return [*found, run(T(3), 3), run(T(3), -2.0)]


@program
def forwarding_modules(c):
    """A wrapper module whose __getattr__ forwards to what it wraps, with hooks for missing names."""

    class Core(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin, self.gain, self.calls = nn.Linear(3, 3), 2.0, 0

        def forward(self, x):
            self.calls += 1
            return self.lin(x) * self.gain

        def extra(self, x):
            return x - self.gain

    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

        def forward(self, x):
            return self.inner(x) + self.extra(x) + self.lin.bias * self.calls

    torch.manual_seed(0)
    model = Wrapper(Wrapper(Core()))
    run, found = c(model), []
    for gain in (2.0, 2.0, 3.0):
        model.inner.inner.gain = gain
        found.append(run(T(2, 3)))
    try:
        model.missing  # noqa: B018
    except AttributeError as error:
        found.append(str(error)[:20])
    found[-2].sum().backward()
    return [*found, model.calls, model.lin.weight.grad]


@program
def mixins_with_super(c):
    """Cooperative mixins: a diamond of super() calls with keywords, properties and class methods."""

    class Base(nn.Module):
        def __init__(self, **options):
            super().__init__()
            self.order = [*options]

        def forward(self, x):
            self.order.append("base")
            return x

        @classmethod
        def describe(cls):
            return cls.__name__

        @property
        def factor(self):
            return 1.0

    class Scaled(Base):
        def __init__(self, scale=2.0, **options):
            super().__init__(**options)
            self.scale = scale

        def forward(self, x):
            self.order.append("scaled")
            return super().forward(x) * self.factor

        @property
        def factor(self):
            return super().factor * self.scale

    class Residual(Base):
        def forward(self, x):
            self.order.append("residual")
            return x + super().forward(x)

        @classmethod
        def describe(cls):
            return f"residual {super().describe()}"

    class Both(Residual, Scaled):
        def forward(self, x):
            return super().forward(x) - super(Residual, self).forward(x) / 2

    model = Both(scale=3.0, tag=1)
    run = c(model)
    found = [run(T(3)), run(T(3))]
    model.scale = 5.0
    return [*found, run(T(3)), model.order, model.describe()]


@program
def descriptors_that_check(c):
    """Descriptors with __set_name__ that check and count writes, on classes and on slots; a lazy one."""

    class Checked:
        def __init__(self, *kinds):
            self.kinds = kinds

        def __set_name__(self, owner, name):
            self.name, self.place = name, f"_{name}"

        def __get__(self, obj, owner=None):
            return self if obj is None else getattr(obj, self.place)

        def __set__(self, obj, value):
            if not isinstance(value, self.kinds):
                raise TypeError(f"{self.name}: {type(value).__name__}")
            obj.writes = getattr(obj, "writes", 0) + 1
            setattr(obj, self.place, value)

    class Lazy:
        def __init__(self, compute):
            self.compute, self.name = compute, compute.__name__

        def __get__(self, obj, owner=None):
            value = obj.__dict__[self.name] = self.compute(obj)
            return value

    class State:
        value, step = Checked(torch.Tensor), Checked(int)

        @Lazy
        def start(self):
            return self.value.clone()

    state = State()
    state.value, state.step = torch.zeros(3), 0

    def f(x):
        state.value = state.value + x * state.step + state.start
        state.step += 1
        try:
            state.step = "x"
        except TypeError as error:
            return state.value, str(error), state.writes
        return None

    run = c(f)
    found = [run(T(3, seed=i)) for i in range(3)]
    state.step = 10
    return [*found, run(T(3)), state.writes, "start" in vars(state), type(State.value).__name__]


@program
def setters_that_write_tensors(c):
    """Property setters that normalize what they are given, write tensors in place, and invalidate a cache."""

    class Pose:
        def __init__(self):
            self._matrix, self._inverse = torch.eye(2), None

        @property
        def angle(self):
            return torch.atan2(self._matrix[1, 0], self._matrix[0, 0])

        @angle.setter
        def angle(self, value):
            cos, sin = torch.cos(value), torch.sin(value)
            self._matrix[0, 0], self._matrix[1, 1] = cos, cos
            self._matrix[0, 1], self._matrix[1, 0] = -sin, sin
            self._inverse = None

        @angle.deleter
        def angle(self):
            self._matrix.copy_(torch.eye(2))

        @property
        def inverse(self):
            if self._inverse is None:
                self._inverse = self._matrix.T.clone()
            return self._inverse

    pose = Pose()

    def f(x, turn):
        if turn:
            pose.angle = x.sum()
        elif pose._inverse is not None:
            del pose.angle
        return pose.inverse @ x, pose.angle + 1

    run = c(f)
    found = [run(T(2, seed=i), turn) for i, turn in enumerate((True, True, False, False, True))]
    return [*found, pose._matrix]


@program
def generator_pipelines(c):
    """Pipelines of generators with send, yield from, early ends, and windows by a deque."""

    def windows(rows, size):
        seen = collections.deque(maxlen=size)
        for row in rows:
            seen.append(row)
            if len(seen) == size:
                yield torch.stack([*seen])

    def running():
        total, count = 0.0, 0
        while True:
            value = yield total / max(count, 1)
            if value is None:
                return count
            total, count = total + value, count + 1

    def chained(*parts):
        for part in parts:
            given = yield from part
            if given is not None:
                yield torch.tensor(float(given))

    def named(x):
        yield x
        return 7

    def f(x, size, most):
        averages = running()
        next(averages)
        means = [averages.send(w.mean()) for w in itertools.islice(windows(x, size), most)]
        try:
            averages.send(None)
        except StopIteration as stop:
            count = stop.value
        return torch.stack(means), count, [*chained(named(x[0]), iter([x[1]]), named(x[2]))]

    run = c(f)
    return [run(T(6, 2), 2, 10), run(T(6, 2), 3, 2), run(T(5, 2, seed=1), 2, 10)]


@program
def itertools_recipes(c):
    """Recipes of the documentation: batched, sliding windows, round robin, powerset, flatten, unique."""

    def batched(values, n):
        values = iter(values)
        while batch := tuple(itertools.islice(values, n)):
            yield batch

    def round_robin(*iterables):
        pending = collections.deque(map(iter, iterables))
        while pending:
            current = pending.popleft()
            try:
                yield next(current)
            except StopIteration:
                continue
            pending.append(current)

    def powerset(values):
        values = list(values)
        sizes = range(len(values) + 1)
        return itertools.chain.from_iterable(itertools.combinations(values, r) for r in sizes)

    def unique(values, key=None):
        seen = set()
        for value in values:
            k = value if key is None else key(value)
            if k not in seen:
                seen.add(k)
                yield value

    def f(x, n):
        rows = x.unbind()
        sums = [sum(batch) for batch in batched(rows, n)]
        mixed = torch.stack([*round_robin(rows, sums)])
        weights = [sum(subset) for subset in powerset(range(n))]
        keys = [k for k, _ in itertools.groupby(sorted(weights))]
        letters = [*unique("AbBcCA", str.lower)]
        pairs = [(a + b).sum() for a, b in itertools.pairwise(rows)]
        grid = [*itertools.product("ab", range(n))]
        return mixed, weights, keys, letters, pairs, grid, [*itertools.accumulate(range(n), max)]

    run = c(f)
    return [run(T(4, 2), 2), run(T(4, 2), 3), run(T(3, 2, seed=1), 2)]


@program
def chained_settings(c):
    """A ChainMap of defaults, a file and flags, with children, deletions and writes to the first map."""
    defaults, file = {"scale": 2.0, "bias": 1.0, "mode": "mul"}, {"scale": 3.0}
    settings = collections.ChainMap({}, file, defaults)

    def f(x, **flags):
        local = settings.new_child(flags)
        local["calls"] = local.get("calls", 0) + 1
        settings["calls"] = settings.get("calls", 0) + 1
        y = x * local["scale"] if local["mode"] == "mul" else x / local["scale"]
        try:
            del local["bias"]
        except KeyError:
            bias = local["bias"]
        else:
            bias = 0.0
        return y + bias, sorted(local), len(local.maps), local["calls"], "mode" in local

    run = c(f)
    found = [run(T(3)), run(T(3), scale=5.0), run(T(3), mode="div", bias=4.0)]
    file["mode"] = "div"
    del file["scale"]
    return [*found, run(T(3)), dict(settings), settings.parents["scale"]]


@program
def namespaces_and_getters(c):
    """SimpleNamespace configurations, attrgetter with dots, itemgetter, methodcaller, and partials as steps."""
    args = types.SimpleNamespace(
        model=types.SimpleNamespace(scale=2.0, bias=0.5), steps=["abs", "sum"]
    )
    scale_of, both = operator.attrgetter("model.scale"), operator.attrgetter("model.bias", "steps")
    ends = operator.itemgetter(0, -1)

    def f(x, args):
        bias, steps = both(args)
        y = x * scale_of(args) + bias
        for name in steps:
            y = operator.methodcaller(name)(y)
        args.model.bias = bias + 1
        setattr(args, "last", len(steps))
        table = sorted([(2, "b"), (1, "c"), (1, "a")], key=operator.itemgetter(0))
        return y, ends(x), table, args == types.SimpleNamespace(), vars(args.model)

    run = c(f)
    found = [run(T(3), args), run(T(3), args)]
    args.model = types.SimpleNamespace(scale=-1.0, bias=0.0)
    args.steps = [*args.steps, "exp"]
    return [*found, run(T(3), args), args.last, repr(args.model)]


@program
def packed_parameters(c):
    """Parameters packed into one vector by a layout of names, shapes and offsets, and unpacked as views."""

    class Field(NamedTuple):
        name: str
        shape: tuple
        offset: int

        @property
        def end(self):
            return self.offset + functools.reduce(operator.mul, self.shape, 1)

    def layout(**shapes):
        fields, offset = [], 0
        for name, shape in shapes.items():
            fields.append(Field(name, shape, offset))
            offset = fields[-1].end
        return fields

    def unpack(flat, fields):
        return {f.name: flat[f.offset : f.end].view(f.shape) for f in fields}

    def f(flat, x, fields):
        parts = unpack(flat, fields)
        y = x @ parts["w"] + parts["b"]
        parts["b"].mul_(0.5)
        if "scale" in parts:
            y = y * parts["scale"]
        return y, torch.cat([p.reshape(-1) for p in parts.values()]), fields[-1]._asdict()

    run, small = c(f), layout(w=(2, 3), b=(3,))
    large = layout(w=(2, 3), b=(3,), scale=())
    flat = T(10)
    found = [
        run(flat, T(4, 2), small),
        run(flat, T(4, 2, seed=1), large),
        run(flat, T(5, 2), small),
    ]
    return [*found, flat]


@program
def memo_by_shape(c):
    """Memo dicts keyed by shape, dtype and arguments: position tables and masks made once, evicted when many."""
    memo, hits = {}, collections.Counter()

    def remembered(function):
        @functools.wraps(function)
        def call(x, *more):
            key = (function.__name__, tuple(x.shape), x.dtype, *more)
            hits[key in memo] += 1
            if key not in memo:
                if len(memo) >= 3:
                    memo.pop(next(iter(memo)))
                memo[key] = function(x, *more)
            return memo[key]

        return call

    @remembered
    def positions(x, base):
        return torch.arange(x.shape[-1], dtype=x.dtype) / base

    @remembered
    def mask(x):
        return torch.ones(x.shape[-1], x.shape[-1]).tril()

    def f(x, base):
        return (x + positions(x, base)) @ mask(x)

    run = c(f)
    found = [
        run(T(2, n), base) for n, base in ((3, 10.0), (3, 10.0), (4, 10.0), (3, 2.0), (3, 10.0))
    ]
    return [*found, len(memo), hits[True], hits[False], [key[0] for key in memo]]


@program
def nested_dicts(c):
    """Recursion over nested dicts and lists: a map with paths, a merge, a flatten and its inverse."""

    def mapped(function, tree, path=()):
        if isinstance(tree, dict):
            return {k: mapped(function, v, (*path, k)) for k, v in tree.items()}
        if isinstance(tree, (list, tuple)):
            return type(tree)([mapped(function, v, (*path, i)) for i, v in enumerate(tree)])
        return function(path, tree)

    def merged(one, other):
        if not (isinstance(one, dict) and isinstance(other, dict)):
            return other
        keys = [*one, *(k for k in other if k not in one)]
        return {
            k: merged(one[k], other[k]) if k in one and k in other else one.get(k, other.get(k))
            for k in keys
        }

    def flat(tree, prefix=""):
        for key, value in tree.items():
            if isinstance(value, dict):
                yield from flat(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", value

    def f(tree, update):
        whole = merged(tree, update)
        scaled = mapped(
            lambda path, leaf: leaf * len(path) if torch.is_tensor(leaf) else leaf, whole
        )
        return scaled, dict(flat(scaled)), [name for name, _ in flat(update)]

    run, x = c(f), T(2)
    tree = {"a": x, "b": {"c": [x, 1], "d": (x, {"e": x})}}
    found = [run(tree, {"b": {"c": [x + 1]}}), run(tree, {"z": {"y": {"x": x}}, "a": 5})]
    tree["b"]["f"] = x * 3
    return [*found, run(tree, {"b": {"f": 2, "c": {}}})]


@program
def exceptions_as_control(c):
    """Exceptions as control flow: a search that stops by raising, retries, causes, notes, finally and else."""

    class Found(Exception):
        def __init__(self, where, value):
            super().__init__(where)
            self.where, self.value = where, value

    def search(rows, wanted, path=()):
        for i, row in enumerate(rows):
            if isinstance(row, list):
                search(row, wanted, (*path, i))
            elif row.shape[0] == wanted:
                raise Found((*path, i), row)

    def attempt(x, log, limit):
        for tried in range(3):
            try:
                if tried < limit:
                    raise ValueError(f"try {tried}")
                return x * (tried + 1)
            except ValueError as error:
                log.append(str(error))
                last = error
            finally:
                log.append("done")
        else:
            log.append("never")
        raise RuntimeError("gave up") from last

    def f(x, wanted, limit):
        log = []
        rows = [x, [x[:2], [x[:1], x.repeat(2)]]]
        try:
            search(rows, wanted)
        except Found as found:
            y, where = found.value * 2, found.where
        else:
            y, where = x.sum(), None
        try:
            y = attempt(y, log, limit)
        except RuntimeError as error:
            log.append((error.args, type(error.__cause__).__name__, str(error.__cause__)))
        return y, where, log

    run = c(f)
    return [run(T(3), w, limit) for w, limit in ((1, 0), (2, 1), (6, 2), (7, 5), (3, 5))]


@program
def stacks_of_contexts(c):
    """An ExitStack of modes, callbacks in order, pop_all, suppressed errors and a decorator of contexts."""
    events = []

    class Scale(contextlib.ContextDecorator):
        def __init__(self, state, by):
            self.state, self.by = state, by

        def __enter__(self):
            self.state["scale"] *= self.by
            return self.state["scale"]

        def __exit__(self, kind, error, trace):
            self.state["scale"] /= self.by
            events.append(kind and kind.__name__)
            return kind is KeyError

    state = {"scale": 1.0}

    def f(x, factors, fails):
        out = []
        with contextlib.ExitStack() as stack:
            stack.callback(out.append, "last")
            for factor in factors:
                x = x * stack.enter_context(Scale(state, factor))
            stack.push(lambda kind, *_: out.append(kind is None))
            if fails:
                raise KeyError(fails)
            kept = stack.pop_all()
        with contextlib.suppress(ZeroDivisionError, KeyError):
            kept.close()
            out.append("closed")
        with Scale(state, 3.0), contextlib.nullcontext(state["scale"]) as now:
            x = x + now
        return x, out

    run = c(f)
    found = []
    for factors, fails in (((2.0, 3.0), ""), ((2.0,), ""), ((5.0, 2.0), "key"), ((), "")):
        try:
            found.append(run(T(2), factors, fails))
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return [*found, events, state]


@program
def callbacks_by_weak_references(c):
    """Observers held by weak methods and a weak set: those that died are not called; a subject behind a proxy."""

    class Subject:
        def __init__(self):
            self.observers, self.groups = [], weakref.WeakSet()

        def subscribe(self, method):
            self.observers.append(weakref.WeakMethod(method))

        def notify(self, x):
            for reference in self.observers:
                method = reference()
                if method is not None:
                    x = method(x)
            return x + len(self.groups)

    class Observer:
        def __init__(self, by):
            self.by, self.seen = by, 0

        def on(self, x):
            self.seen += 1
            return x * self.by

    subject, one, two = Subject(), Observer(2.0), Observer(3.0)
    subject.subscribe(one.on)
    subject.subscribe(two.on)
    subject.groups.add(one)
    view = weakref.proxy(subject)

    run = c(lambda x: (view.notify(x), len(view.observers), one in view.groups))
    found = [run(T(3)), run(T(3))]
    one.by = 5.0
    found.append(run(T(3)))
    del two
    return [*found, run(T(3)), one.seen]


@program
def closures_with_nonlocals(c):
    """Closures that count, average and swap by nonlocal; two that share a cell; a late rebound function."""

    def counter(start):
        count, total = start, torch.zeros(2)

        def step(x):
            nonlocal count, total
            count += 1
            total = total + x
            return total / count

        def read():
            return count, total

        def reset():
            nonlocal count
            count, old = start, count
            return old

        return step, read, reset

    step, read, reset = counter(0)
    scale = 2.0

    def f(x, clear):
        mean = step(x) * scale
        adders = [lambda y, i=i: y + i for i in range(3)] + [lambda y: y * len(adders)]
        for add in adders:
            x = add(x)
        return mean, x, reset() if clear else None, read()[0]

    run = c(f)
    found = [run(T(2, seed=i), clear) for i, clear in enumerate((False, False, True, False))]
    scale = 3.0
    return [*found, run(T(2), False), read()]


@program
def comparisons_and_walrus(c):
    """Chained comparisons with effects, walrus in conditions and comprehensions, conditional chains, any and all."""
    calls = []

    def noted(value):
        calls.append(value)
        return value

    def f(x, low, high):
        n = x.shape[0]
        inside = noted(low) < noted(n) <= noted(high) != noted(9)
        if (half := n // 2) > 1 and (rest := n - half) >= half:
            y = x[:half].sum() * rest
        elif not (low < 0 < high):
            y = x.mean()
        else:
            y = x.max()
        sizes = [size for k in range(n) if (size := k * k) % 2 == 0 or size > high]
        last = (size, any((hit := k) > 2 for k in sizes), hit)
        return (
            y if inside else -y,
            sizes,
            last,
            all(a < b for a, b in zip(sizes, sizes[1:])),
            low <= n == n,
        )

    run = c(f)
    return [
        run(T(n), *ends)
        for n, ends in ((5, (1, 9)), (5, (7, 9)), (2, (-1, 3)), (3, (0, 1)), (6, (1, 6)))
    ] + [calls]


@program
def match_with_classes(c):
    """Match statements with classes, __match_args__, guards, captures, sequences, mappings and alternatives."""

    @dataclasses.dataclass
    class Scale:
        by: float

    @dataclasses.dataclass
    class Affine:
        w: torch.Tensor
        b: float = 0.0

    class Point:
        __match_args__ = ("x", "y")

        def __init__(self, x, y):
            self.x, self.y = x, y

    def apply(x, command):
        match command:
            case Scale(by) if by > 1:
                return x * by
            case Scale(by=0 | 1):
                return x
            case Affine(w, b=float(b)):
                return x @ w + b
            case Point(0, y) | Point(y, 0):
                return x + y
            case [first, *rest]:
                return apply(apply(x, first), rest) if rest else apply(x, first)
            case {"op": "clip", "max": int() | float() as most, **others}:
                return x.clamp(max=most) + len(others)
            case str(name) if hasattr(torch, name):
                return getattr(torch, name)(x)
            case None | ():
                return x
            case _:
                raise ValueError(f"no {type(command).__name__}")

    def f(x, command):
        try:
            return apply(x, command), "done"
        except ValueError as error:
            return x, str(error)

    run, x = c(f), T(2, 2)
    commands = [
        Scale(2.0), Scale(1), Scale(0.5), Affine(T(2, 2, seed=3), 1.5), Affine(T(2, 2), 2), Point(0, 3.0),
        Point(4.0, 0), Point(1, 1), [Scale(3.0), "sin", {"op": "clip", "max": 0.5, "z": 1}], {"op": "clip"},
        "cos", "nothing", None, 3,
    ]  # fmt: skip
    return [run(x, command) for command in commands]


@runtime_checkable
class Invertible(Protocol):
    """Has an inverse."""

    def inverse(self, y): ...


@program
def protocols_and_signatures(c):
    """Runtime protocols, signatures that choose arguments, templates of text, and operators of a small algebra."""

    class Shift:
        def __init__(self, by):
            self.by = by

        def __call__(self, x):
            return x + self.by

        def inverse(self, y):
            return y - self.by

        def __matmul__(self, other):
            return Composed(self, other)

        def __eq__(self, other):
            return isinstance(other, Shift) and self.by == other.by

        def __hash__(self):
            return hash(("shift", self.by))

    class Square:
        def __call__(self, x, power=2, *, root=False):
            return x.abs() ** (1 / power if root else power)

    class Composed(Shift):
        def __init__(self, *parts):
            self.parts = parts

        def __call__(self, x):
            return functools.reduce(lambda y, part: part(y), reversed(self.parts), x)

        def inverse(self, y):
            return functools.reduce(lambda x, part: part.inverse(x), self.parts, y)

    text = string.Template("$kind of $count")

    def f(x, function, **options):
        known = inspect.signature(function.__call__).parameters
        y = function(x, **{k: v for k, v in options.items() if k in known})
        back = function.inverse(y) if isinstance(function, Invertible) else None
        return y, back, text.substitute(kind=type(function).__name__, count=len(known))

    run, x = c(f), T(3)
    shifts = {Shift(1.0): "one", Shift(2.0): "two"}
    return [
        run(x, Shift(1.0)), run(x, Square(), root=True, other=1), run(x, Square(), power=3),
        run(x, Shift(1.0) @ Shift(2.5)), run(x, Shift(2.0)), shifts[Shift(2.0)],
    ]  # fmt: skip


@program
def modules_with_changing_parts(c):
    """A module dict routed by name, parts that are swapped and frozen, buffers that count, and a shared weight."""

    class Router(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict(
                {"a": nn.Linear(3, 3), "b": nn.Sequential(nn.Linear(3, 3), nn.Tanh())}
            )
            self.register_buffer("used", torch.zeros(2))
            self.order = ("a", "b")
            self.tied = self.parts["a"].weight

        def forward(self, x, *, skip=frozenset()):
            for i, name in enumerate(self.order):
                if name in skip:
                    continue
                x = self.parts[name](x)
                self.used[i] += 1
            return F.linear(x, self.tied), self.used.clone()

    torch.manual_seed(0)
    model = Router()
    run, x = c(model), T(2, 3)
    found = [run(x), run(x, skip={"a"})]
    model.order = ("b", "a", "b")[:2]
    found.append(run(x))
    model.parts["a"] = nn.Identity()
    model.tied.requires_grad_(False)
    found.append(run(x))
    found[-1][0].sum().backward()
    return [*found, model.parts["b"][0].weight.grad, model.tied.grad]
