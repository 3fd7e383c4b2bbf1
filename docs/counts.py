"""Counts what the book has: `python -m docs.counts`.

Chapters with outcomes, questions, a section on what goes wrong and an end; exercises with checks
and solutions by level; pictures and charts; stored results; and what the lint of the language
finds. The status is 1 if a chapter lacks anything.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from docs.figures import CHARTS, pages, shown_twice
from docs.pictures import PICTURES
from minitorch2.course import exercises as exercises  # fills the table of exercises
from minitorch2.course.chapters import PARTS, Chapter, chapters
from minitorch2.course.exercise import EXERCISES, LEVELS

DOCS = Path(__file__).parent


def pictures_of(chapter: Chapter) -> list[str]:
    """The pictures that a chapter shows."""
    text = (DOCS / f"{chapter.page}.md").read_text(encoding="utf-8")
    return re.findall(r"!\[[^\]]*\]\(([^)]+\.svg)\)", text)


def is_asked(chapter: Chapter) -> bool:
    """Return whether a chapter asks a question behind the box that opens it."""
    text = (DOCS / f"{chapter.page}.md").read_text(encoding="utf-8")
    asked = re.search(r"^> \*Time:\*.*\n\n\*([^*]*)\*\n", text, re.M)
    return bool(asked and "?" in asked[1])


def shows_what_goes_wrong(chapter: Chapter) -> bool:
    """Return whether a chapter has the section that its entry in the list of chapters names."""
    text = (DOCS / f"{chapter.page}.md").read_text(encoding="utf-8")
    return bool(re.search(rf"^##+ {re.escape(chapter.wrong)}$", text, re.M))


def ends_with_what_you_have(chapter: Chapter) -> bool:
    """Return whether a chapter ends with what its reader has then."""
    text = (DOCS / f"{chapter.page}.md").read_text(encoding="utf-8")
    return "\n## What you have now\n" in text


def counts() -> Iterator[tuple[str, str]]:
    """Return each count with its name."""
    every = [each for chapter in chapters() for each in EXERCISES.get(chapter.page, ())]
    levels = Counter(each.level for each in every)
    yield "parts", str(len(PARTS))
    pages_of_book = [*chapters()]
    outcomes = sum(bool(chapter.able) for chapter in pages_of_book)
    yield "chapters with outcomes", f"{outcomes} of {len(pages_of_book)}"
    for name, has in MEASURE.items():
        yield name, f"{sum(map(has, pages_of_book))} of {len(pages_of_book)}"
    yield "hours to read", f"{sum(c.minutes for c in chapters()) / 60:.0f}"
    yield "chapters with exercises", str(sum(c.page in EXERCISES for c in chapters()))
    yield "exercises with checks", f"{len(every)} ({', '.join(f'{levels[n]} {n}' for n in LEVELS)})"
    yield "exercises with solutions", str(sum(bool(each.solution and each.hints) for each in every))
    yield "chapters with pictures", str(sum(bool(pictures_of(c)) for c in chapters()))
    yield "pictures and charts", str(len(PICTURES))
    yield "stored results", str(len(CHARTS))
    yield "measured numbers shown twice", str(sum(len(shown_twice(p.read_text())) for p in pages()))
    lint = subprocess.run([sys.executable, "-m", "lint.language"], capture_output=True, text=True)
    yield "lint of the language", (lint.stdout.strip().splitlines() or [lint.stderr.strip()])[-1]


MEASURE = {
    "chapters that ask a question": is_asked,
    "chapters that show what goes wrong": shows_what_goes_wrong,
    "chapters with what you have now": ends_with_what_you_have,
}


def lacking() -> list[str]:
    """The chapters without an outcome, an exercise, a picture, or a part of their form."""
    return [
        chapter.page
        for chapter in chapters()
        if not (chapter.able and chapter.page in EXERCISES and pictures_of(chapter))
        or not (is_asked(chapter) and ends_with_what_you_have(chapter))
        or (chapter.wrong and not shows_what_goes_wrong(chapter))
    ]


def main() -> int:
    """Print the counts, and the chapters that lack anything."""
    for name, count in counts():
        print(f"{name:36} {count}")
    missing = lacking()
    for page in missing:
        print(f"{page} lacks a part of what a chapter has")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
