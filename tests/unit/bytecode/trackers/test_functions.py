"""Functions: inlined calls, closures, defaults, partials, generators, polyfills."""

# The programs under test are written in every style.
# ruff: noqa: RUF017, B007

from __future__ import annotations

import copy
import functools
import itertools
import math
import operator
import typing
from typing import Any

import torch

from tests.unit.bytecode.trackers.program import check

X = torch.arange(4.0)
SCALE = 3
TABLE = {"a": [1, 2], "f": math.sqrt}


def scaled(x: Any, factor: Any = 2, /, *rest: Any, bias: Any = 0, **more: Any) -> Any:
    return x * factor + bias + sum(rest) + len(more)


def test_calls_with_every_kind_of_argument() -> None:
    def program(x: torch.Tensor) -> Any:
        args, kwargs = (4, 5), {"bias": 1, "other": 2}
        return scaled(x), scaled(x, 3), scaled(x, *args), scaled(x, 1, 2, 3, **kwargs)

    check(program, X)


def test_wrong_arguments_raise_the_users_type_error() -> None:
    def program(x: torch.Tensor) -> Any:
        try:
            return scaled()
        except TypeError as error:
            return x + 1, str(error)

    check(program, X)


def test_globals_are_read_and_guarded() -> None:
    def program(x: torch.Tensor) -> Any:
        return x * SCALE + TABLE["a"][1] + TABLE["f"](4)

    check(program, X)


def test_changed_global_recompiles() -> None:
    import minitorch2

    def program(x: torch.Tensor) -> Any:
        return x * SCALE

    compiled = minitorch2.compile(program, backend="eager")
    global SCALE
    try:
        for SCALE in (3, 4, 3.5):
            assert torch.equal(compiled(X), X * SCALE)
    finally:
        SCALE = 3


def make_counter() -> Any:
    count = 0

    def step(x: Any) -> Any:
        nonlocal count
        count += 1
        return x + count

    return step, lambda: count


def test_closures_from_outside_are_changed() -> None:
    import minitorch2

    step, read = make_counter()
    compiled = minitorch2.compile(lambda x: step(x) * step(x), backend="eager")
    assert torch.equal(compiled(X), (X + 1) * (X + 2)) and read() == 2
    assert torch.equal(compiled(X), (X + 3) * (X + 4)) and read() == 4


def bump_and_read(x: Any, step: Any, read: Any) -> Any:
    step(x)
    return x * read()


def test_closures_that_shared_a_cell_may_come_with_cells_of_their_own() -> None:
    """Functions that are passed are known by their code; so cells are compared, too."""
    import minitorch2

    compiled = minitorch2.compile(bump_and_read, backend="eager")
    (step, read), (other_step, other_read) = make_counter(), make_counter()
    assert torch.equal(compiled(X, step, read), X)
    assert torch.equal(compiled(X, step, other_read), X * 0) and read() == 2
    assert torch.equal(compiled(X, other_step, other_read), X)


def test_closures_over_different_cells_may_come_with_one_cell() -> None:
    import minitorch2

    compiled = minitorch2.compile(bump_and_read, backend="eager")
    (step, _), (same_step, same_read), (_, other_read) = (make_counter() for _ in range(3))
    assert torch.equal(compiled(X, step, other_read), X * 0)
    assert torch.equal(compiled(X, same_step, same_read), X)


def test_a_closure_that_is_passed_may_share_the_functions_own_cell() -> None:
    import minitorch2

    def make() -> Any:
        count = 0

        def program(x: Any, read: Any) -> Any:
            nonlocal count
            count += 1
            return x * read()

        return program, lambda: count

    (program, read), (_, other_read) = make(), make()
    compiled = minitorch2.compile(program, backend="eager")
    assert torch.equal(compiled(X, read), X)
    assert torch.equal(compiled(X, other_read), X * 0)
    assert torch.equal(compiled(X, read), X * 3)


def test_closures_made_inside() -> None:
    def program(x: torch.Tensor) -> Any:
        step, read = make_counter()
        y = step(x)
        adders = [lambda z, n=n: z + n for n in range(3)]
        return step(y), read(), [f(x) for f in adders]

    check(program, X)


def test_escaping_closure() -> None:
    import minitorch2

    def program(x: torch.Tensor) -> Any:
        y = torch.sigmoid(x)

        def inner(z: Any, k: int = 3, *, w: int = 4) -> Any:
            """Doc."""
            return y + z + k + w

        return inner

    made, expected = minitorch2.compile(program, backend="eager")(X), program(X)
    for name in (
        "__name__",
        "__qualname__",
        "__defaults__",
        "__kwdefaults__",
        "__doc__",
        "__module__",
    ):
        assert getattr(made, name) == getattr(expected, name)
    assert made.__annotations__ == expected.__annotations__
    assert torch.equal(made(1), expected(1)) and len(made.__closure__) == 1


