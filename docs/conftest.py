"""The documentation is a test: its Python blocks run, and what they print is what the page shows.

An ```` ```output ```` block must equal what the Python block before it printed (`...` stands for
anything). `pytest docs --update-docs` writes the present output into the pages.
"""

import doctest
import importlib.util
import io
import linecache
import os
import re
import sys
import tempfile
import textwrap
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, SkipParser

# As for all tests, and before minitorch2 is imported: graphs are verified, and the cache is new.
os.environ.setdefault("MINITORCH2_VERIFY", "1")
os.environ.setdefault("MINITORCH2_NOTICE_SECONDS", "0")
os.environ.setdefault("MINITORCH2_CACHE_DIR", tempfile.mkdtemp(prefix="minitorch2-docs-"))
if not os.path.exists("/dev/nvidiactl"):
    os.environ.setdefault("TRITON_INTERPRET", "1")
from minitorch2.graph.extensions import EXTENSIONS
from minitorch2.loopir.lowering import LOWERINGS

collect_ignore = ["conf.py", "generated_tables.py", "reference_pages.py"]  # Sphinx's, not tests
UPDATES = pytest.StashKey[dict[Path, list[tuple[int, int, str]]]]()
SHOWN_PYTHON = (3, 11)  # whose output the pages show
DOCS = Path(__file__).parent
OWN_LOWERINGS = dict(LOWERINGS)
CHECKER = doctest.OutputChecker()
LINE_OF_A_PAGE = re.compile(r"(?<=File: )(docs/\S+\.md):\d+")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-docs", action="store_true", help="rewrite the pages' output blocks")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[UPDATES] = {}
    blocks.config = config


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write new outputs from the last to the first, so that positions stay true."""
    for path, updates in session.config.stash[UPDATES].items():
        text = path.read_text(encoding="utf-8")
        for start, end, new in sorted(updates, reverse=True):
            text = text[:start] + new + text[end:]
        path.write_text(text, encoding="utf-8")


class Blocks:
    """Runs `python` blocks in one namespace a page, and checks `output` blocks against them."""

    config: pytest.Config

    def run(self, example: Example) -> None:
        padding = "\n" * (example.line + example.parsed.line_offset)
        name = shown_path(Path(example.path), example.document.text)
        code = compile(padding + example.parsed, name, "exec", dont_inherit=True)
        printed = io.StringIO()
        example.namespace["__printed__"] = None  # if this block fails, its output is not checked
        with redirect_stdout(printed):
            exec(code, example.namespace)
        example.namespace["__printed__"] = printed.getvalue()

    def check(self, example: Example) -> None:
        if sys.version_info[:2] != SHOWN_PYTHON:
            return  # other bytecode, other offsets: the blocks run, what they print may differ
        if example.namespace["__printed__"] is None:
            pytest.skip("the block that prints this output failed")
        printed = without_trailing_spaces(example.namespace["__printed__"])
        dedented = textwrap.dedent(printed)  # as Sybil does with what it reads from the page
        if CHECKER.check_output(example.parsed, dedented, doctest.ELLIPSIS):
            return
        if not self.config.getoption("--update-docs"):
            difference = CHECKER.output_difference(
                doctest.Example("", example.parsed), dedented, doctest.REPORT_NDIFF
            )
            raise AssertionError(difference)
        start = example.start + example.parsed.offset
        end = example.document.text.index("```", start)
        # A page's own line moves with every edit above it: the written output leaves it open.
        update = (start, end, LINE_OF_A_PAGE.sub(r"\1:...", printed))
        self.config.stash[UPDATES].setdefault(Path(example.path), []).append(update)


def shown_path(page: Path, text: str) -> str:
    """The page's path as output shows it, the same on every machine; its lines can be looked up."""
    name = page.relative_to(DOCS.parent).as_posix()
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return name


def without_trailing_spaces(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def begin_page(namespace: dict[str, object]) -> None:
    """What an earlier page has added to the compiler is not there on this one."""
    EXTENSIONS.clear()
    LOWERINGS.clear()
    LOWERINGS.update(OWN_LOWERINGS)


blocks = Blocks()

pytest_collect_file = Sybil(
    parsers=[
        CodeBlockParser("python", blocks.run),
        CodeBlockParser("output", blocks.check),
        SkipParser(),
    ],
    patterns=["*.md"],
    setup=begin_page,
    excludes=[
        "_build/**",
        "reference/**",
        *([] if importlib.util.find_spec("halide") else ["layers/halide.md"]),
    ],
).pytest()
