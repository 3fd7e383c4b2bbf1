"""Compiled generators and coroutines: one graph for each segment between two suspensions."""

import asyncio
import contextlib
import inspect
import types

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from tests.unit.bytecode.capturing import capture

X = torch.tensor([[1.0, -2.0], [3.0, 0.5]])


def same(given, wanted):
    """Equal values in equal containers."""
    if isinstance(wanted, torch.Tensor):
        return torch.equal(given, wanted)
    if isinstance(wanted, list | tuple):
        pairs = zip(given, wanted, strict=True)
        return type(given) is type(wanted) and all(same(a, b) for a, b in pairs)
    return given == wanted


def check(function, use, *, graphs, breaks=0, **settings):
    """`use(function)` twice, compiled, against Python; the graphs of both runs together."""
    settings = {"fullgraph": not breaks} | settings
    with config.patch(suppress_errors=False), stages.collect() as log:
        compiled = capture(function, **settings)
        for _ in range(2):
            assert same(use(compiled), use(function))
    assert log.counts["frames_as_is"] == 0
    assert log.counts["graph_breaks"] == breaks, log.texts("graph_break")
    assert log.counts["graphs"] == graphs, log.texts("captured_graph.py")


def values(function):
    return list(function(X))


def result(function):
    return asyncio.run(function(X))


# Generators ---------------------------------------------------------------------------------------


def loop(x):
    for i in range(5):
        x = x.sin() + i
        yield x
        x = x * 2


def test_each_segment_of_a_loop_is_a_graph():
    # In front of the first yield, behind one, and behind one with a number that varies.
    check(loop, values, graphs=3)
    check(loop, values, graphs=3, dynamic=True)


def test_the_number_of_turns_makes_no_difference_behind_a_yield():
    def turns(x, n):
        for i in range(n):
            yield x + i

    check(turns, lambda f: [list(f(X, n)) for n in (1, 30, 2, 0)], graphs=3 + 2)


def two_tensors(x):
    y = x.exp()
    z = yield x + y
    w = yield y * z
    return w - y


def test_values_are_sent_and_returned():
    def use(function):
        made = function(X)
        seen = [next(made), made.send(X), made.gi_running]
        with pytest.raises(StopIteration) as end:
            made.send(X + 1)
        return [*seen, end.value.value]

    check(two_tensors, use, graphs=3)


def robust(x):
    total = x
    try:
        while True:
            got = yield total.cos()
            total = total * got
    except KeyError as error:
        yield total.tan(), str(error)
    finally:
        total = total + 1
    return total.sin()


def test_exceptions_are_thrown_in():
    def use(function):
        made = function(X)
        seen = [next(made), made.send(2), made.throw(KeyError("k"))]
        with pytest.raises(StopIteration) as end:
            next(made)
        return [*seen, end.value.value]

    check(robust, use, graphs=4)


def test_closing_runs_what_is_left():
    log = []

    def careful(x):
        try:
            yield x + 1
            yield x + 2
        finally:
            log.append((x * 3).sum().item())

    def use(function):
        made = function(X)
        first = next(made)
        made.close()
        dropped = function(X)
        next(dropped)
        del dropped
        return first, log[-2:], list(made)

    check(careful, use, graphs=2)


def test_ignoring_the_end_is_an_error():
    def stubborn(x):
        while True:
            try:
                yield x + 1
            except GeneratorExit:
                x = x * 2

    def use(function):
        made = function(X)
        next(made)
        with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
            made.close()
        with pytest.raises(KeyError):
            made.throw(KeyError())

    check(stubborn, use, graphs=2)


def test_a_stop_iteration_inside_is_an_error():
    def wrong(x):
        yield x + 1
        raise StopIteration

    def use(function):
        made = function(X)
        first = next(made)
        with pytest.raises(RuntimeError, match="generator raised StopIteration"):
            next(made)
        return first

    check(wrong, use, graphs=1)


