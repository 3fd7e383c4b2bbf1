"""The standard library: functools, itertools, heapq, bisect, contextlib, random, inspect, ..."""

# The programs under test are written in every style.
# ruff: noqa

from __future__ import annotations

import bisect
import contextlib
import enum
import functools
import heapq
import inspect
import itertools
import logging
import math
import operator
import os
import random
import struct
import sys
import time
import typing
import warnings
from typing import Any

import pytest
import torch

from tests.unit.bytecode.python.programs import Case, X, case, expressions

TABLE: list[Any] = []
LOGGER = logging.getLogger("tests.capture")

expressions(
    TABLE,
    """
    functools.reduce(lambda a, b: a + b, [1, 2, 3]), functools.reduce(operator.mul, [2, 3], 10), functools.reduce(lambda a, b: a + b, [x, x])
    functools.partial(pow, 2)(3), functools.partial(int, base=2)("101"), functools.partial(lambda a, b: (a, b), b=1)(2), functools.partial(max, 1).args
    functools.partial(functools.partial(lambda *a, **k: (a, k), 1), 2, z=3)(4), sorted("bA", key=functools.cmp_to_key(lambda a, b: (a > b) - (a < b)))
    list(itertools.chain([1], (2,), "a")), list(itertools.chain.from_iterable([[1], [2]])), list(itertools.islice(range(9), 2, 8, 3)), list(itertools.islice([1, 2], 1))
    list(itertools.zip_longest([1, 2], "a", fillvalue=0)), list(itertools.product([1, 2], "ab")), list(itertools.product([0, 1], repeat=2)), list(itertools.pairwise([1, 2, 3]))
    list(itertools.combinations([1, 2, 3], 2)), list(itertools.permutations([1, 2, 3], 2)), list(itertools.combinations_with_replacement([1, 2], 2)), list(itertools.permutations("ab"))
    list(itertools.accumulate([1, 2, 3])), list(itertools.accumulate([1, 2], operator.mul, initial=5)), list(itertools.repeat(1, 2)), list(itertools.compress("abc", [1, 0, 1]))
    list(itertools.takewhile(lambda v: v < 2, [1, 2, 1])), list(itertools.dropwhile(lambda v: v < 2, [1, 2, 1])), list(itertools.filterfalse(None, [0, 1])), list(itertools.filterfalse(lambda v: v > 1, [1, 2]))
    list(itertools.starmap(pow, [(2, 3), (3, 2)])), [(k, list(g)) for k, g in itertools.groupby("aab")], [(k, list(g)) for k, g in itertools.groupby([1, 2, 4], key=lambda v: v % 2)]
    next(itertools.count(5)), list(itertools.islice(itertools.count(1, 2), 3)), list(itertools.islice(itertools.cycle("ab"), 3)), [next(i) for i in itertools.tee([1, 2])], list(zip(itertools.count(), "ab"))
    list(itertools.islice(itertools.count(0.5, 0.25), 3)), list(itertools.accumulate([x, x]))[1], list(itertools.product()), list(itertools.chain()), list(itertools.zip_longest())
    bisect.bisect([1, 3], 2), bisect.bisect_left([1, 3], 3), bisect.bisect_right([1, 3], 3)
    heapq.nlargest(2, [1, 3, 2]), heapq.nsmallest(1, [2, 1])
    list(heapq.merge([1, 3], [2]))
    inspect.signature(named).parameters["b"].default, list(inspect.signature(named).parameters), "a" in inspect.signature(named).parameters, inspect.isfunction(named), inspect.isclass(int)
    named.__name__, named.__doc__, named.__defaults__, named.__kwdefaults__, named.__annotations__, named.__code__.co_name, named.__module__, named.__code__.co_varnames, named.__qualname__
    typing.get_origin(list[int]), typing.get_args(dict[str, int]), list[int] == list[int], typing.TYPE_CHECKING
    sys.version_info >= (3, 8), sys.platform, sys.maxsize, sys.byteorder, math.pi, os.sep, sys.version_info.major, sys.version_info[:2] > (3, 0), sys.float_info.epsilon, sys.getrecursionlimit() > 0
    LOGGER.name, LOGGER.isEnabledFor(logging.DEBUG), LOGGER.level, logging.INFO, LOGGER.disabled
    time.time() > 0  # breaks=1
    time.perf_counter() > 0  # breaks=1
    os.environ.get("NO_SUCH_VARIABLE")  # breaks=any
    os.getpid() > 0  # breaks=1
    random.Random(3).random()  # breaks=any
    id(x) == id(x)  # breaks=any
    id([]) != 0  # breaks=1
    """,
    {
        m.__name__: m
        for m in (bisect, functools, heapq, inspect, itertools, logging, math, operator, os, random, sys, time, typing)
    }
    | {"named": lambda a, b=2, *, c=3: a, "LOGGER": LOGGER},
)  # fmt: skip


