"""Iterators of `itertools` and `builtins` in Python, and `functools.reduce`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_MISSING: Any = object()


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


def filterfalse(predicate: Callable[[Any], Any] | None, iterable: Iterable[Any]) -> Iterator[Any]:
    """``itertools.filterfalse``"""
    for element in iterable:
        if not (element if predicate is None else predicate(element)):
            yield element


def groupby(iterable: Iterable[Any], key: Callable[[Any], Any] | None = None) -> Iterator[Any]:
    """``itertools.groupby``: a group ends when the next one is asked for."""
    iterator = iter(iterable)
    exhausted, value, value_key = False, None, None

    def group(wanted: Any) -> Iterator[Any]:
        nonlocal value, value_key, exhausted
        yield value
        for value in iterator:
            value_key = value if key is None else key(value)
            if value_key != wanted:
                return
            yield value
        exhausted = True

    try:
        value = next(iterator)
    except StopIteration:
        return
    value_key = value if key is None else key(value)
    while not exhausted:
        wanted = value_key
        current = group(wanted)
        yield value_key, current
        if value_key == wanted:
            for _ in current:
                pass


def tee(iterable: Iterable[Any], n: int = 2) -> tuple[Iterator[Any], ...]:
    """``itertools.tee``: each iterator walks along one linked list, which grows as they need it."""
    iterator, link = iter(iterable), [None, None]
    return tuple([_walk(iterator, link) for _ in range(n)])


def _walk(iterator: Iterator[Any], link: list[Any]) -> Iterator[Any]:
    while True:
        if link[1] is None:
            try:
                link[0] = next(iterator)
            except StopIteration:
                return
            link[1] = [None, None]
        value, link = link
        yield value


def pairwise(iterable: Iterable[Any], /) -> Iterator[Any]:
    """``itertools.pairwise``"""
    iterator = iter(iterable)
    left = next(iterator, _MISSING)
    for right in iterator:
        yield left, right
        left = right


def call_until(function: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    """``iter(function, sentinel)``"""
    while True:
        value = function()
        if value == sentinel:
            return
        yield value
