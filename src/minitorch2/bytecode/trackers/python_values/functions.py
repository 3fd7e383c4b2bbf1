"""Python functions that can be inlined: from the outside world, or made while capturing.

PyTorch 2 paper, sections 3.5 (*UserFunctionVariable*) and 3.6 (closures).
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from inspect import CO_COROUTINE
from types import CellType, CodeType, FunctionType
from typing import Any

import torch

from minitorch2.bytecode.frames.skip_files import refuses_inlining
from minitorch2.bytecode.guards import id_match
from minitorch2.bytecode.guards.sources import AttributeSource
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.callee import callee_of
from minitorch2.bytecode.trackers.descriptors import MISSING, guard_absent, inherits, is_of_trusted
from minitorch2.bytecode.trackers.get_attr import BoundMethodVariable, GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Callee, Default, Evaluator, Residual
from minitorch2.bytecode.trackers.known import KnownObjectVariable
from minitorch2.bytecode.trackers.observed import ObservedError, raise_as_observed, raise_observed
from minitorch2.bytecode.trackers.python_values.cell import CellVariable
from minitorch2.bytecode.trackers.python_values.constant import (
    NONE,
    ConstantVariable,
    is_none,
    literal,
)
from minitorch2.bytecode.trackers.python_values.coroutine import OutsideCoroutine
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable, dict_of_names
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable
from minitorch2.bytecode.trackers.torch_values.symbolic import SymbolicNumberVariable
from minitorch2.graph.scope import assigned


class FunctionVariable(VariableTracker):
    """The base of functions: they are true, hashed by identity, and can be bound and called."""

    def python_type(self) -> type:
        return FunctionType

    def callee(self, evaluator: Evaluator) -> Callee:
        """Return the function as inlining needs it."""
        raise NotImplementedError

    def bind(self, owner: VariableTracker) -> VariableTracker:
        """``function.__get__(owner)``."""
        return BoundMethodVariable(self, owner)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        return evaluator.inline(self.callee(evaluator), args, kwargs)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name == "__get__":
            return self if is_none(args[0]) else self.bind(args[0])
        if name == "__call__":
            return self.call(evaluator, args, kwargs)
        if name in ("__eq__", "__ne__"):
            if not isinstance(args[0], FunctionVariable):
                return ConstantVariable(NotImplemented)
            same = operations.identical(evaluator, self, args[0])
            return ConstantVariable(same == (name == "__eq__"))
        return super().call_method(evaluator, name, args, kwargs)

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        evaluator.capture.side_effects.store_attribute(self, name, value)


class UserFunctionVariable(FunctionVariable, KnownObjectVariable):
    """A Python function of the outside world."""

    def __repr__(self) -> str:
        return f"UserFunctionVariable({self.value.__qualname__})"

    def callee(self, evaluator: Evaluator) -> Callee:
        return callee_of(evaluator.capture, self.value, self.source)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        code = self.value.__code__
        if code.co_flags & CO_COROUTINE and refuses_inlining(code) is not None:
            return OutsideCoroutine(self, args, kwargs)
        return super().call(evaluator, args, kwargs)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        pending = evaluator.capture.side_effects.load_attribute(self, name)
        if isinstance(pending, VariableTracker):
            return pending
        if pending is not None or not hasattr(self.value, name):
            if pending is None:
                guard_absent(evaluator, self.source or self.value, name)
            raise_observed(AttributeError, f"'function' object has no attribute {name!r}")
        value = getattr(self.value, name)
        if name in ("__get__", "__call__"):
            return GetAttrVariable(self, name)
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return literal(value)
        if name == "__code__":
            return evaluator.capture.wrap(value, evaluator.capture.reference(value))
        source = self.source or evaluator.capture.reference(self.value)
        return evaluator.capture.wrap(value, AttributeSource(source, name))


class PolyfillVariable(UserFunctionVariable):
    """A function that is evaluated as Python with the same meaning.

    Args:
        body: the Python function that is evaluated.
        real: the function that the program means.
    """

    def __init__(self, body: FunctionType, real: object) -> None:
        super().__init__(body)
        self.real = real

    def hash_key(self) -> Hashable:
        return ("object", id(self.real))

    def reconstruct(self, residual: Residual) -> str:
        return residual.reference(self.real)


class OperatorPolyfillVariable(PolyfillVariable):
    """A function of PyTorch that is evaluated as Python; PyTorch's own raises what calls raise."""

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        try:
            return super().call(evaluator, args, kwargs)
        except ObservedError:
            return unsupported("operator-error", f"{self.value.__name__} of these values raises")


