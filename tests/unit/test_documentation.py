"""The machinery of the documentation: a page that lies must fail."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import minitorch2
from lint.language import findings

DOCS = Path(__file__).parents[2] / "docs"
PACKAGES = ("lazy", "jit", "guard_filters", "distributed", "testing")
PAGE = """# A page

```python
total = 1 + 1
print("two", total)
```

```output
{first}
```

```python
print(total + 1)
print("anything 42")
```

```output
{second}
anything ...
```
"""


@pytest.fixture
def run_page(tmp_path):
    pytest.importorskip("sybil")

    def run(
        first: str, second: str, *options: str, python: tuple[int, int] = sys.version_info[:2]
    ) -> tuple[int, str]:
        """The exit status and the page then, if pages showed what this Python prints."""
        conftest = (DOCS / "conftest.py").read_text()
        shown = f"SHOWN_PYTHON = {python}"
        (tmp_path / "conftest.py").write_text(conftest.replace("SHOWN_PYTHON = (3, 11)", shown))
        page = tmp_path / "page.md"
        page.write_text(PAGE.format(first=first, second=second))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
        done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, page.read_text()

    return run


def test_a_true_page_passes(run_page):
    assert run_page("two 2", "3")[0] == 0


@pytest.mark.parametrize(("first", "second"), [("two 3", "3"), ("two 2", "4")])
def test_a_wrong_output_fails(run_page, first, second):
    assert run_page(first, second)[0] == 1


def test_the_outputs_of_another_python_are_not_compared(run_page):
    assert run_page("two 3", "4", python=(3, 10))[0] == 0


def test_update_writes_what_was_printed(run_page):
    status, page = run_page("wrong\nby far", "", "--update-docs")
    assert status == 0
    assert page == PAGE.format(first="two 2", second="3").replace("...", "42")


def test_options_table_has_every_option():
    pytest.importorskip("sphinx")
    from docs.generated_tables import OptionsTable
    from minitorch2 import config

    rows = list(OptionsTable.markdown(None))
    assert len(rows) == 2 + len(config.list_options())
    (row,) = (row for row in rows if row.startswith("| `recompile_limit` |"))
    assert "*int, 1 or more; default `8`; `MINITORCH2_RECOMPILE_LIMIT`*" in row


def test_guards_table_has_every_kind_with_what_helps():
    pytest.importorskip("sphinx")
    from docs.generated_tables import GuardsTable
    from minitorch2.bytecode.dispatch.recompiles import REMEDIES

    rows = list(GuardsTable.markdown(None))
    kinds = {kind for row in rows[2:] for kind in row.split(" | ")[0].strip("| ").split(", ")}
    assert kinds == set(REMEDIES)
    assert any(row.startswith("| TENSOR_MATCH | `TensorMatch` | A tensor like") for row in rows)


def test_docstring_sections_become_lists():
    pytest.importorskip("sphinx")
    docstring_lines = reference_pages().docstring_lines

    text = "Sum.\n\nArgs:\n    x: a number,\n        not too large\n\nMore."
    assert list(docstring_lines(text)) == [
        "Sum.", "", "", "**Args**", "", "- `x`: a number,", "  not too large", "", "More.",
    ]  # fmt: skip


def test_annotations_in_quotes_are_shown_without_them():
    pytest.importorskip("sphinx")
    signature = reference_pages().signature

    def function(first: int, *, second: "list[int] | None" = None, third: "str" = "") -> "int":
        return 0

    shown = "(first: int, *, second: list[int] | None = None, third: str = '') -> int"
    assert signature("function", function) == f"function{shown}"


PUBLIC = ("minitorch2", *(f"minitorch2.{name}" for name in PACKAGES))


def reference_pages():
    """The extension of the site that writes a page for each object."""
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_parser")
    sys.path.insert(0, str(DOCS))  # as docs/conf.py does: extensions are named without a package
    try:
        return importlib.import_module("reference_pages")
    finally:
        sys.path.remove(str(DOCS))


def shown_objects() -> dict[str, object]:
    """What the API reference shows, by full names."""
    return reference_pages().listed((DOCS / "api.md").read_text())


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_an_object_of_the_reference(module):
    names = importlib.import_module(module).__all__
    shown = shown_objects()
    by_identity = {id(each) for each in shown.values()}
    public = importlib.import_module(module)
    missing = [
        name for name in names
        if f"{module}.{name}" not in shown and id(getattr(public, name)) not in by_identity
    ]  # fmt: skip
    assert not missing, f"name {missing} in a `members` block of docs/api.md"


def test_every_object_has_a_page_with_errors_thread_safety_and_cost():
    pages = reference_pages()
    shown = {name: each for name, each in shown_objects().items() if not inspect.ismodule(each)}
    assert set(pages.facts()) == set(shown), "docs/objects.toml has facts of all objects, and only"
    for name, each in shown.items():
        page = "\n".join(pages.page_of(name, each))
        for title in pages.FACTS.values():
            section = page.partition(f"## {title}\n\n")[2].partition("\n## ")[0]
            assert section.strip(), f"the page of {name} says nothing of {title}"


def test_the_errors_of_a_docstring_are_those_of_its_page():
    page = "\n".join(reference_pages().page_of("minitorch2.config.patch", minitorch2.config.patch))
    assert page.count("ConfigError") == page.partition("## Errors")[2].count("ConfigError") > 0


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The pages of all objects, built as a site."""
    folder = tmp_path_factory.mktemp("site")
    blocks = re.findall(
        r"^```\{(?:members|toctree)\}.*?^```$", (DOCS / "api.md").read_text(), re.M | re.S
    )
    (folder / "api.md").write_text("\n\n".join(["# The public interface", *blocks]))
    (folder / "objects.toml").write_text((DOCS / "objects.toml").read_text())
    reference_pages()
    paths = f"import sys; sys.path.insert(0, {str(DOCS)!r})"
    settings = ["extensions = ['myst_parser', 'reference_pages']", "root_doc = 'api'"]
    quiet = "suppress_warnings = ['myst.xref_missing', 'ref.python']"  # links to files of the house
    (folder / "conf.py").write_text("\n".join([paths, *settings, quiet]))
    command = [sys.executable, "-m", "sphinx", "-q", "-W", folder, folder / "out"]
    subprocess.run([*map(str, command)], cwd=DOCS.parent, check=True)
    return folder / "out"


