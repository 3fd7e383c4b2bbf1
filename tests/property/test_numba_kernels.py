"""Random loop bodies: compiled Numba kernels against the NumPy interpreter."""

from unittest import mock

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch2.codegen.compile_graph import GraphCompiler, compile_graph
from minitorch2.codegen.numba.kernel import print_kernel
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.schedule import Capabilities
from minitorch2.loopir.scheduler import schedule
from minitorch2.native.kernels import runtime
from minitorch2.native.llvm import emission, machine_code
from minitorch2.native.llvm.emission import Emission
from minitorch2.testing.loop_bodies import LoopGraph, loop_graphs
from tests.unit.codegen.aten_graph import record

FUSIONS = [
    NUMBA.capabilities(),
    Capabilities(fuses_reduction_broadcast_reduction=False, fuses_horizontally=False),
    Capabilities(max_fusion_size=1),  # all results are in memory, which is reused
    Capabilities(max_fusion_size=1, joins=256),  # kernels share launches wherever they may
    Capabilities(row_scratch=32768, joins=3, join_elements=64),
]


def assert_same(results, expected):
    for result, reference in zip(results, expected, strict=True):
        torch.testing.assert_close(
            result, torch.as_tensor(reference), rtol=1e-4, atol=1e-4, equal_nan=True
        )


@settings(max_examples=60, deadline=None)
@given(loop_graphs(), st.sampled_from(FUSIONS))
def test_kernels_agree_with_the_interpreter(example: LoopGraph, capabilities):
    expected = interpret(example.graph, example.inputs)
    results = GraphCompiler(NUMBA, capabilities).compile(example.graph).call(list(example.inputs))
    assert_same(results, expected)


@settings(max_examples=10, deadline=None)
@given(st.lists(loop_graphs(), min_size=1, max_size=6))
def test_threads_emit_what_one_thread_does(examples: list[LoopGraph]):
    sources = [source for example in examples for source in sources_of(example.graph)]
    with mock.patch.object(emission, "cores", lambda: 4):
        at_once = [Emission(runtime.link_kernel(source, "entry")) for source in sources]
        given = [each.object_code() for each in at_once]
    for source, object_code in zip(sources, given, strict=True):
        module = runtime.compile_module(source, "entry")
        assert object_code == machine_code.emit_object(module), source.text


def sources_of(graph):
    plan, buffers = schedule(graph, NUMBA.capabilities()), graph.by_name()
    kernels = enumerate(plan.kernels())
    return [print_kernel(node, plan, buffers, f"kernel_{i}").source for i, node in kernels]


SMOOTH = ("exp", "expm1", "log1p", "log", "sin", "cos", "tanh", "sigmoid", "erf", "atan")


@settings(max_examples=100)
@given(st.sampled_from(SMOOTH), st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=9))
def test_functions_are_accurate(name, numbers):
    """Within 7 units in the last place of float64's results."""
    numbers = (numbers * 9)[:9]
    (result,) = kernel_of(name)([torch.tensor(numbers)])
    expected = getattr(torch, name)(torch.tensor(numbers, dtype=torch.float64)).float()
    torch.testing.assert_close(result, expected, rtol=7 * 2.0**-23, atol=2.0**-126, equal_nan=True)


def kernel_of(name):
    """One kernel a function, for nine numbers."""
    return compile_graph(record(getattr(torch, name), torch.zeros(9)))


UNARY = (torch.sin, torch.exp, torch.neg, torch.relu, torch.sigmoid, torch.tanh)
BINARY = (torch.add, torch.mul, torch.maximum, torch.sub)


@st.composite
def programs(draw):
    """A chain of pointwise operators, transposes, flips, broadcasts, reductions over a matrix."""
    steps = draw(st.lists(st.integers(0, 10), min_size=1, max_size=7))

    def program(x):
        values = [x]
        for step in steps:
            a, b = values[-1], values[step % len(values)]
            if step < 3:
                values.append(UNARY[(step + len(values)) % len(UNARY)](a))
            elif step < 6:
                values.append(BINARY[step % len(BINARY)](a, b))
            elif step == 6:
                values.append(a - a.amax(-1, keepdim=True))
            elif step == 7:
                values.append(a * a.sum(0, keepdim=True).sigmoid())
            elif step == 8:
                values.append((a.t() + 1).t().contiguous())
            elif step == 9:
                values.append(a + a.flip(0))
            else:
                values.append(torch.softmax(a, -1))
        return values[1:]

    return program


@settings(max_examples=40, deadline=None)
@given(programs(), st.sampled_from([(3, 5), (1, 7), (16, 33), (0, 4)]), st.booleans())
def test_programs_agree_with_eager(program, shape, is_transposed):
    x = torch.randn(shape[::-1]).t() if is_transposed else torch.randn(shape)
    if 0 in shape:
        program = lambda a: torch.sin(a) + 1  # noqa: E731  (eager refuses maxima of nothing)
    gm = record(program, x)
    expected = program(x)
    results = compile_graph(gm)([x])
    assert_same(results, expected if isinstance(expected, list) else [expected])


def test_threads_do_not_change_results():
    x = torch.randn(300, 700)
    call = compile_graph(record(lambda a: torch.exp(a) * a.sum(1, keepdim=True), x))
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results += call([x])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
