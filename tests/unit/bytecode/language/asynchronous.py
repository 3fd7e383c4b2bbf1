"""Coroutines, asynchronous iterators and context managers whose answers are there already."""

import contextlib

from tests.unit.bytecode.language import program


def run(coroutine):
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("it waits")


async def shifted(x, k):
    return x + k


@program
def awaited(x):
    async def main(x):
        y = await shifted(x, 1)
        return await shifted(y * 2, 2)

    return run(main(x))


@program
def in_a_loop(x):
    async def main(x):
        for i in range(3):
            x = await shifted(x.sin(), i)
        return x

    return run(main(x))


@program
def asynchronous_for(x):
    class Rows:
        def __init__(self, x):
            self.rows = iter([x, x + 1])

        def __aiter__(self):
            return self

        async def __anext__(self):
            try:
                return next(self.rows)
            except StopIteration:
                raise StopAsyncIteration from None

    async def main(x):
        total = x
        async for row in Rows(x):
            total = total + row
        else:
            total = total * 2
        return total

    return run(main(x))


@program
def asynchronous_with(x):
    order = []

    class Resource:
        async def __aenter__(self):
            order.append("enter")
            return x * 2

        async def __aexit__(self, *error):
            order.append("exit")
            return error[0] is KeyError

    async def main():
        async with Resource() as y:
            z = y + 1
            raise KeyError
        return z

    return run(main()), order


@program
def asynchronous_generator(x):
    async def rows(x):
        for i in range(3):
            yield await shifted(x, i)

    async def main(x):
        return [row * 2 async for row in rows(x)]

    return run(main(x))


@program
def asynchronous_expression(x):
    async def rows(x):
        yield x
        yield x + 1

    async def main(x):
        return [row async for row in (r * 2 async for r in rows(x))]

    return run(main(x))


@program
def awaits_in_comprehension(x):
    async def main(x):
        return [await shifted(x, i) for i in range(3)]

    return run(main(x))


@program
def exception_through_await(x):
    async def fails(x):
        raise ValueError("no")

    async def main(x):
        try:
            return await fails(x)
        except ValueError as error:
            return x + 1, str(error)

    return run(main(x))


@program
def manager_of_asynchronous_generator(x):
    @contextlib.asynccontextmanager
    async def scaled(x):
        yield x * 2

    async def main(x):
        async with scaled(x) as y:
            return y + 1

    return run(main(x))


@program
def awaitable_object(x):
    class Ready:
        def __init__(self, value):
            self.value = value

        def __await__(self):
            return self.value
            yield

    async def main(x):
        return await Ready(x + 1)

    return run(main(x))


@program
def asynchronous_send(x):
    async def echo(x):
        sent = yield x
        while sent is not None:
            sent = yield sent * 2

    async def main(x):
        values = echo(x)
        first = await anext(values)
        second = await values.asend(x + 1)
        await values.aclose()
        return first, second

    return run(main(x))


@program
def closed_before_it_starts(x):
    coroutine = shifted(x, 1)
    coroutine.close()
    return x + 1
