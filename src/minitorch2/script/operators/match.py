"""Calls of operators: finds the overload for arguments, and converts them as TorchScript does.

A call is planned by types alone, first without conversions of numbers and then with them; only the
plan that fits inserts nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from minitorch2.script.ir.graph import Graph, Value
from minitorch2.script.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NUMBER,
    STR,
    EnumType,
    ListType,
    OptionalType,
    PrimitiveType,
    TensorType,
    TupleType,
    Type,
    has_variables,
    is_subtype_of,
    match_type,
    substitute,
    type_of,
)
from minitorch2.script.operators.registry import overloads
from minitorch2.script.operators.schema import Argument, FunctionSchema
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange

# Inserts what makes an argument's value of the given one, and returns it.
Conversion: TypeAlias = Callable[[Graph, Value, SourceRange], Value]

# Names that Python's functions have for arguments, beside those of the schemas.
OTHER_NAMES: Final[Mapping[str, str]] = {
    "input": "self",
    "axis": "dim",
    "keepdims": "keepdim",
    "x1": "self",
    "x2": "other",
}

# The kinds that make a number of a tensor, or of another number.
NUMBERS_OF_TENSORS: Final[Mapping[Type, str]] = {
    INT: "aten::IntImplicit",
    FLOAT: "aten::FloatImplicit",
    NUMBER: "aten::ScalarImplicit",
}
WIDER_NUMBERS: Final[Mapping[tuple[Type, Type], str]] = {
    (INT, FLOAT): "aten::Float",
    (INT, COMPLEX): "aten::Complex",
    (FLOAT, COMPLEX): "aten::Complex",
    (BOOL, INT): "aten::Int",
    (BOOL, FLOAT): "aten::Float",
    (STR, DEVICE): "aten::device",
}


# -- conversion of one value --------------------------------------------------------------------


def keep(graph: Graph, value: Value, where: SourceRange) -> Value:
    """Use a value as it is."""
    return value


def _insert(graph: Graph, kind: str, inputs: Sequence[Value], type: Type, at: SourceRange) -> Value:
    return graph.insert(graph.create(kind, inputs, (type,), range=at)).output


def _call(kind: str, type: Type) -> Conversion:
    return lambda graph, value, where: _insert(graph, kind, (value,), type, where)


def _repeat(count: int, type: Type) -> Conversion:
    return lambda graph, value, where: _insert(
        graph, "prim::ListConstruct", (value,) * count, type, where
    )


def plan_conversion(value: Value, wanted: Type, *, implicit: bool) -> Conversion | None:
    """Return how a value becomes one of a type; None if it cannot.

    Args:
        value: the value that is there.
        wanted: a type without variables.
        implicit: whether numbers may be converted: tensor to number, `int` to `float`.
    """
    given = value.type
    if is_subtype_of(given, wanted):
        return keep
    if isinstance(wanted, OptionalType):
        return plan_conversion(value, wanted.element, implicit=implicit)
    if isinstance(wanted, ListType):
        return _plan_list(value, wanted, implicit)
    return _plan_number(given, wanted) if implicit else None


def _plan_number(given: Type, wanted: Type) -> Conversion | None:
    if isinstance(given, TensorType) and wanted in NUMBERS_OF_TENSORS:
        return _call(NUMBERS_OF_TENSORS[wanted], wanted)
    if (given, wanted) == (BOOL, NUMBER):
        return _call("prim::unchecked_cast", NUMBER)
    if (given, wanted) in WIDER_NUMBERS:
        return _call(WIDER_NUMBERS[given, wanted], wanted)
    if isinstance(given, EnumType) and given.is_plain and given.value_type == wanted:
        return _call("prim::EnumValue", wanted)
    return None


def _plan_list(value: Value, wanted: ListType, implicit: bool) -> Conversion | None:
    """Make a list of a tuple, or a literal of another element type."""
    if isinstance(value.type, TupleType):
        element = wanted.element
        fits = all(is_subtype_of(each, element) for each in value.type.elements)
        return _tuple_to_list(wanted) if fits else None
    if value.node.kind != "prim::ListConstruct" or len(value.uses) > 0:
        constant = value.constant()
        return _new_list(wanted, ()) if isinstance(constant, list) and not constant else None
    plans = [plan_conversion(v, wanted.element, implicit=implicit) for v in value.node.inputs]
    known = tuple(plan for plan in plans if plan is not None)
    return _new_list(wanted, known) if len(known) == len(plans) else None


def _tuple_to_list(wanted: ListType) -> Conversion:
    def convert_tuple(graph: Graph, value: Value, where: SourceRange) -> Value:
        assert isinstance(value.type, TupleType)
        unpack = graph.create("prim::TupleUnpack", (value,), value.type.elements, range=where)
        return _insert(graph, "prim::ListConstruct", graph.insert(unpack).outputs, wanted, where)

    return convert_tuple


def _new_list(wanted: ListType, plans: tuple[Conversion, ...]) -> Conversion:
    """Write a list literal again, with each element converted."""

    def convert_list(graph: Graph, value: Value, where: SourceRange) -> Value:
        items = [plan(graph, v, where) for plan, v in zip(plans, value.node.inputs)]
        return _insert(graph, "prim::ListConstruct", items, wanted, where)

    return convert_list


def convert(graph: Graph, value: Value, type: Type, range: SourceRange) -> Value | None:
    """Convert a value implicitly, as for an argument; None if it cannot be done."""
    plan = plan_conversion(value, type, implicit=True)
    return None if plan is None else plan(graph, value, range)


# -- one schema ---------------------------------------------------------------------------------


class Mismatch(Exception):
    """The arguments do not fit a schema.

    Attributes:
        matched: how many arguments fitted before.
        cause: what does not fit.
        name: the argument that does not fit; empty if none is to blame.
    """

    def __init__(self, matched: int, cause: str, name: str = "") -> None:
        super().__init__(cause)
        self.matched = matched
        self.cause = cause
        self.name = name


@dataclass
class Binding:
    """Makes the inputs of a call from the arguments given.

    Attributes:
        makers: one a parameter, each returns the value of the parameter.
        bindings: types of the schema's variables.
    """

    schema: FunctionSchema
    implicit: bool
    makers: list[Callable[[Graph, SourceRange], Value]] = field(default_factory=list)
    bindings: dict[str, Type] = field(default_factory=dict)

    def bind(self, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None:
        """Find a value for each parameter.

        Raises:
            Mismatch: it cannot be done.
        """
        rest, named = list(args), self._named(kwargs)
        for parameter in self.schema.arguments:
            if rest and not parameter.kwarg_only:
                self._check_once(parameter, named)
                self._positional(parameter, rest)
            elif parameter.name in named:
                self._give(parameter, named.pop(parameter.name))
            elif parameter.has_default:
                self.makers.append(_default(parameter))
            else:
                raise Mismatch(len(self.makers), "is not given", parameter.name)
        if named:
            raise Mismatch(len(self.makers), f"there is no parameter {next(iter(named))!r}")
        if rest and not self.schema.is_varargs:
            raise Mismatch(len(self.makers), f"{len(args)} positional arguments are too many")
        self.makers += [_given(value, keep) for value in rest]

    def _named(self, kwargs: Mapping[str, Value]) -> dict[str, Value]:
        """Name arguments as the schema does."""
        known = {parameter.name for parameter in self.schema.arguments}
        return {
            name if name in known else OTHER_NAMES.get(name, name): value
            for name, value in kwargs.items()
        }

    def _check_once(self, parameter: Argument, named: Mapping[str, Value]) -> None:
        if parameter.name in named:
            raise Mismatch(len(self.makers), "is given twice", parameter.name)

    def _positional(self, parameter: Argument, rest: list[Value]) -> None:
        plans = self._plan_elements(parameter, rest)
        if plans is None:
            self._give(parameter, rest.pop(0))
            return
        items = [_given(value, plan) for value, plan in zip(rest, plans, strict=True)]
        rest.clear()
        self.makers.append(
            lambda graph, where: _insert(
                graph,
                "prim::ListConstruct",
                [item(graph, where) for item in items],
                parameter.type,
                where,
            )
        )

    def _plan_elements(self, parameter: Argument, rest: Sequence[Value]) -> list[Conversion] | None:
        """Return how the other positional arguments become elements: ``x.view(2, 3)``."""
        wanted = parameter.type
        if not isinstance(wanted, ListType) or parameter is not self._last_positional():
            return None
        if parameter.fixed_length is not None or not isinstance(wanted.element, PrimitiveType):
            return None
        if wanted.element == ANY:  # `len(x)` would count x itself
            return None
        found = [plan_conversion(v, wanted.element, implicit=self.implicit) for v in rest]
        known = [plan for plan in found if plan is not None]
        return known if len(known) == len(found) else None

    def _last_positional(self) -> Argument | None:
        positional = [each for each in self.schema.arguments if not each.kwarg_only]
        return positional[-1] if positional else None

    def _give(self, parameter: Argument, value: Value) -> None:
        """Give a value to a parameter, converted if it must be."""
        plan = self._broadcast(parameter, value) or self._plan(parameter, value)
        if plan is None:
            wanted = substitute(parameter.type, self.bindings)
            cause = f"wants {wanted}, is given {value.type}"
            raise Mismatch(len(self.makers), cause, parameter.name)
        self.makers.append(_given(value, plan))

    def _plan(self, parameter: Argument, value: Value) -> Conversion | None:
        if match_type(parameter.type, value.type, self.bindings) is not None:
            return keep
        wanted = substitute(parameter.type, self.bindings)
        if has_variables(wanted):
            return None
        return plan_conversion(value, wanted, implicit=self.implicit)

    def _broadcast(self, parameter: Argument, value: Value) -> Conversion | None:
        """Make a list of one number for a list of fixed length: `int` for ``int[2]``."""
        wanted = parameter.type
        wanted = wanted.element if isinstance(wanted, OptionalType) else wanted
        if parameter.fixed_length is None or not isinstance(wanted, ListType):
            return None
        if is_subtype_of(value.type, wanted.element):
            return _repeat(parameter.fixed_length, wanted)
        plan = plan_conversion(value, wanted.element, implicit=True) if self.implicit else None
        if plan is None or isinstance(value.type, ListType | TupleType):
            return None
        first, again = plan, _repeat(parameter.fixed_length, wanted)
        return lambda graph, given, where: again(graph, first(graph, given, where), where)

    def values(self, graph: Graph, where: SourceRange) -> list[Value]:
        """Insert conversions and defaults, and return the values in the schema's order."""
        return [make(graph, where) for make in self.makers]

    def result_types(self) -> tuple[Type, ...]:
        """Return the types of the results.

        Raises:
            Mismatch: a type variable of a result is bound by no argument.
        """
        types = tuple(substitute(result.type, self.bindings) for result in self.schema.returns)
        for unbound in filter(has_variables, types):
            raise Mismatch(len(self.makers), f"nothing says what {unbound} of the result is")
        return types


