"""Exercises of the chapter on the cut of the joint graph."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import networkx
import torch
from torch import Tensor

from minitorch2.api import compiler
from minitorch2.autograd import DECOMPOSITIONS, min_cut_partition, trace_program
from minitorch2.course.exercise import exercise
from minitorch2.graph import Graph, GraphModule

PAGE = "gradients/cut"


def two_products(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    """Return a product of what `relu` leaves of a product."""
    return torch.relu(x @ w) @ v


def saved_operators() -> list[str]:
    """Return the operators whose results the minimum cut of `two_products` keeps."""
    graph = Graph()
    graph.output((graph.call_function(two_products, tuple(map(graph.placeholder, "xwv"))),))
    sizes = ((16, 8), (8, 32), (32, 8))
    inputs = [torch.randn(size, requires_grad=True) for size in sizes]
    joint = trace_program(GraphModule(graph), inputs, DECOMPOSITIONS, differentiate=True)
    kept = (node for node in min_cut_partition(joint).saved_nodes if node.op != "placeholder")
    return sorted(str(node.target) for node in kept)


def plain(x: Tensor, w: Tensor) -> Tensor:
    """Return four layers of two products, with `tanh` between and behind."""
    for _ in range(4):
        x = torch.tanh(torch.tanh(x @ w) @ w.t())
    return x


def kept_bytes(function: Callable[..., Tensor], *inputs: Tensor) -> int:
    """Return the bytes that a compiled function keeps for backward besides its inputs."""
    result = compiler.compile(function, backend="aot_eager_decomp_partition")(*inputs)
    known = {each.data_ptr() for each in (result, *inputs)}
    kept = {each.data_ptr(): each.nbytes for each in result.grad_fn.saved_tensors}  # type: ignore[union-attr]
    return sum(size for place, size in kept.items() if place not in known)


@exercise(
    PAGE,
    "look",
    question="""
        Which operators' results does the minimum cut of `two_products` keep, inputs aside?
        Set `operators`, a sorted list of texts. Why not the first product?
    """,
    stub="""
        from minitorch2.course.exercises.cut import two_products

        operators = ...
    """,
    hints=(
        "`saved_operators()` in the same module asks the partition.",
        "`relu` can be told by its result, and the second product needs that anyway.",
    ),
    solution="""
        from minitorch2.course.exercises.cut import saved_operators

        operators = saved_operators()
    """,
)
def name_saved(operators: list[str]) -> None:
    """Ask the partition."""
    assert list(operators) == saved_operators(), f"{operators} are not what is kept"


@exercise(
    PAGE,
    "change",
    question="""
        Four layers keep the results of all their products. Change `program` so that at most a
        fourth of the bytes are kept: what is inside of a layer is computed again.
    """,
    stub="""
        import torch


        def layer(x, w):
            return torch.tanh(torch.tanh(x @ w) @ w.t())


        def program(x, w):
            for _ in range(4):
                x = layer(x, w)
            return x
    """,
    hints=("`torch.utils.checkpoint.checkpoint(layer, x, w, use_reentrant=False)`",),
    solution="""
        import torch
        from torch.utils.checkpoint import checkpoint


        def layer(x, w):
            return torch.tanh(torch.tanh(x @ w) @ w.t())


        def program(x, w):
            for _ in range(4):
                x = checkpoint(layer, x, w, use_reentrant=False)
            return x
    """,
)
def keep_less(program: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Compare values and gradients, and count bytes."""
    x, w = torch.randn(16, 8, requires_grad=True), torch.randn(8, 64, requires_grad=True)
    gradients = [torch.autograd.grad(each(x, w).sum(), (x, w)) for each in (program, plain)]
    torch.testing.assert_close(gradients[0], gradients[1])
    least, most = kept_bytes(program, x, w), kept_bytes(plain, x, w)
    assert least * 4 <= most, f"{least} bytes are kept; four plain layers keep {most}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `network(reads, size, wanted)`, the flow network of a partition. `reads` maps a
        value to the values it is computed from (none for an input), `size` a value to its
        bytes, `wanted` are the values that backward reads. Return a dict from (node, node) to
        a capacity, between "source" and "sink", whose minimum cut is the least number of bytes
        to keep.
    """,
    stub="""
        def network(reads, size, wanted):
            return {("source", "sink"): sum(size.values())}
    """,
    hints=(
        "Split a value into two nodes; the edge between them has the value's size.",
        "Inputs hang on the source, and what backward reads on the sink, by edges of capacity "
        '`float("inf")`. An operand leads to what is computed from it by such an edge, too.',
    ),
    solution="""
        def network(reads, size, wanted):
            free = float("inf")
            capacity = {((value, "in"), (value, "out")): size[value] for value in size}
            for value, operands in reads.items():
                if not operands:
                    capacity["source", (value, "in")] = free
                for operand in operands:
                    capacity[(operand, "out"), (value, "in")] = free
            for value in wanted:
                capacity[(value, "out"), "sink"] = free
            return capacity
    """,
)
def build_the_network(network: Callable[..., Mapping[tuple[object, object], float]]) -> None:
    """Compare with all choices of what to keep, on small programs."""
    draw = random.Random(0)
    for _ in range(10):
        reads = {n: draw.sample(range(n), min(n, draw.randint(0, 2))) for n in range(6)}
        size = {n: draw.randint(1, 9) for n in reads}
        wanted = draw.sample(range(6), 2)
        flow = networkx.DiGraph()
        flow.add_nodes_from(("source", "sink"))
        for (start, end), capacity in network(reads, size, wanted).items():
            flow.add_edge(start, end, capacity=capacity)
        found = networkx.minimum_cut_value(flow, "source", "sink")
        expected = _least_kept(reads, size, wanted)
        assert found == expected, f"{reads}, {size}, {wanted}: keep {expected}, not {found}"


def _least_kept(reads: dict[int, list[int]], size: dict[int, int], wanted: list[int]) -> int:
    """Return the fewest bytes from which all that is wanted can be computed, by trying all."""
    choices = ({n for n in reads if bits >> n & 1} for bits in range(2 ** len(reads)))

    def known(value: int, kept: set[int]) -> bool:
        operands = reads[value]
        return value in kept or (bool(operands) and all(known(each, kept) for each in operands))

    good = (kept for kept in choices if all(known(value, kept) for value in wanted))
    return min(sum(size[value] for value in kept) for kept in good)


@exercise(
    PAGE,
    "build",
    question="""
        Write `within(budget, values)`: `values` maps a name to (bytes, effort to compute it
        again). Return the names to keep: drop values, those first that free most bytes for
        their effort, until the kept bytes fit into the budget.
    """,
    stub="""
        def within(budget, values):
            return set(values)
    """,
    hints=("Sort by bytes divided by effort.", "Stop as soon as the rest fits."),
    solution="""
        def within(budget, values):
            kept = sorted(values, key=lambda name: values[name][0] / values[name][1])
            while sum(values[name][0] for name in kept) > budget:
                kept.pop()
            return set(kept)
    """,
)
def fit_a_budget(within: Callable[..., set[str]]) -> None:
    """Try budgets from all to nothing."""
    values = {"product": (100, 50), "norm": (10, 20), "gelu": (80, 4), "mask": (20, 100)}
    orders = {
        210: {"product", "norm", "gelu", "mask"},
        209: {"product", "norm", "mask"},
        129: {"norm", "mask"},
        29: {"mask"},
        0: set[str](),
    }
    for budget, expected in orders.items():
        found = set(within(budget, dict(values)))
        assert found == expected, f"within {budget} bytes keep {sorted(expected)}, not {found}"
