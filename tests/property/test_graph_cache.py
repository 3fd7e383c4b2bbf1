"""A graph from the cache computes what it computed when it was compiled, to the bit."""

import gc
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from hypothesis import HealthCheck, Phase, given, settings

import minitorch2
from minitorch2 import config, stages
from minitorch2.backends.graph_cache import bypass, lookup
from tests.property.random_programs import VALUES, RandomProgram, programs
from tests.property.test_joint_graphs import differentiable, leaves
from tests.unit.autograd.programs import copies

PATIENT = settings(
    max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def results(program: Callable[..., Any], inputs: list[Any]) -> tuple[list[Any], dict[str, int]]:
    """Values, gradients and what was written, and what was counted, as in a new process."""
    minitorch2.reset()
    gc.collect()
    lookup._PROGRAMS.clear()
    torch.manual_seed(3)
    with stages.collect(texts=False) as log:
        values = minitorch2.compile(program, backend="numba")(*inputs)
        wanted = [v for v in values if isinstance(v, torch.Tensor) and v.requires_grad]
        if wanted:
            torch.autograd.backward(wanted, [torch.ones_like(v) for v in wanted])
    gradients = [x.grad for x in inputs if x.grad is not None]
    return [*values, *inputs, *gradients], dict(log.counts)


def check(program: Callable[..., Any], make: Callable[[], list[Any]]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        config.patch(cache_dir=folder, verify=False, suppress_errors=False),
    ):
        compiled, first = results(program, make())
        loaded, second = results(program, make())
    assert first.get("graphs_compiled") == second.get("graphs_loaded") == first.get("graphs")
    assert "graphs_compiled" not in second and "kernels_compiled" not in second
    assert first.get("kernels") == second.get("kernels")
    for a, b in zip(compiled, loaded, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@PATIENT
@given(programs(VALUES))
def test_random_programs_that_are_trained(program: RandomProgram) -> None:
    valid = differentiable(program)
    check(lambda x, y, z: (*valid(x, y, z), torch.sin(x) + 1), lambda: copies(leaves()))


@PATIENT
@given(programs(VALUES))
def test_random_programs_without_gradients(program: RandomProgram) -> None:
    valid = differentiable(program)
    with torch.no_grad():
        check(
            lambda x, y, z: (*valid(x, y, z), torch.sin(x) + 1),
            lambda: [x.detach().clone() for x in leaves()],
        )


@given(programs(VALUES), programs(VALUES))
@settings(
    max_examples=3,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_no_program_gets_the_graph_of_another(first: RandomProgram, second: RandomProgram) -> None:
    with (
        torch.no_grad(),
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(bypass, "EXTENSIONS", []),
        config.patch(cache_dir=folder, verify=False, suppress_errors=False),
    ):
        for program in map(differentiable, (first, second)):
            inputs = [[x.detach().clone() for x in leaves()] for _ in range(2)]
            found, _ = results(lambda x, y, z, p=program: (*p(x, y, z),), inputs[0])
            wanted = [*program(*inputs[1]), *inputs[1]]
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)
