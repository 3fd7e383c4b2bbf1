"""The catalogue of the Python language: small programs by topic, each of which is one graph.

A program takes a tensor. Its value is compared with CPython's, twice with one size and once with
another, and `fullgraph` makes a graph break an error.
"""

from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, Callable[..., Any]] = {}
"""Every program by the name of its topic and its own."""


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add a program, which is to be one graph."""
    topic = function.__module__.rpartition(".")[2]
    PROGRAMS[f"{topic}-{function.__name__}"] = function
    return function
