"""Statements: match, walrus, try, with, del, global, loops, nested functions."""

import contextlib

import torch

from tests.unit.bytecode.language import program

LEVEL = 1
SCALE = 2


@program
def match_sequences(x):
    out = []
    for value in ([], [1], [1, 2], [1, 2, 3], (x, 5)):
        match value:
            case []:
                out.append("empty")
            case [one]:
                out.append(one)
            case [a, 2]:
                out.append(a * 10)
            case [first, *rest] if len(rest) == 2:
                out.append(rest)
            case (t, int(n)):
                out.append(t + n)
    return out


@program
def match_mappings_and_values(x):
    out = []
    for value in ({"k": 1, "z": 2}, "text", 3, 2.5, None, True, {"other": x}):
        match value:
            case {"k": k, **rest}:
                out.append((k, rest))
            case str() as s:
                out.append(s)
            case True | None:
                out.append("singleton")
            case int() | float() as n if n > 2.7:
                out.append(n)
            case {"other": t}:
                out.append(t + 1)
            case _:
                out.append("rest")
    return out


@program
def walrus(x):
    if (n := x.dim()) > 1:
        x = x * n
    while (n := n - 1) > -2:
        x = x + n
    return x, [y := 1, y**2], [last := i for i in range(3)], last


@program
def loops_with_else(x):
    for i in range(3):
        if i == 5:
            break
    else:
        x = x + 1
    while True:
        x = x * 2
        break
    else:
        x = x + 100
    for i in range(5):
        if i % 2:
            continue
        x = x + i
    return x


@program
def try_finally_return(x):
    log = []

    def f(x):
        for i in range(3):
            try:
                if i == 1:
                    return x + i
                log.append(i)
            finally:
                log.append("f")

    return f(x), log


@program
def finally_overrides_return(x):
    def f():
        try:
            return 1
        finally:
            return 2  # noqa: B012

    return x + f()


@program
def finally_swallows(x):
    def f():
        while True:
            try:
                raise ValueError
            finally:
                break  # noqa: B012
        return 3

    return x + f()


@program
def nested_try(x):
    log = []
    try:
        try:
            raise KeyError("a")
        except KeyError as error:
            log.append(repr(error))
            raise ValueError("b") from error
        finally:
            log.append("inner")
    except ValueError as error:
        log.append((repr(error), repr(error.__cause__), error.__suppress_context__))
    else:
        log.append("else")
    finally:
        log.append("outer")
    return x + 1, log


@program
def implicit_context(x):
    try:
        try:
            {}["k"]
        except KeyError:
            [][1]
    except IndexError as error:
        return x + 1, type(error.__context__).__name__, error.__cause__


@program
def exception_groups(x):
    log = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), ValueError(3)])
    except* ValueError as group:
        log.append(len(group.exceptions))
    except* TypeError as group:
        log.append(repr(group.exceptions[0]))
    return x + 1, log


@program
def exception_group_of_one(x):
    try:
        raise ValueError("v")
    except* ValueError as group:
        x = x + len(group.exceptions)
    return x


@program
def exception_group_rest(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError:
            x = x + 1
    except ExceptionGroup as rest:
        return x, len(rest.exceptions), rest.message


class AppError(Exception):
    def __init__(self, code, detail=None):
        super().__init__(f"code {code}")
        self.code, self.detail = code, detail


@program
def own_exception(x):
    try:
        raise AppError(3, detail=x)
    except AppError as error:
        return error.detail * error.code, str(error), error.args


@program
def reraised(x):
    log = []

    def f():
        try:
            raise ValueError("v")
        except ValueError:
            log.append("seen")
            raise

    try:
        f()
    except Exception as error:
        return x + 1, str(error), log


@program
def notes_of_exceptions(x):
    try:
        error = ValueError("v")
        error.add_note("n")
        raise error
    except ValueError as caught:
        return x + 1, caught.__notes__


@program
def with_swallows(x):
    class Swallow:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            self.kind = kind.__name__ if kind else None
            return True

    with Swallow() as s:
        x = x + 1
        raise ValueError
    return x, s.kind


@program
def several_managers(x):
    log = []

    @contextlib.contextmanager
    def noting(name):
        log.append(name)
        yield name
        log.append("/" + name)

    with noting("a") as a, noting("b"):
        log.append(a)
    return x + 1, log


@program
def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, "last")
        y = stack.enter_context(contextlib.nullcontext(x + 1))
        stack.push(lambda *error: log.append("pushed"))
    return y, log


