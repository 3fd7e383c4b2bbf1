"""Collectives inside graphs: eager's values, gradients and errors, and graphs without breaks."""

import subprocess
import sys

import pytest
import torch

HERE = "tests.distributed.collectives"
CALLS = {
    "reduced": 3, "gathered": 4, "scattered": 4, "exchanged": 4, "sent": 2, "of_a_mesh": 2,
    "unread": 2, "twice": 4, "in_place": 8, "read_while_sent": 2,
}  # fmt: skip
"""The operators of collectives in each forward graph."""


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
@pytest.mark.parametrize("name", CALLS)
def test_collectives_are_operators_of_one_graph(job, name, backend):
    for expected, found, counts, calls in job.run("compare", name, backend, module=HERE):
        torch.testing.assert_close(found, expected)
        assert (counts["graphs"], counts["graph_breaks"]) == (1, 0)
        assert calls == CALLS[name]


def test_a_handle_is_left_to_python(job):
    for expected, found, counts, _ in job.run("compare", "with_a_handle", "aot_eager", module=HERE):
        torch.testing.assert_close(found, expected)
        assert counts["graph_breaks"] > 0


def test_sizes_that_do_not_divide_are_the_error_of_eager(job):
    for eager, compiled in job.run("error_of", "of_odd_sizes", module=HERE):
        assert compiled == eager and "multiple of group_size 2" in eager


def test_a_group_is_guarded(job):
    assert job.run("sums_of_groups", module=HERE) == [[1, 2, 2]] * 2


ALONE = """
import os, sys, torch, torch.distributed as dist, minitorch2
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
start = torch.ops._c10d_functional
def program(x):
    return start.wait_tensor(start.all_reduce(x * 2, "sum", "0")) + 1
assert "torch.distributed._functional_collectives" not in sys.modules
with minitorch2.stages.collect() as log:
    x = torch.ones(3, requires_grad=True)
    minitorch2.compile(program, backend="aot_eager")(x).sum().backward()
text = next(stage.text for stage in log.stages if stage.name == "forward graph.py")
print(text.count("wait_tensor.default"), x.grad.tolist())
sys.stdout.flush()
os._exit(0)
"""


def test_waits_stay_without_an_import_of_the_functional_collectives():
    """Operators without rules for fakes ran as their kernels, and a wait gave its argument."""
    run = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert run.stdout == "1 [2.0, 2.0, 2.0]\n", run.stderr
