"""Which variables a function still needs from some instruction on."""

from minitorch2.bytecode.machine.disassemble import disassemble
from minitorch2.bytecode.machine.liveness import live_names, reachable


def live_at(function, line, *, with_code=True):
    """The live variables at the first instruction of a line, counted from the `def`."""
    code = function.__code__
    instructions = disassemble(code)
    wanted = code.co_firstlineno + line
    index = next(i for i, one in enumerate(instructions) if one.line == wanted)
    return live_names(instructions, index, code if with_code else None)


def test_toy_example():
    def toy(a, b):
        x = a / (abs(a) + 1)
        if b < 0:
            b = b * -1
        return x * b

    assert live_at(toy, 1) == ("a", "b")
    assert live_at(toy, 2) == ("b", "x")
    assert live_at(toy, 3) == ("b", "x")


def test_overwritten_variables_are_dead():
    def function(a, b):
        a = b
        b = 1
        return a, b

    assert live_at(function, 1) == ("b",)
    assert live_at(function, 3) == ("a", "b")


def test_loops_carry_what_the_next_round_reads():
    def function(n, start):
        total = start
        while n:
            n = n - 1
            total = total + n
        return total

    assert live_at(function, 3) == ("n", "total")


def test_handlers_read_variables():
    def function(a, b):
        c = 1
        try:
            c = a()
        except ValueError:
            return b, c
        return 0

    assert live_at(function, 3) == ("a", "b", "c")


def test_deleting_needs_a_bound_variable():
    def function(a):
        print()
        del a

    assert live_at(function, 1) == ("a",)


def test_cells_live_while_any_function_could_see_a_store():
    def function(a):
        def inner():
            return a

        print()
        a = 2
        return inner

    assert live_at(function, 4) == ("a", "inner")


def test_free_variables_come_with_the_function():
    outer = 1

    def function(a):
        return a, outer

    assert live_at(function, 1) == ("a",)


def test_locals_reads_everything():
    def function(a, b):
        c = 1
        print()
        return locals(), c

    assert live_at(function, 2) == ("a", "b", "c")
    assert live_at(function, 2, with_code=False) == ("c",)


def test_super_reads_the_first_parameter():
    class Child:
        def method(this, x):
            print()
            s = super()
            return s, x

    assert live_at(Child.method, 1) == ("this", "x")
    assert live_at(Child.method, 3) == ("s", "x")


def test_unreachable_instructions_are_found():
    def function(a):
        if a:
            return 1
        return 2

    instructions = disassemble(function.__code__)
    branch = next(i for i in instructions if i.opname == "POP_JUMP_IF_FALSE")
    rest = reachable(instructions, instructions.index(branch.target))
    assert [i.argval for i in instructions if i in rest] == [2, None]
