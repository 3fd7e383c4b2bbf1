"""Debuggers, tracers, profilers and frames: results are right, and tools see the user's lines."""

import bdb
import cProfile
import inspect
import json
import os
import pstats
import subprocess
import sys
import traceback

import pytest
import torch

from tests.unit.bytecode.capturing import capture
from tests.unit.bytecode.soundness.processes import run

X = torch.tensor([1.0, -2.0, 3.0])


def inner(x):
    return x.cos() + 1


def program(x):
    y = x.sin()
    print(end="")
    return inner(y) * 2


def traced(function):
    """The result, and the events of this file."""
    events = []

    def trace(frame, event, argument):
        if frame.f_code.co_filename == __file__:
            events.append((frame.f_code.co_name, event))
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        return function(X), events
    finally:
        sys.settrace(previous)


def test_trace_functions():
    """A tracer sees residual code as lines of the user's function, first and later."""
    compiled = capture(program)
    for _ in range(2):
        result, events = traced(compiled)
        assert torch.equal(result, program(X))
        assert ("program", "call") in events
        assert ("program", "line") in events
        assert events[-1] == ("program", "return")


def test_first_use_under_a_tracer():
    """The probe that looks for the fields of a frame took the tracer's frames for its own."""
    printed = run("""
        seen = []
        def trace(frame, event, argument):
            seen.append(event)
            return trace
        sys.settrace(trace)
        result = minitorch2.compile(program, backend="eager")(X)
        sys.settrace(None)
        print(torch.equal(result, program(X)), len(seen) > 100)
    """)
    assert printed.split() == ["True", "True"]


def test_profilers():
    compiled, profile = capture(program), cProfile.Profile()
    for _ in range(2):
        profile.enable()
        result = compiled(X)
        profile.disable()
        assert torch.equal(result, program(X))
    names = {name for _, _, name in pstats.Stats(profile).stats}
    assert "program" in names
    events = []
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        assert torch.equal(capture(program)(X), program(X))
    finally:
        sys.setprofile(None)
    assert "call" in events


def test_debuggers_started_inside():
    """The first stop is the user's next line, not where a context of ours is left."""
    stops = []

    class Debugger(bdb.Bdb):
        def user_line(self, frame):
            stops.append((frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)))
            self.set_continue()

    debugger = Debugger()

    def broken(x):
        y = x.sin()
        debugger.set_trace()
        return y * 2

    compiled, previous = capture(broken), sys.gettrace()
    try:
        result = compiled(X)
    finally:
        sys.settrace(previous)
    assert torch.equal(result, X.sin() * 2)
    line = broken.__code__.co_firstlineno + 3
    assert stops == [("broken", line, ["debugger", "x", "y"])]


def test_pdb_continues():
    printed = run("""
        import io, pdb
        def stop(x):
            y = x + 1
            pdb.Pdb(stdin=io.StringIO("w\\nc\\n"), stdout=out).set_trace()
            return y * 2
        out = io.StringIO()
        print(torch.equal(minitorch2.compile(stop, backend="eager")(X), (X + 1) * 2))
        print("stop" in out.getvalue())
    """)
    assert printed.split() == ["True", "True"]


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="needs sys.monitoring")
def test_monitoring_callbacks_are_not_captured():
    seen, tool = [], sys.monitoring.DEBUGGER_ID

    def callback(code, *_):
        seen.append(code.co_name)
        inner(X)

    sys.monitoring.use_tool_id(tool, "test")
    sys.monitoring.register_callback(tool, sys.monitoring.events.PY_START, callback)
    sys.monitoring.set_events(tool, sys.monitoring.events.PY_START)
    try:
        result = capture(program)(X)
    finally:
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)
    assert torch.equal(result, program(X))
    assert "program" in seen


def reads_frame(x):
    y = x + 1
    frame = sys._getframe()
    return y * 2, frame.f_code.co_name, sorted(frame.f_locals), frame.f_lineno


def reads_locals(x):
    y = x + 1
    names = sorted(locals())
    return y * 2, names, eval("y")


def reads_current_frame(x):
    y = x + 1
    info = inspect.getframeinfo(inspect.currentframe())
    return y * 2, info.function, info.lineno, info.filename


def reads_stack(x):
    y = x + 1
    entries = traceback.extract_stack()
    return y, [e.name for e in entries if e.filename == __file__], entries[-1].lineno


@pytest.mark.parametrize(
    "function",
    [reads_frame, reads_locals, reads_current_frame, reads_stack],
    ids=lambda function: function.__name__,
)
def test_frames_are_the_users(function):
    compiled = capture(function)
    for _ in range(2):
        given, wanted = compiled(X), function(X)
        assert torch.equal(given[0], wanted[0])
        assert str(given[1:]) == str(wanted[1:])


COVERED = """
import torch
import minitorch2

def inner(x):
    y = x.cos()
    return y + 1

def plain(x):
    numbers = x.numpy().tobytes()
    return len(numbers) // 4

def program(x):
    y = x.sin()
    if y.sum() > 100:
        y = y * 3
    print("step")
    return inner(y) * plain(y)

X = torch.tensor([1.0, -2.0, 3.0])
compiled = minitorch2.compile(program, backend="eager")
assert torch.equal(compiled(X), (X.sin().cos() + 1) * 3)
assert torch.equal(compiled(X), (X.sin().cos() + 1) * 3)
"""
CORE = "sysmon" if hasattr(sys, "monitoring") else "ctrace"


def test_coverage(tmp_path):
    """Lines that Python runs are reported; of the others only those that became a graph are not."""
    coverage = pytest.importorskip("coverage")
    file, data, report = (tmp_path / name for name in ("program.py", "data", "report.json"))
    file.write_text(COVERED)
    command = ["-m", "coverage", "run", f"--include={file}", f"--data-file={data}", str(file)]
    environment = os.environ | {"COVERAGE_CORE": CORE, "COVERAGE_RCFILE": os.devnull}
    subprocess.run([sys.executable, *command], env=environment, check=True)
    measured = coverage.Coverage(str(data), config_file=False)
    measured.load()
    measured.json_report(outfile=str(report))
    (found,) = json.loads(report.read_text())["files"].values()
    lines = COVERED.splitlines()
    missing = {lines[number - 1].strip() for number in found["missing_lines"]}
    assert missing == {"y = x.sin()", "y = x.cos()", "return y + 1", "y = y * 3"}
