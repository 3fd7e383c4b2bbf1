"""Seconds to compile a program and its gradients as it grows: they should grow as its nodes do.

    python -m benchmarks.growth --peer --sizes 500 1000 2000 5000
    python -m benchmarks.growth --forward                without gradients
    python -m benchmarks.growth --backend aot_eager      capture, autograd and passes alone

Each row has a fresh program. Seconds are those of the processor, of this process and of the
compilers that it starts, for forward's first call and the first backward. Each is measured in a
process of its own, with empty caches on disk but for what a program of 50 nodes has put there.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from multiprocessing import TimeoutError, get_context
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor

import minitorch2
from benchmarks.compilers import OURS, PEER, forget

Program: TypeAlias = tuple[Callable[..., Tensor], list[Tensor]]


def chain(nodes: int) -> Program:
    """One operator behind the other."""

    def run(x: Tensor) -> Tensor:
        for _ in range(nodes // 2):
            x = torch.sin(x) * 1.01
        return x

    return run, [torch.randn(64, requires_grad=True)]


def fan(nodes: int) -> Program:
    """Many results of one tensor, added up."""

    def run(x: Tensor) -> Tensor:
        return sum((torch.sin(x * (0.01 * i)) for i in range(nodes // 3)), torch.zeros(64))

    return run, [torch.randn(64, requires_grad=True)]


def grid(nodes: int) -> Program:
    """Sixteen columns; each value is of two in the row before, which have two readers each."""

    def run(x: Tensor) -> Tensor:
        row = [x * i for i in range(1, 17)]
        for _ in range(nodes // 32 - 1):
            row = [torch.tanh(a + b) for a, b in zip(row, row[1:] + row[:1], strict=True)]
        return sum(row, torch.zeros(64))

    return run, [torch.randn(64, requires_grad=True)]


def blocks(nodes: int) -> Program:
    """Layers with a parameter each: a norm, a product, an activation, a residual sum."""

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        for weight in weights:
            x = x + F.gelu(F.layer_norm(x, (16,)) @ weight) * 0.5
            x = x - x.mean(-1, keepdim=True) * 0.1
        return x

    weights = [torch.randn(16, 16, requires_grad=True) for _ in range(nodes // 8)]
    return run, [torch.randn(4, 16, requires_grad=True), *weights]


SHAPES: dict[str, Callable[[int], Program]] = {
    "chain": chain, "fan": fan, "grid": grid, "blocks": blocks,
}  # fmt: skip


def seconds(
    make: Callable[[int], Program], nodes: int, compile: Callable[..., Any], gradients: bool = True
) -> float:
    """Compile a program of so many nodes, and its gradients, by calling both once."""
    function, inputs = make(nodes)
    forget([OURS, PEER])
    begin = processor_time()
    with torch.set_grad_enabled(gradients):
        result = compile(function)(*inputs)
    if gradients:
        result.sum().backward()
    return processor_time() - begin


def processor_time() -> float:
    """Seconds of the processor that this process and those that it waited for have taken."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measured(shape: str, nodes: int, name: str, backend: str, gradients: bool) -> float:
    """Seconds in this process, which has compiled nothing before but the shape with 50 nodes."""
    peer = {"numba": "inductor"}.get(backend, backend)
    by_name: dict[str, Callable[..., Any]] = {
        OURS: lambda f: minitorch2.compile(f, backend=backend),
        PEER: lambda f: torch.compile(f, backend=peer),
    }
    return [seconds(SHAPES[shape], n, by_name[name], gradients) for n in (50, nodes)][-1]


def measured_apart(limit: float, *arguments: Any) -> str:
    """What `measured` gives in a new process with empty caches, or why there is nothing."""
    with TemporaryDirectory() as folder:
        for compiler in ("MINITORCH2", "TORCHINDUCTOR"):
            os.environ[f"{compiler}_CACHE_DIR"] = folder
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no worker whose time is not counted
        with get_context("spawn").Pool(1) as pool:
            try:
                return f"{pool.apply_async(measured, arguments).get(limit):.1f} s"
            except TimeoutError:
                return f"more than {limit:.0f} s"
            except Exception as error:  # a row of the table
                return type(error).__name__


def main() -> None:
    """Print a table: a row for each shape and size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000, 5000])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--backend", default="numba")
    parser.add_argument("--forward", action="store_true", help="without gradients")
    parser.add_argument("--peer", action="store_true", help="torch.compile in the same run")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that a row may take")
    options = parser.parse_args()
    names = [OURS, PEER] if options.peer else [OURS]
    table = Table("program", "nodes", *names)
    for shape in options.shapes:
        for nodes in options.sizes:
            rest = options.backend, not options.forward
            spent = [measured_apart(options.limit, shape, nodes, name, *rest) for name in names]
            table.add_row(shape, str(nodes), *spent)
    Console().print(table)


if __name__ == "__main__":
    main()