def inner(x, n):
    for i in range(n):
        got = yield x * i
        if got is not None:
            x = x + got
    return x.exp()


def outer(x):
    result = yield from inner(x + 1, 3)
    yield result
    yield from [result + 1, result + 2]
    return (yield from inner(result, 1))


def test_generators_inside_generators():
    def use(function):
        made = function(X)
        return [next(made), made.send(1.0), next(made), *made]

    check(outer, use, graphs=6)


def test_delegates_get_what_is_thrown_in():
    def guarded(x):
        try:
            yield x.cos()
        except ValueError as error:
            yield x.sin(), str(error)
        return x + 1

    def delegating(x):
        yield (yield from guarded(x * 2))

    def use(function):
        made = function(X)
        return [next(made), made.throw(ValueError("v")), next(made), list(made)]

    check(delegating, use, graphs=3)


@contextlib.contextmanager
def noted(x, log):
    log.append("in")
    try:
        yield x.cos()
    finally:
        log.append("out")


def managed(x):
    log = []
    with noted(x, log) as y:
        for _ in range(2):
            y = y * 2
            yield y, list(log)
    yield y.sin(), log


def test_managers_that_are_generators():
    check(managed, values, graphs=3, breaks=1)


def test_handled_exceptions_stay_handled():
    def handling(x):
        try:
            raise ValueError("a")
        except ValueError as error:
            yield x.sin(), str(error)
            try:
                raise
            except ValueError as again:
                yield x.cos(), again is error

    check(handling, values, graphs=2)


def test_grad_mode_of_a_segment():
    def partly(x):
        with torch.no_grad():
            yield x.sin()
        yield x.cos()

    leaf = X.clone().requires_grad_()
    check(partly, lambda f: [t.requires_grad for t in f(leaf)], graphs=2)


def test_gradients_through_segments():
    def use(function):
        leaf = X.clone().requires_grad_()
        sum(t.sum() for t in function(leaf)).backward()
        return leaf.grad

    def chain(x):
        for _ in range(3):
            x = x.sin()
            yield x

    check(chain, use, graphs=3)


def test_closures_share_their_variables():
    def use(function):
        return [t.clone() for t in function(X)]

    def counting(x):
        n = 0

        def step():
            nonlocal n
            n += 1
            return x * n

        yield step()
        yield step()
        n = 10
        yield step()

    check(counting, use, graphs=3)


def test_breaks_between_suspensions():
    def printing(x):
        y = x.sin()
        print(end="")
        yield y.cos()
        print(end="")
        yield y.tan()

    check(printing, values, graphs=3, breaks=2)


def test_a_generator_that_cannot_be_captured_runs_in_python():
    def reads_its_frame(x):
        y = x + 1
        yield y, sorted(locals())
        yield y * 2

    with stages.collect() as log:
        compiled = capture(reads_its_frame)
        assert same(list(compiled(X)), list(reads_its_frame(X)))
    assert log.counts["graphs"] >= 1


def test_generators_stay_generators():
    compiled = capture(loop)
    assert inspect.isgeneratorfunction(compiled)
    assert isinstance(compiled(X), types.GeneratorType)
    assert compiled(X).__name__ == "loop"


# Half way -----------------------------------------------------------------------------------------


def endless(x):
    while True:
        x = x * 2
        got = yield x
        if got is not None:
            x = x + got


def test_generators_leave_half_way():
    def leaves(x):
        made = endless(x)
        first, second = next(made), made.send(1.0)
        return first + second, made

    def use(function):
        total, made = function(X)
        return total, next(made), made.send(3.0), made.__name__, type(made) is types.GeneratorType

    check(leaves, use, graphs=3)


def test_generators_come_half_way():
    def takes(values, x):
        first = next(values)
        return first * x, [value + 1 for value in values]

    def use(function):
        made = (X * i for i in range(4))
        next(made)
        return function(made, X)

    check(takes, use, graphs=1, breaks=2)


# Coroutines ---------------------------------------------------------------------------------------


