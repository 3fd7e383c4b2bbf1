"""Distributed tensors in graphs: eager's values, placements and gradients, without breaks."""

import pytest
import torch

HERE = "tests.distributed.tensors"
COLLECTIVES = {
    "pointwise": 0, "product": 2, "sums": 1, "moved": 2, "made_inside": 0, "partial_result": 0,
    "asked": 1, "normalized": 1, "several": 1, "uneven": 1,
}  # fmt: skip
"""The collectives of each forward graph. That of `product` holds one for the backward graph."""


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_programs_of_distributed_tensors_are_one_graph(job, name, backend):
    for expected, found, counts, collectives in job.run("compare", name, backend, module=HERE):
        torch.testing.assert_close(found, expected)
        assert (counts["graphs"], counts["graph_breaks"]) == (1, 0)
        assert collectives == COLLECTIVES[name]


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
@pytest.mark.parametrize("plan", ["by_tensor", "by_sequence"])
def test_a_layer_that_is_split_among_ranks_trains_as_eagerly(job, plan, backend):
    for expected, found, counts in job.run("train", plan, backend, module=HERE):
        torch.testing.assert_close(found, expected)
        assert (counts["graphs"], counts["graph_breaks"]) == (1, 0)


def test_a_step_with_its_optimizer_inside_does_not_break(job):
    """Regression: frames that PyTorch makes of texts, such as dataclasses', were captured."""
    for expected, found, counts in job.run("whole_steps", module=HERE):
        torch.testing.assert_close(found, expected)
        assert (counts["graphs"], counts["graph_breaks"]) == (3, 0)  # the first makes a state


def test_placements_are_guarded(job):
    assert job.run("of_each_mesh", module=HERE) == [[1, 1, 2, 3, 3]] * 2


def test_each_size_is_a_graph(job):
    """Regression: PyTorch computes placements with numbers, and refused a symbol."""
    assert job.run("of_other_sizes", module=HERE) == [(3, 0)] * 2
