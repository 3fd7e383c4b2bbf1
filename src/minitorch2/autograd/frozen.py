"""A program whose parameters are constants (``options={"freezing": True}``), one for each set of
parameters that it meets.

A captured graph may serve several modules of one class, and a parameter may be replaced by another
tensor. So each call compares: the constants hold for the tensors that were frozen and no others.
That one of them is written to has no effect (PyTorch 2 paper, sections 6.4 and A.7).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from minitorch2.foundation.compile_lock import COMPILING
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.passes import freeze_parameters
from minitorch2.graph.passes.freeze_parameters import is_parameter

Run: TypeAlias = Callable[..., Sequence[Any]]


class FrozenProgram:
    """Calls the program that was compiled for these parameters; compiles one for new ones.

    Args:
        module: the captured graph; it is left as it is.
        example_inputs: what it is called with first.
        compile_program: compiles a graph whose frozen parameters are attributes.
    """

    def __init__(
        self,
        module: GraphModule,
        example_inputs: Sequence[Any],
        compile_program: Callable[[GraphModule, Sequence[Any]], Run],
    ) -> None:
        self.module = module
        self.compile_program = compile_program
        pairs = enumerate(zip(module.graph.placeholders, example_inputs, strict=True))
        self.positions = [i for i, (node, value) in pairs if is_parameter(node, value)]
        self.programs: dict[tuple[int, ...], tuple[list[weakref.ref[Any]], Run]] = {}
        self.writes_last = True  # the program's epilogue writes to the inputs
        self._program_for(example_inputs)

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        return self._program_for(inputs)(*inputs)

    def _program_for(self, inputs: Sequence[Any]) -> Run:
        parameters = [inputs[position] for position in self.positions]
        key = tuple(map(id, parameters))
        known = self.programs.get(key)
        # A number of a dead tensor may be that of a new one.
        if known is None or any(r() is not p for r, p in zip(known[0], parameters, strict=True)):
            with COMPILING:
                run = self.compile_program(self._frozen(inputs), inputs)
            known = self.programs[key] = [weakref.ref(p, self._forget) for p in parameters], run
        return known[1]

    def _frozen(self, inputs: Sequence[Any]) -> GraphModule:
        module = self.module.copy()
        freeze_parameters(module, inputs)
        return module

    def _forget(self, dead: weakref.ref[Any]) -> None:
        """Drop the programs of a parameter that was freed."""
        for key, (references, _) in list(self.programs.items()):
            if any(reference is dead for reference in references):
                self.programs.pop(key, None)
