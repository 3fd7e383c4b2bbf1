"""The guard machine does what its instructions say in Python, and never loses a reference."""

import builtins
import ctypes
import gc
import sys
import weakref
from collections import OrderedDict
from types import CellType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitorch2.native.cpython.guard_machine import Op, ProgramWriter, make_guard


def guard_of(write, parameters=1, namespace=None, cells=()):
    """A guard whose program `write(writer)` writes."""
    writer = ProgramWriter(parameters)
    write(writer)
    program = writer.finish()
    return make_guard(program, writer.kept, namespace or {}, builtins.__dict__, cells)


def check(op, b, c=0):
    """A guard of one check on its argument."""
    return guard_of(lambda w: w.check(op, 0, b if isinstance(b, int) else w.keep(b[0]), c))


constants = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=3), st.floats()
)
values = st.recursive(
    constants,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=2), st.integers(0, 3)), inner, max_size=3),
    ),
    max_leaves=6,
)


def holds(condition):
    """Whether a condition is true; what cannot be asked is not."""
    try:
        return bool(condition())
    except (AttributeError, LookupError, NameError, TypeError, ValueError):
        return False


@given(values, values)
def test_each_check_is_what_python_says(x, y):
    box = (y,)
    assert check(Op.IS, box)(x) is (x is y)
    assert check(Op.CLASS, (type(y),))(x) is (type(x) is type(y))
    assert check(Op.EQUAL, box)(x) is (type(x) is type(y) and (x is y or x == y))
    assert check(Op.TRUTH, 1)(x) is bool(x) and check(Op.TRUTH, 0)(x) is (not x)
    assert check(Op.LENGTH, 2)(x) is holds(lambda: len(x) == 2)
    assert check(Op.CONTAINS, box, 1)(x) is holds(lambda: y in x)
    assert check(Op.CONTAINS, box, 0)(x) is holds(lambda: y not in x)
    if isinstance(y, dict):
        assert check(Op.KEYS, (list(y),))(x) is holds(lambda: [*x] == list(y))


@given(values, values)
def test_each_load_is_what_python_loads(x, key):
    def same(write, load):
        found = []
        wanted = holds(lambda: found.append(load()) or True)
        given = guard_of(lambda w: w.check(Op.EQUAL, write(w), w.keep((found or [None])[0])))(x)
        if wanted and found[0] == found[0]:
            assert given
        elif not wanted:
            assert not given

    same(lambda w: w.load(Op.ITEM, 0, w.keep(key)), lambda: x[key])
    same(lambda w: w.load(Op.TYPE, 0), lambda: type(x))
    same(lambda w: w.load(Op.CALL, 0, w.keep(repr)), lambda: repr(x))
    if isinstance(key, str):
        same(lambda w: w.load(Op.ATTRIBUTE, 0, w.keep(key)), lambda: getattr(x, key))


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_order_of_keys(kind):
    guard = check(Op.KEYS, (["a", "b"],))
    assert guard(kind(a=1, b=2)) and not guard(kind(b=2, a=1)) and not guard(kind(a=1))
    moved = kind(b=2, a=1)
    moved["b"] = moved.pop("b")
    assert guard(moved)
    assert check(Op.KEYS, ([1000],))({10**3: 0}), "equal keys need not be the same object"


def test_empty_entries():
    guard = check(Op.EMPTY, ("k",))
    for empty in ({}, OrderedDict(), [], None, 0):
        assert guard({"k": empty}) and guard(OrderedDict(k=empty))
    for full in ({1: 1}, OrderedDict(a=1), [1], 1):
        assert not guard({"k": full}) and not guard(OrderedDict(k=full))
    assert not guard({}) and not guard(3)


def test_globals_builtins_cells_and_constants():
    namespace = {"here": 1}

    def write(w):
        w.check(Op.EQUAL, w.load(Op.GLOBAL, 0, w.keep("here")), w.keep(1))
        w.check(Op.IS, w.load(Op.GLOBAL, 0, w.keep("len")), id(len))
        w.check(Op.EQUAL, w.load(Op.CELL, 0, 0), w.keep("inside"))
        w.check(Op.EQUAL, w.load(Op.CONSTANT, 0, w.keep("constant")), w.keep("constant"))

    cell = CellType("inside")
    guard = guard_of(write, 0, namespace, (cell,))
    assert guard()
    namespace["len"] = print
    assert not guard()
    del namespace["len"], cell.cell_contents
    assert not guard()
    cell.cell_contents = "inside"
    assert guard()
    del namespace["here"]
    assert not guard()


def test_the_code_that_a_function_runs():
    def function(x):
        return x

    code, other = function.__code__, (lambda x: -x).__code__
    guard = guard_of(lambda w: w.check(Op.RUNS, 0, w.keep(code)))
    assert guard(function)
    function.__code__ = other
    assert not guard(function)


