"""Values that are fully known while capturing: numbers, strings, None, dtypes, devices, ...

Operations on constants are folded: the real Python operation runs at once, and its exception is
raised in the user's program. Folded results of other types (``"a b".split()`` gives a list) are
wrapped by `literal`, to which each tracker of a container type registers itself.
"""

from __future__ import annotations

import decimal
import enum
import fractions
import math
import re
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy
import torch

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import BoundMethodVariable, GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_as_observed, raise_observed
from minitorch2.bytecode.trackers.torch_values.tensor_names import words
from minitorch2.graph.node import Argument

SCALAR_TYPES = (int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented))
OTHER_CONSTANT_TYPES: list[type] = [
    decimal.Decimal,
    fractions.Fraction,
    types.UnionType,
    types.GenericAlias,
    re.Pattern,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.finfo,
    torch.iinfo,
    torch.nn.attention.SDPBackend,
    numpy.dtype,
]
_LITERAL_TYPES = (int, float, bool, str, bytes, type(None), type(...))

OPERATORS = words(
    "__lt__ __le__ __eq__ __ne__ __gt__ __ge__ __add__ __sub__ __mul__ __truediv__ __floordiv__"
    " __mod__ __divmod__ __pow__ __matmul__ __lshift__ __rshift__ __and__ __or__ __xor__ __radd__"
    " __rsub__ __rmul__ __rtruediv__ __rfloordiv__ __rmod__ __rdivmod__ __rpow__ __rmatmul__"
    " __rlshift__ __rrshift__ __rand__ __ror__ __rxor__"
)
"""Special methods that answer NotImplemented to operands that they do not know."""

CONSTANT_CONTEXTS: dict[type, dict[str, Callable[..., VariableTracker]]] = {}
"""The rules for entering and leaving a constant: ``with torch.device(...)``."""

TEXT_METHODS: dict[str, Callable[..., VariableTracker]] = {}
"""Methods of strings that show other values: (evaluator, text, args, kwargs) -> outcome."""

_LITERALS: dict[type, Callable[[Any], VariableTracker]] = {}


def is_constant_value(value: object) -> bool:
    """Return whether `ConstantVariable` represents a Python value."""
    return type(value) in SCALAR_TYPES or issubclass(
        type(value), (*OTHER_CONSTANT_TYPES, enum.Enum)
    )


def is_constant_key(value: object) -> bool:
    """Return whether a key is a constant, a scalar of NumPy, or a tuple of such."""
    if type(value) is tuple:
        return all(map(is_constant_key, value))
    return is_constant_value(value) or isinstance(value, numpy.number | numpy.bool_)


def register_literal(cls: type, wrap: Callable[[Any], VariableTracker]) -> None:
    """Register the function by which `literal` wraps values of exactly this class."""
    _LITERALS[cls] = wrap


def literal(value: object) -> VariableTracker:
    """Return the tracker of a value that was made while capturing out of constants only.

    Raises:
        UnsupportedError: no tracker is registered for the value's class.
    """
    if is_constant_value(value):
        return ConstantVariable(value)
    if type(value) in _LITERALS:
        return _LITERALS[type(value)](value)
    if isinstance(value, re.Match | numpy.generic | numpy.finfo | numpy.iinfo):
        return ConstantVariable(value)
    if isinstance(value, Iterator):
        return _LITERALS[type(iter([]))](list(value))
    if isinstance(value, type):
        return _LITERALS[type](value)
    return unsupported("folded-value", f"a folded operation gave a {type(value).__name__}")


def fold(
    function: Callable[..., object], args: Arguments, kwargs: Keywords | None = None
) -> VariableTracker:
    """Call a pure function on constants now; its exception is raised in the user's program."""
    real_args = [arg.as_constant() for arg in args]
    real_kwargs = {name: value.as_constant() for name, value in (kwargs or {}).items()}
    try:
        result = function(*real_args, **real_kwargs)
    except Exception as error:  # noqa: BLE001 (whatever the user's operation raises)
        raise_as_observed(error)
    return literal(result)


def refuse_attribute(kind: type, name: str) -> None:
    """Raise what CPython does where an attribute is set on an object that has no dict.

    Raises:
        ObservedError: the user's AttributeError.
    """
    found = [vars(cls)[name] for cls in kind.__mro__ if name in vars(cls)]
    if kind.__dictoffset__ or any(hasattr(type(raw), "__set__") for raw in found):
        return
    said = f"attribute {name!r} is read-only" if found else f"has no attribute {name!r}"
    raise_observed(AttributeError, f"{kind.__name__!r} object {said}")


