"""Small functions and methods of the standard library in Python."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any


def concat(a: Any, b: Any, /) -> Any:
    """``operator.concat``: the first sequence's own ``+``"""
    if not hasattr(a, "__getitem__"):
        raise TypeError(f"'{type(a).__name__}' object can't be concatenated")
    whole = a.__add__(b)
    return a + b if whole is NotImplemented else whole


def dispatched_method(self: Any, obj: Any, cls: Any = None) -> Callable[..., Any]:
    """``functools.singledispatchmethod.__get__``, without the cache that saves time"""
    dispatch = self.dispatcher.dispatch

    def method(*args: Any, **kwargs: Any) -> Any:
        if not args:
            raise TypeError(f"{self.func.__name__} requires at least 1 positional argument")
        return dispatch(args[0].__class__).__get__(obj, cls)(*args, **kwargs)

    return method


# Calls of `operator.itemgetter`, `attrgetter` and `methodcaller`, given the arguments that made it.


def get_items(*keys_and_owner: Any) -> Any:
    """``operator.itemgetter(*keys)(owner)``"""
    keys, owner = keys_and_owner[:-1], keys_and_owner[-1]
    return owner[keys[0]] if len(keys) == 1 else tuple([owner[key] for key in keys])


def get_attributes(*names_and_owner: Any) -> Any:
    """``operator.attrgetter(*names)(owner)``"""
    names, owner = names_and_owner[:-1], names_and_owner[-1]
    found = [_dotted(owner, name.split(".")) for name in names]
    return found[0] if len(names) == 1 else tuple(found)


def _dotted(owner: Any, names: Sequence[str]) -> Any:
    for name in names:
        owner = getattr(owner, name)
    return owner


def call_method(name: str, *args_and_owner: Any, **kwargs: Any) -> Any:
    """``operator.methodcaller(name, *args, **kwargs)(owner)``"""
    return getattr(args_and_owner[-1], name)(*args_and_owner[:-1], **kwargs)


# types.SimpleNamespace ---------------------------------------------------------------------------


def namespace_init(self: types.SimpleNamespace, /, **kwargs: Any) -> None:
    """``SimpleNamespace.__init__``"""
    self.__dict__.update(kwargs)


def namespace_eq(self: types.SimpleNamespace, other: Any) -> Any:
    """``SimpleNamespace.__eq__``"""
    if not isinstance(other, types.SimpleNamespace):
        return NotImplemented
    return self.__dict__ == other.__dict__


def namespace_ne(self: types.SimpleNamespace, other: Any) -> Any:
    """``SimpleNamespace.__ne__``"""
    if not isinstance(other, types.SimpleNamespace):
        return NotImplemented
    return self.__dict__ != other.__dict__


def namespace_repr(self: types.SimpleNamespace) -> str:
    """``SimpleNamespace.__repr__``"""
    cls = type(self)
    name = "namespace" if cls is types.SimpleNamespace else cls.__name__
    return f"{name}({', '.join([f'{key}={value!r}' for key, value in self.__dict__.items()])})"


# Exceptions --------------------------------------------------------------------------------------


def exception_str(self: BaseException) -> str:
    """``BaseException.__str__``"""
    if len(self.args) == 1:
        return str(self.args[0])
    return str(self.args) if self.args else ""


def key_error_str(self: KeyError) -> str:
    """``KeyError.__str__``: the ``repr`` of a key."""
    return repr(self.args[0]) if len(self.args) == 1 else exception_str(self)


def exception_repr(self: BaseException) -> str:
    """``BaseException.__repr__``"""
    if len(self.args) == 1:
        return f"{type(self).__name__}({self.args[0]!r})"
    return f"{type(self).__name__}{self.args!r}"
