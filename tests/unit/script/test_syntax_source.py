"""Ranges of source text, errors that show them, and the text of loaded functions."""

import pytest

from minitorch2.script.syntax.errors import ScriptError, compiling
from minitorch2.script.syntax.from_ast import function_from_ast
from minitorch2.script.syntax.reading import source_of
from minitorch2.script.syntax.source import NOWHERE, SourceFile


class Encoder:
    def forward(self, x):
        text = """Less
    indented."""
        return {
            2 *
            x, text}  # fmt: skip


def test_positions_are_those_of_the_users_file():
    file = SourceFile("a = 1\nbb = 2", "model.py", first_line=10, dropped_indent=4)
    second = file.range(6, 8)
    assert (second.line, second.column, second.text()) == (11, 4, "bb")
    assert str(second) == "model.py:11:4"
    assert str(NOWHERE) == "<nowhere>:1:0"


def test_columns_are_underlined():
    file = SourceFile("if x:\n\treturn  y + z  # sum\n", "model.py")
    start = file.text.index("y")
    assert file.range(start, start + 5).underlined() == "return  y + z  # sum\n        ~~~~~"


def test_each_line_of_a_range_is_underlined():
    file = SourceFile("f(a,\n  b)", "model.py")
    assert file.range(0, 9).underlined() == "f(a,\n~~~~\n  b)\n  ~~"


def test_the_source_of_a_method_is_dedented_but_for_its_strings():
    file = source_of(Encoder.forward)
    assert file.text.startswith('def forward(self, x):\n    text = """Less\n    indented."""\n')
    assert "\n    return {\n" in file.text
    assert file.dropped_indent == 4
    assert file.first_line == Encoder.forward.__code__.co_firstlineno


def test_an_error_shows_the_calls_that_led_to_it():
    file = SourceFile("def f(x):\n    return g(x)\n\ndef g(x):\n    return {x}\n", "model.py")
    call, callee = file.text.index("g(x)"), file.text.index("def g")
    with (
        pytest.raises(ScriptError) as caught,
        compiling("f"),
        compiling("g", file.range(call, call + 4)),
    ):
        function_from_ast(SourceFile(file.text[callee:], "model.py", first_line=4))
    assert str(caught.value) == (
        "model.py:2, in f\n"
        "    return g(x)\n"
        "           ~~~~\n"
        "model.py:5, in g\n"
        "    return {x}\n"
        "           ~~~\n"
        "a set is no part of the language [script-construct]\n"
        "Fix: use a dict whose values are True"
    )
    assert caught.value.where.text() == "{x}"


def test_a_fix_may_have_several_lines():
    error = ScriptError("why", None, code="script", fix="a\nb")
    assert str(error) == "why [script]\nFix: a\n     b"


def test_a_lambda_and_a_function_without_text_are_refused():
    with pytest.raises(ScriptError, match=r"a lambda .*\[no-source\]"):
        source_of(lambda x: x)
    names = {}
    exec("def unwritten(x): return x", names)
    with pytest.raises(ScriptError, match=r"the source of unwritten cannot be read"):
        source_of(names["unwritten"])
