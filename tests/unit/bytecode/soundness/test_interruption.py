"""Ctrl-C at any point of a first call: nothing is left behind, and the next call works."""

import dis
import gc
import signal
import sys

import pytest
import torch
from torch.overrides import BaseTorchFunctionMode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import minitorch2
from minitorch2 import config, stages
from minitorch2.bytecode.guards.overrides import ActiveOverrides
from minitorch2.foundation.compile_lock import is_held
from minitorch2.native.cpython import frame_hook
from minitorch2.native.torch_internals.modes import are_overrides_enabled
from tests.unit.bytecode.capturing import capture
from tests.unit.bytecode.soundness.processes import DEEP, run

X = torch.tensor([1.0, -2.0, 3.0])
POINTS = 120 if DEEP else 60


class Stop(KeyboardInterrupt):
    pass


def inner(x):
    return x.cos() + 1


def program(x):
    y = x.sin()
    print(end="")
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        z = inner(y)
    if x.sum() > 0:
        z = z + y
    return z * 2


def no_signal_comes(frame):
    """Whether Python handles no signal here: before a call of `__exit__`, and before a `try`."""
    code = frame.f_code.co_code[frame.f_lasti :: 2]
    return code.startswith(bytes([dis.opmap["LOAD_CONST"]] * 3)) or code[0] in WITHOUT_SIGNALS


WITHOUT_SIGNALS = (dis.opmap["PUSH_EXC_INFO"], dis.opmap["NOP"])


def is_of_the_compiler(frame):
    return "/minitorch2/" in frame.f_code.co_filename


def is_of_the_lock(frame):
    return "compile_lock" in frame.f_code.co_filename


def hides_overrides(frame):
    return frame.f_code.co_filename.endswith(("guards/overrides.py", "compiling/isolation.py"))


class Interrupter:
    """Counts the lines of these frames that run, and raises at one of them."""

    def __init__(self, at, frames):
        self.at = at
        self.frames = frames
        self.count = 0

    def __call__(self, frame, event, argument):
        return self.line if self.frames(frame) else None

    def line(self, frame, event, argument):
        if event == "line" and not no_signal_comes(frame):
            self.count += 1
            if self.count == self.at:
                raise Stop
        return self.line


def interrupted(compiled, at, frames=is_of_the_compiler):
    """Call; whether it was interrupted, and how many points there were."""
    interrupter, previous = Interrupter(at, frames), sys.gettrace()
    sys.settrace(interrupter)
    try:
        compiled(X)
    except Stop:
        return True, interrupter.count
    finally:
        sys.settrace(previous)
    return False, interrupter.count


def test_interrupted_anywhere():
    wanted = program(X)
    capture(program)(X)
    _, total = interrupted(capture(program), -1)
    options, stopped = config.current(), 0
    for at in range(1, total, max(total // POINTS, 1)):
        compiled = capture(program)
        was_stopped, _ = interrupted(compiled, at)
        stopped += was_stopped
        assert torch.is_grad_enabled(), at
        assert not torch.is_autocast_enabled("cpu"), at
        assert not is_held(), at
        assert gc.isenabled(), at
        assert not _get_current_dispatch_mode_stack(), at
        assert not stages.open_logs(), at
        assert config.current() is options, at
        assert frame_hook._thread.row is None, at
        assert torch.equal(compiled(X), wanted), at
        assert torch.equal(compiled(X), wanted), at
    assert stopped > POINTS // 2


def test_no_line_of_the_lock_loses_it():
    """The lock is free and garbage is collected, whichever line of its module is hit."""
    at, was_stopped = 0, True
    while was_stopped:
        at, compiled = at + 1, capture(inner)
        was_stopped, _ = interrupted(compiled, at, is_of_the_lock)
        assert not is_held(), at
        assert gc.isenabled(), at
        assert torch.equal(compiled(X), inner(X)), at
    assert at > 20


def test_no_line_that_hides_overrides_leaves_them_hidden():
    """A mode of the program is seen by the next compilation, whichever line was hit."""
    at, was_stopped = 0, True
    while was_stopped:
        at, compiled = at + 1, capture(inner)
        was_stopped, _ = interrupted(compiled, at, hides_overrides)
        assert are_overrides_enabled(), at
        with BaseTorchFunctionMode() as mode:
            assert [each for _, each in ActiveOverrides.now().modes] == [mode], at
    assert at > 20


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_real_signals():
    """A timer interrupts compilations, kernels and residual code at odd moments."""
    printed = run("""
        import gc, signal
        def stop(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, stop)
        wanted, stopped = program(X), 0
        minitorch2.compile(program)(X)
        for turn in range(60):
            compiled = minitorch2.compile(program)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 * (turn % 30 + 1))
                for _ in range(40):
                    compiled(X)
            except KeyboardInterrupt:
                stopped += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert torch.is_grad_enabled() and gc.isenabled()
            assert torch.allclose(compiled(X), wanted)
        print(stopped)
    """)
    assert int(printed) > 20


def test_an_exception_of_the_backend_leaves_no_entry():
    answers = []

    def backend(module, inputs):
        if not answers:
            answers.append(None)
            raise KeyboardInterrupt
        return module

    compiled = minitorch2.compile(lambda x: x + 1, backend=backend)
    with pytest.raises(KeyboardInterrupt):
        compiled(X)
    assert not is_held()
    assert torch.equal(compiled(X), X + 1)


def test_interrupted_backward():
    state = {"stop": True}

    class Interrupting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            if state["stop"]:
                raise Stop
            return gradient * 2

    def f(x):
        print(end="")
        return Interrupting.apply(x.sin()).sum()

    compiled, x = capture(f), X.clone().requires_grad_()
    with pytest.raises(Stop):
        compiled(x).backward()
    state["stop"] = False
    (given,) = torch.autograd.grad(capture(f)(x), x)
    assert torch.equal(given, torch.autograd.grad(f(x), x)[0])
