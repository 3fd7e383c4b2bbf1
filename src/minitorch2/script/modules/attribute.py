"""Attributes whose types a program states where it makes the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Attribute:
    """A value with the type that a scripted module shall give it.

    Attributes:
        value: the value.
        type: its type, such as ``Dict[str, int]``.
    """

    value: Any
    type: Any
