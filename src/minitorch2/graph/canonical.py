"""One text, and one hash, for all graphs that are the same but for names and order.

The canonical text of a graph is what its canonical copy prints::

    text     ::= input* function constant*
    input    ::= # x<i>: <type>                  the i-th input: sizes, strides, dtype, device
    function ::= what the printer prints          see ``printer.py``
    constant ::= # <name> = <description>        what the function cannot import

In the canonical copy

- the i-th input is called ``x<i>``: the order of the inputs is how the graph is called, so it
  counts;
- what nobody reads and has no effect is left out; the others come in the order in which a walk from
  the effects (in their order) and the output, inputs first, from left to right, meets them. Where
  anything writes to memory the order of the program counts, and stays;
- they are called ``v0, v1...`` in that order, tensors and submodules of the graph ``c0, c1...``,
  symbols of sizes ``s0, s1...`` as they occur in the inputs, those first that operations use;
- keyword arguments are sorted; types of intermediate values and lines of the program are dropped.

So two graphs with one text compute the same on the same inputs. Not the reverse: ``x + 1`` and
``1 + x`` have different texts. A function is its name, a constant its content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

import sympy
import torch

from minitorch2.graph.effects import is_impure, is_random
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.names import qualified_name
from minitorch2.graph.node import Argument, Node, append_with_inputs, map_items, map_nodes
from minitorch2.graph.printer import print_python, symbol_sizes
from minitorch2.graph.raising import must_run
from minitorch2.graph.runtime_checks import is_check
from minitorch2.graph.symbol_nodes import is_symbol_node
from minitorch2.graph.symbols import expr_of, free_symbols
from minitorch2.graph.symbols.conditions import is_condition

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device,
                 torch.layout, torch.memory_format)  # fmt: skip


def graph_hash(module: GraphModule, *, types: bool = True) -> str:
    """Return the SHA-256 of a graph's canonical text, the same in every process.

    Args:
        types: whether sizes, strides, dtypes and devices of the inputs count.

    Raises TypeError where the graph holds a value that exists in this process only. That is a
    function that no import reaches, or an object that is neither a tensor nor made of plain values.

    >>> from minitorch2.graph.graph import Graph
    >>> def product(name):
    ...     graph = Graph()
    ...     x = graph.placeholder(name)
    ...     _ = graph.output((graph.call_function(torch.mul, (x, 2)),))
    ...     return GraphModule(graph)
    >>> graph_hash(product("x")) == graph_hash(product("rate"))
    True
    """
    return hashlib.sha256(canonical_text(module, types=types).encode()).hexdigest()


def canonical_text(module: GraphModule, *, types: bool = True) -> str:
    """Return the text that `graph_hash` hashes (see the module's docstring); TypeError as there."""
    copy = _CanonicalCopy(module)
    inputs = [copy.input_text(node, types) for node in module.graph.placeholders]
    printed = print_python(copy.graph)
    constants = {**copy.attributes, **printed.names}
    described = [f"# {name} = {_described(value)}" for name, value in constants.items()]
    return "\n".join([*filter(None, inputs), printed.text, *described])


class _CanonicalCopy:
    """The canonical copy of a graph; ``attributes`` are its constants by their new names."""

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.graph = Graph()
        self.attributes: dict[str, Any] = {}
        self.copies: dict[Node, Node] = {}
        self.symbols: dict[sympy.Symbol, sympy.Symbol] = {}
        self._name_symbols()
        for node in [*module.graph.placeholders, *_canonical_order(module.graph)]:
            self.copies[node] = self._copy(node)

    def _name_symbols(self) -> None:
        nodes = self.module.graph.nodes
        self.used = free_symbols([(node.args, dict(node.kwargs)) for node in nodes])
        sizes = [size for node in self.module.graph.placeholders for size, _ in symbol_sizes(node)]
        found = [symbol for size in sizes for symbol in sorted(free_symbols(size), key=str)]
        for symbol in sorted(found, key=lambda symbol: symbol not in self.used):
            self.symbols.setdefault(str(symbol), f"s{len(self.symbols)}")

    def _copy(self, node: Node) -> Node:
        if node.op == "placeholder":
            return self.graph.placeholder(f"x{len(self.copies)}")
        name, target = f"v{len(self.copies)}", node.target
        if node.op in ("get_attr", "call_module"):
            target = self._constant(self.module.lookup(str(target)))
        if is_symbol_node(node):
            self.symbols[node.name] = name
        given = map_nodes((node.args, dict(sorted(node.kwargs.items()))), self.copies.get)
        args, kwargs = self._renamed(given)
        return self.graph.create_node(node.op, target, args, kwargs, name)

    def _constant(self, value: Any) -> str:
        known = (name for name, other in self.attributes.items() if other is value)
        name = next(known, f"c{len(self.attributes)}")
        self.attributes[name] = value
        return name

    def _renamed(self, value: Argument) -> Argument:
        """Return an argument with the original graph's symbols replaced by those of this copy."""
        if isinstance(value, sympy.Basic):
            return value.xreplace({s: self._symbol(s) for s in free_symbols(value)})
        if is_condition(value):
            return value.map(self._renamed)
        return map_items(value, self._renamed)

    def _symbol(self, symbol: sympy.Symbol) -> sympy.Symbol:
        name = self.symbols.get(str(symbol), str(symbol))
        return sympy.Symbol(name, **symbol.assumptions0)

    def input_text(self, node: Node, types: bool) -> str:
        """Return the line about an input: its type, or only where the used symbols come from."""
        exprs = [expr_of(size) for size, _ in symbol_sizes(node)]
        sizes = [self._renamed(expr) for expr in exprs]
        name, value = self.copies[node].name, node.meta.get("val")
        if not types:
            is_used = [not self.used.isdisjoint(free_symbols(expr)) for expr in exprs]
            symbolic = [str(size) if yes else "_" for size, yes in zip(sizes, is_used, strict=True)]
            return f"# {name}: [{', '.join(symbolic)}]" if any(is_used) else f"# {name}"
        if not isinstance(value, torch.Tensor):
            return f"# {name}: {type(value).__name__} {sizes}" if sizes else f"# {name}"
        strides = [self._renamed(expr_of(step)) for step in value.stride()]
        grad = " requires_grad" if value.requires_grad else ""
        return f"# {name}: {value.dtype} {value.device} {sizes} strides {strides}{grad}"


def _canonical_order(graph: Graph) -> list[Node]:
    """Return the nodes to compute in an order that names do not change; the output comes last."""
    nodes = [node for node in graph.nodes if node.op != "placeholder"]
    effects = [n for n in nodes if n.op != "output" and (must_run(n) or n.meta.get("impure"))]
    counted = {node.name: node for node in nodes if is_symbol_node(node)}

    def inputs(node: Node) -> list[Node]:
        symbols = free_symbols((node.args, dict(node.kwargs)))
        used = sorted(counted.keys() & set(map(str, symbols)))
        return [*node.all_input_nodes, *(counted[name] for name in used)]

    done, order = set(graph.placeholders), list[Node]()
    for root in [*effects, graph.output_node]:
        append_with_inputs(root, done, order, inputs)
    if all(_may_move(node) for node in effects):
        return order
    return [node for node in nodes if node in done]  # some may write


def _may_move(node: Node) -> bool:
    """Return whether other nodes may run before a node with an effect: it draws, or may raise."""
    is_silent = not is_impure(node) and not node.meta.get("impure")
    return is_silent or is_random(node) or is_check(node)


# Constants


def _described(value: Any) -> str:
    """Describe a value by its content, never by its address; raise TypeError if that is unknown."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, GraphModule):
        return f"{{\n{canonical_text(value, types=False)}\n}}"  # types follow from the caller's
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(_described, value))})"
    if isinstance(value, Mapping):
        items = (f"{_described(key)}: {_described(item)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, torch.nn.Module):
        return _object(value, _parts_of(value))
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value, {f.name: getattr(value, f.name) for f in fields(value)})
    name = qualified_name(value) if callable(value) else None
    if name is None:
        raise TypeError(f"a graph with {value!r} in it has no hash that other processes know")
    return name


def _object(value: object, parts: Mapping[str, Any]) -> str:
    return f"{_described(type(value))} {_described(parts)}"


def _tensor(value: torch.Tensor) -> str:
    if value.layout is not torch.strided or value.is_quantized:
        raise TypeError(f"a tensor with layout {value.layout} has no hash")
    plain = value.detach().resolve_conj().resolve_neg().cpu().contiguous().flatten()
    content = hashlib.sha256(plain.view(torch.uint8).numpy().tobytes()).hexdigest()
    kind = f"{value.dtype} {value.device} {tuple(value.shape)} {value.stride()}"
    return f"{kind} {value.requires_grad} {content}"


def _parts_of(module: torch.nn.Module) -> dict[str, Any]:
    """Return a submodule's attributes, hooks, parameters, buffers and submodules by name."""
    attributes = {key: value for key, value in vars(module).items() if not key.startswith("_")}
    hooks = {key: value for key, value in vars(module).items() if key.endswith("hooks") and value}
    held = (module._parameters, module._buffers, module._modules)
    return {**attributes, **hooks, **{key: part for parts in held for key, part in parts.items()}}
