"""The symbolic sizes of a graph that ``torch.compile`` captured, as sizes of ours.

PyTorch's capture leaves sizes that vary as symbols of its own, which the graph's placeholders
carry. Each becomes a symbol here, with the size of the first call as its hint. Compiling then
records a list of guards, as for graphs that were captured here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy
import torch
import torch.fx

from minitorch2 import config
from minitorch2.graph.fake_tensor import FakeConverter
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.memory_order import memory_order
from minitorch2.graph.symbols import ShapeEnv
from minitorch2.graph.symbols.conditions import holds
from minitorch2.graph.symbols.shape_env import SMALLEST_SYMBOLIC_SIZE

Place: TypeAlias = tuple[int, int | None]
"""An input that is a number, or a dimension of an input that is a tensor."""


@dataclass(frozen=True)
class VaryingSizes:
    """The sizes of a graph's inputs that vary.

    Attributes:
        symbols: for each symbol of PyTorch's, the places where its value is found.
    """

    symbols: Mapping[str, tuple[Place, ...]]

    @staticmethod
    def of(gm: torch.fx.GraphModule) -> VaryingSizes:
        """Return the varying sizes of the placeholders; expressions of symbols do not count."""
        found: dict[str, list[Place]] = {}
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        for position, node in enumerate(placeholders):
            value = node.meta.get("example_value", node.meta.get("val"))
            sizes = enumerate(value.shape) if isinstance(value, torch.Tensor) else [(None, value)]
            for dim, size in sizes:
                name = _symbol_of(size)
                if name is not None:
                    found.setdefault(name, []).append((position, dim))
        return VaryingSizes({name: tuple(places) for name, places in found.items()})

    def values(self, inputs: Sequence[Any]) -> dict[str, int]:
        """Return the value of each symbol in a call."""
        return {name: _number_at(inputs, places[0]) for name, places in self.symbols.items()}

    def signature(self, position: int, value: Any) -> Any:
        """Return the properties of an input that do not vary."""
        varying = {dim for places in self.symbols.values() for at, dim in places if at == position}
        if not isinstance(value, torch.Tensor):
            return type(value) if None in varying else (type(value), value)
        shape = tuple(-1 if dim in varying else n for dim, n in enumerate(value.shape))
        order = tuple(sorted(range(value.dim()), key=lambda dim: (value.stride(dim), -dim)))
        layout = order if varying and memory_order(value) is not None else value.stride()
        return (value.dtype, value.device, shape, layout, value.requires_grad)

    def can_vary(self, inputs: Sequence[Any]) -> bool:
        """Return whether symbols can stand for the sizes of a call.

        They cannot stand for 0 or 1, and the strides of varying tensors must follow from sizes.
        """
        tensors = {at for places in self.symbols.values() for at, dim in places if dim is not None}
        are_large = all(n >= SMALLEST_SYMBOLIC_SIZE for n in self.values(inputs).values())
        are_dense = all(memory_order(inputs[at]) is not None for at in tensors)
        return bool(self.symbols) and are_large and are_dense

    def mark(self, module: GraphModule, inputs: Sequence[Any]) -> ShapeEnv:
        """Put symbolic fakes on the placeholders of a graph; return the symbols' environment."""
        env, converter = ShapeEnv(duck_shapes=config.current().duck_shapes), FakeConverter()
        sizes: dict[Place, Any] = {}
        for name, value in self.values(inputs).items():
            number = env.new_size(name, value)
            sizes |= dict.fromkeys(self.symbols[name], number)
        for position, node in enumerate(module.graph.placeholders):
            value = inputs[position]
            if isinstance(value, torch.Tensor):
                shape = [sizes.get((position, dim), n) for dim, n in enumerate(value.shape)]
                varies = any((position, dim) in sizes for dim in range(value.dim()))
                node.meta["val"] = converter.convert(value, shape if varies else None)
            elif (position, None) in sizes:
                node.meta["val"] = sizes[position, None]
        return env

    def guard(self, env: ShapeEnv) -> Callable[[Sequence[Any]], bool]:
        """Return a check whether a graph compiled with these symbols serves a call."""
        conditions = [guard.condition for guard in env.guards]
        symbols = {name: symbol for name in self.symbols for symbol in env.symbols
                   if symbol.name == name}  # fmt: skip

        def check(inputs: Sequence[Any]) -> bool:
            values: dict[sympy.Symbol, Any] = {
                symbols[name]: value for name, value in self.values(inputs).items()
            }
            are_large = all(value >= SMALLEST_SYMBOLIC_SIZE for value in values.values())
            return are_large and all(holds(condition, values) for condition in conditions)

        return check


def _symbol_of(size: Any) -> str | None:
    """Return the name of PyTorch's symbol that a size is; None for numbers and expressions."""
    if not isinstance(size, torch.SymInt):
        return None
    expr = size.node.expr
    return expr.name if isinstance(expr, sympy.Symbol) else None


def _number_at(inputs: Sequence[Any], place: Place) -> int:
    position, dim = place
    return int(inputs[position] if dim is None else inputs[position].shape[dim])