@program
def suppressed(x):
    with contextlib.suppress(KeyError, IndexError):
        {}["a"]
    return x + 1


@program
def closing_and_redirect(x):
    class Resource:
        closed = False

        def close(self):
            self.closed = True

    r = Resource()
    with contextlib.closing(r):
        x = x + 1
    return x, r.closed


@program
def deleted_names(x):
    a = [x, x + 1]
    b = a[0]
    del a
    try:
        a
    except UnboundLocalError:
        return b + 1
    del b


@program
def global_statement(x):
    global LEVEL
    LEVEL = LEVEL + 1
    y = x * LEVEL
    LEVEL = 1
    return y


@program
def nonlocal_statement(x):
    n = 0

    def step(x):
        nonlocal n
        n += 1
        return x + n

    return step(step(x)), n


@program
def recursion(x):
    def power(x, n):
        return x if n == 0 else power(x, n - 1) * x

    return power(x, 4)


@program
def closures_in_a_loop(x):
    made = [lambda t, i=i: t * i for i in range(3)]
    late = [lambda t: t + i for i in range(3)]  # noqa: B023
    return [f(x) for f in made], [f(x) for f in late]


@program
def defaults_are_shared(x):
    def f(t, seen=[]):  # noqa: B006
        seen.append(t)
        return len(seen)

    return x + f(1) + f(2)


@program
def function_attributes(x):
    def f(t):
        return t * f.k

    f.k = 3
    return f(x), f.__name__, f.__code__.co_argcount, f.__defaults__


@program
def globals_read(x):
    return x * globals()["SCALE"], "SCALE" in globals()


@program
def locals_read(x):
    a = 3
    return x + locals()["a"], sorted(locals())


@program
def chained_comparison(x):
    n = x.dim()
    return x + (0 < n <= 2 < 5), 1 < 2 > 1, not n, n and 3, 0 or "z", None if n else 1


@program
def conditional_imports(x):
    import math
    from collections import deque as d

    return x + math.floor(2.5), len(d([1]))


@program
def assertion(x):
    assert x.dim() == 2, "two dimensions"
    try:
        assert x.dim() == 3, "three"
    except AssertionError as error:
        return x + 1, str(error)


@program
def augmented(x):
    items, n, d = [1], 2, {"k": 3}
    items += [2]
    n **= 3
    d["k"] //= 2
    y = x.clone()
    y *= 2
    y[0] += 1
    return y, items, n, d


@program
def ternaries_and_short_circuit(x):
    log = []

    def f(v):
        log.append(v)
        return v

    return x + (f(0) or f(2)), f(0) and f(3), log


@program
def star_parameters(x):
    def f(a, /, b, *args, c=1, **kw):
        return a + b + sum(args) * c, kw

    return f(x, 1, 2, 3, c=2, d=4), f(x, b=1)


@program
def missing_arguments(x):
    def f(a, *, b):
        return a

    try:
        f(1)
    except TypeError as error:
        return x + 1, str(error)


@program
def lambda_tree(x):
    compose = lambda f, g: lambda t: f(g(t))  # noqa: E731
    return compose(lambda t: t + 1, lambda t: t * 2)(x)


@program
def decorators(x):
    def scaled(k):
        def decorate(f):
            def inner(t):
                return f(t) * k

            return inner

        return decorate

    @scaled(2)
    @scaled(3)
    def f(t):
        return t + 1

    return f(x)


@program
def torch_modes(x):
    with torch.no_grad():
        y = x + 1
    with torch.enable_grad():
        z = y * 2
    return z, torch.is_grad_enabled()


@program
def branch_on_data(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


@program
def too_deep_recursion(x):
    def deep(n):
        return deep(n + 1)

    try:
        deep(0)
    except RecursionError:
        return x + 1
