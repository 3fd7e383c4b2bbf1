"""Which small kernels share a launch, by independence, limits, order, memory; why others do not."""

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.loopir.launches import join_launches
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.schedule import (
    Capabilities,
    JoinedSchedulerNode,
    Refusal,
    SchedulerNode,
    kernels_in,
)
from minitorch2.loopir.scheduler import schedule
from tests.unit.codegen.aten_graph import record

JOINS = Capabilities(row_scratch=4096, joins=8)


def anything(kernel):
    return None


def plan(program, *inputs, capabilities=JOINS, refuse=anything, dynamic=False, written=()):
    """The joined schedule; `written` are (argument, output) whose memory is the same."""
    gm = record(program, *inputs, dynamic=dynamic)
    for argument, output in written:
        gm.graph.placeholders[argument].meta["becomes"] = output
    lowered = lower_graph(gm)
    return join_launches(schedule(lowered, capabilities), lowered, capabilities, refuse)


def launches(schedule):
    """The number of kernels in each, large launches first."""
    counts = (len(kernels_in(node)) for node in schedule.nodes)
    return sorted(filter(None, counts), reverse=True)


def lists(*sizes):
    return [torch.randn(size) for size in sizes]


def double(*tensors):
    return tuple(x * 2 for x in tensors)


def chain(x, y):
    """Two kernels one after the other, for each of two tensors."""
    return tuple((t * t.sum(), (t * t.sum()).cumsum(0) * 2)[1] for t in (x, y))


def test_kernels_of_different_sizes_share_a_launch():
    found = plan(double, *lists(3, 70, 1, 12))
    assert launches(found) == [4] and len(found.kernels()) == 4
    (decision,) = found.launches
    assert decision.kernels == ("buf0", "buf1", "buf2", "buf3")
    assert decision.reason == "one launch, for 3, 70, 1, 12 elements"


def test_kernels_of_different_kinds_and_dtypes_share_a_launch():
    inputs = [torch.randn(8, 9), torch.arange(5), torch.randn(4).double()]
    found = plan(lambda x, y, z: (x.softmax(1), y + 1, z > 0, x[:4, :4].t() + 1), *inputs)
    assert launches(found) == [4]


def test_what_needs_another_runs_behind_it():
    found = plan(chain, *lists(40, 50))
    order = [name for node in found.nodes for name in sorted(node.written_names)]
    for node in found.nodes:
        before = order[: order.index(min(node.written_names, key=order.index))]
        computed = node.read_names & set(order)
        assert computed <= {*before, *node.written_names}
        for kernel in kernels_in(node):
            others = node.written_names - kernel.written_names
            assert not kernel.read_names & others
    assert max(launches(found)) == 2


def test_limits_of_a_launch():
    assert launches(plan(double, *lists(*range(2, 12)))) == [8, 2]
    few = Capabilities(joins=8, max_pointers=6)
    assert launches(plan(double, *lists(2, 3, 4, 5, 6), capabilities=few)) == [3, 2]


def test_large_kernels_stay_alone_and_the_log_says_so():
    small = Capabilities(joins=8, join_elements=100)
    found = plan(double, *lists(3, 101, 100), capabilities=small)
    assert launches(found) == [2, 1]
    assert "buf1: 101 elements: its launch counts for little" in map(str, found.launches)


def test_a_code_generator_may_refuse():
    def only_small(kernel):
        return None if kernel.ranges == (3,) else Refusal("not this one")

    found = plan(lambda x, y, z: (x + 1, y + 1, z + 1), *lists(3, 4, 3), refuse=only_small)
    assert launches(found) == [2, 1]
    assert "buf1: not this one" in map(str, found.launches)


def test_sizes_of_zero_one_and_unknown():
    assert launches(plan(double, *lists(0, 1, 5))) == [2, 1]
    assert launches(plan(double, *lists(7, 9), dynamic=True)) == [2]


def test_the_switch():
    with config.patch(join_launches=False):
        found = plan(double, *lists(3, 4))
    assert launches(found) == [1, 1] and not found.launches


