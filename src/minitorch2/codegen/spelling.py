"""Values as Python expressions that evaluate to equal values in any process.

    expression ::= literal | (expression, ...) | [expression, ...] | {expression: expression, ...}
                |  torch.float32                                    what has a name
                |  minitorch2.autograd.epilogue.Computed(index=0)   a dataclass by its fields
                |  minitorch2.codegen.spelling.tensor(...)          the bytes of a small tensor
                |  minitorch2.codegen.spelling.graph('''...''')     a compiled graph by its module

Any other value has no spelling. Nothing is pickled, so one can read all of it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

import torch

from minitorch2.foundation.module_names import is_in_package
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.literals import is_literal, literal
from minitorch2.graph.names import module_of, qualified_name
from minitorch2.native.torch_internals.operators import OpOverload

MOST_BYTES: Final = 2**16
"""Of a tensor that is spelled."""


class UnspellableError(Exception):
    """A value has no spelling; the message describes it."""


def definitions(
    values: Mapping[str, Any],
    graphs: Mapping[GraphModule, str] | None = None,
    *,
    in_block: bool = False,
) -> str:
    """Python text that gives values their names.

    Args:
        in_block: the text will be indented, so it must not hold texts of several lines.
        graphs: the module's text of each compiled graph that a value holds; None if the values are
            only data, without tensors, graphs and functions.

    Raises:
        UnspellableError: part of a value has no spelling.
    """
    speller = _Speller(graphs, in_block)
    lines = [f"{name} = {speller.spell(value)}" for name, value in values.items()]
    imports = [f"import {module}" for module in sorted(speller.modules)]
    return "".join(f"{line}\n" for line in (*imports, *lines))


class _Speller:
    """The speller of values; ``modules`` are the modules that the expressions need."""

    def __init__(self, graphs: Mapping[GraphModule, str] | None, in_block: bool) -> None:
        self.graphs = graphs
        self.in_block = in_block
        self.modules: set[str] = set()

    def spell(self, value: Any) -> str:
        if is_literal(value):
            return literal(value)
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return self._imported(str(value))
        if isinstance(value, torch.device):
            return f"{self._imported('torch.device')}({str(value)!r})"
        if isinstance(value, (tuple, torch.Size)) and not hasattr(value, "_fields"):
            return f"({''.join(f'{self.spell(item)}, ' for item in value)})"
        if type(value) is list:
            return f"[{self._joined(value)}]"
        if type(value) is frozenset:
            return f"frozenset([{self._joined(sorted(value))}])"
        if type(value) is dict:
            pairs = (f"{self.spell(k)}: {self.spell(v)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        return self._named(value)

    def _joined(self, values: Iterable[Any]) -> str:
        return ", ".join(map(self.spell, values))

    def _named(self, value: Any) -> str:
        if isinstance(value, OpOverload):
            return self._imported(str(qualified_name(value)))
        if is_dataclass(value) and is_in_package(type(value).__module__, "minitorch2"):
            return self._dataclass(value)
        if self.graphs is not None and callable(value):
            return self._function(value, self.graphs)
        if self.graphs is not None and isinstance(value, torch.Tensor):
            return self._tensor(value)
        raise UnspellableError(f"a {type(value).__name__} has no spelling")

    def _function(self, value: Callable[..., Any], graphs: Mapping[GraphModule, str]) -> str:
        if isinstance(value, GraphModule):
            if value not in graphs:
                raise UnspellableError("a graph inside has no spelling")
            return f"{self._imported(f'{__name__}.graph')}({self._text(graphs[value])})"
        name = qualified_name(value)
        if name is None:
            raise UnspellableError(f"no import finds {value}")
        return self._imported(name)

    def _text(self, text: str) -> str:
        return repr(text) if self.in_block else quoted(text)

    def _dataclass(self, value: Any) -> str:
        kind = type(value)
        parts = [f"{f.name}={self.spell(getattr(value, f.name))}" for f in fields(value)]
        return f"{self._imported(f'{kind.__module__}.{kind.__qualname__}')}({', '.join(parts)})"

    def _tensor(self, value: torch.Tensor) -> str:
        if type(value) is not torch.Tensor or value.layout is not torch.strided:
            raise UnspellableError("a constant that is no plain tensor has no spelling")
        if value.numel() * value.itemsize > MOST_BYTES or value.requires_grad:
            raise UnspellableError(f"a constant of size {(*value.shape,)} has no spelling")
        content = value.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes().hex()
        parts = (value.dtype, value.device, (*value.shape,), (*value.stride(),), content)
        return f"{self._imported(f'{__name__}.tensor')}({self._joined(parts)})"

    def _imported(self, name: str) -> str:
        module = module_of(name)
        self.modules |= {module} if module else set()
        return name


def escaped(text: str) -> str:
    """Return a text as it is written between three apostrophes."""
    return text.replace("\\", "\\\\").replace("'''", "\\'\\'\\'")


def quoted(text: str) -> str:
    """Return a text of whole lines as a literal that shows them."""
    return f"'''\\\n{escaped(text)}'''"


def tensor(
    dtype: torch.dtype,
    device: torch.device,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    content: str,
) -> torch.Tensor:
    """Return the tensor with these elements: their bytes in hexadecimal, in row-major order."""
    result = torch.empty_strided(size, stride, dtype=dtype, device=device)
    if content:
        elements = torch.frombuffer(bytearray.fromhex(content), dtype=dtype)
        result.copy_(elements.view(size))
    return result


def graph(text: str) -> Callable[..., Any]:
    """Make a compiled graph of the ``call`` of its module, with one argument for each input."""
    module = types.ModuleType("graph")
    exec(text, vars(module))
    call = module.call
    return lambda *inputs: call([*inputs])
