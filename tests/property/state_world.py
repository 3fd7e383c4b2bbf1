"""A small world that a program reads: a module of Python, a model, an input, flags of PyTorch.

`World` is what may change between two calls, `world` makes one and takes it away again.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

NAME = "state_program"
SOURCE: Final = """
import math
import os
import torch
import torch.nn.functional as F

SCALE = 2.0
STEPS = [1, 2]
TABLE = {"bias": 0.5, "tensors": [torch.ones(3), torch.zeros(3)]}


def activation(x, slope=0.1, *, shift=0.0):
    return torch.where(x > 0, x, x * slope) + shift


class Base:
    power = 3


class Holder(Base):
    power = 1

    def __init__(self):
        self.flag = True

    def apply(self, x):
        return x * self.power if self.flag else -x

    def finish(self, x):
        return super().finish(x) if hasattr(super(), "finish") else x


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
    y = y + TABLE.get("bias", 0) + torch.ones(3, device=y.device) * len(TABLE)
    for tensor in TABLE["tensors"]:
        y = y * 2 + tensor.to(y.device)
    if torch.are_deterministic_algorithms_enabled():
        y = y + torch.empty(3, device=y.device)
    if torch.is_grad_enabled() and not torch.is_inference_mode_enabled():
        y = y + 0.25
    if torch.is_autocast_enabled("cpu"):
        y = y - 0.125
    y = y + math.sqrt(len(os.environ.get("STATE_PROGRAM", "")))
    y = HOLDER.finish(y).neg() + getattr(Holder, "extra", 0) + STATE_PROGRAM
    return y + getattr(activation, "extra", 0) + getattr(x, "label", 0)


def made(model, x):
    y = torch.arange(3) * 0.5 + torch.tensor(0.25)
    return torch.zeros(3) + torch.full((3,), 1.5) * SCALE + y + torch.empty(2, 3).fill_(2)
"""
"""`program` reads all that there is; `made` makes tensors where the defaults say."""


class Model(nn.Module):
    """A layer, a list of layers, a buffer, and attributes that its forward reads."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.act: nn.Module = nn.ReLU()
        self.layers = nn.ModuleList([nn.Tanh(), nn.Linear(3, 3), nn.Dropout(0.5)])
        self.table = nn.ParameterDict({"a": torch.ones(3), "b": torch.arange(3.0)})
        self.register_buffer("offset", torch.arange(3.0))
        self.gain = 1.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(self.linear(x.to(self.linear.weight.dtype))) * self.gain + self.offset
        for layer in self.layers:
            y = layer(y.to(self.linear.weight.dtype))
        for number, parameter in enumerate(self.table.values()):
            y = y + parameter * number
        return y + 1 if self.training else y


class Another(Model):
    """A model of another class with the same parts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 0.5


class Doubling(TorchFunctionMode):
    """Doubles what `torch.nn.functional.relu` gives."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is F.relu else result


class Texts(MetaPathFinder, Loader):
    """Imports the module `NAME` from a text, which may be another one when it is loaded again."""

    def __init__(self) -> None:
        self.text = SOURCE

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == NAME else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.text, "<state program>", "exec"), vars(module))


@dataclass
class World:
    """What a program may read, and how it is called.

    Attributes:
        module: the namespace of `SOURCE`.
        texts: where it is loaded from.
        model: the first argument.
        x: the second argument.
        during: what is entered around a call, by its kind; the newest of each kind counts.
        handles: the hooks that are there.
        stack: undoes what the world changed outside.
    """

    module: ModuleType
    texts: Texts
    model: Model
    x: torch.Tensor
    during: dict[str, Callable[[], Any]] = field(default_factory=dict)
    handles: list[Any] = field(default_factory=list)
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def patch(self, owner: object, name: str, value: object) -> None:
        """Set an attribute of something that outlives the world."""
        self.stack.enter_context(mock.patch.object(owner, name, value))

    def load_again(self, old: str, new: str) -> None:
        """Reload the module from a changed text."""
        self.texts.text = SOURCE.replace(old, new)
        importlib.reload(self.module)


@contextlib.contextmanager
def flags_as_before() -> Iterator[None]:
    """What PyTorch keeps for the whole process is put back at the end."""
    dtype, deterministic = torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()
    fill = torch.utils.deterministic.fill_uninitialized_memory
    try:
        with (
            mock.patch.dict(os.environ),
            mock.patch.object(builtins, "STATE_PROGRAM", 0.5, create=True),
        ):
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_default_device(None)
        torch.use_deterministic_algorithms(deterministic)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[assignment]


@contextlib.contextmanager
def world() -> Iterator[World]:
    """A new world, which leaves nothing behind."""
    torch.manual_seed(0)
    texts = Texts()
    with (
        flags_as_before(),
        mock.patch.object(sys, "meta_path", [texts, *sys.meta_path]),
    ):
        module = importlib.import_module(NAME)
        made = World(module, texts, Model(), torch.linspace(-1, 1, 6).view(2, 3))
        with made.stack:
            made.stack.callback(sys.modules.pop, NAME)
            yield made
