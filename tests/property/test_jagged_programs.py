"""Random programs on jagged nested tensors: values, offsets and gradients are those of eager.

Each program is called with rows of several lengths, and with several numbers of rows.
"""

import linecache
from collections.abc import Callable
from itertools import count
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nested import nested_tensor_from_jagged
from torch.testing import assert_close

import minitorch2
from minitorch2 import config

EXPRESSIONS = (
    "{a} * 2", "{a} + {b}", "{a}.sin()", "{a} * {b}", "torch.where({a} > 0, {a}, {b})",
    "F.linear({a}, W)", "F.layer_norm({a}, (4,))", "{a}.softmax(-1)", "{a} * {a}.size(0)",
    "nested_tensor_from_jagged({a}.values() + 1, {a}.offsets())", "{a}.clone().mul_({b})",
    "{a}.unflatten(-1, (2, 2)).flatten(-2)", "{a} * {a}.values().mean()", "{a}.detach() + {b}",
)  # fmt: skip
"""Expressions of two jagged tensors; all have four columns."""

ENDS = ("{a}", "{a}.values()", "{a}.sum()", "{a}.offsets()", "{a}.to_padded_tensor(0.0)")
LENGTHS = st.lists(st.integers(1, 5), min_size=2, max_size=5)
_NUMBERS = count()


@st.composite
def programs(draw: st.DrawFn) -> str:
    """The text of a function of one jagged tensor, with a weight."""
    lines = ["def program(v0, W):"]
    steps = draw(st.lists(st.sampled_from(EXPRESSIONS), min_size=1, max_size=4))
    for new, step in enumerate(steps, 1):
        a, b = (f"v{draw(st.integers(0, new - 1))}" for _ in range(2))
        lines.append(f"    v{new} = {step.format(a=a, b=b)}")
    end = draw(st.sampled_from(ENDS)).format(a=f"v{draw(st.integers(1, len(steps)))}")
    return "\n".join([*lines, f"    return v{len(steps)}, {end}\n"])


def made(text: str) -> Callable[..., Any]:
    """The function of a text."""
    file = f"<jagged {next(_NUMBERS)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"torch": torch, "F": F}
    names["nested_tensor_from_jagged"] = nested_tensor_from_jagged
    exec(compile(text, file, "exec"), names)
    function: Callable[..., Any] = names["program"]
    return function


def outcome(function: Callable[..., Any], lengths: list[int]) -> Any:
    """The plain parts of all results, and the gradients of what the jagged tensor is made of."""
    values = torch.linspace(-1, 1, sum(lengths) * 4).view(-1, 4).requires_grad_()
    weight = torch.linspace(-1, 1, 16).view(4, 4).requires_grad_()
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    results = function(nested_tensor_from_jagged(values, offsets), weight)
    parts = [p for r in results for p in ([r.values(), r.offsets()] if r.is_nested else [r])]
    heads = [part.square().sum() for part in parts if part.requires_grad]
    if heads:
        torch.stack(heads).sum().backward()
    return [part.detach() for part in parts], values.grad, weight.grad


@settings(max_examples=10)
@given(programs(), st.lists(LENGTHS, min_size=1, max_size=3))
def test_programs_on_jagged_tensors_are_eagers(text: str, calls: list[list[int]]) -> None:
    function = made(text)
    with config.patch(suppress_errors=False):
        compiled = minitorch2.compile(function, backend="aot_eager")
        for lengths in calls:
            found, wanted = outcome(compiled, lengths), outcome(function, lengths)
            assert_close(found, wanted, rtol=1e-4, atol=1e-5)
