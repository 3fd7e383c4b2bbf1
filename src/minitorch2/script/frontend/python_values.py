"""Python objects as sugared values: functions, operators of torch, classes, modules, constants."""

from __future__ import annotations

import inspect
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from minitorch2.native.torch_internals.functions import as_pair, as_quadruple, as_single, as_triple
from minitorch2.native.torch_internals.operators import OpOverload, OpOverloadPacket
from minitorch2.script.frontend.annotations import (
    named_tuple_type,
)
from minitorch2.script.frontend.emission import UNKNOWN, Arguments, Emission, SugaredValue
from minitorch2.script.frontend.known_arguments import known_arguments
from minitorch2.script.frontend.python_calls import (
    PythonFunction,
    call_python,
    is_autograd_function,
    raise_unused,
    result_of_python,
    script_mark,
)
from minitorch2.script.frontend.sugared import (
    ConstantValue,
    SimpleValue,
    TupleSugar,
    call_compiled,
    check_open,
    is_constant,
    list_of,
    sugar,
)
from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.python_constants import CONTAINERS, PythonConstants, Reader, contents
from minitorch2.script.ir.types import ListType, PrimitiveType, TupleType, Type, is_subtype_of
from minitorch2.script.operators.match import convert
from minitorch2.script.operators.registry import overloads
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import NOWHERE, SourceRange

Predicate = Callable[[Any], bool]
Maker = Callable[[Any, PythonConstants], SugaredValue]

_MAKERS: Final[list[tuple[Predicate, Maker]]] = []
"""Sugared values of kinds of objects that higher rooms know; the latest comes first."""

Form = Callable[[Emission, Arguments, SourceRange], SugaredValue]

FORMS: Final[dict[Any, Form]] = {}
"""Functions of Python that the compiler knows, such as `len`; by the object, or its full name."""

STATIC_CONDITIONS: Final[Mapping[str, bool]] = {
    "is_scripting": True,
    "is_tracing": False,
    "is_compiling": False,
    "is_dynamo_compiling": False,
    "is_exporting": False,
    "is_grad_enabled_or_scripting": True,
    "has_torch_function": False,
    "has_torch_function_unary": False,
    "has_torch_function_variadic": False,
    "_has_torch_function": False,
    "_has_torch_function_unary": False,
    "_has_torch_function_variadic": False,
    "is_in_onnx_export": False,
    "is_torchscript": True,
}
"""Functions without a meaning in a graph, and what they answer while a program is compiled."""

_RENAMED: Final[Mapping[Any, str]] = {
    torch.clamp: "clamp",
    torch.numel: "numel",
    as_single: "_single",
    as_pair: "_pair",
    as_triple: "_triple",
    as_quadruple: "_quadruple",
}


def register_sugar(predicate: Predicate, maker: Maker) -> None:
    """Let objects of which `predicate` is true be what `maker` makes of them."""
    _MAKERS.insert(0, (predicate, maker))


def to_sugared_value(
    given: Any, where: SourceRange, constants: PythonConstants | None = None
) -> SugaredValue:
    """Return what a Python object is in a program (TorchScript overview, Python-Compiler).

    Args:
        given: the object.
        where: the expression that gives it.
        constants: keeps what the program reads of it.
    """
    constants = PythonConstants() if constants is None else constants
    if isinstance(given, SugaredValue):
        return given
    if isinstance(given, Value):
        return sugar(given)
    for predicate, maker in _MAKERS:
        if predicate(given):
            return maker(given, constants)
    if is_constant(given):
        return ConstantValue(given, where.text())
    if callable(given) and (form := form_of(given)) is not None:
        return FormValue(given, constants, form=form)
    if isinstance(given, type):
        return ClassValue(given, constants)
    if (kind := operator_kind(given)) is not None:
        return OperatorValue(kind, takes_many=_takes_many(given, kind), source=_source_of(given))
    if isinstance(given, types.MethodType) and is_autograd_function(given.__self__):
        return PythonFunction(given, given.__self__)
    if isinstance(given, types.MethodType):
        return BoundFunction(given.__func__, to_sugared_value(given.__self__, where, constants))
    if isinstance(given, types.FunctionType):
        return function_value(given)
    if isinstance(given, property | staticmethod | classmethod):
        return (
            to_sugared_value(given.__func__, where)
            if hasattr(given, "__func__")
            else ObjectValue(given, constants)
        )
    return ObjectValue(given, constants)


