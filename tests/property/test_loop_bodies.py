"""Random loop bodies and random programs of operators, on the NumPy interpreter."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch2.loopir import expressions
from minitorch2.loopir.buffers import ComputedBuffer
from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.loops import Pointwise, Reduction
from minitorch2.loopir.lower_graph import LoweredGraph
from minitorch2.loopir.ops import ops
from minitorch2.loopir.print_lowered import print_body
from minitorch2.loopir.verify import verify_lowered
from minitorch2.testing.loop_bodies import LoopGraph, loop_graphs, strided_tensors
from tests.unit.loopir.access_bounds import accesses_of
from tests.unit.loopir.trace_aten import check


def same(values, others):
    for value, other in zip(values, others, strict=True):
        torch.testing.assert_close(value, other, rtol=0, atol=0, equal_nan=True)


@settings(max_examples=100, deadline=None)
@given(loop_graphs())
def test_bodies_are_well_typed_and_stay_inside_their_buffers(example: LoopGraph):
    verify_lowered(example.graph)
    interpret(example.graph, example.inputs)  # raises IndexError for an address outside
    for buffer in example.graph.buffers:
        assert {a.name for a in accesses_of(buffer)} >= {buffer.name}


@settings(max_examples=100, deadline=None)
@given(loop_graphs())
def test_printed_bodies_run_again(example: LoopGraph):
    """Printing a body and running the text gives the same values."""
    again = [reprinted(buffer) for buffer in example.graph.buffers]
    graph = LoweredGraph(example.graph.inputs, again, example.graph.outputs)
    same(interpret(graph, example.inputs), interpret(example.graph, example.inputs))


def reprinted(buffer: ComputedBuffer) -> ComputedBuffer:
    namespace = {
        "ops": ops, "torch": torch,
        "FloorDiv": expressions.FloorDiv, "ModularIndexing": expressions.ModularIndexing,
    }  # fmt: skip
    loops = buffer.loops
    exec(print_body(buffer.name, loops), namespace)
    body = namespace[f"inner_fn_{buffer.name}"]
    if isinstance(loops, Reduction):
        fields = (loops.reduction_ranges, loops.kind, loops.src_dtype)
        again = Reduction(loops.device, loops.dtype, loops.ranges, body, *fields)
    else:
        again = Pointwise(loops.device, loops.dtype, loops.ranges, body)
    return ComputedBuffer(buffer.name, buffer.layout, again)


# -- programs of operators against eager --------------------------------------------------------

UNARY = [
    torch.neg,
    torch.abs,
    torch.sin,
    torch.tanh,
    torch.sigmoid,
    torch.relu,
    torch.isnan,
    torch.sign,
    lambda x: x.t() if x.ndim <= 2 else x.transpose(0, 2),
    lambda x: x.unsqueeze(-1),
    lambda x: x.reshape(-1),
    lambda x: x.flip(0) if x.ndim else x,
    lambda x: x[..., ::2] if x.ndim else x,
    lambda x: x[-1] if x.ndim and x.shape[0] else x,
    lambda x: x.expand(2, *x.shape),
    lambda x: x.sum(-1),
    lambda x: x.sum(0, keepdim=True),
    lambda x: x.float().mean(),
    lambda x: x.amax(-1) if x.shape[-1:] != (0,) else x,
    lambda x: x.any(-1),
    lambda x: x.all(),
    lambda x: x.argmax(-1) if x.shape[-1:] != (0,) else x,
    lambda x: x > 0,
    lambda x: x * 2 + 1,
    lambda x: x.float() / 3,
    lambda x: x.to(torch.float64),
    lambda x: x.long().clamp(-2, 2),
    lambda x: torch.cat([x.reshape(-1), x.reshape(-1)]),
    lambda x: torch.softmax(x.float(), -1),
    lambda x: torch.nn.functional.pad(x, (1, 2)) if x.ndim else x,
    lambda x: x.roll(1, 0) if x.ndim else x,
    lambda x: x.clone(),
    lambda x: torch.where(x > 0, x, x * 2),
    lambda x: x.to(torch.int8),
]
BINARY = [
    torch.add,
    torch.mul,
    torch.maximum,
    torch.eq,
    torch.lt,
    torch.logical_and,
    torch.true_divide,
    lambda x, y: torch.where(x > y, x, y),
    lambda x, y: x.float() - y,
    torch.logical_xor,
    lambda x, y: torch.fmod(x.float(), y.float()),
    lambda x, y: torch.remainder(x.float(), y.float()),
    lambda x, y: torch.div(x.float(), y.float(), rounding_mode="floor"),
]


@st.composite
def programs(draw):
    """A list of steps; each names a function and which values so far it takes."""
    steps = []
    for i in range(draw(st.integers(1, 6))):
        function = draw(st.sampled_from(UNARY + BINARY))
        count = 2 if function in BINARY else 1
        steps.append((function, [draw(st.integers(0, i + 1)) for _ in range(count)]))
    return steps


def run(steps, x, y):
    """Run a program: all values that its steps give."""
    values = [x, y]
    for function, arguments in steps:
        values.append(function(*(values[a] for a in arguments)))
    return values[2:]


def accepted(steps, x, y):
    """The program with what eager refuses (bool negation, sizes that differ) doubled instead."""
    result = []
    for step in steps:
        try:
            last = run([*result, step], x, y)[-1]
        except (RuntimeError, IndexError, NotImplementedError):
            last = None
        fits = last is not None and last.numel() < 4096
        result.append(step if fits else (torch.add, step[1][:1] * 2))
    return result


def has_undefined_cast(steps, x, y):
    """Float to integer casts of NaN or infinity are undefined: such programs are skipped."""
    return any(v.is_floating_point() and not v.isfinite().all() for v in (x, y, *run(steps, x, y)))


@settings(max_examples=150, deadline=None)
@given(programs(), strided_tensors(4), strided_tensors(4))
def test_programs_agree_with_eager(steps, x, y):
    steps = accepted(steps, x, y)
    if has_undefined_cast(steps, x, y):
        steps = [step for step in steps if step[0] in SPECIAL_VALUES_ALLOWED and max(step[1]) < 2]
    if steps:
        check(
            lambda x, y: run(steps, x, y),
            x,
            y,
            strides=False,
            prove_bounds=False,
            rtol=1e-4,
            atol=1e-4,
        )


SPECIAL_VALUES_ALLOWED = [*UNARY[:26], *BINARY]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(UNARY[:6]), st.just([0])), min_size=1, max_size=3),
       strided_tensors(4), st.sampled_from([torch.float16, torch.bfloat16]))  # fmt: skip
def test_low_precision_programs_agree_with_eager(steps, x, dtype):
    x = x.to(dtype)
    check(lambda x, y: run(steps, x, y), x, x, strides=False, rtol=2e-2, atol=2e-2)
