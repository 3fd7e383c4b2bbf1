"""Calls of an exported program: check the arguments, run the graph, write back, return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from minitorch2.errors import ExportError
from minitorch2.exporting.checking import Checker
from minitorch2.exporting.signature import Signature
from minitorch2.exporting.transforms import refuse_derivatives
from minitorch2.native.torch_internals.pytree import tree_unflatten

Graph = Callable[[list[Any]], Sequence[Any]]
"""A graph as a function of the list of its inputs; the list is the function's own."""


class Runner:
    """The calls of one graph by its signature.

    Args:
        tensors: the parameters, buffers and constants by their paths.
    """

    def __init__(
        self, signature: Signature, graph: Graph, tensors: Mapping[str, torch.Tensor]
    ) -> None:
        self.signature = signature
        self.graph = graph
        self.tensors = tensors
        self.checker = Checker(signature)
        self.own = [each.target for each in signature.inputs if each.kind != "user"]

    def __deepcopy__(self, memo: dict[int, object]) -> Runner:
        return self  # a copied module passes its own tensors

    def __reduce_ex__(self, protocol: object) -> Any:
        """Refuse to be pickled, with the program or the package that it runs.

        Raises:
            ExportError: always.
        """
        raise ExportError(
            "exported programs and packages cannot be pickled: they hold code",
            code="export",
            fix="write a file with `program.save` or `minitorch2.package`, and read it with "
            "`minitorch2.load`; the tensors alone are `program.state_dict`",
        )

    def __call__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: Mapping[str, torch.Tensor] | None = None,
    ) -> Any:
        """Run a call; `tensors` stand in the place of the program's own.

        Raises:
            ExportError: the program does not serve these arguments, or it is differentiated.
        """
        leaves = self.checker.leaves(args, kwargs)
        held = self.tensors if tensors is None else tensors
        given = [*(held[target] for target in self.own), *leaves]
        told = zip(self.signature.inputs, given, strict=True)
        refuse_derivatives(
            told if tensors is not None else (t for t in told if t[0].kind == "user")
        )
        read = zip(self.signature.inputs, given, strict=True)
        with torch.no_grad():
            outputs = iter(self.graph([value for each, value in read if each.name]))
            results = []
            for each in self.signature.outputs:
                if each.kind == "mutation":
                    given[each.target].copy_(next(outputs))
                else:
                    results.append(each.value if each.kind == "value" else next(outputs))
        return tree_unflatten(results, self.signature.results)
