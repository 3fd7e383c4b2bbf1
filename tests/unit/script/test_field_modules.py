"""Modules in the manner of the field: scripts, `torch.jit.script` and eager mode agree."""

import copy

import pytest
import torch
from torch import Tensor, nn

from minitorch2 import config, jit, stages
from tests.unit.script.field_modules import field_modules
from tests.unit.script.test_archive_peers import assert_same

SIZES = (3, 3, 4, 2, 5, 4, 7, 1, 3)
"""The first call is watched, the second runs the plan; sizes that vary end it, and plan anew."""
MODULES = list(field_modules())


def tensors(value):
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)
    elif isinstance(value, dict):
        yield from tensors([*value.values()])


def outcome(module, inputs, trains):
    """Return the results, and the gradients of inputs and parameters."""
    inputs = copy.deepcopy(inputs)
    given = [t for t in tensors(inputs) if t.is_floating_point()]
    for tensor in given if trains else ():
        tensor.requires_grad_()
    module.zero_grad()
    results = module(*inputs)
    if trains:
        sum(t.double().sum() for t in tensors(results) if t.requires_grad).backward()
    return results, [t.grad for t in given], [p.grad for p in module.parameters()]


def test_there_are_twenty_modules_at_least():
    assert len({type(case.make()) for case in MODULES}) >= 20


@pytest.mark.parametrize(
    ("case", "trains"),
    [(case, trains) for case in MODULES for trains in (False, True)[: 1 + case.trains]],
    ids=lambda value: ("inference", "training")[value] if isinstance(value, bool) else value.name,
)
@pytest.mark.filterwarnings("ignore")
def test_a_module_of_the_field_gives_what_eager_mode_gives(case, trains):
    torch.manual_seed(0)
    eager = case.make()
    ways = [script(copy.deepcopy(eager)) for script in (jit.script, torch.jit.script)]
    for size in SIZES:
        torch.manual_seed(size)
        inputs = case.inputs(size)
        expected = outcome(eager, inputs, trains)
        for way in ways:
            assert_same(outcome(way, inputs, trains), expected)


class Unused(nn.Module):
    @torch.jit.unused
    def asks(self, x: Tensor) -> bool:
        return bool(x.numpy().all())

    def forward(self, x: Tensor, on: bool) -> tuple[Tensor, bool]:
        both = on and not self.asks(x)
        if on and self.asks(x):
            x = x * 2
        return x + 1, both


def test_an_unused_method_may_stand_in_a_condition():
    scripted = jit.script(Unused())
    for _ in range(3):
        x, both = scripted(torch.ones(2), False)
        assert x.tolist() == [2, 2] and both is False
    with pytest.raises(NotImplementedError, match="marked as unused"):
        scripted(torch.ones(2), True)


class Scaled:
    def __init__(self, factor: int):
        self.factor = factor

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.factor


@jit.script
class Growing:
    def __init__(self, factor: int):
        self.factor = factor

    def __call__(self, x: Tensor) -> Tensor:
        self.factor += 1
        return x * self.factor


class Calls(nn.Module):
    def __init__(self, called):
        super().__init__()
        self.called = called

    def forward(self, x: Tensor) -> Tensor:
        return self.called(x)


@pytest.mark.parametrize("python_class", [Scaled, Growing])
def test_an_object_that_a_module_holds_may_be_called(python_class):
    eager, module = Calls(python_class(2)), Calls(python_class(2))
    scripted = jit.script(module)
    for _ in range(3):
        assert torch.equal(scripted(torch.ones(2)), eager(torch.ones(2)))
    assert module.called.factor == eager.called.factor
    module.called.factor = eager.called.factor = 9
    assert torch.equal(scripted(torch.ones(2)), eager(torch.ones(2)))


def where(x: Tensor, n: Tensor):
    return (torch.relu(x) * 2 + 1) * torch.where(x > 0)[0].sum()


def repeated(x: Tensor, n: Tensor):
    return torch.relu(x) * 2 + torch.repeat_interleave(x[0], n).sum()


def correlated(x: Tensor, n: Tensor):
    return torch.relu(x) * 2 + torch.cov(x).sum()


def sparse(x: Tensor, n: Tensor):
    return torch.relu(x) * 2 + x.to_sparse().to_dense()


@pytest.mark.parametrize("function", [where, repeated, correlated, sparse])
@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.filterwarnings("ignore")
def test_results_whose_form_is_known_only_by_running_are_no_error(function, trains):
    scripted = jit.script(function)
    for size in (3, 3, 4, 5, 5, 6):
        torch.manual_seed(size)
        x, n = torch.randn(size, size).requires_grad_(trains), torch.arange(size)
        torch.testing.assert_close(scripted(x, n), function(x, n))


def test_a_region_without_forms_is_counted_once():
    scripted = jit.script(correlated)
    with config.patch(script_smallest_region=1), stages.collect(texts=False) as log:
        for _ in range(5):
            scripted(torch.ones(3, 3).requires_grad_(), torch.arange(3))
    assert log.counts["script_regions_without_form"] == 1


def mismatched(x: Tensor, y: Tensor):
    return torch.relu(x * 2) + y


def test_an_error_of_the_program_leaves_its_region_compiled():
    scripted = jit.script(mismatched)
    with stages.collect(texts=False) as log:
        for _ in range(3):
            scripted(torch.ones(3), torch.ones(3))
        with pytest.raises(RuntimeError):
            scripted(torch.ones(3), torch.ones(4))
        assert scripted(torch.ones(3), torch.ones(3)).tolist() == [3, 3, 3]
    assert log.counts["script_regions"] and not log.counts["script_regions_without_form"]


def spectrum(x: Tensor):
    return torch.stft(x, 4, return_complex=True)


def spectrum_of_a_method(x: Tensor):
    return x.stft(4, 2, return_complex=True)


def runs(x: Tensor):
    return torch.unique_consecutive(x > 0)


def runs_and_counts(x: Tensor):
    return torch.unique_consecutive(x > 0, return_counts=True)


def runs_of_a_method(x: Tensor):
    return (x > 0).unique_consecutive()


def distinct(x: Tensor):
    return x.unique(), (x > 0).unique(return_inverse=True)


@pytest.mark.parametrize(
    "function", [spectrum, spectrum_of_a_method, runs, runs_and_counts, runs_of_a_method, distinct]
)
@pytest.mark.filterwarnings("ignore")
def test_functions_that_do_more_than_their_operator_are_compiled(function):
    x, scripted = torch.tensor([1.0, 2, -1, -2, 3, 4, 4, 5]), jit.script(function)
    for _ in range(3):
        assert_same(scripted(x), function(x))
