"""Calls of Python functions become part of the caller's graph: arguments, closures, generators."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import minitorch2
from minitorch2 import stages
from tests.unit.bytecode.capturing import capture, check, residual

X = torch.tensor([1.0, -2.0, 3.0])


def variadic(a, /, b=2, *args, k=1, **named):
    return a * b + k + sum(args) + sum(named.values())


def test_arguments_are_bound_as_python_binds_them():
    def f(x):
        rest, named = (4, 5), {"z": 1}
        return (
            variadic(x),
            variadic(x, 3, *rest, k=2, **named),
            variadic(b=x, a=1) if x is None else 0,
        )

    check(f, X, graphs=1)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: variadic(),
        lambda x: variadic(a=x),
        lambda x: helper(x, 1, 2),
        lambda x: helper(x, c=1),
        lambda x: helper(x, x=1),
        lambda x: only_keyword(x),
    ],
)
def test_wrong_arguments_raise_the_same_type_error(call):
    def f(x):
        try:
            return call(x)
        except TypeError as error:
            return str(error).split("()")[1], x + 1

    check(f, X, graphs=1)


def helper(x, b=1):
    return x * b


def only_keyword(x, *, k):
    return x + k


def test_recursion():
    def power(x, n):
        return x if n == 0 else power(x, n - 1) * 2

    def f(x):
        return power(x, 5)

    check(f, X, graphs=1)


def test_closure_from_outside_is_read_and_written():
    scale, calls = 3, 0

    def f(x):
        nonlocal calls
        calls += 1
        return x * scale + calls

    compiled = capture(f)
    assert torch.equal(compiled(X), X * 3 + 1)
    assert calls == 1
    scale = 4
    assert torch.equal(compiled(X), X * 4 + 2)
    assert calls == 2


def test_closure_of_an_inlined_function_is_read_and_written():
    def make():
        count = 0

        def bump():
            nonlocal count
            count += 1
            return count

        return bump

    bump = make()

    def f(x):
        return x + bump() + bump()

    compiled = capture(f)
    assert torch.equal(compiled(X), X + 3)
    assert bump() == 3


def test_closure_that_stays_inside_is_optimised_away():
    def f(x):
        y = x + 1

        def inner(z):
            nonlocal y
            y = y * 2
            return y + z

        return inner(x) + inner(x)

    log = check(f, X, graphs=1)
    assert "Cell" not in residual(log)
    assert "inner" not in residual(log)


def test_closure_that_escapes_cannot_be_told_apart():
    def closure_example(x):
        y = torch.sigmoid(x)
        return lambda z, s=2: y + z * s

    given, wanted = capture(closure_example)(X), closure_example(X)
    assert torch.equal(given(X), wanted(X))
    for name in ("__name__", "__qualname__", "__defaults__", "__module__", "__code__"):
        assert getattr(given, name) == getattr(wanted, name)
    assert torch.equal(given.__closure__[0].cell_contents, torch.sigmoid(X))


def test_two_escaping_closures_share_their_cell():
    def f(x):
        count = 0

        def add():
            nonlocal count
            count += 1
            return count

        def get():
            return count

        add()
        return add, get, x + 1

    add, get, _ = capture(f)(X)
    assert get() == 1
    add()
    assert get() == 2


def test_cells_survive_a_break():
    def f(x):
        count = 1

        def add(n):
            nonlocal count
            count += n
            return x * count

        a = add(1)
        print(count)
        b = add(2)
        return a, b, count, add

    *values, add = capture(f)(X)
    assert torch.equal(values[0], X * 2)
    assert torch.equal(values[1], X * 4)
    assert values[2] == 4
    assert torch.equal(add(1), X * 5)


def test_comprehensions_leave_no_call():
    def f(x):
        a = [x * i for i in range(3)]
        b = {k: v + 1 for k, v in zip("ab", a, strict=False)}
        c = {i % 2 for i in range(5)}
        return sum(a) + sum(b.values()) + len(c) + sum(t for t in a)

    check(f, X, graphs=1)


def test_generators_are_consumed_in_the_graph():
    def numbers(x):
        sent = yield x
        yield x + (sent or 1)
        yield from (x * i for i in (2, 3))
        return 5

    def delegate(x):
        value = yield from numbers(x)
        yield x * value

    def f(x):
        first, *rest = delegate(x)
        return first + sum(rest)

    check(f, X, graphs=1)


def test_methods_properties_and_operators():
    class Vector:
        def __init__(self, data):
            self.data = data

        def __add__(self, other):
            return Vector(self.data + other.data)

        def __getitem__(self, index):
            return self.data[index]

        def __call__(self, x):
            return self.data * x

        @property
        def norm(self):
            return self.data.abs().sum()

        @staticmethod
        def zero():
            return 0

        @classmethod
        def of(cls, x):
            return cls(x * 2)

    def f(x):
        v = Vector(x) + Vector.of(x)
        return v.norm + v[0] + v(x) + Vector.zero()

    check(f, X, graphs=1)


def test_partials_and_decorators():
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs) * 2

        return wrapper

    @twice
    def scaled(x, by):
        return x * by

    def f(x):
        return functools.partial(scaled, by=3)(x) + scaled(x, by=1)

    check(f, X, graphs=1)


def test_a_compiled_function_inside_is_part_of_the_graph():
    inner = capture(lambda x: x * 2)

    def f(x):
        return inner(x) + 1

    with stages.collect() as log:
        assert torch.equal(capture(f)(X), X * 2 + 1)
    assert log.counts["graphs"] == 1


def test_functions_of_the_standard_library_are_evaluated():
    import statistics

    def f(x):
        y = x + statistics.mean([1, 2, 3])
        return y * 2

    check(f, X)


STEP = """
import torch
import minitorch2

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()

minitorch2.compile(step, backend="eager", fullgraph=True)(torch.ones(2, 3))
"""


def test_pytorch_behind_a_symbolic_link_is_still_pytorch(tmp_path):
    (tmp_path / "torch").symlink_to(Path(torch.__file__).parent)
    source = Path(minitorch2.__file__).parents[1]
    paths = {"PYTHONPATH": f"{tmp_path}:{source}"}
    command = [sys.executable, "-c", STEP]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | paths)
    assert done.returncode == 0, done.stderr
