"""The canonical form of known functions, the same on every version."""

import sys

import pytest

from minitorch2.bytecode.machine.assemble import assemble
from minitorch2.bytecode.machine.disassemble import disassemble
from minitorch2.bytecode.machine.errors import BytecodeError
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.machine.versions import current_version, lookup_version
from minitorch2.native.cpython.errors import UnsupportedPythonError
from tests.unit.bytecode.machine.observation import with_code


def body(function, *, nulls=False):
    """(opname, argval) pairs without the prologue, and without NULLs, whose place varies."""
    ignored = {"RESUME", "COPY_FREE_VARS", "MAKE_CELL"} | (set() if nulls else {"PUSH_NULL"})
    found = disassemble(function.__code__)
    return [(i.opname, i.argval) for i in found if i.opname not in ignored]


def opnames(function):
    return [opname for opname, _ in body(function)]


def test_toy_example():
    def toy(a, b):
        x = a / (abs(a) + 1)
        if b < 0:
            b = b * -1
        return x * b

    assert body(toy) == [
        ("LOAD_FAST", "a"), ("LOAD_GLOBAL", "abs"), ("LOAD_FAST", "a"), ("CALL", (1, ())),
        ("LOAD_CONST", 1), ("BINARY_OP", "+"), ("BINARY_OP", "/"), ("STORE_FAST", "x"),
        ("LOAD_FAST", "b"), ("LOAD_CONST", 0), ("COMPARE_OP", "<"), ("POP_JUMP_IF_FALSE", None),
        ("LOAD_FAST", "b"), ("LOAD_CONST", -1), ("BINARY_OP", "*"), ("STORE_FAST", "b"),
        ("LOAD_FAST", "x"), ("LOAD_FAST", "b"), ("BINARY_OP", "*"), ("RETURN_VALUE", None),
    ]  # fmt: skip
    assert sum(i.opname == "PUSH_NULL" for i in disassemble(toy.__code__)) == 1
    instructions = disassemble(toy.__code__)
    (jump,) = (i for i in instructions if i.target)
    assert (jump.target.opname, jump.target.argval, jump.target.line) == (
        "LOAD_FAST",
        "x",
        jump.line + 2,
    )


def test_keyword_call_carries_its_names():
    def call(f, x):
        return f(x, 1, alpha=2, beta=x)

    assert ("CALL", (4, ("alpha", "beta"))) in body(call)
    assert opnames(call).count("LOAD_CONST") == 2


def test_method_call():
    def call(x):
        return x.sum(0).mean

    assert body(call) == [
        ("LOAD_FAST", "x"), ("LOAD_METHOD", "sum"), ("LOAD_CONST", 0), ("CALL", (1, ())),
        ("LOAD_ATTR", "mean"), ("RETURN_VALUE", None),
    ]  # fmt: skip


def test_loop_ends_behind_itself():
    def loop(xs):
        for x in xs:
            print(x)
        return 1

    instructions = disassemble(loop.__code__)
    (for_iter,) = (i for i in instructions if i.opname == "FOR_ITER")
    assert (for_iter.target.opname, for_iter.target.argval) == ("LOAD_CONST", 1)
    (back,) = (i for i in instructions if i.opname == "JUMP")
    assert back.target is for_iter


def test_function_parts_are_named():
    def outer(a):
        def inner(x, y=1, *, z: int = 2):
            return a

        return inner

    parts = next(argval for opname, argval in body(outer) if opname == "MAKE_FUNCTION")
    assert parts == {"defaults", "kwdefaults", "annotations", "closure"}
    assert ("LOAD_CLOSURE", "a") in body(outer)


def test_format_values():
    def plain(a):
        return f"{a:>4}{a}"

    assert [argval for opname, argval in body(plain) if opname == "FORMAT_VALUE"] == [
        (None, True),
        (None, False),
    ]


