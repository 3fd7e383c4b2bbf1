"""Statements: exceptions, `match`, calls, closures, scopes, `with`, `del`, `global`.

The assertions in these programs are the program's own: PYTEST_DONT_REWRITE.
"""

# The programs under test are written in every style.
# ruff: noqa

from __future__ import annotations

import traceback
from typing import Any

import pytest
import torch

from tests.unit.bytecode.python.programs import Case, X, case, expressions

TABLE: list[Any] = []
COUNTER = 0
STATE: dict[str, Any] = {"calls": 0, "log": []}

# Exceptions ---------------------------------------------------------------------------------------


class Custom(Exception):
    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code

    def __str__(self) -> str:
        return f"{self.args[0]} ({self.code})"


class Plain(ValueError):
    """An exception without a constructor."""


class WithNew(Exception):
    def __new__(cls, *args: Any) -> Any:
        made = super().__new__(cls, *args)
        made.extra = args
        return made


@case(TABLE, X, [])
def try_except_else_finally(x: torch.Tensor, log: list[Any]) -> Any:
    for kind in (ValueError, KeyError, None):
        try:
            if kind is not None:
                raise kind("text")
            log.append("body")
        except ValueError as error:
            log.append(("value", error.args))
        except (KeyError, IndexError) as error:
            log.append(("key", str(error), repr(error)))
        else:
            log.append("else")
        finally:
            log.append("finally")
    return x + 1


@case(TABLE)
def exceptions_with_attributes(x: torch.Tensor) -> Any:
    try:
        raise Custom("bad", code=7)
    except Custom as error:
        error.added = x + 1
        return (
            error.code,
            str(error),
            error.args,
            error.added,
            isinstance(error, Exception),
            repr(error),
        )


@case(TABLE)
def exceptions_escape_as_values(x: torch.Tensor) -> Any:
    e, p, w = Custom("a", 1), Plain("b", 2), WithNew("c")
    p.note = [1]
    return x + 1, e, p, w, w.extra, KeyError("k"), StopIteration(3).value, OSError(2, "gone").errno


@case(TABLE)
def chained_exceptions(x: torch.Tensor) -> Any:
    try:
        try:
            {}["k"]
        except KeyError as error:
            raise Plain("wrapped") from error
    except Plain as outer:
        first = type(outer.__cause__), outer.__suppress_context__, type(outer.__context__)
    try:
        try:
            1 / 0
        except ZeroDivisionError:
            raise Plain("during")
    except Plain as outer:
        second = outer.__cause__, type(outer.__context__), outer.__suppress_context__
    try:
        try:
            1 / 0
        except ZeroDivisionError:
            raise Plain("hidden") from None
    except Plain as outer:
        third = outer.__cause__, outer.__suppress_context__
    return x + 1, first, second, third


@case(TABLE)
def raised_again(x: torch.Tensor) -> Any:
    try:
        try:
            raise Plain("one")
        except Plain as error:
            error.seen = True
            raise
    except Plain as error:
        return x + 1, error.seen, error.args


@case(TABLE)
def through_functions(x: torch.Tensor) -> Any:
    def inner(n: int) -> Any:
        if n > 1:
            raise Plain(n)
        return n

    def middle(n: int) -> Any:
        try:
            return inner(n)
        finally:
            STEPS.append(n)

    found = []
    for n in range(3):
        try:
            found.append(middle(n))
        except Plain as error:
            found.append(error.args)
    return x + 1, found, [STEPS.pop() for _ in range(3)]


STEPS: list[int] = []


@case(TABLE, graphs=None, breaks=None)
def an_exception_leaves_the_function(x: torch.Tensor) -> Any:
    y = x + 1
    raise Custom("leaves", code=len(y))


@case(TABLE, X, [], breaks=None)
def an_exception_leaves_after_changes(x: torch.Tensor, log: list[Any]) -> Any:
    log.append("before")
    y = x + 1
    log.append(y)
    if len(log) == 2:
        raise Plain("after")
    return y


@case(TABLE, breaks=None)
def a_chain_leaves_the_function(x: torch.Tensor) -> Any:
    try:
        {}["k"]
    except KeyError as error:
        raise Plain("wrapped") from error


