"""Models that several processes train: compiled, they have eager's losses and gradients."""

import pytest
import torch

NAMES = (
    "around", "inside", "static_graph", "bucket_views", "no_sync", "join", "unused",
    "half_precision_hook", "power_sgd_hook", "whole_step", "sharded", "sharded_around",
    "sharded_mixed", "tensor_parallel", "sequence_parallel", "distributed_tensors",
)  # fmt: skip
IN_PYTHON = {"sequence_parallel", "distributed_tensors"}
"""Programs of distributed tensors alone: little or nothing of them is captured."""


@pytest.mark.parametrize("name", NAMES)
def test_ranks_train_as_eagerly(job, name):
    for expected, found, counts in job.run("compare", name):
        torch.testing.assert_close(found, expected)
        assert counts["graphs"] > 0 or name in IN_PYTHON, counts


@pytest.mark.parametrize("name", ["around", "sharded"])
def test_ranks_train_with_kernels(job, name):
    for expected, found, counts in job.run("compare", name, "numba"):
        torch.testing.assert_close(found, expected)
        assert counts["kernels"] > 0


def test_ranks_compile_the_same(job):
    one, other = job.run("compare", "inside")
    assert one[2] == other[2]


@pytest.mark.parametrize(
    ("where", "done"), [("eager", [0, 1, 2]), ("whole", [3, 3, 3]), ("blocks", [1, 2, 3])]
)
def test_gradients_of_compiled_blocks_are_sent_while_others_are_computed(job, where, done):
    assert job.run("computed_first", where) == [done, done]
