"""Library calls in the wrapper: the fastest Python entry of an operator, its arguments as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import sympy
import torch

from minitorch2.codegen.common import print_expr
from minitorch2.graph.literals import is_literal, literal
from minitorch2.graph.runtime_checks import check
from minitorch2.graph.scope import Scope, keywords, path
from minitorch2.graph.symbols import print_condition
from minitorch2.graph.symbols.conditions import is_condition
from minitorch2.loopir.buffers import Buffer, BufferView, ExternKernel, HostCall, MultiOutput
from minitorch2.loopir.layout import FixedLayout
from minitorch2.native.torch_internals.operators import OpOverload

aten = torch.ops.aten

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "dot")
"""Their results are dense, so strides are certain."""
_OTHERS = (
    "convolution", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
)  # fmt: skip
# torch.mm(a, b) takes 1.3 us where torch.ops.aten.mm.default(a, b) takes 2.3 us.
PRODUCTS = frozenset(getattr(aten, name).default for name in _PRODUCTS)
CHECK = "minitorch2.graph.runtime_checks.check"
_DEFINITIONS = {"rnn_layer": "minitorch2.autograd.decompositions.recurrent"}
"""The modules that define operators of `minitorch2`, where `random_operators` does not."""
FAST_ENTRIES: dict[OpOverload, Callable[..., Any]] = {
    getattr(aten, name).default: getattr(torch, name) for name in (*_PRODUCTS, *_OTHERS)
}
"""Operators with a Python binding of their own."""


def with_layout(
    tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    """Return the tensor with the planned strides; copy it if it has others."""
    actual = tensor.stride()
    if actual == stride or _are_alike(size, actual, stride):
        return tensor
    return copy_to_layout(tensor, size, stride)


@lru_cache(maxsize=4096)
def _are_alike(size: tuple[int, ...], one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether two strides put the elements of a tensor of this size at the same places."""
    if 0 in size:
        return True
    return all(n == 1 or a == b for n, a, b in zip(size, one, other, strict=True))


def copy_to_layout(
    tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    """Copy with the given strides; a sparse gradient, which only leaves the graph, has none."""
    if tensor.layout is not torch.strided:
        return tensor
    copy = torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)


def is_linear(kernel: ExternKernel) -> bool:
    """Return whether a call is ``addmm(bias, x, weight.t())``: it can do without the view."""
    if kernel.target is not aten.addmm.default or kernel.kwargs or len(kernel.args) != 3:
        return False
    bias, _, weight = kernel.args
    if not (isinstance(bias, BufferView) and isinstance(weight, BufferView)):
        return False
    layout, own = weight.layout, weight.buffer.fixed_layout()
    is_transposed = layout.size == own.size[::-1] and layout.stride == own.stride[::-1]
    is_whole = len(own.size) == 2 and layout.offset == own.offset
    return is_transposed and is_whole and len(bias.layout.size) == 1


