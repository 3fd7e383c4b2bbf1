"""The shape of what lowering gives: index forms, closures, memory decisions, layouts, outputs."""

import re

import pytest
import torch

from minitorch2 import config, stages
from minitorch2.graph import FakeTensor, Graph, GraphModule
from minitorch2.loopir.__main__ import log2_graph, sin_cos_graph
from minitorch2.loopir.buffers import BufferView, ComputedBuffer
from minitorch2.loopir.expressions import index_symbols
from minitorch2.loopir.handlers.printer import PrintingHandler
from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.loop_order import settle_loops
from minitorch2.loopir.loops import Pointwise, Reduction
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.ops import use_handler
from minitorch2.loopir.scheduler import create_node
from tests.unit.codegen.aten_graph import record
from tests.unit.loopir.trace_aten import check, trace

X = torch.randn(8, 8)


def lower(function, *inputs, dynamic=False):
    return lower_graph(trace(function, inputs, dynamic))


def body_lines(lowered, position=0):
    printer = PrintingHandler()
    loops = lowered.buffers[position].loops
    with use_handler(printer):
        loops.inner_fn(index_symbols("i", len(loops.ranges)))
    return printer.lines


def test_log2_is_the_papers_figure_2():
    lowered = lower_graph(log2_graph())
    assert body_lines(lowered) == [
        "tmp0 = ops.load('arg0', i0*s1 + i1)",
        "tmp1 = ops.log(tmp0)",
        "tmp2 = ops.mul(tmp1, ops.constant(1.4426950408889634, torch.float32))",
    ]
    assert "TensorBox(StorageBox(ComputedBuffer(  # log, mul" in lowered.print()
    assert [node.name for node in lowered.buffers[0].origins] == ["log", "mul"]


def test_sin_cos_is_the_slides_example():
    lowered = lower_graph(sin_cos_graph())
    assert body_lines(lowered, 0) == [
        "tmp0 = ops.load('arg0', i0*s1 + i1)",
        "tmp1 = ops.sin(tmp0)",
    ]
    assert body_lines(lowered, 1) == ["tmp0 = ops.load('buf0', i0*s1 + i1)", "tmp1 = ops.cos(tmp0)"]
    assert "FixedLayout('cpu', torch.float32, size=[s0, s1], stride=[s1, 1])" in lowered.print()


def test_views_vanish_into_index_expressions():
    """`x.permute(1, 0) + x[2, :]`: i0 + i1*size1 and 2*size1 + i1, in one loop nest."""
    found = check(lambda x: x.permute(1, 0) + x[2, :], X, dynamic=True)
    assert found.kernels == 1
    loads = [line for line in body_lines(found.lowered) if "load" in line]
    assert loads == [
        "tmp0 = ops.load('arg0', i0 + i1*s00)",
        "tmp1 = ops.load('arg0', i1 + 2*s00)",
    ]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.reshape(2, 4, 8).reshape(8, 8) + 1,
        lambda x: (x.reshape(64) + 1).reshape(8, 8),
        lambda x: x.reshape(2, 4, 8).permute(1, 0, 2).permute(1, 0, 2).reshape(8, 8) + 1,
        lambda x: x.unsqueeze(0).squeeze(0).t().t() + 1,
    ],
)
def test_reshapes_of_contiguous_tensors_leave_no_division(function):
    lowered = lower(function, X)
    assert len(lowered.buffers) == 1
    (read,) = create_node(lowered.buffers[0], 0).reads_of
    assert read.is_linear and read.offset == 0


def test_two_dimensional_loads_become_one_dimensional():
    lowered = lower(lambda x: x + 1, torch.randn(3, 4, 5), dynamic=True)
    node = create_node(lowered.buffers[0], 0)
    settle_loops(node)
    (read,), (write,) = node.reads_of, node.writes_of
    assert read.strides == write.strides == (1,)
    assert str(node.ranges) == "(s00*s01*s02,)"


def test_closures_compose():
    """A chain of cheap functions is one body; each calls the one before."""
    lowered = lower(lambda x: ((x * 2 + 1).abs() - 3).neg(), X)
    assert len(lowered.buffers) == 1
    assert [line.split("ops.")[1].split("(")[0] for line in body_lines(lowered)] == [
        "load", "mul", "add", "abs", "sub", "neg"
    ]  # fmt: skip


