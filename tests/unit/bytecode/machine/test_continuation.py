"""The rest of a function, as a function."""

import gc
import sys
import traceback
import weakref
from types import CellType, FunctionType

import pytest

from minitorch2.bytecode.machine.continuation import make_continuation
from minitorch2.bytecode.machine.disassemble import disassemble
from minitorch2.bytecode.machine.errors import ContinuationError
from minitorch2.bytecode.machine.liveness import live_names
from tests.unit.bytecode.machine.families import FAMILIES
from tests.unit.bytecode.machine.observation import function_of, observe
from tests.unit.bytecode.machine.splitting import in_two_steps, split_points

LONG = {"many variables"}
SPLITTABLE = sorted(FAMILIES.keys() - LONG)


@pytest.mark.parametrize("family", SPLITTABLE)
def test_family_split_anywhere_behaves_the_same(family):
    source, calls = FAMILIES[family]
    function = function_of(source)
    for index, depth in split_points(function.__code__).items():
        split = in_two_steps(function, index, depth)
        for args in calls:
            # Each run starts from a fresh program, since some change their globals.
            expected = observe(function_of(source), *map(copy_of, args))
            found = observe(split, *map(copy_of, args))
            instruction = disassemble(function.__code__)[index]
            assert visible(found) == visible(expected), (instruction, args)
            function.__globals__.update({"count": 0} if "count" in function.__globals__ else {})


def copy_of(value):
    return list(value) if isinstance(value, list) else value


def visible(outcome):
    """What must agree."""
    return outcome.value, outcome.printed, outcome.error


def at_line(function, line):
    """The first instruction of a line (counted from the def) and the variables that live there."""
    code = function.__code__
    instructions = disassemble(code)
    index = next(i for i, one in enumerate(instructions) if one.line == code.co_firstlineno + line)
    return index, live_names(instructions, index, code)


def test_toy_example():
    def toy(a, b):
        x = a / (abs(a) + 1)
        if b < 0:
            b = b * -1
        return x * b

    index, live = at_line(toy, 3)
    code = make_continuation(toy.__code__, index, live, number=1)
    offset = disassemble(toy.__code__)[index].offset
    assert code.co_name == f"__resume_at_{offset}_1"
    assert code.co_varnames[: code.co_argcount] == ("b", "x")
    resume = FunctionType(code, {})
    assert resume(-3, 0.5) == 1.5
    assert code.co_filename == toy.__code__.co_filename


def test_errors_name_the_user_line():
    def function(a):
        b = 1
        return b / a

    index, live = at_line(function, 2)
    resume = FunctionType(make_continuation(function.__code__, index, live), {})
    with pytest.raises(ZeroDivisionError) as caught:
        resume(0, 1)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.lineno, last.filename) == (function.__code__.co_firstlineno + 2, __file__)


def test_cells_keep_their_identity():
    def function(a):
        def read():
            return a

        print()
        a = a + 1
        return read

    code = function.__code__
    index, live = at_line(function, 4)
    assert live == ("a", "read")
    rest = make_continuation(code, index, live)
    assert rest.co_varnames[: rest.co_argcount] == ("read", ".cell_a")
    cell = CellType(41)
    captured = FunctionType(read_code(code), {}, None, None, (cell,))
    assert FunctionType(rest, {"print": lambda: None})(captured, cell) is captured
    assert captured() == 42


def read_code(code):
    return next(c for c in code.co_consts if hasattr(c, "co_name") and c.co_name == "read")


def test_dead_cells_are_made_anew():
    def function(a):
        print()
        a = 1
        b = 2
        return lambda: (a, b)

    index, _ = at_line(function, 3)
    rest = make_continuation(function.__code__, index, ("a",))
    assert rest.co_varnames[: rest.co_argcount] == (".cell_a",)
    assert FunctionType(rest, {})(CellType(5))() == (5, 2)


def test_iterators_go_on_where_they_are():
    def function(xs):
        total = 0
        for x in xs:
            total += x
        return total

    code = function.__code__
    instructions = disassemble(code)
    index = next(i for i, one in enumerate(instructions) if one.opname == "FOR_ITER")
    rest = make_continuation(code, index, live_names(instructions, index), stack=1)
    iterator = iter([1, 2, 3])
    next(iterator)
    assert FunctionType(rest, {})(iterator, 100) == 105


