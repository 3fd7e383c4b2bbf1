"""The course on the command line.

Usage::

    python -m minitorch2.course               the chapters, and the exercises of each
    python -m minitorch2.course start 4.2     write answers/4.2.py, and show the question
    python -m minitorch2.course check 4.2     run that file, and say what is wrong, with a hint
    python -m minitorch2.course hint 4.2      all hints
    python -m minitorch2.course solution 4.2  a file that passes
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from minitorch2.course import exercises as exercises  # fills the table of exercises
from minitorch2.course.chapters import NUMERALS, PARTS
from minitorch2.course.exercise import EXERCISES, Exercise, check_answer, find


def contents() -> Iterator[str]:
    """Return a line for each part, chapter and exercise."""
    number = 0
    for numeral, part in zip(NUMERALS, PARTS, strict=False):
        yield f"{numeral} {part.title}"
        for chapter in part.chapters:
            number += 1
            yield f"  {number}. {chapter.title} ({chapter.minutes} minutes, docs/{chapter.page}.md)"
            for each in EXERCISES.get(chapter.page, ()):
                short = textwrap.shorten(each.question, 70, placeholder=" ...")
                yield f"       {each.name:5} {each.level:7} {short}"


def start(asked: Exercise, file: Path) -> int:
    """Write the file with which a reader begins, unless it is there, and show the question."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(asked.stub + "\n", encoding="utf-8")
    print(asked.question)
    print(f"\nYour file: {file}. Then: python -m minitorch2.course check {asked.name}")
    return 0


def check(asked: Exercise, file: Path) -> int:
    """Check the reader's file; the status is 1 if it does not pass."""
    if not file.exists():
        print(f"there is no {file}: python -m minitorch2.course start {asked.name}")
        return 1
    outcome = check_answer(asked, file.read_text(encoding="utf-8"), str(file))
    if outcome.passed:
        print(f"{asked.name} passed")
        return 0
    print(f"{asked.name}: {outcome.message}\nHint: {asked.hints[0]}")
    return 1


def hint(asked: Exercise, _: Path) -> int:
    """Show all hints, the gentlest first."""
    print(*asked.hints, sep="\n")
    return 0


def solution(asked: Exercise, _: Path) -> int:
    """Show a file that passes."""
    print(asked.solution)
    return 0


COMMANDS: Final[dict[str, Callable[[Exercise, Path], int]]] = {
    "start": start,
    "check": check,
    "hint": hint,
    "solution": solution,
}


def main(arguments: Sequence[str]) -> int:
    """Run one command; without one, list the chapters and their exercises."""
    parser = argparse.ArgumentParser(prog="python -m minitorch2.course", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", nargs="?", choices=COMMANDS)
    parser.add_argument("name", nargs="?", help="such as 4.2: chapter 4, exercise 2")
    parser.add_argument("--answer", type=Path, help="the file (answers/NAME.py)")
    given = parser.parse_args(arguments)
    if given.command is None:
        print(*contents(), sep="\n")
        return 0
    try:
        asked = find(given.name or "")
    except KeyError:
        print(f"there is no exercise {given.name}: python -m minitorch2.course lists them all")
        return 2
    return COMMANDS[given.command](asked, given.answer or Path("answers") / f"{asked.name}.py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
