"""Products and convolutions with what is around them, against eager; the choice is forced here."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import minitorch2
from minitorch2 import config, stages
from minitorch2.codegen import channels_last
from minitorch2.codegen import compile_graph as compiling
from minitorch2.codegen.triton.target import TRITON
from minitorch2.codegen.triton.templates import autotune
from minitorch2.codegen.triton.templates.sites import Site, find_sites
from minitorch2.codegen.triton.templates.template import TemplateNode, Tile, print_template_kernel
from minitorch2.codegen.triton.templates.trial import Trial, candidates
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.lowering import odd_products
from tests.unit.codegen.aten_graph import call_inputs, record
from tests.unit.codegen.triton.run_lowered import DEVICE, Kernels

TILE = Tile(16, 32, 16, warps=4, stages=2)

IMAGES = (2, 16, 9, 8)

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
    "convolution": (
        lambda x, w, b: (F.relu(F.conv2d(x, w, b, padding=1)),), [IMAGES, (20, 16, 3, 3), (20,)]),
    "convolution with steps": (
        lambda x, w, b: (F.conv2d(x, w, b, stride=(2, 1), dilation=(1, 2)) * 2,),
        [IMAGES, (20, 16, 3, 2), (20,)]),
    "convolution of colours": (
        lambda x, w: (F.relu(F.conv2d(x, w, stride=2, padding=3)),), [(2, 3, 9, 8), (8, 3, 7, 7)]),
    "convolution and residual": (
        lambda x, w, r: (F.relu(F.conv2d(x, w, stride=2) + r),),
        [IMAGES, (8, 16, 1, 1), (2, 8, 5, 4)]),
    "computed operand": (lambda x, w: (F.silu(x) @ w,), [(19, 21), (21, 35)]),
    "both operands": (
        lambda x, w, s: (x.cos() @ (w * s).t() + 1,), [(19, 21), (35, 21), (21,)]),
    "computed and reshaped": (
        lambda x, w: (x.exp().view(24, 16) @ w,), [(2, 12, 16), (16, 32)]),
    "computed images": (
        lambda x, w, s: (F.conv2d(x.cos() * s, w, padding=1),),
        [IMAGES, (8, 16, 3, 3), (1, 16, 1, 1)]),
    "gate": (lambda x, y, w: ((F.silu(x) * y) @ w.t(),), [(20, 32), (20, 32), (24, 32)]),
    "one operand twice": (lambda x: ((y := x.sin()) @ y.t(),), [(20, 24)]),
    "expanded": (lambda x, w: (x.expand(20, 21) @ w + 1,), [(1, 1), (21, 35)]),
    "computed and expanded": (
        lambda x, w: (w.t() @ x.cos().expand(21, 3),), [(1, 1), (21, 35)]),
    "two results": (lambda x, w, b: ((y := x @ w) + b, y * 2), [(16, 16), (16, 32), (32,)]),
}  # fmt: skip


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Eager's convolutions of float32 round to TF32 on a GPU, and not as ours do."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product that can be a template is one; no operand is stored in aligned rows."""

    def choose(site: Site, *_: Any) -> TemplateNode | None:
        return TemplateNode(site, TILE, site.prologues) if site.prologues or site.epilogue else None

    monkeypatch.setattr(autotune, "choose_by_measuring", choose)
    monkeypatch.setattr(odd_products, "ALIGNING", {})


def check(program: Callable[..., Any], *inputs: torch.Tensor, **tolerances: float) -> str:
    """Compare with eager; the text of the wrapper."""
    gm = record(program, *inputs)
    with stages.collect() as log, config.patch(max_autotune=True):
        call = compiling.compile_graph(gm, (), target=TRITON)
    for got, expected in zip(call(call_inputs(gm, *inputs)), program(*inputs), strict=True):
        torch.testing.assert_close(got, expected, **tolerances)
    return log.texts("wrapper.py")[0]


