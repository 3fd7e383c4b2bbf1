"""Scripted modules, as the user holds them: an `nn.Module` whose methods run graphs."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.types import is_subtype_of, type_of
from minitorch2.script.modules.attribute import Attribute
from minitorch2.script.modules.from_nn_module import exported_methods, module_type_of
from minitorch2.script.modules.function import Method, bind_arguments
from minitorch2.script.modules.module import ModuleType


class BoundMethod:
    """A method of one module, ready to be called."""

    def __init__(self, module: ScriptModule, name: str) -> None:
        self.module = module
        self.name = name
        self.method = module._type.methods[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        method, given = self._chosen(args, kwargs)
        return method.call(self.module, *given)

    def _chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Method, list[Any]]:
        """Return the first overload whose parameters the values fit, and the values."""
        methods = self.module._type.methods
        for name, schema in methods.versions(self.name).items():
            parameters = schema.arguments[1:]
            given = bind_arguments(schema.name, parameters, args, kwargs)
            types = map(type_of, given)
            if all(map(is_subtype_of, types, (each.type for each in parameters))):
                return methods[name], given
        return self.method, self.method.bind(args, kwargs)

    def __repr__(self) -> str:
        return f"<bound {self.method!r}>"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def graph_for(self, *inputs: Any, **kwargs: Any) -> Graph:
        """Return the graph as it is optimized for inputs like these."""
        return self.method.graph_for(*inputs, module=self.module, **kwargs)


class ScriptModule(nn.Module):
    """A scripted module: parameters, buffers and attributes of its own, code of its type.

    Args:
        type: the code, and the names and types of attributes.

    Attributes:
        script_type: the type that the module has as a value of a graph.
    """

    def __init__(self, type: ModuleType) -> None:
        super().__init__()
        self._type = type
        for name in type.hooks_before:
            self.register_forward_pre_hook(partial(_run_hook, name))
        for name in type.hooks_behind:
            self.register_forward_hook(partial(_run_hook, name))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method `forward`."""
        return self._bound("forward")(*args, **kwargs)

    @property
    def script_type(self) -> Any:
        """The type that the module has as a value of a graph."""
        return self._type.class_type

    @property
    def original_name(self) -> str:
        """The name of the Python class that was scripted."""
        return self._type.name.rpartition(".")[2]

    @property
    def graph(self) -> Graph:
        """The graph of `forward`."""
        return self._type.methods["forward"].graph

    @property
    def code(self) -> str:
        """The graph of `forward` as Python text."""
        return self._type.methods["forward"].code

    @property
    def inlined_graph(self) -> Graph:
        """The graph of `forward` without calls."""
        return self._type.methods["forward"].inlined_graph

    def graph_for(self, *inputs: Any, **kwargs: Any) -> Graph:
        """Return the graph of `forward` as it is optimized for inputs like these."""
        return self._bound("forward").graph_for(*inputs, **kwargs)

    def _bound(self, name: str) -> BoundMethod:
        return BoundMethod(self, name)

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            values = self.__dict__.get(table, {})
            if name in values:
                return values[name]
        type_ = self.__dict__.get("_type")
        if type_ is not None:
            if name in type_.constants:
                return type_.constants[name]
            if not name.startswith("__") and name in type_.static and type_.static[name] is None:
                return None
            if name in type_.properties:
                return BoundMethod(self, name)()
            if not name.startswith("__") and name in type_.methods:
                return BoundMethod(self, name)
        raise AttributeError(f"{self.original_name} has no attribute {name!r}")

    def __len__(self) -> int:
        return len(self._modules)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Any:
        if self._type.container == "dict":
            return iter(self._modules)
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return self._modules[index]
        return list(self._modules.values())[index]

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"


def _run_hook(name: str, module: ScriptModule, *given: Any) -> Any:
    """Run a hook where Python calls the module; graphs call it themselves."""
    return module._bound(name)(*given)


def script_module(module: nn.Module) -> ScriptModule:
    """Return a scripted module that shares parameters and buffers with the original.

    `forward`, each method that is marked with `export` and each hook are compiled at once.

    Raises:
        ScriptError: the code is not in the language.
    """
    type_ = module_type_of(module)
    for name in ("forward", *exported_methods(module), *type_.hooks):
        type_.methods.get(name)
    return copy_of(module, type_)


def copy_of(module: nn.Module, type_: ModuleType) -> ScriptModule:
    """Return a scripted module of a type with the parameters, buffers and values of a module."""
    return _copy(module, type_, {})


def _copy(module: nn.Module, type_: ModuleType, made: dict[int, ScriptModule]) -> ScriptModule:
    if id(module) in made:
        return made[id(module)]
    script = made[id(module)] = ScriptModule(type_)
    script._parameters.update(module._parameters)
    script._buffers.update(module._buffers)
    script._non_persistent_buffers_set = set(module._non_persistent_buffers_set)
    script.training = module.training
    for name, child in module._modules.items():
        copy = None if child is None else _copy(child, type_.modules[name], made)
        script._modules[name] = copy
    for name, slot in type_.slots.items():
        if slot.kind == "attribute" and name != "training":
            value = getattr(module, name)
            object.__setattr__(script, name, value.value if isinstance(value, Attribute) else value)
    return script
