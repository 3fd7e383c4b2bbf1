"""Debuggers: breakpoints stop in the user's frame, generated code can be read and stepped."""

import bdb
import gc
import inspect
import io
import linecache
import pdb
import subprocess
import sys
import textwrap

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.bytecode.dispatch import dispatcher_of
from minitorch2.foundation.generated_code import PREFIX
from minitorch2.lazy import run_fallback

X = torch.tensor([1.0, 2.0, 3.0])


def capture(function):
    return minitorch2.compile(function, backend="eager")


class Script:
    """A debugger that reads its commands from a text."""

    def __init__(self, *commands: str) -> None:
        self.output = io.StringIO()
        lines = io.StringIO("\n".join([*commands, "continue", ""]))
        self.debugger = pdb.Pdb(stdin=lines, stdout=self.output, nosigint=True)
        self.debugger.prompt = ""

    def stop(self, *args: object) -> None:
        self.debugger.set_trace(sys._getframe(1))

    @property
    def answers(self) -> list[str]:
        return self.output.getvalue().splitlines()


@pytest.fixture
def script(monkeypatch):
    def start(*commands: str) -> Script:
        made = Script(*commands)
        monkeypatch.setattr(sys, "breakpointhook", made.stop)
        return made

    yield start
    sys.settrace(None)


def stops(x):
    k = 3
    unused = k + 1  # noqa: F841 - the debugger reads it
    y = x * 2
    breakpoint()
    z = y + k
    return z.sum()


LINES, FIRST = inspect.getsourcelines(stops)


def test_breakpoint_stops_in_the_users_frame_with_its_locals(script):
    started = script("p sorted(locals())", "p k, unused, y", "next", "next", "p z")
    with stages.collect() as log:
        assert capture(stops)(X).item() == 21
    answers = started.answers
    assert answers[0].endswith(f"{__file__}({FIRST + 5})stops()")
    assert answers[1] == "-> z = y + k"
    assert answers[2] == "['k', 'unused', 'x', 'y']"
    assert answers[3] == "(3, 4, tensor([2., 4., 6.]))"
    assert answers[-1] == "tensor([5., 7., 9.])"
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (1, 1)


def test_breakpoint_can_change_the_users_variables(script):
    script("y = torch.zeros(3)")
    assert capture(stops)(X).item() == 9.0


def test_breakpoint_in_an_inlined_function_stops_there(script):
    def caller(x):
        return stops(x + 1) * 2

    started = script("p unused", "up", "up")
    assert capture(caller)(X).item() == 2 * (2 * 9 + 9)
    assert started.answers[1] == "-> z = y + k" and started.answers[2] == "4"


def test_breakpoint_before_the_first_operator(script):
    def early(x):
        breakpoint()
        return x + 1

    started = script("p x")
    assert capture(early)(X).tolist() == [2.0, 3.0, 4.0]
    assert started.answers[1:] == ["-> return x + 1", "tensor([1., 2., 3.])"]


TRACED = """
import pdb
import torch
import minitorch2

def traced(x):
    y = x * 2
    pdb.set_trace()
    return y + 1

print(minitorch2.compile(traced, backend="eager")(torch.ones(2)))
"""


def test_set_trace_stops_in_the_users_frame(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(TRACED)
    command = [sys.executable, str(file)]
    done = subprocess.run(command, input="p y\ncontinue\n", capture_output=True, text=True)
    first, second, answer, result = done.stdout.splitlines()
    assert first == f"> {file}(9)traced()" and second == "-> return y + 1"
    assert answer == "(Pdb) tensor([2., 2.])" and result == "(Pdb) tensor([3., 3.])"


# Generated code -----------------------------------------------------------------------------------


def breaks(x):
    y = x.sin()
    print(end="")
    return y.cos()


def entry_of(fast):
    dispatcher = dispatcher_of(fast)
    assert dispatcher is not None
    return dispatcher.cache.compiled[0].bind(dispatcher.function), dispatcher


def test_source_of_guard_functions():
    fast = capture(breaks)
    fast(X)
    _, dispatcher = entry_of(fast)
    guards = dispatcher.cache.compiled[0].guards
    assert textwrap.dedent(inspect.getsource(guards.check)).strip() == guards.source.strip()


def test_residual_code_shows_the_users_lines():
    fast = capture(breaks)
    fast(X)
    entry, _ = entry_of(fast)
    assert inspect.getsource(entry.run) == inspect.getsource(breaks)


def test_residual_code_can_be_stepped_through():
    fast = capture(breaks)
    with config.patch(step_residual_code=True):
        fast(X)
    entry, dispatcher = entry_of(fast)
    source = dispatcher.cache.compiled[0].source
    assert inspect.getsource(entry.run) == source
    made = Script("next", "next", "next", "next")
    made.debugger.runcall(entry.run, X)
    shown = [line[3:] for line in made.answers if line.startswith("-> ")]
    assert shown[:2] == [line.strip() for line in source.splitlines()[1:3]]


def test_continuations_step_through_the_users_lines():
    fast = capture(breaks)
    fast(X)
    _, dispatcher = entry_of(fast)
    (rest,) = (c for c in dispatcher.region.caches.values() if c is not dispatcher.cache)
    function = next(iter(rest.shared.values())).function
    assert inspect.getsource(function) == inspect.getsource(breaks)
    made = Script("step", "step")
    made.debugger.runcall(function, X)
    assert "-> return y.cos()" in made.answers


class Stops(bdb.Bdb):
    """A debugger with a breakpoint on one function; it keeps the operators with which it stops."""

    def __init__(self, function, name):
        super().__init__()
        self.code, self.name, self.seen = function.__code__, name, []
        assert self.set_break(self.code.co_filename, self.code.co_firstlineno + 1) is None

    def user_call(self, frame, arguments):
        if frame.f_code is self.code:
            self.seen.append(str(frame.f_locals[self.name]))
        self.set_continue()


def test_a_breakpoint_shows_each_operator_that_a_lazy_step_runs_in_eager_mode():
    debugger = Stops(run_fallback, "func")

    def step(x):
        with minitorch2.lazily(eager_first=False):
            return (x * 2).nonzero()

    assert debugger.runcall(step, torch.eye(3)).tolist() == torch.eye(3).nonzero().tolist()
    assert debugger.seen == ["aten.nonzero.default"]


def test_text_of_generated_code_is_forgotten_with_the_code():
    def texts():
        gc.collect()
        return {name for name in linecache.cache if name.startswith(PREFIX)}

    def program(x):
        return x.sin() + 1

    before = texts()
    fast = capture(program)
    fast(X)
    entry_of(fast)[1].cache.compiled[0].guards.check(X)
    assert texts() > before
    minitorch2.reset()
    del fast
    assert texts() <= before
