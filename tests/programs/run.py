"""Run a program eagerly and compiled, and compare all that it returns or raises."""

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.testing.assertions import assert_same
from tests.programs import (
    PROGRAMS,
    Program,
    applications,
    corners,
    crafted,
    fields,
    research,
    strangers,
    trainings,
)

# Importing them fills the table.
assert all((applications, corners, crafted, fields, research, strangers, trainings))
TOLERANCE, ROUGH = 2e-5, 1e-4
"""With kernels for a CPU, and for a GPU, which sums in another order."""
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


def rounded(value: Any) -> Any:
    """Leave five digits of the numbers that a program has read."""
    if type(value) is float:
        return float(f"{value:.5g}")
    if type(value) in (list, tuple):
        return type(value)(map(rounded, value))
    return {k: rounded(v) for k, v in value.items()} if type(value) is dict else value


def observed(program: Program, compile: Compile) -> Any:
    """Return what a program returns, or the class and the text of what it raises."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    try:
        return rounded(program(compile))
    except Exception as error:
        return type(error).__name__, str(error)


def compare(name: str, tolerance: float = TOLERANCE, **settings: Any) -> stages.StageLog:
    """Check that a program does the same eagerly and compiled; return what was counted."""
    program = PROGRAMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = observed(program, lambda function: function)
        minitorch2.reset()
        with stages.collect() as log:
            given = observed(program, lambda f: minitorch2.compile(f, **settings))
    assert_same(given, wanted, tolerance)
    assert not log.counts["backend_failures"]
    return log
