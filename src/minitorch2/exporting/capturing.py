"""A call of a program as one captured graph, whose inputs and results are those of the call.

A function is written around the program, with the parameters of the call::

    def model(x, k):
        results = called(x, k=k)
        check_effects()                  # an error if Python objects have changed
        return results, hold(leaves(results), leaves((x, k)))

Capture records the call of `hold` as a node. Its arguments say how each result is made of the
graph, sizes and constants included, and keep the inputs that nothing else reads. No operator runs:
the structure of the results is that of a call on tensors without meaning.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from minitorch2.api.compiler import compile
from minitorch2.bytecode.trackers.base import unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.side_effects import AttributeEffect, Effect, GlobalEffect
from minitorch2.errors import DynamicSizeError, ExportError, GraphBreakError
from minitorch2.foundation.generated_code import PREFIX, execute, new_file
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Argument, Node
from minitorch2.graph.symbols import expr_of
from minitorch2.graph.symbols.expression import SYMBOLIC
from minitorch2.marks.controls import allow_in_graph
from minitorch2.native.torch_internals.pytree import TreeSpec, tree_flatten, tree_leaves, tree_map


@dataclass
class Call:
    """One call of a program.

    Attributes:
        program: the function or module.
        names: the parameter of each argument, in the order of the call.
        positional: how many arguments have no keyword.
        values: the arguments.
    """

    program: Callable[..., Any]
    names: tuple[str, ...]
    positional: int
    values: tuple[Any, ...]

    @staticmethod
    def of(program: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        """Return a call whose tensors are new objects, so that marks do not reach the user's.

        Raises:
            ExportError: the program does not take these arguments.
        """
        copies: dict[int, torch.Tensor] = {}

        def copy(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            return copies.setdefault(id(leaf), leaf.detach())

        names = (*_positional_names(program, args, kwargs), *kwargs)
        values = tree_map(copy, (*args, *kwargs.values()))
        return Call(program, names, len(args), tuple(values))

    def wrapper(self) -> Callable[..., Any]:
        """Return the function around the program (see the module's docstring)."""
        given = [n if i < self.positional else f"{n}={n}" for i, n in enumerate(self.names)]
        name = getattr(self.program, "__name__", type(self.program).__name__)
        name = name if name.isidentifier() else "program"
        text = (
            f"def {name}({', '.join(self.names)}):\n"
            f"    results = {_CALLED}({', '.join(given)})\n"
            f"    {_CHECK}()\n"
            f"    inputs = {_LEAVES}(({''.join(f'{n}, ' for n in self.names)}))\n"
            f"    return results, {_HOLD}({_LEAVES}(results), inputs)\n"
        )
        names: dict[str, Any] = {_CALLED: self.program, _CHECK: check_effects,
                                 _HOLD: hold, _LEAVES: tree_leaves}  # fmt: skip
        execute(text, new_file("export", name), names)
        return names[name]  # type: ignore[no-any-return]


_CALLED, _CHECK, _HOLD, _LEAVES = (
    f"_minitorch2_{n}" for n in ("called", "check", "hold", "leaves")
)


def _positional_names(
    program: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[str]:
    called = program.forward if isinstance(program, torch.nn.Module) else program
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):  # some builtins have none
        return [f"arg{i}" for i in range(len(args))]
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        cause = f"the program does not take these arguments: {error}"
        raise ExportError(cause, code="export", fix=f"it takes {signature}") from None
    names: list[str] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{name}_{i}" for i in range(len(args) - len(names))]
        else:
            names.append(name)
    return names[: len(args)]


@allow_in_graph
def hold(results: list[Any], inputs: list[Any]) -> torch.Tensor:
    """Stand in a captured graph for the use of the results, and of the inputs."""
    return torch.empty(0)


def check_effects() -> None:
    """Stand in captured code for the check that no Python object was changed."""


@models(check_effects)
def _check_effects(evaluator: Evaluator) -> None:
    changed = filter(None, map(_changed, evaluator.capture.side_effects.effects.values()))
    names = ", ".join(dict.fromkeys(changed)).replace(_CALLED, "the module")
    if names:
        unsupported(
            "export-effect",
            f"the program changes {names}, and an exported program has no Python objects",
            "keep state in buffers and write to them in place, as in self.count.add_(1)",
        )


def _changed(effect: Effect) -> str | None:
    """Return the place outside that an effect changes; None if there is none."""
    if isinstance(effect, GlobalEffect):
        return effect.variable_name()
    owner = effect.owner()
    if owner is None or owner.source is None:
        return None
    if not isinstance(effect, AttributeEffect):
        return str(owner.source)
    value = effect.value()
    stored = "" if value is None or value.source is None else str(value.source)
    if stored.startswith(str(owner.source)) and effect.name in stored.removeprefix(
        str(owner.source)
    ).replace("'", ".").split("."):
        return None  # as ``self.count += 1`` stores the tensor that it has written to
    return f"{owner.source}.{effect.name}"


@dataclass(frozen=True)
class Captured:
    """A captured call.

    Attributes:
        module: the graph; its output are the leaves of the results.
        inputs: the tensors that its placeholders stand for.
    """

    module: GraphModule
    inputs: list[Any]


def capture_call(call: Call, use: Callable[[Captured], None]) -> TreeSpec:
    """Capture a call as one graph, and use it; return the structure of the results.

    Raises:
        GraphBreakError: the program cannot be one graph; the message has the line and the remedy.
        DynamicSizeError: the program fixes a size that the user has declared as dynamic.
        ExportError: the program was not captured, since it raised an exception of its own.
    """
    used = False

    def backend(module: GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        nonlocal used
        results = [without_meaning(node.meta["val"]) for node in module.graph.output_node.args[0]]
        use(Captured(_with_held_results(module), inputs))
        used = True
        return lambda *_: results

    compiled = compile(call.wrapper(), backend=backend, fullgraph=True, options=_OPTIONS)
    try:
        with torch.no_grad():
            results, _ = compiled(*call.values)
    except DynamicSizeError as error:
        error.fix = (error.fix or "").replace(
            "use maybe_mark_dynamic", "declare the dimension static: leave it out of dynamic_shapes"
        )
        raise
    except GraphBreakError as error:
        raise _about_the_program(error, call.program) from None
    if not used:
        raise ExportError(
            "the program ran in Python: no graph of it was captured", code="export",
            fix="compute on a tensor of its arguments or of its module",
        )  # fmt: skip
    return tree_flatten(results)[1]


def _about_the_program(error: GraphBreakError, program: Callable[..., Any]) -> GraphBreakError:
    """Return the error about the user's program, without words about the function around it."""
    cause = error.cause.replace("graph break with fullgraph=True", "export needs one graph")
    cells = getattr(getattr(program, "__code__", None), "co_freevars", ())
    for number, name in enumerate(cells):
        cause = cause.replace(f"the module.__closure__[{number}].cell_contents", name)
    if str(error.user_line).startswith(f"File: {PREFIX}"):
        error.user_line = None
        if error.code == "not-a-graph-argument":
            cause = f"export needs one graph: a result is no tensor, number or text: {cause}"
    error.cause = cause
    return error


_OPTIONS: Final[dict[str, Any]] = {"duck_shapes": False}
"""Sizes that vary are not the same because they are equal in the example."""


def without_meaning(value: Any) -> Any:
    """Return a tensor of a fake's form, with the sizes of the example, or a number."""
    if isinstance(value, SYMBOLIC):
        env, expr = value.node.shape_env, expr_of(value)
        return env.hint(expr) if env.has_hint(expr) else 2  # the data of no call tell it
    if not isinstance(value, torch.Tensor):
        return value
    shape = [*map(without_meaning, value.shape)]
    return torch.zeros(shape, dtype=value.dtype, device=value.device)


def _with_held_results(module: GraphModule) -> GraphModule:
    """Return the graph whose output are the arguments of `hold`."""
    copy = module.copy()
    graph = copy.graph
    (held,) = (node for node in graph.nodes if _plain_function(node.target) is hold)
    graph.erase(graph.output_node)
    results: Any = held.args[0]
    graph.output(tuple(_plain(value) for value in results))
    graph.erase(held)
    return copy


def _plain_function(target: object) -> object:
    """Return a called function without what lets it run with a default device."""
    return getattr(target, "__wrapped__", target)


def _plain(value: Argument) -> Argument:
    return value if isinstance(value, Node) else expr_of(value)