def test_a_launch_of_few_kernels_is_taken_apart():
    several = Capabilities(joins=8, fewest_joined=3)
    assert launches(plan(double, *lists(3, 4, 5), capabilities=several)) == [3]
    found = plan(double, *lists(3, 4), capabilities=several)
    assert launches(found) == [1, 1]
    assert list(map(str, found.launches)) == [
        "buf0 + buf1: with 2 kernels a launch saves too little"
    ]


def test_kernels_wait_for_a_check_but_none_comes_before_it():
    def program(i, *tensors):
        before = double(*tensors[:4])
        torch._check(i.item() >= 0)
        return *before, *double(*tensors[4:])

    inputs = [torch.tensor(1), *lists(*range(3, 11))]
    compiled = minitorch2.compile(program, fullgraph=True)
    with stages.collect() as log:
        torch.testing.assert_close(compiled(*inputs), program(*inputs))
    assert (log.counts["kernels"], log.counts["launches"]) == (8, 1)
    (text,) = log.texts("wrapper.py")
    assert text.index("    check(") < text.index("    joined_mul_")


def test_branches_wait_for_each_other():
    def program(x, *weights):
        return tuple(torch.mm(x, w).relu() for w in weights)

    found = plan(program, torch.randn(4, 5), *(torch.randn(5, n) for n in (3, 6, 2)))
    assert launches(found) == [3]
    assert len(found.inplace) == 3


def test_a_kernel_does_not_wait_where_memory_would_peak_higher():
    def program(*tensors):
        """The kernels could wait for each other, but each product would have to be kept."""
        return tuple(torch.mm(x, x)[:2] * 2 for x in tensors)

    inputs = [torch.randn(400, 400) for _ in range(6)]
    found = plan(program, *inputs)
    assert launches(found) == [1] * 6
    assert any("would peak at" in str(decision) for decision in found.launches)
    assert launches(plan(program, *(x[:40, :40] for x in inputs))) == [6]


def test_results_of_a_call_follow_it():
    """So that kernels that read one of them each can share a launch."""

    def call(x):
        values, indices = torch.mode(x)
        return values[:5] + 1, indices + 1

    found = plan(call, torch.randn(9, 4))
    assert launches(found) == [2]


def test_no_kernel_writes_to_what_another_of_its_launch_reads():
    """The write to `x` is done in place, so it does not share a launch with who reads `x`."""

    def program(x, y):
        return x + 1, x[:3] * 2, y * 3

    found = plan(program, *lists(8, 5), written=[(0, 0)])
    written = next(node for node in found.nodes if "buf0" in node.written_names)
    assert found.inplace == {} or isinstance(written, SchedulerNode | JoinedSchedulerNode)
    for node in found.nodes:
        for kernel in kernels_in(node):
            taken = {found.inplace.get(name) for name in kernel.written_names} - {None}
            others = (k for k in kernels_in(node) if k is not kernel)
            assert not any(taken & other.read_names for other in others)


def test_a_kernel_that_may_raise_does_not_wait_for_writes_to_arguments():
    """A loss that is returned has no reader: it joined the optimizer, and all was copied."""

    def program(table, rows, x, y):
        loss = table[rows] * 2  # an index may be out of range
        return loss, x - x.sum(), y * 2

    inputs = (torch.randn(8), torch.tensor([1, 5]), *lists(8, 5))
    found = plan(program, *inputs, written=[(2, 1), (3, 2)])
    assert launches(found) == [2, 1]
    assert {"arg2", "arg3"} <= {*found.inplace.values()}
    assert found.nodes[0].written_names == {"buf0"}


def test_dying_buffers_are_not_reused_beside_their_other_reader():
    def program(x):
        y = torch.mm(x, x)
        return y + 1, y[:3] * 2

    found = plan(program, torch.randn(6, 6))
    assert launches(found) == [2] and not found.inplace
    apart = Capabilities()
    found = plan(program, torch.randn(6, 6), capabilities=apart)
    assert launches(found) == [1, 1]


@pytest.mark.parametrize("count", [300])
def test_many_kernels_are_joined_in_reasonable_time(count):
    found = plan(double, *lists(*range(2, 2 + count)), capabilities=Capabilities(joins=64))
    assert launches(found) == [64, 64, 64, 64, 44]
