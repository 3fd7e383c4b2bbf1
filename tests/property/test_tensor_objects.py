"""Random programs about tensors as objects: hooks, kept gradients, attributes, identities, choices.

Values, gradients and kept gradients are those of eager PyTorch, wherever the graphs end.
"""

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import minitorch2

LINES = (
    "{new} = {a}.sin()",
    "{new} = {a} * {b}",
    "{new} = {a} + {b}.cos()",
    "{new} = {a}.t().contiguous().t() - {k}",
    "{a}.register_hook(lambda gradient: gradient * {k})",
    "handle = {a}.register_hook(lambda gradient: gradient + {k})",
    "{new} = {a}.exp(); handle and handle.remove()",
    "{a}.retain_grad()",
    "print(end='')",
    "{new} = {a}.clone(); {new}.data = {b}.detach() * {k}",
    "{a}.mark = {k}",
    "{new} = {a} * getattr({b}, 'mark', 2)",
    "{new} = {a} * max({a}.sum(), {b}.sum())",
    "{new} = {a} * min([{b}.mean(), {a}.mean() * {k}, {b}.sum()])",
    "p, q = {a}.detach().sum(), {b}.detach().mean(); max(p, q).add_({k}); {new} = {a} * p + q",
    "p, q = {a}.detach().sum(), {b}.detach().mean(); r = min(p, q); p.mul_({k}); {new} = {a} * r",
    "seen[id({a})] = {k}",
    "{new} = {b} * seen.get(id({a}), 3)",
    "{new} = {a}.new({a}.shape).fill_({k}) + {b}",
)

HOOKING_LINES = (
    *LINES[:4],
    "{a}.register_hook(lambda gradient: seen.update(hook={k}))",  # an effect: the graph ends
    "{a}.register_hook(lambda gradient: gradient * {k})",
    "{a}.retain_grad()",
    "{new} = {a}.exp() * {k}; {new}.retain_grad()",
)


@st.composite
def programs(draw: st.DrawFn, lines_of: tuple[str, ...] = LINES) -> str:
    """The text of a function of one tensor."""
    count, lines = 1, ["def program(v0):", "    seen, handle = {}, None"]
    for line in draw(st.lists(st.sampled_from(lines_of), min_size=2, max_size=8)):
        a, b = (f"v{draw(st.integers(0, count - 1))}" for _ in range(2))
        lines.append("    " + line.format(new=f"v{count}", a=a, b=b, k=draw(st.integers(2, 5))))
        count += "{new}" in line
    results = [f"v{place}" for place in range(1 if count > 1 else 0, count)]
    shown = results if draw(st.booleans()) else results[-1:]
    return "\n".join([*lines, f"    return ({', '.join(shown)},)"])


def made(text: str) -> Callable[..., Any]:
    """The function of a text."""
    names: dict[str, Any] = {"torch": torch}
    exec(compile(text, f"<{hash(text)}>", "exec"), names)
    function: Callable[..., Any] = names["program"]
    return function


def outcome(function: Callable[..., Any]) -> Any:
    """Results, the gradient of their sum, and the gradients that are kept."""
    torch.manual_seed(0)
    x = (torch.rand(3, 4) / 2).requires_grad_()
    results = function(x * 1)
    torch.stack([each.sum() for each in results]).sum().backward()
    return results, x.grad, [each.grad for each in results if each.retains_grad]


@settings(max_examples=40)
@given(programs())
def test_tensors_are_the_objects_that_they_are_in_eager(text: str) -> None:
    check(text)


@settings(max_examples=20)
@given(programs(HOOKING_LINES))
def test_hooks_that_end_graphs_change_the_gradients_that_they_change_in_eager(text: str) -> None:
    check(text)


def check(text: str) -> None:
    """Compare a program with eager PyTorch, twice."""
    function = made(text)
    expected = outcome(function)
    compiled = minitorch2.compile(function, backend="aot_eager", dynamic=False)
    for _ in range(2):
        assert_close(outcome(compiled), expected, rtol=1e-4, atol=1e-5, equal_nan=True)
