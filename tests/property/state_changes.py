"""What may change between two calls of a program: each change is a function of a world and a
number. Each kind of thing that a compiled program may have read is here.
"""

from __future__ import annotations

import builtins
import contextlib
import math
import os
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from tests.property.state_world import SOURCE, Another, Doubling, Model, World

Change = Callable[[World, int], object]
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
DTYPES = (torch.int8, torch.bool, torch.complex64, torch.bfloat16, torch.uint8, torch.int64)
FORMATS = (torch.channels_last, torch.contiguous_format)
DEVICES = ("meta", "cpu")


def _define(source: str) -> Change:
    return lambda w, n: exec(source.replace("N", str(n)), vars(w.module))


def _enter(kind: str, context: Callable[[], Any]) -> Change:
    return lambda w, n: w.during.__setitem__(kind, context)


def _input(make: Callable[[int], torch.Tensor]) -> Change:
    return lambda w, n: setattr(w, "x", make(n))


def _line(*shape: int) -> torch.Tensor:
    return torch.linspace(-2, 2, math.prod(shape)).view(shape)


def _hook(w: World, n: int) -> None:
    w.handles.append(w.model.act.register_forward_hook(lambda module, args, out: out + n))


def _hook_before(w: World, n: int) -> None:
    hook = w.model.linear.register_forward_pre_hook(lambda module, args: (args[0] * (n + 0.5),))
    w.handles.append(hook)


def _hook_of_a_gradient(w: World, n: int) -> None:
    w.handles.append(w.model.linear.weight.register_hook(lambda gradient: gradient * n))


def _hook_of_gradients(w: World, n: int) -> None:
    def scale(module: nn.Module, inputs: Any, outputs: Any) -> tuple[Any, ...]:
        return tuple(None if each is None else each * n for each in inputs)

    w.handles.append(w.model.linear.register_full_backward_hook(scale))


def _hook_of_all_modules(w: World, n: int) -> None:
    def add(module: nn.Module, args: Any, out: torch.Tensor) -> torch.Tensor | None:
        return out + n if isinstance(module, nn.ReLU) else None

    w.handles.append(nn.modules.module.register_module_forward_hook(add))
    w.stack.callback(w.handles[-1].remove)


def _remove_hook(w: World, n: int) -> None:
    if w.handles:
        w.handles.pop(n % len(w.handles)).remove()


def _swap(w: World, n: int) -> None:
    w.model.linear.weight = nn.Parameter(torch.full((3, 3), 0.5 + n))


def _scale(w: World, n: int) -> None:
    with torch.no_grad():
        w.model.linear.weight.mul_(n + 1)


def _cell(w: World, n: int) -> None:
    w.module.READ.__closure__[0].cell_contents = n + 0.25


def _deterministic(w: World, n: int) -> None:
    torch.use_deterministic_algorithms(n % 2 == 0)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[assignment]


def _set_data(w: World, n: int) -> None:
    weight = w.model.linear.weight
    weight.data = torch.full((3, 3), 0.25 * n, dtype=FLOATS[n % 2], device=weight.device).t()


def _parametrize(w: World, n: int) -> None:
    if n == 0 and parametrize.is_parametrized(w.model.linear, "weight"):
        parametrize.remove_parametrizations(w.model.linear, "weight")
    elif n:
        parametrizations.weight_norm(w.model.linear)


def _rotate(w: World, n: int) -> None:
    layers = [*w.model.layers]
    w.model.layers = nn.ModuleList([*layers[n:], *layers[:n]])


def _swap_layers(w: World, n: int) -> None:
    layers = w.model.layers
    layers[0], layers[-1] = layers[-1], layers[0]


def _order_table(w: World, n: int) -> None:
    pairs = sorted(w.model.table.items(), reverse=n % 2 == 0)
    w.model.table = nn.ParameterDict(dict(pairs))


