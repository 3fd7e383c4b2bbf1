"""What wrappers do with memory: random chains of kernels and library calls pass the checker.

Nothing is compiled or run: the text alone is looked at, so examples are quick.
"""

from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitorch2 import config
from minitorch2.codegen.compile_graph import print_module
from minitorch2.codegen.numba import target
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.scheduler import schedule
from tests.unit.codegen.aten_graph import record

SIDE = 8
Step = Callable[[list[Any], Any, Any], Any]


def scaled(x: Any, v: list[Any]) -> Any:
    """A value that reads so much that it is stored."""
    return (x - v[0][:, :1]) * v[1][:, :1] * v[0][:, 1:2] + v[1][:, 1:2] * v[0][:, 2:3]


STEPS: dict[str, Step] = {
    "product": lambda v, x, y: x @ y,
    "linear": lambda v, x, y: torch.nn.functional.linear(x, y, v[0][0]),
    "softmax": lambda v, x, y: x.softmax(-1),
    "softmax_of_columns": lambda v, x, y: x.softmax(0) + y,
    "sum_so_far": lambda v, x, y: x.cumsum(0),
    "flip": lambda v, x, y: x.flip(0) * y.exp(),
    "relu": lambda v, x, y: torch.relu(x) + 1,
    "sum": lambda v, x, y: x.exp().sum(-1, keepdim=True) * y.sin(),
    "sort": lambda v, x, y: torch.sort(x)[0],
    "transposed": lambda v, x, y: x.t().contiguous() + y,
    "place": lambda v, x, y: scaled(x, v).argmax(-1, keepdim=True) + y,
    "extremes": lambda v, x, y: (lambda z: z.max(-1, keepdim=True)[1] + z)(scaled(x, v)),
    "joined": lambda v, x, y: torch.cat([x.sin(), y.cos()])[SIDE // 2 : SIDE + SIDE // 2],
}


@st.composite
def chains(draw: st.DrawFn) -> Callable[..., tuple[Any, ...]]:
    """A program of two matrices: steps on the values so far, and which of them it returns."""
    count = draw(st.integers(2, 9))
    numbers = st.integers(0, 20)
    steps = [
        draw(st.tuples(st.sampled_from(sorted(STEPS)), numbers, numbers)) for _ in range(count)
    ]
    returned = draw(st.lists(numbers, max_size=2))

    def program(a: Any, b: Any) -> tuple[Any, ...]:
        values = [a, b]
        for name, i, j in steps:  # mostly the newest value, so that others die
            values.append(STEPS[name](values, values[-1 - i % 2], values[j % len(values)]))
        return (values[-1], *(values[i % len(values)] for i in returned))

    return program


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(chains(), st.booleans(), st.booleans())
def test_memory(program: Callable[..., Any], dynamic: bool, arenas: bool) -> None:
    inputs = torch.randn(2, SIDE, SIDE).unbind()
    graph = record(program, *inputs, dynamic=dynamic)
    with mock.patch.object(target, "begin_kernel"), config.patch(verify=True, arenas=arenas):
        lowered = lower_graph(graph)
        print_module(lowered, schedule(lowered, NUMBA.capabilities()), NUMBA)
