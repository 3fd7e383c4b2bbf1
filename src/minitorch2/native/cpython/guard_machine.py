"""Guards as machine code: a small machine that runs programs of loads and checks.

A guard is asked before every call, so it must cost next to nothing. Compiling each one to machine
code would take longer than many programs run. So one function is compiled once per process, and
each guard is a *program* for it, an array of words.

Grammar::

    program ::= values parameters widest numbers  instruction*
    instruction ::= op a b c                         four words
    load  ::= CONSTANT b | GLOBAL b | CELL b | ATTRIBUTE a b | DICT a | ITEM a b | TYPE a | CALL a b
    check ::= IS a b | SAME a b | CLASS a b | EQUAL a b | LENGTH a b | KEYS a b | CONTAINS a b c
            | TRUTH a b | EMPTY a b | STATE b c | WORDS a b | DISTINCT b c | PYTHON b c | HOLDS
            | CONTIGUOUS a b | AGREE a b | RUNS a b
    skip  ::= UNLESS_SAME b c                        then another check
    number ::= SIZE a b c | INT a c | FLOAT a c | NUMBER b c
            | ADD a b c | MUL a b c | DIV a b c | MOD a b c | MAX a b c
            | LESS a b c | ALIKE a b c | FLOAT_LESS a b c | FLOAT_ALIKE a b c

A load appends a value to a list that starts with the arguments; a check looks at the value number
`a`. Operands are object addresses, numbers, or places in the program. The first check that fails
ends the run with False, and so does a load that raises one of `PATH_ERRORS`; HOLDS ends it with
True. Numbers are 64-bit integers, or floats as their bits, with a list of their own: each is put in
place `c`, and AGREE looks at it. A number that does not fit into 64 bits, or a divisor that is not
positive, ends the run with False.

The machine relies only on CPython's C functions and on the class field of every object. WORDS and
its like also rely on the layout of a class that the caller has found by probing.

The function object that `make_guard` returns keeps the objects alive that the program holds by
address, but for those that the caller only wants to recognize.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cache
from importlib.resources import files
from string import Template
from types import CellType

from minitorch2.native.cpython.builtin_functions import (
    MethodDef,
    address,
    bind,
    keep_forever,
    new_method,
)
from minitorch2.native.cpython.interpreter_api import check_interpreter, compile_ir

PATH_ERRORS = (
    AttributeError, LookupError, NameError, TypeError, ValueError, ZeroDivisionError,
)  # fmt: skip
"""The errors of following a path when the world has changed: a failed guard, not an error."""

HEADER = 4
"""Words before the first instruction: most values, parameters, most operands, numbers."""


class Op(IntEnum):
    """Instructions. `x` is value number `a`."""

    HOLDS = 0  # the guard holds
    CONSTANT = 1  # load object b
    GLOBAL = 2  # load the global, or else the builtin, of name b
    CELL = 3  # load the content of cell number b
    ATTRIBUTE = 4  # load x.b
    ITEM = 5  # load x[b]
    TYPE = 6  # load type(x)
    CALL = 7  # load b(x)
    IS = 8  # x is b
    SAME = 9  # x is value number b
    CLASS = 10  # type(x) is b
    EQUAL = 11  # type(x) is type(b) and x == b
    LENGTH = 12  # len(x) == b
    KEYS = 13  # [*x] == b
    CONTAINS = 14  # (b in x) is bool(c)
    TRUTH = 15  # bool(x) is bool(b)
    STATE = 16  # b() == c
    WORDS = 17  # the words behind x are those of the table at place b of the program
    DISTINCT = 18  # c values are different objects, or hold different words; their table is at b
    PYTHON = 19  # b(*values), whose count and numbers lie at place c
    DICT = 20  # load the dict of x's own attributes
    EMPTY = 21  # not x[b]
    CONTIGUOUS = 22  # the tensor x is dense, row by row, as the table at place b finds its sizes
    SIZE = 23  # number c is the word at the lower half of b behind the pointer at the upper half
    INT = 24  # number c is the int x
    FLOAT = 25  # number c is the float x
    NUMBER = 26  # number c is b
    ADD = 27  # number c is number a + number b, and so on
    MUL = 28
    DIV = 29  # rounded down
    MOD = 30
    MAX = 31
    LESS = 32  # 1 or 0
    ALIKE = 33  # 1 or 0
    FLOAT_LESS = 34
    FLOAT_ALIKE = 35
    AGREE = 36  # number a is b
    RUNS = 37  # the Python function x runs code b
    UNLESS_SAME = 38  # skip the next instruction if the 32-bit words at b and c are the same


_OPERATIONS = (
    Op.ADD, Op.MUL, Op.DIV, Op.MOD, Op.MAX, Op.LESS, Op.ALIKE, Op.FLOAT_LESS, Op.FLOAT_ALIKE,
)  # fmt: skip
"""The instructions that compute a number of two others."""

_CASES = "\n".join(f"    i64 {op.value}, label %op_{op.name.lower()}" for op in Op)

_FUNCTIONS = {
    "tuple_item": ("ptr", "PyTuple_GetItem"),
    "bytes": ("ptr", "PyBytes_AsString"),
    "bad_argument": ("i32", "PyErr_BadArgument"),
    "dict_item": ("ptr", "PyDict_GetItemWithError"),
    "dict_next": ("i32", "PyDict_Next"),
    "dict_size": ("i64", "PyDict_Size"),
    "list_item": ("ptr", "PyList_GetItem"),
    "list_size": ("i64", "PyList_Size"),
    "as_list": ("ptr", "PySequence_List"),
    "cell_get": ("ptr", "PyCell_Get"),
    "attribute": ("ptr", "PyObject_GetAttr"),
    "own_dict": ("ptr", "PyObject_GenericGetDict"),
    "item": ("ptr", "PyObject_GetItem"),
    "call_one": ("ptr", "PyObject_CallOneArg"),
    "call_none": ("ptr", "PyObject_CallNoArgs"),
    "call": ("ptr", "PyObject_Vectorcall"),
    "equal": ("i32", "PyObject_RichCompareBool"),
    "size": ("i64", "PyObject_Size"),
    "contains": ("i32", "PySequence_Contains"),
    "as_int": ("i64", "PyLong_AsLongLongAndOverflow"),
    "as_float": ("double", "PyFloat_AsDouble"),
    "truth": ("i32", "PyObject_IsTrue"),
    "code_of": ("ptr", "PyFunction_GetCode"),
    "error": ("ptr", "PyErr_Occurred"),
    "error_is": ("i32", "PyErr_ExceptionMatches"),
    "error_clear": ("void", "PyErr_Clear"),
    "incref": ("void", "Py_IncRef"),
    "decref": ("void", "Py_DecRef"),
}
"""The C functions that the machine calls, and what they return."""

GUARD_IR = Template(files(__package__).joinpath("guard_machine.ll").read_text(encoding="utf-8"))
"""The machine's text, in LLVM's intermediate representation."""


_DOC = "guard(*arguments) -> bool\n\nWhether a compiled entry may be used for these arguments."


@cache
def guard_method() -> MethodDef:
    """Return the method of all guards; UnsupportedPythonError if the interpreter is unknown."""
    check_interpreter()
    return new_method("guard", compile_ir(_machine_text(), "guard"), _DOC)


def _machine_text() -> str:
    keep_forever(PATH_ERRORS)
    text = GUARD_IR.substitute(
        header=HEADER,
        cases=_CASES,
        dict=id(dict),
        ordered=id(OrderedDict),
        errors=id(PATH_ERRORS),
        true=id(True),
        false=id(False),
        **{op.name.lower(): op.value for op in _OPERATIONS},
    )
    for name, (result, function) in _FUNCTIONS.items():
        pointer = f"inttoptr (i64 {address(function)} to ptr)"
        text = text.replace(f"call {result} @{name}(", f"call {result} {pointer}(")
    return text


def make_guard(
    program: bytes,
    kept: Sequence[object],
    namespace: dict[str, object],
    builtins: dict[str, object],
    cells: Sequence[CellType] = (),
) -> Callable[..., bool]:
    """Return a built-in function of positional arguments that runs a program.

    Args:
        program: its words, see the module's docstring. An ill-formed one crashes the interpreter.
        kept: objects that the program holds by address and that must stay alive.
        namespace, builtins: the dicts that GLOBAL reads.
        cells: the cells that CELL reads.

    The function raises an exception of a load or check that is not among `PATH_ERRORS`.
    """
    return bind(guard_method(), (program, namespace, builtins, tuple(kept), *cells))


class ProgramWriter:
    """Writes a program: instructions first, then the tables they refer to.

    Args:
        parameters: the number of arguments.
    """

    def __init__(self, parameters: int) -> None:
        self.parameters = parameters
        self.kept: list[object] = []
        self._values = parameters
        self._widest = 0
        self._numbers = 0
        self._instructions: list[list[int]] = []
        self._tables: list[int] = []
        self._references: list[tuple[list[int], int, int]] = []

    def load(self, op: Op, a: int = 0, b: int = 0) -> int:
        """Write a load; return the number of the value that it appends."""
        self._instructions.append([op, a, b, 0])
        self._values += 1
        return self._values - 1

    def check(self, op: Op, a: int = 0, b: int = 0, c: int = 0) -> None:
        """Write a check."""
        self._instructions.append([op, a, b, c])

    def number(self, op: Op, a: int = 0, b: int = 0) -> int:
        """Write an instruction that computes a number; return the number's place."""
        self._instructions.append([op, a, b, self._numbers])
        self._numbers += 1
        return self._numbers - 1

    def table(self, op: Op, a: int, table: Sequence[int]) -> None:
        """Write a check of value number `a` by a table."""
        self._instructions.append([op, a, 0, 0])
        self._refer(2, table)

    def distinct(self, values: Sequence[int], offsets: tuple[int, int] = (0, 0)) -> None:
        """Write a check that values are different objects.

        With offsets, the words must differ that lie at the second offset behind the pointer that
        lies at the first offset of each object.
        """
        self._instructions.append([Op.DISTINCT, 0, 0, len(values)])
        self._widest = max(self._widest, len(values))
        self._refer(2, (*offsets, *values))

    def python(self, function: Callable[..., object], values: Sequence[int]) -> None:
        """Write a check by a Python function of some values."""
        self._instructions.append([Op.PYTHON, 0, self.keep(function), 0])
        self._widest = max(self._widest, len(values))
        self._refer(3, (len(values), *values))

    def keep(self, value: object) -> int:
        """Return the address of an object, which will live as long as the guard."""
        self.kept.append(value)
        return id(value)

    def _refer(self, operand: int, table: Sequence[int]) -> None:
        self._references.append((self._instructions[-1], operand, len(self._tables)))
        self._tables += table

    def finish(self) -> bytes:
        """Return the words of the program."""
        self.check(Op.HOLDS)
        tables = HEADER + 4 * len(self._instructions)
        for instruction, operand, place in self._references:
            instruction[operand] = tables + place
        # An instruction looks up its value `a` first, even where `a` is the place of a number.
        values = max(self._values, self._numbers) + 1
        words = [values, self.parameters, self._widest + 1, self._numbers + 1]
        words += [word for instruction in self._instructions for word in instruction]
        return array("Q", [word % 2**64 for word in [*words, *self._tables]]).tobytes()