def test_cheap_values_are_recomputed_by_all_their_readers():
    lowered = lower(lambda x: (lambda y: (y.sum(0), y.sum(1)))(x * 2), X)
    assert [type(b.loops) for b in lowered.buffers] == [Reduction, Reduction]
    inlined = {d.name: d.reason for d in lowered.decisions if not d.stored}
    assert inlined["mul"] == "2 operations for 2 readers"


def test_expensive_values_with_several_readers_are_stored():
    lowered = lower(lambda x: (lambda y: (y.sum(0), y.sum(1)))(x.exp()), X)
    assert [type(b.loops) for b in lowered.buffers] == [Pointwise, Reduction, Reduction]
    assert any("2 readers would repeat 1 expensive" in d.reason for d in lowered.decisions)


def test_many_loads_with_several_readers_are_stored():
    inputs = [torch.randn(8, 8) for _ in range(6)]
    function = lambda *xs: (lambda y: (y.sum(0), y.sum(1)))(sum(xs))  # noqa: E731
    assert len(lower(function, *inputs).buffers) == 3
    with config.patch(realize_reads_threshold=6):
        assert len(lower(function, *inputs).buffers) == 2


def test_what_several_readers_widen_is_stored_narrow():
    def program(a, b, c, d, e):
        wide = (a + b + c + d + e).float()
        return wide.sum(0), (wide * 2).sum(0)

    lowered = lower(program, *(torch.randn(5, 4).half() for _ in range(5)))
    stored = [buffer.dtype for buffer in lowered.buffers if len(buffer.size) == 2]
    assert stored == [torch.float16]


@pytest.mark.parametrize(("device", "stored"), [("cuda", 1), ("cpu", 0)])
def test_on_a_gpu_what_several_kernels_would_compute_of_much_is_stored(device, stored):
    def program(a, b, mask, weight):
        gradient = torch.where(mask, a + b, 0)
        return gradient.sum(0), gradient - gradient.mean(0), (gradient @ weight) + gradient

    inputs = [torch.empty(64, 64, device="meta") for _ in range(4)]
    inputs[2] = inputs[2].bool()
    fakes = [FakeTensor(tensor, torch.device(device)) for tensor in inputs]
    lowered = lower_graph(record(program, *fakes))
    reasons = [d.reason for d in lowered.decisions if "kernels would repeat" in d.reason]
    assert len(reasons) == stored


def test_bodies_do_not_grow_without_bound():
    def doubled(x):
        for _ in range(40):
            x = x * x
        return x

    lowered = lower(doubled, X)
    assert 1 < len(lowered.buffers) < 40
    assert any("operations (limit" in d.reason for d in lowered.decisions)


def test_inlining_can_be_switched_off():
    with config.patch(inline_pointwise=False):
        assert len(lower(lambda x: x * 2 + 1, X).buffers) == 2


def test_expensive_rows_are_not_repeated_by_broadcasting():
    row = torch.randn(8)
    assert len(lower(lambda x, r: x + r.exp(), X, row).buffers) == 2
    assert len(lower(lambda x, r: x + r.neg(), X, row).buffers) == 1
    assert len(lower(lambda x, r: x + r.exp()[:, None], X, row).buffers) == 1


def test_constants_are_never_stored_for_their_readers():
    assert len(lower(lambda x: x + torch.ones(8, 8) * torch.arange(8), X).buffers) == 1


def test_small_reductions_are_unrolled():
    small, large = torch.randn(9, 3), torch.randn(9, 30)
    assert isinstance(lower(lambda x: x.sum(1), small).buffers[0].loops, Pointwise)
    assert isinstance(lower(lambda x: x.sum(1), large).buffers[0].loops, Reduction)
    assert len(lower(lambda x: x.sum(1) + 1, small).buffers) == 1


def test_outputs_that_are_views_of_inputs_stay_views():
    lowered = lower(lambda x: (x.t(), x[1]), X)
    assert not lowered.buffers
    assert all(isinstance(o, BufferView) and o.name == "arg0" for o in lowered.outputs)
    assert lowered.outputs[0].layout.stride == (1, 8) and lowered.outputs[1].layout.offset == 8


def test_outputs_have_eager_strides():
    for function in (lambda x: x.t() + 1, lambda x: (x.t() + 1).contiguous(), lambda x: x.clone()):
        check(function, torch.randn(3, 5))
        check(function, torch.randn(3, 5).t())
    nhwc = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    check(lambda x: x * 2 + 1, nhwc)
    check(lambda x: x.sum(1, keepdim=True) * x, nhwc)


