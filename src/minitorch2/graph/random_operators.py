"""Operators on random numbers that PyTorch lacks.

The functional form of ``x.bernoulli_(p)`` would be ``aten.bernoulli.p``, which gives a contiguous
result. Numbers are drawn in the order of memory, so they would differ from eager's wherever ``x``
is not contiguous. ``minitorch2::bernoulli`` draws into memory that is laid out as ``x`` is.

The others read and set the state of the CPU's default generator, a tensor of bytes. They are tagged
as random operators are, so that all of them stay in the order of the program::

    g.manual_seed(n); y = torch.rand(4, generator=g)    -->    outer = swap(seeded_state(n))
                                                               y = torch.rand(4)
                                                               state_of_g = swap(outer)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

_LIBRARY: Final = torch.library.Library("minitorch2", "DEF")  # type: ignore[no-untyped-call]
_SEEDED: Final = (torch.Tag.nondeterministic_seeded,)


def _define(schema: str, body: Callable[..., Any], tags: tuple[torch.Tag, ...] = _SEEDED) -> Any:
    """Make an operator of a Python function; its overload."""
    _LIBRARY.define(schema, tags=tags)  # type: ignore[no-untyped-call]
    name = schema.partition("(")[0]
    _LIBRARY.impl(name, body, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    return getattr(torch.ops.minitorch2, name).default


def _bernoulli(x: Tensor, p: float = 0.5, *, generator: torch.Generator | None = None) -> Tensor:
    """1 with probability ``p``, else 0; of the shape, dtype and, if dense, strides of ``x``."""
    return torch.empty_like(x).bernoulli_(p, generator=generator)


def _swap_random_state(state: Tensor) -> Tensor:
    """Give the default generator a state; the one that it had."""
    before = torch.get_rng_state()
    torch.set_rng_state(state)
    return before


def _manual_seed(seed: int) -> Tensor:
    """Seed the default generators of all devices; the state of the CPU's."""
    torch.manual_seed(seed)
    return torch.get_rng_state()


def _seeded_state(seed: int) -> Tensor:
    """Return the state of a generator that was seeded just now."""
    return torch.Generator().manual_seed(seed).get_state()


bernoulli: Final = _define(
    "bernoulli(Tensor self, float p=0.5, *, Generator? generator=None) -> Tensor", _bernoulli
)
random_state: Final = _define("random_state() -> Tensor", torch.get_rng_state)
swap_random_state: Final = _define("swap_random_state(Tensor state) -> Tensor", _swap_random_state)
manual_seed: Final = _define("manual_seed(SymInt seed) -> Tensor", _manual_seed)
seeded_state: Final = _define("seeded_state(SymInt seed) -> Tensor", _seeded_state, ())

STATE_BYTES: Final = torch.get_rng_state().numel()
"""How long the state of a CPU's generator is."""


def fake_state(*arguments: object) -> Tensor:
    """Return the metadata of a state."""
    return torch.empty(STATE_BYTES, dtype=torch.uint8, device="meta")
