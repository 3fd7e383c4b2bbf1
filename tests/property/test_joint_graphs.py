"""Random differentiable programs: gradients through both partitions equal eager's."""

from dataclasses import replace
from itertools import product
from typing import Any

import torch
from hypothesis import assume, given

from minitorch2.autograd import default_partition, min_cut_partition
from minitorch2.autograd.recompute import is_recomputable
from minitorch2.errors import UnsupportedError
from minitorch2.graph.effects import is_random
from minitorch2.graph.verify import verify
from tests.property.random_programs import VALUES, VIEWS, WRITES, RandomProgram, programs
from tests.unit.autograd.programs import check, copies, joint_of


def leaves() -> list[torch.Tensor]:
    torch.manual_seed(2)
    return [
        torch.randn(4, 6, requires_grad=True),
        torch.randn(4, 6, requires_grad=True),
        torch.randn(6),
    ]


def differentiable(program: RandomProgram) -> RandomProgram:
    """The valid steps; programs whose eager backward fails (a saved value was written) are
    rejected.
    """
    torch.manual_seed(5)
    valid = program.valid_on(copies(leaves()))
    inputs = copies(leaves())
    try:
        results = [r for r in valid(*inputs) if r.requires_grad]
        if results:
            torch.autograd.backward(results, [torch.ones_like(r) for r in results])
    except RuntimeError:
        assume(False)
    return valid


@given(programs(VIEWS, VALUES))
def test_gradients_of_functional_programs(program: RandomProgram) -> None:
    valid = differentiable(program)
    for partition in (min_cut_partition, default_partition):
        check(valid, leaves(), tolerance=1e-4, partition=partition)


@given(programs(VIEWS, WRITES, VALUES))
def test_gradients_of_programs_that_write(program: RandomProgram) -> None:
    valid = differentiable(program)
    try:
        check(valid, leaves(), tolerance=1e-4)
    except UnsupportedError as error:
        assert "expanded" in str(error)


@given(programs(VALUES))
def test_partitions_obey_their_rules(program: RandomProgram) -> None:
    valid = differentiable(program)
    joint = joint_of(valid, leaves())
    assume(joint.has_backward)
    names = {node.name: node for node in joint.module.graph.nodes}
    tangents = {node.name for node in joint.module.graph.placeholders[joint.inputs :]}
    all_kept = frozenset(range(joint.inputs + joint.forward_outputs))
    for how, kept in product((min_cut_partition, default_partition), (joint.kept, all_kept)):
        parts = how(replace(joint_of(valid, leaves()), kept=kept))
        verify(parts.forward)
        verify(parts.backward)
        forward = {node.name for node in parts.forward.graph.nodes if node.op == "call_function"}
        backward = {node.name for node in parts.backward.graph.nodes if node.op == "call_function"}
        recomputed = [names[name] for name in forward & backward]
        assert all(is_recomputable(node) for node in recomputed)
        assert not any(is_random(node) for node in recomputed)
        assert how is min_cut_partition or not [n for n in recomputed if n.op != "get_attr"]
        assert not tangents & {node.name for node in parts.forward.graph.nodes}


def test_the_strategies_reach_their_steps() -> None:
    """A property over programs that are all empty would prove nothing."""
    counts: dict[str, int] = {}

    @given(programs(VIEWS, WRITES, VALUES))
    def count(program: RandomProgram) -> Any:
        for step in program.valid_on(copies([*leaves()[:1], torch.randn(4, 6)])).steps:
            counts[step[0]] = counts.get(step[0], 0) + 1

    count()
    assert len(counts) >= 25, counts
