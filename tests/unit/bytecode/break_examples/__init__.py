"""For each reason for a graph break, the smallest program that breaks with it.

`@breaks(code, *args)` marks such a program, `@whole(code, *args)` the changed one that does not
break. The page `docs/graph_breaks.md` shows them, `test_break_examples.py` runs them.
"""

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

X = torch.tensor([1.0, -2.0, 3.0])


@dataclass(frozen=True)
class Example:
    """A program and how to call it.

    Attributes:
        function: the program.
        calls: the arguments of each call.
        raises: whether it raises an exception.
        backend: what compiles its graphs.
        within: what must be entered around the calls.
    """

    function: Callable[..., object]
    calls: Sequence[tuple[object, ...]]
    raises: bool = False
    backend: str | Callable[..., object] = "eager"
    within: Callable[[], AbstractContextManager[object]] = nullcontext

    @property
    def text(self) -> str:
        """Its source without our decorator."""
        lines = inspect.getsource(self.function).splitlines()
        return "\n".join(line for line in lines if not line.startswith(("@breaks", "@whole")))


BREAKING: dict[str, Example] = {}
WHOLE: dict[str, Example] = {}


def breaks(
    code: str,
    *args: object,
    raises: bool = False,
    calls: Sequence[tuple[object, ...]] = (),
    backend: str | Callable[..., object] = "eager",
    within: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """The function breaks the graph with this code when it is called with these arguments."""

    def mark(function: Callable[..., object]) -> Callable[..., object]:
        BREAKING[code] = Example(function, calls or (args,), raises, backend, within)
        return function

    return mark


def whole(code: str, *args: object) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """The function does the same as the one that breaks with this code, in one graph."""

    def mark(function: Callable[..., object]) -> Callable[..., object]:
        WHOLE[code] = Example(function, (args,))
        return function

    return mark


WITHOUT_EXAMPLE = {
    "mutation": "what trackers answer by default; those of today's values answer for themselves",
    **dict.fromkeys(
        ("nothing-captured", "no-continuation"), "the reason that is shown is that of the break"
    ),
    "folded-value": "known functions of constants give what has a tracker",
    "dispatch-modes": "what runs under a dispatch mode is not captured at all",
    "internal-error": "a bug of minitorch2; there is none to show",
    "bytecode": "takes bytecode that no compiler writes; `machine/test_canonical.py` makes some",
    "late-size-guard": "takes a backend that reads sizes later; `test_unbacked.py` has one",
}
"""Reasons that no short program shows, and why."""