TOLERANCES: dict[torch.dtype, dict[str, float]] = {
    torch.float32: {},
    torch.float16: {"rtol": 1e-2, "atol": 1e-2},
    torch.bfloat16: {"rtol": 2e-2, "atol": 0.3},  # some roundings of numbers up to 20
}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("templates")
def test_against_eager(name: str, dtype: torch.dtype) -> None:
    program, shapes = PROGRAMS[name]
    inputs = [torch.randn(shape).to(DEVICE, dtype) for shape in shapes]
    inputs = [t.to(memory_format=torch.channels_last) if t.ndim == 4 else t for t in inputs]
    assert check(program, *inputs, **TOLERANCES[dtype]).count("@template") == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8])
@pytest.mark.usefixtures("templates")
def test_an_operand_is_converted_as_it_is_loaded(dtype: torch.dtype) -> None:
    x, w, s = torch.randn(20, 32), torch.randn(24, 32).mul(9).to(dtype), torch.rand(24, 1)
    program = lambda x, w, s: (F.linear(x, w.float() * s),)  # noqa: E731
    text = check(program, *(t.to(DEVICE) for t in (x, w, s)))
    assert text.count("@template") == 1 and "@pointwise" not in text


VARYING: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "rows": (lambda x, w: F.relu(x.cos() @ w) + 1, (16,), (16, 24)),
    "images": (lambda x, w: F.relu(F.conv2d(x, w, padding=1)), (16, 6, 5), (8, 16, 3, 3)),
}


@pytest.mark.parametrize("name", VARYING)
@pytest.mark.usefixtures("templates")
def test_the_first_size_may_vary(name: str) -> None:
    program, size, shape = VARYING[name]
    fast = minitorch2.compile(program, mode="max-autotune-no-cudagraphs", backend="triton")
    format_ = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    weight = torch.randn(shape).to(DEVICE, memory_format=format_)
    with stages.collect() as log:
        for count in (3, 2, 35):
            x = torch.randn(count, *size).to(DEVICE, memory_format=format_)
            minitorch2.mark_dynamic(x, 0)
            torch.testing.assert_close(fast(x, weight), program(x, weight))
    assert log.counts["templates"] == 1 and log.counts["graphs"] == 1


