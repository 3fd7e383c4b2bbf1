"""The code flags of frames that can be suspended: generators, coroutines and both at once."""

from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from typing import Final

SUSPENDABLE: Final = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE
"""Flags of their code."""
