"""The lexer and the parser: tokens, and the trees that Python's own parser gives as well."""

import inspect

import pytest
import torch

from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.from_ast import (
    expression_from_ast,
    function_from_ast,
    module_from_ast,
)
from minitorch2.script.syntax.lexer import Lexer
from minitorch2.script.syntax.parser import parse_expression, parse_function, parse_module
from minitorch2.script.syntax.reading import source_of
from minitorch2.script.syntax.refusals import REFUSALS
from minitorch2.script.syntax.source import SourceFile


def text(code):
    return SourceFile(code, "text.py")


def kinds(code, **options):
    lexer, found = Lexer(text(code), **options), []
    while lexer.cur().kind != "end":
        found.append(lexer.next().kind)
    return found


def outcome(read, file):
    try:
        return read(file)
    except ScriptError as error:
        return error


def assert_same(file, parse=parse_function, reference=function_from_ast):
    """The two ways agree on the tree, or on the line and the cause of the error."""
    expected, found = outcome(reference, file), outcome(parse, file)
    if isinstance(expected, ScriptError):
        assert isinstance(found, ScriptError), file.text
        assert found.where.line == expected.where.line, file.text
    else:
        assert found == expected, file.text
    return found


def functions_of(module):
    for value in vars(module).values():
        members = vars(value).values() if inspect.isclass(value) else [value]
        yield from filter(inspect.isfunction, members)


# The lexer


def test_lines_become_tokens_as_in_the_overview():
    code = "if\n  .\n  .\n"
    assert kinds(code) == ["if", "newline", "indent", ".", "newline", ".", "newline", "dedent"]


def test_lines_mean_nothing_within_brackets():
    code = "x = [\n  1,\n\n # no\n 2]\ny"
    found = ["name", "=", "[", "number", ",", "number", "]", "newline", "name", "newline"]
    assert kinds(code) == found
    assert "newline" not in kinds(code, layout=False)


def test_the_lexer_walks_with_four_functions():
    lexer = Lexer(text("a + b"), layout=False)
    assert lexer.next_if("+") is None
    assert (lexer.cur().text, lexer.lookahead().kind) == ("a", "+")
    assert lexer.next().text == "a"
    assert lexer.next_if("+").kind == "+"
    assert lexer.expect("name").text == "b"
    assert [lexer.next().kind, lexer.next().kind] == ["end", "end"]


@pytest.mark.parametrize(
    "code", ["x = 'a\n", "x = ?\n", "if x:\n        y\n    z\n", "f(1))\n", "x = (1\n", "x = 1 2\n"]
)
def test_text_that_is_no_python_names_its_line(code):
    code = f"a = 0\n{code}"
    with pytest.raises(ScriptError, match=r"\[script-syntax\]") as caught:
        parse_module(text(code))
    assert caught.value.where.line >= 2


# Expressions