@pytest.mark.usefixtures("templates")
def test_a_network_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward, convolutions channels-last as on a GPU."""
    monkeypatch.setattr(channels_last, "_is_on_gpu", lambda x: True)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 1, stride=2), nn.Flatten(),
        nn.Linear(64, 24), nn.GELU(), nn.Linear(24, 8),
    ).to(DEVICE)  # fmt: skip
    x = torch.randn(2, 3, 4, 4).to(DEVICE)
    fast = minitorch2.compile(model, mode="max-autotune-no-cudagraphs", backend="triton")
    outcomes = []
    with stages.collect() as log:
        for called in (model, fast):
            model.zero_grad()
            called(x).square().sum().backward()
            outcomes.append([weight.grad for weight in model.parameters()])
    for got, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    assert log.counts["templates"] >= 2  # the library's results differ in order from GPU to CPU


@pytest.mark.parametrize("switch", ["cudnn", "cuda.matmul"])
def test_float32_is_multiplied_as_the_switches_say(switch: str) -> None:
    programs = {
        "cudnn": (lambda x, w: F.conv2d(x, w), [(2, 16, 4, 4), (16, 16, 1, 1)]),
        "cuda.matmul": (lambda x, w: x @ w, [(16, 16), (16, 16)]),
    }
    program, shapes = programs[switch]
    x, w = (torch.randn(shape) for shape in shapes)
    x = x.to(memory_format=torch.channels_last) if x.ndim == 4 else x
    settings = operator.attrgetter(switch)(torch.backends)
    with torch.backends.__allow_nonbracketed_mutation():  # some of PyTorch's tests forbid it
        before = settings.allow_tf32
        for allowed in (not before, before):
            settings.allow_tf32 = allowed
            site, _ = only_site(program, x, w)
            assert site.sum.precision == ("tf32" if allowed else "ieee")


@pytest.mark.parametrize(
    "program",
    [
        lambda x, w: F.conv2d(x, w.view(8, 2, 2, 2), groups=2),
        lambda x, w: F.conv_transpose2d(x, w.view(4, 4, 2, 2)),
        lambda x, w: F.conv2d(x.contiguous(), w.view(4, 4, 2, 2)),
    ],
)
def test_what_stays_with_the_library(program: Callable[..., Any]) -> None:
    x = torch.randn(2, 4, 6, 6).to(memory_format=torch.channels_last)
    made = Kernels(lower_graph(record(program, x, torch.randn(64))))
    assert not list(find_sites(made.schedule, made.lowered.output_names))


def only_site(program: Callable[..., Any], *inputs: torch.Tensor) -> tuple[Site, Kernels]:
    made = Kernels(lower_graph(record(program, *inputs)))
    (site,) = find_sites(made.schedule, made.lowered.output_names)
    return site, made


def test_an_operand_with_other_readers_is_stored() -> None:
    x, w = torch.randn(16, 16), torch.randn(16, 16)
    site, _ = only_site(lambda x, w: ((y := x.exp()) @ w, y), x, w)
    assert not site.prologues
    site, _ = only_site(lambda x, w: x.softmax(-1) @ w, x, w)
    assert not site.prologues


@pytest.mark.parametrize("kind", ["epilogue", "prologues", "product"])
def test_a_kernel_between_two_products_belongs_to_one(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [torch.randn(20, 32), torch.randn(32, 48), torch.randn(48, 16)]

    def choose(site: Site, *_: Any) -> TemplateNode | None:
        return TemplateNode(site, TILE, site.prologues) if getattr(site, kind) else None

    monkeypatch.setattr(autotune, "choose_by_measuring", choose)
    text = check(lambda x, v, w: (F.relu(x @ v) @ w,), *(t.to(DEVICE) for t in inputs))
    calls = int(kind != "product")
    assert text.count("@template") == 2 - calls and text.count("torch_mm(") == calls
    assert "@pointwise" not in text


@pytest.mark.parametrize(("rows", "is_wide"), [(40_000, False), (60_000, True)])
def test_addresses_of_large_operands_have_64_bits(rows: int, is_wide: bool) -> None:
    gpu = torch.device("cuda", 0)
    x, w = (FakeTensor(torch.empty(size, device="meta"), gpu)
            for size in ((rows, 40_000), (40_000, 64)))  # fmt: skip
    site, made = only_site(lambda x, w: F.relu(x @ w), x, w)
    kernel = print_template_kernel(TemplateNode(site, TILE, ()), made.buffers, name="kernel")
    assert ("tl.program_id(0).to(tl.int64)" in kernel.source.text) == is_wide


def test_candidates_fit_their_sizes() -> None:
    inputs = torch.randn(20, 32), torch.randn(32, 48)
    site, _ = only_site(lambda x, w: F.relu(x.sin() @ w.cos()), *inputs)
    ways = candidates(site, site.prologues)
    assert {len(way.prologues) for way in ways} == {0, 1, 2}
    assert all(way.tile.x <= 32 and way.tile.y <= 64 for way in ways)


@pytest.mark.parametrize(
    ("m", "n", "k", "count"),
    [(16, 4096, 4096, 2), (2048, 3072, 768, 6), (25_088, 512, 128, 4), (100_352, 64, 64, 2),
     (401_408, 64, 21, 3), (1568, 512, 2048, 5)],
)  # fmt: skip
def test_few_candidates_are_tried(m: int, n: int, k: int, count: int) -> None:
    gpu = torch.device("cuda", 0)
    x, w = (FakeTensor(torch.empty(size, device="meta"), gpu) for size in ((m, k), (k, n)))
    site, _ = only_site(lambda x, w: F.relu(x @ w), x, w)
    assert len(candidates(site, ())) == count


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
            compiling.compile_graph(record(program, x), (), target=TRITON)
        assert not log.counts["templates"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="where nothing can be measured")
def test_without_a_gpu_the_library_multiplies() -> None:
    x = torch.randn(16, 16)
    with stages.collect() as log:
        fast = minitorch2.compile(lambda x: (x @ x).relu(), mode="max-autotune-no-cudagraphs",
                                  backend="triton")  # fmt: skip
        torch.testing.assert_close(fast(x), (x @ x).relu())
    assert not log.counts["templates"] and not log.counts["autotune_candidates"]


@pytest.mark.parametrize("fastest", [0, 1, 3])
def test_the_answer_is_remembered(
    fastest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU: which way is the fastest is made up here, all else is as it would be there."""
    x, w = torch.randn(20, 32).to(DEVICE), torch.randn(32, 48).to(DEVICE)

    def milliseconds(trial: Trial) -> list[float]:
        runs = trial.runs()
        for steps in runs:
            for step in steps:
                step(0)
        return [float(number != fastest) for number in range(len(runs))]

    monkeypatch.setattr(autotune, "name_of", lambda device: "a GPU")
    monkeypatch.setattr(Trial, "milliseconds", milliseconds)
    counts = []
    with config.patch(cache_dir=str(tmp_path)):
        for _ in range(2):
            with stages.collect() as log:
                fast = minitorch2.compile(lambda x, w: F.relu(x.sin() @ w),
                    mode="max-autotune-no-cudagraphs", backend="triton")  # fmt: skip
                torch.testing.assert_close(fast(x, w), F.relu(x.sin() @ w))
            counts.append((log.counts["autotune_candidates"] > 1, log.counts["templates"]))
    assert counts == [(True, int(fastest > 0)), (False, int(fastest > 0))]


