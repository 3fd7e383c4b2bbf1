"""What a call does, as a value that can be compared; code objects remade by the machine."""

import contextlib
import io
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType

from minitorch2.bytecode.machine.assemble import assemble
from minitorch2.bytecode.machine.disassemble import disassemble


@dataclass(frozen=True)
class Outcome:
    """Result, printed text, and the exception with the lines of its traceback."""

    value: str
    printed: str
    error: str
    lines: tuple[tuple[str, int | None], ...]


def observe(function: Callable[..., object], *args: object) -> Outcome:
    """Calls a function and says what could be seen of it."""
    printed, value, error, lines = io.StringIO(), "", "", ()
    with contextlib.redirect_stdout(printed):
        try:
            value = repr(function(*args))
        except Exception as exception:
            error = f"{type(exception).__name__}: {exception}"
            frames = traceback.extract_tb(exception.__traceback__)[1:]
            lines = tuple((frame.name, frame.lineno) for frame in frames)
    return Outcome(*map(without_addresses, (value, printed.getvalue(), error)), lines)


def without_addresses(text: str) -> str:
    """Texts of functions and other objects contain their addresses."""
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def traced_lines(function: Callable[..., object], *args: object) -> list[tuple[str, int, str]]:
    """The line events of a call, as a debugger sees them."""
    events: list[tuple[str, int, str]] = []

    def trace(frame, event, _):
        if frame.f_code.co_filename.startswith("<program>"):
            events.append((frame.f_code.co_name, frame.f_lineno, event))
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        observe(function, *args)
    finally:
        sys.settrace(previous)
    return events


def remade(code: CodeType) -> CodeType:
    """The code taken apart and put together again, and all functions inside it."""
    constants = tuple(remade(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    code = code.replace(co_consts=constants)
    return assemble(disassemble(code), code)


def function_of(source: str, name: str = "f") -> FunctionType:
    """The function that a program text defines."""
    space: dict[str, object] = {}
    exec(compile(source, "<program>", "exec"), space)
    function = space[name]
    assert isinstance(function, FunctionType)
    return function


def with_code(function: FunctionType, code: CodeType) -> FunctionType:
    """The same function with another body."""
    twin = FunctionType(
        code, function.__globals__, code.co_name, function.__defaults__, function.__closure__
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def all_code(code: CodeType) -> Iterator[CodeType]:
    """A code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from all_code(constant)
