"""One explained call with a graph break, for all tests of what was recorded."""

import pytest
import torch

import minitorch2
from minitorch2.explorer.store import Compilation, Store


def half(h):
    return h * torch.sigmoid(h)


def broken(x, w):
    h = torch.relu(x @ w)
    h = half(h)
    if h.sum() > 0:
        h = h + 1
    return h.mean()


@pytest.fixture(scope="package")
def store() -> Store:
    """The records of `broken`, its backward graphs included."""
    x, w = torch.ones(4, 8, requires_grad=True), torch.ones(8, 16, requires_grad=True)
    return minitorch2.explain(broken, backend="numba")(x, w).store


@pytest.fixture(scope="package")
def first(store: Store) -> Compilation:
    """The compilation that ends at the break."""
    return next(iter(store.compilations.values()))