def function_value(given: types.FunctionType) -> SugaredValue:
    """Return the sugared form of a Python function."""
    name = given.__name__
    if name in STATIC_CONDITIONS and not inspect.signature(given).parameters:
        return StaticCondition(STATIC_CONDITIONS[name])
    branches = boolean_dispatch(given)
    return FunctionValue(given) if branches is None else DispatchedFunction(name, branches)


def form_of(given: Any) -> Form | None:
    """Return what the compiler does at a call of a function that it knows."""
    try:
        if given in FORMS:
            return FORMS[given]
    except TypeError:
        return None
    if isinstance(given, types.FunctionType):
        return FORMS.get(f"{str(given.__module__).partition('.')[0]}:{given.__name__}")
    if isinstance(given, types.BuiltinFunctionType) and given.__name__ in STATIC_CONDITIONS:
        known = STATIC_CONDITIONS[given.__name__]
        return lambda emission, arguments, where: ConstantValue(known)
    return None


def operator_kind(given: Any) -> str | None:
    """Return the kind of node for a function of torch that is written in C++, or None."""
    if isinstance(given, OpOverloadPacket):
        return str(given._qualified_op_name)
    if isinstance(given, OpOverload):
        return f"{given.namespace}::{given._schema.name.partition('::')[2]}"
    is_function = isinstance(given, types.BuiltinFunctionType | types.FunctionType)
    if is_function and given in _RENAMED:
        return f"aten::{_RENAMED[given]}"
    if isinstance(given, types.BuiltinFunctionType | types.MethodDescriptorType):
        kind = f"aten::{given.__name__}"
        return kind if _is_of_torch(given) and overloads(kind) else None
    if isinstance(given, types.FunctionType) and _is_of_torch(given) and not _compiles(given):
        kind = f"aten::{given.__name__}"
        return kind if overloads(kind) else None
    return None


_PYTHON_WRAPPERS: Final = frozenset({"torch.functional", "torch._tensor", "torch._linalg_utils"})
"""Modules whose functions prepare arguments in Python for the operator of the same name."""


def _compiles(function: types.FunctionType) -> bool:
    """Tell whether a function of torch means what its source says, and not what its operator does.

    The operator `unique_consecutive` always gives three tensors, and `stft` pads nothing.
    """
    is_wrapper = function.__module__ in _PYTHON_WRAPPERS
    return not is_wrapper or function is torch.stft or boolean_dispatch(function) is not None


def _is_of_torch(given: Any) -> bool:
    module = getattr(given, "__module__", None) or ""
    if module.partition(".")[0] == "torch":
        return True
    owner = getattr(given, "__objclass__", None) or getattr(given, "__self__", None)
    return "_VariableFunctions" in f"{owner!r} {given.__qualname__}" or (
        getattr(owner, "__module__", "") or ""
    ).startswith("torch")


def boolean_dispatch(function: types.FunctionType) -> Mapping[str, Any] | None:
    """Return what a function of two versions chooses by: cells of its closure, or None."""
    names = function.__code__.co_freevars
    if not {"if_true", "if_false", "arg_name", "arg_index", "default"} <= set(names):
        return None
    return dict(zip(names, (cell.cell_contents for cell in function.__closure__ or ())))


