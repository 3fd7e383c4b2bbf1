"""Functions become graphs: source, tree, signature, nodes, and the steps to SSA form."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any, Final
from weakref import WeakKeyDictionary

from minitorch2.script.frontend.annotations import (
    broadcast_length,
    comment_types,
    is_foreign,
    known_annotation,
    type_of_annotation,
)
from minitorch2.script.frontend.decorators import contexts_of, undecorated, within_contexts
from minitorch2.script.frontend.emission import SugaredValue
from minitorch2.script.frontend.emit_statements import StatementEmitter
from minitorch2.script.frontend.exit_transform import exit_transform
from minitorch2.script.frontend.known_arguments import Known, compile_for_call
from minitorch2.script.frontend.python_values import to_sugared_value
from minitorch2.script.frontend.refine import joined
from minitorch2.script.frontend.resolver import Resolver, resolver_of, text_resolver
from minitorch2.script.frontend.sugared import sugar
from minitorch2.script.frontend.to_ssa import to_ssa
from minitorch2.script.ir.graph import Graph, Value
from minitorch2.script.ir.python_constants import PythonConstant, first_changed
from minitorch2.script.ir.types import (
    NONE,
    TENSOR,
    ClassType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    is_module_type,
    type_of,
)
from minitorch2.script.operators.match import find_schema
from minitorch2.script.operators.schema import NO_DEFAULT, Argument, FunctionSchema
from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.errors import ScriptError, compiling
from minitorch2.script.syntax.from_ast import function_from_ast
from minitorch2.script.syntax.reading import overloads_of, source_of
from minitorch2.script.syntax.source import SourceRange


@dataclass(eq=False)
class CompiledFunction:
    """A function as a graph; ``prim::CallFunction`` nodes of other graphs call it.

    Attributes:
        constants: what the graph, and those that it calls, have read of Python objects.
    """

    name: str
    schema: FunctionSchema
    graph: Graph = field(repr=False)
    constants: tuple[PythonConstant, ...] = ()


@dataclass(frozen=True)
class Signature:
    """Parameters of a function: what has a value in the graph, and what the caller fixes."""

    arguments: Sequence[Argument]
    returns: Type | None
    fixed: Mapping[str, SugaredValue]


def compile_function(
    function: Callable[..., Any],
    *,
    types: Mapping[str, Type] | None = None,
    fixed: Mapping[str, SugaredValue] | None = None,
    called_at: SourceRange | None = None,
    header: t.Def | None = None,
    known: Known | None = None,
) -> CompiledFunction:
    """Compile a Python function to a graph.

    Args:
        function: a function that Python has loaded from a file.
        types: types of parameters that have no annotation.
        fixed: what parameters are that have no value in the graph.
        called_at: the call that needs the function.
        header: the overload to compile; by default the first one, if there are any.
        known: arguments that the graph has no inputs for.

    Raises:
        ScriptError: the function is no program of the language.
    """
    plain = undecorated(function, called_at)
    with compiling(plain.__qualname__, called_at):
        found = header or next(iter(headers_of(plain)), None) or definition_of(plain)
        return _compiled(
            within_contexts(found, function),
            resolver_of(plain, contexts_of(function)),
            name=plain.__name__,
            defaults=defaults_of(plain),
            types=types or {},
            fixed=fixed or {},
            known=known or {},
        )


def definition_of(function: FunctionType) -> t.Def:
    """Return the tree of a function."""
    return function_from_ast(source_of(function), postpones=True)


def headers_of(function: FunctionType) -> tuple[t.Def, ...]:
    """Return the overloads of a function, each with its body; nothing if it has none."""
    texts = overloads_of(function)
    body = definition_of(function).body if texts else ()
    return tuple(replace(function_from_ast(text, postpones=True), body=body) for text in texts)


def schema_of_header(
    header: t.Def, function: FunctionType, types: Mapping[str, Type]
) -> FunctionSchema:
    """Return the schema of an overload, without results.

    Args:
        header: the overload.
        function: the function that it belongs to.
        types: types of parameters that have no annotation.
    """
    found = signature_of(header, resolver_of(function), defaults_of(function), types, {})
    return FunctionSchema(header.name, "", tuple(found.arguments), ())


def compile_tree(
    definition: t.Def,
    resolver: Resolver | None = None,
    *,
    self_type: ClassType | None = None,
    name: str | None = None,
    defaults: Mapping[str, Any] | None = None,
    types: Mapping[str, Type] | None = None,
    known: Known | None = None,
) -> CompiledFunction:
    """Compile a definition; a method has the type of its first parameter as `self_type`.

    Args:
        types: types of parameters that have no annotation.
        known: arguments that the graph has no inputs for.
    """
    resolver = resolver or text_resolver()
    own = {definition.parameters[0].name: self_type} if self_type else {}
    with compiling(name or definition.name):
        return _compiled(
            definition,
            resolver,
            name=name or definition.name,
            defaults=defaults or {},
            types={**own, **(types or {})},
            fixed={},
            known=known or {},
        )


def defaults_of(function: FunctionType) -> dict[str, Any]:
    """Return the defaults of a function's parameters, by name."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters
    return {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }


