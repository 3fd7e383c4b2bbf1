"""Seconds to compile a program and its gradients as it grows: they should grow as its nodes do.

    python -m benchmarks.growth --peer --sizes 500 1000 2000 5000
    python -m benchmarks.growth --backend aot_eager      capture, autograd and passes alone

Each row has a fresh program. Seconds are those of the processor, of forward's first call and of the
first backward; kernels are compiled, but for those that are in the cache of kernels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time
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


def blocks(nodes: int) -> Program:
    """Layers with a parameter each: a norm, a product, an activation, a residual sum."""

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        for weight in weights:
            x = x + F.gelu(F.layer_norm(x, (16,)) @ weight) * 0.5
            x = x - x.mean(-1, keepdim=True) * 0.1
        return x

    weights = [torch.randn(16, 16, requires_grad=True) for _ in range(nodes // 8)]
    return run, [torch.randn(4, 16, requires_grad=True), *weights]


SHAPES: dict[str, Callable[[int], Program]] = {"chain": chain, "fan": fan, "blocks": blocks}


def seconds(make: Callable[[int], Program], nodes: int, compile: Callable[..., Any]) -> float:
    """Compile a program of so many nodes, and its gradients, by calling both once."""
    function, inputs = make(nodes)
    forget([OURS, PEER])
    begin = process_time()
    compile(function)(*inputs).sum().backward()
    return process_time() - begin


def main() -> None:
    """Print a table: a row for each shape and size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000, 5000])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--backend", default="numba")
    parser.add_argument("--peer", action="store_true", help="torch.compile in the same run")
    options = parser.parse_args()
    chosen: dict[str, Callable[..., Any]] = {
        OURS: lambda f: minitorch2.compile(f, backend=options.backend)
    }
    if options.peer:
        peer = {"numba": "inductor"}.get(options.backend, options.backend)
        chosen[PEER] = lambda f: torch.compile(f, backend=peer)
    table = Table("program", "nodes", *chosen)
    for shape in options.shapes:
        seconds(SHAPES[shape], 50, chosen[OURS])  # what is imported and made once is no part of it
        for nodes in options.sizes:
            spent = [seconds(SHAPES[shape], nodes, each) for each in chosen.values()]
            table.add_row(shape, str(nodes), *(f"{each:.2f} s" for each in spent))
    Console().print(table)


if __name__ == "__main__":
    main()
