"""Parts of programs of the field that scripts once took wrongly, or not at all."""

import io
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from minitorch2 import jit
from minitorch2.script.syntax.errors import ScriptError

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


class Found(NamedTuple):
    boxes: Tensor
    label: int


def find(x: Tensor) -> Found:
    return Found(x + 1, 2)


def percent(x: Tensor) -> str:
    return "%s has %d" % ("x", x.size(0))  # noqa: UP031


def add_times(x: Tensor, times: int) -> Tensor:
    return x + times


def forked(x: Tensor) -> Tensor:
    tasks = [jit.fork(add_times, x, k) for k in range(3)]
    return jit.wait(tasks[0]) + jit.wait(tasks[2])


@pytest.mark.parametrize("function", [find, percent, forked])
def test_a_file_with_named_tuples_formats_or_tasks_is_read_by_both(function):
    expected, file = function(torch.ones(2)), io.BytesIO()
    jit.save(jit.script(function), file)
    for load in (jit.load, torch.jit.load):
        file.seek(0)
        found = load(file)(torch.ones(2))
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other) if isinstance(one, Tensor) else one == other


def on_device(x: Tensor) -> Tensor:
    device = torch.device("cpu")
    return x.to(device) + torch.ones(2, device=torch.device("cpu"))


def test_a_device_is_a_constant_although_it_is_a_context_manager():
    assert torch.equal(jit.script(on_device)(torch.ones(2)), on_device(torch.ones(2)))


def count_of_number(n: int) -> int:
    return len(n)  # type: ignore[arg-type]


def count_of_anything(n: Any) -> int:
    return len(n)


def count_of_rest(v: int | float | str | list[int]) -> int:
    return 0 if isinstance(v, int | float | str) else len(v)


@pytest.mark.parametrize("function", [count_of_number, count_of_anything])
def test_len_of_what_is_no_list_is_refused_and_not_taken_as_a_list_of_it(function):
    with pytest.raises(ScriptError, match="len"):
        jit.script(function)


def test_len_of_the_rest_of_a_union_counts_its_elements_or_is_refused():
    try:
        script = jit.script(count_of_rest)
    except ScriptError:
        return
    assert script([1, 2]) == 2
