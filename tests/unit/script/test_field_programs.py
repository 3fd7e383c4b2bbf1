"""Parts of programs of the field that scripts once took wrongly, or not at all."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from minitorch2 import jit

CALLS = 4
"""The first call is watched, the others run the plan."""


class Step(NamedTuple):
    place: Tensor
    count: int


def in_a_loop(x: Tensor, times: int) -> Step:
    step = Step(x, 0)
    for k in range(times):
        step = Step(step.place + 1, step.count + k)
    return step


def in_a_branch(x: Tensor, times: int) -> Step:
    if times > 2:
        step = Step(x, 0)
    else:
        step = Step(x, 1)
    return step


@pytest.mark.parametrize("function", [in_a_loop, in_a_branch])
def test_a_named_tuple_out_of_a_block_keeps_its_class(function):
    scripted = jit.script(function)
    for _ in range(CALLS):
        found = scripted(torch.ones(2), 3)
        expected = function(torch.ones(2), 3)
        assert type(found) is Step
        assert found.count == expected.count
        assert torch.equal(found.place, expected.place)


def formatted(number: int, text: str) -> str:
    pair = (number, text)
    return "%d %s" % (number, text) + "%d, %s" % pair + "%s!" % text  # noqa: UP031


def test_percent_formats_the_elements_of_a_tuple():
    scripted = jit.script(formatted)
    for _ in range(CALLS):
        assert scripted(3, "n") == formatted(3, "n")


class Unused(nn.Module):
    @torch.jit.unused
    def never(self, x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy())

    def forward(self, x: Tensor, way: int) -> Tensor:
        if way == 1:
            return self.never(x)
        if way == 2:
            x = self.never(x) + 1
        return x * 2


def test_an_unused_method_has_a_result_that_no_way_reads():
    scripted = jit.script(Unused())
    for _ in range(CALLS):
        assert torch.equal(scripted(torch.ones(2), 0), torch.full((2,), 2.0))
    for way in (1, 2):
        with pytest.raises(NotImplementedError, match="marked as unused"):
            scripted(torch.ones(2), way)