@case(TABLE, breaks=None)
def a_failed_assertion(x: torch.Tensor) -> Any:
    assert x.shape[0] == 5, f"got {x.shape[0]}"
    return x


@case(TABLE)
def assertions(x: torch.Tensor) -> Any:
    assert x.ndim == 1
    assert x.shape[0] == 4, "four"
    try:
        assert not x.shape, ("wrong", 1)
    except AssertionError as error:
        return x + 1, error.args


@case(TABLE)
def returns_in_finally(x: torch.Tensor) -> Any:
    def early(n: int) -> Any:
        try:
            return "try"
        finally:
            if n:
                return "finally"

    def loop() -> Any:
        for i in range(3):
            try:
                if i == 1:
                    continue
                if i == 2:
                    break
            finally:
                STEPS.append(i)
        return i

    return x + 1, early(0), early(1), loop(), [STEPS.pop() for _ in range(3)]


@case(TABLE, breaks=None)
def exception_groups(x: torch.Tensor) -> Any:
    found = []
    try:
        raise ExceptionGroup("many", [ValueError(1), KeyError(2), TypeError(3)])
    except* ValueError as group:
        found.append([e.args for e in group.exceptions])
    except* (KeyError, TypeError) as group:
        found.append(len(group.exceptions))
    return x + 1, found


@case(TABLE, breaks=None)
def exception_groups_split(x: torch.Tensor) -> Any:
    group = ExceptionGroup("g", [ValueError(1), TypeError(2)])
    match_, rest = group.split(ValueError)
    return x + 1, len(match_.exceptions), len(rest.exceptions), group.message


@case(TABLE)
def names_of_exceptions_are_deleted(x: torch.Tensor) -> Any:
    try:
        raise Plain
    except Plain:
        pass
    try:
        error
    except NameError as missing:
        return x + 1, type(missing)


@case(TABLE)
def exception_classes(x: torch.Tensor) -> Any:
    found = []
    for kind in (
        LookupError,
        ArithmeticError,
        OSError,
        RuntimeError,
        NotImplementedError,
        StopIteration,
    ):
        try:
            raise kind
        except (LookupError, ArithmeticError) as error:
            found.append(("a", type(error)))
        except OSError:
            found.append("os")
        except RuntimeError as error:
            found.append(isinstance(error, NotImplementedError))
        except Exception as error:
            found.append(error.args)
    return x + 1, found


@case(TABLE, breaks=None)
def notes_and_tracebacks(x: torch.Tensor) -> Any:
    try:
        raise Plain("n")
    except Plain as error:
        error.add_note("a note")
        return x + 1, error.__notes__, error.__traceback__ is not None


# Closures and scopes ------------------------------------------------------------------------------


@case(TABLE)
def closures_of_three_kinds(x: torch.Tensor) -> Any:
    count, values = 0, []

    def add(n: Any) -> Any:
        nonlocal count
        count += 1
        values.append(n)
        return n + count

    def later() -> Any:
        return count, values, add

    add(x)
    add(1)
    return (
        add(x),
        count,
        values,
        later,
        [f(1) for f in [lambda a, k=k: a + k for k in range(3)]],
        [f() for f in [lambda: k for k in range(3)]],
    )


def make_counter() -> Any:
    count = 0

    def step(by: int = 1) -> int:
        nonlocal count
        count += by
        return count

    def read() -> int:
        return count

    return step, read


@case(TABLE, lambda: (X, make_counter()))
def a_closure_from_outside(x: torch.Tensor, pair: Any) -> Any:
    step, read = pair
    step()
    step(5)
    return x * read(), read()


@case(TABLE)
def closures_made_and_escaping(x: torch.Tensor) -> Any:
    step, read = make_counter()
    step()
    return x + read(), step, read, make_counter()[0]


@case(TABLE)
def deep_closures(x: torch.Tensor) -> Any:
    def outer(a: Any) -> Any:
        def middle(b: Any) -> Any:
            def inner(c: Any) -> Any:
                nonlocal a
                a = a + c
                return a, b

            return inner

        return middle

    f = outer(x)(2)
    return f(1), f(2), f


