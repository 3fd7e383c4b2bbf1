"""The reading order of the book: parts, chapters, and what each chapter gives its reader.

Grammar::

    PARTS   ::= Part*                              numbered 0, I, II, ... in this order
    part    ::= Part(title, chapter*)
    chapter ::= Chapter(page, title, minutes, needs, able, alone, wrong)

`chapters.toml` is the only list of chapters. The README's table, the list and the sidebar of
`docs/index.md`, and the box that opens each page are rendered from it by `python -m docs.chapters`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

NUMERALS: Final = ("0", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI")


@dataclass(frozen=True)
class Chapter:
    """A page of the book.

    Attributes:
        page: its path below `docs/`, without the suffix.
        title: its title in lists.
        minutes: the time that it takes to read and run.
        needs: the pages that it builds on.
        able: what the reader can do afterwards; it completes "you will be able to".
        alone: the command that runs the chapter's layer alone; by default the page's own programs.
        wrong: the section that shows what goes wrong without the idea; empty for a page of tables.
    """

    page: str
    title: str
    minutes: int
    needs: tuple[str, ...]
    able: str
    alone: str = ""
    wrong: str = "Break it"

    @property
    def command(self) -> str:
        """The command that runs the chapter's layer alone."""
        return self.alone or f"python -m pytest docs/{self.page}.md"


@dataclass(frozen=True)
class Part:
    """Chapters under one title; its number is its place in `PARTS`."""

    title: str
    chapters: tuple[Chapter, ...]


def _read() -> tuple[Part, ...]:
    """Read the list from the file beside this module."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple(
        Part(part["title"], tuple(_chapter(row) for row in part["chapter"]))
        for part in tomllib.loads(text)["part"]
    )


def _chapter(row: dict[str, Any]) -> Chapter:
    return Chapter(**{**row, "needs": tuple(row["needs"])})


PARTS: Final = _read()
"""The parts of the book in the order of reading."""


def chapters() -> Iterator[Chapter]:
    """Return the chapters in the order of reading."""
    return (chapter for part in PARTS for chapter in part.chapters)


def number_of(page: str) -> int:
    """Return the number of a chapter, from 1 in the order of reading.

    Raises:
        KeyError: no chapter has this page.
    """
    for number, chapter in enumerate(chapters(), 1):
        if chapter.page == page:
            return number
    raise KeyError(page)
