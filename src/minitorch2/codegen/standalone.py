"""A wrapper's file is a program: run alone, it makes random inputs and measures its own calls.

The original inputs are gone when a wrapper's file is run. So tensors are random (integers are 0,
since they may be indices), and a size that varies is 8.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import sympy
import torch

from minitorch2.codegen.common import print_expr
from minitorch2.codegen.spelling import UnspellableError, definitions
from minitorch2.errors import BackendError
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.symbols.floats import value_of
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.expressions import Expr

SIZE = 8
ROUNDS = 20
SECONDS_A_ROUND = 0.02


def main_text(
    inputs: Sequence[Any],
    namespace: Mapping[str, object],
    graphs: Mapping[GraphModule, str] | None = None,
) -> str:
    """Return the end of a wrapper's file: constants and inputs, if it is run by itself.

    Args:
        graphs: the text of each compiled graph that the constants hold.
    """
    lines = ["measure(call, lambda: [", *(f"    {_example(value)}," for value in inputs), "])"]
    for name, value in namespace.items():
        lines[:0] = _constant(name, value, graphs or {})
    lines.insert(0, "from minitorch2.codegen.standalone import measure, missing, random_tensor")
    return "\n".join(["", "", 'if __name__ == "__main__":', *(f"    {line}" for line in lines), ""])


def _constant(name: str, value: object, graphs: Mapping[GraphModule, str]) -> list[str]:
    if isinstance(value, torch.Tensor):
        return [f"{name} = {_random(value.shape, value.stride(), value.dtype, value.device)}"]
    try:
        return definitions({name: value}, graphs, in_block=True).splitlines()
    except UnspellableError as reason:
        return [f"{name} = missing({str(reason)!r})"]


def _example(value: object) -> str:
    if isinstance(value, Buffer):
        layout = value.fixed_layout()
        return _random(layout.size, layout.stride, layout.dtype, layout.device)
    return number(value) if isinstance(value, sympy.Basic) else repr(value)


def _random(
    size: Sequence[Expr], stride: Sequence[Expr], dtype: torch.dtype, device: torch.device
) -> str:
    sizes, strides = (f"({''.join(f'{number(n)}, ' for n in each)})" for each in (size, stride))
    return f"random_tensor({sizes}, {strides}, {dtype}, {str(device)!r})"


def number(expr: Expr) -> str:
    """Print a size; one that varies is `SIZE`."""
    if isinstance(expr, sympy.Basic):
        expr = value_of(expr, dict.fromkeys(expr.free_symbols, SIZE))
    return print_expr(expr)


def missing(reason: str) -> Callable[..., Any]:
    """Stand in for a function that exists only in the process that compiled the graph.

    Raises:
        BackendError: it is called.
    """

    def call(*args: object, **kwargs: object) -> None:
        raise BackendError(
            f"this file cannot run alone: {reason}",
            code="not-alone", fix="give the function a name that an import finds",
        )  # fmt: skip

    return call


def random_tensor(
    size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, device: str
) -> torch.Tensor:
    """Return normal numbers, or zeros if `dtype` is not a float's, with these strides."""
    tensor = torch.empty_strided(size, stride, dtype=dtype, device=device)
    return tensor.normal_() if dtype.is_floating_point else tensor.zero_()


def measure(call: Callable[[list[Any]], list[Any]], make: Callable[[], list[Any]]) -> None:
    """Call the compiled graph for a second and print the microseconds of a call."""
    parser = argparse.ArgumentParser(description="Measure the calls of one compiled graph.")
    parser.add_argument("--profile", action="store_true", help="PyTorch's profile of ten calls")
    options = parser.parse_args()
    inputs = make()
    with torch.no_grad():
        seconds = [_seconds_a_call(call, inputs) for _ in range(ROUNDS)]
        typical, best = median(seconds) * 1e6, min(seconds) * 1e6
        sys.stdout.write(f"{typical:.1f} us a call (best {best:.1f} us)\n")
        if options.profile:
            with torch.profiler.profile() as profile:
                for _ in range(10):
                    call([*inputs])
            table = profile.key_averages().table(sort_by="cpu_time_total", row_limit=20)
            sys.stdout.write(str(table))


def _seconds_a_call(call: Callable[[list[Any]], list[Any]], inputs: list[Any]) -> float:
    start = perf_counter()
    turns = 0
    while perf_counter() - start < SECONDS_A_ROUND:
        call([*inputs])
        turns += 1
    if inputs and isinstance(inputs[0], torch.Tensor) and inputs[0].is_cuda:
        torch.cuda.synchronize()
    return (perf_counter() - start) / turns
