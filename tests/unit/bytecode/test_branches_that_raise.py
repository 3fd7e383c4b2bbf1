"""A branch on data one side of which can only raise is checked by the graph, not a break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.bytecode.machine.program import program_of
from minitorch2.bytecode.machine.raising import always_raises

SAMPLES = (
    torch.rand(4) + 0.1,
    -torch.rand(4) - 0.1,
    torch.rand(4) * 1000 + 100,
    torch.rand(4) + 0.1,
)


def raises_behind_an_effect(x: torch.Tensor, log: list[int]) -> torch.Tensor:
    y = x.sin()
    log.append(1)
    if not (x > 0).all():
        raise ValueError(f"negative {x.min()}")
    assert x.sum() < 100, "too big"
    log.append(2)
    return y * 2


def handles_it(x: torch.Tensor, log: list[int]) -> torch.Tensor:
    try:
        return raises_behind_an_effect(x, log)
    except ValueError:
        return x * 0


def raises_in_two_ways(x: torch.Tensor, log: list[int]) -> torch.Tensor:
    if (x < 0).any():
        if len(log) > 3:
            raise RuntimeError("a")
        raise ValueError("b")
    return x + 1


def asks_a_number(x: torch.Tensor, log: list[int]) -> torch.Tensor:
    if x.sum():
        return x + 1
    raise ZeroDivisionError("the sum is zero")


def validates_a_distribution(x: torch.Tensor, log: list[int]) -> torch.Tensor:
    normal = torch.distributions.Normal(torch.zeros_like(x), x, validate_args=True)
    return normal.log_prob(x)


def outcome(program: Callable[..., Any], x: torch.Tensor, log: list[int]) -> Any:
    try:
        return program(x, log)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore::minitorch2.errors.cautions.MinitorchWarning")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
@pytest.mark.parametrize(
    "program",
    [raises_behind_an_effect, handles_it, raises_in_two_ways, asks_a_number,
     validates_a_distribution],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_one_graph_raises_as_eager_does(program: Callable[..., Any], backend: str) -> None:
    fast = minitorch2.compile(program, backend=backend, fullgraph=True)
    with stages.collect() as log:
        for x in SAMPLES:
            ours, theirs = [], []
            result, expected = outcome(fast, x, ours), outcome(program, x, theirs)
            if isinstance(expected, torch.Tensor):
                torch.testing.assert_close(result, expected)
            else:
                assert result == expected
            assert ours == theirs
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (1, 0)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
def test_a_checked_equality_is_not_taken_for_granted(backend: str, dynamic: bool | None) -> None:
    """The number was replaced by what it was checked to be, and the check compared it to itself."""

    def with_a_number(x: torch.Tensor) -> torch.Tensor:
        number = x.sum().item()
        torch._check(number == 5)
        return x + torch.ones(number)[:2].long()

    def with_a_truth(x: torch.Tensor) -> torch.Tensor:
        truth = (x > 1).all().item()
        torch._check(truth)
        return x + 1

    def with_a_size(x: torch.Tensor) -> torch.Tensor:
        places = torch.nonzero(x)
        torch._check(places.size(0) == x.size(0))
        return places[:, 0] + x

    samples = [torch.tensor(pair) for pair in ((2, 3), (5, 0), (2, 4), (3, 2))]
    for program in (with_a_number, with_a_truth, with_a_size):
        fast = minitorch2.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)
        for x in samples:
            try:
                expected = program(x)
            except RuntimeError as error:
                with pytest.raises(type(error)):
                    fast(x)
            else:
                torch.testing.assert_close(fast(x), expected)


def test_what_always_raises_is_found_in_bytecode() -> None:
    def program(x: Any, flag: Any) -> Any:
        if x:
            if flag:
                raise ValueError
            raise TypeError(f"no {x}")
        while flag:
            flag = x.next()
        return x

    instructions = program_of(program.__code__).instructions
    raising = [always_raises(instructions, i) for i in range(len(instructions))]
    first = next(i for i, each in enumerate(instructions) if each.line is not None and raising[i])
    assert any(raising) and not raising[0]
    assert instructions[first].line == program.__code__.co_firstlineno + 2
    assert not raising[-1]


def test_loops_and_both_sides_still_break_the_graph() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1

    with pytest.raises(minitorch2.errors.GraphBreakError, match="data-dependent-branch"):
        minitorch2.compile(program, fullgraph=True)(torch.ones(3))
