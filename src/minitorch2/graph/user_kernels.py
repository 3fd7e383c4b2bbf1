"""Fake kernels that users register for their own operators (`torch.library.register_fake`).

A fake kernel may ask for a size that depends on data, by
``torch.library.get_ctx().new_dynamic_size()``. It gets an unbacked symbol (PyTorch 2 paper, section
5.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minitorch2.graph.symbols.ranges import Range
from minitorch2.graph.symbols.unbacked import UnbackedSymbols
from minitorch2.native.torch_internals.operators import FAKE_KERNELS, OpOverload, set_fake_context


def user_kernel(func: OpOverload) -> Callable[..., Any] | None:
    """Return the fake kernel that a user has registered for an operator."""
    if func.namespace in ("aten", "prims"):
        return None
    entry = FAKE_KERNELS.find(func._schema.name)
    kernel: Callable[..., Any] | None = entry.fake_impl.kernel
    return kernel


class Context:
    """The object that ``torch.library.get_ctx()`` returns while a fake kernel runs here."""

    def __init__(self, symbols: UnbackedSymbols) -> None:
        self.symbols = symbols

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """Return an unbacked size between two limits (inclusive)."""
        return self.symbols.number(int, Range(min, math.inf if max is None else max))

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> Any:
        """Do the same as `new_dynamic_size`, under its old name."""
        return self.new_dynamic_size(min=min, max=max)


class NoSymbolsError(Exception):
    """A fake kernel asks for a size where operators that need data are refused."""


def run_user_kernel(
    kernel: Callable[..., Any],
    symbols: UnbackedSymbols | None,
    args: list[Any],
    kwargs: dict[str, Any],
) -> Any:
    """Run a user's kernel on meta tensors.

    Raises:
        NoSymbolsError: it asks for a size where unbacked symbols are not available.
    """

    def context() -> Context:
        if symbols is None:
            raise NoSymbolsError
        return Context(symbols)

    with set_fake_context(context):
        return kernel(*args, **kwargs)
