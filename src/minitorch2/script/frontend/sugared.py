"""Sugared values that have a value in the graph, or elements that do: values, constants, tuples."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

import torch

from minitorch2.script.frontend.emission import (
    UNKNOWN,
    Arguments,
    Callee,
    Emission,
    Iteration,
    SugaredValue,
)
from minitorch2.script.frontend.refine import joined
from minitorch2.script.ir.graph import Graph, Value
from minitorch2.script.ir.python_constants import CONTAINERS, contents, first_changed
from minitorch2.script.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    STR,
    ClassType,
    DictType,
    EnumType,
    FunctionType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    members,
)
from minitorch2.script.operators.match import match_arguments
from minitorch2.script.operators.registry import overloads
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange

PROPERTIES: Final[Mapping[str, str]] = {
    "shape": "aten::size",
    "T": "aten::numpy_T",
    "mT": "aten::mT",
    "H": "aten::matrix_H",
    "mH": "aten::mH",
    "real": "aten::real",
    "imag": "aten::imag",
    "ndim": "aten::dim",
    **{
        name: f"prim::{name}"
        for name in (
            "dtype", "device", "layout", "requires_grad", "grad", "data", "is_leaf", "itemsize",
            "nbytes", "is_cuda", "is_cpu", "is_xpu", "is_sparse", "is_sparse_csr", "is_mkldnn",
            "is_quantized", "is_meta", "is_mps", "is_vulkan", "is_ipu", "is_nested", "name",
        )
    },
}  # fmt: skip
"""Attributes of tensors that are no methods, and the operators that give them."""

CASTS: Final[Mapping[str, torch.dtype]] = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "int": torch.int32,
    "long": torch.int64,
    "short": torch.int16,
    "char": torch.int8,
    "byte": torch.uint8,
    "bool": torch.bool,
    "cfloat": torch.complex64,
    "cdouble": torch.complex128,
}
"""Methods of tensors that change the dtype."""

METHODS: Final[Mapping[str, str]] = {
    "ndimension": "dim",
    "numel": "numel",
    "nelement": "numel",
    "wait": "wait",
    "__len__": "len",
}
"""Methods whose operators have other names."""

COPY_OF: Final = "copy_of"
"""The attribute of a list that copies one of Python: the text of the program that names it."""


def sugar(value: Value) -> SugaredValue:
    """Return the sugared form of a value in the graph; module types say theirs."""
    if isinstance(value.type, ClassType) and hasattr(value.type.owner, "sugar"):
        sugared: SugaredValue = value.type.owner.sugar(value)
        return sugared
    return SimpleValue(value)


@dataclass(frozen=True)
class SimpleValue(SugaredValue):
    """A value in the graph."""

    value: Value
    first_class = True

    @property
    def type(self) -> Type:
        """The static type of the value."""
        return self.value.type

    def describe(self) -> str:
        return f"a value of type {self.type}"

    def constant(self) -> Any:
        return None if self.type == NONE else UNKNOWN

    def as_value(self, emission: Emission, where: SourceRange) -> Value:
        return self.value

    def has_attr(self, name: str) -> bool:
        if isinstance(self.type, TensorType):
            return hasattr(torch.Tensor, name)
        if isinstance(self.type, TupleType):
            return name in (self.type.names or ())
        return bool(overloads(f"aten::{name}"))

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        if isinstance(self.type, TensorType) and name in PROPERTIES:
            return sugar(emission.emit(PROPERTIES[name], (self.value,), where))
        if isinstance(self.type, TupleType) and name in (self.type.names or ()):
            assert self.type.names is not None
            return self._element(emission, self.type.names.index(name), where)
        if isinstance(self.type, EnumType) and name in ("name", "value"):
            return self._of_member(emission, name, where)
        if self.type == DEVICE and name in ("type", "index"):
            return sugar(emission.emit(f"prim::{name}", (self.value,), where))
        if isinstance(self.type, OptionalType):
            raise self.not_refined(f"attribute {name}", where)
        return MethodValue(self.value, name)

    def _of_member(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        assert isinstance(self.type, EnumType)
        type_ = STR if name == "name" else self.type.value_type
        if type_ == ANY:
            what = "has members whose values have several types"
            raise self.refuse(what, where, code="script-wrong-type", fix="compare the members")
        kind = f"prim::Enum{name.capitalize()}"
        return sugar(emission.node(kind, (self.value,), (type_,), where).output)

    def not_refined(self, what: str, where: SourceRange) -> ScriptError:
        """Return the error for using an optional as if it were not None."""
        name = re.match(r"\w+(?=[.\[])", where.text())
        text = name.group() if name else "it"
        assert isinstance(self.type, OptionalType)
        return ScriptError(
            f"{text} may be None (its type is {self.type}), and None has no {what}",
            where,
            code="script-optional-not-refined",
            fix=f"test it before: `assert {text} is not None`, or `if {text} is not None:`",
        )

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        if isinstance(self.type, FunctionType):
            callee: Any = self.type.function
            return call_compiled(emission, callee, arguments, where)
        raise self.refuse("cannot be called", where, code="script-not-callable")

    def items(self, emission: Emission, where: SourceRange) -> list[SugaredValue] | None:
        if not isinstance(self.type, TupleType):
            return None
        node = emission.node("prim::TupleUnpack", (self.value,), self.type.elements, where)
        return [sugar(value) for value in node.outputs]

    def iteration(self, emission: Emission, where: SourceRange) -> Iteration:
        values = self.value
        if isinstance(self.type, DictType):
            values = emission.emit("aten::keys", (values,), where)
        elif isinstance(self.type, TensorType):
            values = emission.emit("aten::unbind", (values,), where)
        elif not isinstance(self.type, ListType) and self.type != STR:
            raise self.refuse("cannot be iterated over", where, code="script-not-iterable")
        trips = emission.emit("aten::len", (values,), where)
        return Iteration(
            trips, lambda at: sugar(emission.emit("aten::__getitem__", (values, at), where))
        )

    def get_item(self, emission: Emission, index: SugaredValue, where: SourceRange) -> SugaredValue:
        values = self.value
        if isinstance(self.type, TupleType):
            if index.constant() is not UNKNOWN or len(set(self.type.elements)) != 1:
                return self._element(emission, self._position(index, where), where)
            values = self._as_list(emission, where)
        if isinstance(self.type, OptionalType):
            raise self.not_refined("elements", where)
        key = index.as_value(emission, where)
        return sugar(emission.emit("aten::__getitem__", (values, key), where))

    def _as_list(self, emission: Emission, where: SourceRange) -> Value:
        """Return the elements of a tuple, which have one type, as a list."""
        assert isinstance(self.type, TupleType)
        node = emission.node("prim::TupleUnpack", (self.value,), self.type.elements, where)
        return list_of(emission, node.outputs, where)

    def _position(self, index: SugaredValue, where: SourceRange) -> int:
        assert isinstance(self.type, TupleType)
        position = index.constant()
        if not isinstance(position, int):
            fix = "use a constant index, or a list instead of the tuple"
            raise self.refuse("needs a constant index", where, code="script-tuple-index", fix=fix)
        length = len(self.type.elements)
        if not -length <= position < length:
            raise self.refuse(f"has no element {position}", where, code="script-tuple-index")
        return position % length

    def _element(self, emission: Emission, position: int, where: SourceRange) -> SugaredValue:
        assert isinstance(self.type, TupleType)
        at = emission.constant(position, where)
        element = self.type.elements[position]
        return sugar(emission.node("prim::TupleIndex", (self.value, at), (element,), where).output)

    def length(self, emission: Emission, where: SourceRange) -> SugaredValue:
        if isinstance(self.type, TupleType):
            return ConstantValue(len(self.type.elements))
        if isinstance(self.type, OptionalType):
            raise self.not_refined("length", where)
        return sugar(emission.emit("aten::len", (self.value,), where))


METHODS_IN_PYTHON: Final[dict[str, SugaredValue]] = {}
"""Methods of tensors that do more than the operator of their name, as the functions that they call.
`emit_calls`, which lies above, puts them here."""


@dataclass(frozen=True)
class MethodValue(SugaredValue):
    """A method of a value in the graph: ``x.relu``."""

    value: Value
    name: str

    def describe(self) -> str:
        return f"the method {self.name} of a value of type {self.value.type}"

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        of_tensor = isinstance(self.value.type, TensorType)
        if of_tensor and self.name in METHODS_IN_PYTHON:
            everything = [SimpleValue(self.value), *arguments.positional]
            function = METHODS_IN_PYTHON[self.name]
            return function.call(emission, replace(arguments, positional=everything), where)
        given, named = arguments.values(emission, where)
        if of_tensor and self.name in CASTS and not given:
            dtype = emission.constant(CASTS[self.name], where)
            return sugar(emission.emit("aten::to", (self.value, dtype), where, named))
        check_open(self._kind(where), arguments, 1, where)
        return sugar(emission.emit(self._kind(where), (self.value, *given), where, named))

    def as_type(self, emission: Emission, wanted: Type, where: SourceRange) -> SugaredValue:
        """Emit a call without arguments; numbers of a tensor are read as the type wanted."""
        of_tensor = isinstance(self.value.type, TensorType)
        if not of_tensor or self.name not in ("item", "tolist") or not is_of_numbers(wanted):
            return self.call(emission, Arguments(), where)
        tensor = self.value
        if self.name == "item" and wanted == FLOAT:
            number = emission.emit("aten::item", (tensor,), where)
            return sugar(emission.emit("aten::Float", (number,), where))
        if self.name == "item":
            tensor = emission.emit(
                "aten::reshape", (tensor, list_of(emission, (), where, INT)), where
            )
        return sugar(emission.node("prim::tolist", (tensor,), (wanted,), where).output)

    def _kind(self, where: SourceRange) -> str:
        name = METHODS.get(self.name, self.name)
        if overloads(f"aten::{name}"):
            return f"aten::{name}"
        if overloads(f"prim::{name}"):
            return f"prim::{name}"
        message, fix = f"a value of type {self.value.type} has no attribute {self.name}", None
        if name == "tolist":
            message = "the type of the list that tolist gives is not known"
            fix = "annotate it: `a: list[float] = x.tolist()`"
        raise ScriptError(message, where, code="script-no-attribute", fix=fix)


def is_of_numbers(given: Type) -> bool:
    """Tell whether a type is of numbers, or of lists of them at any depth."""
    if isinstance(given, ListType):
        return is_of_numbers(given.element)
    return given in (BOOL, INT, FLOAT, COMPLEX)


def check_open(kind: str, arguments: Arguments, before: int, where: SourceRange) -> None:
    """Check that a list of unknown length is all that an operator takes from some position on.

    Raises:
        ScriptError: further arguments might mean something else.
    """
    if not arguments.is_open:
        return
    last = before + len(arguments.positional) - 1
    for operator in overloads(kind):
        taken = [each for each in operator.schema.arguments if not each.kwarg_only]
        wanted = members(taken[last].type)[0] if last < len(taken) - 1 else None
        if isinstance(wanted, ListType):
            message = f"{kind} takes {taken[last + 1].name} after {taken[last].name}"
            message += ", and a star may give both"
            fix = "pass the list itself"
            raise ScriptError(message, where, code="script-star", fix=fix)


@dataclass(frozen=True)
class ConstantValue(SugaredValue):
    """A Python object that is known, and that the graph can hold: a number, a str, a dtype.

    Tuples and lists of such objects count as well.
    """

    object: Any
    text: str | None = None
    """The expression of the program that gives a list of Python, which the graph only copies."""
    first_class = True

    def describe(self) -> str:
        return f"the constant {self.object!r}"

    def constant(self) -> Any:
        return self.object

    def as_value(self, emission: Emission, where: SourceRange) -> Value:
        if not isinstance(self.object, list | tuple):
            return emission.constant(self.object, where)
        elements = [part.as_value(emission, where) for part in self._parts()]
        if not isinstance(self.object, list):
            return emission.tuple(elements, where)
        made = list_of(emission, elements, where)
        if self.text is not None:
            made.node.attributes[COPY_OF] = self.text
        return made

    def _parts(self) -> list[ConstantValue]:
        return [ConstantValue(part, self.text) for part in self.object]

    def has_attr(self, name: str) -> bool:
        return hasattr(self.object, name)

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        found = getattr(self.object, name, UNKNOWN)
        if found is not UNKNOWN and is_constant(found):
            return ConstantValue(found)
        return sugar(self.as_value(emission, where)).attr(emission, name, where)

    def items(self, emission: Emission, where: SourceRange) -> list[SugaredValue] | None:
        if not isinstance(self.object, list | tuple):
            return None
        return [*self._parts()]

    def iteration(self, emission: Emission, where: SourceRange) -> Iteration:
        return sugar(self.as_value(emission, where)).iteration(emission, where)

    def get_item(self, emission: Emission, index: SugaredValue, where: SourceRange) -> SugaredValue:
        at = index.constant()
        if at is UNKNOWN or not hasattr(self.object, "__getitem__"):
            return sugar(self.as_value(emission, where)).get_item(emission, index, where)
        try:
            found = self.object[at]
            return ConstantValue(found, None if isinstance(at, slice) else self.text)
        except (LookupError, TypeError) as error:
            raise self.refuse(f"has no element {at!r}", where, code="script-no-element") from error

    def length(self, emission: Emission, where: SourceRange) -> SugaredValue:
        if not hasattr(self.object, "__len__"):
            raise self.refuse("has no length", where, code="script-no-length")
        return ConstantValue(len(self.object))


_CONSTANTS: Final = (
    int, float, complex, str, bool, type(None), torch.dtype, torch.device, torch.layout,
    torch.memory_format,
)  # fmt: skip


def is_constant(given: Any) -> bool:
    """Tell whether a graph can hold a Python object as a constant."""
    if type(given) in (list, tuple, torch.Size):
        return all(map(is_constant, given))
    return isinstance(given, _CONSTANTS) and not isinstance(given, Enum)


@dataclass(frozen=True)
class TupleSugar(SugaredValue):
    """Several sugared values: a tuple that is made only if it is needed as a value."""

    values: Sequence[SugaredValue]

    @property
    def first_class(self) -> bool:  # type: ignore[override]
        """Tell whether all elements have values in the graph, other than modules."""
        return all(value.first_class and not value.is_module for value in self.values)

    def describe(self) -> str:
        return "a tuple"

    def constant(self) -> Any:
        found = tuple(value.constant() for value in self.values)
        return UNKNOWN if any(part is UNKNOWN for part in found) else found

    def as_value(self, emission: Emission, where: SourceRange) -> Value:
        return emission.tuple([value.as_value(emission, where) for value in self.values], where)

    def items(self, emission: Emission, where: SourceRange) -> list[SugaredValue] | None:
        return list(self.values)

    def get_item(self, emission: Emission, index: SugaredValue, where: SourceRange) -> SugaredValue:
        position = index.constant()
        if not isinstance(position, int) or not -len(self.values) <= position < len(self.values):
            return sugar(self.as_value(emission, where)).get_item(emission, index, where)
        return self.values[position]

    def length(self, emission: Emission, where: SourceRange) -> SugaredValue:
        return ConstantValue(len(self.values))


@dataclass(frozen=True)
class BoundMethod(SugaredValue):
    """A function of the compiler that stands for a method of a sugared value."""

    name: str
    function: Callable[[Emission, Arguments, SourceRange], SugaredValue]

    def describe(self) -> str:
        return f"the method {self.name}"

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        return self.function(emission, arguments, where)


def list_of(
    emission: Emission, values: Sequence[Value], where: SourceRange, element: Type | None = None
) -> Value:
    """Insert the construction of a list; elements of different types have their common type."""
    type_ = element or common_type([value.type for value in values], where)
    elements = [emission.cast(value, type_, where) for value in values]
    return emission.node("prim::ListConstruct", elements, (ListType(type_),), where).output


def common_type(types: Sequence[Type], where: SourceRange) -> Type:
    """Return the type of which all others are subtypes; of nothing, Tensor.

    Raises:
        ScriptError: there is none.
    """
    found = joined(types) if types else TensorType()
    if found is None:
        listed = ", ".join(dict.fromkeys(map(str, types)))
        message = f"elements of one list have different types: {listed}"
        fix = "give all elements one type, or use a tuple"
        raise ScriptError(message, where, code="script-mixed-list", fix=fix)
    return found


def keep_constants(emission: Emission, callee: Callee, where: SourceRange) -> None:
    """Keep what a called graph has read of Python objects, and defaults that may change.

    Raises:
        ScriptError: it is a trace, and what it has read has changed.
    """
    if first_changed(callee.constants):
        raise ScriptError(
            f"{callee.name} was recorded while Python's objects had other values",
            where,
            code="script-constant-changed",
            fix="trace it again",
        )
    emission.constants.update(callee.constants)
    for argument in callee.schema.arguments:
        if isinstance(argument.default, CONTAINERS):
            emission.constants.add(argument.default, contents, None, argument.default, where)


def call_compiled(
    emission: Emission, callee: Callee, arguments: Arguments, where: SourceRange
) -> SugaredValue:
    """Insert the call of a compiled function.

    Raises:
        ScriptError: the arguments do not fit its schema.
    """
    positional, named = arguments.values(emission, where)
    values = match_arguments(emission.graph, callee.schema, positional, named, where)
    keep_constants(emission, callee, where)
    if (known := _known_answer(callee)) is not None:
        return ConstantValue(known)
    results = [result.type for result in callee.schema.returns]
    return sugar(
        emission.node("prim::CallFunction", values, results, where, function=callee).output
    )


def _known_answer(callee: Callee) -> bool | None:
    """Return the bool that a function gives whatever it is called with, such as a setting."""
    graph: Graph | None = getattr(callee, "graph", None)
    if graph is None or len(graph.outputs) != 1 or graph.outputs[0].type != BOOL:
        return None
    if any(node.kind != "prim::Constant" for node in graph.nodes()):
        return None
    answer = graph.outputs[0].constant()
    return answer if isinstance(answer, bool) else None
