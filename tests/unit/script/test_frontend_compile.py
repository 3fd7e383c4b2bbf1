"""Functions become graphs that compute what Python computes, and wrong ones name line and cause."""

import math
from typing import Dict, List, NamedTuple, Optional, Tuple  # noqa: UP035

import pytest
import torch
import torch.nn.functional as functional

from minitorch2.script.frontend.compile import compile_function, compile_tree
from minitorch2.script.runtime.python_code import compile_graph
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.from_ast import function_from_ast
from minitorch2.script.syntax.source import SourceFile
from tests.unit.script.wrong_scripts import WRONG_BODIES


def run(function, *arguments):
    """What the compiled function gives for arguments of all parameters."""
    return compile_graph(compile_function(function).graph)(*arguments)


def assert_same(found, expected):
    """Compare results of any type, tuples part by part."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected)
    elif isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert_same(one, other)
    else:
        assert found == expected and type(found) is type(expected)


def branches(x, n: int):
    if n > 2:
        y = x + 1
    elif n > 0:
        return x * 3
    else:
        y = x - 1
    return y * 2


def loops(n: int):
    found = 0
    i = 0
    while i < n:
        i += 1
        if i % 2 == 0:
            continue
        if i > 7:
            break
        found = found + i
    for k in range(2, n, 3):
        found += k
    return found


def optional(x: torch.Tensor, y: Optional[torch.Tensor] = None):  # noqa: UP045
    if y is None:
        y = x
    return x + y


def optional_and(x: torch.Tensor, y: Optional[int]):  # noqa: UP045
    if y is not None and y > 1:
        return x + y
    return x


def early_return(x: torch.Tensor, y: Optional[int]):  # noqa: UP045
    if y is None:
        return x
    return x * y


def asserted(x: torch.Tensor, y: Optional[int]):  # noqa: UP045
    assert y is not None, "y is needed"
    return x * y


def wider_loop(n: int):
    last = None
    for i in range(n):
        last = i
    return last


def containers(n: int):
    numbers: List[int] = []  # noqa: UP006
    for i in range(n):
        numbers.append(i * i)
    names: Dict[str, int] = {}  # noqa: UP006
    names["n"] = n
    for i, number in enumerate(numbers):
        names["n"] += i * number
    return numbers, names, [v for v in numbers if v > 3], sum(numbers), max(numbers), len(numbers)


def tuples(pair: Tuple[int, float]):  # noqa: UP006
    a, b = pair
    first, *rest = (a, b, a)
    return first + 1, rest[0] * 2, (a, b)[1]


class Point(NamedTuple):
    x: int
    y: float


def named(p: Point):
    return Point(p.x + 1, p.y).x + int(p[1])


def numbers(a: int, b: float):
    return a / 2, a // 2, a % 3, a**2, -a, b + a, math.sqrt(b), math.pi, abs(-a), float(a), int(b)


def texts(a: int, b: str):
    return f"{a} and {b}", "{}-{}".format(a, b), b + "!", b.upper(), len(b), str(a)  # noqa: UP032


def subscripts(x):
    return x[0], x[:, 1:], x[..., -1], x[None, 0, 1:3], x[x > 0], x[[0, 1]], x[1, ..., 0:2]


def writes(x):
    y = x.clone()
    y[0] = 1.0
    y[:, 1] += 2
    y[y > 2] = -1.0
    return y


def reflected(x):
    return 1 - x, 2 / x, 2**x, 3 + x, x > 1, 3 * x


def methods(x):
    return x.view(2, -1).permute(1, 0).float(), x.size(0), x.shape[1], x.dtype, x.dim(), x.T.sum()


def pooled(x):
    return functional.max_pool2d(x, 2, 1) + functional.max_pool2d(x, kernel_size=2, stride=(1, 1))


def results_with_names(x):
    best = x.max(dim=0)
    return best.values, best.indices, bool(x.sum().item()), Point(len(x), 0.5).y


def no_gradient(x):
    with torch.no_grad():
        y = x * 2
    return y, x


PROGRAMS = [
    (branches, torch.ones(2), 3),
    (branches, torch.ones(2), 1),
    (branches, torch.ones(2), 0),
    (loops, 12),
    (optional, torch.ones(2), None),
    (optional, torch.ones(2), torch.ones(2)),
    (optional_and, torch.ones(2), 2),
    (optional_and, torch.ones(2), None),
    (early_return, torch.ones(2), None),
    (early_return, torch.ones(2), 3),
    (asserted, torch.ones(2), 3),
    (wider_loop, 0),
    (wider_loop, 3),
    (containers, 4),
    (tuples, (2, 0.5)),
    (named, Point(1, 2.5)),
    (numbers, 7, 2.25),
    (texts, 3, "word"),
    (subscripts, torch.arange(12.0).reshape(3, 4) - 4),
    (writes, torch.arange(12.0).reshape(3, 4)),
    (reflected, torch.tensor([0.5, 2.0])),
    (methods, torch.arange(12).reshape(3, 4)),
    (pooled, torch.arange(16.0).reshape(1, 1, 4, 4)),
    (results_with_names, torch.arange(12.0).reshape(3, 4)),
    (no_gradient, torch.ones(2, requires_grad=True)),
]


@pytest.mark.parametrize(
    "function, arguments", [(p[0], p[1:]) for p in PROGRAMS],
    ids=[f"{p[0].__name__}{i}" for i, p in enumerate(PROGRAMS)],
)  # fmt: skip
def test_a_script_computes_what_python_does(function, arguments):
    assert_same(run(function, *arguments), function(*arguments))


FUNCTIONAL = [
    (functional.softmax, torch.randn(2, 3), 1, 3, None),
    (functional.layer_norm, torch.randn(2, 3), [3], None, None, 1e-5),
    (functional.cross_entropy, torch.randn(2, 3), torch.tensor([0, 2]), None, None, -100, None,
     "mean", 0.0),
    (functional.adaptive_avg_pool2d, torch.randn(1, 2, 6, 6), [2, 3]),
    (functional.interpolate, torch.randn(1, 2, 4, 4), None, [2.0, 2.0], "nearest", None, None,
     False),
    (functional.pad, torch.randn(2, 3), [1, 1], "constant", 0.5),
    (functional.normalize, torch.randn(2, 3), 2.0, 1, 1e-12, None),
    (functional.embedding, torch.tensor([0, 2]), torch.randn(3, 4), None, None, 2.0, False, False),
]  # fmt: skip


@pytest.mark.parametrize(
    "function, arguments", [(p[0], p[1:]) for p in FUNCTIONAL],
    ids=[p[0].__name__ for p in FUNCTIONAL],
)  # fmt: skip
def test_functions_of_torch_compile_from_their_source(function, arguments):
    torch.testing.assert_close(run(function, *arguments), function(*arguments))


def test_a_condition_that_is_known_emits_one_side():
    def known(x):
        if torch.jit.is_scripting():
            return x + 1
        return x.numpy() @ {1, 2}

    graph = str(compile_function(known).graph)
    assert "prim::If" not in graph
    assert "aten::add" in graph


WRONG = {
    "x = y": "program.py:2, in f\n    x = y\n        ~\ny is not defined [script-unknown-name]\n"
    "Fix: set y before, or import it",
    "return [1, 'a']": "program.py:2, in f\n    return [1, 'a']\n           ~~~~~~~~\n"
    "elements of one list have different types: int, str [script-mixed-list]\n"
    "Fix: give all elements one type, or use a tuple",
    "break": "program.py:2, in f\n    break\n    ~~~~~\n`break` stands outside of a loop "
    "[script-outside-loop]",
    "a, b = 1, 2, 3": "program.py:2, in f\n    a, b = 1, 2, 3\n    ~~~~\n"
    "3 values are unpacked to 2 names [script-unpack]",
    "return len(3)": "program.py:2, in f\n    return len(3)\n           ~~~~~~\n"
    "the constant 3 has no length [script-no-length]",
    "return type(x)": "program.py:2, in f\n    return type(x)\n           ~~~~~~~\n"
    "`type` gives no value in a script [script-type-of]\nFix: use `isinstance(x, T)`",
    "raise 3": "program.py:2, in f\n    raise 3\n    ~~~~~~~\n"
    'only an exception can be raised [script-raise]\nFix: write `raise ValueError("...")`',
    "return x.no_such": "program.py:2, in f\n    return x.no_such\n           ~~~~~~~~~\n",
    "y: List[Foo] = []": "program.py:2, in f\n    y: List[Foo] = []\n            ~~~\n"
    "Foo is no type of the language [script-unknown-type]\n"
    "Fix: use Tensor, int, float, bool, str, List, Dict, Tuple, Optional or a NamedTuple",
    "return (1, 2)[3]": "program.py:2, in f\n    return (1, 2)[3]\n           ~~~~~~~~~\n",
    "for i in 3:\n        pass": "program.py:2, in f\n    for i in 3:\n             ~\n"
    "a value of type int cannot be iterated over [script-not-iterable]",
    "return x if x is not None else y": None,
    "print(x, end='')": "program.py:2, in f\n    print(x, end='')\n    ~~~~~~~~~~~~~~~~\n"
    "print has no keyword end here [script-wrong-arguments]\nFix: put all into one string",
}


def text_of(body):
    return SourceFile(f"def f(x):\n    {body}\n", "program.py")


@pytest.mark.parametrize("body", [body for body, message in WRONG.items() if message])
def test_a_wrong_program_names_line_cause_and_fix(body):
    with pytest.raises(ScriptError) as caught:
        compiled = compile_tree(function_from_ast(text_of(body)))
        raise AssertionError(str(compiled.graph))
    assert str(caught.value).startswith(WRONG[body])


@pytest.mark.parametrize("body", WRONG_BODIES)
def test_the_whole_text_of_an_error(body):
    with pytest.raises(ScriptError) as caught:
        compile_tree(function_from_ast(text_of(body)))
    assert str(caught.value) == WRONG_BODIES[body]
    assert "\nFix: " in WRONG_BODIES[body]


def test_a_side_that_is_never_taken_may_be_wrong():
    body = next(body for body, message in WRONG.items() if message is None)
    assert compile_tree(function_from_ast(text_of(body))).graph.inputs
