"""Every net in one line: its name, its command behind `python -m`, its share of the time.

In a command, `{seed}` is another number in each turn. A command writes what it found by
`tests.nets.report`: as a pytest plugin (which the runner adds), or by `Tally.write`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Net:
    """One net.

    Attributes:
        command: what comes behind ``python -m``.
        share: its part of the time, beside those of the others.
    """

    name: str
    command: str
    share: float


PYTEST = (
    "pytest -q -p no:cacheprovider -p tests.nets.report --hypothesis-seed={seed} tests/property/"
)
NETS = (
    Net("programs", PYTEST + "test_capture_programs.py", 4),
    Net("operations", PYTEST + "test_operations.py", 3),
    Net("nested programs", PYTEST + "test_capture_nested_programs.py", 2),
    Net("guards", PYTEST + "test_guards.py", 2),
    Net("guard handlers", PYTEST + "test_guard_handlers.py", 1),
    Net("sizes", PYTEST + "test_dynamic_shapes.py", 3),
    Net("data", PYTEST + "test_unbacked.py", 1),
    Net("numpy", PYTEST + "test_numpy_programs.py", 2),
    Net("subclasses", PYTEST + "test_subclasses.py", 2),
    Net("jagged tensors", PYTEST + "test_jagged_programs.py", 2),
    Net("results", PYTEST + "test_results.py", 2),
    Net("branches and loops", PYTEST + "test_higher_order.py", 1),
    Net("gradients", PYTEST + "test_joint_graphs.py", 3),
    Net("mutation", PYTEST + "test_functionalization.py", 2),
    Net("rewriting", PYTEST + "test_rewriting.py", 1),
    Net("loops", PYTEST + "test_loop_bodies.py", 2),
    Net("lowerings", PYTEST + "test_lowering_families.py", 2),
    Net("kernels", PYTEST + "test_numba_kernels.py", 3),
    Net("whole programs", PYTEST + "test_whole_programs.py", 3),
    Net("cached graphs", PYTEST + "test_graph_cache.py", 2),
    Net("names", PYTEST + "test_names.py", 2),
    Net("errors", PYTEST + "test_errors.py", 3),
    Net("state", PYTEST + "test_state.py", 3),
    Net("surroundings", PYTEST + "test_surroundings.py", 2),
    Net("rare parts", PYTEST + "test_rare_parts.py", 2),
    Net("objects", PYTEST + "test_tensor_objects.py", 2),
    Net("training", PYTEST + "test_training_programs.py", 3),
    Net("transforms", PYTEST + "test_transforms.py", 2),
    Net("wrappers", PYTEST + "test_wrappers.py", 2),
    Net("field programs", "tests.programs --seed {seed}", 3),
    Net("programs of Triton", "tests.programs --backend triton --sample 3 --seed {seed}", 2),
    Net("caches", "tests.nets.caches --seed {seed} --sample 40", 5),
)
TOTAL = 30.0
"""Minutes that all of them take together where nothing else is said, two at a time."""
