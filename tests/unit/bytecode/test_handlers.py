"""Every instruction that CPython writes is evaluated, or listed here as left to Python."""

import importlib
from types import CodeType

import pytest

from minitorch2.bytecode import handlers
from minitorch2.bytecode.evaluator import HANDLERS
from minitorch2.bytecode.machine.disassemble import disassemble
from minitorch2.bytecode.perform import PERFORMERS

# Asynchronous code, class bodies, modules, except*: frames that use them run in Python.
LEFT_TO_PYTHON = {
    "GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "END_ASYNC_FOR", "BEFORE_ASYNC_WITH",
    "ASYNC_GEN_WRAP",
    "CLEANUP_THROW", "LOAD_NAME", "STORE_NAME", "DELETE_NAME", "LOAD_CLASSDEREF", "IMPORT_STAR",
    "SETUP_ANNOTATIONS", "PRINT_EXPR", "PREP_RERAISE_STAR", "CHECK_EG_MATCH", "LOAD_LOCALS",
    "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "CALL_INTRINSIC_1", "CALL_INTRINSIC_2",
}  # fmt: skip
MODULES = ["argparse", "asyncio.tasks", "contextlib", "dataclasses", "inspect", "typing", "ast"]


def codes_in(code):
    """A code object and all that are nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


@pytest.mark.parametrize("name", MODULES)
def test_each_instruction_has_a_handler(name):
    module = importlib.import_module(name)
    with open(module.__file__) as file:
        code = compile(file.read(), module.__file__, "exec")
    used = {i.opname for inner in codes_in(code) for i in disassemble(inner)}
    assert handlers
    assert used - HANDLERS.keys() <= LEFT_TO_PYTHON


def test_performers_are_of_instructions_that_exist():
    assert PERFORMERS.keys() <= HANDLERS.keys()