def _given(value: Value, plan: Conversion) -> Callable[[Graph, SourceRange], Value]:
    return lambda graph, where: plan(graph, value, where)


def _default(parameter: Argument) -> Callable[[Graph, SourceRange], Value]:
    value = _fitting_default(parameter)
    if isinstance(value, list):  # a constant could be written to by the next reader
        return lambda graph, where: _insert(
            graph,
            "prim::ListConstruct",
            [graph.constant(item, range=where) for item in value],
            _list_type(parameter.type),
            where,
        )
    known = type_of(value)
    return lambda graph, where: graph.constant(value, type=known, range=where)


def _fitting_default(parameter: Argument) -> Any:
    """Return a default as the same argument would be passed.

    Numbers are converted, or repeated; a tuple for a list becomes one.
    """
    value, wanted = parameter.default, _list_type(parameter.type)
    if wanted == FLOAT and type(value) is int:
        return float(value)
    if isinstance(wanted, ListType) and isinstance(value, tuple):
        return [float(item) if wanted.element == FLOAT else item for item in value]
    if parameter.fixed_length is not None and isinstance(value, int | float):
        return [value] * parameter.fixed_length
    return value


def _list_type(given: Type) -> Type:
    return given.element if isinstance(given, OptionalType) else given


def _try(
    schema: FunctionSchema, args: Sequence[Value], kwargs: Mapping[str, Value], implicit: bool
) -> Binding | Mismatch:
    binding = Binding(schema, implicit)
    try:
        binding.bind(args, kwargs)
        binding.result_types()
    except Mismatch as mismatch:
        return mismatch
    return binding


