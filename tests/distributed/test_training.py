"""Models that several processes train: compiled, they have eager's losses and gradients."""

import pytest
import torch

NAMES = (
    "around", "inside", "static_graph", "bucket_views", "no_sync", "join", "unused",
    "half_precision_hook", "power_sgd_hook", "whole_step", "sharded", "sharded_around",
    "sharded_mixed", "tensor_parallel", "sequence_parallel", "distributed_tensors",
)  # fmt: skip
WHOLE = {"tensor_parallel", "sequence_parallel", "distributed_tensors"}
"""Programs that are one graph, with their collectives."""


@pytest.mark.parametrize("name", NAMES)
def test_ranks_train_as_eagerly(job, name):
    for expected, found, counts in job.run("compare", name):
        torch.testing.assert_close(found, expected)
        assert counts["graphs"] > 0
        assert counts["graph_breaks"] == 0 or name not in WHOLE


SCHEDULES = {"one_after_another": 1, "forward_and_backward_in_turns": 1, "interleaved": 2}
"""The schedules of pipelines, and how many stages a rank has."""


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_stages_of_a_pipeline_are_a_graph_each(job, name, backend):
    for expected, found, counts in job.run("compare", name, backend):
        torch.testing.assert_close(found, expected)
        assert counts["graphs"] == SCHEDULES[name] and counts.get("graph_breaks", 0) == 0


OF_DDP = (
    "static_graph", "bucket_views", "no_sync", "join", "unused",
    "half_precision_hook", "power_sgd_hook",
)  # fmt: skip


@pytest.mark.parametrize("name", OF_DDP)
def test_a_compiled_model_inside_of_ddp_keeps_what_its_options_mean(job, name):
    for expected, found, counts in job.run("compare", name, "aot_eager", "inside"):
        torch.testing.assert_close(found, expected)
        assert counts["graphs"] > 0 and counts["graph_breaks"] == 0
        assert counts.get("parts_of_backward", 0) > 1 or name == "power_sgd_hook"


@pytest.mark.parametrize("name", ["around", "sharded"])
def test_ranks_train_with_kernels(job, name):
    for expected, found, counts in job.run("compare", name, "numba"):
        torch.testing.assert_close(found, expected)
        assert counts["kernels"] > 0


def test_ranks_compile_the_same(job):
    one, other = job.run("compare", "inside")
    assert one[2] == other[2]


@pytest.mark.parametrize(
    ("where", "done"), [("eager", [0, 1, 2]), ("blocks", [0, 1, 2]), ("inside", [0, 1, 2])]
)
def test_gradients_are_sent_while_others_are_computed(job, where, done):
    """The backward of a compiled model is cut where a bucket is full, as early as in eager mode."""
    assert job.run("computed_first", where) == [done, done]


def test_kernels_of_later_buckets_run_behind_the_first_message(job):
    assert job.run("computed_first", "around", "numba") == [[0, 1, 2]] * 2


def test_one_bucket_for_all_gradients_is_one_backward_graph(job):
    assert job.run("computed_first", "inside", "aot_eager", 24) == [[3]] * 2