def test_the_index_leads_to_a_page_of_each_object(site):
    inventory = importlib.import_module("sphinx.util.inventory")
    with (site / "objects.inv").open("rb") as file:
        found = inventory.InventoryFile.loads(file.read(), uri="")
    places = {
        name: place.uri
        for kind, objects in found.data.items()
        if kind.startswith("py:")
        for name, place in objects.items()
    }
    index = (site / "genindex.html").read_text() + (site / "py-modindex.html").read_text()
    for name in shown_objects():
        page, _, anchor = places[name].partition("#")
        assert page == f"reference/{name}.html"
        assert f'id="{anchor}"' in (site / page).read_text(), name
        assert f'href="{page}#{anchor}"' in index, name


def test_the_index_and_the_search_find_methods(site):
    assert "graph_count" in (site / "searchindex.js").read_text()
    assert (
        "reference/minitorch2.Explanation.html#minitorch2.Explanation.listing"
        in (site / "genindex.html").read_text()
    )


def test_features_name_tests_and_decisions_that_exist():
    page = (DOCS / "features.md").read_text()
    tests = re.findall(r"`(tests/[^`]+)::(\w+)`", page)
    assert len(tests) > 50
    for file, name in tests:
        assert f"\ndef {name}(" in (DOCS.parent / file).read_text(), f"{file}::{name}"
    decisions = " ".join((DOCS / "decisions.md").read_text().split())
    titles = re.findall(r"decision: ([^|;]+)", page)
    assert len(titles) > 25
    for title in titles:
        assert f"**{title.strip()}" in decisions, title


def test_figures_of_pages_are_those_of_the_stored_result():
    """Tables of the GPU chapter are rendered from a stored file."""
    from benchmarks import tables

    page = (DOCS / "gpu" / "replay.md").read_text().splitlines()
    rows = [*tables.calls(False), *tables.calls(True), *tables.first_calls(), *tables.phases()]
    stale = [row for row in rows if row not in page]
    assert not stale, "render the tables of docs/gpu/replay.md by `python -m benchmarks.tables`"


def test_a_guard_that_is_described_on_two_lines_is_shown_whole():
    pytest.importorskip("sphinx")
    from docs.generated_tables import first_sentence

    text = "A set, equal to another one, whose\nelements are floats (1.0). More.\n\nNothing else."
    assert first_sentence(text) == "A set, equal to another one, whose elements are floats (1.0)."


def test_artifacts_table_has_every_name_that_can_be_logged():
    pytest.importorskip("sphinx")
    from docs.generated_tables import ArtifactsTable
    from minitorch2 import logs

    assert len(list(ArtifactsTable.markdown(None))) == 2 + len(logs.ARTIFACTS)


def test_broken_links_and_anchors_of_a_site_are_found(tmp_path):
    from docs.check_links import broken

    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="sub/a.html#one">1</a><a href="https://x.y">2</a>'
    )
    (tmp_path / "sub" / "a.html").write_text('<p id="one"><a href="../#two">3</a><img src="b.png">')
    found, inside, outside = broken(tmp_path)
    assert (set(found), inside, outside) == ({"../#two", "b.png"}, 3, 1)


def test_a_quotation_is_found_at_its_line():
    pytest.importorskip("sphinx")
    from docs.source_pages import first_line

    file = DOCS / "source_pages.py"
    place = file.read_text().splitlines().index("def setup(app: Sphinx) -> dict[str, bool]:")
    quoted = "\n".join(file.read_text().splitlines()[place : place + 3])
    assert first_line(file, quoted) == {file: place + 1}
    assert first_line(file, "not in the file") == {}


def test_a_sentence_of_a_page_that_breaks_the_rules_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# What is no sentence\n\n| What is | no sentence |\n\n```python\nWhat = 1\n```\n\n"
        "A guard is a fact. What is left is Python.\n- It [links](a.md) `here.`\n"
        f"- A list {'is ' * 30}long.\n"
    )
    headless, long = findings(page)
    assert "begin with a verb" in headless and "What is left" in headless
    assert "33 words" in long


def test_each_decision_is_a_record():
    """A title, then fields in one order: each record has an answer, its price, and evidence."""
    text = (DOCS / "decisions.md").read_text().partition("## Two of these, seen")[0]
    order = ["Context", "Paper", "Here", "Gain", "Cost", "Evidence"]
    records = re.split(r"^\*\*", text, flags=re.M)[1:]
    assert len(records) > 85
    for record in records:
        title, fields = record.partition("**")[0], re.findall(r"^- \*(\w+)\*: ", record, re.M)
        missing = {"Here", "Gain", "Cost", "Evidence"} - {*fields}
        assert not missing, f"{title} does not say: {sorted(missing)}"
        assert fields == sorted(fields, key=order.index), f"{title}: fields in the order {order}"
