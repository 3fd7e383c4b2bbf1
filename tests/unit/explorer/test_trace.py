"""The trace of a job: lines of JSON, read back, summed up and shown."""

import json
import os
import re

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.__main__ import main
from minitorch2.backends.graph_cache import bypass
from minitorch2.errors import ConfigError, MinitorchWarning
from minitorch2.explorer import trace
from minitorch2.explorer.job import chrome_trace, read_job
from minitorch2.explorer.page import page_of
from minitorch2.explorer.store import VERSION
from minitorch2.explorer.summary import break_costs, summary_data, summary_lines


def broken(x):
    x = x + 1
    if x.sum() > 0:
        x = x * 2
    return x.mean()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Trace what a test compiles into a folder."""
    monkeypatch.setenv(config.TRACE_VARIABLE, str(tmp_path))
    yield tmp_path
    trace.end()


def test_breaks_recompiles_and_phases_are_data(folder):
    f = minitorch2.compile(broken, backend="eager", dynamic=False)
    f(torch.ones(3))
    f(torch.ones(4))
    trace.end()
    job = read_job(folder)
    data = summary_data(job)
    assert data["compilations"] == 4 and data["counts"]["graphs"] == 4
    (cost,) = break_costs(job)
    assert (cost.times, cost.found.code, cost.before, cost.behind) == (
        2, "data-dependent-branch", 6, 4,
    )  # fmt: skip
    assert cost.seconds > 0
    recompile = data["recompiles"][0]
    assert (recompile["what"], recompile["expected"]) == ("sizes", "(3,)")
    assert "4" in recompile["actual"] and recompile["line"].endswith(
        f":{broken.__code__.co_firstlineno + 3}"
    )
    assert sum(data["seconds"].values()) == pytest.approx(
        sum(p["seconds"] for p in job.processes[0].of("phase") if p["name"] == "other"), rel=0.05
    )
    text = "\n".join(summary_lines(job))
    assert "2x " in text and "operators: 6 before, 4 behind" in text


def test_lines_have_a_kind_and_the_first_a_version(folder):
    minitorch2.compile(broken, backend="eager")(torch.ones(3))
    trace.end()
    (file,) = folder.glob("trace_*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0]["kind"] == "process" and lines[0]["version"] == VERSION
    assert {line["kind"] for line in lines[1:]} == {"phase", "compilation", "counts"}
    assert all("id" in line for line in lines[1:])


def test_a_trace_keeps_caches_at_work(folder):
    minitorch2.compile(broken, backend="eager")
    assert not stages.wanted("loopir.py") and not stages.wanted("joint graph.py")
    assert stages.wanted("captured_graph.py") and stages.watches() == ()


def test_functions_that_run_in_python_and_fallbacks_are_told(folder):
    def refuses(x):
        exec("y = x")
        return x + 1

    minitorch2.compile(refuses, backend="eager")(torch.ones(2))
    minitorch2.compile(lambda x: torch.linalg.eigvals(x), backend="numba")(torch.eye(3))
    trace.end()
    data = summary_data(read_job(folder))
    assert any("eig" in line["operator"] for line in data["fallbacks"])
    assert [line["function"].split(".")[-1] for line in data["as_is"]] == ["refuses"]


def test_a_function_that_reached_the_limit_runs_in_python_and_equal_causes_are_told_once(folder):
    with config.patch(recompile_limit=3):
        fast = minitorch2.compile(lambda x, keys: x + len(keys), backend="eager")
        with pytest.warns(MinitorchWarning, match="was compiled 3 times"):
            for count in range(6):
                fast(torch.ones(2), dict.fromkeys(range(count)))
    job = read_job(folder)
    (line,) = summary_data(job)["as_is"]
    assert line["code"] == "recompile-limit" and line["place"].startswith(__file__)
    text = "\n".join(summary_lines(job))
    assert "functions that run in Python: 1" in text and "compiled again: 2, by 1 reason\n" in text
    assert "3x " in text and "entries 0 to 2: DICT_KEYS keys" in text


def test_titles_count_events_and_their_lines_and_reasons(folder):
    f = minitorch2.compile(broken, backend="eager", dynamic=False)
    for size in (3, 4, 5):
        f(torch.ones(size))
    trace.end()
    titles = [line for line in summary_lines(read_job(folder)) if not line.startswith(" ")]
    assert "graph breaks: 3, by 1 line" in titles
    assert "compiled again: 4, by 1 reason" in titles


def test_what_one_process_compiles_again_names_it(folder):
    f = minitorch2.compile(broken, backend="eager", dynamic=False)
    f(torch.ones(3))
    f(torch.ones(4))
    trace.end()
    (file,) = folder.glob("trace_*.jsonl")
    again = '"kind":"recompile"'
    kept = [line for line in file.read_text().splitlines() if again not in line]
    others = "\n".join(kept).replace('"rank":-1', '"rank":1')
    (folder / "trace_other_1.jsonl").write_text(f"{others}\n")
    text = "\n".join(summary_lines(read_job(folder)))
    assert f", only in process {os.getpid()}\n" in text and ", only in rank 1" not in text


def test_continuations_of_several_processes_are_found(folder):
    minitorch2.compile(broken, backend="eager")(torch.ones(3))
    trace.end()
    (file,) = folder.glob("trace_*.jsonl")
    (folder / "trace_other_1.jsonl").write_text(file.read_text().replace('"rank":-1', '"rank":1'))
    compilations = read_job(folder).store().compilations
    rests = [each.resumes[0] for each in compilations.values() if each.resumes]
    assert len(rests) == 2 and all(compilations[each].breaks for each in rests)


def test_a_backward_graph_joins_its_compilation(folder):
    x = torch.ones(3, requires_grad=True)
    minitorch2.compile(lambda x: x.sin().sum(), backend="numba")(x).backward()
    trace.end()
    (compilation,) = read_job(folder).store().compilations.values()
    kinds = [pane.kind for pane in compilation.panes]
    assert kinds.count("wrapper forward") == kinds.count("wrapper backward") == 1
    assert compilation.function and compilation.seconds["lower"] > 0


def test_a_joint_graph_is_traced_with_its_cut(folder):
    def f(x, w):
        return (torch.relu(x @ w).sin() * 2).sum()

    x, w = torch.ones(4, 8), torch.ones(8, 3, requires_grad=True)
    minitorch2.compile(f, backend="numba", options={"cache": False})(x, w).backward()
    trace.end()
    (compilation,) = read_job(folder).store().compilations.values()
    joint = compilation.pane("joint")
    assert "values saved" in joint.drawing.cut and joint.title.startswith("joint graph: ")
    marks = {row.mark for row in joint.rows}
    assert {"saved", "backward"} <= marks
    made = [row for row in joint.rows if row.key and "sin" in row.text]
    assert made and made[0].origins[0].startswith(("graph:", "s"))
    assert "values saved" in page_of(read_job(folder).store())


def test_a_trace_takes_joint_graphs_of_graphs_that_the_cache_does_not_have(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(bypass, "EXTENSIONS", list[str]())  # other tests add rules

    def compile_once():
        x = torch.ones(5, requires_grad=True)
        minitorch2.compile(lambda x: x.sin().cos().sum(), backend="numba")(x).backward()

    with config.patch(cache_dir=str(tmp_path / "cache"), verify=False):
        compile_once()
        compile_once()
    trace.end()
    first, second = read_job(folder).store().compilations.values()
    assert first.pane("joint") is not None and second.pane("joint") is None
    counts = summary_data(read_job(folder))["counts"]
    assert counts.get("graphs_shared", 0) + counts.get("graphs_loaded", 0) >= 1
    assert not stages.wanted("joint graph.py")


def test_a_program_from_a_trace_names_the_lines_that_its_kernels_compute(folder):
    minitorch2.compile(lambda x: x.sin().cos(), backend="numba")(torch.ones(3))
    trace.end()
    (compilation,) = read_job(folder).store().compilations.values()
    (line,) = [row.key for row in compilation.pane("source").rows if "x.sin()" in row.text]
    made = [row.text for row in compilation.pane("wrapper forward").rows if line in row.origins]
    assert any("cos(" in text for text in made) and not any("def call" in text for text in made)


def test_a_line_cut_short_is_left_out_and_told(folder):
    minitorch2.compile(broken, backend="eager")(torch.ones(3))
    trace.end()
    (file,) = folder.glob("trace_*.jsonl")
    file.write_text(file.read_text()[:-20])
    job = read_job(folder)
    assert job.processes[0].damaged == 1
    assert any("1 damaged lines" in line for line in summary_lines(job))


def test_lines_of_another_form_are_left_out_and_told(tmp_path, capsys):
    (tmp_path / "trace_host_1.jsonl").write_text('{"x": 1}\n[1]\n{"kind": "process", "pid": 1}\n')
    assert main(["trace", str(tmp_path)]) == 0
    assert "2 damaged lines were left out" in capsys.readouterr().out


def test_a_later_version_is_refused(tmp_path):
    line = {"kind": "process", "version": VERSION + 1, "pid": 1}
    (tmp_path / "trace_host_1.jsonl").write_text(json.dumps(line))
    with pytest.raises(ConfigError, match=f"version {VERSION + 1}"):
        read_job(tmp_path)


def test_processes_and_ranks_are_told_apart(tmp_path):
    compilation = {
        "kind": "compilation", "id": "0/0", "function": "f", "place": "a.py:1", "panes": [],
        "breaks": [], "continuations": [], "resumes": None, "operators": 1, "seconds": {},
        "files": [],
    }  # fmt: skip
    for rank in (0, 1):
        facts = {"kind": "process", "version": VERSION, "pid": 10 + rank, "rank": rank}
        text = "\n".join(map(json.dumps, (facts, compilation)))
        (tmp_path / f"trace_host_{rank}.jsonl").write_text(text)
    assert [*read_job(tmp_path).store().compilations] == ["rank 0: 0/0", "rank 1: 0/0"]


def test_compilations_stand_behind_the_calls_that_led_to_them(folder):
    compiled = minitorch2.compile(broken, backend="eager", dynamic=False)

    def inner(size):
        return compiled(torch.ones(size))

    def outer():
        inner(3)
        return torch.nn.Identity()(inner(4))

    outer()
    compiled(torch.ones(5))
    trace.end()
    lines = list(summary_lines(read_job(folder)))
    tree = lines[lines.index("calls that compiled:") :]
    here = next(i for i, line in enumerate(tree) if line.endswith(f" in {CALLER}"))
    depth = tree[here].index(tree[here].strip())
    below = [line[depth:] for line in tree[here:]]
    names = [re.sub(r"\S*:[0-9]+|[0-9.]+ s", "_", line) for line in below]
    assert names == [
        f"_ in {CALLER}",
        f"  _ in {CALLER}.<locals>.outer",
        f"    _ in {CALLER}.<locals>.inner",
        "      broken at _: 2 compilations in _, 1 with a graph break",
        f"  _ in {CALLER}.<locals>.outer",
        f"    _ in {CALLER}.<locals>.inner",
        "      broken at _: 2 compilations in _, 1 with a graph break",
        f"_ in {CALLER}",
        "  broken at _: 2 compilations in _, 1 with a graph break",
    ]
    assert json.loads(json.dumps(summary_data(read_job(folder))))["calls"]["inner"]


CALLER = "test_compilations_stand_behind_the_calls_that_led_to_them"


def test_chrome_trace_nests_phases(folder):
    minitorch2.compile(broken, backend="eager")(torch.ones(3))
    trace.end()
    events = chrome_trace(read_job(folder))["traceEvents"]
    whole = next(e for e in events if e["name"] == "compile")
    inner = [e for e in events if e["name"] == "capture" and e["args"] == whole["args"] | e["args"]]
    assert whole["ph"] == "X" and whole["dur"] > 0
    assert whole["ts"] <= inner[0]["ts"]
    assert inner[0]["ts"] + inner[0]["dur"] <= whole["ts"] + whole["dur"] + 1


# Commands -----------------------------------------------------------------------------------------


def test_trace_command_prints_and_writes(folder, capsys):
    minitorch2.compile(broken, backend="eager")(torch.ones(3))
    trace.end()
    assert main(["trace", str(folder)]) == 0
    assert "graph breaks: 1" in capsys.readouterr().out
    assert "data-dependent-branch" in (folder / "index.html").read_text()
    assert json.loads((folder / "chrome.json").read_text())["traceEvents"]
    assert main(["trace", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compilations"] == 2


def test_trace_command_without_a_trace(tmp_path, capsys):
    assert main(["trace", str(tmp_path)]) == 1
    assert "no trace in" in capsys.readouterr().err


SCRIPT = """
import sys
import torch, minitorch2

