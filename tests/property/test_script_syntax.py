"""Random expressions: the parser of scripts gives the trees that Python's own parser gives."""

from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch2.script.syntax.from_ast import expression_from_ast
from minitorch2.script.syntax.parser import parse_expression
from minitorch2.script.syntax.source import SourceFile

BINARY = [
    "or", "and", "==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in", "|", "^", "&",
    "<<", ">>", "+", "-", "*", "/", "//", "%", "@", "**",
]  # fmt: skip
NAMES = st.sampled_from(["a", "b", "x.y", "f(a)", "c[0]", "[a, b]", "1", "2.5", "(a)"])


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions of smaller ones: which of two operators binds stronger decides the tree."""
    binary = st.tuples(parts, st.sampled_from(BINARY), parts).map(" ".join)
    unary = st.tuples(st.sampled_from(["-", "+", "~"]), NAMES).map(" ".join)
    negated = parts.map("not {}".format)
    choice = st.tuples(parts, parts, parts).map(lambda of: "{} if {} else {}".format(*of))
    return binary | unary | negated | choice | parts.map("({})".format)


@given(st.recursive(NAMES, joined, max_leaves=8))
@settings(max_examples=300)
def test_expressions_have_the_trees_of_python(text):
    try:
        compile(text, "text.py", "eval")
    except SyntaxError:  # `a + not b`
        return
    file = SourceFile(text, "text.py")
    assert parse_expression(file) == expression_from_ast(file), text