@case(TABLE, watched=("COUNTER",))
def global_variables(x: torch.Tensor) -> Any:
    global COUNTER, MADE
    COUNTER += 1
    COUNTER = COUNTER * 2 + 1
    MADE = x
    del MADE
    return x + COUNTER


@case(TABLE, watched=("COUNTER",))
def a_global_deleted_and_missed(x: torch.Tensor) -> Any:
    global COUNTER
    before = COUNTER
    del COUNTER
    try:
        COUNTER
    except NameError as error:
        message = str(error)
    COUNTER = before + 1
    return x + 1, message


@case(TABLE, watched=("STATE",))
def global_containers(x: torch.Tensor) -> Any:
    STATE["calls"] += 1
    STATE["log"].append(x)
    STATE["new"] = STATE["log"]
    return x + STATE["calls"]


@case(TABLE)
def deleted_names(x: torch.Tensor) -> Any:
    y = x + 1
    z = y
    del y
    try:
        y  # noqa: F821
    except UnboundLocalError as error:
        return z, str(error)


@case(TABLE)
def walrus_and_chains(x: torch.Tensor) -> Any:
    if (n := x.shape[0]) > 3 and (m := n * 2) > 7:
        pass
    values = [last := v for v in range(3)]
    a = b = [x]
    return (
        n,
        m,
        last,
        values,
        a is b,
        1 < n <= 4 != 5,
        3 < n < 2,
        [y := 1, y**2],
        (lambda: (k := 3) + k)(),
    )


@case(TABLE)
def recursion(x: torch.Tensor) -> Any:
    def factorial(n: int) -> int:
        return 1 if n == 0 else n * factorial(n - 1)

    def depth(value: Any) -> int:
        return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0

    return x * factorial(5), depth([1, [2, [3]]]), even(10)


def even(n: int) -> bool:
    return True if n == 0 else odd(n - 1)


def odd(n: int) -> bool:
    return False if n == 0 else even(n - 1)


# Calls --------------------------------------------------------------------------------------------


def everything(a: Any, /, b: Any, *args: Any, c: Any, d: Any = 4, **kwargs: Any) -> Any:
    return a, b, args, c, d, kwargs


def remembering(item: Any, seen: list[Any] = []) -> Any:  # noqa: B006
    seen.append(item)
    return list(seen)


def forgetting(item: Any) -> Any:
    def inner(value: Any, seen: list[Any] = []) -> Any:  # noqa: B006
        seen.append(value)
        return seen

    inner(item)
    return inner(2)


@case(TABLE)
def calls_of_every_kind(x: torch.Tensor) -> Any:
    args, kwargs = [1, 2], {"c": 3}
    return (
        everything(x, 2, c=3), everything(*args, **kwargs), everything(1, b=2, c=3, d=5, e=6), everything(*args, 3, *[4], c=1, z=2),
        everything(1, *"ab", **kwargs, y=x), forgetting(1), (lambda *a, **k: (a, k))(*()), (lambda a, /, a1=1, *, k=2: (a, a1, k))(5),
    )  # fmt: skip


@case(TABLE)
def mutable_defaults(x: torch.Tensor) -> Any:
    first = remembering(1)
    second = remembering(2)
    remembering.__defaults__[0].clear()
    return x + 1, first, second


@case(TABLE)
def errors_of_calls(x: torch.Tensor) -> Any:
    found = []
    for operation in (
        lambda: everything(),
        lambda: everything(1),
        lambda: everything(1, 2),
        lambda: everything(a=1, b=2, c=3),
        lambda: even(),
        lambda: even(1, 2),
        lambda: even(m=1),
        lambda: even(1, n=2),
        lambda: (lambda a, b: 1)(1),
        lambda: (lambda *, k: 1)(),
        lambda: (lambda *, k, j: 1)(),
        lambda: (lambda a, b, c: 1)(),
        lambda: (lambda a, b=1: 1)(1, 2, 3),
        lambda: len(),
        lambda: len([], []),
        lambda: isinstance(1),
    ):
        try:
            operation()
            found.append("no error")
        except Exception as error:
            found.append((type(error), error.args))
    return x + 1, found


def annotated(a: int, b: str = "x") -> torch.Tensor:
    c: int = 3
    return c


