"""The table of reasons and the source agree: every code is explained, every entry is used."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import minitorch2
from minitorch2.bytecode.compiling.reasons import reasons

PACKAGE = Path(minitorch2.__file__).parent
RAISING = ("unsupported", "UnsupportedError", "GraphBreakError", "GraphBreak")
FOLDERS = ("bytecode", "graph", "autograd")


def calls(text: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in RAISING:
            yield node


def code_of(call: ast.Call) -> ast.expr:
    """Where a call gives its code: `code=`, or first; an UnsupportedError has a default."""
    for keyword in call.keywords:
        if keyword.arg == "code":
            return keyword.value
    if call.func.id in ("unsupported", "GraphBreak"):
        return call.args[0]
    return ast.Constant("unsupported")


def default_codes(text: str) -> Iterator[ast.expr]:
    """Codes that subclasses of UnsupportedError have."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and "UnsupportedError" in map(ast.unparse, node.bases):
            found = (each for each in node.body if isinstance(each, ast.Assign))
            yield from (each.value for each in found if each.targets[0].id == "default_code")


def literals() -> set[str]:
    files = [file for folder in FOLDERS for file in (PACKAGE / folder).rglob("*.py")]
    texts = [file.read_text(encoding="utf-8") for file in files]
    codes = [code_of(call) for text in texts for call in calls(text)]
    codes += [code for text in texts for code in default_codes(text)]
    return {code.value for code in codes if isinstance(code, ast.Constant)}


def test_every_code_is_explained():
    assert literals() - set(reasons()) == set()


def test_every_reason_is_used():
    """Some codes are given by a name or a table, so any mention outside the table counts."""
    files = [file for folder in FOLDERS for file in (PACKAGE / folder).rglob("*.py")]
    texts = [file.read_text(encoding="utf-8") for file in files if file.name != "reasons.py"]
    unused = [code for code in reasons() if not any(f'"{code}"' in text for text in texts)]
    assert set(unused) <= {"unsupported"}  # the default of UnsupportedError


def test_a_code_that_is_missing_would_be_found():
    (call,) = calls('unsupported("brand-new", f"of {x}")')
    assert code_of(call).value == "brand-new"
    (call,) = calls("raise UnsupportedError(cause, code='brand-new')")
    assert code_of(call).value == "brand-new"


@pytest.mark.parametrize("code", reasons())
def test_reasons_are_whole(code):
    reason = reasons()[code]
    assert reason.meaning and reason.remedy
    assert code == reason.code == code.lower().replace(" ", "-")
