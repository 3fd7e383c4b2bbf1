"""Python bodies for functions that CPython writes in C or that cannot be inlined as they are.

The evaluator inlines these like user code, so each is as short and as faithful as its documentation
in the standard library.
"""

from __future__ import annotations

import functools
import itertools
import operator
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch

_MISSING: Any = object()


def reduce(
    function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = _MISSING
) -> Any:
    """``functools.reduce``"""
    iterator = iter(iterable)
    value = next(iterator, _MISSING) if initial is _MISSING else initial
    if value is _MISSING:
        raise TypeError("reduce() of empty iterable with no initial value")
    for element in iterator:
        value = function(value, element)
    return value


def accumulate(
    iterable: Iterable[Any], func: Callable[[Any, Any], Any] = operator.add, *, initial: Any = None
) -> Iterator[Any]:
    """``itertools.accumulate``"""
    iterator = iter(iterable)
    total = next(iterator, _MISSING) if initial is None else initial
    if total is _MISSING:
        return
    yield total
    for element in iterator:
        total = func(total, element)
        yield total


def starmap(function: Callable[..., Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """``itertools.starmap``"""
    for args in iterable:
        yield function(*args)


def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """``itertools.takewhile``"""
    for element in iterable:
        if not predicate(element):
            break
        yield element


def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """``itertools.dropwhile``"""
    iterator = iter(iterable)
    for element in iterator:
        if not predicate(element):
            yield element
            break
    for element in iterator:
        yield element


def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    """``itertools.compress``"""
    for element, selected in zip(data, selectors):
        if selected:
            yield element


def cycle(iterable: Iterable[Any]) -> Iterator[Any]:
    """``itertools.cycle``"""
    saved = []
    for element in iterable:
        yield element
        saved.append(element)
    while saved:
        for element in saved:
            yield element


def zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> Iterator[Any]:
    """``itertools.zip_longest`` of finite iterables"""
    lists = [list(iterable) for iterable in iterables]
    for i in range(max([len(values) for values in lists], default=0)):
        yield tuple([values[i] if i < len(values) else fillvalue for values in lists])


def iterate_by_index(sequence: Any) -> Iterator[Any]:
    """``iter`` of an object that only has ``__getitem__``"""
    index = 0
    while True:
        try:
            element = sequence[index]
        except IndexError:
            return
        yield element
        index += 1


def cast(typ: Any, val: Any) -> Any:
    """``typing.cast``"""
    return val


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """``torch.cov`` without weights; PyTorch's looks at the number of observations as a tensor"""
    if fweights is not None or aweights is not None:
        return torch.ops.aten.cov(
            input, correction=correction, fweights=fweights, aweights=aweights
        )
    rows = input.view(1, -1) if input.ndim < 2 else input
    count = rows.shape[1]
    centered = rows - (rows.sum(1) / count).unsqueeze(1)
    products = centered @ centered.t().conj()
    return torch.true_divide(products, max(count - correction, 0)).squeeze()


def corrcoef(input: Any) -> Any:
    """``torch.corrcoef`` of real numbers"""
    covariance = torch.cov(input)
    if covariance.is_complex():
        return torch.ops.aten.corrcoef(input)
    if covariance.ndim == 0:
        return covariance / covariance
    deviation = covariance.diag().sqrt()
    scaled = covariance / deviation.view(-1, 1) / deviation.view(1, -1)
    return scaled.clip(-1, 1)


POLYFILLS: Final[dict[Any, Callable[..., Any]]] = {
    functools.reduce: reduce,
    itertools.accumulate: accumulate,
    itertools.starmap: starmap,
    itertools.takewhile: takewhile,
    itertools.dropwhile: dropwhile,
    itertools.compress: compress,
    itertools.cycle: cycle,
    itertools.zip_longest: zip_longest,
    typing.cast: cast,
    torch.cov: cov,
    torch.corrcoef: corrcoef,
}
"""What is inlined in place of each function or class."""