def plain(a: Any, b: Any = 2, *args: Any, c: Any = 3, **kwargs: Any) -> Any:
    """A function."""
    return a, b, args, c, kwargs


def logged(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return ("logged", function(*args, **kwargs))

    return wrapper


@logged
def decorated(x: Any) -> Any:
    return x * 2


@case(TABLE)
def wraps_inside_and_outside(x: torch.Tensor) -> Any:
    @logged
    def inner(y: Any) -> Any:
        "Doc."
        return y + 1

    return (
        decorated(x),
        inner(x),
        inner.__name__,
        inner.__doc__,
        inner.__wrapped__(1),
        decorated.__wrapped__(2),
        decorated.__name__,
    )


@case(TABLE)
def wraps_escapes(x: torch.Tensor) -> Any:
    @logged
    def inner(y: Any) -> Any:
        return y + x

    return inner


CALLS: list[Any] = []


@functools.cache
def cached(n: int) -> int:
    return n * n


@functools.cache
def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.lru_cache
def cached_tensor(x: Any, n: int) -> Any:
    return x * n


@case(TABLE)
def caches(x: torch.Tensor) -> Any:
    return x * cached(3), fibonacci(10), cached(3), cached.__wrapped__(2)


@case(TABLE, breaks=None)
def a_cache_of_tensors(x: torch.Tensor) -> Any:
    return cached_tensor(x, 2)


@functools.singledispatch
def shown(value: Any) -> Any:
    return ("any", value)


@shown.register
def _(value: int) -> Any:
    return ("int", value)


@shown.register(list)
def _(value: Any) -> Any:
    return ("list", [shown(v) for v in value])


@case(TABLE, breaks=None)
def single_dispatch(x: torch.Tensor) -> Any:
    return x + 1, shown(1), shown([1, "a"]), shown(2.0), shown(True)


@case(TABLE, lambda: (X, functools.partial(plain, 1, c=5)))
def partials_from_outside(x: torch.Tensor, p: Any) -> Any:
    made = functools.partial(plain, x, d=4)
    return (
        p(2, e=3),
        made(),
        p.func is plain,
        p.args,
        p.keywords,
        made,
        callable(p),
        functools.partial(made, 7)(8),
    )


@case(TABLE, X, [3, 1, 2])
def heaps(x: torch.Tensor, v: list[int]) -> Any:
    heapq.heapify(v)
    heapq.heappush(v, 0)
    first = heapq.heappop(v)
    return (
        x + first,
        heapq.heappushpop(v, 9),
        heapq.heapreplace(v, 4),
        v,
        heapq.nsmallest(2, v, key=lambda k: -k),
    )


@case(TABLE, X, [1, 3])
def sorted_insertion(x: torch.Tensor, v: list[int]) -> Any:
    bisect.insort(v, 2)
    bisect.insort_left(v, 2)
    return x + 1, v, bisect.bisect(v, 2, key=lambda k: k)


@contextlib.contextmanager
def managed(log: list[Any], swallow: bool = False) -> Any:
    log.append("in")
    try:
        yield len(log)
    except ValueError as error:
        log.append(error.args)
        if not swallow:
            raise
    finally:
        log.append("out")


@case(TABLE, X, [])
def context_managers(x: torch.Tensor, log: list[Any]) -> Any:
    with managed(log) as n:
        y = x + n
    with managed(log, swallow=True):
        raise ValueError("swallowed")
    try:
        with managed(log):
            raise ValueError("raised")
    except ValueError as error:
        log.append(str(error))
    with contextlib.nullcontext(5) as five, contextlib.suppress(KeyError, IndexError):
        log.append(five)
        {}["k"]
    return y


@case(TABLE, X, [])
def exit_stacks(x: torch.Tensor, log: list[Any]) -> Any:
    with contextlib.ExitStack() as stack:
        n = stack.enter_context(managed(log))
        stack.callback(log.append, "callback")
        stack.push(lambda *error: log.append(error[0]))
        x = x * n
    with contextlib.closing(Closing(log)):
        pass
    return x


class Closing:
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def close(self) -> None:
        self.log.append("closed")


class Manager(contextlib.ContextDecorator):
    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


@Manager()
def under_a_manager(x: Any) -> Any:
    return x + 1


@case(TABLE)
def context_decorators(x: torch.Tensor) -> Any:
    return under_a_manager(x)


@case(TABLE, breaks=None)
def seeded_random_numbers(x: torch.Tensor) -> Any:
    random.seed(3)
    a = random.random(), random.randint(1, 10), random.choice([1, 2, 3]), random.uniform(0, 1)
    v = [1, 2, 3, 4]
    random.shuffle(v)
    return x * a[1], a, v, random.sample(range(9), 2)


@case(TABLE, lambda: (X, random.Random(5)), breaks=None)
def a_generator_of_random_numbers(x: torch.Tensor, r: random.Random) -> Any:
    return x + r.random(), r.randint(0, 100), x * r.random()


@case(TABLE)
def a_random_choice_is_never_frozen(x: torch.Tensor) -> Any:
    return x + 1, NAMES


NAMES = ("a", "b")


@case(TABLE)
def disabled_logging(x: torch.Tensor) -> Any:
    LOGGER.debug("value %s", x)
    y = x + 1
    LOGGER.info("more %d", 3)
    logging.getLogger("tests.capture").debug("again")
    LOGGER.log(logging.DEBUG, "x")
    return y * 2


@functools.lru_cache(None)
def warning_once(self: logging.Logger, *args: Any, **kwargs: Any) -> None:
    self.debug(*args, **kwargs)


@case(TABLE)
def a_warning_logged_once(x: torch.Tensor) -> Any:
    warning_once(LOGGER, "a message")
    return x + 1


@case(TABLE, breaks=None)
def enabled_logging(x: torch.Tensor) -> Any:
    y = x + 1
    LOGGER.critical("seen")
    return y * 2


@case(TABLE, breaks=None)
def a_warning(x: torch.Tensor) -> Any:
    with warnings.catch_warnings(record=True):
        warnings.warn("careful", stacklevel=1)
    return x + 1


@case(TABLE, breaks=1, code="builtin")
def printing(x: torch.Tensor) -> Any:
    y = x + 1
    print(end="")
    return y * 2


@case(TABLE, breaks=None)
def evaluated_text(x: torch.Tensor) -> Any:
    y = x + 1
    n = eval("1 + 1")
    scope: dict[str, Any] = {}
    exec("z = 3", scope)
    return y * n, scope["z"], eval("n + 1", {"n": 4})


@case(TABLE, breaks=None)
def frame_variables(x: torch.Tensor) -> Any:
    y = x + 1
    names = sorted(locals())
    return y * 2, names, "TABLE" in globals(), globals()["NAMES"]


@case(TABLE)
def imports_inside(x: torch.Tensor) -> Any:
    import collections
    import math as m
    import os.path
    from collections import OrderedDict as Ordered
    from functools import partial

    import torch.nn.functional as F

    return (
        F.relu(x),
        m.pi,
        Ordered(a=1),
        partial(max, 1)(2),
        collections.deque([1]),
        os.path.basename("a/b"),
    )


@case(TABLE, breaks=None)
def a_missing_import(x: torch.Tensor) -> Any:
    try:
        import no_such_module_anywhere  # noqa: F401
    except ImportError:
        found = False
    return x + 1, found


@case(TABLE)
def iterators_of_itertools_escape(x: torch.Tensor) -> Any:
    c = itertools.count(3)
    next(c)
    z = zip([1, 2, 3], [x, x, x])
    next(z)
    return (
        x + 1,
        c,
        z,
        itertools.chain([1], [2]),
        itertools.islice(c, 2),
        enumerate([1, 2]),
        map(abs, [-1]),
        itertools.repeat(1, 2),
        reversed([1, 2]),
    )


@case(TABLE, breaks=None)
def lazy_iterators_of_itertools_escape(x: torch.Tensor) -> Any:
    return (
        x + 1,
        itertools.product([1], [2]),
        itertools.accumulate([1, 2]),
        itertools.cycle([1]),
        itertools.groupby("aab"),
        filter(None, [0, 1]),
        itertools.starmap(pow, [(2, 3)]),
    )


@case(TABLE, X, 3)
def tee_and_groups(x: torch.Tensor, n: int) -> Any:
    a, b = itertools.tee(iter(range(n)))
    next(a)
    groups = {k: [v for v in g] for k, g in itertools.groupby(sorted("banana"))}
    return x + 1, list(a), list(b), groups


class Pool(enum.Enum):
    MEAN = "mean"
    MAX = "amax"

    def __call__(self, x: torch.Tensor, dim: int = 0) -> torch.Tensor:
        return getattr(x, self.value)(dim)


@case(TABLE, X, Pool.MAX)
def members_of_an_enumeration_are_called(x: torch.Tensor, pool: Pool) -> Any:
    return pool(x), Pool.MEAN(x, dim=-1), [each(x) for each in Pool]


@case(TABLE, X, 300)
def numbers_as_bytes(x: torch.Tensor, n: int) -> Any:
    packed = struct.pack("<HI", n, 2 * n)
    both = struct.unpack("<HI", packed)
    return x * int.from_bytes(packed[:2], "little"), both, bytes.fromhex("0aff"), n.to_bytes(4)


LINEAR = torch.nn.Linear(2, 2)


@case(TABLE, X)
def weights_are_loaded(x: torch.Tensor) -> Any:
    before = {name: value.clone() for name, value in LINEAR.state_dict().items()}
    kept = LINEAR.load_state_dict({name: value * 0 + 2 for name, value in before.items()})
    y = x.new_ones(2) @ LINEAR.weight + LINEAR.bias
    LINEAR.load_state_dict(before)
    return y.detach(), list(kept)


@pytest.mark.parametrize("program", TABLE)
def test_library(program: Case) -> None:
    program.run()
