"""Random programs of views and writes, told without writes: values and memory are eager's.

Inputs are tensors of their own, windows on larger memory, or views of each other.
"""

from collections.abc import Callable

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import minitorch2
from minitorch2.errors import UnsupportedError
from tests.property.random_programs import ALONE, VIEWS, WINDOWS, RandomProgram, programs
from tests.unit.autograd.programs import compiled, relations, same, written


def own() -> list[Tensor]:
    return [torch.arange(24.0).view(4, 6), torch.arange(24.0, 48.0).view(6, 4).t()]


def windows() -> list[Tensor]:
    memory = torch.arange(64.0)
    return [memory[5:29].view(4, 6), torch.arange(80.0).view(8, 10)[2:6, ::2]]


def overlapping() -> list[Tensor]:
    memory = torch.arange(48.0)
    return [memory[:24].view(4, 6), memory[20:44].view(4, 6)]


def twice() -> list[Tensor]:
    tensor = torch.arange(24.0).view(4, 6)
    return [tensor, tensor]


@given(
    programs(VIEWS, WINDOWS, ALONE, most_steps=12),
    st.sampled_from([own, windows, overlapping, twice]),
)
def test_values_and_memory_are_eagers(
    program: RandomProgram, inputs: Callable[[], list[Tensor]]
) -> None:
    valid = program.valid_on(inputs())
    ours, theirs = inputs(), inputs()
    expected = valid(*theirs)
    try:
        got = compiled(valid, inputs())(*ours)
    except UnsupportedError as error:  # a documented refusal, never a wrong answer
        assert any(reason in str(error) for reason in REFUSALS), error
        return
    for a, b in zip([*ours, *got], [*theirs, *expected], strict=True):
        same(a, b, 0.0)
    assert relations(ours, got) == relations(theirs, expected)
    assert written(ours) == written(theirs)


def with_history(make: Callable[[], list[Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
    """Leaves, and the tensors that an operator has made of each: the same one twice stays so."""
    tensors = make()
    leaves = {id(t): t.clone().requires_grad_() for t in tensors}
    made = {key: leaf * 2 for key, leaf in leaves.items()}
    return [*leaves.values()], [made[id(t)] for t in tensors]


def gradients(run: Callable[..., list[Tensor]], make: Callable[[], list[Tensor]]) -> list[Tensor]:
    """Results, what the inputs have become, and the gradients of all of it."""
    leaves, inputs = with_history(make)
    values = [*run(*inputs), *inputs]
    total = sum(v.sin().sum() for v in values if v.requires_grad)
    found = torch.autograd.grad(total, leaves, allow_unused=True)  # type: ignore[arg-type]
    return [*(v.detach() for v in values), *(torch.zeros(()) if g is None else g for g in found)]


@given(programs(VIEWS, WINDOWS, ALONE, most_steps=8), st.sampled_from([own, windows, twice]))
def test_writes_to_what_other_graphs_made_have_eagers_gradients(
    program: RandomProgram, make: Callable[[], list[Tensor]]
) -> None:
    valid = program.valid_on(make())
    try:
        expected = gradients(valid, make)
    except RuntimeError:  # a write that autograd refuses
        assume(False)
    found = gradients(minitorch2.compile(valid, backend="aot_eager"), make)
    torch.testing.assert_close(found, expected)


REFUSALS = (
    "expanded",
    "windows that overlap",
    "shares memory with another input",
    "storage offset of an input",
    "outside of the graph's tensors",
    "gaps in its memory",
)


def test_few_programs_are_refused() -> None:
    """A property that refuses everything would prove nothing."""
    outcomes = {True: 0, False: 0}

    @given(programs(VIEWS, WINDOWS, ALONE, most_steps=12))
    def count(program: RandomProgram) -> None:
        try:
            compiled(program.valid_on(own()), own())
            outcomes[True] += 1
        except UnsupportedError:
            outcomes[False] += 1

    count()
    assert outcomes[True] > 4 * outcomes[False], outcomes