def test_equal_products_are_compiled_and_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, started = [], []

    def milliseconds(trial: Trial) -> list[float]:
        measured.append(trial.site.product.name)
        return [1.0] * (1 + len(trial.ways))

    monkeypatch.setattr(autotune, "name_of", lambda device: "a GPU")
    monkeypatch.setattr(Trial, "milliseconds", milliseconds)
    monkeypatch.setattr(Trial, "start", lambda trial: started.append(trial))
    layers = lambda x, w: (F.relu(F.relu(F.relu(F.relu(x @ w) @ w) @ w) @ w),)  # noqa: E731
    with config.patch(cache_dir=str(tmp_path)):
        check(layers, *torch.randn(2, 20, 20).to(DEVICE))
    assert len(measured) == len(started) == 2  # the first one, and those behind another one


def test_products_whose_turn_comes_late_are_left_to_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autotune, "name_of", lambda device: "a GPU")
    monkeypatch.setattr(autotune, "SECONDS", -1.0)
    with config.patch(cache_dir=str(tmp_path)), stages.collect() as log:
        text = check(lambda x: (F.relu(x @ x),), torch.randn(20, 20).to(DEVICE))
    assert "torch_mm(" in text and log.counts["autotune_skipped"] == 1


def test_without_memory_to_measure_the_library_multiplies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def milliseconds(trial: Trial) -> list[float]:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(autotune, "name_of", lambda device: "a GPU")
    monkeypatch.setattr(Trial, "milliseconds", milliseconds)
    with config.patch(cache_dir=str(tmp_path)):
        text = check(lambda x: (F.relu(x @ x),), torch.randn(20, 20).to(DEVICE))
    assert "torch_mm(" in text


def test_a_template_must_be_worth_it() -> None:
    assert autotune.best_of([1.0, 0.99, 0.98]) is None
    assert autotune.best_of([1.0, 0.99, 0.5, 0.6]) == 1
    assert autotune.best_of([1.0]) is None


@pytest.mark.gpu
def test_the_choice_is_measured_once(tmp_path: Path) -> None:
    x, w = torch.randn(2, 512, 512, device="cuda", dtype=torch.float16)
    counts = []
    with config.patch(cache_dir=str(tmp_path)):
        for _ in range(2):
            with stages.collect() as log:
                fast = minitorch2.compile(lambda x, w: F.gelu(x @ w), mode="max-autotune")
                torch.testing.assert_close(fast(x, w), F.gelu(x @ w), rtol=1e-2, atol=5e-2)
            counts.append(log.counts["autotune_candidates"])
    assert counts[0] > 1 and counts[1] == 0