def test_null_slots_are_pushed_by_the_prefix():
    def function(f, x):
        return f(x) + 1

    instructions = disassemble(function.__code__)
    index = next(i for i, one in enumerate(instructions) if one.opname == "CALL")
    null = 1 if sys.version_info >= (3, 13) else 0
    rest = make_continuation(function.__code__, index, (), stack=3, null_slots=[null])
    assert rest.co_argcount == 2
    assert FunctionType(rest, {})(abs, -4) == 5


def test_inside_try_and_with():
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            seen.append(error[0])
            return True

    seen = []

    def function(a, manager):
        with manager:
            try:
                print()
                a()
            except ValueError:
                return "value"
        return "left"

    index, live = at_line(function, 4)
    rest = make_continuation(function.__code__, index, live, stack=1)
    resume = FunctionType(rest, {})
    leave = Manager().__exit__
    assert resume(leave, lambda: int("x")) == "value"
    assert resume(leave, lambda: 1 / 0) == "left"
    assert seen == [None, ZeroDivisionError]


def test_inside_an_exception_handler():
    def function(a):
        try:
            a()
        except ValueError as error:
            print()
            if a:
                raise
            return repr(error)

    instructions = disassemble(function.__code__)
    line = function.__code__.co_firstlineno + 5
    index = next(i for i, one in enumerate(instructions) if one.line == line)
    live = live_names(instructions, index)
    # Inside the handler the stack holds the exception that was handled before.
    rest = make_continuation(function.__code__, index, live, stack=1)
    assert rest.co_argcount == 1 + len(live)
    pushed = next(i for i, one in enumerate(instructions) if one.opname == "PUSH_EXC_INFO") + 1
    rest = make_continuation(
        function.__code__, pushed, ("a",), stack=2, exception_slots=[1], number=2
    )
    resume = FunctionType(rest, {"ValueError": ValueError, "print": lambda: None, "repr": repr})
    problem = ValueError("v")
    assert resume(problem, 0) == "ValueError('v')"
    with pytest.raises(ValueError) as caught:
        resume(problem, 1)
    assert caught.value is problem
    assert sys.exc_info() == (None, None, None)
    with pytest.raises(KeyError):
        resume(KeyError("k"), 1)


def test_stack_items_are_not_kept_alive():
    class Thing:
        pass

    source = "def f(a):\n    use(a)\n    return check(), locals()"
    code = function_of(source).__code__
    index = next(i for i, one in enumerate(disassemble(code)) if one.opname == "CALL")
    null = 1 if sys.version_info >= (3, 13) else 0
    rest = make_continuation(code, index, (), stack=3, null_slots=[null])
    references = []

    def make():
        thing = Thing()
        references.append(weakref.ref(thing))
        return thing

    def check():
        gc.collect()
        return references[0]()

    resume = FunctionType(rest, {"check": check, "locals": locals})
    found = resume(lambda thing: None, make())  # not in the assert, which would keep the argument
    assert found == (None, {})


def test_locals_shows_the_same_variables():
    def function(a, b):
        c = a
        print()
        return sorted(locals())

    index, live = at_line(function, 2)
    resume = FunctionType(make_continuation(function.__code__, index, live), {})
    assert resume(1, 2, 3) == ["a", "b", "c"]


class Base:
    def method(self, x):
        return x


class Child(Base):
    def method(self, x):
        print()
        return super().method(x) + 1

    def object_in_cell(self, x):
        print()
        get = lambda: self
        return super().method(x) + get().unit


def test_super_finds_its_object():
    index, live = at_line(Child.method, 2)
    rest = make_continuation(Child.method.__code__, index, live, stack=0)
    assert rest.co_varnames[0] == "self"
    resume = FunctionType(rest, globals(), None, None, (CellType(Child),))
    assert resume(Child(), 4) == 5


def test_super_without_its_object_is_refused():
    index, live = at_line(Child.object_in_cell, 2)
    with pytest.raises(ContinuationError, match="super"):
        make_continuation(Child.object_in_cell.__code__, index, live)


def behind_yield(function, number):
    """Where a generator goes on behind one of its yields, and what it needs there."""
    code = function.__code__
    instructions = disassemble(code)
    yields = [i for i, one in enumerate(instructions) if one.opname == "YIELD_VALUE"]
    index = yields[number] + 1
    return index, live_names(instructions, index, code)


