"""Shows files of the repository as highlighted pages with an anchor for each line.

A link of a page to a file that is no page, as `[The file](../src/minitorch2/logs.py)`, leads to
`source/src/minitorch2/logs.py.html`. If the link stands behind a quotation of that file, it leads
to the line with which the quotation begins: `#L-120`. Without this, Sphinx would offer downloads.
"""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).parents[1]


class LinkToSources(SphinxTransform):
    """Replace references to downloads by references to source pages."""

    default_priority = 400  # before Sphinx collects downloads

    def apply(self, **_: Any) -> None:
        page = Path(self.env.doc2path(self.env.docname)).parent
        quoted: dict[Path, int] = {}
        for node in [*self.document.findall()]:
            if isinstance(node, nodes.literal_block) and node.get("source", "").startswith("/"):
                quoted |= first_line(Path(node["source"]), node.astext())
            if isinstance(node, addnodes.download_reference):
                file = Path(page, node["reftarget"]).resolve()
                if file.is_file() and file.is_relative_to(ROOT):
                    self.link(node, file, quoted.get(file))

    def link(self, node: nodes.Element, file: Path, line: int | None) -> None:
        """Replace one reference."""
        name = file.relative_to(ROOT).as_posix()
        shown: dict[str, set[str]] = self.env.__dict__.setdefault("source_pages", {})
        shown.setdefault(self.env.docname, set()).add(name)
        up = "../" * self.env.docname.count("/")
        anchor = f"#L-{line}" if line else ""
        reference = nodes.reference("", "", refuri=f"{up}source/{name}.html{anchor}")
        children = node.children
        if len(children) == 1 and isinstance(children[0], nodes.literal):
            children = children[0].children if "download" in children[0]["classes"] else children
        reference += children
        node.replace_self(reference)


def first_line(file: Path, text: str) -> dict[Path, int]:
    """The line of a file with which a quotation begins; nothing if it is not found."""
    place = file.read_text(encoding="utf-8").find(text.strip("\n")) if file.is_file() else -1
    if place < 0:
        return {}
    return {file.resolve(): file.read_text(encoding="utf-8").count("\n", 0, place) + 1}


def source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of all files to which a page links."""
    links: dict[str, set[str]] = app.env.__dict__.get("source_pages", {})
    formatter = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=True)
    for name in sorted(set[str]().union(*links.values())):
        text = (ROOT / name).read_text(encoding="utf-8")
        try:
            lexer = get_lexer_for_filename(name)
        except ClassNotFound:
            lexer = TextLexer()
        shown = highlight(text, lexer, formatter)
        body = f'<h1 class="file">{escape(name)}</h1><div class="source">{shown}</div>'
        yield f"source/{name}", {"title": name, "body": body, "parents": []}, "page.html"


def forget(app: Sphinx, env: Any, docname: str) -> None:
    """Forget what a page has linked to before it is read again."""
    env.__dict__.get("source_pages", {}).pop(docname, None)


def merge(app: Sphinx, env: Any, docnames: list[str], other: Any) -> None:
    """Take over what another process has read."""
    found = other.__dict__.get("source_pages", {})
    read = {name: found[name] for name in docnames if name in found}
    env.__dict__.setdefault("source_pages", {}).update(read)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform and the pages."""
    app.add_transform(LinkToSources)
    app.connect("html-collect-pages", source_pages)
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    return {"parallel_read_safe": True}
