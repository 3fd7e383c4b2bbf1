"""What the repository says about itself is true: links, the matrix of versions, the checks."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts),
    *(ROOT / "tests").rglob("*.md"),
]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
WHERE = (ROOT / "docs" / "where.md").read_text()
FLOORS = (
    "bytecode",
    "lazy",
    "graph",
    "autograd",
    "loopir",
    "codegen",
    "backends",
    "testing",
    "native",
    "cache",
)


def links(text: str) -> set[str]:
    """The files that a page links to; addresses and places within a page are none."""
    prose = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)
    found = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", prose)
    return {link for link in found if ":" not in link}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    missing = {link for link in links(page.read_text()) if not (page.parent / link).exists()}
    assert not missing


@pytest.mark.parametrize("floor", FLOORS)
def test_the_page_of_questions_leads_into_each_floor(floor):
    assert f"src/minitorch2/{floor}/" in WHERE


def test_the_glossary_defines_each_term_once():
    rows = re.findall(r"^\| ([^|]+) \|.*\| (\[.*\)) \|$", GLOSSARY, re.M)
    terms = [term for term, _ in rows]
    assert len(set(terms)) == len(terms) >= 55
    assert all(links(place) for _, place in rows)


def test_each_question_has_one_answer():
    questions = re.findall(r"^\| ([^|]*\?) \| (.*) \|$", WHERE, re.M)
    assert len({question for question, _ in questions}) == len(questions) > 40
    assert all(links(answer) for _, answer in questions)


def test_hosted_checks_run_each_supported_version():
    """Each Python of the classifiers, the oldest torch and the newest, by the script that CI is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    pythons = re.findall(r":: (3\.\d+)", " ".join(project["classifiers"]))
    assert {f'python: "{version}"' for version in pythons} <= set(
        re.findall(r'python: "3\.\d+"', workflow)
    )
    (bounds,) = (d for d in project["dependencies"] if d.startswith("torch>="))
    oldest, beyond = re.findall(r"2\.(\d+)", bounds)
    tested = {int(minor) for minor in re.findall(r'torch: "2\.(\d+)\.', workflow)}
    assert {int(oldest), int(beyond) - 1} <= tested
    assert "run: .ci/run" in workflow


def test_llvmlite_is_new_enough_for_pointers_without_types():
    """0.44 cannot read the guards' LLVM code; numba 0.61 would ask for it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = " ".join(project["dependencies"])
    oldest = dict(re.findall(r"(llvmlite|numba)>=0\.(\d+)", text))
    assert int(oldest["llvmlite"]) >= 45 and int(oldest["numba"]) >= 62
    assert " ptr" in (ROOT / "src/minitorch2/native/cpython/guard_machine.ll").read_text()


def test_commits_are_checked_as_make_lint_checks():
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile.split("\nlint:")[1].split("\n\n")[0]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    for tool in ("ruff check", "ruff format --check", "mypy", "lint-imports"):
        assert tool in recipe and f"bin/{tool}" in hooks
    for program in (ROOT / "lint").glob("[a-z]*.py"):
        assert f"lint.{program.stem}" in recipe and f"-m lint.{program.stem}" in hooks