@case(TABLE)
def annotations_and_attributes_of_functions(x: torch.Tensor) -> Any:
    def inner(a: int, *, k: str = "s") -> float:
        """Inner."""
        return 1.0

    inner.tag = "t"
    return (
        x + 1,
        annotated(1),
        inner,
        inner.tag,
        inner.__doc__,
        inner.__kwdefaults__,
        hasattr(inner, "zz"),
        inner.__name__,
        inner.__dict__,
    )


@case(TABLE)
def decorators(x: torch.Tensor) -> Any:
    def twice(f: Any) -> Any:
        return lambda *a: f(f(*a))

    def times(n: int) -> Any:
        def decorate(f: Any) -> Any:
            return lambda a: f(a) * n

        return decorate

    @twice
    @times(3)
    def double(a: Any) -> Any:
        return a * 2

    return double(x)


# match --------------------------------------------------------------------------------------------


class Node:
    __match_args__ = ("left", "right")

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right


def described(value: Any) -> Any:
    match value:
        case None | True:
            return "none or true"
        case int(n) if n > 100:
            return ("big", n)
        case int() | float() as number:
            return ("number", number)
        case "a" | "b":
            return "letter"
        case str(s):
            return ("text", s)
        case []:
            return "empty"
        case [one]:
            return ("one", one)
        case [first, *rest]:
            return (first, rest)
        case {"kind": "point", "x": a, **others}:
            return ("point", a, others)
        case {"kind": kind}:
            return ("kind", kind)
        case Node(l, Node(right=r)):
            return ("nested", l, r)
        case Node(left=l):
            return ("node", l)
        case (torch.float32 | torch.float64) as d:
            return d
        case _:
            return "other"


@case(TABLE)
def matches(x: torch.Tensor) -> Any:
    values = [
        None,
        True,
        500,
        5,
        2.5,
        "a",
        "zz",
        [],
        [1],
        (1, 2, 3),
        {"kind": "point", "x": 1, "y": 2},
        {"kind": "k"},
        {},
        Node(1, Node(2, 3)),
        Node(1, 2),
        {1},
        b"x",
        x.dtype,
    ]
    return x + 1, [described(v) for v in values]


@case(TABLE)
def matches_on_shapes(x: torch.Tensor) -> Any:
    match x.shape:
        case (4,):
            return x * 4
        case (a, b):
            return x * a * b


# Loops and with -----------------------------------------------------------------------------------


@case(TABLE)
def loops(x: torch.Tensor) -> Any:
    found = []
    for i in range(5):
        if i == 1:
            continue
        if i == 4:
            break
        found.append(i)
    else:
        found.append("never")
    for _ in ():
        pass
    else:
        found.append("else")
    n = 3
    while n:
        n -= 1
        x = x + n
    else:
        found.append("while else")
    while True:
        break
    return x, found


@case(TABLE)
def grad_modes(x: torch.Tensor) -> Any:
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            z = y + 1
    return y, z, torch.is_grad_enabled()


expressions(
    TABLE,
    """
    [a for a in range(3) if a % 2], {a: b for a, b in [(1, 2)]}, {a for a in "aab"}, [[b for b in range(a)] for a in range(3)], [a for b in [[1], [2]] for a in b]
    [x + a for a in range(2)], sum(x * a for a in range(3)), [f(2) for f in (lambda v: v + 1, lambda v: v * 2)], [k for k in {"a": 1}], [n := n0 + 1 for n0 in range(2)]
    1 if x.ndim == 1 else 2, x.shape[0] > 2 and "yes" or "no", None or 0 or [], not None, (1, 2) < (1, 3), "a" in {"a": 1} and 3, [] or x, x is not None and x.ndim
    (lambda a, *b, c=3, **d: (a, b, c, d))(1, 2, c=4, e=5), (lambda: None)(), (lambda f: f(f))(lambda g: 3), *[1, 2], *(3,)
    """,
    {},
)


@case(TABLE, breaks=None)
def locals_before_anything_else(x: torch.Tensor) -> Any:
    return locals()["x"] + 1


@pytest.mark.parametrize("program", TABLE)
def test_statements(program: Case) -> None:
    program.run()


assert traceback
