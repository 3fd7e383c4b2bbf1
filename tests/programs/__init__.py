"""Whole programs as strangers write them, each against eager mode.

A program takes `compile`, applies it to the functions that its author would compile, and returns
whatever can be compared: losses, parameters, gradients, texts, counts. `test_programs.py` runs each
with captured graphs as they are; `python -m tests.programs` runs some with kernels.
"""

from collections.abc import Callable
from typing import Any

import torch

Program = Callable[[Callable[..., Any]], Any]
PROGRAMS: dict[str, Program] = {}
"""Every program by its name."""


def program(function: Program) -> Program:
    """Add a program."""
    PROGRAMS[function.__name__] = function
    return function


def T(*shape: int, seed: int = 0, grad: bool = False) -> torch.Tensor:
    """Draw a tensor from a generator of its own."""
    generator = torch.Generator(torch.get_default_device()).manual_seed(seed)
    drawn = torch.randn(*shape, generator=generator)
    return drawn.requires_grad_(grad)