class ExternPrinter:
    """The printer of calls. Objects without a literal go to `namespace`, under the printed name.

    Args:
        names: those of the wrapper; what a program's author has named gets its name from there.
        reused: for a result, the dead tensor that it is written into.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        view: Callable[[BufferView], str],
        names: Scope,
        reused: Mapping[str, str],
    ) -> None:
        self.namespace = namespace
        self.view = view
        self.names = names
        self.reused = reused
        self.used: dict[str, str] = {}
        self.modules: set[str] = set()
        self.layout_functions: set[str] = set()

    def imports(self) -> list[str]:
        """Return the lines that define the names of the calls printed so far."""
        lines = [f"import {module}" for module in sorted(self.modules)]
        lines += [f"{name} = {expression}" for expression, name in self.used.items()]
        if self.layout_functions:
            names = ", ".join(sorted(self.layout_functions))
            lines.insert(0, f"from minitorch2.codegen.extern import {names}")
        return lines

    def call(self, kernel: ExternKernel) -> list[str]:
        """Print `buf0 = torch_mm(arg0, arg1)`, and a line for the planned strides if needed."""
        if isinstance(kernel, HostCall):
            names = "".join(f"{symbol} = " for symbol in kernel.symbols)
            return [f"{names}{self._call(kernel, None)}"]
        where = self.out(kernel.name)
        if is_linear(kernel):
            linear = self._entry_name("torch.nn.functional.linear", "linear")
            bias, x, transposed = kernel.args
            weight = BufferView(transposed.buffer, transposed.buffer.fixed_layout())
            operands = ", ".join([*map(self.argument, (x, weight, bias)), *where])
            return [f"{kernel.name} = {linear}({operands})"]
        target = kernel.target
        fast = FAST_ENTRIES.get(target) if isinstance(target, OpOverload) else None
        call = self._call(kernel, fast, where)
        if kernel.outputs or target in PRODUCTS:
            return [f"{kernel.name} = {call}"]
        return self._bound(kernel, call, kernel.copies_result)

    def out(self, name: str) -> list[str]:
        """Print the ``out=`` argument if the result gets the memory of a dead tensor."""
        return [f"out={self.reused[name]}"] if name in self.reused else []

    def _call(
        self, kernel: ExternKernel, fast: Callable[..., Any] | None, where: Iterable[str] = ()
    ) -> str:
        arguments = [self.argument(a) for a in kernel.args]
        arguments += keywords({k: self.argument(value) for k, value in kernel.kwargs.items()})
        arguments += where
        return f"{self._entry(kernel.target, fast)}({', '.join(arguments)})"

    def _bound(self, buffer: Buffer, text: str, copies: bool) -> list[str]:
        """Print the result under its name, then its symbols, then its conversion to its layout."""
        layout = buffer.fixed_layout()
        if not buffer.symbols:
            return [f"{buffer.name} = {self._settled(text, layout, copies)}"]
        sizes = [f"{s} = {buffer.name}.size({dim})" for s, dim in buffer.symbols.items()]
        settled = self._settled(buffer.name, layout, copies)
        return [f"{buffer.name} = {text}", *sizes, f"{buffer.name} = {settled}"]

    def output(self, output: MultiOutput) -> list[str]:
        """`buf1 = buf0[1]`"""
        path = "".join(f"[{i}]" for i in output.position)
        text = f"{output.kernel.name}{path}"
        return self._bound(output, text, output.kernel.copies_result)

    def _settled(self, text: str, layout: FixedLayout, copies: bool) -> str:
        function = "copy_to_layout" if copies else "with_layout"
        self.layout_functions.add(function)
        return f"{function}({text}, {self.argument(layout.size)}, {self.argument(layout.stride)})"

    def _entry(self, target: object, fast: Callable[..., Any] | None) -> str:
        if isinstance(target, OpOverload) and fast is not None:
            name = target._overloadpacket.__name__
            return self._entry_name(f"torch.{name}", f"torch_{name}")
        if isinstance(target, OpOverload):
            if target.namespace == "minitorch2":
                name = target._overloadpacket.__name__
                self.modules.add(_DEFINITIONS.get(name, "minitorch2.graph.random_operators"))
            parts = (target.namespace, target._overloadpacket.__name__, target._overloadname)
            return self._entry_name(path("torch.ops", parts), "_".join(parts))
        if target is check:
            self.modules.add(check.__module__)
            return self._entry_name(CHECK, "check")
        return self._named(target)

    def _entry_name(self, expression: str, wish: str) -> str:
        """Return the name that the wrapper gives to an expression."""
        if expression not in self.used:
            self.used[expression] = self.names.fresh(wish)
        return self.used[expression]

    def _named(self, value: object) -> str:
        known = (name for name, other in self.namespace.items() if other is value)
        name = next(known, None) or self.names.fresh(f"object{len(self.namespace)}")
        self.namespace[name] = value
        return name

    def argument(self, value: object) -> str:
        """Return an argument as text."""
        if isinstance(value, BufferView):
            return self.view(value)
        if isinstance(value, tuple):
            return f"({', '.join(map(self.argument, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.argument, value))}]"
        if isinstance(value, sympy.Basic):
            return print_expr(value)
        if is_condition(value):
            return print_condition(value)
        if is_literal(value):
            return literal(value)
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value)
        if isinstance(value, torch.device):
            return f"torch.{value!r}"
        return self._named(value)