class NestedFunctionVariable(FunctionVariable):
    """A function that the captured code makes; if it escapes, it is made for real at the end.

    Args:
        code: its code.
        namespace: globals of the function that makes it.
        defaults: tracker of the tuple of positional defaults.
        kwdefaults: tracker of the dict of keyword-only defaults.
        annotations: tracker of the tuple of annotations.
        closure: its cells, in the order of ``co_freevars``.
    """

    def __init__(
        self,
        code: CodeType,
        namespace: dict[str, object],
        *,
        defaults: VariableTracker | None = None,
        kwdefaults: VariableTracker | None = None,
        annotations: VariableTracker | None = None,
        closure: Sequence[CellVariable] = (),
    ) -> None:
        super().__init__()
        self.code = code
        self.namespace = namespace
        self.defaults = defaults
        self.kwdefaults = kwdefaults
        self.annotations = annotations
        self.closure = tuple(closure)
        self.attributes: dict[str, VariableTracker] = {}
        self.dict = dict_of_names({})

    def __repr__(self) -> str:
        return f"NestedFunctionVariable({self.code.co_qualname})"

    def callee(self, evaluator: Evaluator) -> Callee:
        defaults = [] if self.defaults is None else self.defaults.items(evaluator)
        return Callee(
            self.code,
            self.namespace,
            [_returning(value) for value in defaults],
            {name: _returning(value) for name, value in self._keyword_defaults().items()},
            self.closure,
            self._qualified_name(),
        )

    def described(self) -> FunctionType:
        """Return a function with the same signature; it is not to be called."""
        defaults = None if self.defaults is None else self.defaults.as_constant()
        cells = tuple(CellType() for _ in self.closure)
        name = self.code.co_name
        made = FunctionType(self.code, self.namespace, name, defaults, cells)
        given = self._keyword_defaults().items()
        made.__kwdefaults__ = {key: value.as_constant() for key, value in given}
        if self.annotations is not None:
            made.__annotations__ = _paired(self.annotations.as_constant())
        return made

    def _qualified_name(self) -> str:
        """Return the string that was assigned to ``__qualname__``, for messages; empty if none."""
        known = self.attributes.get("__qualname__")
        return str(known.as_constant()) if known is not None and known.is_constant() else ""

    def _keyword_defaults(self) -> dict[str, VariableTracker]:
        if not isinstance(self.kwdefaults, DictVariable):
            return {}
        return {key.as_constant(): value for key, value in self.kwdefaults.pairs()}

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        known = self.attributes.get(name) or self._own_attribute(name)
        known = known or self.dict.lookup_name(name)
        if known is not None:
            return known
        if name == "__get__":
            return GetAttrVariable(self, name)
        if name == "__code__":
            return evaluator.capture.wrap(self.code, evaluator.capture.reference(self.code))
        if name == "__globals__":
            namespace = evaluator.capture.reference(self.namespace)
            return evaluator.capture.wrap(self.namespace, namespace)
        if name in ("__get__", "__call__"):
            return GetAttrVariable(self, name)
        if hasattr(_returning, name):
            unsupported("attribute", f"attribute {name!r} of a function that is made here")
        return raise_observed(AttributeError, f"'function' object has no attribute {name!r}")

    def _own_attribute(self, name: str) -> VariableTracker | None:
        module = self.namespace.get("__name__")
        constants = {
            "__name__": self.code.co_name,
            "__qualname__": self.code.co_qualname,
            "__module__": module,
            "__doc__": _docstring(self.code),
        }
        if name in constants:
            return literal(constants[name])
        if name == "__defaults__":
            return self.defaults or NONE
        if name == "__kwdefaults__":
            return self.kwdefaults or NONE
        if name == "__closure__":
            return TupleVariable(self.closure) if self.closure else NONE
        if name == "__dict__":
            return self.dict
        if name == "__annotations__":
            self.attributes[name] = self._annotations()
        if name == "__type_params__":
            return TupleVariable([])
        return self.attributes.get(name)

    def _annotations(self) -> VariableTracker:
        """Return a new dict, made of the tuple of names and types in turn."""
        flat = self.annotations.elements if isinstance(self.annotations, TupleVariable) else []
        return DictVariable(zip(flat[::2], flat[1::2], strict=True))

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        if name in _FUNCTION_FIELDS:
            self.attributes[name] = value
        else:
            self.dict.store(evaluator, ConstantVariable(name), value)

    def delete_attribute(self, evaluator: Evaluator, name: str) -> None:
        self.get_attribute(evaluator, name)
        self.dict.py_pop(evaluator, ConstantVariable(name))

    def reconstruct(self, residual: Residual) -> str:
        code = residual.reference(self.code, f"code_of_{self.code.co_name}")
        namespace = residual.references.globals_name(self.namespace)
        cells = "".join(f"{residual.name_for(cell)}, " for cell in self.closure)
        defaults = "None" if self.defaults is None else residual.name_for(self.defaults)
        function_type = residual.reference(FunctionType, "FunctionType")
        name = self.code.co_name
        made = residual.bind(
            f"{function_type}({code}, {namespace}, {name!r}, {defaults}, ({cells}))", name
        )
        if self.kwdefaults is not None:
            residual.emit(f"{made}.__kwdefaults__ = {residual.name_for(self.kwdefaults)}")
        if self.annotations is not None and "__annotations__" not in self.attributes:
            pairs = f"{residual.reference(_paired)}({residual.name_for(self.annotations)})"
            residual.emit(f"{made}.__annotations__ = {pairs}")
        for attribute, value in self.attributes.items():
            residual.emit(assigned(made, attribute, residual.name_for(value)))
        if self.dict.entries:
            residual.emit(f"{made}.__dict__ = {residual.name_for(self.dict)}")
        return made


