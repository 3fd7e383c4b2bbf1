"""functools, operator, itertools and collections."""

import collections
import functools
import heapq
import itertools
import operator
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque

import torch

from tests.unit.bytecode.language import program


def add3(a, b, c=0):
    return a + b * c


@program
def partial(x):
    half = functools.partial(add3, x, c=2)
    return half(1), half.func is add3, half.keywords, hasattr(half, "args"), half.args[0]


@program
def partial_of_partial(x):
    p = functools.partial(functools.partial(add3, x), c=3)
    return p(2), len(p.args), p.func is add3, getattr(p, "nothing", None)


@program
def partial_with_attribute(x):
    p = functools.partial(add3, x)
    p.note = "n"
    return p(1, 2), p.note, hasattr(p, "other"), isinstance(p, functools.partial), callable(p)


class Buttons:
    def press(self, x, k):
        return x * k

    twice = functools.partialmethod(press, k=2)


@program
def partial_method(x):
    return Buttons().twice(x)


@functools.lru_cache(maxsize=None)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@program
def cached_on_constants(x):
    return x + fibonacci(10)


@program
def cached_inside(x):
    calls = []

    @functools.cache
    def square(n):
        calls.append(n)
        return n * n

    return x + square(3) + square(3), calls


@program
def cached_of_tensors(x):
    calls = []

    @functools.lru_cache(maxsize=4)
    def doubled(t):
        calls.append(1)
        return t * 2

    return doubled(x) + doubled(x), len(calls)


@functools.singledispatch
def describe(value):
    return "object"


@describe.register
def _(value: int):
    return "int"


@describe.register(list)
def _(value):
    return "list"


@describe.register
def _(value: torch.Tensor):
    return value + 1


@program
def single_dispatch(x):
    return describe(x), describe(3), describe([1]), describe("s"), describe(True)


class Lazy:
    def __init__(self, x):
        self.x, self.calls = x, 0

    @functools.cached_property
    def heavy(self):
        self.calls += 1
        return self.x * 2


@program
def cached_property(x):
    owner = Lazy(x)
    return owner.heavy + owner.heavy, owner.calls, "heavy" in owner.__dict__


@functools.total_ordering
class Version:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n


@program
def total_ordering(x):
    return x + (Version(1) >= Version(0)) + (Version(1) <= Version(0))


@program
def reduced(x):
    return functools.reduce(operator.mul, [x, x + 1, 2]), functools.reduce(max, [1, 5, 3], 0)


