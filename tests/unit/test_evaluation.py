"""The evaluation: rows are measured, kept, and make tables."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from benchmarks.cases import Case
from benchmarks.compilers import OURS, PEER
from benchmarks.evaluate import page, run, tables, worker
from benchmarks.evaluate.rows import Found, Question, Row, append, load, write_csv
from benchmarks.evaluate.worker import in_dtype
from benchmarks.peers import ONNX_RUNTIME, OPENVINO

WORKS = Row(
    Question("models", "net, inference", OURS),
    Found(seconds=1.0, eager_seconds=3.0, cold_seconds=2.0, warm_seconds=1.0, repeats=9),
)
FAILS = Row(replace(WORKS.question, backend=PEER), Found(failure="no result in 1 s"))
ASKED = ["--suite", "models", "--only", "perceptron, inference", "--backend", OURS]
ASKED += ["--repeats", "3", "--seconds", "1"]


@pytest.mark.slow
def test_a_row_is_measured_once_and_kept(tmp_path: Path) -> None:
    console = Console(width=200, record=True)
    arguments = [*ASKED, "--output", str(tmp_path)]
    assert run.run(arguments, console) == 0
    (row,) = load(tmp_path / "rows.jsonl")
    assert row.speedup > 0 and row.found.graphs == 1
    assert row.found.cold_seconds > 0 and row.found.warm_seconds > 0
    run.run(arguments, console)
    assert "1 rows, 0 to be measured" in console.export_text()
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 2
    assert (tmp_path / "figure4.svg").read_text().startswith("<svg")


def test_a_row_that_takes_too_long_counts_as_no_speedup(tmp_path: Path) -> None:
    arguments = [*ASKED, "--output", str(tmp_path), "--limit", "0.01"]
    assert run.run(arguments, Console(quiet=True)) == 0
    (row,) = load(tmp_path / "rows.jsonl")
    assert row.speedup == 0 and row.found.failure == "no result in 0 s"


def test_what_a_peer_does_not_take_is_a_row_that_is_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Question] = []

    def worker(question: Question, *_: object) -> Found:
        ran.append(question)
        return WORKS.found

    monkeypatch.setattr(run, "in_process", worker)
    monkeypatch.setattr(run, "is_installed", lambda name: True)
    asked = ["--suite", "models", "--only", "perceptron", "--output", str(tmp_path)]
    asked += ["--backend", OPENVINO, "--backend", ONNX_RUNTIME]
    for dtype in ("--float32", "--bfloat16", "--amp"):
        assert run.run([*asked, dtype], console := Console(width=200, record=True)) == 0
    found = {(r.question.backend, r.question.mode, r.question.dtype): r.found.offered
             for r in load(tmp_path / "rows.jsonl")}  # fmt: skip
    offered = {
        (OPENVINO, "inference", "float32"),
        (ONNX_RUNTIME, "inference", "float32"),
        (ONNX_RUNTIME, "training", "float32"),
    }
    assert len(found) == 12 and {key for key, is_offered in found.items() if is_offered} == offered
    assert {(q.backend, q.mode, q.dtype) for q in ran} == offered
    assert "perceptron, inference: OpenVINO: not offered" in console.export_text()


def test_a_backend_that_is_not_installed_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "is_installed", lambda name: False)
    with pytest.raises(SystemExit, match="TVM: pip install apache-tvm"):
        run.run(["--backend", "TVM", "--output", str(tmp_path / "rows")], Console(quiet=True))
    assert not (tmp_path / "rows").exists()


def test_a_row_that_is_not_offered_is_no_failure() -> None:
    refused = Row(replace(WORKS.question, backend=OPENVINO), Found(offered=False))
    grids = tables.shown([WORKS, refused])
    assert grids["failures"].rows == []
    assert grids["speedups"].rows[0][-2:] == ("1/1 3.00x", "not offered")
    assert not tables.figure4([WORKS, refused])  # no case that both were measured on


def test_an_unfinished_line_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append(path, WORKS)
    path.write_text(path.read_text() + '{"question": {"sui')
    append(path, FAILS)
    assert load(path) == [WORKS, FAILS]


def test_a_training_step_is_compared_after_as_many_steps_as_eagers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first call was the backend's alone, so its loss was that of the next step."""

    def steep() -> Callable[[Tensor], Tensor]:
        weight = torch.ones(4)

        def step(x: Tensor) -> Tensor:
            weight.sub_(0.1 * x.abs())
            return weight.sum()

        return step

    case = Case("steep, training step", steep, lambda: (torch.randn(4),))
    monkeypatch.setattr(worker, "cases_of", lambda suite: [case])
    found = worker.measure(Question("models", case.name, OURS, repeats=2, seconds=0.01))
    assert not found.failure and found.seconds > 0