@dataclass(frozen=True)
class ObjectValue(SugaredValue):
    """A Python object of no kind that the language knows; its attributes may be of one.

    `constants` keeps the values that the program reads of it.
    """

    object: Any
    constants: PythonConstants = field(default_factory=PythonConstants, compare=False)

    def describe(self) -> str:
        name = getattr(self.object, "__qualname__", getattr(self.object, "__name__", None))
        return f"{name or 'an object of class ' + type(self.object).__name__}"

    def constant(self) -> Any:
        if isinstance(self.object, CONTAINERS):
            self.constants.add(self.object, contents, None, self.object, NOWHERE)
        return self.object

    def has_attr(self, name: str) -> bool:
        found = hasattr(self.object, name)
        self.constants.add(self.object, hasattr, name, found, NOWHERE)
        return found

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        try:
            return self._read(getattr, name, where)
        except AttributeError:
            raise self.refuse(
                f"has no attribute {name}", where, code="script-no-attribute"
            ) from None

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        method = inspect.getattr_static(type(self.object), "__call__", None)
        if not isinstance(method, types.FunctionType):
            return super().call(emission, arguments, where)
        return self.attr(emission, "__call__", where).call(emission, arguments, where)

    def _read(self, read: Reader, key: Any, where: SourceRange) -> SugaredValue:
        """Return what a reading of the object gives, and keep it."""
        found = read(self.object, key)
        self.constants.add(self.object, read, key, found, where)
        return to_sugared_value(found, where, self.constants)

    def items(self, emission: Emission, where: SourceRange) -> list[SugaredValue] | None:
        if not isinstance(self.object, list | tuple):
            return None
        self.constants.add(self.object, contents, None, self.object, where)
        return [to_sugared_value(part, where, self.constants) for part in self.object]

    def get_item(self, emission: Emission, index: SugaredValue, where: SourceRange) -> SugaredValue:
        at = index.constant()
        if at is UNKNOWN or not hasattr(self.object, "__getitem__"):
            raise self.refuse("has no elements", where, code="script-not-subscriptable")
        try:
            return self._read(operator.getitem, at, where)
        except (LookupError, TypeError) as error:
            raise self.refuse(f"has no element {at!r}", where, code="script-no-element") from error

    def length(self, emission: Emission, where: SourceRange) -> SugaredValue:
        if not hasattr(self.object, "__len__"):
            raise self.refuse("has no length", where, code="script-no-length")
        return self._read(_length, None, where)


def _length(given: Any, _: Any) -> int:
    return len(given)


@dataclass(frozen=True)
class FormValue(ObjectValue):
    """A function that the compiler knows."""

    form: Form = field(kw_only=True)

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        if has_signature(self.object):
            bind(self.object, arguments, where)
        return self.form(emission, arguments, where)


@dataclass(frozen=True)
class StaticCondition(SugaredValue):
    """A function whose answer is known while a program is compiled."""

    known: bool

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        return ConstantValue(self.known)


@dataclass(frozen=True)
class OperatorValue(SugaredValue):
    """An operator of the registry: ``torch.relu``."""

    kind: str
    takes_many: int | None = None
    """The position from which on arguments are the elements of a list: ``*tensors``."""
    source: SugaredValue | None = None
    """The function in Python that prepares other arguments: ``torch.norm(x, dim=1)``."""

    def describe(self) -> str:
        return f"the operator {self.kind}"

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        check_open(self.kind, arguments, 0, where)
        given, named = arguments.values(emission, where)
        if self.takes_many is not None and len(given) > self.takes_many:
            given = self._gathered(emission, given, self.takes_many, where)
        try:
            return sugar(emission.emit(self.kind, given, where, named))
        except ScriptError as error:
            return self._from_source(emission, arguments, where, error)

    def _from_source(
        self, emission: Emission, arguments: Arguments, where: SourceRange, refusal: ScriptError
    ) -> SugaredValue:
        """Call the function in Python; where it does not compile, the operator's refusal is told.

        Raises:
            ScriptError: neither takes the arguments.
        """
        if self.source is None:
            raise refusal
        try:
            return self.source.call(emission, arguments, where)
        except ScriptError:
            raise refusal from None

    def _gathered(
        self, emission: Emission, given: list[Value], first: int, where: SourceRange
    ) -> list[Value]:
        if len(given) == first + 1 and isinstance(given[first].type, ListType | TupleType):
            return given
        return [*given[:first], list_of(emission, given[first:], where)]


