"""The book: one reading order everywhere, and each chapter in its form."""

import re
from pathlib import Path

import pytest

from docs.chapters import rendered
from docs.pictures import PICTURES
from minitorch2.course.chapters import Chapter, chapters, number_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ALL = tuple(chapters())
HOW_TO_ADD = (
    "add a [[part.chapter]] where readers should meet it in src/minitorch2/course/chapters.toml "
    "(or a line to the list `How to` or `Reference` at the end of docs/index.md), "
    "then run `python -m docs.chapters` and `pytest docs/PAGE.md --update-docs`"
)


def test_every_page_has_a_place_in_the_reading_order():
    index = (DOCS / "index.md").read_text()
    listed = set(re.findall(r"^[\w/]+$", index, re.M)) | {"index"}
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    missing = sorted(page for page in pages - listed if not page.startswith("_build"))
    assert not missing, f"{missing} can be reached from nowhere: {HOW_TO_ADD}"


def test_readme_index_sidebar_and_boxes_show_the_one_list():
    stale = [str(path.relative_to(ROOT)) for path, text in rendered() if path.read_text() != text]
    assert not stale, (
        f"{stale} differ from src/minitorch2/course/chapters.toml: run `python -m docs.chapters`"
    )


def test_no_chapter_needs_a_later_one():
    for chapter in ALL:
        late = [page for page in chapter.needs if number_of(page) >= number_of(chapter.page)]
        assert not late, f"{chapter.page} needs {late}, which stand behind it"


@pytest.mark.parametrize("chapter", ALL, ids=lambda chapter: chapter.page)
def test_a_chapter_has_its_form(chapter: Chapter):
    """It opens with its box, speaks to the reader, and ends with what the reader has."""
    text = (DOCS / f"{chapter.page}.md").read_text()
    title, _, body = text.partition("\n\n")
    assert title.startswith("# ")
    assert body.startswith("> *You need:* "), f"{chapter.page}: {HOW_TO_ADD}"
    sections = re.findall(r"^## (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    ends = [name for name in sections[-2:] if name != "Exercises"]
    assert ends[-1:] == ["What you have now"], (
        f"docs/{chapter.page}.md ends with {sections[-1]!r}: end with `## What you have now`, "
        "two sentences to the reader, and after it at most `## Exercises`"
    )
    assert 5 <= chapter.minutes <= 90
    assert chapter.command.startswith("python -m ")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_the_compiler_reports_now(name):
    assert (DOCS / name).read_text() == PICTURES[name](), "run `python -m docs.pictures`"


def test_a_page_of_no_list_is_told_where_to_go(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "DOCS", tmp_path)
    (tmp_path / "index.md").write_text("# Index\n")
    (tmp_path / "new.md").write_text("# New\n")
    with pytest.raises(AssertionError, match=r"\['new'\].*chapters\.toml"):
        test_every_page_has_a_place_in_the_reading_order()
