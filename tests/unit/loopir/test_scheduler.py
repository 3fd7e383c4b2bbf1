"""Fusion: legality from addresses, scores, the greedy loop, the order and life of buffers."""

import itertools

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.loopir.expressions import index_symbol
from minitorch2.loopir.fusion import can_fuse, score_fusion
from minitorch2.loopir.iteration import Access, refine, split_counts, split_strides, vote_order
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.memory_plan import passes
from minitorch2.loopir.schedule import (
    Capabilities,
    ExternKernelSchedulerNode,
    FusedSchedulerNode,
    NopKernelSchedulerNode,
    Refusal,
    SchedulerNode,
)
from minitorch2.loopir.scheduler import Scheduler, create_node, dtypes_of
from tests.unit.codegen.aten_graph import record
from tests.unit.work import python_calls

ROWS = Capabilities(row_scratch=4096)


def lower(program, *inputs, dynamic=False):
    return lower_graph(record(program, *inputs, dynamic=dynamic))


def plan(program, *inputs, capabilities=ROWS, dynamic=False):
    return Scheduler(lower(program, *inputs, dynamic=dynamic), capabilities).run()


def nodes_of(program, *inputs):
    lowered = lower(program, *inputs)
    return [create_node(buffer, i) for i, buffer in enumerate(lowered.buffers)], dtypes_of(lowered)


def two(first, second):
    """A program whose two steps both have memory."""

    def program(x):
        a = first(x)
        return a, second(a)

    return program


# -- the paper's examples --------------------------------------------------------------------------


def test_the_score_of_sin_and_cos_is_the_slides_tuple():
    (a, b), dtypes = nodes_of(two(torch.sin, torch.cos), torch.empty(8192, 1024))
    assert can_fuse(a, b, ROWS) is None
    assert score_fusion(a, b, dtypes) == (True, True, 33554432, -1)


def test_a_reversed_read_is_refused_with_a_reason():
    (a, b), _ = nodes_of(two(torch.sin, lambda a: torch.cos(a.flip(0))), torch.empty(64))
    refusal = can_fuse(a, b, ROWS)
    assert isinstance(refusal, Refusal) and "other addresses" in refusal.reason


def test_the_producer_writes_where_the_consumer_reads():
    (a, b), _ = nodes_of(two(torch.sin, torch.cos), torch.empty(6, 8))
    (read,), (write,) = b.reads_of, a.writes_of
    assert read == write == Access("buf0", (8, 1), 0)


def test_reduction_broadcast_reduction_depends_on_the_code_generator():
    x = torch.empty(64, 100)
    assert len(plan(lambda x: torch.softmax(x, -1), x).kernels()) == 1
    unfused = Capabilities(fuses_reduction_broadcast_reduction=False)
    schedule = plan(lambda x: torch.softmax(x, -1), x, capabilities=unfused)
    assert len(schedule.kernels()) > 1
    assert any("reduction-broadcast" in str(decision) for decision in schedule.log)


# -- legality --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first, second, kernels",
    [
        (torch.sin, lambda a: a + 1, 1),
        (torch.sin, lambda a: a.flip(1), 2),
        (torch.sin, lambda a: torch.exp(a.t()), 1),  # loops are reordered
        (torch.sin, lambda a: a.view(-1, 4).exp(), 1),  # loops are split
        (torch.sin, lambda a: a[1:] * 2, 2),
        (torch.sin, lambda a: a.sum(1), 1),
        (torch.sin, lambda a: a.sum(0), 1),
        (lambda x: x.sum(1), lambda a: a * 2, 1),  # an epilogue
        (lambda x: x.sum(1), lambda a: a.sum(), 2),
        (lambda x: x.amax(1, keepdim=True), lambda a: a.flip(0), 2),
    ],
)
def test_producers_and_consumers(first, second, kernels):
    assert len(plan(two(first, second), torch.empty(32, 16)).kernels()) == kernels


def test_square_broadcasts_are_not_confused():
    """A row sum read along columns has the same shape, not the same address."""

    def along_rows(x):
        return x / x.sum(1, keepdim=True)

    def along_columns(x):
        return x / x.sum(1)

    assert len(plan(along_rows, torch.empty(8, 8)).kernels()) == 1
    assert len(plan(along_columns, torch.empty(8, 8)).kernels()) == 2


def test_a_path_through_another_node_is_a_cycle():
    def program(x, w):
        a = torch.sin(x)
        b = torch.mm(a, w)
        return a, a + b

    schedule = plan(program, torch.empty(8, 8), torch.empty(8, 8))
    assert [type(node) for node in schedule.nodes] == [
        SchedulerNode, ExternKernelSchedulerNode, SchedulerNode,
    ]  # fmt: skip
    assert any("must run between" in str(decision) for decision in schedule.log)


