"""Generators that are made and consumed, or left half way, inside of a function."""

import contextlib
import itertools

import torch

from tests.unit.bytecode.language import program


def doubling(x, n):
    for i in range(n):
        x = x * 2 + i
        yield x


def averaging():
    total, count = 0.0, 0
    value = yield None
    while value is not None:
        total, count = total + value, count + 1
        value = yield total / count
    return total


@program
def consumed_by_a_loop(x):
    total = x
    for y in doubling(x, 3):
        total = total + y.sin()
    return total


@program
def consumed_by_list(x):
    return list(doubling(x, 3))


@program
def consumed_by_sum(x):
    return sum(doubling(x, 3))


@program
def expression(x):
    return torch.stack([*(x * i for i in range(3))]).sum(0)


@program
def nested_expression(x):
    return sum(x * i + j for i in range(3) for j in range(2) if i != j)


@program
def delegated(x):
    def outer(x):
        first = yield from doubling(x, 2)
        yield from (x + i for i in range(2))
        return first

    return list(outer(x))


@program
def returned_value(x):
    def inner(x):
        yield x + 1
        return x * 2

    def outer(x):
        result = yield from inner(x)
        yield result

    return list(outer(x))


@program
def sent_values(x):
    running = averaging()
    next(running)
    means = [running.send(x * i) for i in range(3)]
    try:
        running.send(None)
    except StopIteration as end:
        means.append(end.value)
    return means


@program
def thrown_exception(x):
    def robust(x):
        while True:
            try:
                yield x
                x = x + 1
            except ValueError:
                x = x * 10

    values = robust(x)
    first = next(values)
    second = values.throw(ValueError)
    third = next(values)
    values.close()
    return first, second, third


@program
def closed_early(x):
    log = []

    def careful(x):
        try:
            yield x + 1
            yield x + 2
        finally:
            log.append("closed")

    values = careful(x)
    y = next(values)
    values.close()
    return y, log


@program
def close_is_idempotent(x):
    values = doubling(x, 3)
    y = next(values)
    values.close()
    values.close()
    return y, list(values)


@program
def throws_to_the_delegate(x):
    def inner(x):
        try:
            yield x
        except KeyError as error:
            yield x * 2
            return error.args[0]

    def outer(x):
        result = yield from inner(x)
        yield x, result

    values = outer(x)
    return next(values), values.throw(KeyError("k")), next(values)


@program
def stop_iteration_becomes_runtime_error(x):
    def wrong(x):
        yield x
        raise StopIteration

    values = wrong(x)
    y = next(values)
    try:
        next(values)
    except RuntimeError as error:
        return y + 1, str(error), type(error.__cause__).__name__


@program
def half_way_returned(x):
    values = doubling(x, 4)
    y = next(values) + next(values)
    return y, list(values)


@program
def half_way_in_a_list(x):
    pipeline = [doubling(x, 3), doubling(x + 1, 3)]
    heads = [next(values) for values in pipeline]
    return heads, [list(values) for values in pipeline]


@program
def endless_and_sliced(x):
    def powers(x):
        y = x
        while True:
            yield y
            y = y * x

    return list(itertools.islice(powers(x), 3))


@program
def managed(x):
    @contextlib.contextmanager
    def shifted(x):
        y = x + 1
        try:
            yield y
        finally:
            y.mul_(2)

    with shifted(x) as y:
        z = y * 3
    return y, z


@program
def manager_swallows(x):
    @contextlib.contextmanager
    def ignoring(kind):
        try:
            yield
        except kind:
            pass

    with ignoring(ZeroDivisionError):
        x = x + 1
        1 / 0
    return x


@program
def manager_as_decorator(x):
    calls = []

    @contextlib.contextmanager
    def noting():
        calls.append("in")
        yield
        calls.append("out")

    @noting()
    def work(x):
        calls.append("work")
        return x * 2

    return work(x), calls


@program
def state_of_a_generator(x):
    values = doubling(x, 1)
    y = next(values)
    return y, values.__name__, values.gi_running, values.gi_yieldfrom


@program
def generator_method(x):
    class Tree:
        def __init__(self, value, children=()):
            self.value, self.children = value, children

        def __iter__(self):
            yield self.value
            for child in self.children:
                yield from child

    return list(Tree(x, [Tree(x + 1), Tree(x + 2, [Tree(x * 3)])]))


@program
def zipped(x):
    return [a * b for a, b in zip(doubling(x, 3), doubling(x + 1, 2))]


@program
def unpacked(x):
    a, *rest = doubling(x, 3)
    return a, rest


@program
def closed_over(x):
    scale = 2

    def scaled():
        nonlocal scale
        for row in x.unbind(1):
            yield row * scale
            scale += 1

    return list(scaled()), scale


@program
def yields_in_try_finally(x):
    order = []

    def careful():
        for i in range(2):
            try:
                yield x + i
            finally:
                order.append(i)

    return list(careful()), order


@program
def generator_in_any(x):
    return x + any(i > 2 for i in range(5)) + all(i > 2 for i in range(5))


@program
def coroutine_pipeline(x):
    def sink(out):
        while True:
            out.append((yield))

    def scaling(target, k):
        next(target)
        while True:
            target.send((yield) * k)

    out = []
    head = scaling(sink(out), 3)
    next(head)
    head.send(x)
    head.send(x + 1)
    return out
