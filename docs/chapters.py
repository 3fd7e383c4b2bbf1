"""Writes what the list of chapters says into the pages: `python -m docs.chapters`.

The list is `src/minitorch2/course/chapters.py`. Rendered are the README's table, the list and the
sidebar of `docs/index.md`, and the box that opens each chapter. `--check` changes nothing. It names
the files that would change, and exits with 1 if there are any.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from minitorch2.course.chapters import NUMERALS, PARTS, Chapter, chapters

DOCS = Path(__file__).parent
ROOT = DOCS.parent
BEGIN, END = "<!-- chapters: begin -->", "<!-- chapters: end -->"
REGION = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}\n", re.S)
BOX = re.compile(r"\A(# [^\n]+\n)\n(?:> [^\n]*\n(?:>[^\n]*\n)*\n)?")


def table(prefix: str) -> Iterator[str]:
    """The table of parts; `prefix` leads from the page to `docs/`."""
    yield from ("| part | chapters |", "|---|---|")
    for numeral, part in zip(NUMERALS, PARTS, strict=False):
        links = ", ".join(f"[{each.title}]({prefix}{each.page}.md)" for each in part.chapters)
        yield f"| {numeral} {part.title} | {links} |"


def contents() -> Iterator[str]:
    """The list of chapters with minutes and outcomes, and the sidebar's trees."""
    number = 0
    for numeral, part in zip(NUMERALS, PARTS, strict=False):
        yield from (f"**{numeral} {part.title}**", "")
        for chapter in part.chapters:
            number += 1
            link = f"[{chapter.title}]({chapter.page}.md)"
            yield f"{number}. {link} ({chapter.minutes} minutes): {chapter.able}."
        yield ""
    for numeral, part in zip(NUMERALS, PARTS, strict=False):
        yield from ("```{toctree}", f":caption: {numeral} {part.title}", ":hidden:", "")
        yield from (chapter.page for chapter in part.chapters)
        yield from ("```", "")


def box(chapter: Chapter) -> str:
    """The lines that open a chapter: what it needs and gives, its minutes, its command."""
    titles = {each.page: each.title for each in chapters()}
    start = (DOCS / chapter.page).parent
    needs = ", ".join(
        f"[{titles[page]}]({os.path.relpath(DOCS / page, start)}.md)" for page in chapter.needs
    )
    lines = (
        f"*You need:* {needs or 'Python, and PyTorch in eager mode'}.",
        f"*You will be able to:* {chapter.able}.",
        f"*Time:* {chapter.minutes} minutes. *Alone:* `{chapter.command}`.",
    )
    return "".join(f"> {line}\n>\n" for line in lines).removesuffix(">\n")


def rendered() -> Iterator[tuple[Path, str]]:
    """Each file that shows the list, and the text that it should have."""
    for path, lines in ((ROOT / "README.md", table("docs/")), (DOCS / "index.md", contents())):
        region = f"{BEGIN}\n\n" + "\n".join(lines).rstrip("\n") + f"\n\n{END}\n"
        yield path, REGION.sub(lambda _, region=region: region, path.read_text(encoding="utf-8"))
    for chapter in chapters():
        path = DOCS / f"{chapter.page}.md"
        opened = box(chapter)
        text = path.read_text(encoding="utf-8")
        yield path, BOX.sub(lambda found, opened=opened: f"{found[1]}\n{opened}\n", text, count=1)


def main() -> int:
    """Write the files, or with `--check` name those that differ."""
    stale = [(path, text) for path, text in rendered() if path.read_text("utf-8") != text]
    for path, text in stale:
        print(path.relative_to(ROOT))
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
