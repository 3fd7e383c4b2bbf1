"""Archives that `torch.jit` has written run here, and what is written again runs in torch.jit."""

import copy
import io

import pytest
import torch
from torch import Tensor, nn

from minitorch2 import jit
from tests.unit.script.archived_modules import Bidirectional, Squeeze, Tied, archived

CALLS = 3
"""The first call is watched, the others run the plan."""
ARCHIVED = archived()


def saved(save, module):
    file = io.BytesIO()
    save(module, file)
    return io.BytesIO(file.getvalue())


def assert_same(found, expected):
    if isinstance(expected, Tensor):
        torch.testing.assert_close(found, expected)
        assert found.requires_grad == expected.requires_grad
    elif isinstance(expected, list | tuple):
        assert isinstance(found, list) == isinstance(expected, list)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        assert_same([*found.values()], [*expected.values()])
    else:
        assert type(found) is type(expected) and found == expected


def test_there_are_thirty_archives_at_least():
    assert len({case.name for case in ARCHIVED}) == len(ARCHIVED) >= 30


@pytest.mark.parametrize("case", ARCHIVED, ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore")
def test_an_archive_of_torch_jit_runs_here_and_is_written_again(case):
    file = saved(torch.jit.save, case.make())
    ours = jit.load(file)
    file.seek(0)
    theirs, again = torch.jit.load(file), torch.jit.load(saved(jit.save, ours))
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    for _ in range(CALLS):
        for inputs in case.calls:
            for method in case.methods:
                expected = getattr(theirs, method)(*copy.deepcopy(inputs))
                for way in (ours, again):
                    assert_same(getattr(way, method)(*copy.deepcopy(inputs)), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: jit.load(saved(torch.jit.save, torch.jit.script(Bidirectional()))),
        lambda: jit.freeze(jit.script(Squeeze().eval())),
        lambda: jit.freeze(jit.load(saved(jit.save, jit.script(Squeeze().eval())))),
        lambda: jit.trace(Squeeze().eval(), (torch.ones(1, 4, 2, 2),)),
    ],
    ids=["loaded", "frozen", "loaded and frozen", "traced"],
)
def test_methods_that_nobody_has_called_are_saved(make):
    module = make()
    file = saved(jit.save, module)
    x = torch.randn(1, 4, 2, 2) if module.original_name != "Bidirectional" else torch.randn(4, 2, 3)
    for load in (jit.load, torch.jit.load):
        file.seek(0)
        torch.testing.assert_close(load(file)(x), module(x))


@pytest.mark.parametrize("write", [jit, torch.jit], ids=["ours", "torch.jit"])
@pytest.mark.parametrize("load", [jit.load, torch.jit.load], ids=["ours", "torch.jit"])
def test_memory_and_parameters_that_were_shared_still_are(write, load):
    loaded = load(saved(write.save, write.script(Tied())))
    assert loaded.out.weight is loaded.embedding.weight
    assert len([*loaded.parameters()]) == 1
    loaded.whole.fill_(5)
    assert loaded.odd.tolist() == [5, 5, 5]


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.all: list[Tensor] = [self.weight]

    def forward(self, x: Tensor) -> Tensor:
        return x * self.all[0]


def test_a_list_that_holds_a_parameter_holds_the_loaded_one():
    loaded = jit.load(saved(jit.save, jit.script(Kept())))
    loaded(torch.ones(2)).sum().backward()
    assert loaded.weight.grad.tolist() == [1, 1]


class Apart(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        task = torch.jit.fork(self.inner, x)
        return torch.jit.wait(task) + x


def test_a_task_of_a_module_in_an_archive_of_torch_jit_runs_here():
    model, x = Apart(), torch.randn(2, 3)
    loaded = jit.load(saved(torch.jit.save, torch.jit.script(model)))
    for _ in range(CALLS):
        torch.testing.assert_close(loaded(x), model(x))