@program
def wrapped(x):
    def noting(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            return function(*args, **kwargs) * 2

        return inner

    @noting
    def work(x):
        """Works."""
        return x + 1

    return work(x), work.__name__, work.__doc__, work.__wrapped__(x)


@program
def compared_by_key(x):
    key = functools.cmp_to_key(lambda a, b: b - a)
    return x + sorted([3, 1, 2], key=key)[0]


@program
def operators(x):
    y = operator.add(x, 1)
    y = operator.iadd(y, 1)
    pairs = {"a": x}
    operator.setitem(pairs, "b", y)
    return [
        operator.neg(y), operator.matmul(y, y.mT), operator.getitem(pairs, "b"), operator.truth([1]),
        operator.concat([1], [2]), operator.countOf([1, 1, 2], 1), operator.indexOf([3, 4], 4),
        operator.length_hint([1, 2]), operator.not_(0), operator.is_(None, None), operator.index(4),
        operator.contains([1], 1), operator.inv(5), operator.pos(x), operator.abs(x), operator.lt(1, 2),
        operator.call(operator.mul, x, 2),
    ]  # fmt: skip


@program
def getters(x):
    class Owner:
        pass

    owner = Owner()
    owner.a = owner
    owner.x = x
    get = operator.attrgetter("a.x", "x")
    return (
        get(owner)[0] * 2,
        operator.itemgetter(1, 0)([x, 3])[0],
        operator.methodcaller("mul", 3)(x),
    )


@program
def delete_and_concat(x):
    items = [x, x + 1, x + 2]
    operator.delitem(items, 0)
    items = operator.iconcat(items, [x])
    return items


@program
def all_of_itertools(x):
    rows = [x, x + 1, x + 2]
    return [
        list(itertools.accumulate(rows)), list(itertools.accumulate([1, 2, 3], operator.mul, initial=2)),
        list(itertools.chain(rows, [1])), list(itertools.chain.from_iterable([[1], [2, 3]])),
        list(itertools.combinations(range(3), 2)), list(itertools.combinations_with_replacement("ab", 2)),
        list(itertools.compress(rows, [1, 0, 1])), list(itertools.islice(itertools.count(2, 3), 3)),
        list(itertools.islice(itertools.cycle([1, 2]), 5)), list(itertools.dropwhile(lambda n: n < 2, [1, 2, 1])),
        list(itertools.filterfalse(lambda n: n % 2, range(4))), list(itertools.pairwise([1, 2, 3])),
        list(itertools.islice([1, 2, 3, 4], 1, None, 2)), list(itertools.permutations([1, 2, 3], 2)),
        list(itertools.product([1, 2], "ab")), list(itertools.product([0, 1], repeat=2)),
        list(itertools.repeat(x, 2)), list(itertools.starmap(pow, [(2, 3), (3, 2)])),
        list(itertools.takewhile(lambda n: n < 3, [1, 2, 3, 1])), [list(i) for i in itertools.tee([1, 2], 2)],
        list(itertools.zip_longest([1, 2], [3], fillvalue=0)),
        [(k, list(g)) for k, g in itertools.groupby([1, 1, 2], lambda n: n)],
    ]  # fmt: skip


@program
def pairwise_of_tensors(x):
    return [b - a for a, b in itertools.pairwise([x, x * 2, x * 4])]


@program
def permutations_of_tensors(x):
    return [a - b for a, b in itertools.permutations([x, x * 2], 2)]


@program
def endless_pairwise(x):
    pairs = itertools.pairwise(itertools.count())
    return x + next(pairs)[1] + next(pairs)[0]


@program
def counter(x):
    c = Counter("abca")
    c.update({"a": 2})
    c["z"] -= 1
    d = Counter(a=1, b=5)
    return x + c["a"], c.most_common(1), c["missing"], c + d, c - d, c & d, c | d, sum(c.values())


@program
def counter_of_words(x):
    c = Counter(["a", "b", "a"])
    c.subtract(["a"])
    return x + c.total(), sorted(c.elements()), dict(c), c == Counter(b=1, a=1)


@program
def bounded_deque(x):
    d = deque([x, x + 1], maxlen=3)
    d.append(x + 2)
    d.append(x + 3)
    d.appendleft(x)
    d.rotate(1)
    d.extendleft([1])
    return list(d), d.maxlen, len(d)


@program
def deque_methods(x):
    d = deque([1, 2, 3])
    d.reverse()
    d.remove(2)
    d.insert(1, 5)
    return x + d.popleft() + d.pop(), d.index(5), d.count(5), d.copy(), list(reversed(d)), 5 in d


@program
def chain_map(x):
    base = {"a": x, "b": 1}
    scopes = ChainMap({"b": 2}, base)
    child = scopes.new_child({"c": 3})
    child["d"] = 4
    return scopes["a"] + scopes["b"], child["c"], len(child), sorted(child), child.parents["b"]


@program
def ordered_dict(x):
    d = OrderedDict(a=x, b=2, c=3)
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    first = d.popitem(last=False)
    return list(d), first, d["a"] * 2, OrderedDict(a=1) == {"a": 1}, list(reversed(d))


@program
def default_dict(x):
    d = defaultdict(list)
    for i, name in enumerate("aba"):
        d[name].append(x + i)
    e = defaultdict(lambda: x)
    return sum(d["a"]), dict(d), e["any"], e.get("other"), d.default_factory is list


@program
def user_dict(x):
    class Lower(collections.UserDict):
        def __setitem__(self, key, value):
            super().__setitem__(key.lower(), value)

    d = Lower(A=x)
    d["B"] = 2
    return d["a"] * d["b"], sorted(d)


@program
def user_list(x):
    class Stack(collections.UserList):
        def top(self):
            return self[-1]

    s = Stack([x])
    s.append(x + 1)
    return s.top(), len(s)


@program
def heap(x):
    h = [5, 1, 4]
    heapq.heapify(h)
    heapq.heappush(h, 0)
    return (
        x + heapq.heappop(h),
        heapq.nlargest(2, h),
        heapq.nsmallest(1, h),
        list(heapq.merge([1, 4], [2])),
    )


@program
def cache_info(x):
    @functools.lru_cache
    def f(n):
        return n + 1

    f(1), f(1), f(2)
    return x + f.cache_info().hits, f.cache_info().currsize


@program
def bounded_cache(x):
    calls = []

    @functools.lru_cache(maxsize=1)
    def f(n):
        calls.append(n)
        return n

    f(1), f(2), f(1)
    return x + len(calls)
