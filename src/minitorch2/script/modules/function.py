"""Functions: a schema, a pure graph, and the executor that is made at the first call.

Parameters and other attributes that the graph reads become further inputs of it before it runs
(TorchScript overview, "Method"), so the executor treats them as it treats arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.frontend.compile import CompiledFunction
from minitorch2.script.frontend.sugared import COPY_OF
from minitorch2.script.ir.graph import Graph, Node, Value
from minitorch2.script.ir.python_constants import PythonConstant, first_changed
from minitorch2.script.ir.types import is_module_type
from minitorch2.script.modules.argument_types import CLASSES_DECIDE, Test, test_of, wrong_type
from minitorch2.script.operators.schema import NO_DEFAULT, Argument, FunctionSchema
from minitorch2.script.passes.inline import inline
from minitorch2.script.runtime.executor import GraphExecutor
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.tracing.traced_tensor import RECORDING

Path: TypeAlias = tuple[str, ...]

MOST_VERSIONS: Final = 8
"""Graphs of one function that are kept, for constants that take old values again."""

CODE_PRINTERS: Final[list[Callable[[Any], str]]] = []
"""What prints a function as text: the room `archive`, which lies above, puts it here."""


class ScriptFunction:
    """A function with its graph. As in the overview, it is a module with the one method `forward`.

    Values that the graph reads of Python objects are its constants. If one of them has changed at a
    call, the function is compiled anew; a graph whose constants have come back is used again.

    Args:
        compiled: the graph.
        original: the function of Python.
        again: compiles it anew; without it, a constant that has changed is an error.

    Attributes:
        name: qualified name.
        call: runs the function on the values of all parameters.
        assumed: what a trace has read of Python objects; `call` checks that.
    """

    is_method = False
    assumed: tuple[PythonConstant, ...] = ()

    def __init__(
        self,
        compiled: CompiledFunction,
        original: Callable[..., Any] | None = None,
        again: Callable[[], CompiledFunction] | None = None,
    ) -> None:
        self.name = compiled.name
        self.original = original
        self._again = again
        self._version = Version(compiled, self.is_method)
        self._versions = [self._version]
        self._directly: Callable[..., Any] = lambda *inputs: self.run(None, inputs)
        self.call = self._directly
        self.__name__ = compiled.name.rpartition(".")[2]
        self.__doc__ = getattr(original, "__doc__", None)

    def __repr__(self) -> str:
        return f"<script function {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and self.call is self._directly:
            version = self._version
            if (
                tuple(map(type, args)) in version.fitting
                and RECORDING.get() is None
                and first_changed(version.compiled.constants) is None
            ):
                return version.executor.run(args)  # the usual call: there is nothing to bind
        return self.call(*self.bind(args, kwargs))

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return the values of all parameters, in order.

        Raises:
            TypeError: the names or the number of the arguments are wrong.
            ArgumentTypeError: an argument is not of its parameter's type.
            ScriptError: a constant of the graph has changed, and the function is no script now.
        """
        schema = self.up_to_date().schema
        parameters, values = self._version.parameters, list(args)
        if kwargs or len(values) != len(parameters):
            values = bind_arguments(schema.name, parameters, args, kwargs)
        classes = tuple(map(type, values))
        if classes in self._version.fitting:
            return values
        for fits, parameter, value in zip(self._version.tests, parameters, values, strict=True):
            if not fits(value):
                raise wrong_type(schema, parameter, value, self.original)
        if CLASSES_DECIDE.issuperset(classes):
            self._version.fitting.add(classes)
        return values

    def up_to_date(self) -> CompiledFunction:
        """Return the compiled function whose constants are what Python's objects hold now.

        Raises:
            ScriptError: it cannot be compiled anew.
        """
        if changed := first_changed(self._version.compiled.constants):
            version = next((v for v in self._versions if v.is_up_to_date()), None)
            if version is None:
                if self._again is None:
                    raise changed.error()
                version = Version(self._again(), self.is_method)
                if changed := first_changed(version.compiled.constants):
                    raise changed.error()
                self._versions = [version, *self._versions[: MOST_VERSIONS - 1]]
            self._version = version
        return self._version.compiled

    @property
    def schema(self) -> FunctionSchema:
        """Names and types of parameters, defaults, and the type of the result."""
        return self._version.compiled.schema

    @property
    def graph(self) -> Graph:
        """The code as it was written: calls are not inlined."""
        return self._version.compiled.graph

    @property
    def constants(self) -> tuple[PythonConstant, ...]:
        """The values of Python objects that the graph, and graphs that it calls, have read."""
        return self._version.compiled.constants + self.assumed

    def run(self, module: Any, inputs: Sequence[Any]) -> Any:
        """Run the graph.

        Args:
            module: the object that the method belongs to; None for a function.
            inputs: values of all parameters, in order.
        """
        values = self._all_inputs(module, inputs)
        recorder = RECORDING.get()
        if recorder is not None:
            recorder.constants.update(self.constants)
            return recorder.call(
                self._version.lifted, values, lambda *data: self.executor.run(data)
            )
        return self.executor.run(values)

    def graph_for(self, *inputs: Any, module: Any = None, **kwargs: Any) -> Graph:
        """Return the graph as it is optimized for inputs like these."""
        bound = self.bind(inputs, kwargs)
        return self.executor.graph_for(*self._all_inputs(module, bound))

    @property
    def code(self) -> str:
        """The graph as Python text, which `read_code` compiles to an equal graph."""
        return CODE_PRINTERS[-1](self)

    @property
    def member_inputs(self) -> tuple[Path, ...]:
        """Paths of the parameters and attributes that become further inputs; none of functions."""
        return self._version.lifted.paths

    @property
    def inlined_graph(self) -> Graph:
        """A copy of the graph in which no call is left.

        Raises:
            ScriptError: it writes to a list of Python, of which it has a copy, or gives it away.
        """
        return self._version.inlined_graph

    @property
    def executor(self) -> GraphExecutor:
        """The executor that optimizes and runs the pure graph."""
        return self._version.executor

    def _all_inputs(self, module: Any, inputs: Sequence[Any]) -> list[Any]:
        lifted = self._version.lifted
        values = [module, *inputs] if lifted.takes_module else [*inputs]
        values += [read_path(module, path) for path in lifted.paths]
        return values