def test_own_attributes():
    guard = guard_of(lambda w: w.check(Op.CONTAINS, w.load(Op.DICT, 0), w.keep("x"), 1))
    assert guard(SimpleNamespace(x=1)) and not guard(SimpleNamespace()) and not guard(3)


def test_distinct_objects_and_the_same():
    distinct = guard_of(lambda w: w.distinct([0, 1, 2]), 3)
    one, two, three = [], [], []
    assert distinct(one, two, three)
    assert not any(distinct(*each) for each in [(one, one, two), (one, two, one), (two, one, one)])
    same = guard_of(lambda w: w.check(Op.SAME, 0, 1), 2)
    assert same(one, one) and not same(one, two)


def test_python_functions_and_state():
    state = [True]
    guard = guard_of(
        lambda w: (
            w.python(lambda x, y: x < y, [0, 1]),
            w.check(Op.STATE, 0, w.keep(lambda: state[0]), w.keep(True)),
        ),
        2,
    )
    assert guard(1, 2) and not guard(2, 1)
    state[0] = False
    assert not guard(1, 2)


class Point(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint64), ("meta", ctypes.c_void_p))


def test_words_behind_an_object():
    """A bytearray's buffer lies behind a pointer in the object, as a tensor's data does."""
    flag = ctypes.create_string_buffer(16)
    point = Point(5, ctypes.addressof(flag))
    holder = bytearray(point)
    words = (ctypes.c_uint64 * 6).from_address(id(holder))
    start = ctypes.addressof(ctypes.c_char.from_buffer(holder))
    offset = 8 * list(words).index(start)

    def unset(value):
        """Asked where neither is set."""
        return False

    def guard(mask, value, wanted):
        table = [offset, 1, 0, mask, value, 8, 0, 8, wanted, id(unset)]
        return guard_of(lambda w: w.table(Op.WORDS, 0, table))

    assert guard(2**64 - 1, 5, 0)(holder) and guard(1, 1, 0)(holder)
    assert not guard(2**64 - 1, 6, 0)(holder) and not guard(2**64 - 1, 5, 1)(holder)
    flag[0] = b"\1"
    assert guard(2**64 - 1, 5, 1)(holder) and not guard(2**64 - 1, 5, 0)(holder)
    flag[0], flag[8] = b"\0", b"\1"
    assert guard(2**64 - 1, 5, 1)(holder)


def test_errors_of_paths_are_failures_and_others_are_raised():
    class Rude:
        def __init__(self, error):
            self.error = error

        def __getattr__(self, name):
            raise self.error

    guard = guard_of(lambda w: w.check(Op.TRUTH, w.load(Op.ATTRIBUTE, 0, w.keep("x")), 1))
    kinds = (AttributeError, KeyError, TypeError, NameError, ValueError, ZeroDivisionError)
    for error in kinds:
        assert guard(Rude(error())) is False
    for error in (RuntimeError(), KeyboardInterrupt(), MemoryError()):
        with pytest.raises(type(error)):
            guard(Rude(error))
    assert guard(SimpleNamespace(x=1))


def test_wrong_number_of_arguments():
    guard = check(Op.TRUTH, 1)
    for arguments in ((), (1, 2)):
        with pytest.raises(TypeError):
            guard(*arguments)


def test_references_are_balanced():
    class Thing:
        pass

    def write(w):
        own = w.load(Op.DICT, 0)
        part = w.load(Op.ITEM, own, w.keep("part"))
        again = w.load(Op.ATTRIBUTE, 0, w.keep("part"))
        w.check(Op.SAME, part, again)
        w.check(Op.CLASS, w.load(Op.TYPE, part), id(type))
        w.python(lambda x: x is not None, [part])
        w.check(Op.KEYS, own, w.keep(["part"]))

    guard, thing = guard_of(write), Thing()
    thing.part = Thing()
    counts = [sys.getrefcount(each) for each in (thing, thing.part, Thing, "part")]
    for _ in range(1000):
        assert guard(thing)
        assert not guard(thing.part)
    after = [sys.getrefcount(each) for each in (thing, thing.part, Thing, "part")]
    assert after == counts


def test_a_guard_that_is_dropped_lets_go_of_what_it_kept():
    class Kept:
        pass

    kept = Kept()
    reference, guard = weakref.ref(kept), check(Op.IS, (kept,))
    assert guard(kept)
    del kept
    assert reference() is not None
    del guard
    gc.collect()
    assert reference() is None


def test_a_guard_may_change_the_world_that_it_looks_at():
    """A property that empties the dict which holds the object being looked at."""
    world = {}

    class Trap:
        @property
        def x(self):
            world.clear()
            gc.collect()
            return 1

    def write(w):
        trap = w.load(Op.ITEM, 0, w.keep("trap"))
        w.check(Op.TRUTH, w.load(Op.ATTRIBUTE, trap, w.keep("x")), 1)
        w.check(Op.CLASS, trap, id(Trap))

    guard = guard_of(write)
    world["trap"] = Trap()
    assert guard(world)
    assert not guard(world)
