"""Module types: what scripted modules of one kind share (TorchScript overview, "Modules").

A module has parameters, buffers, sub-modules, attributes and methods. All but the values are in its
type: two modules whose attributes have equal types and equal constants share one, and so the code.
The object that runs is an `nn.Module`; a graph reads its attributes with `prim::GetAttr`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from inspect import Parameter
from typing import Any, ClassVar, Literal, TypeAlias

from torch import nn

from minitorch2.script.frontend.compile import CompiledFunction
from minitorch2.script.frontend.emission import SugaredValue
from minitorch2.script.ir.graph import Graph, Value
from minitorch2.script.ir.types import ClassType, Type
from minitorch2.script.modules.function import Method
from minitorch2.script.operators.schema import FunctionSchema
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import NOWHERE, SourceRange

Container: TypeAlias = Literal["", "list", "dict", "sequential"]
SlotKind: TypeAlias = Literal["parameter", "buffer", "attribute"]


@dataclass(frozen=True)
class Slot:
    """A place for a value in a module: a parameter's tensor, a buffer's, or another attribute."""

    kind: SlotKind
    type: Type


class Methods(Mapping[str, Method]):
    """The methods of a module type, compiled when they are first asked for.

    Args:
        compile: gives the compiled method of a name; None if there is none.
        versions: gives the schemas of the overloads of a name, by the names of their methods.
        typed: gives the name of a method's version for types of arguments, in order and by name,
            and for arguments that are known.
        has: tells whether there is a method of a name, which need not compile.
        parameters: gives the parameters of a method in Python, without the module.
        names: methods to iterate over although nobody has asked for them yet: those of a file, or
            of a frozen module.
    """

    def __init__(
        self,
        compile: Callable[[str], CompiledFunction | None],
        versions: Callable[[str], Mapping[str, FunctionSchema]] = lambda _: {},
        typed: Callable[..., str] = lambda name, *_: name,
        has: Callable[[str, Methods], bool] = lambda name, methods: methods.get(name) is not None,
        parameters: Callable[[str], list[Parameter]] = lambda _: [],
        names: Sequence[str] = (),
    ) -> None:
        self._compile = compile
        self.versions = cache(versions)
        self.typed = typed
        self.has = has
        self.parameters = parameters
        self._names = dict.fromkeys(names)
        self._compiled: dict[str, Method] = {}
        self._compiling: list[str] = []

    def __getitem__(self, name: str) -> Method:
        if name not in self._compiled:
            if name in self._compiling:
                raise ScriptError(
                    f"the method {name} calls itself, so its type is not known",
                    None,
                    code="script-recursive-method",
                    fix="write a loop",
                )
            self._compiling.append(name)
            try:
                compiled = self._compile(name)
            finally:
                self._compiling.pop()
            if compiled is None:
                raise KeyError(name)
            self._compiled[name] = Method(compiled, again=partial(self._again, name))
        self._compiled[name].up_to_date()
        return self._compiled[name]

    def _again(self, name: str) -> CompiledFunction:
        compiled = self._compile(name)
        assert compiled is not None, f"{name} was there when it was compiled first"
        return compiled

    def __contains__(self, name: object) -> bool:
        return name in self._compiled or (isinstance(name, str) and self.has(name, self))

    def __iter__(self) -> Iterator[str]:
        return iter({**self._names, **self._compiled})

    def __len__(self) -> int:
        return len({**self._names, **self._compiled})


@dataclass(eq=False)
class ModuleType:
    """Describe modules of one kind: their attributes and methods, without values.

    Attributes:
        name: qualified name, unique in this process: ``"__torch__.Encoder"``.
        slots: places of parameters, buffers and attributes, with their types.
        constants: attributes whose values are part of the type.
        modules: types of the sub-modules, by name.
        methods: compiled on demand.
        static: Python objects that the code may name: functions, classes, missing sub-modules.
        refused: attributes that have no type, and why.
        marked: methods that are left to Python, or left out, as users have marked them.
        container: the container that it is: code can iterate over its sub-modules or parameters.
        properties: methods that are called where they are read.
        python_class: the class of the modules; of those from files, `nn.Module`.
        hooks_before: methods that a call of the module calls before `forward`, in order.
        hooks_behind: methods that it calls behind it.
        sugar: makes what the front end sees where a graph has a module of this type.
    """

    is_module: ClassVar[bool] = True
    name: str
    slots: dict[str, Slot]
    constants: dict[str, Any]
    modules: dict[str, ModuleType]
    methods: Methods
    static: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    marked: dict[str, Any] = field(default_factory=dict)
    container: Container = ""
    properties: frozenset[str] = frozenset()
    python_class: type = nn.Module
    hooks_before: tuple[str, ...] = ()
    hooks_behind: tuple[str, ...] = ()
    sugar: Callable[[Value], SugaredValue] | None = None

    @property
    def hooks(self) -> tuple[str, ...]:
        """All methods that a call of the module calls around `forward`."""
        return self.hooks_before + self.hooks_behind

    @property
    def class_type(self) -> ClassType:
        """The type of values that hold such a module."""
        return ClassType(self.name, self)

    def all_modules(self, path: str = "") -> Iterator[tuple[str, ModuleType]]:
        """Iterate over this type and those of all sub-modules, with their dotted paths."""
        yield path, self
        for name, type_ in self.modules.items():
            yield from type_.all_modules(f"{path}.{name}" if path else name)

    def __deepcopy__(self, _: dict[int, Any]) -> ModuleType:
        return self

    def call(
        self, graph: Graph, name: str, inputs: tuple[Value, ...], where: SourceRange = NOWHERE
    ) -> Value:
        """Insert a call of a method into another graph.

        Args:
            graph: gets the call at its insertion point.
            name: the method.
            inputs: the module, then the values of all parameters.
            where: the call in the user's program.

        Returns:
            The result.
        """
        result = self.methods[name].schema.returns[0].type
        node = graph.create("prim::CallMethod", inputs, (result,), range=where)
        node.attributes["name"] = name
        return graph.insert(node).output
