"""Kernels as plain Python: the same results, lines that name the user's, a debugger that stops."""

import bdb
import sys

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import config, stages
from minitorch2.native.kernels.stepping import NAMES
from minitorch2.native.kernels.vocabulary import VOCABULARY
from tests.unit.codegen.test_kernels import PROGRAMS

X = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))


def test_every_name_of_a_kernel_has_a_meaning_in_python():
    assert VOCABULARY.keys() <= NAMES.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_without_the_compiler(name, check):
    program = PROGRAMS[name]
    program = program[0] if isinstance(program, tuple) else program
    with config.patch(cpu_compiler="python"):
        check(program, torch.randn(37, 50, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int32, torch.uint8])
def test_dtypes_without_the_compiler(dtype, check):
    x = (X * 20).to(dtype)
    with config.patch(cpu_compiler="python"):
        check(lambda x: (x * 3 + 1, x.amax(0), x.float().exp()), x)


def test_index_errors_reach_python():
    with config.patch(cpu_compiler="python"):
        look_up = minitorch2.compile(lambda x, i: x[i] + 1)
        with pytest.raises(IndexError, match="index 9 is out of bounds"):
            look_up(X, torch.tensor([0, 9]))


def first(x):
    return F.gelu(x)


def second(x):
    return x.softmax(-1)


def test_parts_of_a_kernel_name_their_lines():
    with stages.collect() as log, config.patch(cpu_compiler="python"):
        minitorch2.compile(lambda x: second(first(x)))(X)
    lines = "\n".join(log.texts("kernel.py")).splitlines()
    gelu = next(i for i, line in enumerate(lines) if "F.gelu(x)" in line)
    softmax = next(i for i, line in enumerate(lines) if "x.softmax(-1)" in line)
    assert gelu < next(i for i, line in enumerate(lines) if "erf(" in line) < softmax


def test_a_debugger_stops_in_a_kernel():
    seen = []

    class Debugger(bdb.Bdb):
        def user_line(self, frame):
            seen.append((frame.f_code.co_name, "tmp0" in frame.f_locals))
            self.set_step()

    with config.patch(cpu_compiler="python"):
        compiled = minitorch2.compile(first)
        compiled(X)
        debugger = Debugger()
        tracer = sys.gettrace()
        try:
            debugger.runcall(compiled, X)
        finally:
            sys.settrace(tracer)
    assert any(name.startswith("fused_") and known for name, known in seen)
