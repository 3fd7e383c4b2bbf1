"""What random programs have found: one test a bug. `tests/property/test_capture_programs.py`."""

import contextlib
import copy
import functools
import gc
import sys
import threading
import types
import weakref

import pytest
import torch

import minitorch2
from minitorch2 import config
from minitorch2.testing import assert_same_observation, observe

X = torch.tensor([1.0, -2.0, 3.0])


def agrees(function, *calls):
    """Compare one compiled function with CPython over several calls, arguments included."""
    minitorch2.reset()
    compiled = minitorch2.compile(function, backend="eager")
    with config.patch(suppress_errors=False):
        for arguments in calls:
            wanted_args, given_args = copy.deepcopy(arguments), copy.deepcopy(arguments)
            wanted = observe(function, wanted_args, wanted_args)
            assert_same_observation(observe(compiled, given_args, given_args), wanted)


# Values as keys ---------------------------------------------------------------------------------


def test_a_number_that_varies_is_no_element_of_a_set_until_it_is_known():
    def f(x, n):
        def inner():
            return n

        if {1, n} <= {1, 2, 3}:
            return x + inner()
        return x - n

    with config.patch(dynamic=False):
        agrees(f, *[(X, n) for n in (0, 1, 2, 3, 0, 2)])


@pytest.mark.parametrize("key", ["upper", "builtin", "weakref"])
def test_keys_that_are_equal_without_being_one_tracker(key):
    class Thing:
        pass

    def f(x):
        thing = Thing
        if key == "upper":
            a, b = "a".upper, "a".upper
        elif key == "builtin":
            a, b = x.sin, x.sin
        else:
            a, b = weakref.ref(thing), weakref.ref(thing)
        return x + len({a, b}), {a: 1}.get(b)

    agrees(f, (X,), (X,))


def test_views_of_one_dict_are_equal():
    def f(x):
        table = {}
        a, b = types.MappingProxyType(table), types.MappingProxyType(table)
        return x + 1, a == b, a != b, a == {}, [a] == [b]

    agrees(f, (X,))


# Symbolic numbers -------------------------------------------------------------------------------

OPERATIONS = """
n & 3; n | 4; n ^ 1; ~n; n << 2; 1 << n; n >> 1; (-n) ** 0.5; n ** -0.5; divmod(n, 3); 17 % n
round(n / 3, 1); round(n, -1); round(n / 2); max(n / 2, m); min(n, 2.5); complex(n, m); hash(n)
'abcdefghijkl'[n]; 'abcdefghijkl'[:n]; b'abcdefghij'[n]; 'x' * n; n * b'a'; [0] * n; range(20)[n]
n.bit_count(); n.conjugate(); n.real; n.to_bytes(2, 'big'); n.as_integer_ratio(); (n / 2).hex()
n.__add__(1); n.__add__(m); n.__radd__(1); n.__lt__(m); n.__bool__(); n.__and__(3); n.__round__()
(3).__add__(n); 'x'.__mul__(n); (3).__and__(n); (2.5).__mul__(n); int.__add__(n, m); n.imag
n.startswith('a'); n.foo; n(); n[0]; len(n); n + 'a'; 'a' + n; n + None; n @ 2; n / 0; n < 'a'
(n > 4) is True; (n > 4) + 1; (n > 4) + (m > 2); (n > 4) & (m > 2); -(n > 4); {n > 4: 1}
'ab' * (n > 4); (n > 4) == 1; (n > 4).bit_length(); [1, 2][n > 4]; str(n > 4); divmod(n > 4, 2)
{n: 1}; {n, m}; {4, 5} <= {n, 5}; {4: 'a', 5: 'b', 6: 'c', 7: 'd'}[n]; n in {4: 1}; n is n; n is 4
f'{n:>5}'; f'{n / 2:.2f}'; '%d' % n; '%s %d' % (n, m); '{} {k}'.format(n, k=m); 'a'.ljust(n)
torch.nn.functional.relu(x.clone(), inplace=n > 5); x.sum(0, keepdim=n > 5); x[n % 3]
"""


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("operation", [o.strip() for o in OPERATIONS.replace("\n", ";").split(";")])
def test_symbolic_numbers_do_what_numbers_do(operation):
    namespace = {"torch": torch, "contextlib": contextlib}
    block = f"with contextlib.suppress(LookupError):\n        return {operation or 'n'}, x + 1"
    exec(f"def f(x, n, m):\n    {block}", namespace)
    agrees(namespace["f"], *[(X, n, m) for n, m in ((4, 3), (5, 2), (7, 3))])