def _compiled(
    definition: t.Def,
    resolver: Resolver,
    *,
    name: str,
    defaults: Mapping[str, Any],
    types: Mapping[str, Type],
    fixed: Mapping[str, SugaredValue],
    known: Known,
) -> CompiledFunction:
    signature = signature_of(definition, resolver, defaults, types, fixed)
    arguments = tuple(each for each in signature.arguments if each.name not in known)
    graph = Graph(name)
    emitter = StatementEmitter(graph, resolver, compile_call)
    emitter.return_type = signature.returns
    for argument in signature.arguments:
        if argument.name in known:
            given = known[argument.name]
            constant = emitter.constant(given, definition.range)
            emitter.store(argument.name, constant, definition.range, argument.type, given)
            continue
        value = graph.add_input(argument.name, argument.type)
        if is_module_type(argument.type):
            emitter.environment.set_sugared(argument.name, sugar(value))
        else:
            declared = argument.type
            emitter.store(argument.name, value, definition.range, declared)
    for parameter, sugared in signature.fixed.items():
        emitter.environment.set_sugared(parameter, sugared)
    emitter.statements(definition.body)
    returns = _finish(emitter, definition)
    to_ssa(graph)
    exit_transform(graph)
    if not graph.outputs:  # it always raises
        with graph.inserting_at_end(graph.block):
            node = emitter.node("prim::Uninitialized", (), (returns,), definition.range)
        graph.add_output(node.output)
    schema = FunctionSchema(name, "", arguments, (Argument("", returns),))
    return CompiledFunction(name, schema, graph, emitter.constants.all())


def _finish(emitter: StatementEmitter, definition: t.Def) -> Type:
    """Return the type of the result; each return gives a value of it.

    Raises:
        ScriptError: returns have different types, or a value is missing at the end.
    """
    where = definition.range
    if not emitter.environment.frame.exited:
        value = emitter.constant(None, where)
        if not emitter.returns:
            emitter.return_type = NONE  # whatever the annotation says
        if emitter.return_type not in (None, NONE) and not isinstance(
            emitter.return_type, OptionalType
        ):
            message = f"{definition.name} gives {emitter.return_type}, and may end without a return"
            header = definition.returns.range if definition.returns else where
            raise ScriptError(
                message, header, code="script-missing-return", fix="return a value at the end"
            )
        if emitter.return_type is not None:
            value = emitter.cast(value, emitter.return_type, where)
        emitter.returns.append(emitter.node("prim::Return", (value,), (), where))
    found = [node.inputs[0].type for node in emitter.returns]
    type_ = emitter.return_type or (joined(found) if found else NONE)
    if type_ is None:
        listed = " and ".join(dict.fromkeys(map(str, found)))
        message = f"{definition.name} returns values of different types: {listed}"
        place = emitter.returns[-1].range
        raise ScriptError(
            message, place, code="script-return-types", fix="return values of one type"
        )
    for node in emitter.returns:
        with emitter.graph.inserting_before(node):
            node.replace_input(0, emitter.cast(node.inputs[0], type_, node.range))
    return type_


