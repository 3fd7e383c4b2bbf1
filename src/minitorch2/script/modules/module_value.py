"""`self` and sub-modules, while a method is compiled (TorchScript overview, ModuleValue).

`self.weight` becomes a `prim::GetAttr`, a constant becomes a constant, a sub-module another
`ModuleValue`. Containers of modules have a known number of elements, so loops over them unroll.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from minitorch2.script.frontend.emission import UNKNOWN, Arguments, Emission, SugaredValue
from minitorch2.script.frontend.emit_calls import raise_error
from minitorch2.script.frontend.emit_conditions import joined_output
from minitorch2.script.frontend.forms import only
from minitorch2.script.frontend.known_arguments import Known, compile_for_call, known_arguments
from minitorch2.script.frontend.python_values import (
    BoundFunction,
    converted,
    register_sugar,
    to_sugared_value,
)
from minitorch2.script.frontend.sugared import (
    BoundMethod,
    TupleSugar,
    call_compiled,
    keep_constants,
    sugar,
)
from minitorch2.script.ir.graph import Graph, Value
from minitorch2.script.ir.types import NONE, OptionalType
from minitorch2.script.modules.function import ScriptFunction
from minitorch2.script.modules.module import Methods, ModuleType
from minitorch2.script.operators.match import find_schema, match_arguments
from minitorch2.script.syntax.errors import AbsentAttributeError
from minitorch2.script.syntax.source import SourceRange

Read = Callable[[Emission, SourceRange], Value]


class ModuleValue(SugaredValue):
    """A module of a known type.

    Args:
        type_: what is known of it.
        read: gives its value in the graph that is being made.
    """

    first_class = True
    is_module = True

    def __init__(self, type_: ModuleType, read: Read) -> None:
        self.type = type_
        self.read = read

    def describe(self) -> str:
        return f"a module of type {self.type.name.rpartition('.')[2]}"

    def as_value(self, emission: Emission, where: SourceRange) -> Value:
        return self.read(emission, where)

    # -- attributes -----------------------------------------------------------------------------

    def has_attr(self, name: str) -> bool:
        type_ = self.type
        tables = (type_.slots, type_.constants, type_.modules, type_.static, type_.properties)
        return (
            any(name in table for table in tables)
            or self._listing(name) is not None
            or name in type_.methods
        )

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        type_ = self.type
        if name in type_.slots:
            return self._slot(emission, name, where)
        if name in type_.modules:
            return self.child(name)
        for table in (type_.constants, type_.static):
            if name in table:
                return to_sugared_value(table[name], where, emission.constants)
        if (listing := self._listing(name)) is not None:
            return BoundMethod(name, listing)
        if name in type_.properties:
            return MethodValue(self, name).call(emission, Arguments(), where)
        if name in type_.methods:
            return MethodValue(self, name)
        if name in type_.marked:
            return BoundFunction(type_.marked[name], self)
        if name in type_.refused:
            what = f"has an attribute {name}, but {type_.refused[name]}"
            raise self.refuse(what, where, code="script-no-attribute")
        message = f"{self.describe()} has no attribute {name}"
        raise AbsentAttributeError(message, where, code="script-no-attribute")

    def _slot(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        slot_type = self.type.slots[name].type
        if slot_type == NONE:
            return to_sugared_value(None, where)
        inputs = (self.as_value(emission, where),)
        node = emission.node("prim::GetAttr", inputs, (slot_type,), where, name=name)
        node.output.name = name
        return sugar(node.output)

    def set_attr(
        self, emission: Emission, name: str, value: SugaredValue, where: SourceRange
    ) -> None:
        slot = self.type.slots.get(name)
        if slot is None:
            fix = "give it a value in __init__"
            what = f"has no attribute {name} that code can set"
            raise self.refuse(what, where, code="script-no-attribute", fix=fix)
        given = converted(emission, value.as_value(emission, where), slot.type, where)
        emission.node(
            "prim::SetAttr", (self.as_value(emission, where), given), (), where, name=name
        )

    def child(self, name: str) -> ModuleValue:
        """Return a sub-module."""
        type_ = self.type.modules[name]

        def read(emission: Emission, where: SourceRange) -> Value:
            inputs = (self.as_value(emission, where),)
            node = emission.node("prim::GetAttr", inputs, (type_.class_type,), where, name=name)
            node.output.name = name
            return node.output

        return ModuleValue(type_, read)

    def _listing(self, name: str) -> Listing | None:
        """Return the method that lists elements of a container, or sub-modules, by its name."""
        is_mapping = self.type.container == "dict" and name in ("items", "keys", "values")
        return partial(self._listed, name) if is_mapping or name in _LISTINGS else None

    def _listed(
        self, name: str, emission: Emission, arguments: Arguments, where: SourceRange
    ) -> SugaredValue:
        if arguments.all():
            what = f"takes no arguments for {name}"
            raise self.refuse(what, where, code="script-wrong-arguments")
        names = self._names()
        if name in _LISTINGS:
            names = list(self.type.modules)
        if name.endswith("modules"):
            found = self.descendants()
        else:
            found = {key: self.attr(emission, key, where) for key in names}
        keys = [to_sugared_value(key, where) for key in found]
        pairs = [TupleSugar([*pair]) for pair in zip(keys, found.values(), strict=True)]
        if name == "keys":
            return TupleSugar(keys)
        return TupleSugar(pairs if name == "items" or "named" in name else [*found.values()])

    def descendants(self, path: str = "") -> dict[str, SugaredValue]:
        """Return this module and those below it, by their dotted paths."""
        found: dict[str, SugaredValue] = {path: self}
        for name in self.type.modules:
            found |= self.child(name).descendants(f"{path}.{name}" if path else name)
        return found

    # -- calls and containers -------------------------------------------------------------------

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        """Call `forward`, and the hooks around it as `nn.Module` does."""
        if arguments.is_open and self.type.hooks:
            what = "has hooks, and is called with a list of arguments"
            raise self.refuse(what, where, code="script-module-hooks")
        given = arguments.positional
        for name in self.type.hooks_before:
            changed = self._hook(emission, name, [TupleSugar(given)], where)
            if changed is not None:
                parts = changed.items(emission, where)
                given = [changed] if parts is None else parts
        arguments = replace(arguments, positional=given)
        result = self.attr(emission, "forward", where).call(emission, arguments, where)
        for name in self.type.hooks_behind:
            result = self._hook(emission, name, [TupleSugar(given), result], where) or result
        return result

    def _hook(
        self, emission: Emission, name: str, given: list[SugaredValue], where: SourceRange
    ) -> SugaredValue | None:
        """Call a hook; return its result, None if that is None."""
        result = MethodValue(self, name).call(emission, Arguments(given), where)
        type_ = result.as_value(emission, where).type
        if isinstance(type_, OptionalType):
            what = f"has a hook {name} whose result may be None or not"
            fix = "return a value, or none, on all paths of the hook"
            raise self.refuse(what, where, code="script-module-hooks", fix=fix)
        return None if type_ == NONE else result

    def _names(self) -> list[str]:
        """Return the names of a container's elements: sub-modules, or parameters."""
        slots = (name for name, slot in self.type.slots.items() if slot.kind == "parameter")
        return list(self.type.modules) or list(slots)

    def items(self, emission: Emission, where: SourceRange) -> list[SugaredValue] | None:
        if self.type.container == "dict":
            return [to_sugared_value(name, where) for name in self._names()]
        if not self.type.container:
            return None
        return [self.attr(emission, name, where) for name in self._names()]

    def length(self, emission: Emission, where: SourceRange) -> SugaredValue:
        if not self.type.container:
            return super().length(emission, where)
        return to_sugared_value(len(self._names()), where)

    def get_item(self, emission: Emission, index: SugaredValue, where: SourceRange) -> SugaredValue:
        known = index.constant()
        names = self._names()
        if self.type.container == "dict" and known in names:
            return self.attr(emission, known, where)
        if self.type.container in ("list", "sequential") and isinstance(known, int | slice):
            return self._element(emission, names, known, where)
        if self.type.container == "list" and known is UNKNOWN and self.type.modules:
            return ChosenModule(self, index)
        if known is UNKNOWN and self.type.container:
            what = "is indexed with a number that is not known while compiling"
            fix = "loop over the modules instead"
            raise self.refuse(what, where, code="script-no-element", fix=fix)
        return super().get_item(emission, index, where)

    def _element(
        self, emission: Emission, names: list[str], index: int | slice, where: SourceRange
    ) -> SugaredValue:
        if isinstance(index, slice):
            parts = [self.attr(emission, name, where) for name in names[index]]
            return Chain(parts) if self.type.container == "sequential" else TupleSugar(parts)
        if not -len(names) <= index < len(names):
            raise self.refuse(f"has no element {index}", where, code="script-no-element")
        return self.attr(emission, names[index], where)


