"""Whole programs under the default CPU backend: values and gradients, and nothing left to eager."""

import copy
from typing import Any

import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import nn

import minitorch2
from minitorch2 import config, stages
from minitorch2.testing.programs import programs as python_programs
from tests.property.random_programs import VALUES, RandomProgram, programs
from tests.property.test_joint_graphs import differentiable, leaves
from tests.unit.autograd.programs import copies

TOLERANCE = 1e-4
PATIENT = settings(
    max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def compiled(function: Any) -> Any:
    return minitorch2.compile(function, backend="numba")


def run_with_gradients(function: Any, inputs: list[Any]) -> list[Any]:
    """Values, and the gradients of all inputs that have one."""
    torch.manual_seed(5)
    values = function(*inputs)
    values = list(values) if isinstance(values, tuple) else [values]
    wanted = [v for v in values if v.requires_grad]
    if wanted:
        torch.autograd.backward(wanted, [torch.ones_like(v) for v in wanted])
    return [v.detach() for v in values] + [x.grad for x in inputs]


def assert_close(given: list[Any], wanted: list[Any]) -> None:
    assert len(given) == len(wanted)
    for a, b in zip(given, wanted, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            torch.testing.assert_close(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


def assert_one_graph(log: stages.StageLog) -> None:
    counts = log.counts
    assert counts["graphs"] == 1, counts
    assert counts["graph_breaks"] == counts["frames_as_is"] == 0, counts
    assert counts["kernels"] > 0, counts


@PATIENT
@given(programs(VALUES))
def test_functions_of_tensors(program: RandomProgram) -> None:
    valid = differentiable(program)
    steps = [step for step in valid.steps if step[0] not in ("clone", "matmul", "index")]
    assume(steps)  # something to make a kernel of

    def function(x, y, z):
        return *valid(x, y, z), torch.sin(x) + 1

    wanted = run_with_gradients(function, copies(leaves()))
    with config.patch(suppress_errors=False), stages.collect() as log:
        given_ = run_with_gradients(compiled(function), copies(leaves()))
    assert_close(given_, wanted)
    assert_one_graph(log)


class Residual(nn.Module):
    """``x + inner(x)``"""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


LAYERS = {
    "linear": lambda: nn.Linear(6, 6),
    "norm": lambda: nn.LayerNorm(6),
    "gelu": nn.GELU,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "softmax": lambda: nn.Softmax(-1),
    "batch_norm": lambda: nn.BatchNorm1d(6),
    "dropout": lambda: nn.Dropout(0.5),
    "residual": lambda: Residual(nn.Sequential(nn.Linear(6, 6), nn.GELU())),
}
modules = st.lists(st.sampled_from(list(LAYERS)), min_size=1, max_size=5)


@PATIENT
@given(modules, st.booleans(), st.integers(0, 99))
def test_modules(names: list[str], training: bool, seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.Sequential(*(LAYERS[name]() for name in names), nn.Sigmoid()).train(training)
    twin, x = copy.deepcopy(model), torch.randn(4, 6)
    wanted = run_with_gradients(twin, [x.clone().requires_grad_()])
    with config.patch(suppress_errors=False), stages.collect() as log:
        given_ = run_with_gradients(compiled(model), [x.clone().requires_grad_()])
    assert_close(given_, wanted)
    assert_close([p.grad for p in model.parameters()], [p.grad for p in twin.parameters()])
    assert_close(list(model.buffers()), list(twin.buffers()))
    assert_one_graph(log)


def test_python_programs() -> None:
    """Programs full of breaks and effects; kernels round otherwise than eager by a little.

    Few of them have nothing to compile.
    """
    graphs: list[int] = []

    @PATIENT
    @given(python_programs())
    def check(program: Any) -> None:
        with config.patch(suppress_errors=False), stages.collect() as log:
            program.check(compiled, variants=2, tolerance=TOLERANCE)
        graphs.append(log.counts["graphs"])

    check()
    assert len([number for number in graphs if number]) >= len(graphs) / 3, graphs
