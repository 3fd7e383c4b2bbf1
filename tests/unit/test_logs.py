"""Logging: silent unless asked, by package and by artifact, and never through the root logger."""

import gc
import logging
import subprocess
import sys

import pytest
import torch

import minitorch2
from minitorch2 import config, jit, logs, stages
from minitorch2.backends.graph_cache import bypass, lookup
from minitorch2.errors import ConfigError


@pytest.fixture
def clean_loggers():
    root = logging.getLogger(logs.ROOT)
    handlers = list(root.handlers)
    yield root
    root.handlers[:] = handlers
    for name in list(logging.Logger.manager.loggerDict):
        if name.split(".")[0] == logs.ROOT:
            logging.getLogger(name).setLevel(logging.NOTSET)


def test_logger_names():
    assert logs.get_logger("minitorch2.loopir.fusion").name == "minitorch2.loopir.fusion"
    assert logs.get_logger("loopir").name == "minitorch2.loopir"


def test_set_logs_levels(clean_loggers):
    logs.set_logs("+loopir, codegen,-graph")
    levels = [logging.getLogger(f"minitorch2.{n}").level for n in ("loopir", "codegen", "graph")]
    assert levels[:2] == [logging.DEBUG, logging.INFO]
    assert levels[2] == logging.ERROR


def test_set_logs_twice_adds_one_handler(clean_loggers):
    before = len(clean_loggers.handlers)
    logs.set_logs("all")
    logs.set_logs("+all")
    assert len(clean_loggers.handlers) == before + 1
    assert clean_loggers.level == logging.DEBUG


def test_unknown_names_are_errors_that_name_the_nearest(clean_loggers):
    before = list(clean_loggers.handlers)
    with pytest.raises(ConfigError, match="'graph_brakes'; did you mean 'graph_breaks'"):
        logs.set_logs("+bytecode,graph_brakes")
    assert clean_loggers.handlers == before
    assert logging.getLogger("minitorch2.bytecode").level == logging.NOTSET
    with pytest.raises(ConfigError, match="did you mean 'bytecode'"):
        logs.set_logs("bytcode")


def test_help_names_every_artifact_and_package():
    text = logs.help_text()
    assert all(artifact.name in text and artifact.meaning in text for artifact in logs.ARTIFACTS)
    assert {"bytecode", "autograd", "loopir", "codegen", "stages"} <= set(text.split())
    assert "foundation" not in text.split(), "it logs nothing"


def test_a_module_that_logs_nothing_is_an_error_not_silence(clean_loggers):
    for name in ("foundation", "+graph.interpreter", "loopir.expressions"):
        with pytest.raises(ConfigError, match="logs nothing"):
            logs.set_logs(name)


def test_each_pass_over_scripts_logs_by_the_name_of_its_file(clean_loggers, caplog):
    logs.set_logs("+script.passes.propagate_constants")
    caplog.handler.setLevel(logging.DEBUG)
    function = jit.define("def f(x):\n    y = x * (3 + 4)\n    z = x - 1\n    return y\n").f
    for _ in range(2):
        function(torch.ones(2))
    laws = [record.message for record in caplog.records if "script.passes" in record.name]
    assert laws == ["propagate_constants: aten::add: is always 7  # <define>:2"]


# Artifacts are stages -----------------------------------------------------------------------------


def test_stages_are_wanted_by_artifact(clean_loggers):
    assert not stages.wanted("guards.py")
    logs.set_logs("guards")
    assert stages.wanted("guards.py") and not stages.wanted("loopir.py")
    logs.set_logs("-guards")
    assert not stages.wanted("guards.py")


def test_every_stage_of_a_compilation_belongs_to_an_artifact():
    def f(x, flag):
        y = x.sin() * 1
        if y.sum() > 0:
            y = y + 1
        return y

    x = torch.ones(3, requires_grad=True)
    with stages.collect() as log:
        fast = minitorch2.compile(f, backend="numba")
        fast(x, "a").sum().backward()
        fast(x.double(), "a")
        with torch.no_grad():
            fast(torch.ones(3), "a")
    made = {stage.name for stage in log.stages}
    shown = {stage for artifact in logs.ARTIFACTS for stage in artifact.stages}
    assert made - shown == set()
    assert shown - made == set()


def shown_by(wanted: str, function, *calls) -> list[str]:
    """The messages that compiled calls log, with the name of each logger."""
    records: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(f"{record.name.removeprefix('minitorch2.')}: {record.getMessage()}")

    logs.set_logs(wanted)
    handler = Keeping()
    logging.getLogger(logs.ROOT).addHandler(handler)
    for args in calls:
        function(*args)
    logging.getLogger(logs.ROOT).removeHandler(handler)
    return records


def test_artifacts_show_what_was_asked_for(clean_loggers, capsys):
    fast = minitorch2.compile(lambda x: x.sin() + 1, backend="eager")
    records = shown_by("graph_code,guards", fast, (torch.ones(3),))
    assert [record.splitlines()[0] for record in records] == [
        "artifacts.graph_code: captured_graph.py",
        "artifacts.guards: guards.py",
    ]
    assert "torch.sin" in records[0] or ".sin()" in records[0]