@minitorch2.compile(backend="eager")
def f(x):
    return x.sin() + 1

f(torch.ones(3))
if sys.argv[1:]:
    raise ValueError(sys.argv[1])
"""


FORKS = """
import multiprocessing
import torch
import minitorch2

@minitorch2.compile(backend="eager", dynamic=False)
def f(x, times):
    if x.sum() > 0:
        x = x + times
    return x.sin()

for times in (1, 2):
    f(torch.ones(3), times)
child = multiprocessing.get_context("fork").Process(target=f, args=(torch.ones(3), 3))
child.start()
child.join()
raise SystemExit(3)
"""


def test_explain_command_tells_breaks_and_recompiles_of_all_processes(tmp_path, capfd, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text(FORKS)
    monkeypatch.setenv("MINITORCH2_TRACE", "elsewhere")
    assert main(["explain", str(script)]) == 3
    told = capfd.readouterr().out
    assert told.startswith("2 processes: ") and "4 compilations, 4 graphs" in told
    assert f"x {script}:8: the program branches" in told
    assert f"CONSTANT_MATCH times (needed by {script}:9)" in told
    assert os.environ["MINITORCH2_TRACE"] == "elsewhere" and not stages.open_logs()
    script.write_text("import minitorch2")
    assert main(["explain", str(script)]) == 0
    assert capfd.readouterr().out == "nothing was compiled\n"


def test_explore_command_runs_a_script(tmp_path, capsys):
    script, page = tmp_path / "script.py", tmp_path / "page.html"
    script.write_text(SCRIPT)
    assert main(["explore", "-o", str(page), str(script)]) == 0
    assert "1 compilation, 0 graph breaks" in capsys.readouterr().out
    assert "x.sin() + 1" in page.read_text()


def test_explore_command_prints_records_and_counts_compilations_alone(tmp_path, monkeypatch, capfd):
    script = tmp_path / "script.py"
    script.write_text(f"{SCRIPT}\nprint('said by the script')\nf(torch.ones(4))\nf(torch.ones(5))")
    monkeypatch.chdir(tmp_path)
    assert main(["explore", "--json", str(script)]) == 0
    told = capfd.readouterr()
    assert {each["function"] for each in json.loads(told.out)["compilations"]} == {"f"}
    assert "said by the script" in told.err and not (tmp_path / "explorer.html").exists()


def test_explore_command_writes_the_page_of_a_script_that_fails(tmp_path, capsys):
    script, page = tmp_path / "script.py", tmp_path / "page.json"
    script.write_text(SCRIPT)
    assert main(["explore", "-o", str(page), "--json", str(script), "wrong"]) == 1
    first, line, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("Traceback") and str(script) in line and last == "ValueError: wrong"
    (compilation,) = json.loads(page.read_text())["compilations"]
    assert compilation["function"] == "f"
    assert stages.watches() == ()


def test_explore_command_runs_a_module_of_a_package(tmp_path, monkeypatch, capsys):
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "shapes.py").write_text("SIZE = 3")
    text = SCRIPT.replace("torch.ones(3)", "torch.ones(SIZE)")
    (tmp_path / "trained" / "run.py").write_text(f"from .shapes import SIZE{text}")
    monkeypatch.chdir(tmp_path)
    assert main(["explore", "-m", "trained.run"]) == 0
    assert "explorer.html: 1 compilation" in capsys.readouterr().out
    assert main(["explore", "-m", "trained.nothing"]) == 1
    assert "No module named trained.nothing" in capsys.readouterr().err


def test_a_file_that_imports_from_its_package_is_named_as_a_module(tmp_path, monkeypatch, capsys):
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "run.py").write_text("from .shapes import SIZE")
    monkeypatch.chdir(tmp_path)
    assert main(["explain", "trained/run.py"]) == 1
    assert capsys.readouterr().err.endswith("runs as a module: -m trained.run\n")


@pytest.mark.parametrize(("script", "words"), [("none.py", "no script"), (".", "is a folder")])
def test_explore_command_without_a_script(script, words, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["explore", str(tmp_path / script)])
    assert words in capsys.readouterr().err


def test_a_module_that_is_not_there_is_told_in_a_line(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["explore", "-m", "no_such.module"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ImportError: Error while finding module") and "no_such" in line
