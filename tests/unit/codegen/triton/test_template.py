"""Products with epilogues from a template, against eager; the choice is forced here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import config, stages
from minitorch2.codegen import compile_graph as compiling
from minitorch2.codegen.triton import autotune
from minitorch2.codegen.triton.template import Tile
from tests.unit.codegen.aten_graph import call_inputs, record
from tests.unit.codegen.triton.run_lowered import DEVICE

TILE = Tile(16, 32, 16, warps=4, stages=2)

PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "bias and activation": (
        lambda x, w, b: (F.gelu(torch.addmm(b, x, w)),), [(32, 48), (48, 64), (64,)]),
    "transposed weight": (
        lambda x, w, b: (F.relu(F.linear(x, w, b)),), [(32, 48), (64, 48), (64,)]),
    "tails everywhere": (lambda x, w, b: ((x @ w).sin() + b,), [(19, 21), (21, 35), (35,)]),
    "residual": (lambda x, w, r: (x @ w + r,), [(32, 32), (32, 32), (32, 32)]),
    "three dimensions": (
        lambda x, w, r: ((x.view(24, 16) @ w).view(2, 12, 32) * 2 + r,),
        [(2, 12, 16), (16, 32), (2, 12, 32)]),
    "batches": (lambda x, y, r: (torch.bmm(x, y) * 0.5 + r,), [(3, 20, 16), (3, 16, 40), (40,)]),
    "two results": (lambda x, w, b: ((y := x @ w) + b, y * 2), [(16, 16), (16, 32), (32,)]),
}  # fmt: skip


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product that can be a template is one."""
    monkeypatch.setattr(autotune, "choose_by_measuring", lambda *_: TILE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("templates")
def test_against_eager(name: str, dtype: torch.dtype) -> None:
    program, shapes = PROGRAMS[name]
    inputs = [torch.randn(shape).to(DEVICE, dtype) for shape in shapes]
    gm = record(program, *inputs)
    with stages.collect() as log, config.patch(max_autotune=True):
        call = compiling.compile_graph(gm, (), target="triton")
    tolerances = {"rtol": 1e-2, "atol": 1e-2} if dtype == torch.float16 else {}
    for got, expected in zip(call(call_inputs(gm, *inputs)), program(*inputs), strict=True):
        torch.testing.assert_close(got, expected, **tolerances)
    assert log.counts["templates"] == 1, log.texts("wrapper.py")[0]
    assert "tl.dot" in log.texts("wrapper.py")[0]


@pytest.mark.usefixtures("templates")
def test_what_others_read_stays_a_library_call() -> None:
    x = torch.randn(16, 16).to(DEVICE)
    for program in (
        lambda x: ((y := x @ x), y + 1),
        lambda x: ((x @ x).sum(0),),
        lambda x: ((x @ x).t().contiguous() + 1,),
        lambda x: (F.pad(x @ x, (1, 1)) + 1,),
    ):
        with stages.collect() as log, config.patch(max_autotune=True):
            compiling.compile_graph(record(program, x), (), target="triton")
        assert not log.counts["templates"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="where nothing can be measured")
def test_without_a_gpu_the_library_multiplies() -> None:
    x = torch.randn(16, 16)
    with stages.collect() as log:
        fast = minitorch2.compile(lambda x: (x @ x).relu(), mode="max-autotune-no-cudagraphs",
                                  backend="triton")  # fmt: skip
        torch.testing.assert_close(fast(x), (x @ x).relu())
    assert not log.counts["templates"] and not log.counts["autotune_candidates"]


@pytest.mark.gpu
def test_the_choice_is_measured_once(tmp_path: Any) -> None:
    x, w = torch.randn(2, 512, 512, device="cuda", dtype=torch.float16)
    counts = []
    with config.patch(cache_dir=str(tmp_path)):
        for _ in range(2):
            with stages.collect() as log:
                fast = minitorch2.compile(lambda x, w: F.gelu(x @ w), mode="max-autotune")
                torch.testing.assert_close(fast(x, w), F.gelu(x @ w), rtol=1e-2, atol=5e-2)
            counts.append(log.counts["autotune_candidates"])
    assert counts[0] > 1 and counts[1] == 0
