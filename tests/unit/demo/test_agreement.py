"""The demo must notice when eager and compiled disagree."""

import math

import pytest
import torch

from minitorch2.demo import agreement, workloads
from minitorch2.demo.agreement import TrainingStep, compare, curves_agree


def rows(*numbers: list[float]) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.tensor(numbers), dim=1)


EAGER = rows([1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9])


def test_equal_embeddings_agree():
    found = compare(EAGER, EAGER.clone(), (4, 7))
    assert (found.holds, found.absolute, found.same_neighbours) == (True, 0.0, 4)


def test_a_small_error_is_found():
    wrong = EAGER.clone()
    wrong[2, 0] += 1e-3
    found = compare(EAGER, wrong, (4, 7))
    assert not found.holds
    assert found.absolute == pytest.approx(1e-3, rel=1e-4)
    assert found.relative == pytest.approx(1e-3, rel=1e-4)


def test_other_neighbours_are_found():
    found = compare(EAGER, EAGER[[0, 2, 1, 3]], (4, 7))
    assert found.same_neighbours < 4
    assert not found.holds


def test_nan_is_found():
    assert not compare(EAGER, EAGER * math.nan, (4, 7)).holds


def steps(*losses: tuple[float, float]) -> list[TrainingStep]:
    return [TrainingStep({"eager": a, "minitorch2": b}, {}) for a, b in losses]


@pytest.mark.parametrize(
    ("curve", "agree"),
    [
        (steps((4.0, 4.0), (3.0, 3.0)), True),
        (steps((4.0, 4.00001), (3.0, 3.001)), True),
        (steps((4.0, 4.01), (3.0, 3.0)), False),
        (steps((4.0, 4.0), (3.0, 3.02), (2.0, 2.0)), False),
        (steps((4.0, 4.0), (3.0, math.nan), (2.0, 2.0)), False),
    ],
)
def test_curves(curve, agree):
    assert curves_agree(curve) is agree


class Off(torch.nn.Module):
    """A model whose compiled form is slightly wrong."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        result = self.model(*inputs)
        return (result[0], result[1] * 1.001) if isinstance(result, tuple) else result * 1.001


def test_a_wrong_compiler_fails_the_embeddings(monkeypatch):
    monkeypatch.setitem(workloads.COMPILERS, "minitorch2", Off)
    found = [agreement for agreement, _ in agreement.embedding_agreements()]
    assert not any(each.holds for each in found)
    assert len({each.shape for each in found}) >= 3


def test_a_right_compiler_passes_and_neighbours_share_a_topic(monkeypatch):
    monkeypatch.setitem(workloads.COMPILERS, "minitorch2", lambda model: model)
    found = list(agreement.embedding_agreements())
    assert all(each.holds for each, _ in found)
    neighbours = {n.sentence: n.compiled for n in found[0][1]}
    nearest = neighbours["Roses should be pruned when the forsythia blooms."]
    assert nearest == "Plant the bulbs in autumn, a hand's width deep."


def test_a_wrong_compiler_fails_the_curves(monkeypatch):
    monkeypatch.setitem(workloads.COMPILERS, "minitorch2", Off)
    assert not curves_agree(list(agreement.training_steps(["eager", "minitorch2"], 2)))


def test_training_is_the_same_for_both_dropout_included(monkeypatch):
    monkeypatch.setitem(workloads.COMPILERS, "minitorch2", lambda model: model)
    found = list(agreement.training_steps(["eager", "minitorch2"], 3))
    assert [s.losses["eager"] for s in found] == [s.losses["minitorch2"] for s in found]