Listing = Callable[[Emission, Arguments, SourceRange], SugaredValue]
_LISTINGS: Final = ("children", "named_children", "modules", "named_modules")


class Chain(TupleSugar):
    """A part of an `nn.Sequential`: a call goes through its modules."""

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        (result,) = only(arguments, 1, "nn.Sequential", where)
        for module in self.values:
            result = module.call(emission, Arguments([result]), where)
        return result


class ChosenModule(SugaredValue):
    """An element of a `ModuleList` at an index that is not known while compiling.

    A call of it becomes a chain of ifs, one for each module.
    """

    def __init__(self, owner: ModuleValue, index: SugaredValue) -> None:
        self.owner = owner
        self.index = index

    def describe(self) -> str:
        return "a module at an index that is not known while compiling"

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        return self if name == "forward" else super().attr(emission, name, where)

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        index = self.index.as_value(emission, where)
        names = list(self.owner.type.modules)
        self._check(emission, index, len(names), where)
        return sugar(self._call_from(emission, names, index, arguments, where))

    def _check(self, emission: Emission, index: Value, count: int, where: SourceRange) -> None:
        least, length = (emission.constant(number, where) for number in (-count, count))
        at_least = emission.emit("aten::ge", (index, least), where)
        below = emission.emit("aten::lt", (index, length), where)
        node = emission.if_node(emission.emit("aten::__and__", (at_least, below), where), where)
        with emission.inside(node.blocks[1]):
            message = emission.constant("the index of a module is out of range", where)
            raise_error(emission, message, "builtins.IndexError", where)

    def _call_from(
        self,
        emission: Emission,
        names: list[str],
        index: Value,
        given: Arguments,
        where: SourceRange,
    ) -> Value:
        """Call the first of these modules if the index is its number, else one behind it."""
        module, *behind = names
        if not behind:
            return self.owner.child(module).call(emission, given, where).as_value(emission, where)
        count = len(self.owner.type.modules)
        numbers = [emission.constant(k, where) for k in (count - len(names), -len(names))]
        first, last = (emission.emit("aten::eq", (index, number), where) for number in numbers)
        node = emission.if_node(emission.emit("aten::__or__", (first, last), where), where)
        for block, part in zip(node.blocks, ([module], behind), strict=True):
            with emission.inside(block):
                block.add_output(self._call_from(emission, part, index, given, where))
        return joined_output(emission, node.blocks, where)


