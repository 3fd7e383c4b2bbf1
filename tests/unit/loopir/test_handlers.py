"""The handlers: complete, with the protocol's signatures, and right about what they say."""

import inspect

import numpy as np
import pytest
import torch

from minitorch2.errors import VerificationError
from minitorch2.loopir.expressions import ModularIndexing, index_symbols
from minitorch2.loopir.handlers.counter import CountingHandler, body_cost
from minitorch2.loopir.handlers.dtypes import TypingHandler
from minitorch2.loopir.handlers.interpreter import (
    ELEMENTWISE_RULES,
    REDUCTION_RULES,
    InterpretingHandler,
)
from minitorch2.loopir.handlers.printer import PrintingHandler
from minitorch2.loopir.handlers.recorder import RecordingHandler
from minitorch2.loopir.iteration import can_merge, linear_access
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.lowering import LOWERINGS
from minitorch2.loopir.ops import (
    ELEMENTWISE,
    PREDICATES,
    PRIMITIVES,
    STRUCTURAL,
    OpsHandler,
    ops,
    use_handler,
)
from tests.unit.loopir.access_bounds import BoundsHandler, accesses_of
from tests.unit.loopir.trace_aten import trace

HANDLERS = [
    PrintingHandler, RecordingHandler, CountingHandler, TypingHandler, BoundsHandler,
    InterpretingHandler,
]  # fmt: skip
C0, C1 = index_symbols("c", 2)


def test_there_are_at_least_the_papers_54_primitives():
    assert len(PRIMITIVES) == len(set(PRIMITIVES)) >= 54
    assert set(ELEMENTWISE) > PREDICATES


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("name", [*STRUCTURAL, "elementwise"])
def test_every_handler_answers_every_primitive_with_its_signature(handler, name):
    own, wanted = getattr(handler, name), getattr(OpsHandler, name)
    assert [*inspect.signature(own).parameters] == [*inspect.signature(wanted).parameters]
    assert own is not wanted, "a handler answers each of these itself"


def test_an_unknown_primitive_is_an_attribute_error():
    with pytest.raises(AttributeError, match="PrintingHandler has no attribute 'cbrt'"):
        PrintingHandler().cbrt("x")


def test_every_elementwise_primitive_has_a_numpy_meaning():
    assert set(ELEMENTWISE_RULES) == set(ELEMENTWISE)
    assert set(REDUCTION_RULES) == {"sum", "prod", "max", "min", "any", "xor_sum"}


def test_every_primitive_is_documented():
    assert all(getattr(OpsHandler, name).__doc__ for name in STRUCTURAL)
    assert all(row.meaning for row in ELEMENTWISE.values())


def test_handlers_nest_and_are_restored():
    outer, inner = PrintingHandler(), PrintingHandler()
    with use_handler(outer):
        with use_handler(inner):
            ops.sin(ops.load("a", 0))
        ops.cos(ops.load("b", 0))
    assert inner.lines == ["tmp0 = ops.load('a', 0)", "tmp1 = ops.sin(tmp0)"]
    assert outer.lines == ["tmp0 = ops.load('b', 0)", "tmp1 = ops.cos(tmp0)"]


def test_a_body_outside_of_any_handler_is_an_error():
    with pytest.raises(LookupError):
        ops.sin(None)


def test_printer_shares_equal_calls_and_nests_masked_bodies():
    printer = PrintingHandler()
    with use_handler(printer):
        mask = ops.lt(ops.load("a", C0), ops.constant(1.0, torch.float32))
        ops.masked(mask, lambda: ops.load("b", C0), 0.0)
        ops.lt(ops.load("a", C0), ops.constant(1.0, torch.float32))
    assert printer.lines == [
        "tmp0 = ops.load('a', c0)",
        "tmp1 = ops.lt(tmp0, ops.constant(1.0, torch.float32))",
        "def body0():",
        "    tmp2 = ops.load('b', c0)",
        "    return tmp2",
        "tmp3 = ops.masked(tmp1, body0, 0.0)",
    ]


