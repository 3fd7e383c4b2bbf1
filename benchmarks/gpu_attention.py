"""Attention that a program writes by hand, on a GPU: eager, torch.compile, libraries, and ours.

    python -m benchmarks.gpu_attention [--out FILE]

Each case is `softmax(f(q @ k.T * scale)) @ v` in bfloat16, forward, for 4 batches of 16 heads of
2,048 positions and 64 elements. `flex_attention` runs under torch.compile. PyTorch's
`scaled_dot_product_attention` has two of the cases. Times are medians of `do_bench`; the error is
the norm of the difference from float32, as a part of the norm, and must be within twice eager's.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from triton.testing import do_bench

import minitorch2

LENGTH, WINDOW, CAP = 2048, 256, 20.0
SHAPE = (4, 16, LENGTH, 64)
Program = Callable[[Tensor, Tensor, Tensor], Tensor]


def apart(scores: Tensor) -> Tensor:
    """How far each row is behind each column."""
    rows, columns = (torch.arange(n, device=scores.device) for n in scores.shape[-2:])
    return rows[:, None] - columns


def causal(scores: Tensor) -> Tensor:
    return scores.masked_fill(apart(scores) < 0, -math.inf)


def alibi(scores: Tensor) -> Tensor:
    slopes = 2.0 ** (-torch.arange(1, 17, device=scores.device) / 2)
    return causal(scores - (slopes[:, None, None] * apart(scores)).to(scores.dtype))


SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "full": lambda scores: scores,
    "causal": causal,
    "ALiBi, causal": alibi,
    "soft cap, causal": lambda scores: causal(CAP * torch.tanh(scores / CAP)),
    "window of 256": lambda scores: causal(scores).masked_fill(apart(scores) > WINDOW, -math.inf),
}
LIBRARY: dict[str, Program] = {
    "full": F.scaled_dot_product_attention,
    "causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
}
CHANGES = {
    "ALiBi, causal": lambda score, b, h, q, k: score - 2.0 ** (-(h + 1) / 2) * (q - k),
    "soft cap, causal": lambda score, b, h, q, k: CAP * torch.tanh(score / CAP),
}


def by_hand(name: str) -> Program:
    """The program of a case."""

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = SCORES[name](q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5)
        return scores.softmax(-1) @ v

    return program


def flexible(name: str) -> Program:
    """The case with `flex_attention`, which is told the change of a score and the mask."""

    def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q >= k) & (q - k <= WINDOW) if name.startswith("window") else q >= k

    mask = None if name == "full" else create_block_mask(sees, None, None, LENGTH, LENGTH)
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda q, k, v: compiled(q, k, v, score_mod=CHANGES.get(name), block_mask=mask)


def error(result: Tensor, exact: Tensor) -> float:
    """The norm of the difference as a part of the norm."""
    return ((result.float() - exact).norm() / exact.norm()).item()


def measure(name: str) -> dict[str, object]:
    """Milliseconds of a case by each way; the seconds of our first call, and the errors."""
    program = by_hand(name)
    q, k, v = (torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    exact = program(q.float(), k.float(), v.float())
    start = time.perf_counter()
    ours = minitorch2.compile(program)
    result = ours(q, k, v)
    torch.cuda.synchronize()
    row: dict[str, object] = {"case": name, "first call": time.perf_counter() - start}
    row["errors"] = [error(found, exact) for found in (program(q, k, v), result)]
    ways = {"eager": program, "ours": ours, "library": LIBRARY.get(name)}
    ways |= {"flex_attention": flexible(name), "torch.compile": torch.compile(program)}
    for way, function in ways.items():
        row[way] = None if function is None else float(
            do_bench(lambda f=function: f(q, k, v), warmup=50, rep=200, return_mode="median")
        )  # fmt: skip
    return row


def main() -> None:
    """Measure and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", help="a file for the rows as JSON, written after each case")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    rows = []
    with torch.no_grad():
        for name in SCORES:
            rows.append(measure(name))
            print(rows[-1], flush=True)
            if options.out:
                Path(options.out).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
