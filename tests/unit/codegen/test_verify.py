"""The checker of wrappers: it accepts what is printed, and finds each planted bug."""

from unittest import mock

import pytest
import torch

import minitorch2
from minitorch2 import config
from minitorch2.codegen import compile_graph as compiler
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.codegen.verify import verify_wrapper
from minitorch2.errors import VerificationError
from tests.unit.codegen.aten_graph import record

X = torch.randn(16, 16, generator=torch.Generator().manual_seed(0))


def chain(x, w):
    for _ in range(3):
        x = torch.relu(torch.mm(x, w) + 1)
    return x


def through_an_arena(x, w):
    y = torch.softmax(x, 0).flip(0)
    y = torch.softmax(y + y.flip(1), 1).cumsum(0)
    return torch.mm(y.flip(0) + y, w), x * 2


def parts(x, w):
    values, positions = torch.sort(torch.mm(x, w))
    return values + x, positions * 2


def printed(program, *, inputs=(X, X), dynamic=False, **options):
    """The text of a program's wrapper, and what it was printed from."""
    seen = []
    gm = record(program, *inputs, dynamic=dynamic)
    with (
        mock.patch.object(compiler, "verify_wrapper", lambda *given: seen.append(given)),
        config.patch(verify=True, **options),
    ):
        compile_graph(gm)
    ((text, facts),) = seen
    return text, facts


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("arenas", [False, True])
@pytest.mark.parametrize("program", [chain, through_an_arena, parts])
def test_what_is_printed_passes(program, arenas, dynamic):
    verify_wrapper(*printed(program, dynamic=dynamic, arenas=arenas))


NEW = "empty_strided((16, 16), (16, 1), dtype=torch.float32)"
BUGS = [
    (chain, "fused_add_relu_0(256, buf1)\n", "fused_add_relu_0(256, buf9)\n", "buf9 is not there"),
    (chain, "torch_mm(buf1, arg1)", "torch_mm(buf1, arg0)", "arg0 is not there"),
    (chain, "    del arg0\n", "    del arg0\n    del arg0\n", "freed, and is not there"),
    (chain, "    del arg0\n", "", "arg0 lives on"),
    (chain, "buf2 = torch_mm(buf1, arg1)\n", "buf2 = torch_mm(arg1, arg1)\n", "needs buf1"),
    (chain, "relu_0(256, buf3)", "relu_0(256, buf1)", "buf2 is read where buf1"),
    (chain, "buf1 = buf0; del buf0", f"buf1 = {NEW}; del buf0", "buf0 is read where nothing"),
    (chain, "buf1 = buf0; del buf0", f"del buf0; buf1 = {NEW}", "buf0 is read where nothing lies"),
    (chain, "out=buf1); del buf1", "out=buf3)", "buf3 is not there|lives on"),
    (chain, "return [buf5]", "return [arg1]", "arg1 is not there|buf5 is not returned"),
    (parts, "    buf3 = with_layout(buf1[1]", "    del buf1\n    buf3 = with_layout(buf1[1]",
     "buf1 is not there"),
    (parts, "fused_add_0(256, buf2", "fused_add_0(256, arg0", "buf2 is read where arg0"),
    (through_an_arena, "base + 1024", "base + 1000", "is read where|gets"),
    (through_an_arena, "base + 1024", "base", "is read where"),
    (through_an_arena, "del arena, base", "del arena", "base lives on|is not there"),
    (through_an_arena, "empty_cpu((2176,)", "empty_cpu((2048,)", "bytes and gets"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "old", "new", "message"), BUGS)
def test_a_planted_bug_is_found(program, old, new, message):
    text, facts = printed(program)
    assert old in text, text
    with pytest.raises(VerificationError, match=message):
        verify_wrapper(text.replace(old, new, 1), facts)


def test_memory_of_the_caller_is_not_written():
    text, facts = printed(lambda x: x + 1, inputs=(X,))
    text = text.replace("buf0 = empty_cpu((16, 16), (16, 1), torch.float32)", "buf0 = arg0")
    with pytest.raises(VerificationError, match="written into memory of the caller"):
        verify_wrapper(text, facts)


def test_a_launch_is_not_left_out():
    text, facts = printed(lambda x: x.sin() @ x, inputs=(X,))
    line = next(line for line in text.splitlines() if line.startswith("    fused_sin_0("))
    with pytest.raises(VerificationError, match="the schedule has no such call here"):
        verify_wrapper(text.replace(line + "\n", ""), facts)


def test_the_layout_of_a_result_belongs_to_its_call():
    """Regression: the operands of a call whose result gets another layout were said to live on."""
    x, counts = torch.arange(3.0), torch.tensor([1, 2, 0])
    fast = minitorch2.compile(torch.repeat_interleave, fullgraph=True)
    assert torch.equal(fast(x, counts), torch.repeat_interleave(x, counts))
