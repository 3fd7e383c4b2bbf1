"""`self` and sub-modules, while a method is compiled (TorchScript overview, ModuleValue).

`self.weight` becomes a `prim::GetAttr`, a constant becomes a constant, a sub-module another
`ModuleValue`. Containers of modules have a known number of elements, so loops over them unroll.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitorch2.script.frontend.emission import UNKNOWN, Arguments, Emission, SugaredValue
from minitorch2.script.frontend.python_values import BoundFunction, register_sugar, to_sugared_value
from minitorch2.script.frontend.sugared import TupleSugar, call_compiled, sugar
from minitorch2.script.ir.graph import Graph, Value
from minitorch2.script.ir.types import NONE
from minitorch2.script.modules.function import Method, ScriptFunction
from minitorch2.script.modules.module import Methods, ModuleType
from minitorch2.script.operators.match import match_arguments
from minitorch2.script.syntax.source import SourceRange

Read = Callable[[Emission, SourceRange], Value]


class ModuleValue(SugaredValue):
    """A module of a known type.

    Args:
        type_: what is known of it.
        read: gives its value in the graph that is being made.
    """

    first_class = True

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
        tables = (type_.slots, type_.constants, type_.modules, type_.static)
        return any(name in table for table in tables) or self._method(name) is not None

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        type_ = self.type
        if name in type_.slots:
            return self._slot(emission, name, where)
        if name in type_.modules:
            return self.child(name)
        for table in (type_.constants, type_.static):
            if name in table:
                return to_sugared_value(table[name], where)
        if type_.container == "dict" and name in ("items", "keys", "values"):
            return _Listing(self, name)
        method = self._method(name)
        if method is not None:
            return MethodValue(self, name)
        if name in type_.marked:
            return BoundFunction(type_.marked[name], self)
        what = f"has no attribute {name}"
        if name in type_.refused:
            what = f"has an attribute {name}, but {type_.refused[name]}"
        raise self.refuse(what, where, code="script-no-attribute")

    def _slot(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        slot_type = self.type.slots[name].type
        if slot_type == NONE:
            return to_sugared_value(None, where)
        inputs = (self.as_value(emission, where),)
        node = emission.node("prim::GetAttr", inputs, (slot_type,), where, name=name)
        node.output.name = name
        return sugar(node.output)

    def _method(self, name: str) -> Method | None:
        return self.type.methods.get(name)

    def set_attr(
        self, emission: Emission, name: str, value: SugaredValue, where: SourceRange
    ) -> None:
        slot = self.type.slots.get(name)
        if slot is None:
            fix = "give it a value in __init__"
            what = f"has no attribute {name} that code can set"
            raise self.refuse(what, where, code="script-no-attribute", fix=fix)
        given = emission.cast(value.as_value(emission, where), slot.type, where)
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

    # -- calls and containers -------------------------------------------------------------------

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        return self.attr(emission, "forward", where).call(emission, arguments, where)

    def items(self, emission: Emission, where: SourceRange) -> list[SugaredValue] | None:
        if self.type.container == "dict":
            return [to_sugared_value(name, where) for name in self.type.modules]
        return [self.child(name) for name in self.type.modules] if self.type.container else None

    def length(self, emission: Emission, where: SourceRange) -> SugaredValue:
        if not self.type.container:
            return super().length(emission, where)
        return to_sugared_value(len(self.type.modules), where)

    def get_item(self, emission: Emission, index: SugaredValue, where: SourceRange) -> SugaredValue:
        known = index.constant()
        names = list(self.type.modules)
        if self.type.container == "dict" and known in names:
            return self.child(known)
        if self.type.container in ("list", "sequential") and isinstance(known, int | slice):
            return self._element(names, known, where)
        if known is UNKNOWN and self.type.container:
            what = "is indexed with a number that is not known while compiling"
            fix = "loop over the modules instead"
            raise self.refuse(what, where, code="script-no-element", fix=fix)
        return super().get_item(emission, index, where)

    def _element(self, names: list[str], index: int | slice, where: SourceRange) -> SugaredValue:
        if isinstance(index, slice):
            return TupleSugar([self.child(name) for name in names[index]])
        if not -len(names) <= index < len(names):
            raise self.refuse(f"has no element {index}", where, code="script-no-element")
        return self.child(names[index])


class MethodValue(SugaredValue):
    """A method of a module: a call becomes `prim::CallMethod`."""

    def __init__(self, module: ModuleValue, name: str) -> None:
        self.module = module
        self.name = name

    def describe(self) -> str:
        return f"the method {self.name}"

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        module = self.module
        schema = module.type.methods[self.name].schema
        positional = [module, *arguments.positional]
        inputs = match_arguments(
            emission.graph,
            schema,
            [value.as_value(emission, where) for value in positional],
            {name: value.as_value(emission, where) for name, value in arguments.keywords.items()},
            where,
        )
        return sugar(module.type.call(emission.graph, self.name, tuple(inputs), where))


class ScriptFunctionValue(SugaredValue):
    """A scripted function: a call becomes `prim::CallFunction`."""

    def __init__(self, function: ScriptFunction) -> None:
        self.function = function

    def describe(self) -> str:
        return f"the script function {self.function.name}"

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        return call_compiled(emission, self.function, arguments, where)


register_sugar(lambda given: isinstance(given, ScriptFunction), ScriptFunctionValue)


class _Listing(SugaredValue):
    """`items`, `keys` or `values` of a `ModuleDict`."""

    def __init__(self, module: ModuleValue, name: str) -> None:
        self.module = module
        self.name = name

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        if arguments.all():
            raise self.refuse("takes no arguments", where, code="script-wrong-arguments")
        names = list(self.module.type.modules)
        keys: list[SugaredValue] = [to_sugared_value(name, where) for name in names]
        values: list[SugaredValue] = [self.module.child(name) for name in names]
        pairs: list[SugaredValue] = [TupleSugar([*pair]) for pair in zip(keys, values, strict=True)]
        return TupleSugar({"items": pairs, "keys": keys, "values": values}[self.name])


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
