"""The executor: plans by the properties of tensors, regions with gradients, guards, numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from minitorch2 import config, jit, stages
from minitorch2.script.ir.graph import Graph, Value
from minitorch2.script.ir.types import TENSOR
from minitorch2.script.runtime.executor import GraphExecutor, optimized_execution
from tests.unit.script.test_runtime_execution import collatz, lstm, of, python_collatz

ROW = tuple[torch.Tensor, ...]


def cell(x: Any, hx: Any, cx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> ROW:
    """The overview's LSTM cell in eager mode."""
    i, f, g, o = (x.mm(w_ih.t()) + hx.mm(w_hh.t()) + b_ih + b_hh).chunk(4, 1)
    cy = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    return o.sigmoid() * cy.tanh(), cy


def cell_inputs(batch: int, *, requires_grad: bool) -> list[torch.Tensor]:
    sizes = [(batch, 4), (batch, 5), (batch, 5), (20, 4), (20, 5), (20,), (20,)]
    return [torch.randn(size).requires_grad_(requires_grad) for size in sizes]


def test_sizes_that_were_never_seen_compile_nothing_and_gradients_are_eagers() -> None:
    executor = GraphExecutor(lstm())
    with stages.collect(texts=False) as log:
        counts = []
        for batch in (8, 8, 3, 17, 5, 11, 2):
            given = cell_inputs(batch, requires_grad=True)
            found = executor.run(given)
            wanted = cell(*given)
            torch.testing.assert_close(found, wanted)
            loss, other = (hy.sum() + cy.pow(2).sum() for hy, cy in (found, wanted))
            gradients = torch.autograd.grad(loss, given)
            torch.testing.assert_close(gradients, torch.autograd.grad(other, given))
            counts.append((log.counts["script_plans"], log.counts["script_regions"]))
    assert counts[0] == (0, 0)
    assert counts[-1][0] <= 2  # exact sizes; then, after a guard failed, sizes that vary
    assert counts[4:] == counts[4:5] * 3


