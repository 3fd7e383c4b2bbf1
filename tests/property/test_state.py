"""Whatever changes between two calls, the compiled program does what eager does then.

Each example is a small world (a module of Python, a model, flags of PyTorch) and a random sequence
of changes to it: globals, functions, monkeypatches, attributes, parameters, hooks, modes, dtypes.
After each change the program runs compiled and as it is, in the same world.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final
from unittest import mock

import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.overrides import TorchFunctionMode

import minitorch2
from minitorch2 import config

SOURCE: Final = """
import torch
import torch.nn.functional as F

SCALE = 2.0
STEPS = [1, 2]
TABLE = {"bias": 0.5}


def activation(x, slope=0.1, *, shift=0.0):
    return torch.where(x > 0, x, x * slope) + shift


class Holder:
    power = 1

    def __init__(self):
        self.flag = True

    def apply(self, x):
        return x * self.power if self.flag else -x


HOLDER = Holder()


def counter():
    count = 1.0

    def read(x):
        return x + count

    return read


READ = counter()


def program(model, x):
    y = READ(HOLDER.apply(model(F.relu(x * SCALE))))
    for step in STEPS:
        y = activation(y) + step
    return y + TABLE.get("bias", 0) + torch.ones(3)
"""


class Model(nn.Module):
    """A layer, a buffer, a submodule, and attributes that its forward reads."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.act: nn.Module = nn.ReLU()
        self.register_buffer("offset", torch.arange(3.0))
        self.gain = 1.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(self.linear(x.to(self.linear.weight.dtype))) * self.gain + self.offset
        return y + 1 if self.training else y