def _source_of(given: Any) -> SugaredValue | None:
    is_wrapper = isinstance(given, types.FunctionType) and given.__module__ in _PYTHON_WRAPPERS
    return FunctionValue(given) if is_wrapper else None


def _takes_many(given: Any, kind: str) -> int | None:
    """Return the position of ``*tensors`` in a function of torch whose operator takes a list."""
    if not isinstance(given, types.FunctionType):
        return None
    parameters = inspect.signature(given).parameters.values()
    if all(parameter.kind != inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    found = {
        next((i for i, each in enumerate(o.schema.arguments) if _is_listed(each.type)), None)
        for o in overloads(kind)
        if not o.schema.is_varargs
    }
    return found.pop() if len(found) == 1 else None


def _is_listed(wanted: Type) -> bool:
    """Tell whether a parameter takes a list of tensors."""
    element = wanted.element if isinstance(wanted, ListType) else None
    return element is not None and not isinstance(element, PrimitiveType | ListType)


@dataclass(frozen=True)
class FunctionValue(SugaredValue):
    """A Python function, which is compiled when it is called."""

    function: types.FunctionType

    def describe(self) -> str:
        return f"the function {self.function.__qualname__}"

    def constant(self) -> Any:
        return self.function

    def has_attr(self, name: str) -> bool:
        return hasattr(self.function, name)

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        mark = script_mark(self.function)
        if mark == "unused":
            return raise_unused(emission, self.function, where)
        if mark == "ignore":
            type_ = result_of_python(self.function)
            return call_python(emission, self.function, arguments, where, type_)
        bound, names = bind(self.function, arguments, where)
        values = {k: v.as_value(emission, where) for k, v in bound.items() if v.first_class}
        fixed = {name: given for name, given in bound.items() if name not in values}
        parameters = [*inspect.signature(self.function).parameters.values()]
        known = known_arguments(parameters, Arguments([], bound))
        callee = emission.compiler(self.function, values, fixed, known, where)
        return call_compiled(emission, callee, _of(callee, values, names), where)


def _of(callee: Any, values: Mapping[str, Value], names: Sequence[str]) -> Arguments:
    expected = {argument.name for argument in callee.schema.arguments}
    passed = [name for name in names if name in values and name in expected]
    return Arguments([], {name: SimpleValue(values[name]) for name in passed})


def has_signature(function: Any) -> bool:
    """Return whether Python tells which arguments a function takes; not of all built-in ones."""
    try:
        return bool(inspect.signature(function))
    except (TypeError, ValueError):
        return False


def bind(
    function: Callable[..., Any], arguments: Arguments, where: SourceRange
) -> tuple[dict[str, SugaredValue], list[str]]:
    """Return the argument of each parameter that is given one, and the parameters in order.

    Raises:
        ScriptError: the arguments do not fit.
    """
    signature = inspect.signature(function)
    try:
        found = signature.bind(*arguments.positional, **arguments.keywords).arguments
    except TypeError as error:
        message = f"{function.__qualname__}{signature} is called wrongly: {error}"
        raise ScriptError(message, where, code="script-wrong-arguments") from error
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    bound = dict[str, SugaredValue]()
    for name, given in found.items():
        if kinds[name] == inspect.Parameter.VAR_POSITIONAL:
            bound[name] = TupleSugar(given)
        elif kinds[name] != inspect.Parameter.VAR_KEYWORD:
            bound[name] = given
        elif given:
            message = f"the parameter **{name} takes {', '.join(given)}"
            raise ScriptError(message, where, code="script-keyword-parameters")
    return bound, list(kinds)


@dataclass(frozen=True)
class BoundFunction(SugaredValue):
    """A Python method with the object that it belongs to."""

    function: Any
    receiver: SugaredValue

    def describe(self) -> str:
        return f"the method {self.function.__qualname__}"

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        given = Arguments([self.receiver, *arguments.positional], arguments.keywords)
        return to_sugared_value(self.function, where).call(emission, given, where)


@dataclass(frozen=True)
class DispatchedFunction(SugaredValue):
    """A function with two versions, chosen by an argument that has to be a constant."""

    name: str
    choice: Mapping[str, Any]

    def describe(self) -> str:
        return f"the function {self.name}"

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        name, index = self.choice["arg_name"], self.choice["arg_index"]
        decides: Any = self.choice["default"]
        if name in arguments.keywords:
            decides = arguments.keywords[name].constant()
        elif len(arguments.positional) > index:
            decides = arguments.positional[index].constant()
        if decides is UNKNOWN:
            fix = f"give {name} as True or False"
            raise self.refuse(
                f"needs a constant {name}", where, code="script-constant-argument", fix=fix
            )
        chosen = self.choice["if_true" if decides else "if_false"]
        return to_sugared_value(chosen, where).call(emission, arguments, where)


@dataclass(frozen=True)
class ClassValue(ObjectValue):
    """A Python class: NamedTuples can be made, context managers entered."""

    object: Any

    def describe(self) -> str:
        return f"the class {self.object.__qualname__}"

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        if issubclass(self.object, tuple) and hasattr(self.object, "_fields"):
            return self._named_tuple(emission, arguments, where)
        if issubclass(self.object, BaseException):
            return ExceptionValue(self.object, arguments)
        if hasattr(self.object, "__enter__") and self.object is not torch.device:
            return call_python(emission, self.object, arguments, where)
        constants = [argument.constant() for argument in arguments.positional]
        if not arguments.keywords and all(is_constant(given) for given in constants):
            made = _make(self.object, constants, where)
            if is_constant(made):
                return ConstantValue(made)
        if overloads(f"aten::{self.object.__name__}") and _is_of_torch(self.object):
            return OperatorValue(f"aten::{self.object.__name__}").call(emission, arguments, where)
        fix = "use tensors, numbers, lists, dicts, tuples, NamedTuples or modules"
        raise self.refuse("cannot be made in a script", where, code="script-class", fix=fix)

    def _named_tuple(
        self, emission: Emission, arguments: Arguments, where: SourceRange
    ) -> SugaredValue:
        type_ = named_tuple_type(self.object)
        bound, names = bind(self.object, arguments, where)
        defaults = getattr(self.object, "_field_defaults", {})
        given = [
            (bound[name] if name in bound else to_sugared_value(defaults[name], where))
            for name in names
        ]
        values = [
            converted(emission, value.as_value(emission, where), wanted, where)
            for value, wanted in zip(given, type_.elements)
        ]
        node = emission.node("prim::TupleConstruct", values, (type_,), where, name=type_.name)
        return sugar(node.output)


def converted(emission: Emission, value: Value, type_: Type, where: SourceRange) -> Value:
    """Return a value as one of a type.

    Raises:
        ScriptError: it is of another type.
    """
    if is_subtype_of(value.type, type_):
        return emission.cast(value, type_, where)
    found = convert(emission.graph, value, type_, where)
    if found is None:
        message = f"a value of type {value.type} stands where {type_} is needed"
        raise ScriptError(
            message, where, code="script-wrong-type", fix=f"give a value of type {type_}"
        )
    return found


def _make(cls: type, arguments: Sequence[Any], where: SourceRange) -> Any:
    try:
        return cls(*arguments)
    except Exception as error:
        message = f"{cls.__qualname__} refuses its arguments: {error}"
        raise ScriptError(message, where, code="script-wrong-arguments") from error


@dataclass(frozen=True)
class ExceptionValue(SugaredValue):
    """An exception that is to be raised."""

    cls: type[BaseException]
    arguments: Arguments

    def describe(self) -> str:
        return f"an exception {self.cls.__name__}"