def shown_from_the_cache(wanted: str) -> list[list[str]]:
    """What is logged where a graph is compiled, and again where it is in the cache."""

    def f(x, flag):
        y = (x * 1).sin() + (x * 1).cos()
        if flag:
            minitorch2.graph_break()
        return y.sum()

    shown = []
    for _ in range(2):
        minitorch2.reset()
        gc.collect()
        lookup._PROGRAMS.clear()
        fast = minitorch2.compile(f, backend="numba")
        x = torch.ones(3, requires_grad=True)
        calls = [(x, True), (x.detach().double().requires_grad_(), False)]
        shown.append(shown_by(wanted, lambda *args, fast=fast: fast(*args).backward(), *calls))
    return shown


@pytest.fixture
def cached(tmp_path, monkeypatch):
    monkeypatch.setattr(bypass, "EXTENSIONS", list[str]())
    with config.patch(cache_dir=str(tmp_path), cache=True, verify=False):
        yield


@pytest.mark.parametrize("name", [artifact.name for artifact in logs.ARTIFACTS])
def test_an_artifact_is_shown_although_the_graph_is_in_the_cache(cached, clean_loggers, name):
    shown_from_the_cache("-" + name)  # fills it
    first, second = (
        [record for record in records if record.startswith("artifacts.")]
        for records in shown_from_the_cache(name)
    )
    assert len(second) == len(first) > 0


@pytest.mark.parametrize(
    "name",
    ["+graph", "+graph.passes", "+graph.passes.simplify_algebra", "autograd", "+loopir",
     "+all"],
)  # fmt: skip
def test_a_package_logs_although_the_graph_is_in_the_cache(cached, clean_loggers, name):
    shown_from_the_cache("-graph")
    prefix = "" if name == "+all" else name.lstrip("+")
    for records in shown_from_the_cache(name):
        ours = [record for record in records if record.startswith(prefix)]
        assert ours and ("simplify_algebra" not in name or "x * 1 --> x" in str(ours))


def test_other_logs_leave_the_cache_in_use(cached, clean_loggers):
    logging.getLogger().setLevel(logging.DEBUG)  # the application's own
    try:
        for wanted in ("output_code", "+bytecode", "all", "+cache", "+backends"):
            with stages.collect(texts=False) as log:
                shown_from_the_cache(wanted)
            assert log.counts["graphs_loaded"] >= 2, wanted
            for name in ("bytecode", "cache", "backends", ""):
                logging.getLogger(f"minitorch2.{name}".rstrip(".")).setLevel(logging.NOTSET)
    finally:
        logging.getLogger().setLevel(logging.WARNING)


def test_recompiles_are_one_line_each(clean_loggers):
    fast = minitorch2.compile(lambda x: x.sin() + 1, backend="eager")
    one, two = torch.ones(3), torch.ones(3, dtype=torch.float64)
    records = shown_by("recompiles", fast, (one,), (two,), (one,), (two,))
    assert len(records) == 1
    assert "\n" not in records[0]
    assert "dtype was torch.float32, now torch.float64" in records[0] and "Fix:" in records[0]


def test_the_eight_steps_in_order(clean_loggers):
    fast = minitorch2.compile(lambda x: x.sin() + 1, backend="eager")
    records = shown_by("+bytecode", fast, (torch.ones(3),))
    steps = [record.split("step ")[1][0] for record in records if "step " in record]
    assert steps == list("12345678")


# In a process of its own --------------------------------------------------------------------------


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )


LOG = "from minitorch2.logs import get_logger; get_logger('minitorch2.graph.x')."


def test_library_is_silent_by_default():
    done = run(LOG + "error('boom')")
    assert (done.stdout, done.stderr) == ("", "")


def test_environment_variable_shows_records():
    assert run(LOG + "debug('boom')", MINITORCH2_LOGS="+graph").stderr == (
        "D minitorch2.graph.x: boom\n"
    )


def test_unknown_names_in_the_environment_are_warnings():
    done = run(LOG + "debug('boom')", MINITORCH2_LOGS="+grahp,+graph")
    first, *_, last = done.stderr.splitlines()
    assert "did you mean 'graph'" in first and last.endswith("boom")


def test_environment_can_ask_for_help():
    done = run(LOG + "debug('boom')", MINITORCH2_LOGS="help")
    assert "graph_breaks" in done.stderr and done.stdout == ""


def test_environment_can_name_a_file(tmp_path):
    file = tmp_path / "out.log"
    code = LOG + "debug('boom'); import minitorch2.config"
    done = run(code, MINITORCH2_LOGS="+graph", MINITORCH2_LOGS_OUT=str(file))
    assert (done.stdout, done.stderr) == ("", "")
    assert file.read_text() == "D minitorch2.graph.x: boom\n"


def test_messages_begin_with_the_compilation():
    code = (
        "from minitorch2.logs import compiling, get_logger\n"
        "with compiling('0/1'): get_logger('minitorch2.graph').warning('boom')\n"
        "get_logger('minitorch2.graph').warning('boom')\n"
    )
    assert run(code, MINITORCH2_LOGS="graph").stderr.splitlines() == [
        "W minitorch2.graph: [0/1] boom",
        "W minitorch2.graph: boom",
    ]
