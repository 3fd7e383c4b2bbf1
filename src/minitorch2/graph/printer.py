"""Print a graph: as Python that runs, or as a table.

A GraphModule executes the Python form, so the printed text is the code that runs. It names the
modules it needs, shows the user's line above each group of operations and the type of each value::

    # File: demo.py:6, code: y = x.sin()
    sin = torch.ops.aten.sin.default(x)  # f32[8, 4]
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import sympy
import torch

from minitorch2.graph.graph import Graph
from minitorch2.graph.literals import is_literal, literal
from minitorch2.graph.names import module_of, qualified_name
from minitorch2.graph.node import Argument, Node
from minitorch2.graph.scope import Scope, is_name, keywords, member, path
from minitorch2.graph.symbols import bindings, expr_of, free_symbols, print_condition, print_expr
from minitorch2.graph.symbols.conditions import is_condition
from minitorch2.graph.symbols.expression import SYMBOLIC
from minitorch2.graph.symbols.floats import FloatOperation

DTYPE_NAMES: Final = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.bool: "b8",
}

_BINARY: Final[dict[Callable[..., Any], str]] = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.pow: "**",
    operator.matmul: "@",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    operator.lshift: "<<",
    operator.rshift: ">>",
}
_UNARY: Final[dict[Callable[..., Any], str]] = {
    operator.neg: "-",
    operator.pos: "+",
    operator.invert: "~",
}


@dataclass
class PrintedCode:
    """``text`` defines ``forward(self, ...)``; ``names`` are values the text cannot import."""

    text: str
    names: dict[str, Any] = field(default_factory=dict)


def print_python(graph: Graph, members: Container[str] = ()) -> PrintedCode:
    """Print the graph as a Python function of ``self`` (the attributes) and the placeholders.

    Args:
        members: what ``self`` has besides the attributes of the graph.
    """
    return _PythonPrinter(graph, members).run()


def type_text(value: Any) -> str:
    """Return ``f32[8, 4]`` for a tensor, a tuple of texts for a tuple, else the type's name."""
    if isinstance(value, torch.Tensor):
        sizes = ", ".join(str(expr_of(size)) for size in value.shape)
        device = "" if value.device.type == "cpu" else f" {value.device}"
        return f"{DTYPE_NAMES.get(value.dtype, str(value.dtype))}[{sizes}]{device}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(type_text(item) for item in value)})"
    return "" if value is None else type(value).__name__


