"""Every program does the same captured as eagerly, with no more graph breaks than are known."""

import pytest

from tests.programs.run import PROGRAMS, ROUGH, compare

BREAKS = {
    "beam_search_with_heap": 11, "config_built_model": 1, "sparse_graph_diffusion": 8,
    "parametrized_weights": 4, "augmentations": 12, "numpy_mix": 2, "dual_numbers": 2,
    "loader_in_the_step": 5, "custom_schedule": 4, "plateau_and_checkpoints": 5,
    "labelled_columns": 2, "masked_packing": 3, "newton_with_transforms": 2,
    "gan_with_penalty": 4, "rewind_on_nan": 2, "param_groups_changed": 1, "implicit_layer": 4,
    "strings_and_regex": 2, "nested_exceptions": 2,
    "bpe_tokenizer_and_collate": 11, "autoregressive_sampler": 24, "early_stopping_trainer": 10,
    "pointcloud_and_nms": 6, "numpy_in_the_loop": 13,
    "lru_and_weak_caches": 1, "replay_buffer_dqn": 3, "beam_search_batched": 16,
    "mixture_of_experts": 10, "distill_mixup_cutmix": 7, "moco_queue": 2, "crf_and_viterbi": 7,
    "ctc_greedy_and_loss": 6, "kalman_and_particles": 8, "neural_ode_rk4": 4,
    "kmeans_sinkhorn_mcmc": 20, "ppo_gae_update": 3, "vqvae_gumbel": 6,
    "hypotheses_in_a_dict": 16, "mixture_density": 2, "adaptive_heun": 14,
    "functions_with_state_in_ctx": 5, "stacks_of_exits": 7, "flags_and_dispatch": 3,
    "plugins_with_metaclasses": 1, "logged_training": 3,
    "meta_learning_two_ways": 2,
    "memo_by_shape": 1, "exceptions_as_control": 2, "stacks_of_contexts": 1,
    "match_with_classes": 5,
}  # fmt: skip
"""The most graph breaks of a program, in either mode; the others have none."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_as_eagerly(name):
    dynamic = list(PROGRAMS).index(name) % 2 == 1 or None  # `python -m tests.programs` runs both
    counts = compare(name, backend="eager", dynamic=dynamic).counts
    assert counts["graphs"] > 0
    assert counts["graph_breaks"] + counts["frames_as_is"] <= BREAKS.get(name, 0)


@pytest.mark.parametrize(
    ("name", "dynamic"),
    [("gnn_message_passing", None), ("knn_with_chunks", True), ("policy_gradient", True),
     ("moco_queue", None)],
)  # fmt: skip
def test_programs_whose_joined_launches_or_remainders_failed(name, dynamic):
    """Each had a kernel of Triton's that read a number which varies, and ran in Python."""
    compare(name, ROUGH, backend="triton", dynamic=dynamic)
