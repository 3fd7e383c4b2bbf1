"""Wrappers that capture looks through: NumPy functions on tensors, functions that are not captured.

    wrap_numpy       tensors -> arrays on their memory -> function -> tensors on the arrays' memory
    nonstrict_trace  nested tensors -> one node of the graph -> nested tensors

In eager code they do the same by NumPy and by Python. The rules of `bytecode.trackers` say what
captured code does instead at `array_on`, `tensor_on` and `call_flat`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch

from minitorch2.errors import MinitorchError
from minitorch2.native.torch_internals.pytree import tree_flatten, tree_map, tree_unflatten

P = ParamSpec("P")
R = TypeVar("R")


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function of NumPy arrays into a function of tensors, which can be compiled.

    Arguments and results may be nested in tuples, lists and dicts. Compiled, it works on the
    tensors themselves, so it has gradients and runs on their device. In eager code NumPy runs it:
    then tensors are on the CPU and need no gradients.

    Raises:
        MinitorchError: at a call in eager code, if NumPy cannot have a tensor.
    """

    @functools.wraps(fn)
    def of_tensors(*args: Any, **kwargs: Any) -> Any:
        arrays = tree_map(_as_array, (args, kwargs))
        return tree_map(_as_tensor, fn(*arrays[0], **arrays[1]))

    return of_tensors


def _as_array(value: Any) -> Any:
    return array_on(value) if isinstance(value, torch.Tensor) else value


def _as_tensor(value: Any) -> Any:
    return tensor_on(value) if isinstance(value, np.ndarray | np.generic) else value


def array_on(tensor: torch.Tensor) -> Any:
    """Return an array that shares the memory of a tensor."""
    if tensor.device.type != "cpu" or (tensor.requires_grad and torch.is_grad_enabled()):
        raise MinitorchError(
            "in eager code a NumPy function takes tensors on the CPU that need no gradient",
            code="eager-numpy",
            fix="compile the function, or move and detach its arguments",
        )
    return tensor.detach().numpy()


def tensor_on(array: Any) -> torch.Tensor:
    """Return a tensor that shares the memory of an array; a scalar gives one of no dimension."""
    return torch.as_tensor(array)


def nonstrict_trace(fn: Callable[P, R]) -> Callable[P, R]:
    """Make each call of a function one node of the graph, whatever its arguments and results hold.

    Capture does not look inside, so the function may contain code that capture cannot model.
    Backends that differentiate the graph trace through it, on fake tensors. As with
    `allow_in_graph`, it must compute tensors from tensors and constants, without side effects.
    Tensors from outside count as constants and get no gradients. Arguments may be nested in tuples,
    lists and dicts, results in any structure that `torch.utils._pytree` knows. To use a module,
    pass its parameters as arguments.
    """

    @functools.wraps(fn)
    def traced(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, structure = call_flat(fn, args, kwargs)
        result: R = tree_unflatten(leaves, structure)
        return result

    return traced


def call_flat(fn: Callable[..., Any], args: Any, kwargs: Any) -> tuple[list[Any], Any]:
    """Call `fn`, and return the leaves of its result and their structure."""
    return tree_flatten(fn(*args, **kwargs))


class FlatCall:
    """A function as the target of a node: a call returns the tensors among the leaves of its
    result.

    Attributes:
        leaves: the leaves of its last result.
        structure: their structure.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.leaves: list[Any] = []
        self.structure: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        self.leaves, self.structure = call_flat(self.function, args, kwargs)
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor))
