"""Directives whose text comes from the code: options, guards, primitives, exercises.

`{options}` is the table of `minitorch2.config`, `{guards}` that of the kinds of guards,
`{artifacts}` that of what `MINITORCH2_LOGS` shows by name, `{exercises} page` are a chapter's,
`{primitives}` that of the elementwise operators of loops;
`{grammar} module` shows the indented blocks of a module's docstring, where each IR of this project
has its grammar.
`{explored} f(torch.ones(3))` shows its content, the text of `f`, and links to the explorer's page
of this call, which the build makes.
"""

import importlib
import inspect
import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import minitorch2
from minitorch2 import config, logs
from minitorch2.bytecode import dispatch as dispatch  # loads the guards that trackers define
from minitorch2.bytecode.dispatch.recompiles import REMEDIES
from minitorch2.bytecode.guards import Guard
from minitorch2.course import exercises as exercises  # fills the table of exercises
from minitorch2.course.exercise import EXERCISES
from minitorch2.foundation.source_lines import keep_lines
from minitorch2.loopir.ops import ELEMENTWISE


class MarkdownDirective(SphinxDirective):
    """A directive that writes Markdown."""

    def markdown(self) -> Iterator[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(self.markdown()), allow_section_headings=True)


class OptionsTable(MarkdownDirective):
    """All options with type, default, environment variable and meaning."""

    def markdown(self) -> Iterator[str]:
        yield "| option | meaning |"
        yield "|---|---|"
        for option in config.list_options():
            kind = option.type.replace("|", "\\|") + (f", {option.range}" if option.range else "")
            facts = f"{kind}; default `{option.default!r}`; `{option.environment}`"
            yield f"| `{option.name}` | {option.meaning}<br>*{facts}* |"


class GuardsTable(MarkdownDirective):
    """All kinds of guards, what each says, and what helps where it fails."""

    def markdown(self) -> Iterator[str]:
        yield "| kind | class | holds for | when it fails |"
        yield "|---|---|---|---|"
        for guard in sorted(guard_classes(Guard), key=lambda guard: (guard.KIND, guard.__name__)):
            kind = shown_kind(guard)
            meaning = first_sentence(inspect.getdoc(guard) or "").partition(" (slides")[0]
            remedy = REMEDIES.get(kind, REMEDIES["ID_MATCH"])
            yield f"| {kind} | `{guard.__name__}` | {meaning} | {remedy} |"


def first_sentence(docstring: str) -> str:
    """The first paragraph's first sentence, which may go over several lines."""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0]


def guard_classes(cls: type[Guard]) -> Iterator[type[Guard]]:
    """The classes of guards that are made: those without a class under them."""
    children = cls.__subclasses__()
    if not children:
        yield cls
    for child in children:
        yield from guard_classes(child)


def shown_kind(guard: type[Guard]) -> str:
    """The name of a class's kind; that of an `IdMatch` depends on the object."""
    return "ID_MATCH, FUNCTION_MATCH" if guard.KIND == Guard.KIND else guard.KIND


class ArtifactsTable(MarkdownDirective):
    """All artifacts that can be logged by name."""

    def markdown(self) -> Iterator[str]:
        yield "| name | shows |"
        yield "|---|---|"
        for artifact in logs.ARTIFACTS:
            yield f"| `{artifact.name}` | {artifact.meaning} |"


class Exercises(MarkdownDirective):
    """The exercises of a page, with hints and a solution folded."""

    required_arguments = 1

    def markdown(self) -> Iterator[str]:
        for each in EXERCISES[self.arguments[0]]:
            yield from (f"**{each.name} ({each.level})** {each.question}", "")
            yield from ("```bash", f"python -m minitorch2.course start {each.name}", "```", "")
            yield from folded("Hints", [f"- {hint}" for hint in each.hints])
            yield from folded("A solution", ["```python", *each.solution.splitlines(), "```"])


def folded(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Lines of Markdown that a click on the title shows."""
    yield from (f"<details><summary>{title}</summary>", "", *lines, "", "</details>", "")


class PrimitivesTable(MarkdownDirective):
    """All elementwise primitives of the loop IR, and what each one means in NumPy."""

    def markdown(self) -> Iterator[str]:
        yield "| primitive | operands | meaning |"
        yield "|---|---|---|"
        for name, row in ELEMENTWISE.items():
            yield f"| `{name}({', '.join(row.operands)})` | {row.takes} | {row.meaning} |"


class Grammar(MarkdownDirective):
    """The grammar that opens a module: the indented blocks of its docstring."""

    required_arguments = 1

    def markdown(self) -> Iterator[str]:
        text = inspect.getdoc(importlib.import_module(self.arguments[0])) or ""
        lines = [line[4:] for line in text.splitlines() if line.startswith("    ") or not line]
        if not any(lines):
            raise self.error(f"the docstring of {self.arguments[0]} has no indented block")
        yield from ("```text", "\n".join(lines).strip("\n"), "```")


class Explored(SphinxDirective):
    """The text of a function, and a link to the page of all stages of a call of it."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        call, text = self.arguments[0], "\n".join(self.content)
        name = call.partition("(")[0]
        code = compile(text, f"{name}.py", "exec")
        keep_lines(code.co_filename, text, code)
        names: dict[str, Any] = {"torch": torch}
        exec(code, names)
        explanation = eval(call, names | {name: minitorch2.explain(names[name])})
        folder = self.env.app.outdir / "explored"
        folder.mkdir(parents=True, exist_ok=True)
        explanation.to_html(folder / f"{name}.html")
        up = "../" * self.env.docname.count("/")
        link = f'<p><a href="{up}explored/{name}.html">Explore {name}</a></p>'
        return [
            nodes.literal_block(text, text, language="python"),
            nodes.raw("", link, format="html"),
        ]


def setup(app: Sphinx) -> dict[str, bool]:
    logging.getLogger("minitorch2").setLevel(logging.WARNING)  # `explored` compiles
    app.add_directive("options", OptionsTable)
    app.add_directive("guards", GuardsTable)
    app.add_directive("exercises", Exercises)
    app.add_directive("artifacts", ArtifactsTable)
    app.add_directive("primitives", PrimitivesTable)
    app.add_directive("grammar", Grammar)
    app.add_directive("explored", Explored)
    return {"parallel_read_safe": True}