@pytest.mark.parametrize(
    "body",
    [
        lambda: ops.add(ops.constant(1, torch.int64), ops.constant(1.0, torch.float32)),
        lambda: ops.sin(ops.constant(1, torch.int64)),
        lambda: ops.floordiv(*[ops.constant(1.0, torch.float32)] * 2),
        lambda: ops.where(*[ops.constant(1.0, torch.float32)] * 3),
        lambda: ops.constant(1.0, torch.float16),
        lambda: ops.add(*[ops.constant(True, torch.bool)] * 2),
        lambda: ops.store("buf", 0, ops.constant(1, torch.int32)),
        lambda: ops.indirect_indexing(ops.constant(1.0, torch.float32), 3),
        lambda: ops.reduction(
            torch.float32, torch.float32, "argmax", ops.constant(1.0, torch.float32)
        ),
    ],
)
def test_ill_typed_bodies_are_found(body):
    with use_handler(TypingHandler({"buf": torch.float32})), pytest.raises(VerificationError):
        body()


def test_low_precision_values_are_float32():
    with use_handler(TypingHandler({"buf": torch.bfloat16})):
        value = ops.load("buf", 0)
        assert value == torch.float32 == ops.to_dtype(value, torch.float16)
        ops.store("buf", 0, value)


def test_cost_of_a_body():
    lowered = lower_graph(trace(lambda x, y: (x.exp() + y) * x, [torch.randn(3), torch.randn(3)]))
    cost = body_cost(lowered.buffers[0].loops)
    assert (cost.operations, cost.expensive) == (6, 1)
    assert cost.buffers == {"arg0", "arg1"} and len(cost.reads) == 2


def test_bounds_of_addresses():
    lowered = lower_graph(trace(lambda x: x[1:, ::2] + 1, [torch.randn(4, 6)]))
    read, write = accesses_of(lowered.buffers[0])
    assert read.limits == (6, 22) and read.is_within(24) and not read.is_within(22)
    assert write.limits == (0, 8)


def test_loads_outside_of_a_buffer_are_errors_in_the_interpreter():
    from minitorch2.loopir.handlers.interpreter import Memory

    handler = InterpretingHandler({"a": Memory.of(torch.randn(3))}, {C0: np.arange(4)}, (4,), 0)
    with use_handler(handler), pytest.raises(IndexError, match="leaves the 3 elements"):
        ops.load("a", C0)
    with use_handler(handler), pytest.raises(IndexError, match="index 3 is out of bounds"):
        ops.indirect_indexing(np.arange(4), 3)
    with use_handler(handler), pytest.raises(IndexError, match="index -4 is out of bounds"):
        ops.indirect_indexing(np.arange(4) - 4, 3)
    with use_handler(handler), pytest.raises(IndexError, match="index -1 is out of bounds"):
        ops.indirect_indexing(np.arange(4) - 1, 3, wrap=False)


def test_accesses_have_symbolic_addresses():
    with use_handler(recorder := RecordingHandler()):
        ops.store("b", C0, ops.load("a", 7 - C0))
    assert [*recorder.reads] == [("a", 7 - C0)] and [*recorder.writes] == [("b", C0)]


def test_loops_that_walk_memory_as_one_can_merge():
    def merges(index):
        return can_merge(0, 1, (4, 8), [linear_access("a", index, (C0, C1))])

    assert merges(8 * C0 + C1)
    assert not merges(9 * C0 + C1) and not merges(C1) and not merges(ModularIndexing(C0, 1, 3))
    broadcast = linear_access("a", C1, (C0, C1))
    assert broadcast.strides == (0, 1) and broadcast.elements((4, 8)) == 8


def test_counts_of_lowered_operators():
    packets = {overload._overloadpacket for overload in LOWERINGS}
    assert len(packets) >= 248 and len(LOWERINGS) >= 329
    assert not any(overload._schema.is_mutable for overload in LOWERINGS)