class _PythonPrinter:
    """The printer of one graph. Nodes keep their names; other objects get names that are free."""

    def __init__(self, graph: Graph, members: Container[str]) -> None:
        self.graph = graph
        self.members = members
        self.scope = Scope({"self", *(node.name for node in graph.nodes)})
        self.modules: dict[str, str] = {}
        self.symbols: dict[sympy.Symbol, str] = {}
        self.names: dict[str, Any] = {}
        self.lines: list[str] = []
        self.source: object = None

    def run(self) -> PrintedCode:
        self._bind_symbols()
        for node in self.graph.nodes:
            self._statement(node)
        parameters = "".join(f", {node.name}" for node in self.graph.placeholders)
        modules = sorted(self.modules.items())
        imports = [f"import {m}" if name == m else f"import {m} as {name}" for m, name in modules]
        head = [*imports, *([""] if imports else []), f"def forward(self{parameters}):"]
        body = [f"    {line}" if line else "" for line in self.lines or ["pass"]]
        return PrintedCode("\n".join([*head, *body]) + "\n", self.names)

    def _bind_symbols(self) -> None:
        """``s0 = x.size(0)`` for each size symbol that an argument of some node uses."""
        used: set[sympy.Symbol] = set()
        for node in self.graph.nodes:
            used |= free_symbols((node.args, node.kwargs))
        nodes = {node.name: node for node in self.graph.nodes}
        for symbol in sorted(used, key=str):
            own = nodes.get(symbol.name)
            is_own = own is not None and _is_value_of(own, symbol)
            self.symbols[symbol] = symbol.name if is_own else self.scope.fresh(symbol.name)
        sizes = [pair for node in self.graph.placeholders for pair in symbol_sizes(node)]
        for symbol, text in bindings(sizes, used) if used else ():
            name = self.symbols[symbol]
            self.lines.extend([f"{name} = {text}"] if text != name else [])

    def _statement(self, node: Node) -> None:
        if node.op == "placeholder":
            return
        self._provenance(node)
        if node.op == "output":
            self.lines.append(f"return {self._argument(node.args[0])}")
            return
        comment = type_text(node.meta.get("val"))
        text = f"{node.name} = {self._expression(node)}"
        self.lines.append(f"{text}  # {comment}" if comment else text)

    def _provenance(self, node: Node) -> None:
        source = node.meta.get("source")
        if source is not None and source != self.source:
            self.lines.extend(["", source.comment()] if self.lines else [source.comment()])
        self.source = source or self.source

    def _expression(self, node: Node) -> str:
        if node.op == "get_attr":
            return self._attribute(str(node.target))
        if node.op == "call_module":
            arguments = self._arguments(node.args, node.kwargs)
            return f"{self._attribute(str(node.target))}({arguments})"
        if node.op == "call_method":
            method = member(self._operand(node.args[0]), str(node.target))
            return f"{method}({self._arguments(node.args[1:], node.kwargs)})"
        return self._call(node)

    def _attribute(self, target: str) -> str:
        """Return ``self.blocks.weight``, or a look-up for a path that Python cannot write so."""
        parts = target.split(".")
        is_plain = all(map(is_name, parts)) and parts[0] not in self.members
        return path("self", parts) if is_plain else f"self.lookup({target!r})"

    def _call(self, node: Node) -> str:
        assert callable(node.target)
        operands = [self._operand(argument) for argument in node.args]
        if node.target in _BINARY and len(operands) == 2:
            return f"{operands[0]} {_BINARY[node.target]} {operands[1]}"
        if node.target in _UNARY:
            return f"{_UNARY[node.target]}{operands[0]}"
        if node.target is operator.getitem and isinstance(node.args[1], (int, str)):
            return f"{operands[0]}[{operands[1]}]"
        if node.target is getattr and isinstance(node.args[1], str) and len(node.args) == 2:
            return member(operands[0], node.args[1])
        return f"{self._function(node.target)}({self._arguments(node.args, node.kwargs)})"

    def _function(self, target: Callable[..., Any]) -> str:
        name = qualified_name(target)
        return self._foreign(target) if name is None else self._imported(name)

    def _imported(self, name: str) -> str:
        """Return the expression of a dotted name; its module is renamed if a node has its name."""
        module = module_of(name)
        if module is None:
            return name
        if module not in self.modules:
            root = module.split(".")[0]
            is_known = any(known.split(".")[0] == root for known in self.modules.values())
            is_free = is_known or self.scope.fresh(root) == root
            self.modules[module] = module if is_free else self.scope.fresh(module)
        return path(self.modules[module], name.removeprefix(f"{module}.").split("."))

    def _foreign(self, value: Any) -> str:
        """Return a name for a value that no import reaches; the GraphModule supplies it."""
        known = next((name for name, other in self.names.items() if other is value), None)
        base = str(getattr(value, "__name__", type(value).__name__))
        name = known or self.scope.fresh(f"_{base}")
        self.names[name] = value
        return name

    def _arguments(self, args: Iterable[Argument], kwargs: Any) -> str:
        positional = [self._argument(value) for value in args]
        by_key = {key: self._argument(value) for key, value in kwargs.items()}
        return ", ".join([*positional, *keywords(by_key)])

    def _operand(self, value: Argument) -> str:
        text = self._argument(value)
        needs_brackets = isinstance(value, (int, float)) and text.startswith("-")
        return f"({text})" if needs_brackets or isinstance(value, sympy.Expr) else text

    def _argument(self, value: Argument) -> str:
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple):
            texts = ", ".join(map(self._argument, value))
            return f"({texts},)" if len(value) == 1 else f"({texts})"
        if isinstance(value, list):
            return f"[{', '.join(self._argument(item) for item in value)}]"
        if isinstance(value, dict):
            items = (f"{self._argument(k)}: {self._argument(v)}" for k, v in value.items())
            return f"{{{', '.join(items)}}}"
        if isinstance(value, slice):
            bounds = (value.start, value.stop, value.step)
            return f"slice({', '.join(map(self._argument, bounds))})"
        return self._constant(value)

    def _constant(self, value: Argument) -> str:
        if is_literal(value):
            return literal(value)
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return self._imported(str(value))
        if isinstance(value, torch.device):
            return f"{self._imported('torch.device')}({str(value)!r})"
        if isinstance(value, sympy.Expr):
            if value.has(FloatOperation):
                self._imported("math.sqrt")
            return print_expr(value, self.symbols)
        if is_condition(value):
            return print_condition(value, self.symbols)
        return self._function(value) if callable(value) else self._foreign(value)


def _is_value_of(node: Node, symbol: sympy.Symbol) -> bool:
    """Return whether a node with a symbol's name computes that symbol, or has no value at all."""
    value = node.meta.get("val")
    is_number = isinstance(value, SYMBOLIC) and free_symbols(value) == {symbol}
    return is_number or (value is None and node.op.startswith("call"))


def symbol_sizes(node: Node, name: str = "") -> Iterable[tuple[Any, str]]:
    """Yield the expressions that a placeholder's value carries, and the text that loads each.

    Args:
        name: what the text calls the placeholder; its own name by default.
    """
    value, name = node.meta.get("val"), name or node.name
    if isinstance(value, torch.Tensor):
        for dimension, size in enumerate(value.shape):
            yield expr_of(size), f"{name}.size({dimension})"
    elif isinstance(value, (torch.SymInt, torch.SymFloat)):
        yield expr_of(value), name
