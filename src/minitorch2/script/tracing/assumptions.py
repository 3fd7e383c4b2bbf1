"""The assumptions of a trace: conditions that each call checks.

Python looks at sizes and at data while a trace is recorded. Each answer is written into the graph
as a condition. A call that it does not hold for raises `TraceDivergedError`, which names the line
that looked (PyTorch 2 paper, section 2.1: traces that nothing checks are silently wrong).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch

from minitorch2.errors import MinitorchError
from minitorch2.native.torch_internals.gradients import preserve_versions
from minitorch2.script.ir.graph import Graph, Node, Value
from minitorch2.script.ir.python_constants import PythonConstant, first_changed
from minitorch2.script.operators.registry import operator_of
from minitorch2.script.syntax.source import NOWHERE, SourceRange
from minitorch2.script.tracing.surroundings import (
    changes,
    functions_of,
    has_state,
    line_with,
    reached,
)

CHOICES: Final = ("check", "python", "ignore")
"""What a call does where an assumption does not hold: raise, run the Python function, nothing."""


class TraceDivergedError(MinitorchError):
    """A call of a traced function would not have run the operators that the trace holds."""

    default_code = "trace-diverged"

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            fix="script the function, trace it for such inputs as well, or trace it with"
            ' assumptions="python"',
        )


DIVERGED: Final = f"{TraceDivergedError.__module__}.{TraceDivergedError.__qualname__}"


def raise_unless(graph: Graph, condition: Value, claim: str, where: SourceRange) -> None:
    """Insert a check: where the condition does not hold, the graph raises `TraceDivergedError`.

    Args:
        claim: the condition in the words of the user's program.
        where: the expression of the user's program that relies on it.
    """
    refuted = graph.create("aten::__not__", [condition], [condition.type], range=where)
    message = graph.constant(_message(claim, where), range=where)
    error = graph.constant(DIVERGED, range=where)
    check = graph.create("prim::If", [graph.insert(refuted).output], 0, range=where)
    graph.insert(check)
    failing = check.add_block()
    check.add_block()
    failing.insert(graph.create("prim::RaiseException", [message, error], 0, range=where))


def _message(claim: str, where: SourceRange) -> str:
    cause = f"the trace was recorded where {claim}, and that is not so in this call"
    if not where.file.text:
        return cause
    line = where.file.row_text(where.file.row(where.start)).strip()
    return f"File: {where.file.name}:{where.line}, code: {line}\n{cause}"


def while_unchanged(
    run: Callable[..., Any],
    original: Callable[..., Any],
    constants: Sequence[PythonConstant] = (),
) -> Callable[..., Any]:
    """Return a function that runs a trace while what the Python function reaches is as it was.

    Globals, closures and the attributes of their objects are constants of a trace. Attributes of a
    traced module are its own.

    Args:
        run: takes the arguments of a call, and runs the graph.
        original: the function or module that was traced.
        constants: what scripted functions that it calls have read of Python objects.
    """
    states = {function: reached(function) for function in functions_of(original)}
    states = {function: before for function, before in states.items() if has_state(before)}
    if not states and not constants:
        return run

    def call(*arguments: Any) -> Any:
        for function, before in states.items():
            for name in changes(before, reached(function)):
                where = line_with(function, name) or ""
                cause = f"the trace reads {name}, which has changed since it was recorded"
                raise TraceDivergedError(f"{where}\n{cause}".lstrip())
        if changed := first_changed(constants):
            raise TraceDivergedError(changed.error().cause)
        return run(*arguments)

    return call


def surroundings(original: Callable[..., Any]) -> Iterator[PythonConstant]:
    """Yield what a traced function or module reaches, for scripts that call the trace."""
    for function in functions_of(original):
        found = reached(function)
        if has_state(found):
            owner = function, found[""]
            yield PythonConstant(owner, _state, None, _state(owner, None), NOWHERE)


def _state(owner: tuple[Callable[..., Any], object], _: object) -> dict[str, Any]:
    return {name: key for name, key in reached(owner[0]).items() if name}


def or_python(
    run: Callable[..., Any], original: Callable[..., Any], graph: Graph
) -> Callable[..., Any]:
    """Return a function that runs a trace, or the Python function where a check refuses the call.

    Writes and draws of the trace before the check are undone.

    Args:
        run: takes the arguments of a call, and runs the graph.
        original: the function or module that was traced.
        graph: the trace.
    """
    undoes = acts_before_a_check(graph)

    def call(*arguments: Any) -> Any:
        saved = [(t, t.detach().clone()) for t in _tensors(arguments, original)] if undoes else []
        generator = torch.get_rng_state()
        try:
            return run(*arguments)
        except TraceDivergedError:
            torch.set_rng_state(generator)
            for tensor, before in saved:
                with torch.no_grad(), preserve_versions(tensor):
                    tensor.copy_(before)
            return original(*arguments)

    return call


def acts_before_a_check(graph: Graph) -> bool:
    """Return whether a check may refuse a call after an operator has written to a tensor."""
    nodes = list(graph.block.nodes)
    checks = [place for place, node in enumerate(nodes) if node.kind == "prim::If"]
    return any(map(_writes, nodes[: max(checks, default=0)]))


def _writes(node: Node) -> bool:
    operator = operator_of(node)
    arguments = () if operator is None else operator.schema.arguments
    writes = any(a.alias is not None and a.alias.is_write for a in arguments)
    return writes or node.kind in ("aten::batch_norm", "aten::instance_norm")


def _tensors(arguments: Any, original: Any) -> Iterator[torch.Tensor]:
    if isinstance(original, torch.nn.Module):
        yield from original.parameters()
        yield from original.buffers()
    if isinstance(arguments, torch.Tensor):
        yield arguments
    elif isinstance(arguments, dict):
        yield from _tensors(tuple(arguments.values()), None)
    elif isinstance(arguments, tuple | list):
        for argument in arguments:
            yield from _tensors(argument, None)
