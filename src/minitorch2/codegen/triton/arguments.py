"""The arguments of a kernel, under names that do not depend on the graph around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy


@dataclass(frozen=True)
class KernelArgument:
    """A parameter `name`; `value` is the buffer that is passed, or the size symbol."""

    name: str
    value: str | sympy.Symbol


class KernelArguments:
    """Parameters in the order of first use.

    `inplace` maps a buffer that is written to the dead buffer whose memory it takes over: both
    are one parameter, `in_out_ptr0`.
    """

    def __init__(self, inplace: Mapping[str, str]) -> None:
        self._shared = dict(inplace)
        self._targets = {source: target for target, source in inplace.items()}
        self._inputs: dict[str, str] = {}
        self._outputs: dict[str, str] = {}
        self._shared_names: dict[str, str] = {}
        self._sizes: dict[sympy.Expr, str] = {}

    def input(self, buffer: str) -> str:
        """Return the pointer through which a buffer is read."""
        target = self._targets.get(buffer)
        if target is not None:
            return self._share(target)
        return self._inputs.setdefault(buffer, f"in_ptr{len(self._inputs)}")

    def output(self, buffer: str) -> str:
        """Return the pointer through which a buffer is written."""
        if buffer in self._shared:
            return self._share(buffer)
        return self._outputs.setdefault(buffer, f"out_ptr{len(self._outputs)}")

    def _share(self, target: str) -> str:
        return self._shared_names.setdefault(target, f"in_out_ptr{len(self._shared_names)}")

    def size(self, expr: sympy.Expr) -> str:
        """Return the parameter that holds a symbolic size, or an integer computed of sizes."""
        return self._sizes.setdefault(expr, f"ks{len(self._sizes)}")

    def pointers(self) -> list[KernelArgument]:
        """Return the pointers: inputs, buffers that change in place, outputs."""
        groups = (self._inputs, self._shared_names, self._outputs)
        return [KernelArgument(name, buffer) for group in groups for buffer, name in group.items()]

    def sizes(self) -> list[KernelArgument]:
        """Return the symbolic sizes."""
        return [KernelArgument(name, symbol) for symbol, name in self._sizes.items()]
