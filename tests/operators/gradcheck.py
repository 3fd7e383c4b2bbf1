"""Gradients of compiled operators against finite differences, by ``torch.autograd.gradcheck``.

    python -m tests.operators.gradcheck                            every differentiable operator
    python -m tests.operators.gradcheck --second --ops add,conv2d  second derivatives, of some

Samples are PyTorch's operator database's in float64. What eager PyTorch fails itself is skipped.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.gradcheck import GradcheckError
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_unflatten

import minitorch2
from minitorch2 import config
from tests.operators.compare import Outcome, copied, function_of, samples_of, time_limit
from tests.operators.sweep import OPERATORS, select

BACKENDS = ("aot_eager_decomp_partition", "numba")
MAX_ELEMENTS = 1000
STATUSES = ("pass", "wrong", "error", "skipped")


def check(op: OpInfo, backend: str, limit: int, second: bool = False, seconds: int = 60) -> Outcome:
    """Check the first small samples; the first that is wrong or fails decides."""
    outcome = Outcome("skipped")
    try:
        with time_limit(seconds):
            for sample in _samples(op, limit):
                outcome.samples += _check_sample(op, sample, backend, second)
    except GradcheckError as error:
        return Outcome("wrong", " ".join(str(error).split())[:200], outcome.samples)
    except Exception as error:
        note = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return Outcome("error", note, outcome.samples)
    return Outcome("pass", "", outcome.samples) if outcome.samples else outcome


def _samples(op: OpInfo, limit: int) -> list[SampleInput]:
    try:
        found = samples_of(op, torch.float64, 20, backward=True)
    except Exception:  # the database's own functions fail for some dtypes
        return []
    return [sample for sample in found if 0 < _elements(sample) <= MAX_ELEMENTS][:limit]


def _elements(sample: SampleInput) -> int:
    leaves, _ = tree_flatten((sample.input, sample.args, sample.kwargs))
    return sum(t.numel() for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad)


def _check_sample(op: OpInfo, sample: SampleInput, backend: str, second: bool) -> bool:
    """Whether the sample says anything; raises GradcheckError if a gradient is wrong."""
    function = function_of(op)

    def operator(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    test = gradgradcheck if second else gradcheck
    options = {"fast_mode": True, "nondet_tol": op.gradcheck_nondet_tol}
    try:
        test(*_as_function(op, operator, sample), **options)
    except Exception:  # a sample that eager fails says nothing
        return False
    fast = minitorch2.compile(operator, backend=backend)
    with config.patch(suppress_errors=False):
        test(*_as_function(op, fast, sample), **options)
    return True


def _as_function(
    op: OpInfo, operator: Callable[..., Any], sample: SampleInput
) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    """The call as a function of its differentiable tensors, and those tensors."""
    leaves, structure = tree_flatten((sample.input, sample.args, sample.kwargs))
    alive: list[Any] = []  # second derivatives need the inputs, which a wrapper may have made

    def keeping(*args: Any, **kwargs: Any) -> Any:
        alive.append((args, kwargs))
        return operator(*args, **kwargs)

    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.requires_grad]

    def call(*tensors: torch.Tensor) -> Any:
        values = dict(zip(places, tensors, strict=True))
        given = [values.get(i, leaf) for i, leaf in enumerate(leaves)]
        first, args, kwargs = tree_unflatten(given, structure)
        torch.manual_seed(0)
        result = op.gradcheck_wrapper(keeping, first, *args, **kwargs)
        return sample.output_process_fn_grad(result) if sample.output_process_fn_grad else result

    return call, tuple(copied(leaves[i]) for i in places)


def main(arguments: list[str]) -> int:
    """Print what is not right and the counts; 1 if there is any."""
    parser = argparse.ArgumentParser(prog="tests.operators.gradcheck", description=__doc__)
    parser.add_argument("--ops", help="names, separated by commas (default: all)")
    parser.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0])
    parser.add_argument("--limit", type=int, default=2, help="samples per operator")
    parser.add_argument("--second", action="store_true", help="second derivatives")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    for name in select(options.ops):
        op = OPERATORS[name]
        supported = op.supports_gradgrad if options.second else op.supports_autograd
        if not supported or torch.float64 not in op.supported_backward_dtypes("cpu"):
            continue
        outcome = check(op, options.backend, options.limit, options.second)
        counts[outcome.status] += 1
        if outcome.status in ("wrong", "error"):
            print(f"{outcome.status:6} {name}: {outcome.note}", flush=True)
    print(", ".join(f"{counts[status]} {status}" for status in STATUSES))
    return int(counts["wrong"] + counts["error"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