def match_arguments(
    graph: Graph,
    schema: FunctionSchema,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    range: SourceRange,
) -> list[Value]:
    """Bind arguments to a schema, and insert defaults and conversions.

    Returns:
        One value a parameter, in the order of the schema.

    Raises:
        ScriptError: the arguments do not fit.
    """
    found = _try(schema, args, kwargs, True)
    if isinstance(found, Mismatch):
        raise _error(schema.name, [(schema, found)], args, kwargs, range)
    return found.values(graph, range)


def find_overload(
    kind: str, args: Sequence[Value], kwargs: Mapping[str, Value], range: SourceRange
) -> Binding:
    """Return the overload that arguments fit, without conversions of numbers if there is one.

    Raises:
        ScriptError: no overload fits, or the operator is unknown.
    """
    candidates = [operator.schema for operator in overloads(kind)]
    if not candidates:
        raise ScriptError(f"there is no operator {kind}", range, code="unknown-operator")
    return find_schema(kind, candidates, args, kwargs, range)


def find_schema(
    name: str,
    candidates: Sequence[FunctionSchema],
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    range: SourceRange,
) -> Binding:
    """Return the first schema that arguments fit, without conversions of numbers if there is one.

    Raises:
        ScriptError: none fits.
    """
    failures: list[tuple[FunctionSchema, Mismatch]] = []
    for implicit in (False, True):
        for schema in candidates:
            found = _try(schema, args, kwargs, implicit)
            if isinstance(found, Binding):
                return found
            failures.append((schema, found))
    raise _error(name, failures, args, kwargs, range)


