"""Scripts beside eager mode and `torch.jit.script`.

    python -m benchmarks.script

Each row is one run: the ways take turns, and the ratios are of medians. The last line says whether
the bars are met: numbers as Python take at most as long as torch.jit, as machine code a twentieth;
the geometric mean of the tensor programs is at most 0.85 of torch.jit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Any, Final

import torch
from rich.console import Console
from rich.table import Table

from minitorch2 import config
from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.parse_ir import parse_graph
from minitorch2.script.runtime.executor import GraphExecutor
from minitorch2.script.tracing.trace import trace

ROUNDS: Final = 40
COLLATZ: Final = """graph(%n : int, %limit : int):
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %zero : int = prim::Constant[value=0]()
  %most : int = prim::Constant[value=9223372036854775807]()
  %false : bool = prim::Constant[value=False]()
  %a : bool = aten::ne(%n, %one)
  %go : bool = prim::If(%a)
    block0():
      %b : bool = aten::lt(%zero, %limit)
      -> (%b)
    block1():
      -> (%false)
  %last : int, %steps : int = prim::Loop(%most, %go, %n, %zero)
    block0(%i : int, %m : int, %count : int):
      %rest : int = aten::remainder(%m, %two)
      %even : bool = aten::eq(%rest, %zero)
      %next : int = prim::If(%even)
        block0():
          %half : int = aten::floordiv(%m, %two)
          -> (%half)
        block1():
          %product : int = aten::mul(%three, %m)
          %sum : int = aten::add(%product, %one)
          -> (%sum)
      %counted : int = aten::add(%count, %one)
      %c : bool = aten::ne(%next, %one)
      %again : bool = prim::If(%c)
        block0():
          %d : bool = aten::lt(%counted, %limit)
          -> (%d)
        block1():
          -> (%false)
      -> (%again, %next, %counted)
  return (%steps)
"""

CELL: Final = """graph(%x : Tensor, %hx : Tensor, %cx : Tensor, %w_ih : Tensor, %w_hh : Tensor, \
%b_ih : Tensor, %b_hh : Tensor):
  %7 : int = prim::Constant[value=4]()
  %8 : int = prim::Constant[value=1]()
  %9 : Tensor = aten::t(%w_ih)
  %10 : Tensor = aten::mm(%x, %9)
  %11 : Tensor = aten::t(%w_hh)
  %12 : Tensor = aten::mm(%hx, %11)
  %13 : Tensor = aten::add(%10, %12, %8)
  %14 : Tensor = aten::add(%13, %b_ih, %8)
  %gates : Tensor = aten::add(%14, %b_hh, %8)
  %16 : Tensor[] = aten::chunk(%gates, %7, %8)
  %17 : Tensor, %18 : Tensor, %19 : Tensor, %20 : Tensor = prim::ListUnpack(%16)
  %ingate : Tensor = aten::sigmoid(%17)
  %forgetgate : Tensor = aten::sigmoid(%18)
  %cellgate : Tensor = aten::tanh(%19)
  %outgate : Tensor = aten::sigmoid(%20)
  %25 : Tensor = aten::mul(%forgetgate, %cx)
  %26 : Tensor = aten::mul(%ingate, %cellgate)
  %cy : Tensor = aten::add(%25, %26, %8)
  %28 : Tensor = aten::tanh(%cy)
  %hy : Tensor = aten::mul(%outgate, %28)
  %30 : (Tensor, Tensor) = prim::TupleConstruct(%hy, %cy)
  return (%30)
