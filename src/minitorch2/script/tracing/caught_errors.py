"""Errors of operators that the traced program catches: they decide which way it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode

from minitorch2.errors import TraceError
from minitorch2.script.tracing.graph_writer import GraphWriter


class CaughtErrors(TorchFunctionMode):
    """Notes the first error of an operator; at the end of a trace the program has caught it."""

    def __init__(self, writer: GraphWriter) -> None:
        super().__init__()
        self._writer = writer
        self._refusal: TraceError | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            if self._refusal is None:
                self._refusal = self._writer.refuse(
                    f"an error of an operator is caught ({error})",
                    "ask for sizes and values before the call, or script the function",
                )
            raise

    def check(self) -> None:
        """Raise if there was an error, although the program has come to its end.

        Raises:
            TraceError: a graph would go the same way where the operator raises nothing.
        """
        if self._refusal is not None:
            raise self._refusal
