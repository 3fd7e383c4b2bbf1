"""Exercises of the chapter on gradients."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import networkx
import torch
from torch import Tensor

from minitorch2.autograd import (
    DECOMPOSITIONS,
    default_partition,
    min_cut_partition,
    trace_program,
)
from minitorch2.autograd.partition import Partition
from minitorch2.course.exercise import exercise
from minitorch2.graph import Graph, GraphModule
from minitorch2.graph.dispatch_mode import DispatchMode

PAGE = "layers/autograd"


def partitions() -> tuple[Partition, Partition]:
    """Return both ways to cut the joint graph of `exp(sin(sin(x)))`."""
    graph = Graph()
    value = graph.placeholder("x")
    for name in ("sin", "sin", "exp"):
        value = graph.call_method(name, (value,))
    graph.output((value,))
    x = torch.randn(1000, requires_grad=True)
    joint = trace_program(GraphModule(graph), [x], DECOMPOSITIONS, differentiate=True)
    return default_partition(joint), min_cut_partition(joint)


def kept(partition: Partition) -> int:
    """Return the number of saved tensors that are not inputs."""
    return sum(node.op != "placeholder" for node in partition.saved_nodes)


@exercise(
    PAGE,
    "look",
    question="""
        How many tensors that are no inputs does the forward graph of `exp(sin(sin(x)))` save
        by default, and how many under the minimum cut? Set `default` and `minimum`.
    """,
    stub="""
        from minitorch2.course.exercises.gradients import partitions

        for partition in partitions():
            print(partition.forward.code)
        default = ...
        minimum = ...
    """,
    hints=(
        "What a forward graph returns behind its results is what it saves.",
        "The result is kept by the caller anyway, so to save it as well costs little.",
    ),
    solution="""
        from minitorch2.course.exercises.gradients import kept, partitions

        default, minimum = map(kept, partitions())
    """,
)
def count_saved(default: int, minimum: int) -> None:
    """Count them in both partitions."""
    found = tuple(map(kept, partitions()))
    assert (default, minimum) == found, f"{default} and {minimum} are not both right"


class Operators(DispatchMode):  # type: ignore[no-untyped-call]
    """Note the names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[str] = set()

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Note the operator, and run it."""
        self.seen.add(operator.overloadpacket.__name__)
        return operator(*args, **(kwargs or {}))


@exercise(
    PAGE,
    "change",
    question="""
        No loop is known for the derivative of SiLU, `x * sigmoid(x)`. Change `derivative` into
        a decomposition: it calls `sigmoid`, products, sums and differences only.
    """,
    stub="""
        import torch


        def derivative(tangent, x):
            return torch.ops.aten.silu_backward(tangent, x)
    """,
    hints=(
        "The derivative of `s = sigmoid(x)` is `s * (1 - s)`.",
        "The product rule gives `s + x * s * (1 - s)`, times the tangent.",
    ),
    solution="""
        import torch


        def derivative(tangent, x):
            s = torch.sigmoid(x)
            return tangent * (s + x * s * (1 - s))
    """,
)
def decompose_a_derivative(derivative: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Compare with autograd, and look at the operators that run."""
    x = torch.randn(9, dtype=torch.float64, requires_grad=True)
    tangent = torch.randn(9, dtype=torch.float64)
    (expected,) = torch.autograd.grad(torch.nn.functional.silu(x), x, tangent)
    data = x.detach()
    with Operators() as mode:
        found = derivative(tangent, data)
    others = mode.seen - {"sigmoid", "mul", "add", "sub", "rsub", "neg"}
    assert not others, f"it calls {', '.join(sorted(others))}"
    torch.testing.assert_close(found, expected)


