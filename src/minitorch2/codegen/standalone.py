"""A wrapper's file is a program: run alone, it makes random inputs and measures its own calls.

What a graph was given is gone when its file is run, so tensors are random (integers are 0, since
they may be indices), and a size that varies is 8.
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
from minitorch2.graph.symbols.floats import value_of
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.expressions import Expr

SIZE = 8
ROUNDS = 20
SECONDS_A_ROUND = 0.02


def main_text(inputs: Sequence[Any], namespace: Mapping[str, object]) -> str:
    """The end of a wrapper's file: constants and inputs, if it is run by itself."""
    lines = ["", "", 'if __name__ == "__main__":']
    lines.append("    from minitorch2.codegen.standalone import measure, random_tensor")
    lines += [f"    {name} = {_constant(value)}" for name, value in namespace.items()]
    made = "".join(f"        {_example(value)},\n" for value in inputs)
    lines.append(f"    measure(call, lambda: [\n{made}    ])")
    return "\n".join(lines) + "\n"


def _constant(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return _random(value.shape, value.stride(), value.dtype, value.device)
    return f"None  # {type(value).__name__}: only the process that compiled this has it"


def _example(value: object) -> str:
    if isinstance(value, Buffer):
        layout = value.fixed_layout()
        return _random(layout.size, layout.stride, layout.dtype, layout.device)
    return _number(value) if isinstance(value, sympy.Basic) else repr(value)


def _random(
    size: Sequence[Expr], stride: Sequence[Expr], dtype: torch.dtype, device: torch.device
) -> str:
    sizes, strides = (f"({''.join(f'{_number(n)}, ' for n in each)})" for each in (size, stride))
    return f"random_tensor({sizes}, {strides}, {dtype}, {str(device)!r})"


def _number(expr: Expr) -> str:
    if isinstance(expr, sympy.Basic):
        expr = value_of(expr, dict.fromkeys(expr.free_symbols, SIZE))
    return print_expr(expr)


def random_tensor(
    size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, device: str
) -> torch.Tensor:
    """Normal numbers, or zeros of a dtype that is no float's, with these strides."""
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