def emit_operator(
    graph: Graph,
    kind: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    range: SourceRange,
) -> tuple[Value, ...]:
    """Insert the node of an operator that is called with Python's arguments.

    Args:
        graph: gets the node, and before it defaults as constants and conversions.
        kind: the operator, such as ``"aten::add"``; the overload is found.
        args: arguments by position.
        kwargs: arguments by name.
        range: the place of the call.

    Returns:
        The outputs of the node.

    Raises:
        ScriptError: no overload fits; the nearest one is shown argument by argument.
    """
    binding = find_overload(kind, args, kwargs, range)
    values = binding.values(graph, range)
    node = graph.create(kind, values, binding.result_types(), range=range)
    return tuple(graph.insert(node).outputs)


# -- errors -------------------------------------------------------------------------------------


def _error(
    name: str,
    failures: Sequence[tuple[FunctionSchema, Mismatch]],
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    where: SourceRange,
) -> ScriptError:
    """Return an error that shows the nearest schema argument by argument."""
    schema, mismatch = max(failures, key=lambda pair: (pair[1].matched, -len(pair[0].arguments)))
    given = [str(value.type) for value in args]
    given += [f"{key}={value.type}" for key, value in kwargs.items()]
    lines = [f"{name} cannot be called with ({', '.join(given)}); the nearest schema is {schema}"]
    for index, parameter in enumerate(schema.arguments):
        verdict = "fits" if index < mismatch.matched else ""
        verdict = mismatch.cause if parameter.name == mismatch.name else verdict
        if verdict:
            lines.append(f"  {parameter.name}: {verdict}")
    if not mismatch.name:
        lines.append(f"  {mismatch.cause}")
    return ScriptError("\n".join(lines), where, code="no-overload")
