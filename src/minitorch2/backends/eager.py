"""Run the captured graph unchanged: capture without any optimization (the paper's Table 3
baseline).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitorch2.errors import BackendError
from minitorch2.graph.graph_module import GraphModule


def eager(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Return the graph itself."""
    return gm


def eager_noexcept(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Return the graph; an error in it becomes a BackendError.

    So a wrong capture cannot pass as the user's error.
    """

    def run(*inputs: Any) -> Any:
        try:
            return gm(*inputs)
        except Exception as error:
            cause = f"the captured graph failed when run eagerly: {error}"
            raise BackendError(cause, code="graph-failed") from error

    return run
