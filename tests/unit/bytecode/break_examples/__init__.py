"""For each reason for a graph break, the smallest program that breaks with it.

`@breaks(code, *args)` marks such a program, `@whole(code, *args)` the changed one that does not
break. The page `docs/graph_breaks.md` shows them, `test_break_examples.py` runs them.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch

X = torch.tensor([1.0, -2.0, 3.0])


@dataclass(frozen=True)
class Example:
    """A program, how to call it, and whether it raises an exception."""

    function: Callable[..., object]
    args: tuple[object, ...]
    raises: bool = False

    @property
    def text(self) -> str:
        """Its source without our decorator."""
        lines = inspect.getsource(self.function).splitlines()
        return "\n".join(line for line in lines if not line.startswith(("@breaks", "@whole")))


BREAKING: dict[str, Example] = {}
WHOLE: dict[str, Example] = {}


def breaks(
    code: str, *args: object, raises: bool = False
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """The function breaks the graph with this code when it is called with these arguments."""

    def mark(function: Callable[..., object]) -> Callable[..., object]:
        BREAKING[code] = Example(function, args, raises)
        return function

    return mark


def whole(code: str, *args: object) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """The function does the same as the one that breaks with this code, in one graph."""

    def mark(function: Callable[..., object]) -> Callable[..., object]:
        WHOLE[code] = Example(function, args)
        return function

    return mark


_DEFAULT = "what trackers answer by default; those of today's values answer for themselves"

WITHOUT_EXAMPLE = {
    **dict.fromkeys(
        ("unknown-type", "unknown-truth", "reconstruct", "mutation", "folded-value"), _DEFAULT
    ),
    **dict.fromkeys(
        ("late-size-guard", "bytecode", "no-continuation"),
        "a rare case for which no short program is known",
    ),
    "nothing-captured": "the reason that is shown is that of the break",
    "dispatch-modes": "takes a dispatch mode that is active while the program is captured",
    "internal-error": "a bug of minitorch2; there is none to show",
    "unsupported": "raised by layers below capture for operators that they cannot compile",
    "overlapping-inputs": "raised by the autograd layer for inputs that overlap in part",
    "too-long": "takes a million instructions",
    "varying-value": "takes more than one call, with different strings",
    "recompile-limit": "takes more than one call; `test_recompiles.py` reaches it",
    "shadowed-builtin": "takes a module that redefines a builtin; `test_odd_programs.py` does",
}
"""Reasons that no short program shows, and why."""