EXPRESSIONS = [
    "z.sigmoid() - (x + y)",
    "-x ** -y ** 2",
    "a or b and not c in d",
    "not a is not b",
    "a < b <= c not in d is None",
    "x if a else y if b else z",
    "(x if a else y) if (b or c) else z",
    "a | b ^ c & d << 1 >> 2 + 3 * 4 @ 5 // ~6",
    "a - b - c, a ** b ** c",
    "x[1], x[1:], x[:, None, ..., ::2], x[a:b:c], x[1,], x[(1, 2)], x[*a, 1]",
    "f(a, *b, c=1, **d)(e)[0].g",
    "[a, *b], (), (a,), [], [x for x, y in z if x if y], {}, {1: 2, a: b,}",
    "{k: v for k, v in d.items() if k}",
    "[x if a else b for x in (y if c else z)]",
    "1, 1.0, 1., .5, 1e3, 1_000.5e-3, 0x_ff, 0o17, 0b1_0, 2j, 1e2J, True, None, ...",
    "'a' \"b\" '''c\n'd' e''' r'\\n' u'x' '\\x41\\u00e9\\101\\N{BULLET}\\\n!\\q'",
    "f'a{x + 1}{{b}}' 'c' f'{y[0]}{z}' rf'\\d{x}', f'', f'd'",
    "'é', é.b",
    "(a,\n  b  # comment\n  )",
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # '\q'
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("code", EXPRESSIONS)
def test_expressions_are_those_of_python(code):
    found = assert_same(text(code), parse_expression, expression_from_ast)
    assert isinstance(found, t.Expr), found


def test_an_s_expression_follows_the_program():
    assert t.s_expression(parse_expression(text("z.sigmoid() - (x + y)"))) == (
        "(-\n  (apply\n    (.\n      (variable (ident z))\n      (ident sigmoid))\n"
        "    (list)\n    (list))\n  (+\n    (variable (ident x))\n    (variable (ident y))))"
    )


def test_literals_of_different_types_differ():
    assert len({parse_expression(text(code)) for code in ("1", "1.0", "True", "1j", "'1'")}) == 5


def test_ranges_span_the_text_with_its_brackets():
    found = parse_expression(text("(a + b) * f(c)[0]"))
    assert found.range.text() == "(a + b) * f(c)[0]"
    assert (found.left.range.text(), found.right.value.range.text()) == ("a + b", "f(c)")


# Statements

MODULE = """
class M(Module):
    __parameters__ = ["weight", ]
    training : bool
    def forward(self: __torch__.M, x: Tensor, *a, k: int=1, **b) -> Tensor:
        with torch.no_grad() as g, f(x):
            pass
        with (a as b, c):
            x = y = z, *w = 1, 2
        with (a).b, (c):
            del x, y[0]; del (a, b)
        x += 1; x @= 2; x //= 3; x **= 4
        x.a[0]: Optional[int] = None
        for i, (j, *k) in x, y: continue
        while not x:
            if a: break
            elif b:
                # comment
                raise ValueError("x")
            else: return

        assert x, "text"
        match = type
        return x, *y
    @decorated(1)
    def last(a, b=1, /, c=2, *, d, e=3): return
@export
def g(): ...
x: int = 3
"""


def test_statements_are_those_of_python():
    found = assert_same(text(MODULE), parse_module, module_from_ast)
    assert [type(each).__name__ for each in found] == ["ClassDef", "Def", "Assign"]
    forward = next(each for each in found[0].body if isinstance(each, t.Def))
    assert [each.kind for each in forward.parameters][2:] == ["varargs", "keyword", "kwargs"]
    assert forward.range.text().endswith("return x, *y")


REFUSED = {
    "async": "async with x: pass", "await": "await x", "bytes": "b'x'", "class": "class A: pass",
    "class-decorator": "", "class-keyword": "", "comprehension-loops": "[a for a in b for c in a]",
    "def": "@x\n  def f(): pass", "dict-unpacking": "{**x}", "format": "f'{x!r}' f'{y}'",
    "from-raise": "raise x from y", "generator": "f(x for x in y)", "global": "global x",
    "import": "from x import y", "lambda": "f(lambda: 1)", "loop-else": "for x in y: a\n  else: b",
    "match": "match x:\n    case 1: pass", "nonlocal": "nonlocal x", "set": "{x, y}",
    "try": "try: x\n  finally: y", "type-parameters": "", "walrus": "(x := 1)",
    "yield": "x = yield",
}  # fmt: skip


def test_each_construct_that_may_be_refused_is_tested():
    assert set(REFUSED) == set(REFUSALS) - {"type"}  # Python 3.12


@pytest.mark.parametrize("construct", [name for name, code in REFUSED.items() if code])
def test_a_construct_of_no_tree_is_refused_with_its_line(construct):
    file = text(f"def f(x):\n  a = 1\n  {REFUSED[construct]}\n")
    found = assert_same(file)
    assert found.cause == f"{REFUSALS[construct][0]} is no part of the language"
    assert found.code == "script-construct"
    assert found.where.line in (3, 4)


@pytest.mark.parametrize("code", ["@x\nclass A: pass", "class A(b=1): pass", "class A(**b): pass"])
def test_parts_of_a_class_are_refused(code):
    found = assert_same(text(code), parse_module, module_from_ast)
    assert found.code == "script-construct"


@pytest.mark.parametrize(
    "line",
    ["f(x) = 1", "1 += x", "(a, b) += 1", "f(a=1, 2)", "f(**a, *b)", "x = 1 if y",
     "[a, b]: int", "x = 1 + not y", "for f() in x: pass", "x = 007", "f'{a}}'", "return = 1",
     "def", "del f()", "with x as 1: pass", "if x = 1: pass", "x = '\\x1'"],
)  # fmt: skip
def test_what_python_forbids_is_refused(line):
    found = assert_same(text(f"def f(x):\n  a = 1\n  {line}\n"))
    assert found.code in ("script-syntax", "script-construct")


@pytest.mark.parametrize("signature", ["a=1, b", "**a, b", "*, *a", "/, a", "a, *", "*a, *b"])
def test_signatures_that_python_forbids_are_refused(signature):
    if signature != "a, *":
        assert assert_same(text(f"def f({signature}): pass")).code == "script-syntax"


@pytest.mark.parametrize("module", [torch.nn, torch.nn.functional, torch.functional, inspect])
def test_functions_of_libraries_have_the_trees_of_python(module):
    trees = 0
    for function in functions_of(module):
        file = outcome(source_of, function)
        if isinstance(file, SourceFile):
            trees += isinstance(assert_same(file), t.Def)
    assert trees > 10