def test_a_condition_on_a_number_is_an_option_of_an_operator():
    def f(x, n):
        torch.nn.functional.relu(x, inplace=n > 5)
        return x

    agrees(f, *[(X, n) for n in (1, 2, 3, 7, 3)])


def test_an_even_number_enters_the_graph():
    def f(x, n):
        return x if n % 2 else x + n

    agrees(f, *[(X, n) for n in (1, 2, 4, 6, 3, 4)])


def test_equal_numbers_are_not_one_input():
    graphs = []

    def f(x, n, m):
        return x + n + m

    compiled = minitorch2.compile(f, backend=lambda graph, inputs: graphs.append(graph) or graph)
    for n, m in ((3, 4), (5, 5), (6, 7), (8, 8), (9, 10)):
        assert torch.equal(compiled(X, n, m), X + n + m)
    assert len(graphs) == 2


def test_an_attribute_of_a_literal_is_looked_up_by_residual_code():
    def f(x, n):
        y = x + 1
        print("before", end="")
        return (4).startswith("a"), y

    agrees(f, (X, 1))


# Exceptions being handled -----------------------------------------------------------------------


def test_behind_an_except_clause_its_exception_is_handled_no_more():
    def f(x):
        for _ in range(3):
            try:
                try:
                    _ = 1 // 0
                finally:
                    print(x.sum().item())
            except ZeroDivisionError as error:
                print(repr(error.__context__))
        return x + 1, sys.exc_info()

    agrees(f, (X,), (X,))


def test_exceptions_handled_in_one_another_survive_breaks():
    def f(x, n):
        try:
            for v in (1, -2, n):
                try:
                    raise KeyError(v)
                except KeyError as first:
                    if x.sum() > 0:
                        x = x + 1
                    try:
                        [][n]
                    except IndexError as second:
                        print(x.sum().item(), repr(second.__context__), sys.exc_info()[1])
                        try:
                            if v > 0:
                                if x.sum() > 9:
                                    raise
                                raise ValueError(v) from first
                        except (ValueError, IndexError) as third:
                            print(repr(third), repr(third.__context__), repr(third.__cause__))
                            print(sys.exc_info()[1])
                    print("after", sys.exc_info()[1])
                    if n == 2 and v == 2:
                        raise RuntimeError from None
                    raise
        except (KeyError, RuntimeError) as error:
            print(repr(error), repr(error.__context__))
        print(sys.exc_info())
        return x

    agrees(f, *[(X, n) for n in (0, 1, 2, 2)])


def test_a_condition_is_decided_while_its_exception_is_handled():
    class Truth:
        def __bool__(self):
            print("asked while", repr(sys.exc_info()[1]))
            return True

    def f(x):
        try:
            raise KeyError(1)
        except KeyError:
            if x.sum() > 0 and Truth():
                x = x + 1
        return x

    agrees(f, (X,), (-X,))


# Generators -------------------------------------------------------------------------------------


def test_a_finished_generator_stays_a_generator():
    def running(total=0):
        while True:
            got = yield total
            if got is None:
                return
            total += got

    def f(x):
        generator = running()
        next(generator)
        generator.send(3)
        generator.close()
        print(x.sum().item())
        return x + 1, type(generator).__name__, generator.__name__, next(generator, "end")

    agrees(f, (X,), (X,))


@pytest.mark.parametrize("breaks", [False, True])
def test_a_generator_that_a_loop_leaves_is_closed_before_the_loop_goes_on(breaks):
    def numbers(log):
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def f(x, log):
        for number in numbers(log):
            if breaks:
                print(number)
            x = x + number
            if x.shape[0] > number:
                break
        log.append("after")
        return x

    def g(x, log):
        x = f(x, log) * 2
        log.append("end")
        return x

    agrees(f, (X, []), (X[:1], []))
    agrees(g, (X, []), (X[:1], []))


# Errors of Python -------------------------------------------------------------------------------

REFUSED = """
items[7] = x; del items[7]; raise ValueError(1) from 5
with 5: pass
with Entered(): pass
[*5]; {**5}; {**"ab"}
from collections import nosuch
import math; from math import nosuch
(1, 2)[5]; range(3)[9]; items.pop(7); items.insert("a", 1); {}["k"]; None.foo; items["a"] = 1
"""