class ConstantVariable(VariableTracker):
    """A constant (slides: ``ConstantVariable(value=1)``)."""

    def __init__(self, value: object, **options: Any) -> None:
        super().__init__(**options)
        self.value = value

    def __repr__(self) -> str:
        return f"ConstantVariable(value={self.value!r})"

    def python_type(self) -> type:
        return type(self.value)

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> Any:
        return self.value

    def as_argument(self) -> Argument:
        if isinstance(self.value, enum.Enum) and not isinstance(self.value, int | str):
            unsupported("not-a-graph-argument", f"{self} cannot be an argument of a graph node")
        return self.value

    def hash_key(self) -> Hashable:
        if isinstance(self.value, float | numpy.floating) and math.isnan(self.value):
            return ("object", id(self.value))
        return ("constant", self.value)

    def truth(self, evaluator: Evaluator) -> bool:
        try:
            return bool(self.value)
        except Exception as error:  # noqa: BLE001 (whatever the user's operation raises)
            raise_as_observed(error)

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        if not isinstance(self.value, str | bytes | enum.Flag):
            raise_observed(TypeError, f"'{type(self.value).__name__}' object is not iterable")
        return [ConstantVariable(item) for item in self.value]

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        refuse_attribute(type(self.value), name)
        super().set_attribute(evaluator, name, value)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        try:
            attribute = getattr(self.value, name)
        except AttributeError as error:
            raise_as_observed(error)
        if isinstance(attribute, types.BuiltinMethodType | types.MethodWrapperType):
            return GetAttrVariable(self, name)
        if isinstance(attribute, types.MethodType | types.FunctionType | type):
            return _python_attribute(evaluator, self, attribute)
        if isinstance(self.value, types.UnionType):  # its parts are classes
            return evaluator.capture.wrap(attribute, evaluator.capture.reference(attribute))
        return literal(attribute)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        if not isinstance(self.value, enum.Enum) or not callable(self.value):
            return super().call(evaluator, args, kwargs)
        return self.get_attribute(evaluator, "__call__").call(evaluator, args, kwargs)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        method = getattr(self.value, name, None)
        if not isinstance(method, types.BuiltinMethodType | types.MethodWrapperType):
            return self.get_attribute(evaluator, name).call(evaluator, args, kwargs)
        if name in ("__enter__", "__exit__"):
            return CONSTANT_CONTEXTS[type(self.value)][name](evaluator, self, *args)
        known = all(arg.is_foldable() for arg in (*args, *kwargs.values()))
        if not known and isinstance(self.value, str | re.Pattern) and name in TEXT_METHODS:
            return TEXT_METHODS[name](evaluator, self.value, args, kwargs)
        if name in OPERATORS and not known:
            if name == "__mod__" and isinstance(self.value, bytes):
                unsupported("format", "the text of a value is not known while capturing")
            return ConstantVariable(NotImplemented)
        if name == "join" and len(args) == 1:
            parts = [part.as_constant() for part in args[0].items(evaluator)]
            return fold(method, [_Folded(parts)])
        return fold(method, args, kwargs)

    def reconstruct(self, residual: Residual) -> str:
        value = self.value
        is_named = isinstance(value, float) and not math.isfinite(value)
        if type(value) in _LITERAL_TYPES and not is_named:
            return "..." if value is ... else repr(value)
        cls = residual.references.stands_for(type(value))  # an enumeration that each call makes
        if cls is not None and isinstance(value, enum.Enum):
            return f"{residual.name_for(cls)}[{value.name!r}]"
        return residual.reference(value, type(value).__name__)


class _Folded(ConstantVariable):
    """A container of constants on its way into a folded call."""


def _python_attribute(
    evaluator: Evaluator, owner: VariableTracker, attribute: object
) -> VariableTracker:
    """Return a class, or a method that a Python class gives to a constant (of an enum, say)."""
    function = getattr(attribute, "__func__", attribute)
    wrapped = evaluator.capture.wrap(function, evaluator.capture.reference(function))
    if not isinstance(attribute, types.MethodType):
        return wrapped
    owned = owner if attribute.__self__ is owner.as_constant() else literal(attribute.__self__)
    return BoundMethodVariable(wrapped, owned)


NONE = ConstantVariable(None)
"""Python's None."""

NOT_IMPLEMENTED = ConstantVariable(NotImplemented)
"""The answer of a binary special method that lets the other operand try."""


def is_none(value: VariableTracker | None) -> bool:
    """Return whether an optional argument was left out, or is known to be None."""
    return value is None or (isinstance(value, ConstantVariable) and value.value is None)
