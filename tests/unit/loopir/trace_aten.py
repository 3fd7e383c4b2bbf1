"""A small tracer for tests: a Python function of tensors -> an aten graph with fake values."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from minitorch2 import stages
from minitorch2.autograd import DECOMPOSITIONS
from minitorch2.autograd.schemas import is_composite
from minitorch2.graph import FakeTensor, Graph, GraphModule, Node, ShapeEnv, expr_of, to_fake
from minitorch2.graph.fake_tensor import run_fake
from minitorch2.loopir.buffers import ExternKernel, InputBuffer
from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.lower_graph import LoweredGraph, lower_graph
from minitorch2.loopir.lowering import LOWERINGS
from minitorch2.loopir.verify import verify_lowered
from tests.unit.loopir.access_bounds import unproved_accesses


def decomposed(mode: TorchDispatchMode, func: Any, args: Any, kwargs: Any) -> Any:
    """The result by the operators of which an operator without a lowering consists.

    NotImplemented if there is nothing to decompose.
    """
    rule = DECOMPOSITIONS.get(func) or (func.decompose if is_composite(func) else None)
    if func in LOWERINGS or rule is None:
        return NotImplemented
    with mode:
        return rule(*args, **kwargs)


class Tracer(TorchDispatchMode):
    """Records every aten operator; values are known by identity."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = Graph()
        self.attributes: dict[str, object] = {}
        self.nodes: dict[int, Node] = {}
        self.alive: list[object] = []

    def remember(self, value: object, node: Node) -> None:
        node.meta["val"] = value
        self.nodes[id(value)] = node
        self.alive.append(value)

    def argument(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.nodes[id(value)] if id(value) in self.nodes else self.constant(value)
        return expr_of(value)

    def constant(self, value: torch.Tensor) -> Node:
        name = f"constant{len(self.attributes)}"
        self.attributes[name] = value
        node = self.graph.get_attr(name)
        self.remember(value, node)
        return node

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = decomposed(self, func, args, kwargs)
        if result is not NotImplemented:
            return result
        result = run_fake(func, args, kwargs)
        node = self.graph.call_function(
            func, tree_map(self.argument, args), tree_map(self.argument, kwargs)
        )
        node.meta["val"] = result
        if isinstance(result, torch.Tensor):
            self.remember(result, node)
        else:
            for i, item in enumerate(result):
                self.remember(item, self.graph.call_function(operator.getitem, (node, i)))
        return result


def trace(
    function: Callable[..., Any], inputs: Sequence[Any], dynamic: bool = False
) -> GraphModule:
    """The aten graph of `function`; with `dynamic`, every size of an input is a symbol."""
    tracer, env, fakes = Tracer(), ShapeEnv(), []
    for position, value in enumerate(inputs):
        node = tracer.graph.placeholder(f"arg{position}_1")
        sizes = None
        if dynamic:
            sizes = [env.new_size(f"s{position}{d}", n) for d, n in enumerate(value.shape)]
        fake = to_fake(value.detach(), sizes)
        tracer.remember(fake, node)
        fakes.append(fake)
    with torch.no_grad(), tracer:
        result = function(*fakes)
    flat = tree_flatten(result)[0]
    tracer.graph.output(tuple(tracer.argument(value) for value in flat))
    return GraphModule(tracer.graph, tracer.attributes)


@dataclass
class Checked:
    lowered: LoweredGraph
    fallbacks: list[str]

    @property
    def kernels(self) -> int:
        return len(self.lowered.buffers)

    @property
    def externs(self) -> list[str]:
        return [str(b.target) for b in self.lowered.buffers if isinstance(b, ExternKernel)]


def check(
    function: Callable[..., Any],
    *inputs: torch.Tensor,
    dynamic: bool = False,
    fallbacks: int = 0,
    strides: bool = True,
    prove_bounds: bool = True,
    **tolerances: float,
) -> Checked:
    """Lower `function`, verify, run with NumPy, compare with eager: values, dtypes, strides."""
    expected = tree_flatten(function(*[x.clone() if x.is_contiguous() else x for x in inputs]))[0]
    gm = trace(function, inputs, dynamic)
    lowered = lower_graph(gm, inputs)
    verify_lowered(lowered)
    if prove_bounds and not dynamic:
        known = [b for b in lowered.inputs if isinstance(b, InputBuffer)]
        unproved = unproved_accesses([*known, *lowered.constants.values(), *lowered.buffers])
        assert not unproved, (unproved, lowered.print())
    found = [
        str(b.target) for b in lowered.buffers if isinstance(b, ExternKernel) and b.is_fallback
    ]
    assert len(found) == fallbacks, (found, lowered.print())
    for value, answer in zip(interpret(lowered, inputs), expected, strict=True):
        assert isinstance(value, torch.Tensor) == isinstance(answer, torch.Tensor)
        if isinstance(answer, torch.Tensor):
            assert value.dtype == answer.dtype, (value.dtype, answer.dtype)
            torch.testing.assert_close(value, answer, equal_nan=True, **tolerances)
            if strides and answer.numel():
                assert _strides(value) == _strides(answer), (value.stride(), answer.stride())
    return Checked(lowered, found)


def _strides(x: torch.Tensor) -> list[int]:
    return [s for s, n in zip(x.stride(), x.shape) if n != 1]


__all__ = ["Checked", "FakeTensor", "check", "stages", "trace"]
