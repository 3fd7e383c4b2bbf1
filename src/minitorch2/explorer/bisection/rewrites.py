"""Find the rewrite that makes a program wrong: switch passes off, then count rewrites.

First the pass without which the program is right, then the smallest number of its rewrites with
which it is wrong: the last of those is the one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from minitorch2 import config, stages
from minitorch2.graph.rewriting import FUSIONS, PASSES, STAGE

MOST: Final = 1 << 20
"""More rewrites than any graph has: a program that fails by chance ends the count there."""


@dataclass(frozen=True)
class WrongRewrite:
    """The first wrong rewrite: results are wrong with ``pass_limits=[f"{name}={number}"]``.

    With ``number - 1`` they are right. ``rewrites`` lists rewrite ``number`` of each graph with
    that many, with its law and line.
    """

    name: str
    number: int
    rewrites: tuple[str, ...]


def first_wrong_rewrite(is_right: Callable[[], bool]) -> WrongRewrite | None:
    """Return the rewrite after which ``is_right`` is false; None where no single pass is to blame.

    Args:
        is_right: compiles the program afresh, runs it and says whether its results are right.
    """
    if is_right():
        return None
    with config.patch(disabled_passes=(*PASSES, FUSIONS)):
        if not is_right():  # none of them is to blame
            return None
    for name in (*PASSES, FUSIONS):
        with config.patch(disabled_passes=(*config.current().disabled_passes, name)):
            blamed = is_right()
        if blamed:
            number = _fewest(lambda limit, name=name: _is_right_with(name, limit, is_right))  # type: ignore[misc]
            return WrongRewrite(name, number, _rewrites(name, number, is_right))
    return None


def _fewest(is_right_with: Callable[[int], bool]) -> int:
    """Return the smallest number with which it is wrong; with 0 it is right."""
    right, wrong = 0, 1
    while wrong < MOST and is_right_with(wrong):
        right, wrong = wrong, 2 * wrong
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if is_right_with(middle):
            right = middle
        else:
            wrong = middle
    return wrong


def _is_right_with(name: str, limit: int, is_right: Callable[[], bool]) -> bool:
    with config.patch(pass_limits=(*config.current().pass_limits, f"{name}={limit}")):
        return is_right()


def _rewrites(name: str, number: int, is_right: Callable[[], bool]) -> tuple[str, ...]:
    with stages.collect() as log:
        _is_right_with(name, number, is_right)
    if name == FUSIONS:
        lines = [line for text in log.texts("decisions.txt") for line in text.splitlines()]
        return tuple([line for line in lines if ": fused, score" in line][number - 1 : number])
    written = [text.splitlines() for text in log.texts(STAGE)]
    return tuple(t[number].strip() for t in written if t[0] == name and len(t) > number)
