"""Programs in processes of their own, so that a crash or a deadlock is a failure like any other."""

import os
import subprocess
import sys
import textwrap

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
"""Longer runs, with the profile that makes the property tests longer."""

PREAMBLE = """
import gc, os, sys, threading, time
import torch
import minitorch2
X = torch.tensor([1.0, -2.0, 3.0])
def inner(x):
    return x.cos() + 1
def program(x):
    y = x.sin()
    print(end="")
    return inner(y) * 2
"""


def run(text, *flags, seconds=60, preamble=PREAMBLE, **variables):
    """What the program prints; it fails if it ends otherwise than with 0, or does not end."""
    found = subprocess.run(
        [sys.executable, "-X", "faulthandler", *flags, "-c", preamble + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, **variables},
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout
