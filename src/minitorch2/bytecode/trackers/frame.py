"""The call that is captured: a function, its arguments, and what earlier calls have taught."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType

from minitorch2.bytecode.guards.overrides import ActiveOverrides
from minitorch2.bytecode.guards.sizes import SizeHistory
from minitorch2.bytecode.guards.sources import Source


@dataclass(frozen=True)
class Frame:
    """A call of a Python function that is about to be captured.

    Attributes:
        function: the function object: code, globals, closure.
        values: value of each parameter by name, ``*args`` as a tuple and ``**kwargs`` as a dict.
        varying: numbers and strings that change from call to call, so are not taken for constants.
        constants: results of functions that are called while capturing, by function and arguments.
        sizes: the sizes and numbers with which the code was compiled before.
        makes_leaves: whether the graph may hold leaves that the program makes.
        writes_history: whether it may write to inputs that others made; None until it does.
        hooks: how hooks on gradients are taken (`hooks.RECORDED` and others).
        selects: whether the graph may select one of two tensors by their values.
        overrides: the overrides of PyTorch's functions that are in force.
    """

    function: FunctionType
    values: Mapping[str, object]
    varying: frozenset[Source] = frozenset()
    constants: dict[Hashable, tuple[object, object]] = field(default_factory=dict)
    sizes: SizeHistory = field(default_factory=SizeHistory)
    makes_leaves: bool = True
    writes_history: bool | None = None
    hooks: str = "recorded"
    selects: bool = True
    overrides: ActiveOverrides = field(default_factory=ActiveOverrides.now)

    @property
    def code(self) -> CodeType:
        """The function's code object."""
        return self.function.__code__

    @property
    def globals(self) -> dict[str, object]:
        """The globals of the function's module."""
        return self.function.__globals__
