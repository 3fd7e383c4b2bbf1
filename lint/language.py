"""Check that docstrings and pages are plain English: `python -m lint.language [FILE ...]`.

The rules:

- A sentence has a head: it begins with a verb or with the subject that it tells about. Sentences
  that begin "What ...", "Whether ...", "That of ..." or "Such ..." leave the reader to guess it.
- A sentence has at most 30 words.
- A term is the field's: docs/glossary.md lists the words of this project, and `RIDDLES` lists
  words that nobody outside it knows.

Without arguments all of `src/minitorch2`, the README and the pages of `docs/` are checked. One line
is printed for each finding, and the program exits with 1 if there is one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "minitorch2"
MADE = ("_build", "reference")  # folders of docs/ that the site's build fills
LONGEST = 30  # words a sentence

HEADLESS = re.compile(
    r"(What|Whether|That of|That which|Such|Those|How|Where|Which|Who|Whose|Of)\b(?! \w+ \w*\?)"
)
# Questions have a head of their own, and so has "Where possible," at the front of a sentence.
CONDITION = re.compile(r"Where (possible|available|needed|given|defined|allowed)\b|How to\b")

# Words that only insiders understand, with the plain word.
RIDDLES = {
    "heed": "follow",
    "heeds": "follows",
    "riddle": "name",
    "gone along": "iterated over",
    "is no": "is not a",
    "are no": "are not",
    "nobody else": "no other code",
}
NOT_PROSE = re.compile(r"^(    | *([-*|>]|>>>|===+) |\w+:$)", re.MULTILINE)
NO_SENTENCE = re.compile(r" *(\||#|!\[|>|\*[^*]+: .*Command:)|    \S")  # of pages
RIDDLE = re.compile(r"\b(" + "|".join(map(re.escape, RIDDLES)) + r")\b")


def sentences(docstring: str) -> Iterator[str]:
    """Yield the sentences of a docstring's prose, without code, lists, tables and sections."""
    for paragraph in re.split(r"\n\s*\n", docstring):
        if "::=" in paragraph or NOT_PROSE.search(paragraph):
            continue
        prose = " ".join(paragraph.split())
        yield from re.split(r"(?<=[.!?]) +(?=[A-Z`])", prose)


def page_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page, without programs, tables, headings and pictures."""
    text = re.sub(r"<!-- (conditions): begin.*?\1: end -->|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"^ *(```+|:::+).*?^ *\1 *$", "\n\n", text, flags=re.S | re.M)
    for paragraph in re.split(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )", text):
        if NO_SENTENCE.match(paragraph):
            continue
        prose = " ".join(re.sub(r"^ *(?:[-*]|\d+\.) +", "", paragraph.strip("\n")).split())
        prose = re.sub(r"`[^`]*`", "`x`", re.sub(r"\]\([^)]*\)", "]", prose))
        yield from re.split(r"(?<=[.!?])[*]* +(?=[A-Z`*\[(])", prose)


def faults(sentence: str) -> Iterator[str]:
    """Yield the rules that a sentence breaks."""
    if HEADLESS.match(sentence) and not CONDITION.match(sentence) and "?" not in sentence:
        yield "begin with a verb or with the subject"
    words = len(sentence.split())
    if words > LONGEST:
        yield f"{words} words: say it in several sentences"
    for riddle in RIDDLE.findall(sentence):
        yield f"write {RIDDLES[riddle]!r} instead of {riddle!r}"


def findings(path: Path) -> Iterator[str]:
    """Yield a line for each sentence of a page or of a file's docstrings that breaks a rule."""
    if path.suffix == ".md":
        for sentence in page_sentences(path.read_text(encoding="utf-8")):
            yield from (f"{path}: {fault}: {sentence[:70]}" for fault in faults(sentence))
        return
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, documented):
            continue
        docstring = ast.get_docstring(node) or ""
        line = node.body[0].lineno if docstring else 0
        for sentence in sentences(docstring):
            for fault in faults(sentence):
                yield f"{path}:{line}: {fault}: {sentence[:70]}"


def pages() -> Iterator[Path]:
    """Yield the README and the pages that people write."""
    yield ROOT / "README.md"
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if path.relative_to(ROOT / "docs").parts[0] not in MADE:
            yield path


def main() -> int:
    """Print the findings of the files that were named, or of all; return the exit status."""
    paths = [Path(name) for name in sys.argv[1:]] or [*sorted(SOURCE.rglob("*.py")), *pages()]
    found = [finding for path in paths for finding in findings(path)]
    print("\n".join(found) or f"{len(paths)} files: plain")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
