"""The page: one file, in which nothing of the user's program becomes markup."""

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
import torch

import minitorch2
from minitorch2.explorer.page import ASSETS, SCRIPTS, page_of
from minitorch2.explorer.store import Compilation, Pane, Row, Store

NODE = shutil.which("node")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


class Reader(HTMLParser):
    """Elements of a page, and the text in each script."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts, self.ids, self.links, self._open = [], [], [], [], []
        self.feed(page)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in ("src", "href") if name in given]
        if tag not in ("meta", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] == "script":
            self.scripts.append(data)


def hostile(x):
    text = "</script><script>alert('<!--')</script>&amp;\u2028"
    return x + len(text)


@pytest.fixture(scope="module")
def page() -> str:
    return minitorch2.explain(hostile, backend="eager")(torch.ones(3)).to_html()


def test_page_is_well_formed_and_needs_no_other_file(page):
    found = Reader(page)
    assert found.tags.count("script") == 2 and not found.links
    assert len(found.ids) == len(set(found.ids))
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_hostile_text_stays_text(page):
    assert page.count("</script>") == 2  # those of the page itself
    data = json.loads(Reader(page).scripts[0])
    texts = [
        row[0] for each in data["compilations"] for pane in each["panes"] for row in pane["rows"]
    ]
    assert any("</script><script>alert('<!--')" in text for text in texts)


def test_title_is_escaped():
    page = page_of(Store(), "<lambda> & co")
    assert "<title>&lt;lambda&gt; &amp; co</title>" in page


def test_scripts_never_read_text_as_markup():
    text = "".join((ASSETS / name).read_text() for name in SCRIPTS)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)


def test_page_is_written_where_asked(tmp_path):
    explanation = minitorch2.explain(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert explanation.to_html(tmp_path / "page.html") == (tmp_path / "page.html").read_text()
    assert explanation.store.report[0].startswith("graphs: 1")


def test_scripts_refer_to_elements_that_are_there(page):
    asked = set(re.findall(r'getElementById\("(\w+)"\)', page))
    assert asked <= {*Reader(page).ids}


# In JavaScript ------------------------------------------------------------------------------------


def run_script(program, *scripts):
    """Return what a program prints as JSON behind some of the page's scripts."""
    text = "\n".join((ASSETS / name).read_text() for name in scripts)
    done = subprocess.run([NODE, "-e", f"{text}\n{program}"], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_related_rows_are_ancestors_descendants_and_details():
    panes = [
        {"kind": "source", "rows": [["a", "s0:1", [], ""], ["b", "s0:2", [], ""]]},
        {"kind": "graph", "rows": [["n", "graph:n", ["s0:1"], ""], ["m", "graph:m", ["s0:2"], ""]]},
        {"kind": "ir", "rows": [["def", "ir:0", ["graph:n"], ""], ["body", "", ["ir:0"], ""]]},
        {"kind": "wrapper", "rows": [["call", "", ["ir:0"], ""], ["other", "", ["graph:m"], ""]]},
    ]
    program = f"""
    const facts = provenance({json.dumps(panes)});
    const texts = (id) => [...related(facts, id)].map((at) => facts.rows[at].text).sort();
    console.log(JSON.stringify([texts(0), texts(6), texts(5), texts(1)]));
    """
    line, call, detail, other = run_script(program, "provenance.js")
    assert line == ["a", "body", "call", "def", "n"]
    assert call == ["a", "body", "call", "def", "n"]
    assert detail == ["a", "body", "call", "def", "n"]
    assert other == ["b", "m", "other"]


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_layers_go_down_and_those_behind_the_cut_lie_below(first):
    drawing = first.pane("joint").drawing
    sides = [box.side for box in drawing.boxes]
    program = f"""
    const edges = {json.dumps(drawing.edges)}, sides = {json.dumps(sides)};
    const {{ layer, first }} = layersOf(sides.map((_, i) => i), edges, sides);
    console.log(JSON.stringify([[...layer.values()], first]));
    """
    layer, cut = run_script(program, "drawing.js")
    assert all(layer[start] < layer[end] for start, end, _ in drawing.edges)
    assert all((layer[box] >= cut) == bool(side) for box, side in enumerate(sides))


def opened(page, folder, address="", width=1400):
    """Return the elements that a browser has made of a page."""
    path = folder / "page.html"
    path.write_text(page)
    command = [
        BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
        f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"file://{path}#{address}",
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.skipif(BROWSER is None, reason="needs a browser")
def test_browser_opens_thirty_thousand_lines_and_makes_elements_for_those_in_sight(tmp_path):
    """A BERT of twelve layers has as many."""
    kinds = (
        "source", "bytecode", "graph", "joint", "forward", "backward", "ir forward",
        "fusion forward", "kernels forward", "wrapper forward",
    )  # fmt: skip

    def row(kind, i):
        return Row(f"line {i}", f"{kind}:{i}", () if kind == "source" else (f"source:{i}",))

    panes = [Pane(kind, kind, tuple(row(kind, i) for i in range(3000))) for kind in kinds]
    store = Store({"0/0": Compilation("0/0", "f", "f.py:1", panes)})
    made = opened(page_of(store), tmp_path, "row=source:2900")
    assert made.count('role="option"') < 1000
    assert 3 <= made.count(">line 2900<") < len(kinds)  # the columns in sight were scrolled there
    milliseconds = int(re.search(r'data-milliseconds="(\d+)"', made)[1])
    assert milliseconds < 10_000, "a fifth of that on a free machine"


@pytest.mark.skipif(BROWSER is None, reason="needs a browser")
def test_browser_lights_what_comes_from_a_line(store, first, tmp_path):
    """The column of kernels lights the lines of `sigmoid`, and no element is made out of sight."""
    made = opened(page_of(store), tmp_path, "row=graph:sigmoid&theme=dark", width=8000)
    found = re.findall(r'<div class="(row[^"]*)"[^>]*>([^<]*)', made)
    lit = [text for classes, text in found if "lit" in classes.split()]
    assert any("tmp2 = sigmoid(tmp1)" in text for text in lit)
    assert any("return h * torch.sigmoid(h)" in text for text in lit)
    assert not any("return h.mean()" in text for text in lit)
    assert 'data-theme="dark"' in made and "Graph break at" in made


MEASURED = """<script>addEventListener("load", () => {
  const bar = document.getElementById("phases"), width = (each) => each.getBoundingClientRect().right;
  const column = document.querySelector(".column"), columns = document.getElementById("columns");
  const scheme = getComputedStyle(document.documentElement).colorScheme;
  document.documentElement.dataset.measured = JSON.stringify({
    scheme, unused: width(bar) - width(bar.lastElementChild), hidden: width(column) - width(columns) });
});</script></body>"""  # noqa: E501 (a program in another language)


@pytest.mark.skipif(BROWSER is None, reason="needs a browser")
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_browser_fills_the_bar_of_phases_and_shows_whole_columns(theme, tmp_path):
    """Phases of less than a second left a part of the bar empty; scroll bars were always white."""
    pane = Pane("source", "source", tuple(Row(f"line {i}") for i in range(300)))
    made = Compilation("0/0", "f", "f.py:1", [pane], seconds={"capture": 0.1, "lower": 0.2})
    page = page_of(Store({"0/0": made})).replace("</body>", MEASURED)
    found = re.search(r'data-measured="([^"]*)"', opened(page, tmp_path, f"theme={theme}", 500))
    measured = json.loads(html.unescape(found[1]))
    assert measured["scheme"] == theme
    assert abs(measured["unused"]) < 3 and measured["hidden"] <= 0


PROBE = """<script>addEventListener("load", () => {
  const said = [];
  for (const name of ["clientHeight", "scrollTop"]) {
    const found = Object.getOwnPropertyDescriptor(Element.prototype, name);
    const get = function () { said.push("read"); return found.get.call(this); };
    Object.defineProperty(Element.prototype, name, { ...found, get });
  }
  const made = Element.prototype.replaceChildren;
  Element.prototype.replaceChildren = function (...all) { said.push("write"); return made.apply(this, all); };
  const text = Object.getOwnPropertyDescriptor(Node.prototype, "textContent");
  Object.defineProperty(Node.prototype, "textContent", {
    ...text, set(value) { said.push("write"); text.set.call(this, value); } });
  explorer.clear();
  said.length = 0;
  explorer.pin(explorer.facts.byKey.get("graph:sigmoid"));
  document.documentElement.dataset.said = said.join(" ");
});</script></body>"""  # noqa: E501 (a program in another language)


@pytest.mark.skipif(BROWSER is None, reason="needs a browser")
def test_columns_out_of_sight_make_their_rows_when_they_come_into_sight(tmp_path):
    """Lighting a row of a BERT changes sixteen columns, of which a screen shows four."""
    kinds = ("source", "bytecode", "graph", "joint", "forward", "backward", "guards")
    panes = [
        Pane(kind, kind, tuple(
            Row(f"{kind} {i}", f"{kind}:{i}", () if kind == "source" else (f"source:{i}",))
            for i in range(900)
        ))
        for kind in kinds
    ]  # fmt: skip
    page = page_of(Store({"0/0": Compilation("0/0", "f", "f.py:1", panes)}))
    before = opened(page, tmp_path, "row=source:700")
    assert ">source 700<" in before and ">guards 700<" not in before
    behind = opened(page, tmp_path, "row=source:700&show=guards")
    assert re.search(r'<div class="row[^"]* lit[^"]*"[^>]*>guards 700<', behind)


@pytest.mark.skipif(BROWSER is None, reason="needs a browser")
def test_lighting_a_row_reads_the_layout_once_before_it_changes_it(store, tmp_path):
    """Each read behind a write would make the layout of all columns anew: 1.5 s for a BERT."""
    page = page_of(store)
    assert page.count("</body>") == 1
    made = opened(page.replace("</body>", PROBE), tmp_path, "")
    said = re.search(r'data-said="([^"]*)"', made)[1].split()
    assert said.count("read") > 4 and said.count("write") > 4
    assert said == sorted(said), "reads come first"