def test_starred_assignment():
    def starred(x):
        a, b, *c, d = x

    assert ("UNPACK_EX", (2, 1)) in body(starred)


def test_unary_plus_and_list_to_tuple_are_opcodes():
    def plus(a, f):
        return +f(*a, 1)

    assert {"UNARY_POSITIVE", "LIST_TO_TUPLE"} <= set(opnames(plus))


def test_table_of_the_running_version_is_found():
    assert current_version() is current_version()


@pytest.mark.parametrize("version", [("cpython", 3, 99), ("pypy", 3, 11)])
def test_unknown_version_is_refused_clearly(version):
    with pytest.raises(UnsupportedPythonError, match="no bytecode table for"):
        lookup_version(*version)


def made_of(*pieces):
    """A function of one argument `a` with this body."""

    def model(a):
        pass

    start = Instruction("RESUME", 0)
    return with_code(model, assemble([start, *pieces], model.__code__))


def test_jumps_need_not_be_what_the_compiler_makes():
    """A loop whose exit is also reached by falling through, which the compiler never emits."""
    end = Instruction("LOAD_CONST", "end")
    loop = Instruction("FOR_ITER", target=end)
    function = made_of(
        Instruction("LOAD_FAST", "a"),
        Instruction("POP_JUMP_IF_FALSE", target=end),
        Instruction("LOAD_FAST", "a"),
        Instruction("GET_ITER"),
        loop,
        Instruction("POP_TOP"),
        Instruction("POP_TOP"),  # leaves the loop after one round by falling through
        end,
        Instruction("RETURN_VALUE"),
    )
    assert [function(a) for a in ([], [1, 2], iter(()))] == ["end", "end", "end"]


def test_far_jumps_get_extended_arguments():
    end = Instruction("LOAD_FAST", "a")
    filling = [Instruction("NOP") for _ in range(70_000)]
    function = made_of(
        Instruction("LOAD_FAST", "a"),
        Instruction("POP_JUMP_IF_TRUE", target=end),
        *filling,
        end,
        Instruction("RETURN_VALUE"),
    )
    assert function(5) == 5
    assert function(0) == 0


def test_constants_that_are_equal_stay_apart():
    function = made_of(
        Instruction("LOAD_CONST", 1),
        Instruction("LOAD_CONST", True),
        Instruction("LOAD_CONST", 1.0),
        Instruction("BUILD_TUPLE", 3),
        Instruction("RETURN_VALUE"),
    )
    assert [type(value) for value in function(0)] == [int, bool, float]


@pytest.mark.parametrize(
    "piece",
    [
        Instruction("NO_SUCH_OPCODE"),
        Instruction("LOAD_FAST", "nobody"),
        Instruction("JUMP"),
        Instruction("JUMP", target=Instruction("NOP")),
    ],
)
def test_bad_instructions_are_refused(piece):
    with pytest.raises(BytecodeError):
        made_of(piece, Instruction("LOAD_CONST", None), Instruction("RETURN_VALUE"))


def test_two_disassemblies_are_separate():
    def function(a):
        return a

    first, second = disassemble(function.__code__), disassemble(function.__code__)
    assert set(first).isdisjoint(second)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="comprehensions are functions before 3.12")
def test_cell_and_free_variable_of_one_name_are_refused():
    shared = 1

    def function():
        return [lambda: shared for shared in range(2)], shared

    with pytest.raises(BytecodeError, match="ambiguous"):
        disassemble(function.__code__)


def test_closures_load_cells_and_comprehensions_plain_values():
    """In 3.13 one opcode does both, even on the same slot."""

    def function(n):
        x = 7
        return lambda: x, [(x,) for x in range(n)]

    loads = [pair for pair in body(function) if pair[1] == "x" and pair[0].startswith("LOAD")]
    assert ("LOAD_CLOSURE", "x") in loads
    if sys.version_info >= (3, 12):
        assert loads.count(("LOAD_FAST", "x")) == 1
