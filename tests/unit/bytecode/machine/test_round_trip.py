"""Taking code apart and putting it together again must not change what it does."""

import dis
import glob
import os

import pytest

from minitorch2.bytecode.machine.assemble import assemble
from minitorch2.bytecode.machine.disassemble import disassemble
from tests.unit.bytecode.machine.families import FAMILIES
from tests.unit.bytecode.machine.observation import (
    all_code,
    function_of,
    observe,
    remade,
    traced_lines,
    with_code,
)

LIBRARY = sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))[::6]
NEVER = {
    "CACHE", "EXTENDED_ARG", "PRECALL", "KW_NAMES", "RETURN_CONST", "TO_BOOL", "END_FOR", "CALL_KW",
    "SET_FUNCTION_ATTRIBUTE", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST",
    "STORE_FAST_STORE_FAST", "JUMP_FORWARD", "JUMP_BACKWARD",
}  # fmt: skip


def library_code():
    for path in LIBRARY:
        with open(path, encoding="utf-8") as file:
            yield from all_code(compile(file.read(), path, "exec"))


def canonical(code):
    """Everything an instruction list says, in a form that can be compared."""
    instructions = disassemble(code)
    order = {instruction: index for index, instruction in enumerate(instructions)}
    return [
        (
            i.opname,
            type(i.argval),
            repr(i.argval),
            order.get(i.target),
            i.handler and (order[i.handler.target], i.handler.depth, i.handler.lasti),
            i.positions,
        )
        for i in instructions
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_family_behaves_the_same(family):
    source, calls = FAMILIES[family]
    # The whole program is remade, so the functions it defines are as well.
    code = compile(source, "<program>", "exec")
    for args in calls:
        before, after = {}, {}
        exec(code, before)
        exec(remade(code), after)
        expected = observe(before["f"], *map(copy_of, args))
        assert observe(after["f"], *map(copy_of, args)) == expected


def copy_of(value):
    return list(value) if isinstance(value, list) else value


@pytest.mark.parametrize("family", ["for", "try", "with", "comprehensions", "truth", "closures"])
def test_debugger_sees_the_same_lines(family):
    source, calls = FAMILIES[family]
    function = function_of(source)
    twin = with_code(function, remade(function.__code__))
    for args in calls:
        assert traced_lines(twin, *args) == traced_lines(function, *args)


def test_library_keeps_its_canonical_form():
    count = 0
    for code in library_code():
        count += 1
        assert canonical(assemble(disassemble(code), code)) == canonical(code), code
    assert count > 500


def test_library_needs_no_deeper_stack():
    for code in library_code():
        again = assemble(disassemble(code), code)
        # 3.12 counts no stack for RETURN_CONST, which becomes LOAD_CONST and RETURN_VALUE.
        assert again.co_stacksize in (code.co_stacksize, code.co_stacksize + 1)


def test_canonical_code_has_no_version_specific_opcodes():
    for code in library_code():
        assert NEVER.isdisjoint(i.opname for i in disassemble(code))


def test_positions_survive():
    def positions(code):
        return [
            (i.opname, i.positions)
            for i in dis.get_instructions(code)
            if i.opname in ("BINARY_OP", "COMPARE_OP", "STORE_SUBSCR", "LOAD_NAME")
        ]

    for code in library_code():
        assert positions(assemble(disassemble(code), code)) == positions(code)


def test_docstring_and_signature_stay():
    def documented(a, /, b, *c, d=1, **e):
        """Words."""
        return a, b, c, d, e

    twin = with_code(documented, remade(documented.__code__))
    assert twin.__code__.co_consts[0] == "Words."
    assert twin(1, 2, 3, d=4, x=5) == (1, 2, (3,), 4, {"x": 5})
