"""Instructions that load and store variables: locals, globals, cells, constants."""

from __future__ import annotations

import builtins
from typing import NoReturn

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.guards.sources import GlobalSource, ItemSource, Source
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.lazy import realize
from minitorch2.bytecode.trackers.null import NULL
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.cell import CellVariable
from minitorch2.bytecode.trackers.python_values.code import literal_or_code
from minitorch2.bytecode.trackers.side_effects import DELETED
from minitorch2.graph.scope import is_name

# Constants and locals ----------------------------------------------------------------------------


@handles("LOAD_CONST")
def load_const(evaluator: Evaluator, instruction: Instruction) -> None:
    """``-> value``"""
    evaluator.push(literal_or_code(instruction.argval))


@handles("LOAD_FAST")
def load_fast(evaluator: Evaluator, instruction: Instruction) -> None:
    """``-> locals[name]``; an unbound name raises the user's UnboundLocalError."""
    name = instruction.argval
    if name in evaluator.locals:
        value = evaluator.locals[name] = realize(evaluator.locals[name])
        evaluator.push(value)
    elif name in evaluator.cells:
        evaluator.push(evaluator.cells[name])
    else:
        _raise_unbound(name)


@handles("STORE_FAST")
def store_fast(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value ->``; storing NULL unbinds the name. A continuation stores cells in their slots."""
    value = evaluator.pop()
    if value is NULL:
        evaluator.locals.pop(instruction.argval, None)
    elif isinstance(value, CellVariable) and instruction.argval in evaluator.cells:
        evaluator.cells[instruction.argval] = value
    else:
        evaluator.locals[instruction.argval] = value


@handles("DELETE_FAST")
def delete_fast(evaluator: Evaluator, instruction: Instruction) -> None:
    """``del name``"""
    if evaluator.locals.pop(instruction.argval, None) is None:
        _raise_unbound(instruction.argval)


@handles("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(evaluator: Evaluator, instruction: Instruction) -> None:
    """``-> locals[name] or NULL``, and unbind the name."""
    evaluator.push(evaluator.locals.pop(instruction.argval, NULL))


def _raise_unbound(name: str) -> NoReturn:
    message = f"cannot access local variable {name!r} where it is not associated with a value"
    raise_observed(UnboundLocalError, message)


# Globals -----------------------------------------------------------------------------------------


@handles("LOAD_GLOBAL")
def load_global(evaluator: Evaluator, instruction: Instruction) -> None:
    """``-> globals[name]``, or the builtin of that name."""
    evaluator.push(global_value(evaluator, instruction.argval))


@handles("STORE_GLOBAL")
def store_global(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value ->``; a side effect."""
    effects = evaluator.capture.side_effects
    effects.store_global(evaluator.namespace, instruction.argval, evaluator.pop())


@handles("DELETE_GLOBAL")
def delete_global(evaluator: Evaluator, instruction: Instruction) -> None:
    """``del name``; a side effect."""
    name = instruction.argval
    effects = evaluator.capture.side_effects
    pending = effects.load_global(evaluator.namespace, name)
    if pending is DELETED or (pending is None and name not in evaluator.namespace):
        raise_observed(NameError, f"name {name!r} is not defined")
    effects.store_global(evaluator.namespace, name, DELETED)


def global_value(evaluator: Evaluator, name: str) -> VariableTracker:
    """Return the value of a global of the module, pending writes included, or of a builtin."""
    pending = evaluator.capture.side_effects.load_global(evaluator.namespace, name)
    if isinstance(pending, VariableTracker):
        return pending
    if name in evaluator.namespace and pending is None:
        return evaluator.capture.wrap(evaluator.namespace[name], _global_source(evaluator, name))
    if not hasattr(builtins, name):
        raise_observed(NameError, f"name {name!r} is not defined")
    return evaluator.capture.wrap(getattr(builtins, name), _builtin_source(evaluator, name))


def _global_source(evaluator: Evaluator, name: str) -> Source:
    is_own = evaluator.namespace is evaluator.capture.frame.globals
    if is_own and is_name(name) and not hasattr(builtins, name):
        return GlobalSource(name)
    references = evaluator.capture.references
    references.globals_name(evaluator.namespace)
    return ItemSource(references.source(evaluator.namespace), name)


def _builtin_source(evaluator: Evaluator, name: str) -> Source:
    """Return the source of a builtin; one that the frame's code names is loaded as a global."""
    if name not in evaluator.capture.frame.globals and name in evaluator.code.co_names:
        return GlobalSource(name)
    return evaluator.capture.reference(getattr(builtins, name), name)


# Cells -------------------------------------------------------------------------------------------


@handles("MAKE_CELL")
def make_cell(evaluator: Evaluator, instruction: Instruction) -> None:
    """Turn a local variable into a cell, with the parameter's value if it has one."""
    name = instruction.argval
    parameter = evaluator.locals.pop(name, None)
    initial = None if parameter is None else lambda: realize(parameter)
    cell = evaluator.cells[name] = CellVariable(name, initial=initial)
    cell.begin(evaluator.capture.side_effects)


@handles("COPY_FREE_VARS")
def copy_free_vars(evaluator: Evaluator, instruction: Instruction) -> None:
    """Do nothing: the evaluator was given its free variables as cells."""


@handles("LOAD_CLOSURE")
def load_closure(evaluator: Evaluator, instruction: Instruction) -> None:
    """``-> cell``"""
    evaluator.push(evaluator.cells[instruction.argval])


@handles("LOAD_DEREF")
def load_deref(evaluator: Evaluator, instruction: Instruction) -> None:
    """``-> cell.cell_contents``; an empty cell raises the user's NameError."""
    name = instruction.argval
    contents = evaluator.cells[name].contents
    if contents is None:
        _raise_empty(evaluator, name)
    evaluator.push(contents)


@handles("STORE_DEREF")
def store_deref(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value ->``; a side effect on the cell."""
    cell = evaluator.cells[instruction.argval]
    cell.store(evaluator.capture.side_effects, evaluator.pop())


@handles("DELETE_DEREF")
def delete_deref(evaluator: Evaluator, instruction: Instruction) -> None:
    """``del name``; a side effect on the cell."""
    cell = evaluator.cells[instruction.argval]
    if cell.contents is None:
        _raise_empty(evaluator, instruction.argval)
    cell.store(evaluator.capture.side_effects, None)


def _raise_empty(evaluator: Evaluator, name: str) -> NoReturn:
    if name not in evaluator.code.co_freevars:
        _raise_unbound(name)
    raise_observed(
        NameError,
        f"cannot access free variable {name!r} where it is not associated with a value in"
        " enclosing scope",
    )
