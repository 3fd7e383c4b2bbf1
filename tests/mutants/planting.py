"""How a bug is planted: one function with an edited text, or two entries of a table swapped.

An edit puts other code into the function object itself, so everyone who has imported the function
runs the bug, and taking it out again leaves nothing behind.
"""

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True)
class Edit:
    """`old`, which stands once in the function's text, becomes `new`."""

    function: Callable[..., Any]
    old: str
    new: str

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The function with its bug, for the length of the block."""
        function = inspect.unwrap(self.function)
        assert isinstance(function, FunctionType)
        correct = function.__code__
        function.__code__ = edited(function, self.old, self.new)
        try:
            yield
        finally:
            function.__code__ = correct

    @property
    def place(self) -> str:
        """The file and the function."""
        function = inspect.unwrap(self.function)
        return f"{short(function.__module__)}: {function.__qualname__}"

    def __str__(self) -> str:
        return f"{one_line(self.old)}  ->  {one_line(self.new) or '(nothing)'}"


@dataclass(frozen=True)
class Swap:
    """Two entries of a table change places."""

    table: MutableMapping[str, Any]
    place: str
    first: str
    second: str

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The table with its bug, for the length of the block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        table, a, b = self.table, self.first, self.second
        table[a], table[b] = table[b], table[a]

    def __str__(self) -> str:
        return f"{self.first}  <->  {self.second}"


@dataclass(frozen=True)
class Together:
    """Edits that make one bug together; `forget` drops what was noted before and with the bug."""

    edits: tuple[Edit, ...]
    forget: Callable[[], None]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The functions with their bug, for the length of the block."""
        with ExitStack() as stack:
            stack.callback(self.forget)
            for edit in self.edits:
                stack.enter_context(edit.planted())
            self.forget()
            yield

    @property
    def place(self) -> str:
        """The files and the functions."""
        return ", ".join(edit.place for edit in self.edits)

    def __str__(self) -> str:
        return "; ".join(map(str, self.edits))


def edited(function: FunctionType, old: str, new: str) -> CodeType:
    """The code of the function whose text says `new` where this one's says `old`.

    `inspect` finds the changed text: kernels are compiled from it.
    """
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in:\n{text}"
    changed, filename = text.replace(old, new), f"<planted {function.__name__} {new}>"
    linecache.cache[filename] = (len(changed), None, changed.splitlines(keepends=True), filename)
    tree = ast.parse(changed)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    definition.returns = None
    compiled = compile(tree, filename, "exec")
    named = (c for c in compiled.co_consts if isinstance(c, CodeType))
    return next(code for code in named if code.co_name == function.__name__)


def one_line(text: str) -> str:
    """The text without its line breaks."""
    return " ".join(text.split())


def short(module: str) -> str:
    """A module's name without the package's."""
    return module.removeprefix("minitorch2.")