@exercise(
    PAGE,
    "build",
    question="""
        Write a tape: `gradient(function, x)` is the derivative of a function that adds,
        multiplies and calls `sin(value)`, which your file defines. No torch, no finite
        differences.
    """,
    stub="""
        import math


        def sin(value):
            return math.sin(value)


        def gradient(function, x):
            return 0.0
    """,
    hints=(
        "A class with `__add__`, `__radd__`, `__mul__`, `__rmul__` notes its parents.",
        "Walk back from the result and add the product of derivatives on each way to `x`.",
    ),
    solution="""
        import math


        class Value:
            def __init__(self, number, parents=()):
                self.number, self.parents, self.gradient = number, parents, 0.0

            def __add__(self, other):
                other = other if isinstance(other, Value) else Value(other)
                return Value(self.number + other.number, ((self, 1.0), (other, 1.0)))

            def __mul__(self, other):
                other = other if isinstance(other, Value) else Value(other)
                parents = ((self, other.number), (other, self.number))
                return Value(self.number * other.number, parents)

            __radd__, __rmul__ = __add__, __mul__


        def sin(value):
            return Value(math.sin(value.number), ((value, math.cos(value.number)),))


        def gradient(function, x):
            start = Value(x)

            def send(value, tangent):
                value.gradient += tangent
                for parent, derivative in value.parents:
                    send(parent, tangent * derivative)

            send(function(start), 1.0)
            return start.gradient
    """,
)
def write_a_tape(gradient: Callable[..., float], sin: Callable[..., Any]) -> None:
    """Compare with PyTorch's own tape."""
    programs: list[Callable[[Any, Any], Any]] = [
        lambda x, sin: x * x + 3 * x + 1,
        lambda x, sin: sin(x * x) * x,
        lambda x, sin: sin(sin(x)) + x * sin(2 * x),
    ]
    for number, program in enumerate(programs, 1):
        x = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        (expected,) = torch.autograd.grad(program(x, torch.sin), x)
        found = gradient(lambda value, program=program: program(value, sin), 0.7)
        assert math.isclose(found, expected.item(), rel_tol=1e-9), (
            f"program {number}: the derivative is {expected.item():.6f}, not {found}"
        )


@exercise(
    PAGE,
    "build",
    question="""
        Write `minimum_cut(capacity)`: the least capacity that separates "source" from "sink".
        `capacity` is a dict from (node, node) to a number.
    """,
    stub="""
        def minimum_cut(capacity):
            return sum(capacity.values())
    """,
    hints=(
        "The minimum cut is as large as the maximum flow (Ford and Fulkerson).",
        "While there is a path with room on each edge, send what the narrowest edge takes. "
        "Give the way back as much room.",
    ),
    solution="""
        def minimum_cut(capacity):
            room = dict(capacity)
            flow = 0
            while True:
                path = find_path(room)
                if path is None:
                    return flow
                least = min(room[edge] for edge in path)
                flow += least
                for a, b in path:
                    room[a, b] -= least
                    room[b, a] = room.get((b, a), 0) + least


        def find_path(room):
            ways = {"source": []}
            todo = ["source"]
            while todo:
                here = todo.pop(0)
                for (a, b), left in room.items():
                    if a == here and left > 0 and b not in ways:
                        ways[b] = [*ways[a], (a, b)]
                        todo.append(b)
            return ways.get("sink")
    """,
)
def cut_a_network(minimum_cut: Callable[[Mapping[tuple[str, str], int]], float]) -> None:
    """Compare with networkx on random networks."""
    draw = random.Random(0)
    nodes = ["source", "a", "b", "c", "d", "sink"]
    for _ in range(30):
        edges = [(a, b) for i, a in enumerate(nodes) for b in nodes[i + 1 :] if draw.random() < 0.7]
        capacity = {edge: draw.randint(1, 9) for edge in edges}
        network = networkx.DiGraph()
        network.add_nodes_from(nodes)
        network.add_edges_from((a, b, {"capacity": size}) for (a, b), size in capacity.items())
        expected = networkx.minimum_cut_value(network, "source", "sink")
        found = minimum_cut(dict(capacity))
        assert found == expected, f"{capacity}: the minimum cut is {expected}, not {found}"
