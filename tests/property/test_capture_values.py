"""Random programs of Python values: records, classes, contexts, caches and random generators.

A program is the text of a function: a beginning that makes one value of each kind, random
statements about them, graph breaks among them, and a return of all that there is. What lies outside
of the function (a class's attribute, a context variable, a generator) is compared as well.
"""

import collections
import contextvars
import copy
import dataclasses
import functools
import random
import typing
import warnings

import numpy
import torch
from hypothesis import given
from hypothesis import strategies as st

import minitorch2
from minitorch2 import config, stages
from minitorch2.testing.assertions import assert_same
from tests.property.test_capture_programs import patient

Pair = collections.namedtuple("Pair", "a b", defaults=[2])


class Sum(typing.NamedTuple):
    a: object
    b: object = 1

    def __add__(self, other):
        return Sum(self.a + other.a, self.b * other.b)


@dataclasses.dataclass
class Row:
    value: object
    k: int = 1
    tags: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, order=True)
class Key:
    k: int
    name: str = "key"


class Counted:
    n = 1

    def scaled(self, x):
        return x * self.n


class Derived(Counted):
    pass


@functools.lru_cache(maxsize=2)
def cached(n, names=()):
    return (n + 1, *names)


VARIABLE = contextvars.ContextVar("variable", default=2)

BEGINNING = """\
def program(x):
    v, texts, tokens, rows = [x, x + 1], [], [], {}
    pair, total, row = Pair(x), Sum(x), Row(x)
"""
CLASSES = {
    "made": """\
    class Local(Counted):
        k = 3

        def __init__(self, value):
            self.value = value

        def go(self):
            return super().scaled(self.value) + self.k

    made = Local(x)
""",
    "data": """\
    @dataclasses.dataclass
    class Made:
        value: object
        k: int = 4

    data = Made(x)
""",
}
"""Classes that the function makes, if it uses the instance of this name."""

STATEMENTS = [
    "pair = pair._replace(b={j})",
    "pair = Pair(v[{i}], b={j})",
    "v.append(pair.a * pair.b)",
    "texts.append((pair[1:], repr(Pair(1, {j})), Pair(1, {j}) == (1, 2)))",
    "total = total + Sum(v[{i}], {j})",
    "v.append(total.a)",
    "row = dataclasses.replace(row, value=v[{i}], k={j})",
    "row.tags.append(row.k)",
    "row.k += {j}",
    "v.append(row.value + row.k)",
    "rows[Key({j})] = v[{i}]",
    "texts.append(sorted(rows) + [Key({j}) in rows, repr(Key({j}))])",
    "Counted.n = {j} + 1",
    "Counted.n += 1",
    "Derived.n = {j}",
    "v.append(Derived().scaled(v[{i}]))",
    "v.append(Counted().scaled(v[{i}]))",
    "texts.append(Derived.n)",
    "tokens.append(VARIABLE.set({j}))",
    "if tokens: VARIABLE.reset(tokens.pop())",
    "v.append(v[{i}] * VARIABLE.get())",
    "random.seed({j})",
    "v.append(v[{i}] + random.random())",
    "random.shuffle(v)",
    "texts.append(random.Random({j}).choice('abc'))",
    "texts.append(random.choice(['a', None, 'c']))",
    "v.append(v[{i}] * random.sample(range(9), 2)[{i}])",
    "v.append(v[{i}] + numpy.random.rand())",
    "texts.append(numpy.random.randint(0, 5, size={j}).tolist())",
    "warnings.warn('number {j}')",
    "with warnings.catch_warnings(): warnings.simplefilter('ignore'); warnings.warn('hidden')",
    "v.append(v[{i}] + cached({j})[0])",
    "texts.append(cached({j}, names=('a', 'b')))",
    "type(made).k = {j}",
    "made.value = v[{i}]",
    "v.append(made.go())",
    "made = Local(v[{i}]); made.k = {j}",
    "texts.append((type(made).__name__, isinstance(made, Counted), made.k))",
    "data = dataclasses.replace(data, k={j})",
    "v.append(data.value * data.k)",
    "texts.append('{{}} %s' % (Key({j}),))",
    "print(end='')",
]
END = "return v, texts, pair, total, row, rows"

LINES = st.lists(
    st.tuples(st.sampled_from(STATEMENTS), st.integers(0, 1), st.integers(0, 3)), max_size=12
)


def function_of(lines):
    """The function that a list of statements makes."""
    body = [text.format(i=i, j=j) for text, i, j in lines]
    whole = "".join(f"    {line}\n" for line in [*body, END])
    made = [text for name, text in CLASSES.items() if name in whole]
    text = BEGINNING + "".join(made) + whole
    namespace = dict(globals())
    exec(compile(text, "<program>", "exec"), namespace)
    return namespace["program"]


def observed(function, x):
    """What a call returns or raises, and what it leaves behind."""
    Counted.n = 1
    if "n" in Derived.__dict__:
        del Derived.n
    random.seed(0)
    numpy.random.seed(0)

    def call():
        try:
            return function(x), VARIABLE.get(), None
        except (AttributeError, TypeError) as error:
            return None, VARIABLE.get(), (type(error), str(error))

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        found = contextvars.copy_context().run(call)
    texts = [(str(each.message), each.lineno) for each in shown]
    states = random.getstate(), numpy.random.get_state()[2]
    return [*found, Counted.n, Derived.__dict__.get("n"), texts, *states]


@patient(40)
@given(LINES)
def test_programs_of_python_values_match_cpython(lines):
    function = function_of(lines)
    with config.patch(suppress_errors=False), stages.collect() as log:
        fast = minitorch2.compile(function, backend="eager")
        for x in (torch.arange(6.0).reshape(2, 3), torch.ones(4, 3)):
            wanted = observed(function, copy.copy(x))
            assert_same(observed(fast, copy.copy(x)), wanted)
    assert log.counts["frames_as_is"] == 0
