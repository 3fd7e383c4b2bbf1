"""The command line: options, exit status, messages."""

import builtins
import io
import json
import subprocess
import sys

import pytest

from minitorch2 import __main__ as program
from minitorch2 import stages
from minitorch2.demo import command, doctor, first_result, report, workloads
from minitorch2.demo.first_result import FirstResult
from minitorch2.native.table import Row


def test_options():
    options = command.parse(["--quick", "--peer", "--stages", "here"])
    assert options.compilers == ["eager", "minitorch2", "torch.compile"]
    assert options.steps == 40
    assert str(options.stages) == "here"
    assert command.parse([]).compilers == ["eager", "minitorch2"]
    assert command.parse(["--quick", "--steps", "5"]).steps == 5


@pytest.mark.parametrize(
    ("embeddings", "losses", "status"),
    [(True, True, 0), (False, True, 1), (True, False, 1)],
)
def test_status_tells_whether_all_agree(monkeypatch, tmp_path, embeddings, losses, status):
    monkeypatch.setattr(command, "show_embeddings", lambda console: embeddings)
    monkeypatch.setattr(command, "show_training", lambda console, options: ([], losses))
    monkeypatch.setattr(command, "show_figures", lambda console, options, steps: [])
    assert command.main(["--output", str(tmp_path)]) == status


def test_training_writes_a_picture(monkeypatch, tmp_path):
    monkeypatch.setitem(workloads.COMPILERS, "minitorch2", lambda model: model)
    options = command.parse(["--steps", "2", "--output", str(tmp_path)])
    steps, agree = command.show_training(command.Console(quiet=True), options)
    assert agree
    assert len(steps) == 2
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_first_result_measures_and_counts(monkeypatch):
    def compiler(model):
        stages.count("graphs")
        return model

    monkeypatch.setitem(workloads.COMPILERS, "minitorch2", compiler)
    found = first_result.measure("gpt", "minitorch2")
    assert found.seconds > 0
    assert found.counts == {"graphs": 1}


def test_a_failing_process_shows_its_error():
    with pytest.raises(RuntimeError, match="invalid choice: 'nothing'"):
        list(first_result.first_results("nothing", "eager"))


def test_figures_table_shows_ratio_and_kernels():
    console = command.Console(width=120, record=True, file=io.StringIO())
    cold = FirstResult(2.5, {"graphs": 1, "kernels": 30, "kernels_before_fusion": 210}, {})
    rows = [report.Row("encoder", "minitorch2", cold, cold, seconds=0.05, eager_seconds=0.1)]
    console.print(report.figures_table(rows))
    text = console.export_text()
    for expected in ("encoder", "2.50", "50.0", "2.00x", "210 -> 30"):
        assert expected in text


@pytest.mark.parametrize("package", ["rich", "transformers", "matplotlib"])
def test_a_missing_package_is_one_clear_line(monkeypatch, capsys, package):
    real = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(name, *rest)

    for module in [m for m in sys.modules if m.startswith("minitorch2.demo.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delattr("minitorch2.demo.command")
    assert program.main(["demo"]) == 2
    message = capsys.readouterr().err
    assert message == f"the demo needs {package}: pip install 'minitorch2[demo]'\n"


def test_unknown_command_lists_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        program.main(["nothing"])
    assert "demo" in capsys.readouterr().err


def test_doctor_finds_this_installation(capsys):
    assert program.main(["doctor"]) == 0
    text = capsys.readouterr().out
    for expected in ("torch", "numba", "backends:", "default here"):
        assert expected in text


def test_commands_print_json(capsys):
    def data(*arguments):
        assert program.main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert data("doctor")["packages"]["torch"]
    assert all(row["missing"] is None for row in data("doctor")["private"] if row["needed"])
    assert {"folder", "entries", "bytes"} <= data("cache", "info").keys()
    assert data("why", "data-dependent-branch")["data-dependent-branch"]["remedy"]
    assert len(data("why")) > 50
    assert program.main(["why", "nothing", "--json"]) == 1


@pytest.mark.parametrize("needed", [False, True])
def test_doctor_tries_the_private_things_of_other_projects(needed, monkeypatch, capsys):
    row = Row("a frame's stack", "CPython", "capture", "cpython:gone", "nothing works", needed)
    monkeypatch.setattr(doctor, "TABLE", [row])
    assert doctor.main([]) == needed
    (line,) = (x for x in capsys.readouterr().out.splitlines() if "a frame's stack" in x)
    assert ("MISSING" if needed else "missing") + ": nothing works (AttributeError" in line


def test_doctor_without_torch(monkeypatch, capsys):
    real = doctor.installed
    monkeypatch.setattr(doctor, "installed", lambda p: None if p == "torch" else real(p))
    assert doctor.main([]) == 1
    assert "torch                MISSING" in capsys.readouterr().out


def test_example_runs_as_a_script():
    script = workloads.examples_folder() / "gpt.py"
    done = subprocess.run(
        [sys.executable, script, "--steps", "1", "--batch", "2", "--sample", "5"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("step    0  loss 4.")