def test_horizontal_fusion_needs_a_whole_shared_input():
    x, y = torch.empty(64, 8), torch.empty(64, 8)
    assert len(plan(lambda x: (torch.sin(x), torch.cos(x)), x).kernels()) == 1
    assert len(plan(lambda x, y: (torch.sin(x), torch.cos(y)), x, y).kernels()) == 2
    alone = Capabilities(fuses_horizontally=False)
    assert len(plan(lambda x: (torch.sin(x), torch.cos(x)), x, capabilities=alone).kernels()) == 2


def test_loops_are_split_where_a_sum_over_pieces_splits_them():
    def gradients(x):
        y = torch.sin(x)
        return y, y.reshape(8, 4, 64, 32).sum(2)

    assert len(plan(gradients, torch.empty(8, 256, 32)).kernels()) == 1


def test_small_kernels_that_go_on_with_the_results_of_one_may_be_siblings():
    def sums(x):
        return (x * x).sum(), (x + 1).sum()

    x = torch.empty(64, 2048)  # in two stages each
    assert len(plan(sums, x).kernels()) == 3
    assert len(plan(sums, x, capabilities=Capabilities(fuses_siblings=True)).kernels()) == 2


def test_small_kernels_whose_results_meet_in_one_may_be_siblings():
    def ratio(x, y):
        return x.sum() / y.sum()

    x, y = torch.empty(2, 128, 1024).unbind()  # in two stages each
    assert len(plan(ratio, x, y).kernels()) == 3
    assert len(plan(ratio, x, y, capabilities=Capabilities(fuses_siblings=True)).kernels()) == 2


def test_operands_of_a_product_are_no_siblings():
    """Each may be computed by a template of the product."""

    def product(x, w):
        return x.relu() @ w.sin()

    operands = torch.empty(2, 64, 64).unbind()
    assert (
        len(plan(product, *operands, capabilities=Capabilities(fuses_siblings=True)).kernels()) == 2
    )


def test_fusion_size_is_limited():
    def program(x):
        results = []
        for _ in range(10):
            x = torch.sin(x)
            results.append(x)
        return results

    small = Capabilities(max_fusion_size=4)
    sizes = [len(k.members) for k in plan(program, torch.empty(64), capabilities=small).kernels()]
    assert max(sizes) <= 4 and sum(sizes) == 10


def test_buffers_that_a_kernel_reads_are_limited():
    def program(x, *others):
        results = [x]
        for other in others:
            results.append(torch.sin(results[-1] + other))
        return results[1:]

    inputs = [torch.empty(64) for _ in range(10)]
    few = plan(program, *inputs, capabilities=Capabilities(max_reads=4))
    assert max(len(k.read_names - k.written_names) for k in few.kernels()) == 4
    assert "more than 4 buffers to read in a kernel" in "\n".join(map(str, few.log))
    assert len(plan(program, *inputs).kernels()) == 1


def test_every_decision_is_logged():
    schedule = plan(two(torch.sin, torch.cos), torch.empty(8))
    assert [str(decision) for decision in schedule.log] == [
        "buf0 + buf1: fused, score (True, True, 32, -1)"
    ]


# -- passes, memory --------------------------------------------------------------------------------


def test_softmax_makes_three_passes():
    (node,) = plan(lambda x: torch.softmax(x, -1), torch.empty(64, 100)).kernels()
    assert sorted(set(passes(node).values())) == [0, 1, 2]


def test_buffers_inside_a_kernel_are_removed():
    schedule = plan(lambda x: torch.softmax(x, -1), torch.empty(64, 100))
    (node,) = schedule.kernels()
    assert isinstance(node, FusedSchedulerNode)
    assert schedule.removed == {body.name for body in node.nodes[:-1]}


def test_a_row_that_is_too_long_for_the_stack_keeps_its_memory():
    short = plan(lambda x: torch.softmax(x, -1), torch.empty(64, 100), capabilities=Capabilities())
    long = plan(lambda x: torch.softmax(x, -1), torch.empty(64, 5000))
    known = plan(lambda x: torch.softmax(x, -1), torch.empty(64, 5000), dynamic=True)
    for schedule in (short, long, known):
        assert len(schedule.removed) == 2  # the two reductions


def test_a_dying_buffer_is_reused_in_place():
    schedule = plan(lambda x, w: torch.relu(torch.mm(x, w)), torch.empty(8, 8), torch.empty(8, 8))
    assert schedule.inplace == {"buf1": "buf0"}


