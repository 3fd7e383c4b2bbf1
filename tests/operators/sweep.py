"""PyTorch's operator database through the compiler: which operators are right, wrong or fail.

    python -m tests.operators.sweep --dtypes float32,int64 --limit 4
    python -m tests.operators.sweep --backward --backend numba --ops add,softmax,nn.functional.gelu
    python -m tests.operators.sweep --backend triton --ops view_dtype --dtypes float16 --limit 20
    python -m tests.operators.sweep --backend triton --device cuda --shard 0/16

The default backend runs loop bodies with NumPy; `numba` and `triton` run the kernels that users
get. Triton's are interpreted where there is no GPU. Operators that the database lacks are in
`added`. The worker runs in a process of its own: if it dies, its operator is an error and another
goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo

from tests.operators.added import ADDED
from tests.operators.compare import BACKENDS, Outcome, check_operator

STATUSES = ("pass", "fallback", "strides", "wrong", "error", "skipped")


def name_of(op: OpInfo) -> str:
    """`linalg.norm` or, for a variant of its samples, `linalg.norm:subgradients_at_zero`."""
    return f"{op.name}:{op.variant_test_name}" if op.variant_test_name else op.name


OPERATORS: dict[str, OpInfo] = {
    name_of(op): op
    for op in (*op_db, *ADDED)
    if not op.name.startswith(("_refs.", "sparse.", "masked.")) and "sparse" not in op.name
}


@dataclass(frozen=True)
class Row:
    """One line of the report."""

    operator: str
    dtype: str
    outcome: Outcome


def select(names: str | None) -> list[str]:
    """Operators by a comma-separated list of names; a name stands for all of its variants."""
    if not names:
        return list(OPERATORS)
    wanted = set(names.split(","))
    return [name for name in OPERATORS if name in wanted or name.split(":")[0] in wanted]


def run_worker(options: argparse.Namespace, names: list[str]) -> None:
    """Check operators in order, one line of JSON each before and after."""
    torch.set_num_threads(1)
    for name in names:
        for dtype_name in options.dtypes.split(","):
            dtype, op = getattr(torch, dtype_name), OPERATORS[name]
            supported = _supported(op, options)
            if dtype not in supported or (options.backward and not op.supports_autograd):
                continue
            print(json.dumps([name, dtype_name]), flush=True)
            outcome = check_operator(
                op, dtype, options.backend, options.limit, options.backward, options.seconds,
                options.device,
            )  # fmt: skip
            fields = (outcome.status, outcome.note, outcome.samples)
            print(json.dumps([name, dtype_name, *fields]), flush=True)


def _supported(op: OpInfo, options: argparse.Namespace) -> set[torch.dtype]:
    kinds = op.supported_backward_dtypes if options.backward else op.supported_dtypes
    return set(kinds(options.device))


def sweep(arguments: list[str], names: list[str]) -> Iterator[Row]:
    """Rows as workers report them; a worker that dies leaves a row that says so."""
    while names:
        command = [sys.executable, "-m", "tests.operators.sweep", *arguments, "--worker"]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(json.dumps(names))
        worker.stdin.close()
        begun: list[str] | None = None
        for line in worker.stdout:
            if not line.startswith('["'):
                continue
            report = json.loads(line)
            begun = report if len(report) == 2 else None
            if begun is None:
                yield Row(report[0], report[1], Outcome(*report[2:]))
        if worker.wait() == 0 or begun is None:
            return
        yield Row(*begun, Outcome("error", f"the process died with status {worker.returncode}"))
        names = names[names.index(begun[0]) + 1 :]


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="tests.operators.sweep", description=__doc__)
    parser.add_argument("--ops", help="names, separated by commas (default: all)")
    parser.add_argument("--dtypes", default="float32", help="names, separated by commas")
    parser.add_argument("--backend", choices=BACKENDS, default="interpret")
    parser.add_argument("--backward", action="store_true", help="compare gradients too")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--shard", default="0/1", metavar="I/N", help="every N-th operator")
    parser.add_argument("--limit", type=int, default=4, help="samples per operator")
    parser.add_argument("--seconds", type=int, default=120, help="time per operator and dtype")
    parser.add_argument("--all", action="store_true", help="list what passes, too")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run and report; 1 if anything is wrong or fails."""
    options = parse(arguments)
    if options.worker:
        run_worker(options, json.load(sys.stdin))
        return 0
    if not torch.cuda.is_available():  # Triton reads it when the worker imports it
        os.environ.setdefault("TRITON_INTERPRET", "1")
    totals: dict[str, Counter[str]] = {}
    first, step = map(int, options.shard.split("/"))
    for row in sweep(arguments, select(options.ops)[first::step]):
        totals.setdefault(row.dtype, Counter())[row.outcome.status] += 1
        if options.all or row.outcome.status in ("strides", "wrong", "error"):
            print(f"{row.outcome.status:8} {row.operator} {row.dtype}: {row.outcome.note}",
                  flush=True)  # fmt: skip
    for dtype, counts in totals.items():
        print(f"{dtype:10}", ", ".join(f"{counts[status]} {status}" for status in STATUSES))
    return int(any(counts["wrong"] or counts["error"] for counts in totals.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