def test_what_a_function_made_inside_is_made_of() -> None:
    def program(x: torch.Tensor) -> Any:
        def inner(a: Any, b: int = 2, *, c: int) -> Any:
            return a

        known = inner.__code__.co_name, inner.__code__.co_argcount, inner.__globals__["SCALE"]
        return x + 1, known, getattr(inner, "missing", None), hasattr(inner, "__code__")

    check(program, X)


def test_recursion_and_higher_order() -> None:
    def power(x: Any, n: int) -> Any:
        return x if n == 0 else power(x * x, n - 1)

    def program(x: torch.Tensor) -> Any:
        compose = lambda f, g: lambda a: f(g(a))  # noqa: E731
        return power(x, 3), compose(torch.sin, torch.cos)(x), (lambda *a, **k: (a, k))(1, b=2)

    check(program, X)


def test_function_argument_made_anew_does_not_recompile() -> None:
    import minitorch2
    from minitorch2 import stages

    compiled = minitorch2.compile(lambda x, f: f(x) + 1, backend="eager")
    with stages.collect() as log:
        for i in range(4):
            assert torch.equal(compiled(X, lambda t: t * 2), X * 2 + 1)
    assert log.counts["graphs"] == 1
    assert torch.equal(compiled(X, lambda t: t * 3), X * 3 + 1)


def test_partial_reduce_operator_itertools() -> None:
    def program(x: torch.Tensor) -> Any:
        double = functools.partial(operator.mul, 2)
        total = functools.reduce(operator.add, [x, x, 1], 5)
        chained = list(itertools.chain([1], (2, 3), itertools.repeat(4, 2)))
        sums = list(itertools.accumulate([1, 2, 3]))
        pairs = list(itertools.product([1, 2], "ab"))
        sliced = list(itertools.islice(itertools.count(5), 1, 6, 2))
        longest = list(itertools.zip_longest([1, 2], [3]))
        return (
            double(x),
            total,
            chained,
            sums,
            pairs,
            sliced,
            longest,
            list(itertools.starmap(pow, [(2, 3)])),
            operator.itemgetter,
        )

    check(program, X)


def test_generators() -> None:
    def numbers(x: Any) -> Any:
        for i in range(3):
            got = yield x + i
            assert got is None
        yield from [x, 4]

    def program(x: torch.Tensor) -> Any:
        return (
            sum(numbers(x)),
            [y * 2 for y in numbers(1)],
            any(y > 2 for y in numbers(1)),
            tuple(a for a, _ in zip(numbers(2), "ab")),
        )

    check(program, X)


def test_copies_casts_and_math() -> None:
    def program(x: torch.Tensor) -> Any:
        values = [1, [2]]
        other = copy.copy(values)
        other.append(3)
        y = typing.cast(torch.Tensor, x)
        return (
            values,
            other,
            copy.deepcopy(values),
            y + math.pi + math.floor(2.5),
            math.prod([2, 3]),
        )

    check(program, X)


def test_any_all_sum_min_max_sorted_key() -> None:
    def program(x: torch.Tensor) -> Any:
        words = ["bbb", "a", "cc"]
        return (
            any(w == "a" for w in words),
            all(words),
            sum([[1], [2]], []),
            min(words, key=len),
            max(words),
            sorted(words, key=len),
            max([], default=3),
            sum(x for _ in range(2)),
        )

    check(program, X)


def test_wrapped_function() -> None:
    def doubled(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs) * 2

        return wrapper

    @doubled
    def body(x: Any) -> Any:
        return x + 1

    check(lambda x: body(x), X)


def test_print_breaks_and_everything_else_is_captured(capsys: Any) -> None:
    def program(x: torch.Tensor) -> Any:
        y = x + 1
        print("hello")
        return y * 2

    check(program, X, graphs=2, breaks=1)
    assert capsys.readouterr().out == "hello\n" * 3


def test_callee_with_print_is_not_inlined_in_part() -> None:
    def callee(x: Any) -> Any:
        y = (x + 1) * 2 - 3
        print(end="")
        return y

    def program(x: torch.Tensor) -> Any:
        return callee(x * 5) + 7

    check(program, X, graphs=3, breaks=2)


def test_lru_cache() -> None:
    @functools.lru_cache
    def table(n: int) -> int:
        return n * 10

    check(lambda x: x + table(3), X)
