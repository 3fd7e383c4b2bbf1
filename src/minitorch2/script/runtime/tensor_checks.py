"""Checks that a tensor is what a type says, as Python expressions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from minitorch2.graph.symbols.admission import function_of
from minitorch2.script.ir.types import TENSOR, TensorType, Type


def check_text(name: str, wanted: Type, known: Type = TENSOR) -> tuple[str, dict[str, Any]]:
    """Return an expression that tells whether a tensor is of a type, and what it refers to.

    None stands for a value that is not initialized on this way: nothing reads it, so any type fits.

    Args:
        name: the variable.
        wanted: the type. Facts that it leaves open are not looked at; equal names of sizes are
            equal sizes.
        known: what is certain before.

    Returns:
        The text, with names of objects in braces, and the objects by these names.
    """
    assert isinstance(wanted, TensorType)
    known = known if isinstance(known, TensorType) else TENSOR
    facts = {"dtype": (wanted.dtype, known.dtype), "device": (wanted.device, known.device)}
    facts = {name: (a, b) for name, (a, b) in facts.items() if a not in (None, b)}
    texts = [f"{name}.{fact} == {{{fact}}}" for fact in facts]
    if wanted.requires_grad not in (None, known.requires_grad):
        texts.append(f"{name}.requires_grad is {wanted.requires_grad}")
    texts += _size_texts(name, wanted, known)
    text = f"({name} is None or {' and '.join(texts)})" if texts else "True"
    return text, {fact: pair[0] for fact, pair in facts.items()}


def _size_texts(name: str, wanted: TensorType, known: TensorType) -> list[str]:
    sizes = wanted.sizes
    if sizes is None or sizes == known.sizes:
        return []
    if all(isinstance(size, int) for size in sizes):
        return [f"{name}.shape == {sizes!r}"]
    texts = (
        [] if known.sizes and len(known.sizes) == len(sizes) else [f"{name}.dim() == {len(sizes)}"]
    )
    firsts: dict[object, str] = {}
    for dimension, size in enumerate(sizes):
        here = f"{name}.size({dimension})"
        if isinstance(size, int):
            texts.append(f"{here} == {size}")
        elif size is not None and firsts.setdefault(size, here) != here:
            texts.append(f"{here} == {firsts[size]}")
    return texts


@cache
def check_of(wanted: Type) -> Callable[[Any], bool]:
    """Return a function that tells whether a tensor is of a type."""
    text, facts = check_text("x", wanted)
    return function_of(("x",), text.format(**{name: name for name in facts}), facts)