def rest_behind_yield(function, number):
    """The rest of a generator: takes the value that is sent, then its live variables."""
    index, live = behind_yield(function, number)
    code = make_continuation(function.__code__, index, live, stack=1)
    return FunctionType(code, {"print": print})


def test_the_rest_of_a_generator_is_a_generator():
    def generator(n):
        got = yield n
        try:
            got = yield got + n
        finally:
            n = 0
        return got

    rest = rest_behind_yield(generator, 0)(5, 2)
    assert next(rest) == 7
    with pytest.raises(StopIteration) as ended:
        rest.send("sent")
    assert ended.value.value == "sent"


def test_the_rest_of_a_generator_cleans_up():
    log = []

    def generator(log):
        try:
            yield 1
            yield 2
        except KeyError:
            log.append("caught")
            yield 3
        finally:
            log.append("closed")

    rest = rest_behind_yield(generator, 0)(None, log)
    assert next(rest) == 2
    assert rest.throw(KeyError()) == 3
    rest.close()
    assert log == ["caught", "closed"]
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        next(FunctionType(make_continuation(raising.__code__, *behind_yield(raising, 0), 1), {})(0))


def raising():
    yield 1
    raise StopIteration


def test_the_rest_of_a_coroutine_is_a_coroutine():
    async def coroutine(n):
        await ready()
        return n + await ready()

    async def ready():
        return 3

    instructions = disassemble(coroutine.__code__)
    index = next(i for i, one in enumerate(instructions) if one.opname == "POP_TOP" and i > 4)
    live = live_names(instructions, index, coroutine.__code__)
    code = make_continuation(coroutine.__code__, index, live, stack=1)
    cells = (CellType(ready),)
    with pytest.raises(StopIteration) as ended:
        FunctionType(code, {}, None, None, cells)(None, 4).send(None)
    assert ended.value.value == 7


def test_the_prologue_is_refused():
    with pytest.raises(ContinuationError, match="not started"):
        make_continuation(Child.method.__code__, 0, ("self",))


def test_class_bodies_are_refused():
    body = compile("class C:\n    x = 1\n    y = 2", "<program>", "exec").co_consts[0]
    with pytest.raises(ContinuationError, match="slots"):
        make_continuation(body, 3, ())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="comprehensions are functions before 3.12")
def test_cells_put_aside_by_a_comprehension_are_refused():
    def function(n):
        x = 7
        return [print(x) for x in range(n)], lambda: x

    instructions = disassemble(function.__code__)
    index = next(i for i, one in enumerate(instructions) if one.argval == "print")
    with pytest.raises(ContinuationError, match="comprehension"):
        make_continuation(function.__code__, index, ("x",), stack=4)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="comprehensions are functions before 3.12")
def test_cells_that_a_comprehension_will_put_aside():
    def function(n):
        x = 7
        print()
        return [x for x in range(n)], lambda: x

    index, live = at_line(function, 2)
    resume = FunctionType(make_continuation(function.__code__, index, live), {"print": print})
    numbers, read = resume(2, CellType(7))
    assert (numbers, read()) == ([0, 1], 7)


def test_empty_cells_are_unbound_local_variables():
    def function(n):
        print()
        value = n, x  # noqa: F821 (bound later)
        x = [lambda: x]
        return value

    index, live = at_line(function, 2)
    resume = FunctionType(make_continuation(function.__code__, index, live), {})
    with pytest.raises(UnboundLocalError, match="cannot access local variable 'x'"):
        resume(2, CellType())


def test_variables_of_a_frame_whose_cells_were_passed():
    def function(n):
        print()
        return locals(), lambda: n

    index, live = at_line(function, 2)
    resume = FunctionType(make_continuation(function.__code__, index, live), {"locals": locals})
    assert resume(CellType(3))[0] == {"n": 3}


def test_variables_captured_only_inside_a_comprehension_are_not_live():
    def function(n):
        print()
        return [sum(i * x for x in range(n)) for i in range(3)]

    index, live = at_line(function, 1)
    assert live == ("n",)
    rest = make_continuation(function.__code__, index, live)
    (name,) = rest.co_varnames[: rest.co_argcount]
    argument = CellType(3) if name == ".cell_n" else 3
    assert FunctionType(rest, {})(argument) == [0, 3, 6]