def test_a_buffer_that_is_read_at_another_address_is_not_reused():
    def program(x, w):
        a = torch.mm(x, w)
        return torch.relu(a) + a.flip(0)

    assert plan(program, torch.empty(8, 8), torch.empty(8, 8)).inplace == {}


def test_a_buffer_searched_after_the_pass_is_not_reused():
    """argmax looks for the position in a second loop, after the pass has stored."""

    def program(x, w):
        a = torch.mm(x, w)
        return a.argmax(1), torch.sin(a)

    assert plan(program, torch.empty(8, 8), torch.empty(8, 8)).inplace == {}


def test_results_of_one_call_are_nops():
    def program(x):
        values, indices = torch.sort(x)
        return values + 1, indices

    kinds = {type(node) for node in plan(program, torch.empty(8, 8)).nodes}
    assert NopKernelSchedulerNode in kinds


def test_random_operators_keep_their_order():
    def program(x):
        a = torch.rand_like(x)
        b = torch.rand_like(x)
        return b.sum(0), a + 1

    names = [
        n.name
        for n in plan(program, torch.empty(8, 8)).nodes
        if isinstance(n, ExternKernelSchedulerNode)
    ]
    assert names == sorted(names)


# -- loops -----------------------------------------------------------------------------------------


def test_loops_are_merged_and_ordered_by_memory():
    (node,) = plan(lambda x: x + 1, torch.empty(4, 5, 6)).kernels()
    assert node.ranges == (120,)
    (node,) = plan(lambda x: x + 1, torch.empty(4, 5, 6).permute(2, 0, 1)).kernels()
    assert node.ranges == (120,)
    (node,) = plan(lambda x, b: x + b, torch.empty(4, 5, 6), torch.empty(6)).kernels()
    assert node.ranges == (20, 6)
    (node,) = plan(lambda x: x.sum((0, 2)), torch.empty(4, 5, 6)).kernels()
    assert (node.ranges, node.reduction_ranges) == ((5,), (4, 6))


@pytest.mark.parametrize(
    "a, b, fine",
    [((6, 4), (2, 3, 4), (2, 3, 4)), ((24,), (4, 6), (4, 6)), ((4, 6), (6, 4), None), ((), (), ()),
     ((8, 3), (24,), (8, 3)), ((2, 12), (8, 3), (2, 4, 3))],
)  # fmt: skip
def test_refinement(a, b, fine):
    assert refine(a, b) == fine


def test_splitting_a_loop_keeps_every_address():
    counts, fine = split_counts((6, 4), (2, 3, 4)), (2, 3, 4)
    strides = split_strides((4, 1), counts, fine)
    addresses = [sum(s * i for s, i in zip(strides, index, strict=True))
                 for index in itertools.product(*map(range, fine))]  # fmt: skip
    assert addresses == list(range(24))


def test_votes_follow_the_larger_access():
    big, small = Access("a", (1, 64), 0), Access("b", (0, 1), 0)
    assert vote_order([0, 1], (64, 64), [big, small]) == [1, 0]


def test_rows_found_by_an_index_are_walked_from_end_to_end():
    """A sum of messages by their ends (`index_add`) once walked columns, as its indices lie."""
    place = 64 * index_symbol("indirect0")
    rows = [Access("x", (0, 1), place), Access("y", (0, 1), place)]
    indices = [Access(name, (1, 0), 0) for name in "abc"]
    assert vote_order([0, 1], (5000, 64), [*indices, *rows]) == [0, 1]
    assert vote_order([0, 1], (64, 5000), [*map(turned, [*indices, *rows])]) == [1, 0]


def turned(access):
    return Access(access.name, access.strides[::-1], access.offset)


def test_the_work_of_scheduling_grows_with_the_number_of_buffers():
    def work(layers):
        def program(x, w):
            for _ in range(layers):
                x = torch.softmax(torch.mm(x, w), -1) + torch.sin(x)
            return x

        lowered = lower(program, torch.empty(32, 32), torch.empty(32, 32))
        assert len(lowered.buffers) >= 4 * layers
        return python_calls(Scheduler(lowered, ROWS).run)

    assert work(60) < 2.5 * work(30)


def test_fusions_stop_at_a_limit():
    def chain(x):
        return ((x + 1).sum(0) * 2).exp().cumsum(0)

    kernels = []
    for limit in ((), ("fuse_loops=1",), ("fuse_loops=0",)):
        with stages.collect() as log, config.patch(pass_limits=limit, inline_pointwise=False):
            minitorch2.compile(chain, options={"cache": False})(torch.ones(4, 5))
        kernels.append(log.counts["fusions"])
    assert kernels[0] > 1
    assert kernels[1:] == [1, 0]
