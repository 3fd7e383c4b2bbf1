"""Every error that minitorch2 raises on purpose, and the category of its warnings.

An error takes the cause and gives a message of one shape: *where* in the user's program, *what* is
the matter, *what to do*. The user's own line comes first, because users can change that line;
nothing of the compiler's inside is shown. Tests and pages refer to `code`. Read `codes` next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar


class MinitorchError(Exception):
    """Base class: a coded error with a cause, a possible fix and the user's line.

    Args:
        cause: one sentence that says what is the matter.
        code: a stable kebab-case name of this kind of problem; the class has a default.
        fix: what the user can do about it, if anything is known to help.
        user_line: the line of the user's program, as anything whose `str()` shows it
            (usually a `minitorch2.graph` `SourceLine`).
        see: what says more: a command, or a page.
    """

    default_code: ClassVar[str] = "error"

    def __init__(
        self,
        cause: str,
        *,
        code: str | None = None,
        fix: str | None = None,
        user_line: object | None = None,
        see: str | None = None,
    ) -> None:
        super().__init__(cause)
        self.cause = cause
        self.code = code or self.default_code
        self.fix = fix
        self.user_line = user_line
        self.see = see

    def __str__(self) -> str:
        lines = [] if self.user_line is None else [str(self.user_line)]
        lines.append(f"{self.cause} [{self.code}]")
        if self.fix is not None:
            lines.append(f"Fix: {self.fix}")
        if self.see is not None:
            lines.append(f"See {self.see}")
        return "\n".join(lines)


class MinitorchWarning(UserWarning):
    """Something asked for has no effect, or something else is done instead; results are right."""


class UnsupportedError(MinitorchError):
    """Capture met something it does not model; the frame continues in Python (a graph break).

    Attributes:
        user_stack: the calls that led to `user_line`, outermost first; its last element is that
            line. Empty until capture knows it.
    """

    default_code = "unsupported"
    user_stack: tuple[object, ...] = ()


class TraceError(MinitorchError):
    """A function cannot be traced with proxies: it asks for a value that they do not have."""

    default_code = "not-symbolic"


class DynamicSizeError(MinitorchError):
    """A size that the user marked as dynamic was specialised; the cause lists the guards."""

    default_code = "specialised-size"


class GraphBreakError(MinitorchError):
    """A graph break happened although `fullgraph=True` asked for one graph."""

    default_code = "graph-break"


class ForbiddenError(MinitorchError):
    """Captured code calls a function that `forbid_in_graph` forbids there."""

    default_code = "forbidden"


class RecompileError(MinitorchError):
    """A call needs to be compiled, and must not be.

    The stance ``"fail_on_recompile"`` forbids it, or `__code__` was replaced after `compile`.
    """

    default_code = "recompile"


class BackendError(MinitorchError):
    """A backend is unknown, is not available here, or failed on a graph."""

    default_code = "backend"


class LoweringError(MinitorchError):
    """An operator's lowering was given something it cannot turn into loops."""

    default_code = "lowering"


class VerificationError(MinitorchError):
    """A graph, a loop nest or a schedule breaks a rule of its own grammar: a compiler bug."""

    default_code = "verification"


class CheckError(MinitorchError, AssertionError):
    """A check that an option asks for has failed: a result is NaN, or an input is laid out anew."""

    default_code = "failed-check"


class ArchiveError(MinitorchError):
    """A file of a scripted module is damaged, or has content that the format does not admit."""

    default_code = "archive"


class ExportError(MinitorchError):
    """A program cannot be exported, is called with other inputs, or its file cannot be used."""

    default_code = "export"


class ConfigError(MinitorchError):
    """An option is unknown, or has no such value."""

    default_code = "config"


@contextmanager
def at_line(action: str, line: object | None) -> Iterator[None]:
    """Let errors of the compiler name the user's line, and the compiler's action.

    Args:
        action: what fails if something is raised in the block, such as ``"lowering aten.add"``.
        line: the user's line.

    Raises:
        BackendError: an exception was raised that is not an error of this module.
    """
    try:
        yield
    except MinitorchError as error:
        error.user_line = error.user_line or line
        raise
    except Exception as error:
        cause = f"{action} failed: {type(error).__name__}: {error}"
        raise BackendError(cause, code="backend-failed", user_line=line) from error


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return how a message on an unknown name ends: with the nearest known one, or another text."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    return f"; did you mean {near[0]!r}?" if near else otherwise
