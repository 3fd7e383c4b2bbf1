"""The interface of `script`: functions with torch.jit's names."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import nn

from minitorch2.script.archive import archive
from minitorch2.script.archive.container import File
from minitorch2.script.frontend.compile import CompiledFunction, compile_function, compile_tree
from minitorch2.script.frontend.resolver import Resolver, text_resolver
from minitorch2.script.modules.attribute import Attribute
from minitorch2.script.modules.freezing import frozen
from minitorch2.script.modules.from_nn_module import new_module_type
from minitorch2.script.modules.function import ScriptFunction, refuse_written_copies
from minitorch2.script.modules.intrinsics import (
    Future,
    annotate,
    export,
    fork,
    ignore,
    interface,
    is_scripting,
    unused,
    wait,
)
from minitorch2.script.modules.module import Methods
from minitorch2.script.modules.object_type import script_class
from minitorch2.script.modules.script_module import ScriptModule, copy_of, script_module
from minitorch2.script.runtime.executor import optimized_execution
from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.parser import parse_module
from minitorch2.script.syntax.source import SourceFile
from minitorch2.script.tracing.assumptions import or_python, surroundings, while_unchanged
from minitorch2.script.tracing.trace import TracedFunction
from minitorch2.script.tracing.trace import trace as record


def script(obj: Any) -> Any:
    """Compile a function, a module or a class to graphs, by reading its source.

    Args:
        obj: a Python function, an `nn.Module`, or a class. What is scripted already is returned.

    Returns:
        A `ScriptFunction`, or a `ScriptModule` that shares the module's parameters and buffers. A
        class is returned as it is, and scripted code may use it from then on.

    Raises:
        ScriptError: the code is not in the language; the message names the line.
        TypeError: `obj` is no function, no module and no class.
    """
    if isinstance(obj, ScriptFunction | ScriptModule):
        return obj
    if isinstance(obj, nn.Module):
        return script_module(obj)
    if isinstance(obj, type):
        return script_class(obj)
    if isinstance(obj, FunctionType):
        again = partial(compile_function, obj)
        function = ScriptFunction(again(), obj, again)
        if function.constants:
            refuse_written_copies(function.inlined_graph)
        return function
    raise TypeError(f"script takes a function, a module or a class, and got {type(obj).__name__}")


class CompilationUnit:
    """Functions compiled from text alone, as attributes by their names."""

    def __init__(self, text: str = "") -> None:
        self._functions: dict[str, ScriptFunction] = {}
        if text:
            self.define(text)

    def define(self, text: str) -> None:
        """Compile each function of a text; they may call those that were defined before."""
        definitions = parse_module(SourceFile(textwrap.dedent(text), "<define>"))
        for definition in definitions:
            if not isinstance(definition, t.Def):
                where = definition.range
                raise ScriptError("the text defines no function here", where, code="script-define")
            resolver = Resolver(self._functions, *text_resolver().tables)
            compiled = compile_tree(definition, resolver, name=definition.name)
            self._functions[definition.name] = ScriptFunction(compiled)

    def __getattr__(self, name: str) -> ScriptFunction:
        functions = self.__dict__.get("_functions", {})
        if name not in functions:
            raise AttributeError(f"no function {name!r} is defined")
        found: ScriptFunction = functions[name]
        return found

    def __iter__(self) -> Iterator[ScriptFunction]:
        return iter(self._functions.values())


def define(text: str) -> CompilationUnit:
    """Compile functions from text, without any Python object: names are builtins and torch's."""
    return CompilationUnit(text)


def trace(
    obj: Any,
    example_inputs: Any,
    *,
    assumptions: str = "check",
    check_trace: bool = True,
    strict: bool = True,
) -> Any:
    """Record one call of a function or a module as a graph that holds for other sizes, too.

    Args:
        obj: a Python function, or an `nn.Module`.
        example_inputs: a tensor, or a tuple of arguments.
        assumptions: where a later call differs from the recorded one, raise `TraceDivergedError`
            (``"check"``), run the Python function (``"python"``), or compute what the graph says
            (``"ignore"``).
        check_trace: record twice, and compare.
        strict: raise where that finds a difference; else warn.

    Returns:
        A `ScriptFunction` or a `ScriptModule`.

    Raises:
        TraceError: the program does what no trace can hold.
    """
    options: Any = {"assumptions": assumptions, "check_trace": check_trace, "strict": strict}
    if not isinstance(obj, nn.Module):
        traced = record(obj, example_inputs, **options)
        function = ScriptFunction(_compiled(traced), obj)
    elif assumptions == "python":
        raise ValueError('assumptions="python" is for functions: a module has no other code')
    else:
        type_ = new_module_type(obj)
        types = {path: kind.class_type for path, kind in type_.all_modules()}
        options |= {"self_type": type_.class_type, "module_types": types}
        traced = record(obj, example_inputs, **options)
        compiled = _compiled(traced)
        type_.methods = Methods(lambda name: compiled if name == "forward" else None)
        function = type_.methods["forward"]
    if assumptions != "ignore":
        function.call = while_unchanged(function.call, obj, traced.constants)
        function.assumed = (*traced.constants, *surroundings(obj))
    if assumptions == "python":
        function.call = or_python(function.call, obj, function.graph)
    return copy_of(obj, type_) if isinstance(obj, nn.Module) else function


def _compiled(traced: TracedFunction) -> CompiledFunction:
    return CompiledFunction(traced.name, traced.schema, traced.graph)


def freeze(module: ScriptModule, preserved_attrs: Sequence[str] = ()) -> ScriptModule:
    """Return a module whose parameters and attributes are constants of its code.

    Args:
        module: a scripted module in evaluation mode.
        preserved_attrs: names of attributes that stay attributes.

    Raises:
        ValueError: the module is in training mode, or has hooks, which are no code of `forward`.
    """
    if module.training:
        raise ValueError("freeze takes a module in evaluation mode: call eval() first")
    if module._type.hooks:
        raise ValueError("freeze leaves out hooks of the module itself: script Sequential(module)")
    return frozen(module, frozenset(preserved_attrs))


def save(
    module: ScriptModule | ScriptFunction,
    file: File,
    extra_files: Mapping[str, str | bytes] | None = None,
) -> None:
    """Write a scripted module to a file that `load`, and `torch.jit.load`, read.

    Raises:
        ArchiveError: the module holds a value, or calls Python code, that no file can hold.
    """
    archive.save(module, file, extra_files)


def load(
    file: File,
    map_location: torch.device | str | None = None,
    extra_files: dict[str, Any] | None = None,
) -> ScriptModule:
    """Read a module that `save`, or `torch.jit.save`, has written; its source is not needed.

    Raises:
        ArchiveError: the file is damaged, or names what the format does not admit.
        ScriptError: the code of the file is not in the language.
    """
    return archive.load(file, map_location, extra_files)


__all__ = [
    "Attribute",
    "CompilationUnit",
    "Future",
    "ScriptError",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "define",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "load",
    "optimized_execution",
    "save",
    "script",
    "trace",
    "unused",
    "wait",
]
