"""Python bodies for functions that CPython writes in C or that cannot be inlined as they are.

The evaluator inlines these like user code, so each is as short and as faithful as its documentation
in the standard library. A new one is a function in the file of its kind (`iterators`, `values`,
`asynchronous`, `torch_functions`, `scan`, `higher_order`) and a line in `POLYFILLS`.
"""

from __future__ import annotations

import functools
import itertools
import operator
import threading
import types
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.distributions import constraints

from minitorch2.bytecode.polyfills import (
    asynchronous,
    caches,
    higher_order,
    iterators,
    locks,
    scan,
    torch_functions,
    values,
)
from minitorch2.bytecode.polyfills.iterators import iterate_by_index as iterate_by_index
from minitorch2.bytecode.polyfills.twins import twins
from minitorch2.native.cpython.library import CachedFunction
from minitorch2.native.torch_internals import functions

_NAMESPACE: Any = types.SimpleNamespace

GETTERS: Final[dict[type, Callable[..., Any]]] = {
    operator.itemgetter: values.get_items,
    operator.attrgetter: values.get_attributes,
    operator.methodcaller: values.call_method,
}
"""Classes of callables to what calling an instance does: their arguments come first."""

EXCEPTION_TEXTS: Final[dict[Any, Callable[..., Any]]] = {
    BaseException.__str__: values.exception_str,
    BaseException.__repr__: values.exception_repr,
    KeyError.__str__: values.key_error_str,
}
"""Methods of exceptions that come from outside."""

POLYFILLS: Final[dict[Any, Callable[..., Any]]] = {
    CachedFunction: caches.lru_cache_wrapper,
    itertools.accumulate: iterators.accumulate,
    itertools.starmap: iterators.starmap,
    itertools.takewhile: iterators.takewhile,
    itertools.dropwhile: iterators.dropwhile,
    itertools.compress: iterators.compress,
    itertools.cycle: iterators.cycle,
    itertools.zip_longest: iterators.zip_longest,
    itertools.filterfalse: iterators.filterfalse,
    itertools.groupby: iterators.groupby,
    itertools.tee: iterators.tee,
    itertools.pairwise: iterators.pairwise,
    operator.concat: values.concat,
    functools.singledispatchmethod.__get__: values.dispatched_method,
    threading.Lock: locks.Lock,
    threading.RLock: locks.ReentrantLock,
    aiter: asynchronous.aiter_of,
    anext: asynchronous.anext_of,
    _NAMESPACE.__init__: values.namespace_init,
    _NAMESPACE.__eq__: values.namespace_eq,
    _NAMESPACE.__ne__: values.namespace_ne,
    _NAMESPACE.__repr__: values.namespace_repr,
    functions.higher_order_operators.associative_scan: scan.associative_scan,
    torch.cond: higher_order.cond,
    functions.higher_order_operators.while_loop: higher_order.while_loop,
    functions.higher_order_operators.scan: higher_order.scan,
    functions.higher_order_operators.map: higher_order.map_slices,
    torch.cov: torch_functions.cov,
    torch.corrcoef: torch_functions.corrcoef,
    torch.equal: torch_functions.equal,
    torch.allclose: torch_functions.allclose,
    torch.istft: torch_functions.istft,
    torch.nn.functional.one_hot: torch_functions.one_hot,
    torch.utils.hooks.RemovableHandle.__init__: torch_functions.make_handle,
    functions.hook_tensors: torch_functions.hook_tensors,
    torch.use_deterministic_algorithms: torch_functions.use_deterministic_algorithms,
    torch.set_anomaly_enabled: torch_functions.set_anomaly_enabled,
    type(constraints.symmetric).check: torch_functions.is_symmetric,
    type(constraints.positive_definite).check: torch_functions.is_positive_definite,
    **twins(),
}
"""The Python function that is inlined in place of each function, class or method."""
