"""The call of a backend: checks of its result, and the fallback if the backend fails.

A program does not fail because its compiler does. If a backend raises, or its compiled code raises
where Python does not, the graph runs as it was captured, operator by operator. A warning says so
once, and `explain` lists it. With ``fullgraph=True``, or without the option `suppress_errors`, the
failure is raised. A backend's result of a wrong form is always raised: only the backend's author
can mend it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final

import torch

from minitorch2.bytecode.guards.settings import set_anomaly
from minitorch2.errors import (
    BackendError,
    CheckError,
    ConfigError,
    MinitorchError,
    UnsupportedError,
)
from minitorch2.graph.graph_module import GraphModule

Backend = Callable[[GraphModule, list[Any]], Callable[..., Any]]

NOT_SUPPRESSED: Final = frozenset({"backend-result", "graph-failed"})
"""Codes of errors that are for the author of a backend."""


def is_suppressible(error: Exception) -> bool:
    """Return whether the program may go on in Python after the error.

    It may not if the user asked for something impossible or for the check that has failed, or if
    capture can do better itself.
    """
    if isinstance(error, (CheckError, ConfigError, UnsupportedError)):
        return False
    return not isinstance(error, MinitorchError) or error.code not in NOT_SUPPRESSED


def call_backend(backend: Backend, module: GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """Compile a graph with the backend and return the compiled function.

    Raises:
        MinitorchError: the backend failed; a BackendError unless it raises a MinitorchError itself.
    """
    anomaly = torch.is_anomaly_enabled()
    set_anomaly(False)  # the gradients of a compilation have no data
    try:
        run = backend(module, inputs)
    except MinitorchError as error:
        error.user_line = error.user_line or first_line_of(module)
        raise
    except Exception as error:
        cause = f"the backend failed: {type(error).__name__}: {error}"
        line = first_line_of(module)
        raise BackendError(cause, code="backend-failed", user_line=line) from error
    finally:
        set_anomaly(anomaly)
    return run if _is_own(backend) else _checked(run, name_of(backend), module)


def first_line_of(module: GraphModule) -> object | None:
    """Return the user's line of a graph's first operation."""
    lines = (node.meta.get("source") for node in module.graph.nodes)
    return next((line for line in lines if line is not None), None)


def name_of(backend: object) -> str:
    """Return the name by which the user knows a backend."""
    return getattr(backend, "__name__", None) or repr(backend)


def _is_own(backend: object) -> bool:
    return str(getattr(backend, "__module__", "")).split(".")[0] == "minitorch2"


def _checked(run: Any, name: str, module: GraphModule) -> Callable[..., Any]:
    """Return the result of a user's backend, wrapped in a check of the values that it returns."""
    if not callable(run):
        raise BackendError(
            f"the backend {name} returned {_described(run)}, not a function",
            code="backend-result",
            fix="return a function of the graph's inputs; the graph itself is one",
        )
    returned: Any = module.graph.output_node.args[0]
    count, given = len(returned), run

    def checking(*inputs: Any) -> Any:
        result = given(*inputs)
        if isinstance(result, (tuple, list)) and len(result) == count:
            return result
        raise BackendError(
            f"what the backend {name} has compiled returned {_described(result)}, "
            f"not a tuple or list of {count}",
            code="backend-result",
            fix="return what the graph's output says, in a tuple, even a single tensor",
        )

    if isinstance(run, GraphModule):
        return run
    return update_wrapper(checking, run) if hasattr(run, "__dict__") else checking


def _described(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"
