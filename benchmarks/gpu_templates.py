"""Products and convolutions on a GPU: the library and kernels around it against templates.

    python -m benchmarks.gpu_templates [--only TEXT] [--verbose] [--out FILE]

Each case is timed in a recorded graph by the autotuner's own measurement: kernels before and after
with the library's call between them, and every template, with and without its prologues. The result
of the choice is compared with float32; it is right if it is as near as eager float16 is, within a
factor of two.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from minitorch2 import config
from minitorch2.codegen.compile_graph import GraphCompiler
from minitorch2.codegen.triton import CAPABILITIES
from minitorch2.codegen.triton.target import TRITON
from minitorch2.codegen.triton.templates import autotune
from minitorch2.codegen.triton.templates.autotune import Trials, describe
from minitorch2.codegen.triton.templates.sites import Site, find_sites
from minitorch2.codegen.triton.templates.template import TemplateNode
from minitorch2.codegen.triton.templates.trial import Trial
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.scheduler import schedule
from tests.unit.codegen.aten_graph import call_inputs, record

DEVICE = "cuda"
HALF = torch.float16


@dataclass(frozen=True)
class Case:
    """A program and the shapes of its inputs; four dimensions are images, channels last."""

    name: str
    program: Callable[..., Tensor]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...] = ()

    def inputs(self) -> list[Tensor]:
        """Random inputs, small enough that float16 holds all sums."""
        made = []
        for i, shape in enumerate(self.shapes):
            dtype = self.dtypes[i] if i < len(self.dtypes) else HALF
            format_ = torch.channels_last if len(shape) == 4 else torch.contiguous_format
            if dtype == torch.int8:
                made.append(torch.randint(-128, 128, shape, device=DEVICE, dtype=dtype))
            else:
                x = torch.randn(shape, device=DEVICE, dtype=dtype) / 8
                made.append(x.contiguous(memory_format=format_))
        return made


def _convolution(size: int, k: int, n: int, window: int = 1, step: int = 1,
                 residual: bool = False, images: int = 32) -> Case:  # fmt: skip
    """A layer of ResNet-50 with its normalization folded in: bias and relu, maybe a residual."""
    out = size // step

    def program(x: Tensor, w: Tensor, b: Tensor, *r: Tensor) -> Tensor:
        y = F.conv2d(x, w, stride=step, padding=window // 2) + b.view(-1, 1, 1)
        return F.relu(y + r[0] if r else y)

    name = f"{window}x{window} {k}>{n} at {size}{f' /{step}' if step > 1 else ''}"
    shapes = [(images, k, size, size), (n, k, window, window), (n,)]
    return Case(name + " + residual" * residual, program,
                (*shapes, *[(images, n, out, out)] * residual))  # fmt: skip


def _gelu(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> Tensor:
    return F.gelu(F.linear(x, w, b)) + r


def _dequantized(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    return F.linear(x, w.to(x.dtype) * scale.view(-1, 1))


def _gated(gate: Tensor, up: Tensor, w: Tensor) -> Tensor:
    return F.linear(F.silu(gate) * up, w)


def _linear(rows: int, inner: int, columns: int) -> tuple[tuple[int, ...], ...]:
    return ((rows, inner), (columns, inner))


INT8 = (HALF, torch.int8)
CASES = [
    _convolution(224, 3, 64, 7, 2),
    _convolution(56, 64, 64), _convolution(56, 64, 64, 3),
    _convolution(56, 64, 256, residual=True), _convolution(56, 256, 64),
    _convolution(56, 256, 128), _convolution(56, 128, 128, 3, 2),
    _convolution(28, 128, 512, residual=True), _convolution(28, 512, 128),
    _convolution(28, 128, 128, 3),
    _convolution(28, 256, 256, 3, 2), _convolution(14, 256, 1024, residual=True),
    _convolution(14, 1024, 256), _convolution(14, 256, 256, 3),
    _convolution(7, 512, 2048, residual=True), _convolution(7, 2048, 512),
    _convolution(7, 512, 512, 3),
    Case("gelu(linear) + residual 2048", _gelu, (*_linear(2048, 768, 3072), (3072,), (2048, 3072))),
    Case("gelu(linear) + residual 8192", _gelu,
         (*_linear(8192, 1024, 4096), (4096,), (8192, 4096))),
    Case("int8 linear 16 rows", _dequantized, (*_linear(16, 4096, 4096), (4096,)), INT8),
    Case("int8 linear 2048 rows", _dequantized, (*_linear(2048, 4096, 4096), (4096,)), INT8),
    Case("silu(gate) * up 2048", _gated, ((2048, 2816), *_linear(2048, 2816, 1024))),
    Case("silu(gate) * up 16", _gated, ((16, 11008), *_linear(16, 11008, 4096))),
]  # fmt: skip


@dataclass
class Result:
    """Milliseconds by the library, and by the best template; which that is; the relative errors
    of the choice and of eager; whether the choice was the template."""

    case: str
    library: float
    template: float
    tile: str
    chosen: str
    error: float
    eager_error: float

    def row(self) -> str:
        """A line of the table."""
        right = "" if self.error <= 2 * self.eager_error + 1e-4 else " WRONG"
        return (
            f"| {self.case} | {self.library:.4f} | {self.template:.4f} | {self.tile} | "
            f"{self.chosen} | {self.error:.1e}{right} |"
        )


class Prepared:
    """A case whose kernels compile in the background."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.inputs = case.inputs()
        self.gm = record(case.program, *self.inputs)
        lowered = lower_graph(self.gm)
        (site,) = find_sites(schedule(lowered, CAPABILITIES), lowered.output_names)
        self.trial = Trial(site, lowered.by_name(), {}, DEVICE)
        self.trial.start()

    def measure(self, verbose: bool) -> Result:
        """Time all ways, and compare what the best one gives with float32."""
        library, *others = times = self.trial.milliseconds()
        if verbose:
            print(describe(self.trial, times))
        number = min(range(len(others)), key=others.__getitem__)
        best = self.trial.ways[number]
        errors = self.errors(best)
        chosen = "library" if autotune.best_of(times) is None else "template"
        return Result(self.case.name, library, others[number], str(best), chosen, *errors)

    def errors(self, best: TemplateNode) -> tuple[float, float]:
        """Of the template, and of eager, against float32."""
        with (
            config.patch(max_autotune=True),
            mock.patch.object(autotune, "choose_by_measuring", _same_way(best)),
        ):
            call = GraphCompiler(TRITON).compile(lower_graph(self.gm)).call
        (got,) = call(call_inputs(self.gm, *self.inputs))
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            exact = [t.float() if t.is_floating_point() else t for t in self.inputs]
            expected = self.case.program(*exact)
        result = self.case.program(*self.inputs)
        return _distance(got, expected), _distance(result, expected)


def _distance(got: Tensor, expected: Tensor) -> float:
    return float((got.float() - expected).norm() / expected.norm())


def _same_way(best: TemplateNode) -> Callable[..., TemplateNode]:
    """A chooser that takes a tile and as many prologues in another lowering of a graph."""
    names = {prologue.name for prologue in best.prologues}

    def choose(site: Site, trials: Trials) -> TemplateNode:
        return TemplateNode(site, best.tile, [p for p in site.prologues if p.name in names])

    return choose


HEAD = """\
| case | library and kernels, ms | best template, ms | its tile | chosen | error |
| --- | ---: | ---: | --- | --- | ---: |"""


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="cases that contain this text")
    parser.add_argument("--verbose", action="store_true", help="the time of every template, too")
    parser.add_argument("--out", help="a file for the results as JSON")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    print(HEAD)
    results = []
    for prepared in [Prepared(case) for case in CASES if options.only in case.name]:
        results.append(prepared.measure(options.verbose))
        print(results[-1].row(), flush=True)
    if options.out:
        Path(options.out).write_text(json.dumps([asdict(r) for r in results], indent=1))


if __name__ == "__main__":
    main()