class Doubling(TorchFunctionMode):
    """Doubles what `torch.nn.functional.relu` gives."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is F.relu else result


@dataclass
class World:
    """What a program may read, and how it is called.

    Attributes:
        module: the namespace of `SOURCE`.
        model: the first argument.
        x: the second argument.
        during: what is entered around a call, by its kind; the newest of each kind counts.
        stack: undoes what the world changed outside.
    """

    module: ModuleType
    model: Model
    x: torch.Tensor
    during: dict[str, Callable[[], Any]] = field(default_factory=dict)
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def patch(self, owner: object, name: str, value: object) -> None:
        """Set an attribute of something that outlives the world."""
        self.stack.enter_context(mock.patch.object(owner, name, value))


Change = Callable[[World, int], object]


def _define(source: str) -> Change:
    return lambda w, n: exec(source.replace("N", str(n)), vars(w.module))


def _enter(kind: str, context: Callable[[], Any]) -> Change:
    return lambda w, n: w.during.__setitem__(kind, context)


def _input(make: Callable[[int], torch.Tensor]) -> Change:
    return lambda w, n: setattr(w, "x", make(n))


def _hook(w: World, n: int) -> None:
    handle = w.model.act.register_forward_hook(lambda module, args, out: out + n)
    if n == 0:
        handle.remove()


def _swap(w: World, n: int) -> None:
    w.model.linear.weight = nn.Parameter(torch.full((3, 3), 0.5 + n))


def _scale(w: World, n: int) -> None:
    with torch.no_grad():
        w.model.linear.weight.mul_(n + 1)


def _cell(w: World, n: int) -> None:
    w.module.READ.__closure__[0].cell_contents = n + 0.25


CHANGES: Final[dict[str, Change]] = {
    "a global number": lambda w, n: setattr(w.module, "SCALE", 0.5 * n),
    "a global tensor": lambda w, n: setattr(w.module, "SCALE", torch.tensor(0.5 * n)),
    "a list grows": lambda w, n: w.module.STEPS.append(n),
    "a list's element": lambda w, n: w.module.STEPS.__setitem__(0, n),
    "a new list": lambda w, n: setattr(w.module, "STEPS", [n]),
    "a dict's value": lambda w, n: w.module.TABLE.__setitem__("bias", n),
    "a dict without a key": lambda w, n: w.module.TABLE.pop("bias", None),
    "a global function": _define("activation = lambda x: x * N"),
    "a function defined anew": _define("def activation(x): return x - N"),
    "a function's code": _define("activation.__code__ = (lambda x, y=N: x + y).__code__"),
    "a default": _define("activation.__defaults__ = (0.25 * N,)"),
    "a keyword's default": _define("activation.__kwdefaults__ = {'shift': N}"),
    "a closure's variable": _cell,
    "the module loaded again": _define(SOURCE.replace("2.0", "N.5")),
    "a function of PyTorch": lambda w, n: w.patch(F, "relu", lambda x: x.abs() + n),
    "a method of tensors": lambda w, n: w.patch(torch, "where", lambda c, a, b: a * n),
    "a class's attribute": lambda w, n: setattr(w.module.Holder, "power", n),
    "an object's attribute": lambda w, n: setattr(w.module.HOLDER, "power", n + 0.5),
    "an object's flag": lambda w, n: setattr(w.module.HOLDER, "flag", n % 2 == 0),
    "a class's method": lambda w, n: setattr(w.module.Holder, "apply", lambda self, x: x + n),
    "an object's method": lambda w, n: setattr(w.module.HOLDER, "apply", lambda x: x - n),
    "another object": _define("HOLDER = Holder(); HOLDER.flag = bool(N % 2)"),
    "a model's attribute": lambda w, n: setattr(w.model, "gain", n + 0.5),
    "a model's method": lambda w, n: setattr(w.model, "forward", lambda x: x * n),
    "a submodule": lambda w, n: setattr(w.model, "act", (nn.Tanh(), nn.Sigmoid())[n % 2]),
    "training": lambda w, n: w.model.train(n % 2 == 0),
    "a hook": _hook,
    "a parameter's values": _scale,
    "another parameter": _swap,
    "a frozen parameter": lambda w, n: w.model.linear.weight.requires_grad_(n % 2 == 0),
    "no bias": lambda w, n: setattr(w.model.linear, "bias", None),
    "a buffer": lambda w, n: setattr(w.model, "offset", torch.full((3,), float(n))),
    "a dtype of the model": lambda w, n: w.model.to((torch.float32, torch.float64)[n % 2]),
    "another size": _input(lambda n: torch.linspace(-2, 2, 3 * n + 3).view(-1, 3)),
    "another rank": _input(lambda n: torch.linspace(-2, 2, 6).view(*[1] * n, 2, 3)),
    "integers": _input(lambda n: torch.arange(6).view(2, 3)),
    "halves": _input(lambda n: torch.linspace(-1, 1, 6, dtype=torch.half).view(2, 3)),
    "another layout": _input(lambda n: torch.linspace(-1, n + 1.0, 6).view(3, 2).t()),
    "an input with a gradient": _input(lambda n: torch.linspace(-1, 1, 3).requires_grad_()),
    "a wrong size": _input(lambda n: torch.ones(2, 4 + n)),
    "no gradients": _enter("grad", torch.no_grad),
    "gradients": _enter("grad", torch.enable_grad),
    "inference": _enter("grad", torch.inference_mode),
    "autocast": _enter("autocast", lambda: torch.autocast("cpu", torch.bfloat16)),
    "no autocast": _enter("autocast", contextlib.nullcontext),
    "a function mode": _enter("mode", Doubling),
    "no function mode": _enter("mode", contextlib.nullcontext),
    "a default dtype": lambda w, n: torch.set_default_dtype((torch.float32, torch.float64)[n % 2]),
}  # fmt: skip


@contextlib.contextmanager
def world() -> Iterator[World]:
    """A new world, which leaves nothing behind."""
    torch.manual_seed(0)
    module = ModuleType("state_program")
    exec(compile(SOURCE, "<state program>", "exec"), vars(module))
    made = World(module, Model(), torch.linspace(-1, 1, 6).view(2, 3))
    before = torch.get_default_dtype()
    try:
        with made.stack:
            yield made
    finally:
        torch.set_default_dtype(before)


def outcome(program: Callable[..., Any], w: World) -> Any:
    """The result and the gradients of a call, or the class of the exception."""
    w.model.zero_grad()
    x = w.x.detach().requires_grad_(w.x.requires_grad)
    try:
        with contextlib.ExitStack() as stack:
            for enter in w.during.values():
                stack.enter_context(enter())
            result = program(w.model, x)
    except (RuntimeError, TypeError, AttributeError) as error:
        return type(error).__name__
    if result.requires_grad:
        result.sum().backward()
    gradients = [None if p.grad is None else p.grad.clone() for p in w.model.parameters()]
    return result.detach(), result.requires_grad, x.grad, gradients


def assert_same_outcome(given_: Any, wanted: Any, history: list[str]) -> None:
    text = " -> ".join(history)
    raised, raises = (x if isinstance(x, str) else None for x in (given_, wanted))
    assert raised == raises, f"compiled code raised {raised}, eager raises {raises}, after {text}"
    if raised is None:
        torch.testing.assert_close(
            given_, wanted, equal_nan=True, msg=lambda message: f"after {text}: {message}"
        )


@given(st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(0, 3)), max_size=7))
@settings(
    max_examples=max(settings().max_examples // 10, 1),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # the history is text enough
    suppress_health_check=[HealthCheck.too_slow],
)
def test_after_any_change_calls_are_eagers(changes: list[tuple[str, int]]) -> None:
    with world() as w, config.patch(recompile_limit=64, suppress_errors=False):
        program = w.module.program
        fast = minitorch2.compile(program, backend="eager")
        history: list[str] = []
        for name, number in [("nothing", 0), *changes, ("nothing", 0)]:
            history.append(f"{name} ({number})")
            if name in CHANGES:
                CHANGES[name](w, number)
            assert_same_outcome(outcome(fast, w), outcome(program, w), history)
