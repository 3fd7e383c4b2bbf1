"""The book: one reading order everywhere, and each chapter in its form."""

import json
import re
import sys
from pathlib import Path

import pytest

from docs import figures
from docs.chapters import rendered
from docs.counts import is_asked, shows_what_goes_wrong
from docs.drawing import Picture
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
    missing = sorted(
        page for page in pages - listed if not page.startswith(("_build", "reference/"))
    )
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
    """It opens with its box and asks a question; it ends with what the reader has."""
    text = (DOCS / f"{chapter.page}.md").read_text()
    title, _, body = text.partition("\n\n")
    assert title.startswith("# ")
    assert body.startswith("> *You need:* "), f"{chapter.page}: {HOW_TO_ADD}"
    assert is_asked(chapter), (
        f"docs/{chapter.page}.md asks nothing: put a question in italics behind its box"
    )
    assert not chapter.wrong or shows_what_goes_wrong(chapter), (
        f"docs/{chapter.page}.md has no section {chapter.wrong!r}: show what goes wrong without "
        "its idea, and name that section as `wrong` in src/minitorch2/course/chapters.toml"
    )
    sections = re.findall(r"^## (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    ends = [name for name in sections[-2:] if name != "Exercises"]
    assert ends[-1:] == ["What you have now"], (
        f"docs/{chapter.page}.md ends with {sections[-1]!r}: end with `## What you have now`, "
        "two sentences to the reader, and after it at most `## Exercises`"
    )
    assert 5 <= chapter.minutes <= 90
    assert chapter.command.startswith("python -m ")


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="pages show bytecode of Python 3.11")
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_the_compiler_reports_now(name):
    assert (DOCS / name).read_text() == str(PICTURES[name]()), (
        f"run `python -m docs.pictures {name}` and look at it, in light and in dark"
    )


@pytest.mark.parametrize("chapter", ALL, ids=lambda chapter: chapter.page)
def test_a_chapter_has_a_picture_that_says_what_it_shows(chapter: Chapter):
    page = DOCS / f"{chapter.page}.md"
    shown = re.findall(r"!\[([^\]]*)\]\(([^)]+\.svg)\)", page.read_text())
    assert shown, f"docs/{chapter.page}.md has no picture: draw one in docs/pictures"
    for said, name in shown:
        picture = (page.parent / name).read_text()
        assert said and "<title>" in picture, f"{name} needs a title, and words in the page"
        assert "prefers-color-scheme: dark" in picture, f"{name} cannot be read in the dark"


def test_stored_results_stand_in_their_pages_as_they_are():
    stale = [page.name for page in figures.pages() if figures.rendered(page) != page.read_text()]
    assert not stale, (
        f"{stale} show other figures than benchmarks/results: `python -m docs.figures`"
    )
    shown = [n for page in figures.pages() for n in figures.REGION.findall(page.read_text())]
    with_tables = {*figures.LAYERS} - {*figures.IN_SENTENCES, "halide", "evaluation"}
    assert sorted(shown) == sorted(with_tables), "each result stands in one page"


def test_every_table_of_measurements_has_a_chart():
    """The rows of `lazy` are of many units: bars beside each other would say nothing."""
    shown = {n for page in figures.pages() for n in figures.REGION.findall(page.read_text())}
    assert shown - {*figures.CHARTS} == {"lazy"}


@pytest.mark.parametrize("path", [*figures.RESULTS.glob("*.json")], ids=lambda path: path.stem)
def test_a_stored_result_says_how_it_was_measured(path):
    found = json.loads(path.read_text())
    missing = [name for name in figures.CONDITIONS if not found.get(name)]
    assert [name for name in missing if name != "unit" or "seconds" not in path.read_text()] == []
    assert path.stem in figures.LAYERS


def test_every_result_has_its_layers():
    missing = [p for name in figures.LAYERS for p in figures.paths(name) if not (ROOT / p).exists()]
    assert not missing, f"docs/figures.py: {missing} are no layers"
    if not figures.has_history():
        pytest.skip("a shallow clone, or no clone: git cannot tell which results are stored")
    assert figures.stored() == set(figures.LAYERS)