class Version:
    """A compiled function, and what is made of it at its first call."""

    def __init__(self, compiled: CompiledFunction, is_method: bool) -> None:
        self.compiled = compiled
        self.is_method = is_method
        self.fitting: set[tuple[type, ...]] = set()
        """Classes of arguments that fit, of those whose class alone decides that."""

    def is_up_to_date(self) -> bool:
        """Tell whether Python's objects hold what the graph has read of them."""
        return first_changed(self.compiled.constants) is None

    @property
    def inlined_graph(self) -> Graph:
        """A copy of the graph in which no call is left."""
        graph = self.compiled.graph.copy()
        inline(graph)
        refuse_written_copies(graph)
        return graph

    @cached_property
    def parameters(self) -> tuple[Argument, ...]:
        """The parameters that a caller gives: all but a method's first."""
        return self.compiled.schema.arguments[self.is_method :]

    @cached_property
    def tests(self) -> list[Test]:
        """A test for each of these parameters: whether a value is of its type."""
        return [test_of(parameter.type) for parameter in self.parameters]

    @cached_property
    def lifted(self) -> LiftedGraph:
        """The inlined graph whose inputs are attributes of the module as well."""
        return LiftedGraph(self.inlined_graph, is_method=self.is_method)

    @cached_property
    def executor(self) -> GraphExecutor:
        """The executor, which optimizes and runs that graph."""
        return GraphExecutor(self.lifted.graph)


