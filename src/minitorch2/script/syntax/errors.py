"""The error of everything that turns a program into a graph, with the user's columns underlined."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from textwrap import indent
from typing import Final

from minitorch2.errors import MinitorchError
from minitorch2.errors.codes import ERROR_CODES
from minitorch2.script.syntax.source import SourceRange


@dataclass(frozen=True)
class Compiling:
    """A function that is being compiled.

    Attributes:
        name: the name that its errors show, such as ``Encoder.forward``.
        called_at: the call that made its compilation necessary, in the function before it.
    """

    name: str
    called_at: SourceRange | None = None


_FUNCTIONS: Final[ContextVar[tuple[Compiling, ...]]] = ContextVar("_FUNCTIONS", default=())
"""The functions that are being compiled in this thread, outermost first."""


@contextmanager
def compiling(name: str, called_at: SourceRange | None = None) -> Iterator[None]:
    """Let errors of the block say that they arose in the function `name`, called at a place."""
    token = _FUNCTIONS.set((*_FUNCTIONS.get(), Compiling(name, called_at)))
    try:
        yield
    finally:
        _FUNCTIONS.reset(token)


class ScriptError(MinitorchError):
    """A program that is not TorchScript, or cannot be compiled to a graph.

    Args:
        message: one sentence that says what is the matter.
        where: the part of the user's program; None if no part is to blame.
        code: a stable kebab-case name of this kind of problem.
        fix: what the user can write instead; by default the remedy of the code.

    Attributes:
        where: as given.
        functions: the functions that were being compiled, outermost first.
    """

    default_code = "script"

    def __init__(
        self, message: str, where: SourceRange | None, *, code: str, fix: str | None = None
    ) -> None:
        self.where = where
        self.functions = _FUNCTIONS.get()
        fix = fix or ERROR_CODES[code].remedy
        super().__init__(message, code=code, fix=fix, user_line=self._places() or None)

    def __str__(self) -> str:
        first, fix, rest = super().__str__().partition("\nFix: ")
        return first + fix + rest.replace("\n", "\n     ")

    def _places(self) -> str:
        """Return the calls that led here and the place itself, each with its line."""
        places = [function.called_at for function in self.functions[1:]] + [self.where]
        names = [f", in {function.name}" for function in self.functions] or [""]
        return "\n".join(_place(at, name) for at, name in zip(places, names) if at is not None)


class AbsentAttributeError(ScriptError):
    """A module has no attribute of a name: in Python, reading it raises an AttributeError."""


def _place(where: SourceRange, function: str) -> str:
    lines = indent(where.underlined(), "    ")
    return f"{where.file.name}:{where.line}{function}\n{lines}"