"""


def collatz(n: int, limit: int):
    """Count the steps of a number to 1."""
    steps = 0
    while n != 1 and steps < limit:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def cell(x, hx, cx, w_ih, w_hh, b_ih, b_hh):
    """One step of an LSTM."""
    gates = x.mm(w_ih.t()) + hx.mm(w_hh.t()) + b_ih + b_hh
    ingate, forgetgate, cellgate, outgate = gates.chunk(4, 1)
    ingate = torch.sigmoid(ingate)
    forgetgate = torch.sigmoid(forgetgate)
    cellgate = torch.tanh(cellgate)
    outgate = torch.sigmoid(outgate)
    cy = (forgetgate * cx) + (ingate * cellgate)
    hy = outgate * torch.tanh(cy)
    return hy, cy


def perceptron(x, w1, b1, w2, b2):
    """Two layers and what lies between."""
    h = torch.nn.functional.gelu(torch.addmm(b1, x, w1))
    return torch.tanh(torch.addmm(b2, h, w2)) * 2.0 + 1.0


def attention(q, k, v):
    """Attention from its parts."""
    scores = torch.matmul(q, k.transpose(-2, -1)) * 0.125
    return torch.matmul(torch.softmax(scores, -1), v)


@dataclass(frozen=True)
class Program:
    """A function, its graph, and arguments."""

    name: str
    function: Callable[..., Any]
    graph: Graph
    inputs: Sequence[Any]
    trains: bool = False

    @property
    def is_scalar(self) -> bool:
        """Tell whether the program computes numbers only."""
        return isinstance(self.inputs[0], int)


def tensors(*sizes: tuple[int, ...], trains: bool) -> list[torch.Tensor]:
    """Return random tensors."""
    return [torch.randn(size).mul_(0.3).requires_grad_(trains) for size in sizes]


def programs() -> list[Program]:
    """Return what is measured."""
    found = [Program("Collatz", collatz, parse_graph(COLLATZ), (837799, 10_000))]
    for batch, hidden in ((4, 64), (64, 256)):
        sizes = [(batch, 32), *[(batch, hidden)] * 2, (4 * hidden, 32), (4 * hidden, hidden)]
        sizes += [(4 * hidden,)] * 2
        for name, function, given in (
            (f"LSTM cell {batch}x{hidden}", cell, sizes),
            (f"MLP {batch}x{hidden}", perceptron, _layers(batch, hidden)),
            (f"attention {batch}x4x32", attention, [(batch, 4, 32, 64)] * 3),
        ):
            for trains in (False, True):
                inputs = tensors(*given, trains=trains)
                example = [value.detach() for value in inputs]
                is_cell = function is cell
                traced = None if is_cell else trace(function, tuple(example), check_trace=False)
                graph = parse_graph(CELL) if traced is None else traced.graph
                found.append(Program(name, function, graph, inputs, trains))
    return found


def _layers(batch: int, hidden: int) -> list[tuple[int, ...]]:
    return [(batch, hidden), (hidden, 2 * hidden), (2 * hidden,), (2 * hidden, hidden), (hidden,)]


def once(run: Callable[..., Any], program: Program) -> float:
    """Return how long a call takes, with its backward pass if it trains."""
    start = time.perf_counter()
    result = run(*program.inputs)
    if program.trains:
        results = result if isinstance(result, tuple) else (result,)
        torch.autograd.grad([r.sum() for r in results], program.inputs)
    return time.perf_counter() - start


def medians(ways: Sequence[Callable[..., Any]], program: Program) -> list[float]:
    """Return the median time of each way; the ways take turns."""
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for way, times in zip(ways, taken, strict=True):
            times.append(once(way, program))
    return [median(times[ROUNDS // 4 :]) for times in taken]


def ours(program: Program, *, numba: bool = True) -> Callable[..., Any]:
    """Return the program run by an executor that has its plan."""
    executor = GraphExecutor(program.graph)
    with config.patch(script_numba=numba):
        for _ in range(3):
            once(lambda *inputs: executor.run(inputs), program)
    return lambda *inputs: executor.run(inputs)


def main() -> None:
    """Print the table; exit with 1 if a bar is missed."""
    shown = Table(
        "program", "", "eager, us", "torch.jit / eager", "ours / eager", "ours / torch.jit"
    )
    ratios, bars = [], []
    for program in programs():
        peer = torch.jit.script(program.function)
        rows = [("training" if program.trains else "", ours(program), 0.05)]
        if program.is_scalar:
            rows = [("Python", ours(program, numba=False), 1.0), ("Numba", rows[0][1], 0.05)]
        for note, run, bar in rows:
            eager, jit, mine = medians([program.function, peer, run], program)
            numbers = [f"{a / b:.2f}" for a, b in ((jit, eager), (mine, eager), (mine, jit))]
            shown.add_row(program.name, note, f"{eager * 1e6:.0f}", *numbers)
            if program.is_scalar:
                bars.append(mine / jit <= bar)
            else:
                ratios.append(mine / jit)
    mean = geometric_mean(ratios)
    Console().print(shown, f"tensor programs, geometric mean: {mean:.2f} of torch.jit")
    sys.exit(0 if mean <= 0.85 and all(bars) else 1)


if __name__ == "__main__":
    main()
