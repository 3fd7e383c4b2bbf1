"""Grad modes and `autocast` in files: classes with names that torch.jit gives them.

A graph calls `torch.no_grad` as Python code. A file has an object of a class instead, whose methods
switch gradients off and on:

    %1 = prim::PythonOp[no_grad]()      _0 = C.__new__(C)
    prim::Enter(%1)                     _1 = (_0).__init__()
    ...                            -->  with _0:
    prim::Exit(%1)                        ...

torch.jit knows `autocast` by the name of its class, and reads the attributes. It has no inference
mode: there, a file runs without gradients, and its tensors are plain ones.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Final

import torch

from minitorch2.errors import ArchiveError
from minitorch2.script.frontend.emission import Arguments, Emission, SugaredValue
from minitorch2.script.frontend.python_calls import call_python
from minitorch2.script.frontend.python_values import to_sugared_value
from minitorch2.script.ir.dtype_numbers import DTYPES_BY_NUMBER
from minitorch2.script.ir.graph import Node, Value
from minitorch2.script.syntax.source import SourceRange

_GRAD_MODE: Final = """class {name}:
  prev : bool
  mode : bool
  def __init__(self: {qualified}{parameter}) -> NoneType:
    self.prev = torch.is_grad_enabled()
    self.mode = {mode}
{made}    return None
  def __enter__(self: {qualified}) -> NoneType:
{entered}    torch.set_grad_enabled(self.mode)
    return None
  def __exit__(self: {qualified}, type: Any, value: Any, traceback: Any) -> NoneType:
    torch.set_grad_enabled(self.prev)
    return None
"""
_AUTOCAST: Final = """class autocast:
  device : str
  fast_dtype : int
  _enabled : bool
  def __init__(self: {qualified},
    device_type: str,
    dtype: Optional[int]=None,
    enabled: bool=True,
    cache_enabled: Optional[bool]=None) -> NoneType:
    self.device = device_type
    if torch.__is__(dtype, None):
      chosen = torch.get_autocast_dtype(device_type)
    else:
      chosen = unchecked_cast(int, dtype)
    self.fast_dtype = chosen
    self._enabled = enabled
    return None
  def __enter__(self: {qualified}) -> {qualified}:
    return self
  def __exit__(self: {qualified}, type: Any, value: Any, traceback: Any) -> NoneType:
    return None
"""


@dataclass(frozen=True)
class ModeClass:
    """A class of contexts that files and Python have.

    Attributes:
        python_class: what a graph calls.
        name: of the class in files.
        text: its definition there.
        parameters: of its `__init__` there, in order.
    """

    python_class: type
    name: str
    text: str
    parameters: tuple[str, ...] = ()


def _grad_mode(
    python_class: type, mode: str, parameter: str = "", *, acts_at_once: bool = False
) -> ModeClass:
    name = python_class.__name__
    qualified = f"__torch__.torch.autograd.grad_mode.{name}"
    text = _GRAD_MODE.format(
        name=name,
        qualified=qualified,
        parameter=parameter and f", {parameter}: bool",
        mode=mode,
        made="    torch.set_grad_enabled(self.mode)\n" if acts_at_once else "",
        entered="" if acts_at_once else "    self.prev = torch.is_grad_enabled()\n",
    )
    return ModeClass(python_class, qualified, text, (parameter,) if parameter else ())


def _autocast() -> ModeClass:
    name = "__torch__.torch.amp.autocast_mode.autocast"
    parameters = ("device_type", "dtype", "enabled", "cache_enabled")
    return ModeClass(torch.autocast, name, _AUTOCAST.format(qualified=name), parameters)


_MODES: Final = (
    _grad_mode(torch.no_grad, "False"),
    _grad_mode(torch.enable_grad, "True"),
    _grad_mode(torch.set_grad_enabled, "mode", "mode", acts_at_once=True),
    _grad_mode(torch.inference_mode, "torch.__not__(mode)", "mode"),
    _autocast(),
)
_BY_CLASS: Final = {mode.python_class: mode for mode in _MODES}
_BY_NAME: Final = {mode.name: mode for mode in _MODES}
_DEVICES: Final[dict[type, str]] = {
    torch.cpu.amp.autocast: "cpu",
    torch.cuda.amp.autocast: "cuda",
}
"""Classes that torch.jit has, too: `autocast` for one device, with the other arguments."""
_DEVICES_BY_NAME: Final = {
    f"__torch__.{made.__module__}.{made.__name__}": device for made, device in _DEVICES.items()
}


def mode_call(node: Node) -> tuple[ModeClass, list[Any]] | None:
    """Return the class whose object a call of Python code makes, and the arguments for a file.

    The arguments are values of the graph and constants. None stands for other calls.
    """
    function, names = node.attributes["function"], node.attributes.get("keywords", ())
    python_class, given = vars(function).get("mode", (function, node.inputs))
    device = _DEVICES.get(python_class)
    mode = _BY_CLASS.get(torch.autocast if device else python_class)
    if mode is None:
        return None
    first = len(given) - len(names)
    named = dict(zip(names, given[first:], strict=True))
    bound = inspect.signature(python_class).bind(*given[:first], **named)
    bound.apply_defaults()
    values = {"device_type": device, **bound.arguments}
    return mode, [values[name] for name in mode.parameters]


def mode_class_named(name: str) -> ModeValue | None:
    """Return an object, not made yet, of the class of contexts with a name; None for others."""
    device = _DEVICES_BY_NAME.get(name)
    mode = _BY_CLASS[torch.autocast] if device else _BY_NAME.get(name)
    return None if mode is None else ModeValue(mode, device)


class ModeValue(SugaredValue):
    """An object of a mode's class. A call of its `__init__` makes it in the graph."""

    def __init__(self, mode: ModeClass, device: str | None) -> None:
        self.mode = mode
        self.device = device
        self._made: SugaredValue | None = None

    def describe(self) -> str:
        return f"an object of class {self.mode.name}"

    def as_value(self, emission: Emission, where: SourceRange) -> Value:
        if self._made is None:
            raise ArchiveError(f"{self.describe()} is read before it is made", user_line=where)
        return self._made.as_value(emission, where)

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        return self if name == "__init__" else super().attr(emission, name, where)

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        """Insert the call of the Python class; element types are numbers in files."""
        given = [*arguments.positional]
        if self.device is not None:
            enabled, *rest = given
            device = to_sugared_value(self.device, where)
            given = [device, *rest[:1], enabled, *rest[1:]]
        if self.mode.python_class is torch.autocast and type(given[1].constant()) is int:
            given[1] = to_sugared_value(DTYPES_BY_NUMBER[given[1].constant()], where)
        self._made = call_python(emission, self.mode.python_class, Arguments(given), where)
        return to_sugared_value(None, where)
