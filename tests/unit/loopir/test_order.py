"""The order of kernels for memory, the switches of scheduling, and the log of decisions."""

import pytest
import torch

from benchmarks import table4
from minitorch2 import config, stages
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.lowering import reduction_loops
from minitorch2.loopir.order import Memory, order_nodes
from minitorch2.loopir.schedule import Capabilities, bodies
from minitorch2.loopir.scheduler import create_node, schedule
from tests.unit.loopir.trace_aten import trace

X, W = torch.randn(64, 64), torch.randn(64, 64)


def scheduled(function, *inputs):
    with stages.collect() as log:
        plan = schedule(lower_graph(trace(function, inputs)), Capabilities())
    return plan, log.texts("decisions.txt")[0]


def wide_then_narrow(x, w):
    products = [x @ w, w @ x, x @ x, w @ w]
    return [(p @ w).sum(1) for p in products]


def test_kernels_are_reordered_where_memory_peaks_lower():
    plan, text = scheduled(wide_then_narrow, X, W)
    assert "kernels reordered: intermediates peak at" in text
    names = [node.name for node in plan.nodes]
    done: set[str] = set()
    for node in plan.nodes:
        assert not {n for n in node.read_names if n in names} - done
        done |= node.written_names


def test_the_reported_peak_is_that_of_the_order():
    lowered = lower_graph(trace(wide_then_narrow, (X, W)))
    nodes = [create_node(buffer, order) for order, buffer in enumerate(lowered.buffers)]
    by_name = {node.name: node for node in nodes}
    needs = {node: {by_name[n] for n in node.read_names if n in by_name} for node in nodes}
    ordered, decision = order_nodes(nodes, needs, lowered)
    for order, peak in ((nodes, decision.program), (ordered, decision.greedy)):
        memory = Memory(order, lowered)
        for node in order:
            memory.run(node)
        assert memory.peak == peak
    assert decision.reordered
    assert decision.greedy < decision.program


def test_an_order_that_gains_nothing_stays():
    _, text = scheduled(lambda x, w: ((x @ w) + 1) @ w, X, W)
    assert "order kept: intermediates peak at" in text


def test_every_decision_has_a_reason():
    def function(x, w, v):
        return (x.t().sin() + w.t() + v.t()).contiguous(), (x @ w).sum()

    inputs = X, W, torch.randn(64, 64)
    _, text = scheduled(function, *inputs)
    assert "inlined, " in text
    assert "stored, the graph returns it" in text
    assert "by vote" in text
    with config.patch(reorder_loops=False):
        _, text = scheduled(function, *inputs)
    assert "by vote" not in text


def test_a_long_reduction_in_pieces_is_logged():
    _, text = scheduled(lambda x: x.sum(), torch.empty(1 << 18))
    assert "262144 elements are reduced in" in text


def test_sums_of_columns_are_cut_into_pieces_of_rows():
    """Each thread keeps to rows; what makes the rows shares the loops of the pieces."""

    def function(x, mask):
        gradient = x * mask
        return gradient, gradient.sum(0), x.sum(0)

    x, mask = torch.randint(-8, 8, (2, 1024, 256)).float()  # whole numbers: sums are exact
    plan, text = scheduled(function, x, mask)
    assert "1024 elements are reduced in 16 pieces" in text
    assert sorted(len(bodies(kernel)) for kernel in plan.kernels()) == [1, 1, 3]
    for rows, kernels in ((1024, 3), (1021, 1), (256, 1)):  # 1021 is a prime, the last is small
        inputs = x[:rows].clone(), mask[:rows].clone()
        with stages.collect() as log:
            results = compile_graph(trace(function, inputs))([*inputs])
        assert log.counts["kernels"] == kernels
        assert all(map(torch.equal, results, function(*inputs)))


def test_pieces_of_a_reduction_lie_together_in_memory():
    """Regression: a sum of all of a transposed matrix took a bit of each row for each piece."""
    plan, _ = scheduled(lambda x: x.t().sum(), torch.empty(1000, 1001))
    for kernel in plan.kernels():
        (read,) = bodies(kernel)[0].reads_of
        assert list(read.strides) == sorted(read.strides, reverse=True)


