"""Public test tools, usable on any compiler.

Takes nothing but a compiler or an interpreter to examine; gives Hypothesis strategies and
comparisons with eager PyTorch. Reading order: `assertions`, `programs`
(random programs), `loop_bodies` (random loop graphs).

    assert_matches_eager(function, *inputs, compile=...)     one function, any compiler
    programs()           random Python functions on tensors; `program.check(compile)`
    strided_tensors()    tensors of any layout, with special values
    loop_graphs()        random loop nests, for interpreters and code generators of the loop IR
"""

from minitorch2.testing.assertions import (
    Observation,
    assert_matches_eager,
    assert_same,
    assert_same_observation,
    observe,
)

try:
    from minitorch2.testing.loop_bodies import LoopGraph, loop_graphs, strided_tensors
    from minitorch2.testing.programs import Program, programs
except ModuleNotFoundError as error:
    if error.name != "hypothesis":
        raise
    raise ModuleNotFoundError(
        "minitorch2.testing needs Hypothesis: pip install 'minitorch2[test]'", name="hypothesis"
    ) from error

__all__ = [
    "LoopGraph",
    "Observation",
    "Program",
    "assert_matches_eager",
    "assert_same",
    "assert_same_observation",
    "loop_graphs",
    "observe",
    "programs",
    "strided_tensors",
]
