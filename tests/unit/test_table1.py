"""Table 1 must not flatter anybody: what is wrong, breaks or crashes is counted."""

import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("transformers")

from benchmarks import table1
from benchmarks.zoo import check
from benchmarks.zoo.captures import CAPTURES
from benchmarks.zoo.programs import MODULE, Program


class Breaking(torch.nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        return y * 2 if y.sum() > -1e9 else y


def program(cls, name="linear"):
    draw = lambda model: ((torch.randn(2, 4),), {})  # noqa: E731
    return Program(name, MODULE, lambda: cls(4, 3), draw)


def test_one_graph_and_a_break_are_told_apart():
    whole = check.check(program(torch.nn.Linear), "minitorch2", "eager")
    assert (whole.works, whole.calls, whole.breaks, whole.captured) == (True, 1, 0, 1.0)
    broken = check.check(program(Breaking), "minitorch2", "eager")
    assert (broken.works, broken.calls, broken.breaks) == (True, 2, 1)
    assert "data-dependent-branch" in broken.reasons[0]


def test_operators_outside_graphs_are_counted():
    outcome = check.check(program(Breaking), "torch.compile", "eager")
    assert outcome.works
    assert outcome.breaks >= 1
    assert 0 < outcome.captured < 1 or outcome.calls == 2


def test_a_wrong_result_is_found(monkeypatch):
    from contextlib import contextmanager

    @contextmanager
    def wrong(program, model, report):
        yield lambda x: model(x) * 1.01

    monkeypatch.setitem(CAPTURES, "wrong", wrong)
    outcome = check.check(program(torch.nn.Linear), "wrong", "eager")
    assert outcome.wrong
    assert outcome.error.startswith("output")
    assert outcome.captured == 0.0


@pytest.mark.slow
def test_a_crash_costs_one_program_and_the_rest_go_on(monkeypatch):
    monkeypatch.setattr(table1, "PROGRAMS_A_PROCESS", 2)
    programs = [program(torch.nn.Linear, name) for name in ("ReLU", "no such program", "Tanh")]
    found = list(table1.outcomes(programs, "minitorch2", "eager"))
    assert [each.program for each in found] == ["ReLU", "no such program", "Tanh"]
    assert [each.works for each in found] == [True, False, True]
    assert found[1].error == "the process ended"


def test_results_are_kept_and_summed_up(tmp_path):
    found = [
        check.Outcome("a", MODULE, "minitorch2", operators=10),
        check.Outcome("b", MODULE, "minitorch2", operators=10, outside=5, breaks=12, calls=3),
        check.Outcome("c", MODULE, "minitorch2", error="differs", wrong=True),
    ]
    table1.save(tmp_path / "table1.json", found)
    assert list(table1.load(tmp_path / "table1.json").values()) == found
    rows = {name: str(value(found)) for name, value in table1.ROWS.items()}
    assert rows["works"] == "2 (67%)"
    assert rows["wrong results"] == "1"
    assert rows["operators captured"] == "50.0%"
    assert rows["10 or more breaks"] == "1 (33%)"
