"""Exercises of the chapter on the way from text to a graph."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minitorch2 import jit
from minitorch2.course.exercise import exercise
from minitorch2.script.syntax.parser import parse_expression
from minitorch2.script.syntax.source import SourceFile
from minitorch2.script.syntax.tree import s_expression

PAGE = "script/front_end"
SYMBOLS: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Pow: "**"}


def outermost(text: str) -> str:
    """Return the operator at the root of an expression's tree."""
    return s_expression(parse_expression(SourceFile(text, "f.py"))).split()[0].lstrip("(")


def tree_of(text: str) -> Any:
    """Return Python's own tree of an expression, as nested tuples."""

    def shown(node: Any) -> Any:
        if isinstance(node, ast.BinOp):
            return SYMBOLS[type(node.op)], shown(node.left), shown(node.right)
        return node.id if isinstance(node, ast.Name) else str(node.value)

    return shown(ast.parse(text, mode="eval").body)


@exercise(
    PAGE,
    "look",
    question="""
        Which operator is at the root of the trees of `a - b - c * d` and of `a * b ** c`? Set
        `first` and `second`.
    """,
    stub="""
        from minitorch2.script.syntax.parser import parse_expression
        from minitorch2.script.syntax.source import SourceFile
        from minitorch2.script.syntax.tree import s_expression

        print(s_expression(parse_expression(SourceFile("a + b * c", "f.py"))))
        first = ...
        second = ...
    """,
    hints=("The root is what is computed last.",),
    solution="""
        from minitorch2.course.exercises.front_end import outermost

        first, second = outermost("a - b - c * d"), outermost("a * b ** c")
    """,
)
def name_the_roots(first: str, second: str) -> None:
    """Ask the parser."""
    found = outermost("a - b - c * d"), outermost("a * b ** c")
    assert (first, second) == found, f"{first} and {second} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        A script refuses this function, since `factor` may be `None`. Change it so that it
        compiles; without a factor it returns `x`.
    """,
    stub="""
        from typing import Optional

        import torch


        def scaled(x: torch.Tensor, factor: Optional[float] = None):
            return x * factor
    """,
    hints=("A test `factor is not None` narrows the type on the side where it holds.",),
    solution="""
        from typing import Optional

        import torch


        def scaled(x: torch.Tensor, factor: Optional[float] = None):
            if factor is not None:
                x = x * factor
            return x
    """,
)
def narrow_a_type(scaled: Callable[..., Tensor]) -> None:
    """Script it, and call it both ways."""
    try:
        scripted = jit.script(scaled)
    except jit.ScriptError as error:
        raise AssertionError(str(error)) from error
    found = scripted(torch.ones(1), 3.0).item(), scripted(torch.ones(1)).item()
    assert found == (3.0, 1.0), f"with 3.0 and without a factor it gives {found}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `tokens(text)`: the list of names, whole numbers, parentheses and operators `+`,
        `-`, `*`, `**` of an expression. Other characters than these and blanks are a
        `ValueError`.
    """,
    stub="""
        def tokens(text):
            return text.split()
    """,
    hints=(
        r"`re.match(r'\s*(\w+|\*\*|[-+*()])', rest)` is the next token.",
        "If nothing matches and something is left, it is an error.",
    ),
    solution=r"""
        import re


        def tokens(text):
            found, rest = [], text.strip()
            while rest:
                token = re.match(r"\s*(\w+|\*\*|[-+*()])\s*", rest)
                if token is None:
                    raise ValueError(f"what is {rest[0]!r}?")
                found.append(token[1])
                rest = rest[token.end() :]
            return found
    """,
)
def split_text(tokens: Callable[[str], list[str]]) -> None:
    """Compare on expressions with and without blanks."""
    cases = {
        "x1+(y2 *10)": ["x1", "+", "(", "y2", "*", "10", ")"],
        "a**b*c": ["a", "**", "b", "*", "c"],
        " a - b ": ["a", "-", "b"],
    }
    for text, expected in cases.items():
        found = list(tokens(text))
        assert found == expected, f"{text!r} is {expected}, not {found}"
    try:
        tokens("a ? b")
    except ValueError:
        return
    raise AssertionError("a question mark is no token")


@exercise(
    PAGE,
    "build",
    question="""
        Write `parse(tokens)`: a Pratt parser. The tree of `["a", "+", "b", "*", "2"]` is
        `("+", "a", ("*", "b", "2"))`. Operators are `+`, `-`, `*` and `**`, with parentheses;
        `**` groups from the right.
    """,
    stub="""
        def parse(tokens):
            left, operator, right = tokens
            return operator, left, right
    """,
    hints=(
        "Read an operand; while the next operator binds tighter than what is around, extend it.",
        "For an operator that groups from the left, its right side binds one tighter.",
    ),
    solution="""
        TIGHT = {"+": 1, "-": 1, "*": 2, "**": 3}


        def parse(tokens):
            rest = list(tokens)

            def expression(around):
                left = rest.pop(0)
                if left == "(":
                    left = expression(0)
                    rest.pop(0)
                while rest and rest[0] in TIGHT and TIGHT[rest[0]] > around:
                    symbol = rest.pop(0)
                    right = expression(TIGHT[symbol] - (symbol == "**"))
                    left = symbol, left, right
                return left

            return expression(0)
    """,
)
def write_a_parser(parse: Callable[[Sequence[str]], Any]) -> None:
    """Compare with Python's parser on random expressions."""
    draw = random.Random(0)

    def expression(depth: int) -> list[str]:
        if depth == 0 or draw.random() < 0.3:
            return [draw.choice("abc12")]
        inner = [
            *expression(depth - 1),
            draw.choice(list(SYMBOLS.values())),
            *expression(depth - 1),
        ]
        return ["(", *inner, ")"] if draw.random() < 0.3 else inner

    for _ in range(60):
        tokens = expression(3)
        text = " ".join(tokens)
        found = parse(list(tokens))
        assert found == tree_of(text), f"{text} is {tree_of(text)}, not {found}"