PYTHON: Final[dict[str, Change]] = {
    "a global number": lambda w, n: setattr(w.module, "SCALE", 0.5 * n),
    "a global integer": lambda w, n: setattr(w.module, "SCALE", n),
    "a global boolean": lambda w, n: setattr(w.module, "SCALE", n % 2 == 0),
    "a global complex number": lambda w, n: setattr(w.module, "SCALE", complex(n, 1)),
    "a global nan": lambda w, n: setattr(w.module, "SCALE", (math.nan, math.inf, -0.0, 0.0)[n]),
    "a global tensor": lambda w, n: setattr(w.module, "SCALE", torch.tensor(0.5 * n)),
    "a global without a value": lambda w, n: vars(w.module).pop("SCALE", None),
    "a global that builtins have": lambda w, n: setattr(w.module, "len", lambda x: n),
    "a builtin": lambda w, n: setattr(builtins, "STATE_PROGRAM", n),
    "a function of math": lambda w, n: w.patch(math, "sqrt", lambda x: x * n + 0.5),
    "an environment variable": lambda w, n: os.environ.__setitem__("STATE_PROGRAM", "x" * n),
    "no environment variable": lambda w, n: os.environ.pop("STATE_PROGRAM", None),
    "a list grows": lambda w, n: w.module.STEPS.append(n),
    "a list shrinks": lambda w, n: w.module.STEPS.pop() if w.module.STEPS else None,
    "a list turned round": lambda w, n: w.module.STEPS.reverse(),
    "a list's element": lambda w, n: w.module.STEPS.__setitem__(slice(0, 1), [n]),
    "a new list": lambda w, n: setattr(w.module, "STEPS", [n]),
    "a tuple": lambda w, n: setattr(w.module, "STEPS", (1, 2, n)),
    "a range": lambda w, n: setattr(w.module, "STEPS", range(n)),
    "a set": lambda w, n: setattr(w.module, "STEPS", {n}),
    "tensors in a list": lambda w, n: setattr(w.module, "STEPS", [torch.tensor(n), n + 0.5]),
    "a dict's value": lambda w, n: w.module.TABLE.__setitem__("bias", n),
    "a dict without a key": lambda w, n: w.module.TABLE.pop("bias", None),
    "a dict with another key": lambda w, n: w.module.TABLE.__setitem__(f"key {n}", n),
    "tensors in another order": lambda w, n: w.module.TABLE["tensors"].reverse(),
    "a tensor written to": lambda w, n: w.module.TABLE["tensors"][0].fill_(n),
    "one tensor twice": lambda w, n: w.module.TABLE.__setitem__("tensors", [torch.ones(3) * n] * 2),
    "a tensor resized": lambda w, n: w.module.TABLE["tensors"][0].resize_(1 + 2 * (n % 2)).zero_(),
    "a global function": _define("activation = lambda x: x * N"),
    "a function defined anew": _define("def activation(x): return x - N"),
    "a function's code": _define("activation.__code__ = (lambda x, y=N: x + y).__code__"),
    "a function's attribute": _define("activation.extra = N"),
    "a default": _define("activation.__defaults__ = (0.25 * N,)"),
    "a keyword's default": _define("activation.__kwdefaults__ = {'shift': N}"),
    "a closure's variable": _cell,
    "the text run again": _define(SOURCE.replace("2.0", "N.5")),
    "the module loaded again": lambda w, n: w.load_again("SCALE = 2.0", f"SCALE = {n}.5"),
    "a function loaded again": lambda w, n: w.load_again("x * slope", f"x * slope - {n}"),
    "a class loaded again": lambda w, n: w.load_again("else -x", f"else -x - {n}"),
    "a class's attribute": lambda w, n: setattr(w.module.Holder, "power", n),
    "a class without an attribute": _define("if 'power' in vars(Holder): del Holder.power"),
    "a property": _define("Holder.power = property(lambda self: N + 0.25)"),
    "a base's attribute": lambda w, n: setattr(w.module.Base, "power", n + 0.75),
    "another base": _define("Holder.__bases__ = (type('Other', (Base,), {'power': N + 5}),)"),
    "an object's attribute": lambda w, n: setattr(w.module.HOLDER, "power", n + 0.5),
    "an object without an attribute": lambda w, n: vars(w.module.HOLDER).pop("power", None),
    "an object's flag": lambda w, n: setattr(w.module.HOLDER, "flag", n % 2 == 0),
    "an object's dict": lambda w, n: setattr(w.module.HOLDER, "__dict__", {"flag": n % 2 == 0}),
    "an object's class": _define(
        "HOLDER.__class__ = type('Late', (Holder,), {'apply': lambda self, x: x * N})"
    ),
    "a class's method": lambda w, n: setattr(w.module.Holder, "apply", lambda self, x: x + n),
    "a static method": _define("Holder.apply = staticmethod(lambda x: x * 2 - N)"),
    "an attribute of a class": _define("Holder.extra = N"),
    "a base's method": lambda w, n: setattr(w.module.Base, "finish", lambda self, x: x + n),
    "an object's method": lambda w, n: setattr(w.module.HOLDER, "apply", lambda x: x - n),
    "another object": _define("HOLDER = Holder(); HOLDER.flag = bool(N % 2)"),
}  # fmt: skip
MODELS: Final[dict[str, Change]] = {
    "a model's attribute": lambda w, n: setattr(w.model, "gain", n + 0.5),
    "a model's method": lambda w, n: setattr(w.model, "forward", lambda x: x * n),
    "a model's class": lambda w, n: setattr(w.model, "__class__", (Model, Another)[n % 2]),
    "a submodule": lambda w, n: setattr(w.model, "act", (nn.Tanh(), nn.Sigmoid())[n % 2]),
    "layers in another order": _rotate,
    "two layers swapped": _swap_layers,
    "one more layer": lambda w, n: w.model.layers.append((nn.Tanh(), nn.ReLU())[n % 2]),
    "a layer gone": lambda w, n: w.model.layers.__delitem__(slice(n, n + 1)),
    "parameters in another order": _order_table,
    "a parameter's name": lambda w, n: w.model.table.update({f"p{n}": torch.full((3,), 0.5)}),
    "training": lambda w, n: w.model.train(n % 2 == 0),
    "a submodule's training": lambda w, n: w.model.layers.train(n % 2 == 0),
    "a layer's number": lambda w, n: [setattr(m, "p", n / 4) for m in w.model.layers],
    "a hook": _hook,
    "a hook before": _hook_before,
    "a hook of a gradient": _hook_of_a_gradient,
    "a hook of gradients": _hook_of_gradients,
    "a hook of all modules": _hook_of_all_modules,
    "a hook gone": _remove_hook,
    "a parameter's values": _scale,
    "another parameter": _swap,
    "a parameter's data": _set_data,
    "a parameter with a norm": _parametrize,
    "a frozen parameter": lambda w, n: w.model.linear.weight.requires_grad_(n % 2 == 0),
    "frozen parameters": lambda w, n: w.model.requires_grad_(n % 2 == 0),
    "no bias": lambda w, n: setattr(w.model.linear, "bias", None),
    "a shared parameter": lambda w, n: setattr(w.model.linear, "bias", w.model.table["b"]),
    "a buffer": lambda w, n: setattr(w.model, "offset", torch.full((3,), float(n))),
    "a buffer's gradient": lambda w, n: w.model.offset.requires_grad_(n % 2 == 0),
    "no buffer": lambda w, n: setattr(w.model, "offset", 0),
    "a dtype of the model": lambda w, n: w.model.to(FLOATS[n]),
    "a dtype of a layer": lambda w, n: w.model.linear.to(FLOATS[n]),
    "a device of the model": lambda w, n: w.model.to(DEVICES[n % 2]),
    "a state dict": lambda w, n: w.model.load_state_dict(
        {k: torch.full_like(v, n) for k, v in w.model.state_dict().items()}, assign=n % 2 == 0
    ),
}  # fmt: skip
INPUTS: Final[dict[str, Change]] = {
    "another size": _input(lambda n: _line(n + 1, 3)),
    "an empty input": _input(lambda n: torch.empty(0, 3)),
    "another rank": _input(lambda n: _line(*[1] * n, 2, 3)),
    "one row": _input(lambda n: _line(3)),
    "integers": _input(lambda n: torch.arange(6).view(2, 3)),
    "halves": _input(lambda n: _line(2, 3).half()),
    "another dtype": _input(lambda n: _line(2, 3).to(DTYPES[n])),
    "another layout": _input(lambda n: _line(3, 2).t()),
    "rows that are one": _input(lambda n: _line(1, 3).expand(n + 1, 3)),
    "an offset": _input(lambda n: _line(3, n + 4)[1:, n : n + 3]),
    "every other column": _input(lambda n: _line(2, 6)[:, ::2]),
    "channels last": _input(lambda n: _line(2, 3, 2, 3).to(memory_format=FORMATS[n % 2])),
    "a conjugate": _input(lambda n: torch.full((2, 3), complex(n, 1)).conj()),
    "nan and inf": _input(lambda n: torch.tensor([math.nan, math.inf, -0.0])),
    "an input with a gradient": _input(lambda n: _line(3).requires_grad_()),
    "a parameter": _input(lambda n: nn.Parameter(_line(n + 1, 3))),
    "an input's attribute": lambda w, n: setattr(w.x, "label", n + 0.5),
    "an input's gradient": lambda w, n: w.x.requires_grad_(n % 2 == 0),
    "an input on another device": _input(lambda n: torch.zeros(2, 3, device=DEVICES[n % 2])),
    "a wrong size": _input(lambda n: torch.ones(2, 4 + n)),
}  # fmt: skip
FLAGS: Final[dict[str, Change]] = {
    "a function of PyTorch": lambda w, n: w.patch(F, "relu", lambda x: x.abs() + n),
    "another function of PyTorch": lambda w, n: w.patch(F, "relu", (F.gelu, F.silu)[n % 2]),
    "a function that layers use": lambda w, n: w.patch(F, "linear", lambda x, w, b=None: x + n),
    "a function of tensors": lambda w, n: w.patch(torch, "where", lambda c, a, b: a * n),
    "a method of tensors": lambda w, n: w.patch(torch.Tensor, "neg", lambda a: a.mul(0.5)),
    "a layer's forward": lambda w, n: w.patch(nn.Linear, "forward", lambda self, x: x - n),
    "no gradients": _enter("grad", torch.no_grad),
    "gradients": _enter("grad", torch.enable_grad),
    "inference": _enter("grad", torch.inference_mode),
    "autocast": _enter("autocast", lambda: torch.autocast("cpu", torch.bfloat16)),
    "autocast to halves": _enter("autocast", lambda: torch.autocast("cpu", torch.float16)),
    "no autocast": _enter("autocast", contextlib.nullcontext),
    "a function mode": _enter("mode", Doubling),
    "no function mode": _enter("mode", contextlib.nullcontext),
    "a device around": _enter("device", lambda: torch.device("meta")),
    "a processor around": _enter("device", lambda: torch.device("cpu")),
    "no device around": _enter("device", contextlib.nullcontext),
    "anomalies": _enter("anomaly", lambda: torch.autograd.set_detect_anomaly(True)),
    "no anomalies": _enter("anomaly", contextlib.nullcontext),
    "a default dtype": lambda w, n: torch.set_default_dtype(FLOATS[n]),
    "a default device": lambda w, n: torch.set_default_device(("cpu", "meta", None)[n % 3]),
    "deterministic algorithms": _deterministic,
}  # fmt: skip
CHANGES = PYTHON | MODELS | INPUTS | FLAGS