def test_numbers_and_sizes_among_the_outputs():
    lowered = lower(lambda x: (x + 1, x.shape[0], 3), torch.randn(4, 5), dynamic=True)
    assert [str(o) for o in lowered.outputs[1:]] == ["s00", "3"]
    assert interpret(lowered, [torch.randn(7, 5)])[1:] == [7, 3]


def test_sizes_that_change_run_without_lowering_again():
    lowered = lower(lambda x: torch.softmax(x, -1).reshape(-1) * 2, torch.randn(4, 6), dynamic=True)
    for size in ((2, 3), (7, 5), (16, 2)):
        x = torch.randn(size)
        torch.testing.assert_close(interpret(lowered, [x])[0], torch.softmax(x, -1).reshape(-1) * 2)


def test_size_as_a_value():
    check(lambda x: x.sum() / x.shape[0] + x.numel(), torch.randn(4, 6), dynamic=True)


def test_constants_of_the_graph():
    table = torch.arange(8.0)
    lowered = lower(lambda x: x + table, X)
    assert list(lowered.constants) == ["constant0"]
    check(lambda x: x + table, X)


def test_every_computed_buffer_knows_the_nodes_it_does():
    lowered = lower(lambda x: (x * 2 + 1).sum(0) * 3, X)
    names = [
        [node.name for node in b.origins] for b in lowered.buffers if isinstance(b, ComputedBuffer)
    ]
    assert names == [["mul", "add", "sum_1"], ["mul_1"]]


def test_printed_graph_names_every_buffer():
    lowered = lower(lambda x: torch.sort((x @ x).relu(), 1).values + 1, X)
    text = lowered.print()
    for buffer in lowered.buffers:
        assert re.search(rf"^{buffer.name} = ", text, re.MULTILINE)


def test_large_reductions_to_few_results_have_two_stages():
    lowered = lower(lambda x: x.sum(), torch.ones(64, 2048))
    assert [b.loops.ranges for b in lowered.buffers] == [(32,), ()]
    assert [b.loops.reduction_ranges for b in lowered.buffers] == [(2, 2048), (32,)]
    assert len(lower(lambda x: x.sum(0), torch.ones(64, 2048)).buffers) == 1
    prime = lower(lambda x: x.sum(), torch.ones(65537)).buffers
    assert [b.loops.ranges for b in prime] == [(16,), (), (), ()]
    assert [b.loops.reduction_ranges for b in prime[:3]] == [(4096,), (16,), (1,)]


def test_cpu_scalars_are_copied_to_the_device_of_the_kernel():
    cuda = torch.device("cuda", 0)
    graph = Graph()
    x, scalar = graph.placeholder("x"), graph.placeholder("scalar")
    x.meta["val"] = FakeTensor(torch.empty(4, device="meta"), cuda)
    scalar.meta["val"] = FakeTensor(torch.empty((), device="meta"), torch.device("cpu"))
    add = graph.call_function(torch.ops.aten.add.Tensor, (x, scalar))
    add.meta["val"] = FakeTensor(torch.empty(4, device="meta"), cuda)
    graph.output((add,))
    copy, kernel = lower_graph(GraphModule(graph)).buffers
    assert copy.device == kernel.device == cuda and "_to_copy" in str(copy.target)
    assert not copy.is_fallback


def test_verification_can_be_switched_on():
    with config.patch(verify=True), stages.collect() as log:
        lower(lambda x: x + 1, X)
    assert log.seconds["lower"] > 0


def images(*size):
    return torch.empty(size, device="meta").to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("x", "dims", "partial"),
    [
        (images(32, 64, 56, 56), (0, 2, 3), (32, 28, 64)),
        (images(32, 512, 28, 28), (0, 2, 3), (32, 7, 512)),
        (torch.empty(8, 256, 768, device="meta"), (0, 1), (8, 4, 768)),
    ],
)
def test_on_a_gpu_columns_are_cut_as_they_lie_in_memory(x, dims, partial):
    fake = FakeTensor(x, torch.device("cuda", 0))
    first, second = lower(lambda x: (x * 2).sum(dims), fake).buffers
    assert first.loops.ranges == partial and second.loops.ranges == partial[-1:]
    assert not lower(lambda x: (x * 2).sum(-1), fake).buffers[1:]