def refuse_written_copies(graph: Graph) -> None:
    """Refuse a graph that writes to a list of Python, or that gives it away.

    The graph has a copy of the list, so Python's own would stay as it is.
    """
    copies = [node for node in graph.nodes() if COPY_OF in node.attributes]
    aliasing = AliasDb(graph) if copies else None
    for node in copies:
        assert aliasing is not None
        if aliasing.has_writers(node.output) or aliasing.escapes(node.output):
            name = node.attributes[COPY_OF]
            raise ScriptError(
                f"`{name}` is a list of Python, of which a script has a copy: it cannot write to it"
                ", return it or keep it",
                node.range,
                code="script-list-of-python",
                fix=f"give the list as an argument, or make a new one: `list({name})`",
            )


class Method(ScriptFunction):
    """A function of a module type; the first input of its graph is the module."""

    is_method = True

    def __init__(
        self, compiled: CompiledFunction, again: Callable[[], CompiledFunction] | None = None
    ) -> None:
        super().__init__(compiled, again=again)
        self.call = lambda module, *inputs: self.run(module, inputs)

    def __repr__(self) -> str:
        return f"<script method {self.name}>"


class LiftedGraph:
    """An inlined graph in which attributes of the module are further inputs.

    Attributes that the graph writes stay, and so do those that may come from more than one module.

    Attributes:
        graph: the graph.
        paths: for each further input, the attribute's path from the module, such as
            ``("encoder", "0", "weight")``.
        takes_module: whether the graph needs the module itself, as its first input.
    """

    def __init__(self, graph: Graph, *, is_method: bool) -> None:
        self.graph = graph
        self.paths: tuple[Path, ...] = ()
        self.takes_module = is_method
        if is_method:
            self._lift(graph.inputs[0])

    def _lift(self, module: Value) -> None:
        written = {n.attributes["name"] for n in self.graph.nodes() if n.kind == "prim::SetAttr"}
        inputs: dict[Path, Value] = {}
        modules: dict[Value, Path] = {module: ()}
        for node in list(self.graph.nodes()):
            path = _path_of(node, modules)
            if path is None:
                continue
            if is_module_type(node.output.type):
                modules[node.output] = path
            elif node.attributes["name"] not in written:
                if path not in inputs:
                    inputs[path] = self.graph.add_input(".".join(path), node.output.type)
                node.output.replace_all_uses_with(inputs[path])
                node.destroy()
        self._remove_unread(modules)
        self.paths = tuple(inputs)
        if not module.uses:
            self.graph.block.remove_input(0)
            self.takes_module = False

    def _remove_unread(self, modules: dict[Value, Path]) -> None:
        for value in reversed(modules):
            if not value.uses and value.node.kind == "prim::GetAttr":
                value.node.destroy()


def _path_of(node: Node, modules: dict[Value, Path]) -> Path | None:
    """Return the path that a node reads of the module; None if it reads none."""
    if node.kind != "prim::GetAttr" or node.inputs[0] not in modules:
        return None
    return (*modules[node.inputs[0]], node.attributes["name"])


def read_path(module: Any, path: Path) -> Any:
    """Return the attribute that a path leads to."""
    for name in path:
        module = getattr(module, name)
    return module


def bind_arguments(
    name: str, parameters: Sequence[Argument], args: Sequence[Any], kwargs: dict[str, Any]
) -> list[Any]:
    """Return the values of all parameters in order, with defaults for those that are not given.

    Raises:
        TypeError: too many arguments, an unknown name, a value given twice, or none given.
    """
    if len(args) > len(parameters):
        raise TypeError(f"{name} takes {len(parameters)} arguments, and got {len(args)}")
    left = dict(kwargs)
    values = list(args)
    for given, parameter in enumerate(parameters):
        if given < len(args):
            if parameter.name in left:
                raise TypeError(f"{name} got two values for {parameter.name!r}")
            continue
        value = left.pop(parameter.name, parameter.default)
        if value is NO_DEFAULT:
            raise TypeError(f"{name} needs a value for {parameter.name!r}")
        values.append(value)
    if left:
        raise TypeError(f"{name} has no parameter {next(iter(left))!r}")
    return values
