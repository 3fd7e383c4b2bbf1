"""Generators, coroutines and asynchronous generators: as callers, and compiled themselves."""

import asyncio
import contextvars
import inspect
import traceback
import types

import pytest
import torch

import minitorch2
from minitorch2.bytecode.evaluation.evaluator import DEEPEST
from tests.unit.bytecode.capturing import capture

X = torch.tensor([1.0, -2.0, 3.0])


def counting():
    """A backend that counts its graphs."""
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module

    return graphs, backend


def step(x):
    return x.sin() + 1


async def coroutine(x):
    y = step(x)
    await asyncio.sleep(0)
    return step(y)


async def async_generator(x):
    for i in range(3):
        await asyncio.sleep(0)
        got = yield step(x) + i
        if got:
            x = x * got


def generator(x):
    total = x
    try:
        while True:
            got = yield step(total)
            total = total * got
    except KeyError:
        yield "caught"
    finally:
        total = 0
    return "result"


def test_kinds_are_kept():
    assert inspect.iscoroutinefunction(capture(coroutine))
    assert inspect.isasyncgenfunction(capture(async_generator))
    assert inspect.isgeneratorfunction(capture(generator))
    assert inspect.isawaitable(capture(types.coroutine(generator))(X))


def test_a_coroutine_is_captured_in_every_segment():
    graphs, backend = counting()
    compiled = minitorch2.compile(coroutine, backend=backend, fullgraph=True)
    for _ in range(2):
        assert torch.equal(asyncio.run(compiled(X)), asyncio.run(coroutine(X)))
    assert len(graphs) == 2  # in front of the `await` and behind it


def test_tasks_that_take_turns():
    compiled, other = capture(coroutine), capture(lambda x: x * 2)

    async def plain(x):
        await asyncio.sleep(0)
        return step(x)

    async def main():
        return await asyncio.gather(*(compiled(X + i) for i in range(5)), plain(X))

    *given, last = asyncio.run(main())
    for i, value in enumerate(given):
        assert torch.equal(value, asyncio.run(coroutine(X + i)))
    assert torch.equal(last, step(X))
    assert torch.equal(other(X), X * 2)


def test_generators_send_throw_close_and_return():
    def drive(function):
        made = function(X)
        seen = [next(made), made.send(2), made.throw(KeyError("k"))]
        try:
            next(made)
        except StopIteration as stopped:
            seen.append(stopped.value)
        closed = function(X)
        next(closed)
        closed.close()
        with pytest.raises(StopIteration):
            next(closed)
        return seen

    for given, wanted in zip(drive(capture(generator)), drive(generator), strict=True):
        assert torch.equal(given, wanted) if isinstance(wanted, torch.Tensor) else given == wanted


def test_async_generators_send_throw_and_close():
    async def drive(function):
        made = function(X)
        seen = [await made.__anext__(), await made.asend(3)]
        with pytest.raises(ValueError, match="thrown"):
            await made.athrow(ValueError("thrown"))
        closed = function(X)
        await closed.__anext__()
        await closed.aclose()
        with pytest.raises(StopAsyncIteration):
            await closed.__anext__()
        return [*seen, *[value async for value in function(X)]]

    pairs = asyncio.run(drive(capture(async_generator))), asyncio.run(drive(async_generator))
    for given, wanted in zip(*pairs, strict=True):
        assert torch.equal(given, wanted)


def test_exceptions_and_cancellation():
    async def fails(x):
        await asyncio.sleep(0)
        raise LookupError(step(x).shape)

    async def sleeps(x):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "cancelled"

    async def cancel(function):
        task = asyncio.ensure_future(function(X))
        await asyncio.sleep(0)
        task.cancel()
        return await task

    with pytest.raises(LookupError) as caught:
        asyncio.run(capture(fails)(X))
    names = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "fails"
    assert "dispatch" not in names
    assert asyncio.run(cancel(capture(sleeps))) == "cancelled"


def test_context_variables():
    scale = contextvars.ContextVar("scale", default=1)
    compiled = capture(lambda x: x * scale.get())
    context = contextvars.copy_context()
    context.run(scale.set, 3)
    assert torch.equal(compiled(X), X)
    assert torch.equal(context.run(compiled, X), X * 3)

    async def task(value):
        scale.set(value)
        await asyncio.sleep(0)
        return compiled(X)

    async def main():
        return await asyncio.gather(task(5), task(7))

    five, seven = asyncio.run(main())
    assert torch.equal(five, X * 5)
    assert torch.equal(seven, X * 7)


def test_generators_as_callers_and_inlined():
    compiled = capture(step)

    def caller(x):
        for i in range(3):
            yield compiled(x + i)

    assert all(map(torch.equal, caller(X), (step(X + i) for i in range(3))))


def counted(n, x):
    return x if n == 0 else counted(n - 1, x) + 1


def even(n, x):
    return x if n == 0 else odd(n - 1, x * 2)


def odd(n, x):
    return even(n - 1, x + 1)


def endless(x):
    return endless(x + 1)


def test_recursion():
    assert torch.equal(capture(counted)(30, X), counted(30, X))
    # Deeper than is inlined; CPython 3.12.1 allows 1500 nested C calls, about six a level.
    assert torch.equal(capture(counted)(DEEPEST + 5, X), counted(DEEPEST + 5, X))
    assert torch.equal(capture(even)(6, X), even(6, X))
    compiled = capture(endless)
    for _ in range(2):
        with pytest.raises(RecursionError):
            compiled(X)
    assert torch.equal(capture(step)(X), step(X))


def test_recursion_through_the_backend():
    inner = capture(step)

    def backend(module, inputs):
        assert torch.equal(inner(X), step(X))
        return module

    assert torch.equal(minitorch2.compile(lambda x: x + 1, backend=backend)(X), X + 1)
