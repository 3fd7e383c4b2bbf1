"""Every distribution and every method, every pair with a divergence: graphs, and differences.

    python -m tests.unit.bytecode.torch_values.sweep_distributions [--only StudentT]

Prints what is not one graph or not eager's result, gradient and random state, then the totals.
Exits with 1 if a result differs.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import distributions as D
from torch.distributions.kl import _KL_REGISTRY
from torch.testing import assert_close

import minitorch2
from minitorch2 import config, stages
from tests.unit.bytecode.torch_values.test_distributions import MAKERS

Make = Callable[[torch.Tensor], D.Distribution]
Program = Callable[[torch.Tensor], Any]

METHODS: dict[str, Callable[[D.Distribution], Any]] = {
    "sample": lambda d: d.sample((2,)),
    "rsample": lambda d: d.rsample((2,)),
    "log_prob": lambda d: d.log_prob(d.sample()),
    "entropy": lambda d: d.entropy(),
    "perplexity": lambda d: d.perplexity(),
    "cdf": lambda d: d.cdf(d.sample()),
    "icdf": lambda d: d.icdf(torch.full(d.batch_shape, 0.3)),
    "mean": lambda d: d.mean,
    "variance": lambda d: d.variance,
    "stddev": lambda d: d.stddev,
    "mode": lambda d: d.mode,
    "expand": lambda d: d.expand((2, *d.batch_shape)).log_prob(d.sample((2,))),
    "enumerate_support": lambda d: d.enumerate_support(),
}


def programs() -> Iterator[tuple[str, Program]]:
    """Yield programs of one distribution, then divergences of two."""
    for name, make in MAKERS.items():
        for method, call in METHODS.items():
            yield f"{name}.{method}", lambda x, make=make, call=call: call(make(x))
    x = torch.full((3,), 0.75)
    made = {name: type(make(x)) for name, make in MAKERS.items()}
    for first, cls in made.items():
        for second, other in made.items():
            if any(issubclass(cls, a) and issubclass(other, b) for a, b in _KL_REGISTRY):
                p, q = MAKERS[first], MAKERS[second]
                yield (
                    f"kl({first}, {second})",
                    lambda x, p=p, q=q: D.kl_divergence(p(x), q(x + 0.1)),
                )


def outcome(program: Program) -> Any:
    """Return result, gradient and random state; the class of the error that is raised."""
    torch.manual_seed(0)
    x = torch.tensor([0.6, 0.9, 1.2]).requires_grad_()
    try:
        result = program(x)
        gradient = None
        if result.requires_grad:
            (gradient,) = torch.autograd.grad(result.sum(), x, allow_unused=True)
    except (AssertionError, AttributeError, NotImplementedError, RuntimeError, ValueError) as error:
        return type(error)
    return result, gradient, torch.get_rng_state()


def check(name: str, program: Program) -> str:
    """Print a line about a program unless it is one graph; return the key that it counts for."""
    wanted = outcome(program)
    if isinstance(wanted, type):
        return "undefined in PyTorch"
    minitorch2.reset()
    with config.patch(suppress_errors=False), stages.collect() as log:
        found = outcome(minitorch2.compile(program, backend="eager"))
    try:
        assert not isinstance(found, type), f"raises {found.__name__}"
        assert_close(found, wanted, equal_nan=True, rtol=1e-5, atol=1e-6)
    except AssertionError as error:
        print(f"WRONG  {name}: {str(error).splitlines()[0]}", flush=True)
        return "wrong"
    breaks, in_python = log.counts["graph_breaks"], log.counts["frames_as_is"]
    if not breaks and not in_python:
        return "one graph"
    cause = [*log.texts("graph_break"), "left to Python"][0].strip().splitlines()
    print(
        f"breaks {name}: {breaks} breaks, {in_python} in Python: {cause[1:2] or cause}", flush=True
    )
    return "breaks"


def main() -> int:
    """Check all programs; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of programs")
    chosen = parser.parse_args().only
    warnings.simplefilter("ignore")
    counts = Counter(check(*each) for each in programs() if chosen in each[0])
    print(", ".join(f"{count} {key}" for key, count in counts.most_common()))
    return min(counts["wrong"], 1)


if __name__ == "__main__":
    sys.exit(main())
