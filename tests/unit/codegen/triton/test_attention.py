"""Attention written by hand becomes one kernel without a matrix of scores; beside float64."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import minitorch2
from minitorch2 import stages
from minitorch2.codegen import compile_graph as compiling
from minitorch2.codegen.triton.target import TRITON
from minitorch2.codegen.triton.templates.attention import Attention
from minitorch2.codegen.triton.templates.columns import visible
from tests.unit.codegen.aten_graph import call_inputs, record
from tests.unit.codegen.triton.run_lowered import DEVICE

LENGTH, HEADS = 40, 2


def apart(scores: Tensor) -> Tensor:
    rows, columns = (torch.arange(n, device=scores.device) for n in scores.shape[-2:])
    return rows[:, None] - columns


def alibi(scores: Tensor) -> Tensor:
    slopes = 2.0 ** -torch.arange(1, HEADS + 1, device=scores.device)
    return scores - (slopes[:, None, None] * apart(scores)).to(scores.dtype)


def causal(scores: Tensor) -> Tensor:
    return scores.masked_fill(apart(scores) < 0, -math.inf)


def window(scores: Tensor) -> Tensor:
    return causal(scores).masked_fill(apart(scores) > 9, -math.inf)


def relative(scores: Tensor) -> Tensor:
    table = torch.linspace(-1, 1, 64, device=scores.device, dtype=scores.dtype)
    return scores + table[apart(scores).abs().clamp(max=63)]


def padded(scores: Tensor) -> Tensor:
    lengths = torch.tensor([17, 40], device=scores.device)
    columns = torch.arange(scores.shape[-1], device=scores.device)
    return scores.masked_fill(columns >= lengths[:, None, None, None], -math.inf)


SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "full": lambda scores: scores,
    "causal": causal,
    "window": window,
    "alibi": lambda scores: causal(alibi(scores)),
    "soft cap": lambda scores: 5 * torch.tanh(scores / 5),
    "relative": relative,
    "padded": padded,
    "chosen": lambda scores: torch.where(apart(scores) >= 0, scores, -math.inf),
    "both sides": lambda scores: scores.masked_fill(
        (apart(scores) > 7) | (apart(scores) < -7), -math.inf
    ),
    "mirrored": lambda scores: scores.masked_fill(apart(scores).flip(-2) < 0, -math.inf),
    "backwards": lambda scores: scores.masked_fill(~(apart(scores) <= 0), -math.inf),
}


def attention(change: Callable[[Tensor], Tensor]) -> Callable[..., tuple[Tensor]]:
    def program(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor]:
        scores = change(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5)
        return (scores.softmax(-1) @ v,)

    return program


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.randn(shape).to(DEVICE, dtype) for _ in range(3)]


def compiled(program: Callable[..., Any], *inputs: Tensor) -> tuple[Tensor, str, int]:
    """The result, the text of the wrapper, and how many attentions are one kernel."""
    gm = record(program, *inputs)
    with stages.collect() as log:
        call = compiling.compile_graph(gm, (), target=TRITON)
    (result,) = call(call_inputs(gm, *inputs))
    return result, log.texts("wrapper.py")[0], log.counts.get("templates", 0)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Attention, "is_worth", lambda self: True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.usefixtures("always")
def test_against_float64(name: str, dtype: torch.dtype) -> None:
    program = attention(SCORES[name])
    inputs = drawn(2, HEADS, LENGTH, 24, dtype=dtype)
    result, text, count = compiled(program, *inputs)
    (exact,) = program(*(x.double() for x in inputs))
    bound = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    assert (result.double() - exact).abs().max() < bound
    assert count == 1 and "torch_bmm" not in text and text.count("@template") == 1


@pytest.mark.parametrize(("name", "first", "last"), [
    ("causal", "0", "tl.minimum(40, xoffset + XBLOCK)"),
    ("chosen", "0", "tl.minimum(40, xoffset + XBLOCK)"),
    ("backwards", "tl.maximum(0, (xoffset) // YBLOCK * YBLOCK)", "40"),
    ("window", "tl.maximum(0, (xoffset - 9) // YBLOCK * YBLOCK)",
     "tl.minimum(40, xoffset + XBLOCK)"),
    ("both sides", "tl.maximum(0, (xoffset - 7) // YBLOCK * YBLOCK)",
     "tl.minimum(40, xoffset + XBLOCK + 7)"),
    ("soft cap", "0", "40"),
])  # fmt: skip
@pytest.mark.usefixtures("always")
def test_hidden_columns_are_not_visited(name: str, first: str, last: str) -> None:
    _, text, _ = compiled(attention(SCORES[name]), *drawn(1, HEADS, LENGTH, 16))
    assert re.findall(r"first, last = (.*)", text) == [f"{first}, {last}"]


@pytest.mark.usefixtures("always")
def test_a_row_that_sees_nothing_is_nan_as_in_eager() -> None:
    program = attention(lambda scores: scores.masked_fill(apart(scores) <= 3, -math.inf))
    inputs = drawn(1, HEADS, LENGTH, 16)
    result, _, count = compiled(program, *inputs)
    torch.testing.assert_close(result, program(*inputs)[0], equal_nan=True)
    assert count == 1 and result.isnan().any()


@pytest.mark.usefixtures("always")
def test_a_nan_and_an_infinite_score_spread_as_in_eager() -> None:
    q, k, v = drawn(1, HEADS, LENGTH, 16)
    q[0, 0, 3, 5], k[0, 1, 7, 2] = math.nan, math.inf
    result, _, _ = compiled(attention(SCORES["causal"]), q, k, v)
    (expected,) = attention(SCORES["causal"])(q, k, v)
    torch.testing.assert_close(result, expected, equal_nan=True)


@pytest.mark.usefixtures("always")
def test_heads_in_groups_and_other_lengths() -> None:
    def grouped(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor]:
        k, v = (x.repeat_interleave(2, 1) for x in (k, v))
        return (causal(q @ k.mT / 4).softmax(-1) @ v,)

    inputs = [torch.randn(2, n, m, 16).to(DEVICE) for n, m in ((4, 33), (2, 50), (2, 50))]
    result, _, count = compiled(grouped, *inputs)
    torch.testing.assert_close(result, grouped(*inputs)[0])
    assert count == 1


@pytest.mark.usefixtures("always")
def test_one_head_without_a_batch() -> None:
    inputs = drawn(LENGTH, 16)
    result, _, count = compiled(attention(SCORES["causal"]), *inputs)
    torch.testing.assert_close(result, attention(SCORES["causal"])(*inputs)[0])
    assert count == 1


@pytest.mark.parametrize("program", [
    lambda q, k, v: ((w := causal(q @ k.mT).softmax(-1)) @ v + w.sum(),),
    lambda q, k, v: (causal(s := q @ k.mT).softmax(-1) @ v + s.sum(),),
    lambda q, k, v: ((q @ k.mT).log_softmax(-1) @ v,),
    lambda q, k, v: ((q @ k.mT).softmax(-2) @ v,),
    lambda q, k, v: ((q @ k.mT).softmax(-1).mT @ v,),
], ids=["weights read", "scores read", "logarithm", "columns", "turned"])  # fmt: skip
@pytest.mark.usefixtures("always")
def test_what_is_no_attention_stays(program: Callable[..., Any]) -> None:
    inputs = drawn(1, HEADS, LENGTH, 16)
    result, _, count = compiled(program, *inputs)
    torch.testing.assert_close(result, program(*inputs)[0], rtol=1e-4, atol=1e-4)
    assert count == 0


def test_float32_without_tensor_cores_is_left_to_the_library() -> None:
    assert compiled(attention(causal), *drawn(1, HEADS, LENGTH, 16))[2] == 0


def test_a_captured_function_has_one_kernel() -> None:
    program = attention(SCORES["alibi"])
    fast = minitorch2.compile(program, backend="triton")
    inputs = drawn(1, HEADS, LENGTH, 16, dtype=torch.float16)
    with stages.collect() as log, torch.no_grad():
        (result,) = fast(*inputs)
    torch.testing.assert_close(result, program(*inputs)[0], rtol=1e-2, atol=1e-2)
    assert log.counts["templates"] == 1 and log.counts["graphs"] == 1


def test_what_hides_nothing_gives_no_bound() -> None:
    assert not [*visible(("add", ("load", "buf0", 0), ("constant", 1.0, torch.float32)))]