def test_fusion_can_be_switched_off():
    def function(x, w):
        y = x.sin()
        return y, y.cos(), (x * w).sum(1)

    with config.patch(fusion=False):
        plan, text = scheduled(function, X, W)
    assert len(plan.kernels()) == 3
    assert "more than 1 loop bodies in a kernel" in text
    assert len(scheduled(function, X, W)[0].kernels()) < 3


def test_every_line_of_table_4_is_a_set_of_options():
    for name, changes in table4.SWITCHES.items():
        with config.patch(**changes):
            pass
        assert name in table4.PAPER
    assert "without cudagraphs" not in table4.compilers("cpu")
    assert "without cudagraphs" in table4.compilers("cuda")


@pytest.mark.parametrize(("shape", "dim"), [((2053, 1024), 0), ((64, 40000), 1)])
def test_a_later_pass_takes_over_what_an_earlier_one_has_stored(shape, dim):
    """Exponentials that are too many for the stack are divided where they lie."""
    x = torch.randn(shape)

    def function(x):
        return torch.softmax(x * 0.5, dim)

    with stages.collect() as log:
        (result,) = compile_graph(trace(function, (x,)))([x])
    assert log.counts["kernels"] == 1
    assert log.texts("wrapper.py")[0].count("empty_cpu((") == 1
    torch.testing.assert_close(result, function(x))


@pytest.mark.parametrize("count", [65537, 100003, 1 << 17])
@pytest.mark.parametrize("name", ["sum", "amax", "amin", "any"])
def test_a_count_without_divisors_is_reduced_in_pieces_too(name, count):
    """Regression: a prime number of elements was reduced by one thread."""
    x = torch.randint(-3, 4, (count,)).float()
    x[-1] = 1000  # in the rest that no piece has
    _, text = scheduled(lambda x: getattr(x, name)(), x)
    assert f"{count} elements are reduced in" in text
    (result,) = compile_graph(trace(lambda x: (getattr(x, name)(),), (x,)))([x])
    assert torch.equal(result, getattr(x, name)())


def test_the_rest_of_an_inner_dimension_is_reduced(monkeypatch):
    """The pieces of the sizes 3 and 101 leave a rest of the second one."""
    monkeypatch.setattr(reduction_loops, "pieces_of", lambda *_, **__: (3, 4))
    x = torch.randint(-9, 9, (2, 3, 101, 5)).float()
    for function in (lambda x: (x.sum((1, 2, 3)),), lambda x: (x.amax((1, 2)),)):
        results = compile_graph(trace(function, (x,)))([x])
        assert all(map(torch.equal, results, function(x)))


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("count", [65537, 100003])
def test_positions_in_a_row_without_divisors_are_found_in_pieces(kind, count):
    """Regression: the largest of a prime number of elements was looked for by one thread."""
    x = torch.randint(-3, 4, (count,)).float()
    _, text = scheduled(lambda x: getattr(x, kind)(), x)
    assert f"{count} elements are reduced in" in text
    for place in (0, 4095, 4096, 4097, count // 2, count - 1):
        given = x.clone()
        given[place:] = {"argmax": 9, "argmin": -9}[kind]
        (result,) = compile_graph(trace(lambda x: (getattr(x, kind)(),), (given,)))([given])
        assert result == place


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_positions_are_found_in_pieces(kind, dtype):
    """The first of equal elements is found, and the first NaN, whatever piece it is in."""
    x = torch.randint(-3, 4, (1 << 17,)).to(dtype)
    x[[70_000, 90_000]] = torch.tensor({"argmax": 9, "argmin": -9}[kind], dtype=dtype)
    _, text = scheduled(lambda x: getattr(x, kind)(), x)
    assert "elements are reduced in" in text
    broken = x.clone()
    if dtype.is_floating_point:
        broken[[80_000, 100_000]] = torch.nan
    for given in (x, broken, x.view(2, -1), x.view(-1, 2).t(), x.view(4, -1)[:, 1:]):
        (result,) = compile_graph(trace(lambda x: (getattr(x, kind)(),), (given,)))([given])
        assert torch.equal(result, getattr(given, kind)())
