"""Grad modes and `autocast` in files: ours run in torch.jit, and torch.jit's run here."""

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from minitorch2 import jit
from minitorch2.errors import ArchiveError
from minitorch2.script.archive.read_code import read_code

CALLS = 3
"""The first call is watched, the others run the plan."""


def without_gradient(x: Tensor):
    with torch.no_grad():
        y = x * 2
    return y, y + x


def switched(x: Tensor):
    with torch.set_grad_enabled(False):
        y = x * 2
        with torch.enable_grad():
            z = x * 3
    return y, z, x + y


def switched_by_an_argument(x: Tensor, on: bool = False):
    with torch.set_grad_enabled(on):
        y = x * 2
    return y, x * 4


def for_inference(x: Tensor):
    with torch.inference_mode():
        y = x * 2
    with torch.inference_mode(False):
        z = x * 3
    return y, z


def cast(x: Tensor):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ x
        with torch.autocast(device_type="cpu", enabled=False):
            z = x @ x
    return y, z, x @ x


def cast_with_defaults(x: Tensor):
    with torch.amp.autocast("cpu"):
        y = x @ x
    return y, x


def returned_from(x: Tensor, large: bool = True):
    with torch.no_grad():
        y = x * 2
        if large:
            return y, x
        y = y + x
    return y, x * 2


def left_in_a_loop(x: Tensor):
    y = x
    for step in range(5):
        with torch.no_grad():
            if step == 1:
                continue
            y = y * x
            if step == 3:
                break
        y = y + x
    return y, x


def empty(x: Tensor):
    with torch.no_grad():
        pass
    return x * 2, x


@torch.no_grad()
def decorated(x: Tensor):
    return x * 2, x + 1


@torch.autocast("cpu", dtype=torch.bfloat16)
def decorated_by_a_cast(x: Tensor):
    return x @ x, x


OURS_ONLY = [
    switched,
    switched_by_an_argument,
    for_inference,
    returned_from,
    left_in_a_loop,
    decorated,
    decorated_by_a_cast,
]
"""torch.jit refuses them, or leaves the decorator out."""
BOTH = [without_gradient, cast, cast_with_defaults, empty]


def facts(function, *, knows_inference: bool = True):
    """Return what eager mode, a script and a file must agree on, for an input with a gradient."""
    x = torch.arange(4.0).reshape(2, 2).requires_grad_()
    results = function(x)
    flags = [(r.requires_grad, r.dtype, knows_inference and r.is_inference()) for r in results]
    values = [r.detach().float().tolist() for r in results]
    kept = [r for r in results if r.requires_grad]
    gradient = torch.autograd.grad(sum(r.sum() for r in kept), x)[0].tolist() if kept else None
    return flags, values, gradient, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")


def saved(save, function):
    file = io.BytesIO()
    save(function, file)
    return io.BytesIO(file.getvalue())


@pytest.mark.parametrize("function", [*BOTH, *OURS_ONLY])
def test_modes_of_our_files_mean_the_same_here_and_in_torch_jit(function):
    scripted = jit.script(function)
    file = saved(jit.save, scripted)
    ours = jit.load(file)
    file.seek(0)
    theirs = torch.jit.load(file)
    again = read_code(scripted.code)
    for _ in range(CALLS):
        for way in (scripted, ours, again):
            assert facts(way) == facts(function)
        assert facts(theirs) == facts(function, knows_inference=False)


@pytest.mark.parametrize("function", BOTH)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_modes_of_torch_jits_files_mean_the_same_here(function):
    loaded = jit.load(saved(torch.jit.save, torch.jit.script(function)))
    for _ in range(CALLS):
        assert facts(loaded) == facts(function)
    twice = jit.load(saved(jit.save, loaded))
    assert facts(twice) == facts(function)


def cast_on_the_cpu(x: Tensor):
    with torch.cpu.amp.autocast():
        y = x @ x
    return y, x


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_older_class_of_casts_is_written_as_the_newer_one():
    expected = facts(cast_on_the_cpu)
    for api in (jit, torch.jit):
        file = saved(api.save, api.script(cast_on_the_cpu))
        for load in (jit.load, torch.jit.load):
            file.seek(0)
            assert facts(load(file)) == expected


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 2)
        self.head = nn.Linear(2, 2)

    def forward(self, x: Tensor):
        with torch.no_grad():
            features = self.body(x)
        return features, self.head(features)


def test_a_module_with_a_frozen_part_is_saved_with_its_mode():
    model = Frozen()
    for write, script in ((jit.save, jit.script), (torch.jit.save, torch.jit.script)):
        file = saved(write, script(model))
        for load in (jit.load, torch.jit.load):
            file.seek(0)
            found = load(file)
            for _ in range(CALLS):
                features, result = found(torch.ones(2, 2))
                assert not features.requires_grad and result.requires_grad
                torch.testing.assert_close(result, model(torch.ones(2, 2))[1])


def failing(x: Tensor):
    with torch.no_grad():
        assert bool(x.sum() > 100), "small"
    return x, x


@pytest.mark.parametrize("load", [jit.load])
def test_an_error_inside_of_a_loaded_mode_ends_the_mode(load):
    loaded = load(saved(jit.save, jit.script(failing)))
    for _ in range(CALLS):
        with pytest.raises(AssertionError):
            loaded(torch.ones(2, 2))
        assert torch.is_grad_enabled()


def test_a_traced_grad_mode_is_saved():
    x = torch.ones(2, 2)
    traced = jit.trace(without_gradient, (x,))
    file = saved(jit.save, traced)
    for load in (jit.load, torch.jit.load):
        file.seek(0)
        loaded = load(file)
        for _ in range(CALLS):
            assert facts(loaded)[:3] == facts(without_gradient)[:3]


@jit.script
class Counted:
    def __init__(self) -> None:
        self.depth = 0

    def __enter__(self) -> int:
        self.depth += 1
        return self.depth

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.depth -= 1


def counts(x: Tensor):
    counted = Counted()
    with counted:
        y = x * counted.depth
    return y, x + counted.depth


def test_a_context_of_the_users_own_class_is_saved():
    file = saved(jit.save, jit.script(counts))
    for load in (jit.load, torch.jit.load):
        file.seek(0)
        assert facts(load(file)) == facts(counts)


def chosen(x: Tensor, on: bool = True):
    mode = torch.enable_grad() if on else torch.no_grad()
    with mode:
        y = x * 2
    return y, x


def test_a_context_that_is_chosen_while_running_is_refused_by_name():
    scripted = jit.script(chosen)
    assert facts(scripted) == facts(chosen)
    with pytest.raises(ArchiveError, match="known only when the code runs"):
        saved(jit.save, scripted)
