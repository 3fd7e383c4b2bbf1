"""Every instruction that CPython writes is evaluated, or listed here as left to Python."""

import importlib
from types import CodeType

import pytest

from minitorch2.bytecode import handlers
from minitorch2.bytecode.evaluator import HANDLERS
from minitorch2.bytecode.machine.disassemble import disassemble
from minitorch2.bytecode.perform import PERFORMERS
from tests.unit.bytecode.machine.opcodes import HANDLED, LEFT_TO_PYTHON

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


def test_the_list_of_handled_instructions_is_the_handlers():
    """The list is compared with every opcode of each version where torch is not installed."""
    assert HANDLERS.keys() == HANDLED