async def waiting(x):
    y = x.sin()
    await asyncio.sleep(0)
    y = y.cos() + 1
    await asyncio.sleep(0)
    return y * 2


def test_each_segment_of_a_coroutine_is_a_graph():
    check(waiting, result, graphs=3)


async def layer(x, k):
    y = x * k
    await asyncio.sleep(0)
    return y.sin()


async def network(x):
    x = await layer(x, 2)
    return (await layer(x + 1, 3)).cos()


def test_coroutines_wait_for_coroutines():
    # Up to the first wait; behind it in the layer; to the second; behind it; and the end.
    check(network, result, graphs=4)


async def sure(x):
    return x + 1


async def never_waits(x):
    return await sure(await sure(x) * 2)


def test_a_coroutine_that_never_waits_is_one_graph():
    check(never_waits, result, graphs=1)


def test_futures_are_waited_for():
    async def scaled(x, future):
        y = x.sin()
        return y * await future

    async def main(function):
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(future.set_result, 3.0)
        return await function(X, future)

    check(scaled, lambda f: asyncio.run(main(f)), graphs=2)


def test_cancelling():
    async def sleeping(x):
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return x.sin()

    async def main(function):
        task = asyncio.ensure_future(function(X))
        await asyncio.sleep(0)
        task.cancel()
        return await task

    check(sleeping, lambda f: asyncio.run(main(f)), graphs=1)


def test_tasks_take_turns():
    async def main(function):
        return await asyncio.gather(*(function(X + i) for i in range(3)))

    check(waiting, lambda f: asyncio.run(main(f)), graphs=3)


async def rows(x):
    for _ in range(3):
        await asyncio.sleep(0)
        x = x.sin()
        got = yield x
        if got is not None:
            x = x * got


def test_asynchronous_generators():
    async def main(function):
        made = function(X)
        seen = [await made.__anext__(), await made.asend(3)]
        rest = [row async for row in made]
        closed = function(X)
        await closed.__anext__()
        await closed.aclose()
        return seen, rest, [row async for row in closed]

    check(rows, lambda f: asyncio.run(main(f)), graphs=2)


def test_asynchronous_for_and_with_wait():
    class Pool:
        async def __aenter__(self):
            await asyncio.sleep(0)
            return self

        async def __aexit__(self, *error):
            await asyncio.sleep(0)

        def __aiter__(self):
            self.left = 2
            return self

        async def __anext__(self):
            await asyncio.sleep(0)
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return self.left

    async def main(x):
        async with Pool() as pool:
            async for number in pool:
                x = x * 2 + number
        return x

    with stages.collect() as log:
        compiled = capture(main)
        for _ in range(2):
            assert same(asyncio.run(compiled(X)), asyncio.run(main(X)))
    assert log.counts["frames_as_is"] == 0
    assert log.counts["graphs"] >= 1


def caught_error(x):
    """A function of the program that has a name which residual code likes, too."""
    minitorch2.graph_break()
    return x * 3


def test_the_name_of_a_caught_error_is_the_programs() -> None:
    def program(x):
        y = x + 1
        minitorch2.graph_break()
        try:
            return caught_error(y.sin()) + caught_error(y)
        except ValueError:
            return y

    x = torch.ones(3)
    assert torch.equal(minitorch2.compile(program, backend="eager")(x), program(x))


def test_continuations_take_variables_in_the_order_of_the_program() -> None:
    def one(a, b):
        c = a.sin()
        minitorch2.graph_break()
        return a - b * c

    def other(z, y):
        x = z.sin()
        minitorch2.graph_break()
        return z - y * x

    texts = []
    for function in (one, other):
        with stages.collect() as log:
            minitorch2.compile(function, backend="numba")(torch.ones(2, 3), torch.ones(3))
        lines = (text.splitlines() for text in log.texts("wrapper.py"))
        texts.append([line for each in lines for line in each if "#" not in line])
    assert texts[0] == texts[1]
