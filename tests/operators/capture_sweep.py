"""Every function of PyTorch with a sample call: captured, broken (why), or wrong.

    python -m tests.operators.capture_sweep                 all functions, and a summary
    python -m tests.operators.capture_sweep --ops add,cov   some of them

Arguments are those of PyTorch's operator database; functions that it does not know are listed at
the end. Only capture is tested: graphs run as they are, so results must be equal bit for bit.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

import minitorch2
from minitorch2 import config, stages
from tests.operators.compare import (
    UNDEFINED,
    Difference,
    assert_equal,
    function_of,
    observe,
    samples_of,
    time_limit,
)
from tests.operators.sweep import OPERATORS

NAMESPACES = {
    "torch": torch,
    "torch.nn.functional": torch.nn.functional,
    "torch.linalg": torch.linalg,
    "torch.fft": torch.fft,
    "torch.special": torch.special,
}

_CODE = re.compile(r"\[([\w-]+)\]$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """What became of one function.

    Attributes:
        name: the database's name of the operator.
        status: "captured", "break", "wrong", "error" or "no samples".
        note: codes of the breaks, or the first difference.
    """

    name: str
    status: str
    note: str = ""


def check(name: str, limit: int = 3) -> Row:
    """Compare the first samples of an operator; breaks of all of them are noted."""
    op = OPERATORS[name]
    function = function_of(op)
    dtypes = (torch.float32, torch.int64, torch.bool, torch.complex64)
    dtype = next((d for d in dtypes if d in op.dtypes), None)
    try:
        samples = [] if dtype is None else samples_of(op, dtype, limit)
    except Exception as error:  # the database's own functions fail for some dtypes
        return Row(name, "no samples", str(error)[:80])
    codes: Counter[str] = Counter()
    compared = 0
    for sample in samples:
        try:
            found = _breaks(function, sample, name in UNDEFINED)
        except Difference as difference:
            return Row(name, "wrong", " ".join(str(difference).split())[:160])
        except Exception as error:
            return Row(
                name, "error", f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
            )
        if found is not None:
            compared += 1
            codes.update(found)
    if not compared:
        return Row(name, "no samples")
    return Row(name, "break" if codes else "captured", ", ".join(sorted(codes)))


def _breaks(function: Any, sample: Any, undefined: bool) -> list[str] | None:
    """Codes of the breaks of one sample; None if eager itself raises."""

    def program(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    inputs = ((sample.input, *sample.args), sample.kwargs)
    try:
        wanted = observe(program, inputs, lambda value: value, False)
    except Exception:  # a sample that eager refuses says nothing
        return None
    compiled = minitorch2.compile(program, backend="eager")
    with stages.collect() as log, config.patch(suppress_errors=False):
        given = observe(compiled, inputs, lambda value: value, False)
    for part, left, right in zip(("result", "gradient", "argument"), given, wanted, strict=True):
        assert_equal(left, right, part, values=not undefined)
    codes = [_CODE.findall(text.split("\n", 1)[1])[0] for text in log.texts("graph_break")]
    return codes + ["frame-as-is"] * log.counts["frames_as_is"]


def sweep(names: list[str]) -> Iterator[Row]:
    """All rows; one that takes longer than a minute is an error."""
    for name in names:
        try:
            with time_limit(60):
                yield check(name)
        except TimeoutError as error:
            yield Row(name, "error", str(error))


def unknown_functions() -> list[str]:
    """Public functions of the namespaces that no row stands for."""
    known = {name.split(":")[0].removeprefix("nn.functional.") for name in OPERATORS}
    known |= {name.rpartition(".")[2] for name in known}
    return sorted(
        f"{prefix}.{name}"
        for prefix, module in NAMESPACES.items()
        for name in dir(module)
        if not name.startswith("_")
        and callable(getattr(module, name))
        and not isinstance(getattr(module, name), type)
        and name.rstrip("_") not in known
        and name not in known
    )


def main(arguments: list[str]) -> None:
    """Print a line a function and the counts."""
    parser = argparse.ArgumentParser(prog="tests.operators.capture_sweep", description=__doc__)
    parser.add_argument("--ops", help="names, separated by commas (default: all)")
    options = parser.parse_args(arguments)
    wanted = options.ops.split(",") if options.ops else list(OPERATORS)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    for row in sweep([name for name in OPERATORS if name in wanted]):
        counts[row.status] += 1
        print(f"{row.status:10} {row.name:45} {row.note}", flush=True)
    print(dict(counts))
    if not options.ops:
        print("not in the database:", *unknown_functions(), sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1:])
