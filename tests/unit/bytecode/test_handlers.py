"""Every instruction that CPython writes is evaluated, or listed here as left to Python."""

import copy
import importlib
import sys
from types import CodeType

import pytest

import minitorch2
from minitorch2 import config
from minitorch2.bytecode.evaluation import handlers
from minitorch2.bytecode.evaluation.evaluator import HANDLERS
from minitorch2.bytecode.frames.left_to_python import LEFT_TO_PYTHON
from minitorch2.bytecode.machine.disassemble import disassemble
from minitorch2.bytecode.residual.perform import PERFORMERS
from tests.unit.bytecode.machine.families import FAMILIES
from tests.unit.bytecode.machine.observation import function_of, observe
from tests.unit.bytecode.machine.opcodes import HANDLED, NEWER_THAN_3_11

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
    assert used - HANDLERS.keys() <= LEFT_TO_PYTHON.keys()


def test_performers_are_of_instructions_that_exist():
    assert PERFORMERS.keys() <= HANDLERS.keys()


def test_the_list_of_handled_instructions_is_the_handlers():
    """The list is compared with every opcode of each version where torch is not installed."""
    assert HANDLERS.keys() == HANDLED


# Each handler against CPython: soundness by induction over instructions (paper, section 3.4) -----


@pytest.mark.parametrize("family", FAMILIES)
def test_handlers_of_a_family_do_what_cpython_does(family):
    """Captured by itself, each small program does what it does in Python."""
    source, calls = FAMILIES[family]
    minitorch2.reset()
    plain, original = function_of(source), function_of(source)
    compiled = minitorch2.compile(original, backend="eager")
    with config.patch(suppress_errors=False):
        for arguments in [call for call in calls for _ in range(2)]:
            wanted = observe(plain, *copy.deepcopy(arguments))
            assert observe(compiled, *copy.deepcopy(arguments)) == wanted


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the list is that of 3.11")
def test_each_handled_instruction_is_in_a_family():
    used = {
        instruction.opname
        for source, _ in FAMILIES.values()
        for code in codes_in(compile(source, "<family>", "exec"))
        for instruction in disassemble(code)
    }
    assert HANDLED - used == NEWER_THAN_3_11
