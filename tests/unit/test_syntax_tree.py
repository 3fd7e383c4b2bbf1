"""Trees are built right while other threads build theirs."""

import ast
import threading

import pytest

from minitorch2.foundation import syntax_tree

TEXT = "def f(x):\n    return " + "(" * 30 + "x" + " + 1)" * 30


def test_what_another_thread_disturbs_is_built_again(monkeypatch):
    """CPython's counter of the depth is shared by threads (python/cpython#106905)."""
    failures = iter([SystemError("AST constructor recursion depth mismatch (before=66, after=60)")])

    def disturbed(text, file, parse=ast.parse):
        for error in failures:
            raise error
        return parse(text, file)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert len(syntax_tree.parse(TEXT, "f.py").body) == 1


def test_other_errors_are_raised_at_once(monkeypatch):
    with pytest.raises(SyntaxError, match=r"f\.py"):
        syntax_tree.parse("def", "f.py")
    calls = []
    monkeypatch.setattr(ast, "parse", lambda *given: calls.append(given) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        syntax_tree.parse(TEXT)
    assert len(calls) == 1


def test_threads_build_trees_at_once():
    errors = []

    def work():
        try:
            for _ in range(200):
                syntax_tree.compile_module(syntax_tree.parse(TEXT), "f.py")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
