"""Debuggers, tracers, profilers and frames: results are right, and tools see the user's lines."""

import bdb
import cProfile
import inspect
import pstats
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
    """Results are right. The first stop is where our own context is left, not in the user's code;
    its caller is the user's frame.
    """
    stops = []

    class Debugger(bdb.Bdb):
        def user_line(self, frame):
            stops.append([f.f_code.co_name for f, _ in traceback.walk_stack(frame)])
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
    assert "broken" in stops[0]


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
    "function", [reads_frame, reads_locals, reads_current_frame, reads_stack], ids=str
)
def test_frames_are_the_users(function):
    compiled = capture(function)
    for _ in range(2):
        given, wanted = compiled(X), function(X)
        assert torch.equal(given[0], wanted[0])
        assert str(given[1:]) == str(wanted[1:])
