"""Rules of the LazyTensor paper that no other test of this folder shows alone."""

import copy
from contextlib import nullcontext
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.lazy import Segments
from minitorch2 import lazy
from minitorch2.testing import assert_same

pytestmark = pytest.mark.usefixtures("empty_trie", "quick")
OTHERS = [
    "meta",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]


def steps():
    return lazy.metrics().counts.interpreted + lazy.metrics().counts.ran


@pytest.mark.parametrize("device", OTHERS)
def test_devices_are_not_mixed_and_results_stay_on_theirs(device):
    """Section 4.1: no transfer is implicit; the error is eager mode's, at the call."""
    here, there = torch.ones(2, 2), torch.ones(2, 2, device=device)
    with pytest.raises(RuntimeError) as wanted:
        here + there
    for _ in range(3):
        with lazy.lazily():
            doubled = here * 2
            with pytest.raises(RuntimeError) as given:
                doubled + there
            assert (there * 2).device == there.device and doubled.device == here.device
        assert str(given.value) == str(wanted.value)
        assert_same(lazy.to_eager(doubled), here * 2)


def test_a_barrier_behind_each_step_of_an_optimizer_makes_one_step_of_all():
    """Section 4.3: forward, backward and update are one step if `optimizer.step` ends it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    plain, x = copy.deepcopy(model), torch.randn(5, 4)
    lazy.to_lazy(model)

    def train(trained):
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        counted = []
        for _ in range(4):
            optimizer.zero_grad()
            trained(x).square().mean().backward()
            before = steps()
            optimizer.step()
            counted.append((before, steps()))
        return counted

    train(plain)
    hook = register_optimizer_step_post_hook(lambda *_: lazy.mark_step())
    try:
        counted = train(model)
    finally:
        hook.remove()
    assert [after - before for before, after in counted][1:] == [1, 1, 1]
    assert all(after == before for (_, after), (before, _) in pairwise(counted[1:]))
    torch.testing.assert_close(
        [lazy.to_eager(p.detach()) for p in model.parameters()],
        [p.detach() for p in plain.parameters()],
    )


def test_a_waiting_barrier_leaves_nothing_pending():
    """Section 4: `mark_step` dispatches the step, and can wait for its values."""
    x = torch.ones(3)
    for wait in (False, True):
        with lazy.lazily():
            kept = x + 1
            before = steps()
            lazy.mark_step(wait=wait)
            ran = steps()
            assert kept.tolist() == [2, 2, 2]
            assert (before + 1, steps()) == (ran, ran)
    assert next(iter(lazy.metrics().counts.barriers))[0] == "mark_step"


def test_operators_that_give_other_values_than_tensors_end_the_step():
    """Section 3: what gives tensors is recorded; what gives numbers, truth or text is a look."""
    x = torch.arange(4.0)
    looks = [
        lambda y: y.sum().item(), lambda y: bool(y[0] == 0), lambda y: torch.equal(y, y),
        lambda y: y.tolist(), str, lambda y: y.numpy().sum(), lambda y: torch.allclose(y, y + 1),
    ]  # fmt: skip
    for look in looks:
        for _ in range(2):
            with lazy.lazily():
                y = x * 2
                before = steps()
                assert y.shape == (4,) and y.dtype is x.dtype and steps() == before
                assert look(y) == look(x * 2)
                assert steps() > before


def test_a_call_returns_before_its_operators_run_and_a_look_waits():
    """Section 2.2: only a look at the contents waits for them."""
    layer, x = nn.Linear(4, 4), torch.ones(2, 4)
    for _ in range(2):
        with lazy.lazily():
            y = layer(x)
            before = steps()
            y = layer(y).relu()
            assert steps() == before
            y.detach().sum().item()
            assert steps() == before + 1


def test_the_model_of_words_has_eager_scores_and_gradients_and_a_program_for_a_length():
    """Table 4: the host's loops build another step for each length, and one that comes again."""
    sentences = [torch.arange(length) for length in (3, 4, 3, 4, 3, 4)]
    compiled = []
    for sentence in sentences:
        results = []
        for region in (nullcontext, lazy.lazily):
            torch.manual_seed(0)
            model = Segments()
            with region():
                score = model(sentence)
                score.backward()
            gradient = model.next.weight.grad
            results.append([lazy.to_eager(score.detach()), lazy.to_eager(gradient)])
        assert_same(*results, tolerance=1e-5)
        compiled.append(lazy.metrics().compiled)
    assert compiled[-1] == compiled[-2] == 2
