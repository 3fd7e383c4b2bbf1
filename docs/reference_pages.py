"""Writes a page for each public object: `reference/NAME.md`, when the site is built.

A page has the signature, the docstring, methods, errors, thread safety and cost. `docs/api.md` is
the one list of objects: the names of its `members` blocks. The text comes from the docstrings, and
from `objects.toml` what a docstring does not tell. In `docs/api.md` itself, `{members} module name
...` is a table of these pages. Docstrings are Markdown already, but for their `Args:` sections.
"""

import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from docutils import nodes
from generated_tables import MarkdownDirective, first_sentence
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
LISTED = re.compile(r"^```\{members\} (\S+) (.*)$", re.M)
SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*)$")
RAISES = re.compile(r"\n*^Raises:\n((?:(?:    .*)?\n?)*)", re.M)
FACTS = {"errors": "Errors", "threads": "Thread safety", "cost": "Cost"}
FENCE = "`" * 8  # docstrings may have fences


class Members(MarkdownDirective):
    """Names of a module as a table, with links to their pages."""

    required_arguments = 1
    optional_arguments = 99

    def markdown(self) -> Iterator[str]:
        module = self.arguments[0]
        yield from ("| object | |", "|---|---|")
        for name in self.arguments[1:]:
            member = getattr(importlib.import_module(module), name)
            told = first_sentence(docstring(member)).replace("|", "\\|")
            yield f"| [`{name}`](reference/{module}.{name}.md) | {told} |"

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(self.markdown()))


def listed(page: str) -> dict[str, object]:
    """The objects that a page lists, by their full names."""
    return {
        f"{module}.{name}": getattr(importlib.import_module(module), name)
        for module, names in LISTED.findall(page)
        for name in names.split()
    }


@cache
def facts() -> dict[str, dict[str, str]]:
    """The errors, threads and cost of each public object, by its full name."""
    text = Path(__file__).with_name("objects.toml").read_text(encoding="utf-8")
    groups = tomllib.loads(text)["facts"]
    return {name: group for group in groups for name in group["names"]}


def page_of(full_name: str, member: object) -> Iterator[str]:
    """The page of one object."""
    module, _, name = full_name.rpartition(".")
    yield from (f"# {name}", "")
    yield from described(module, name, member)
    if not inspect.ismodule(member):
        yield from facts_of(full_name, docstring(member))
    yield from ("## See also", "", *see_also(member))


def described(module: str, name: str, member: object) -> Iterator[str]:
    """The directive of one object: what it is, its docstring but for errors, and its methods."""
    if inspect.ismodule(member):
        yield f"{FENCE}{{py:module}} {module}.{name}"
    else:
        yield f"{FENCE}{{py:{kind_of(member)}}} {signature(name, member)}"
        yield f":module: {module}"
    yield ""
    text = RAISES.sub("\n", docstring(member))
    yield from docstring_lines(text.partition("\n\n")[0] if inspect.ismodule(member) else text)
    yield from (FENCE, "")
    if inspect.isclass(member) and (methods := dict(methods_of(member))):
        yield from ("## Methods", "")
        for method, each in methods.items():
            yield from described_method(module, f"{name}.{method}", each)


def described_method(module: str, name: str, method: object) -> Iterator[str]:
    """The directive of a method or property."""
    short = name.partition(".")[2]
    if isinstance(method, property):
        yield from (f"{FENCE}{{py:property}} {name}", f":module: {module}", "")
    else:
        function = getattr(method, "__func__", method)
        shown = re.sub(r"\((self|cls)(, )?", "(", signature(short, function), count=1)
        yield f"{FENCE}{{py:method}} {name.partition('.')[0]}.{shown}"
        yield from (f":module: {module}", "")
    yield from (*docstring_lines(docstring(method)), FENCE, "")


def methods_of(cls: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties that a class itself defines, with docstrings."""
    for name, each in vars(cls).items():
        known = isinstance(each, (property, classmethod, staticmethod)) or inspect.isfunction(each)
        if known and not name.startswith("_") and docstring(each):
            yield name, each


def facts_of(full_name: str, docstring: str) -> Iterator[str]:
    """The sections of errors, thread safety and cost; errors are the docstring's before others."""
    known = facts().get(full_name, {})
    raised = RAISES.search(docstring)
    for key, title in FACTS.items():
        told = known.get(key, "")
        if key == "errors" and raised:
            told = "\n".join(entries(raised[1]))
        if told:
            yield from (f"## {title}", "", told, "")


def entries(section: str) -> Iterator[str]:
    """The entries of a section of a docstring, as a list."""
    for line in section.strip("\n").splitlines():
        entry = ENTRY.match(line)
        yield f"- `{entry[1]}`: {entry[2]}" if entry else "  " + line.strip()


def see_also(member: object) -> Iterator[str]:
    """Links to the file that defines the object, and to where it is shown at work."""
    try:
        file = Path(inspect.getsourcefile(member) or "")  # type: ignore[arg-type]  # or TypeError
        line = inspect.getsourcelines(member)[1]  # type: ignore[arg-type]
    except (TypeError, OSError):
        file, line = Path(), 0
    if file.is_relative_to(ROOT) and file.is_file():
        name = file.relative_to(ROOT).as_posix()
        yield f"- Defined in [{name}](../../{name}), line {max(line, 1)}."
    yield "- [The public interface](../api.md) lists all objects, with examples."


def docstring(member: object) -> str:
    """The docstring of an object itself; none for a constant, whose class has one."""
    is_constant = not inspect.ismodule(member) and kind_of(member) == "data"
    return "" if is_constant and not isinstance(member, property) else inspect.getdoc(member) or ""


def kind_of(member: object) -> str:
    """The kind of an object in Sphinx's Python domain."""
    if inspect.isclass(member):
        return "exception" if issubclass(member, BaseException) else "class"
    is_callable = inspect.isroutine(member) or isinstance(member, (classmethod, staticmethod))
    return "function" if is_callable else "data"


def signature(name: str, member: object) -> str:
    """`Name(...)` or `name(...) -> ...`; only the name of what is called by nobody."""
    if kind_of(member) == "data":
        return name
    shown = str(inspect.signature(member))  # type: ignore[arg-type]
    if "Annotated[" in shown:
        return f"{name}(**options)"  # the table of options has them, with their meanings
    # Annotations that are strings print with quotes, which nobody wrote.
    return name + re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)


def docstring_lines(text: str) -> Iterator[str]:
    """Google sections become bold headings with lists; everything else is Markdown as it is."""
    section = False
    for line in text.splitlines():
        if SECTION.match(line):
            section = True
            yield from ("", f"**{line.rstrip(':')}**", "")
        elif section and line.startswith("    "):
            yield from entries(line)
        else:
            section = section and not line.strip()
            yield line


def write(app: Sphinx) -> None:
    """Write each page that has changed, and remove those of objects that are no more."""
    folder = Path(app.srcdir, "reference")
    folder.mkdir(exist_ok=True)
    api = Path(app.srcdir, "api.md").read_text(encoding="utf-8")
    pages = {folder / f"{name}.md": page_of(name, each) for name, each in listed(api).items()}
    for path in {*folder.glob("*.md")} - {*pages}:
        path.unlink()
    for path, lines in pages.items():
        text = "\n".join(lines) + "\n"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive, and write the pages before sources are looked for."""
    app.add_directive("members", Members)
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