def test_a_traced_loop_over_cells_is_one_region_for_each_plan() -> None:
    """Regression: the checks of `chunk` cut it into four regions a step, each compiled."""

    def steps(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        h = c = torch.zeros(x.size(1), 5)
        for step in range(4):
            h, c = cell(x[step], h, c, *weights)
        return h

    weights = cell_inputs(1, requires_grad=True)[3:]
    inputs = [(torch.randn(4, batch, 4), *weights) for batch in (3, 3, 8, 2, 5, 7, 6)]
    traced = jit.trace(steps, inputs[0])
    with stages.collect(texts=False) as log:
        for given in inputs:
            torch.testing.assert_close(traced(*given), steps(*given))
    assert (log.counts["script_plans"], log.counts["script_regions"]) == (2, 2)


def test_second_derivatives_are_eagers() -> None:
    executor = GraphExecutor(lstm())
    given = cell_inputs(3, requires_grad=True)
    for _ in range(3):
        found, wanted = (
            torch.autograd.grad(hy.sum() + cy.pow(2).sum(), given, create_graph=True)
            for hy, cy in (executor.run(given), cell(*given))
        )
        second, other = (sum(g.pow(2).sum() for g in first) for first in (found, wanted))
        torch.testing.assert_close(
            torch.autograd.grad(second, given), torch.autograd.grad(other, given)
        )


def test_the_mode_and_what_requires_a_gradient_choose_the_plan() -> None:
    executor = GraphExecutor(lstm())
    with_gradient, without = (cell_inputs(3, requires_grad=r) for r in (True, False))
    for _ in range(2):
        executor.run(with_gradient)
        executor.run(without)
    kinds = {
        spec.needs_gradient: {node.kind for node in plan.graph.nodes()}
        for spec, plan in executor.plans.items()
    }
    assert "prim::DifferentiableGraph" in kinds[True]
    assert "prim::FusionGroup" in kinds[False]
    assert executor.graph_for(*with_gradient) is not executor.graph
    assert "FusionGroup" not in str(executor.graph)


def test_nothing_is_compiled_without_optimization() -> None:
    executor = GraphExecutor(lstm())
    given = cell_inputs(3, requires_grad=False)
    with optimized_execution(False), stages.collect(texts=False) as log:
        for _ in range(3):
            torch.testing.assert_close(executor.run(given), cell(*given))
    assert not executor.plans
    assert not log.counts["graphs_compiled"]


def test_loops_over_numbers_are_machine_code() -> None:
    pytest.importorskip("numba")
    executor = GraphExecutor(collatz())
    with stages.collect(texts=False) as log:
        for n in (27, 837799, 1, 7):
            assert executor.run((n, 10_000)) == python_collatz(n, 10_000)
    assert log.counts["script_scalar_functions"] == 1
    with config.patch(script_numba=False):
        other = GraphExecutor(collatz())
        assert [other.run((27, 1000)) for _ in range(3)] == [111] * 3


def in_place() -> Graph:
    """Return ``y = x * 2; x.add_(y); z = x[0]; z.mul_(y[0]); return x.relu()``."""
    graph = Graph("writes")
    block, x = graph.block, graph.add_input("x")
    one, two, zero = (graph.constant(number) for number in (1, 2, 0))

    def tensor(kind: str, *inputs: Value) -> Value:
        return of(block, f"aten::{kind}", inputs, TENSOR)

    y = tensor("mul", x, two)
    tensor("add_", x, y, one)
    row = tensor("select", x, zero, zero)
    tensor("mul_", row, tensor("select", y, zero, zero))
    graph.add_output(tensor("relu", x))
    return graph


def eager_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    x.add_(y)
    x[0].mul_(y[0])
    return x.relu()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_writes_to_inputs_and_through_views_are_eagers(requires_grad: bool) -> None:
    executor = GraphExecutor(in_place())
    for rows in (3, 3, 3, 5, 7, 2):
        start = torch.randn(rows, 4).requires_grad_(requires_grad)
        found, wanted = start.clone(), start.clone()
        results = executor.run([found]), eager_in_place(wanted)
        torch.testing.assert_close(*results)
        torch.testing.assert_close(found, wanted)
        if requires_grad:
            gradients = [torch.autograd.grad(r.sum() + (r * r).sum(), start)[0] for r in results]
            torch.testing.assert_close(*gradients)


TOTAL, FACTOR = torch.zeros(3), torch.full((3,), 2.0)


def add_to_total(x: torch.Tensor) -> torch.Tensor:
    TOTAL.add_(1)
    return x * FACTOR + TOTAL


def only_add_to_total(x: torch.Tensor) -> torch.Tensor:
    TOTAL.add_(1)
    return x * 2


def test_a_trace_writes_to_the_tensors_of_its_surroundings_in_each_call() -> None:
    for function in (add_to_total, only_add_to_total):
        TOTAL.zero_()
        x, traced = torch.ones(3), jit.trace(function, (torch.ones(3),))
        with stages.collect() as collected:
            results = [traced(x) for _ in range(4)]
        assert collected.counts["script_regions"] == 1
        assert TOTAL.tolist() == [4.0] * 3 and x.tolist() == [1.0] * 3
        TOTAL.zero_()
        assert [r.tolist() for r in results] == [function(x).tolist() for _ in range(4)]


def test_a_trace_sees_that_an_argument_is_a_tensor_of_its_surroundings() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        TOTAL.add_(x)
        return x + TOTAL

    TOTAL.zero_()
    traced = jit.trace(doubled, (torch.ones(3),))
    TOTAL.fill_(1)
    results = [traced(TOTAL).tolist() for _ in range(4)]
    TOTAL.fill_(1)
    assert results == [doubled(TOTAL).tolist() for _ in range(4)]


def test_recording_undoes_writes_through_views_of_tensors_of_the_surroundings() -> None:
    table = torch.zeros(2, 3)

    def function(x: torch.Tensor) -> torch.Tensor:
        table[0].add_(x)
        table[:, 1].mul_(2)
        return x + table[0] + table[1]

    given = torch.tensor([1.0, 2.0, 3.0])
    traced = jit.trace(function, (given,))
    assert table.tolist() == [[0.0] * 3] * 2
    results = [traced(given).tolist() for _ in range(4)]
    table.zero_()
    assert results == [function(given).tolist() for _ in range(4)]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("order", ["ssdds", "ddsds"])
def test_a_plan_serves_inputs_that_are_the_same_tensor_and_others(
    requires_grad: bool, order: str
) -> None:
    """The region was compiled for inputs that repeat as those of its first call did."""

    def f(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return ((x * 2 + y).sigmoid() * z + x).tanh() * y

    script = jit.script(f)
    with config.patch(script_smallest_region=1), stages.collect(texts=False) as log:
        for kind in (*order, *order):
            x, y, z = (torch.randn(3, 4).requires_grad_(requires_grad) for _ in range(3))
            given = (x, y, x) if kind == "s" else (x, y, z)
            found, wanted = script(*given), f(*given)
            torch.testing.assert_close(found, wanted)
            if requires_grad:
                leaves = list(dict.fromkeys(given))
                for result in zip(
                    *(torch.autograd.grad(r.pow(2).sum(), leaves) for r in (found, wanted))
                ):
                    torch.testing.assert_close(*result)
    assert log.counts["script_regions"] == 1


def test_a_region_guards_only_what_its_plan_has_not_checked() -> None:
    @jit.script
    def squashed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ w) * 2

    def call(rows: int) -> None:
        x, w = torch.randn(rows, 3), torch.randn(3, 3)
        assert torch.allclose(squashed(x, w), torch.tanh(x @ w) * 2)
        assert torch.allclose(squashed(x, w.t()), torch.tanh(x @ w.t()) * 2)

    for _ in range(3):
        call(2)
    plan = squashed.executor.plan_for(torch.ones(2, 3), torch.ones(3, 3))
    assert plan is not None
    for program in plan.regions[0].programs:
        assert not any(word in program.guards for word in ("dtype", "device", "shape"))
        assert "stride" in program.guards or "is_contiguous" in program.guards
    for rows in (4, 4, 4, 5, 7, 2):
        call(rows)