def test_the_result_of_a_run_is_not_a_stored_one():
    """`python -m benchmarks kernels` leaves `kernels.json` where stored results lie."""
    if not figures.has_history():
        pytest.skip("a shallow clone, or no clone: git cannot tell which results are stored")
    before, run = figures.stored(), figures.RESULTS.parent / "of_a_run.json"
    try:
        run.write_text("{}")
        assert figures.stored() == before
    finally:
        run.unlink(missing_ok=True)


@pytest.mark.parametrize("name", figures.LAYERS)
def test_a_result_is_not_older_than_its_layers_by_more_than_is_allowed(name):
    if not figures.has_history():
        pytest.skip("a shallow clone, or no clone: git cannot tell when a layer has changed")
    late = figures.days_behind(name)
    assert late <= figures.MOST_DAYS, (
        f"{name} was measured {late} days before {figures.LAYERS[name]} last changed; "
        f"{figures.MOST_DAYS} are allowed: measure again, with the command that the file names"
    )


def test_a_result_that_is_too_old_is_found(monkeypatch):
    if not figures.has_history():
        pytest.skip("a shallow clone, or no clone: git cannot tell when a layer has changed")
    monkeypatch.setitem(figures.result("memory"), "date", "2020-01-01")
    assert figures.days_behind("memory") > figures.MOST_DAYS


@pytest.mark.parametrize("page", figures.pages(), ids=lambda page: page.stem)
def test_a_measured_number_stands_in_one_place(page):
    twice = figures.shown_twice(page.read_text())
    assert not twice, f"{page.name} repeats {twice}, which stored results have: say it in words"


DRAWN = [ROOT / "README.md", *sorted((DOCS / "layers").glob("*.md"))]


@pytest.mark.parametrize("page", DRAWN, ids=lambda page: page.stem)
def test_a_measured_number_in_a_sentence_is_drawn_from_a_result(page):
    text = page.read_text()
    assert "\n<!-- figure" not in text, "begin the line with a word: a comment ends a paragraph"
    found = figures.typed(text)
    assert not found, (
        f"{page.name} has {found} in its sentences: store it in benchmarks/results/tables and "
        "write `<!-- figure: NAME, ROW, COLUMN --><!-- end -->`, then run `python -m docs.figures`"
    )


def test_a_typed_number_is_found_and_a_drawn_or_cited_one_is_not():
    typed = "A call takes 2.2 us, 1.4 times eager's time, 38 % more and 0.82 of it."
    assert figures.typed(typed) == ["2.2", "1.4", "38", "0.82"]
    assert (
        figures.typed("<!-- figure: calls, microseconds of x + 1, 2 -->2.2<!-- end --> us.") == []
    )
    assert figures.typed("The paper reports 38 % there.\n\n| 3 ms |\n") == []


def test_a_figure_shows_its_cell(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- figure: calls, microseconds of\nx + 1, 2 -->9<!-- end --> us")
    cell = figures.figure("calls", "microseconds of x + 1", "2")
    assert figures.rendered(page).endswith(f"-->{cell}<!-- end --> us")
    page.write_text("<!-- figure: calls, nothing, 2 -->9<!-- end -->")
    with pytest.raises(ValueError, match="not enough values"):
        figures.rendered(page)


def test_a_number_that_is_repeated_is_found():
    (number, *_) = figures.measured("bandwidth", odd=True)
    assert figures.shown_twice(f"It takes {number} ms.") == [number]
    assert figures.shown_twice(f"```python\nx = {number}\n```\n") == []


def test_a_drawing_contains_what_is_drawn():
    picture = Picture("A test")
    where = picture.graph(0, 0, {"a": (["a"], ""), "b": (["b & c"], "kept")}, [("a", "b")])
    picture.bars(0, 200, [("row", 0, 3, "good", "3")], 10)
    width, height = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', str(picture)).groups())
    assert where["a"][1] < where["b"][1] < height and width > 100 and height > 218
    assert "b &amp; c" in str(picture) and str(picture).count("<rect") == 4


def test_a_page_of_no_list_is_told_where_to_go(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "DOCS", tmp_path)
    (tmp_path / "index.md").write_text("# Index\n")
    (tmp_path / "new.md").write_text("# New\n")
    with pytest.raises(AssertionError, match=r"\['new'\].*chapters\.toml"):
        test_every_page_has_a_place_in_the_reading_order()