class MethodValue(SugaredValue):
    """A method of a module: a call becomes `prim::CallMethod`."""

    def __init__(self, module: ModuleValue, name: str) -> None:
        self.module = module
        self.name = name

    def describe(self) -> str:
        return f"the method {self.name}"

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        module, methods = self.module, self.module.type.methods
        receiver = module.as_value(emission, where)
        positional, named = arguments.values(emission, where)
        given = [receiver, *positional]
        name, versions = self.name, methods.versions(self.name)
        if versions:
            fitting = find_schema(name, [*versions.values()], given, named, where).schema
            name = next(version for version, schema in versions.items() if schema is fitting)
        else:
            name, known = self._version(given[1:], named, arguments)
            if known:
                names = [each.name for each in methods.parameters(self.name)]
                named |= dict(zip(names, given[1:]))
                given, named = given[:1], {k: v for k, v in named.items() if k not in known}
        keep_constants(emission, methods[name], where)
        inputs = match_arguments(emission.graph, methods[name].schema, given, named, where)
        return sugar(module.type.call(emission.graph, name, tuple(inputs), where))

    def _version(
        self, given: Sequence[Value], named: Mapping[str, Value], arguments: Arguments
    ) -> tuple[str, Known]:
        """Return the name of the version for a call, and arguments that it has no parameters for.

        Raises:
            ScriptError: the method is no program of the language.
        """
        methods = self.module.type.methods
        types = [value.type for value in given], {k: value.type for k, value in named.items()}

        def compiled(known: Known) -> tuple[str, Known]:
            name = methods.typed(self.name, *types, known)
            _ = methods[name]
            return name, known

        known = known_arguments(methods.parameters(self.name), arguments)
        key = (self.module.type.name, self.name, *types[0], *types[1].items())
        return compile_for_call(compiled, known, key)


class ScriptFunctionValue(SugaredValue):
    """A scripted function: a call becomes `prim::CallFunction`."""

    def __init__(self, function: ScriptFunction) -> None:
        self.function = function

    def describe(self) -> str:
        return f"the script function {self.function.name}"

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        compiled = self.function.up_to_date()
        keep_constants(emission, self.function, where)
        return call_compiled(emission, compiled, arguments, where)


register_sugar(
    lambda given: isinstance(given, ScriptFunction), lambda given, _: ScriptFunctionValue(given)
)


def make_module_type(name: str, methods: Methods, **parts: Any) -> ModuleType:
    """Return a module type that the front end can handle.

    Args:
        name: its qualified name, which no other type has.
        methods: its code.
        parts: further attributes of `ModuleType`; tables that are left out are empty.
    """
    tables = {table: parts.pop(table, {}) for table in ("slots", "constants", "modules")}
    made = ModuleType(name, methods=methods, **tables, **parts)
    made.sugar = lambda value: ModuleValue(made, lambda *_: value)
    return made


def self_input(graph: Graph, type_: ModuleType) -> Value:
    """Return the first input of a method's graph, the module; make it if it is not there."""
    inputs = graph.inputs
    if not inputs or inputs[0].type != type_.class_type:
        graph.add_input("self", type_.class_type)
        inputs.insert(0, inputs.pop())
    return inputs[0]