class Entered:
    def __enter__(self):
        return self


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("statements", REFUSED.strip().splitlines())
def test_a_statement_is_refused_in_the_words_of_cpython(statements):
    for statement in statements.split("; ") if "pass" not in statements else [statements]:
        text = f"""def f(x, items):
            try:
                {statement}
            except Exception as error:
                return x + 1, type(error).__name__, str(error)
            return x"""
        scope = dict(globals())
        exec(text, scope)
        agrees(scope["f"], (X, [1, 2]))


# Functions --------------------------------------------------------------------------------------


def test_the_cache_of_a_function_is_asked_by_python():
    @functools.cache
    def square(n):
        return n * n

    def f(x, n):
        with contextlib.suppress(LookupError):
            x = x + square(n)
            square.cache_clear()
            return x, square.cache_info().currsize

    agrees(f, (X, 2), (X, 2), (X, 3))


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: [f]], ids=["itself", "in a list"])
def test_functions_of_one_code_may_have_other_globals(wrap):
    """A function that is passed is known by its code, and by the module that it reads."""
    code = compile("def scaled(x): return x * SCALE", "<scaled>", "exec").co_consts[0]

    def program(x, given):
        return (given[0] if isinstance(given, list) else given)(x) + 1

    compiled = minitorch2.compile(program, backend="eager")
    for scale in (2, 3, 2):
        function = types.FunctionType(code, {"SCALE": scale, "__name__": "somewhere"})
        assert torch.equal(compiled(X, wrap(function)), X * scale + 1)


def test_equal_sets_may_have_another_order_or_elements_of_another_type():
    def program(x, numbers):
        numbers.add(1)
        return [x * n for n in numbers], numbers | {16}, str(numbers), numbers.pop()

    compiled = minitorch2.compile(program, backend="eager")
    for numbers in ({0, 8}, {8, 0}, {0, 8}, {0.0, 8}, {False, 8}):
        expected, given = (f(X, copy.copy(numbers)) for f in (program, compiled))
        for mine, theirs in zip(given[0], expected[0], strict=True):
            assert torch.equal(mine, theirs) and mine.dtype == theirs.dtype
        assert list(map(repr, given[1])) == list(map(repr, expected[1]))
        assert given[2:] == expected[2:]


def test_a_set_that_is_changed_keeps_the_order_of_the_rest():
    def program(x, numbers):
        numbers.discard(24)
        numbers |= {40}
        return x + len(numbers)

    compiled = minitorch2.compile(program, backend="eager")
    for start in ([32, 24, 8, 0], [0, 8, 24, 32]):
        mine, theirs = set(start), set(start)
        compiled(X, mine), program(X, theirs)
        assert [n for n in mine if n != 40] == [n for n in theirs if n != 40]
        assert mine == theirs


class Finalized:
    gone: list[str] = []  # noqa: RUF012

    def __init__(self, name):
        self.name = name

    def __del__(self):
        self.gone.append(self.name)


def test_the_finalizer_of_an_object_that_dies_inside_runs():
    def program(x):
        made = Finalized("made inside")
        return x + len(made.name)

    Finalized.gone.clear()
    compiled = minitorch2.compile(program, backend="eager")
    for _ in range(2):
        compiled(X)
    gc.collect()
    assert Finalized.gone == ["made inside"] * 2


@pytest.mark.parametrize(
    "values",
    [
        [{1: 2}, {True: 2}, {1.0: 2}],
        [{(1,): 2}, {(True,): 2}],
        [range(0, 3, 2), range(0, 4, 2)],
    ],
    ids=["keys", "tuples as keys", "ranges"],
)
def test_equal_values_that_can_be_told_apart(values):
    def program(x, value):
        return x, repr(value), [repr(item) for item in value]

    compiled = minitorch2.compile(program, backend="eager")
    for value in [*values, values[0]]:
        assert compiled(X, value)[1:] == program(X, value)[1:]


LOCAL = threading.local()


def test_attributes_of_a_thread_local_are_asked_at_each_call():
    def program(x):
        y = x + 1
        return y * getattr(LOCAL, "factor", 1)

    compiled = minitorch2.compile(program, backend="eager")
    for factor in (1, 2, 3):
        LOCAL.factor = factor
        assert torch.equal(compiled(X), (X + 1) * factor)
    del LOCAL.factor
    assert torch.equal(compiled(X), X + 1)