def test_shards_share_the_cases() -> None:
    def asked(shard: str) -> list[Question]:
        flags = ["--suite", "models", "--backend", OURS, "--output", "x", "--shard", shard]
        return list(run.questions(run.parser().parse_args(flags)))

    assert {*asked("0/2"), *asked("1/2")} == {*asked("0/1")}
    assert not {*asked("0/2")} & {*asked("1/2")}


def test_a_failure_is_a_speedup_of_zero(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", [WORKS, FAILS])
    _, works, fails = (tmp_path / "rows.csv").read_text().splitlines()
    assert works.split(",")[10] == "3.0" and fails.split(",")[10] == "0.0"


def test_tables_count_what_works_and_name_what_does_not() -> None:
    console = Console(width=200, record=True)
    other = replace(WORKS.question, case="other, inference")
    both = [Row(replace(other, backend=name), WORKS.found) for name in (OURS, PEER)]
    grids = tables.shown([WORKS, FAILS, *both]).values()
    console.print(*(grid.printed() for grid in grids))
    text = console.export_text()
    assert "2/2 3.00x" in text and "1/2 3.00x" in text
    assert "2.00 / 1.00" in text and "no result in 1 s" in text


def test_the_figure_shows_a_failure_at_the_end_of_its_axis() -> None:
    assert PEER in tables.figure4([WORKS, FAILS])["figure4.svg"]


def test_means_count_only_what_all_backends_of_a_device_ran_right() -> None:
    """A backend is not flattered by models on which the others fail, or were not measured."""
    alone = replace(WORKS.question, case="alone, inference")
    fast = Row(alone, replace(WORKS.found, seconds=0.01))
    peer = Row(FAILS.question, WORKS.found)
    broken = Row(replace(alone, backend=PEER), Found(failure="wrong results"))
    elsewhere = Row(replace(alone, backend="other", device="cuda"), WORKS.found)
    for others in ([broken], [broken, elsewhere], []):
        grids = tables.shown([WORKS, peer, fast, *others])
        (line, *_) = grids["speedups"].rows
        assert line[4:6] == ("1", "2/2 3.00x")
        lines = {title: cells for title, *cells in grids["models on cpu, float32"].rows}
        assert lines["*geometric mean of 1*"] == ["3.00x", "3.00x"]
        wanted = "wrong results" if others else "not measured"
        assert lines["alone, inference"] == ["3000 → 10, 300.00x", wanted]


def test_the_page_is_what_the_stored_rows_say() -> None:
    assert page.main(["--check"]) == 0, "run `python -m benchmarks.evaluate.page`"


def test_a_page_that_is_not_what_the_rows_say_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.PAGE.read_text()
    monkeypatch.setattr(page, "PAGE", tmp_path / "evaluation.md")
    page.PAGE.write_text(text.replace("*geometric mean of", "*geometric mean over"))
    assert page.main(["--check"]) == 1
    assert page.main([]) == 0 and page.main(["--check"]) == 0
    assert page.PAGE.read_text() == text


def test_stored_conditions_are_whole_and_tell_no_paths() -> None:
    stored = json.loads((page.STORED / "conditions.json").read_text())
    rows = load(page.STORED / "rows.jsonl")
    assert stored.keys() == {row.question.device for row in rows} | {"peers"}
    wanted = {"title", "command", "date", "machine", "versions", "load", "commit", "note"}
    assert all(each.keys() == wanted and all(each.values()) for each in stored.values())
    assert len({row.question.key for row in rows}) == len(rows)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_parameters_and_inputs_have_the_dtype(dtype: str) -> None:
    case = Case("net", lambda: nn.Linear(2, 2), lambda: (torch.randn(3, 2),))
    changed = in_dtype(case, dtype, "cpu")
    (x,) = changed.inputs()
    assert x.dtype == changed.make()(x).dtype == getattr(torch, dtype)


def test_amp_computes_products_in_16_bits() -> None:
    case = Case("net", lambda: nn.Linear(2, 2), lambda: (torch.randn(3, 2),))
    changed = in_dtype(case, "amp", "cpu")
    assert changed.make()(*changed.inputs()).dtype == torch.bfloat16