def signature_of(
    definition: t.Def,
    resolver: Resolver,
    defaults: Mapping[str, Any],
    types: Mapping[str, Type],
    fixed: Mapping[str, SugaredValue],
) -> Signature:
    """Return the types of parameters and result, from annotations, comments, calls, defaults."""
    comments, result = comment_types(definition, resolver)
    arguments, kept = list[Argument](), dict(fixed)
    for parameter in definition.parameters:
        name = parameter.name
        if name in fixed:
            continue
        default = _default(parameter, defaults, resolver)
        if parameter.kind in ("varargs", "kwargs"):
            if isinstance(types.get(name), TupleType):
                arguments.append(Argument(name, types[name]))
            elif parameter.kind == "kwargs":
                kept[name] = to_sugared_value({}, parameter.range)
            else:
                kept[name] = to_sugared_value((), parameter.range)
            continue
        type_ = _parameter_type(parameter, resolver, comments, types, default)
        arguments.append(
            Argument(
                name,
                type_,
                default,
                kwarg_only=parameter.kind == "keyword",
                fixed_length=broadcast_length(parameter.type, resolver),
            )
        )
    result = result or known_annotation(definition.returns, resolver)
    return Signature(arguments, result, kept)


def _default(parameter: t.Param, defaults: Mapping[str, Any], resolver: Resolver) -> Any:
    if parameter.name in defaults:
        return defaults[parameter.name]
    if parameter.default is None:
        return NO_DEFAULT
    emitter = StatementEmitter(Graph(), resolver, compile_call)
    return emitter.expression(parameter.default).constant()


def _parameter_type(
    parameter: t.Param,
    resolver: Resolver,
    comments: Mapping[str, Type],
    types: Mapping[str, Type],
    default: Any,
) -> Type:
    if parameter.type is not None:
        return _annotated(parameter, resolver, types, default)
    if parameter.name in comments:
        return comments[parameter.name]
    if parameter.name in types:
        given = types[parameter.name]
        return TENSOR if isinstance(given, TensorType) else given
    return type_by_default(default)


def type_by_default(default: Any) -> Type:
    """Return the type of a parameter that has no annotation, and maybe no default."""
    if default is NO_DEFAULT:
        return TENSOR
    known = type_of(default)
    return OptionalType(TENSOR) if known == NONE else known


def _annotated(
    parameter: t.Param, resolver: Resolver, types: Mapping[str, Type], default: Any
) -> Type:
    """Return the type of an annotation; one that is unknown is that of the argument or of None."""
    assert parameter.type is not None
    try:
        return type_of_annotation(parameter.type, resolver)
    except ScriptError as error:
        given = types.get(parameter.name, NONE if default is None else None)
        takes_it = given == NONE or isinstance(given, ClassType) or is_foreign(error)
        if error.code == "script-unknown-type" and given is not None and takes_it:
            return given
        raise


_CALLED: Final[WeakKeyDictionary[FunctionType, dict[object, CompiledFunction]]] = (
    WeakKeyDictionary()
)
"""Functions that were compiled for calls, by the types of parameters without annotation."""
_HEADERS: Final[WeakKeyDictionary[FunctionType, tuple[t.Def, ...]]] = WeakKeyDictionary()


def compile_call(
    function: Any,
    values: Mapping[str, Value],
    fixed: Mapping[str, SugaredValue],
    known: Known,
    where: SourceRange,
) -> CompiledFunction:
    """Compile a function that is called, once for each overload and choice of types."""
    types = {name: value.type for name, value in values.items()}
    header = _overload(undecorated(function, where), values, where)
    kind = (header, frozenset(types.items()) if header is None else None)
    cache = {} if fixed else _CALLED.setdefault(function, {})

    def compiled(known: Known) -> CompiledFunction:
        key = (kind, frozenset(known.items()))
        if key not in cache or first_changed(cache[key].constants):
            cache[key] = compile_function(
                function, types=types, fixed=fixed, called_at=where, header=header, known=known
            )
        return cache[key]

    return compile_for_call(compiled, known, (function, kind))


def _overload(
    function: FunctionType, values: Mapping[str, Value], where: SourceRange
) -> t.Def | None:
    """Return the first overload that fits values, or None for a function without overloads."""
    if function not in _HEADERS:
        _HEADERS[function] = headers_of(function)
    if not _HEADERS[function]:
        return None
    schemas = [*_known_schemas(_HEADERS[function], function)]
    fitting = find_schema(function.__name__, [s for s, _ in schemas], (), values, where).schema
    return next(header for schema, header in schemas if schema is fitting)


def _known_schemas(
    headers: Sequence[t.Def], function: FunctionType
) -> Iterator[tuple[FunctionSchema, t.Def]]:
    """Iterate over the overloads whose types the language knows: no call fits another one."""
    for header in headers:
        try:
            yield schema_of_header(header, function, {}), header
        except ScriptError as error:
            if not is_foreign(error):
                raise
