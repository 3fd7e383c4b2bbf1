"""Ctrl-C at each instruction where Python looks for signals, in code that changes thread state.

A line is too coarse a step (`test_interruption`): a class with ``__enter__`` and ``__exit__`` may
be cut off between the change and the end of its line, and an object that holds the former state
may put it back late, when its frame is freed.
"""

import dis
import functools
import gc
import itertools
import sys
from types import CodeType, FrameType

import pytest
import torch

import minitorch2
from minitorch2.autograd.runtime import without_autocast
from minitorch2.foundation.compile_lock import is_held
from minitorch2.native.torch_internals.gradients import call_in_grad_mode
from tests.unit.bytecode.soundness.processes import DEEP

X = torch.tensor([1.0, -2.0, 3.0])

SWITCHES = {"set_grad_enabled", "_set_grad_enabled", "write_grad_mode", "set_autocast_enabled"}
"""Names that a function uses if it changes the state of a thread."""

FILES = ("autograd/grad_mode.py", "compile_lock.py", "compiling/isolation.py")
LOOKS = {"RESUME", "JUMP_BACKWARD", "CALL", "CALL_FUNCTION_EX"}
"""The instructions after which Python handles signals (3.11 to 3.13)."""


Point = tuple[CodeType, int, str]
"""An instruction, by its code and offset, and the function six calls further out.

What an object puts back depends on the state in which it was made.
"""


class Stop(KeyboardInterrupt):
    pass


def program(x):
    y = x.sin()
    print(end="")
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        z = y * 2
    return y + z


@functools.cache
def points(code: CodeType) -> frozenset[int]:
    """Return the offsets of the instructions before which a signal may be handled.

    The exception then has the handler of the instruction before, so the two have to share it.
    """
    listing = dis.Bytecode(code)

    def handler(offset: int) -> int | None:
        inside = (e.target for e in listing.exception_entries if e.start <= offset < e.end)
        return next(inside, None)

    steps = [step for step in listing if step.opname not in ("CACHE", "EXTENDED_ARG")]
    return frozenset(
        after.offset
        for before, after in itertools.pairwise(steps)
        if before.opname in LOOKS and handler(before.offset) == handler(after.offset)
    )


def caller(frame: FrameType) -> str:
    for _ in range(6):
        frame = frame.f_back or frame
    return frame.f_code.co_name


def changes_state(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_filename.endswith(FILES) or bool(SWITCHES & {*code.co_names})


class Signals:
    """A trace function that meets each point once, and raises at one of them."""

    def __init__(self, at: Point | None = None) -> None:
        self.at = at
        self.met: dict[Point, None] = {}

    def __call__(self, frame, event, argument):
        if not changes_state(frame):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.instruction

    def instruction(self, frame, event, argument):
        if event == "opcode" and frame.f_lasti in points(frame.f_code):
            point = frame.f_code, frame.f_lasti, caller(frame)
            self.met[point] = None
            if point == self.at:
                self.at = None
                raise Stop
        return self.instruction

    def are_met_by(self, call) -> bool:
        """Call; return whether the call was cut off."""
        previous = sys.gettrace()
        sys.settrace(self)
        try:
            call()
        except Stop:
            return True
        finally:
            sys.settrace(previous)
        return False


def state():
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_cache_enabled(),
        torch.is_autocast_enabled("cpu"),
        gc.isenabled(),
        is_held(),
    )


def test_a_compilation_leaves_the_state_of_the_thread():
    wanted, expected = program(X), state()
    minitorch2.compile(program)(X)  # kernels are cached
    compiled, stopped = minitorch2.compile(program), 0
    listing = Signals()
    assert not listing.are_met_by(lambda: compiled(X))
    met = [*listing.met]
    chosen = met if DEEP else [*met[::5], *(p for p in met if "inference_mode" in p[0].co_qualname)]
    for point in chosen:
        compiled = minitorch2.compile(program)
        stopped += Signals(point).are_met_by(lambda: compiled(X))
        assert state() == expected, point
        torch.testing.assert_close(compiled(X), wanted)
    assert stopped > 0.8 * len(chosen) > 40


def without_gradients(call):
    return functools.partial(call_in_grad_mode, False, call)


def no_gradients(arguments):
    assert not torch.is_grad_enabled()
    return arguments


def no_casts(arguments):
    assert not torch.is_autocast_enabled("cpu")
    return arguments


@pytest.mark.parametrize(
    ("wrap", "function"), [(without_gradients, no_gradients), (without_autocast, no_casts)]
)
def test_a_compiled_call_leaves_the_state_of_the_thread(wrap, function):
    with torch.autocast("cpu", torch.bfloat16):
        call, expected = wrap(function), state()
        listing = Signals()
        assert not listing.are_met_by(lambda: call([X]))
        for point in listing.met:
            assert Signals(point).are_met_by(lambda: call([X]))
            assert state() == expected, point
    assert len(listing.met) >= 3
