"""Functions without tensors: the Python text of their graph, compiled by Numba.

ints have 64 bits there, as in TorchScript. A function stays Python if Numba does not take it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from minitorch2 import stages
from minitorch2.logs import get_logger
from minitorch2.script.ir.graph import Graph, Node
from minitorch2.script.ir.types import BOOL, FLOAT, INT, Type
from minitorch2.script.runtime.templates import NUMBERS, template_of

_LOGGER = get_logger(__name__)
_NAMES: Final[dict[Type, str]] = {INT: "int64", FLOAT: "float64", BOOL: "boolean"}
_PLAIN: Final = frozenset(
    {"prim::Constant", "prim::If", "prim::Loop", "prim::Uninitialized", "prim::unchecked_cast"}
)


def is_scalar(graph: Graph) -> bool:
    """Return whether a graph is a loop over numbers, which Numba computes as Python does."""
    nodes = list(graph.nodes())
    has_loop = any(node.kind == "prim::Loop" for node in nodes)
    values = [*graph.inputs, *(value for node in nodes for value in node.outputs)]
    is_plain = all(value.type in NUMBERS for value in values) and all(map(_is_plain, nodes))
    return has_loop and len(graph.outputs) == 1 and is_plain


def _is_plain(node: Node) -> bool:
    return node.kind in _PLAIN or template_of(node) is not None


def compile_scalar(graph: Graph, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of numbers as machine code.

    Args:
        graph: what the function computes, for the types.
        function: the graph as Python; it runs where an argument has more than 64 bits.
    """
    import numba  # half a second, and only where something is compiled

    arguments = ", ".join(_NAMES[value.type] for value in graph.inputs)
    signature = f"{_NAMES[graph.outputs[0].type]}({arguments})"
    try:
        compiled: Callable[..., Any] = numba.njit(signature)(function)
    except numba.core.errors.NumbaError as error:
        _LOGGER.info("%s stays Python: %s", graph.name, error)
        return function
    stages.count("script_scalar_functions")

    @wraps(function)
    def run(*args: Any) -> Any:
        try:
            return compiled(*args)
        except (OverflowError, TypeError):
            return function(*args)

    return run