_FUNCTION_FIELDS = frozenset(
    ["__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__type_params__"]
)
"""Attributes of a function that do not lie in its ``__dict__``."""


def _returning(value: VariableTracker) -> Default:
    return lambda: value


def _docstring(code: CodeType) -> str | None:
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) else None


class PartialVariable(VariableTracker):
    """A `functools.partial`.

    Args:
        real: the object itself, if it comes from outside.
    """

    def __init__(
        self,
        function: VariableTracker,
        args: Arguments,
        kwargs: Keywords,
        real: functools.partial[Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.function, self.args = function, list(args)
        self.kwargs, self.real = dict(kwargs), real

    def python_type(self) -> type:
        return functools.partial if self.real is None else type(self.real)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "func":
            return self.function
        if name == "args":
            return TupleVariable(self.args)
        if name == "keywords":
            return dict_of_names(self.kwargs)
        if name == "__dict__":
            return super().get_attribute(evaluator, name)
        return self._own_attribute(evaluator, name)

    def is_plain(self, evaluator: Evaluator) -> bool:
        """Return whether it is known to have no attributes of its own."""
        pending = evaluator.capture.side_effects.pending_attributes(self)
        return not pending and (self.real is None or not self.real.__dict__)

    def _own_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        pending = evaluator.capture.side_effects.load_attribute(self, name)
        if isinstance(pending, VariableTracker):
            return pending
        if name == "__call__":
            return GetAttrVariable(self, name)
        if name == "__class__":
            return evaluator.capture.wrap(self.python_type(), None)
        if self.source is not None and self.real is not None:
            place = AttributeSource(self.source, "__dict__")
            found = evaluator.capture.wrap(self.real.__dict__, place)
            assert isinstance(found, DictVariable)
            if (value := found.lookup_name(name)) is not None:
                return value
        if name in ("__module__", "__doc__"):
            return literal(getattr(functools.partial, name))
        if name in dir(functools.partial):
            return super().get_attribute(evaluator, name)
        kind = self.python_type()
        if name in dir(kind):
            unsupported("attribute", f"{kind.__name__}.{name}")
        return raise_observed(AttributeError, f"{kind.__name__!r} object has no attribute {name!r}")

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        evaluator.capture.side_effects.store_attribute(self, name, value)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name == "__call__":
            return self.call(evaluator, args, kwargs)
        return super().call_method(evaluator, name, args, kwargs)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        return self.function.call(evaluator, [*self.args, *args], {**self.kwargs, **kwargs})

    def rebuild(self, residual: Residual) -> str:
        parts = residual.arguments([self.function, *self.args], self.kwargs)
        return f"{residual.reference(functools.partial)}({parts})"


class GetterVariable(PartialVariable):
    """An `operator.itemgetter`, `attrgetter` or `methodcaller`.

    Args:
        cls: the class of these three.
        body: computes a call: takes the arguments that made the object, then those of the call.
    """

    def __init__(
        self, cls: type, body: VariableTracker, args: Arguments, kwargs: Keywords, **options: Any
    ) -> None:
        super().__init__(body, args, kwargs, **options)
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        return unsupported("attribute", f"attribute {name!r} of a {self.cls.__name__}")

    def rebuild(self, residual: Residual) -> str:
        return f"{residual.reference(self.cls)}({residual.arguments(self.args, self.kwargs)})"


class CachedFunctionVariable(KnownObjectVariable):
    """A function under `functools.lru_cache`: its result for constants is a constant."""

    def __init__(self, value: Any, function: VariableTracker, **options: Any) -> None:
        super().__init__(value, **options)
        self.function = function

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "__wrapped__":
            return self.function
        if name in ("cache_info", "cache_clear", "cache_parameters"):
            unsupported("attribute", f"{name} of a function with a cache")
        return self.function.get_attribute(evaluator, name)

    def bind(self, owner: VariableTracker) -> VariableTracker:
        """``function.__get__(owner)``."""
        return BoundMethodVariable(self, owner)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        given = (*args, *kwargs.values())
        if is_of_trusted(self.value) and not all(a.is_constant() for a in given):
            return self.function.call(evaluator, args, kwargs)  # the cache only saves time
        if any(_has_varying_number(each) for each in given):
            return self._call_with_numbers(evaluator, args, kwargs)
        real = [_cache_key(evaluator, arg) for arg in args]
        named = {name: _cache_key(evaluator, value) for name, value in kwargs.items()}
        try:
            result = self.value(*real, **named)
        except Exception as error:  # noqa: BLE001 (whatever the user's function raises)
            raise_as_observed(error)
        return evaluator.capture.wrap(result, evaluator.capture.reference(result))

    def _call_with_numbers(
        self, evaluator: Evaluator, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        """Evaluate a call with sizes that vary: each size has an entry of its own in the cache."""
        effects = evaluator.capture.side_effects
        before = effects.writes
        with effects.apart():
            result = self.function.call(evaluator, args, kwargs)
        if effects.writes != before:
            unsupported("cached-function", "a cached function that changes objects")
        return result


def _has_varying_number(value: VariableTracker) -> bool:
    if isinstance(value, TupleVariable):
        return any(_has_varying_number(element) for element in value.realized())
    return isinstance(value, SymbolicNumberVariable)


_PLAIN_TUPLES: Any = (tuple, torch.Size)


def _cache_key(evaluator: Evaluator, argument: VariableTracker) -> object:
    """Return an argument as the cache sees it.

    It is a constant, an object that is guarded to be the same, or a tuple of these.
    """
    if isinstance(argument, ConstantVariable):
        return argument.value
    if isinstance(argument, TupleVariable) and (kind := argument.python_type()) in _PLAIN_TUPLES:
        keys: list[Any] = [_cache_key(evaluator, element) for element in argument.realized()]
        return kind(keys)
    real = getattr(argument, "value", MISSING)
    plain = real is not MISSING and inherits(type(real), "__hash__")
    if not plain or argument.source is None or argument.in_graph:
        unsupported("cached-function", "a cached function called with more than constants")
    if not argument.source.is_fixed:
        evaluator.capture.add_guard(id_match(argument.source, real, evaluator.source_line()))
    return real


def _paired(flat: Sequence[Any]) -> dict[Any, Any]:
    """Return a dict of keys and values that follow one another."""
    return dict(zip(flat[::2], flat[1::2], strict=True))
