"""Exercises: a question, an answer in a file of the reader, and a check that runs it.

Grammar::

    exercise ::= Exercise(page, level, question, stub, hints, solution, check)
    level    ::= "look"      run something and read a value off it
              |  "change"    make a given program do something else
              |  "build"     write a function that does a piece of the compiler's work
    outcome  ::= Outcome(passed, message)

An answer is a Python file. It sets the names that are the parameters of the check: for `look` a
value, else a function. A check knows no result by heart: it asks the compiler, or compares with
eager mode.
"""

from __future__ import annotations

import inspect
import linecache
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from minitorch2.course.chapters import number_of

LEVELS: Final = ("look", "change", "build")
EXERCISES: Final[dict[str, list[Exercise]]] = {}
"""The exercises of each page, in the order of their numbers."""


@dataclass(frozen=True)
class Exercise:
    """A question of a chapter.

    Attributes:
        page: the page of the chapter.
        level: `look`, `change` or `build`.
        question: what is asked, in Markdown.
        stub: the text of the file with which a reader begins.
        hints: what helps, the gentlest first.
        solution: the text of a file that passes.
        check: takes the names that it needs from the file; raises `AssertionError` that says what
            is wrong.
    """

    page: str
    level: str
    question: str
    stub: str
    hints: tuple[str, ...]
    solution: str
    check: Callable[..., None]

    @property
    def name(self) -> str:
        """The exercise as readers call it: the chapter's number, a dot, its own number."""
        return f"{number_of(self.page)}.{EXERCISES[self.page].index(self) + 1}"


@dataclass(frozen=True)
class Outcome:
    """The result of a check: passed, or a message that says what is wrong."""

    passed: bool
    message: str = ""


def exercise(
    page: str, level: str, *, question: str, stub: str, hints: Sequence[str], solution: str
) -> Callable[[Callable[..., None]], Exercise]:
    """Make an exercise of the check that is decorated, the next one of its page."""

    def add(check: Callable[..., None]) -> Exercise:
        texts = [inspect.cleandoc(text) for text in (question, stub, solution)]
        made = Exercise(page, level, texts[0], texts[1], tuple(hints), texts[2], check)
        EXERCISES.setdefault(page, []).append(made)
        return made

    return add


def find(name: str) -> Exercise:
    """Return the exercise of a name such as ``"4.2"``.

    Raises:
        KeyError: there is none.
    """
    for each in (each for exercises in EXERCISES.values() for each in exercises):
        if each.name == name:
            return each
    raise KeyError(name)


def check_answer(asked: Exercise, text: str, file: str = "<answer>") -> Outcome:
    """Run the text of an answer, and check what it defines."""
    namespace: dict[str, Any] = {"__name__": "answer"}
    # Triton and tracebacks read the source of an answer that is in no file.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        exec(compile(text, file, "exec"), namespace)
    except Exception:  # noqa: BLE001  an answer may raise anything
        return Outcome(False, f"your file raises an error:\n{_last_lines()}")
    needed = list(inspect.signature(asked.check).parameters)
    missing = [name for name in needed if namespace.get(name, ...) is ...]
    if missing:
        return Outcome(False, f"your file does not set {', '.join(missing)}")
    try:
        asked.check(*(namespace[name] for name in needed))
    except AssertionError as error:
        return Outcome(False, str(error) or "the check does not hold")
    except Exception:  # noqa: BLE001  an answer may raise anything
        return Outcome(False, f"your answer raises an error when it is used:\n{_last_lines()}")
    return Outcome(True)


def _last_lines() -> str:
    """Return the end of the error being handled, with the reader's line in it."""
    return "".join(traceback.format_exc(limit=-1)).strip()
