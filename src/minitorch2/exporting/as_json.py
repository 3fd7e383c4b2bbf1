"""Graphs, signatures and values as JSON, and back. Reading resolves a short list of names only.

value  ::= null | true | 1 | 1.5 | "text" | [value, ...]
         | {"float": "inf"} | {"complex": [re, im]} | {"tuple": [value, ...]}
         | {"dict": [[value, value], ...]} | {"slice": [value, value, value]}
         | {"torch": "float32"} | {"device": "cpu"} | {"node": "add_1"}
node   ::= {"name", "target", "args": value, "kwargs": value}
target ::= "torch.ops.aten.add.Tensor" | "operator.mul" | "math.sqrt" | "max" | ...
tree   ::= "leaf" | {"kind": "tuple", "parts": [tree, ...]} | {"kind": "dict", "keys", "parts"}
"""

from __future__ import annotations

import builtins
import math
import operator
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

import torch

from minitorch2.errors import ExportError
from minitorch2.exporting.signature import Condition, Input, Output, Signature, Symbol, TensorForm
from minitorch2.native.torch_internals.pytree import TreeSpec, tree_flatten

_OF_TORCH: Final = (torch.dtype, torch.layout, torch.memory_format)
_BUILTINS: Final = ("abs", "float", "int", "max", "min", "round")
_OF_MODULES: Final = {"operator": operator, "math": math}
_CHECK: Final = "minitorch2.graph.runtime_checks.check"
_SYMBOLIC: Final = ("sym_float", "sym_int", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_ite")

# Values -------------------------------------------------------------------------------------------


def write_value(value: Any, name_of: Callable[[Any], str | None] = lambda _: None) -> Any:
    """Return a value as JSON.

    Args:
        name_of: the name of a node; None for what is none.

    Raises:
        ExportError: a file cannot hold a value of this class.
    """
    name = name_of(value)
    if name is not None:
        return {"node": name}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, _OF_TORCH):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, slice):
        return {"slice": [write_value(v, name_of) for v in (value.start, value.stop, value.step)]}
    if isinstance(value, list):
        return [write_value(part, name_of) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [write_value(part, name_of) for part in value]}
    if isinstance(value, Mapping):
        return {"dict": [[write_value(k), write_value(v, name_of)] for k, v in value.items()]}
    raise ExportError(
        f"a file cannot hold {value!r}, of class {type(value).__name__}",
        code="export", fix="take and return tensors, numbers, texts and containers of them",
    )  # fmt: skip


def read_value(value: Any, nodes: Mapping[str, Any] | None = None) -> Any:
    """Return the value that JSON stands for; KeyError or TypeError if it stands for none."""
    if isinstance(value, list):
        return [read_value(part, nodes) for part in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "node":
        return (nodes or {})[content]
    return _READERS[kind](content, nodes)


def _torch_value(content: str) -> Any:
    found = getattr(torch, content)
    if not isinstance(found, _OF_TORCH):
        raise KeyError(content)
    return found


_READERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "float": lambda content, _: float(content),
    "complex": lambda content, _: complex(*content),
    "torch": lambda content, _: _torch_value(content),
    "device": lambda content, _: torch.device(content),
    "slice": lambda content, nodes: slice(*(read_value(part, nodes) for part in content)),
    "tuple": lambda content, nodes: tuple(read_value(part, nodes) for part in content),
    "dict": lambda content, nodes: {read_value(k): read_value(v, nodes) for k, v in content},
}


def read_target(name: str) -> Callable[..., Any]:
    """Return the function that a target names: an operator, or arithmetic of Python's.

    Raises:
        ExportError: there is no such operator here, or the name is not on the list.
    """
    head, _, rest = name.rpartition(".")
    found: Any = None
    if name.startswith("torch.ops."):
        found = _operator_called(name.removeprefix("torch.ops.").split("."))
    elif head in _OF_MODULES and not rest.startswith("_"):
        found = getattr(_OF_MODULES[head], rest, None)
    elif (head == "" and rest in _BUILTINS) or (head == "torch" and rest in _SYMBOLIC):
        found = getattr(torch if head else builtins, rest)
    elif name == _CHECK:
        from minitorch2.graph.runtime_checks import check  # needed by few graphs

        found = check
    if not callable(found):
        raise ExportError(
            f"the graph calls {name}, which is not known here",
            code="export-file", fix="import the module that registers the operator before loading",
        )  # fmt: skip
    return found  # type: ignore[no-any-return]


def _operator_called(parts: list[str]) -> Any:
    found: Any = torch.ops
    try:
        for part in parts:
            found = getattr(found, part)
    except AttributeError:
        return None
    return found


# Structures ---------------------------------------------------------------------------------------


def write_tree(spec: TreeSpec) -> Any:
    """Return a structure of containers as JSON; classes of dicts become dicts.

    Raises:
        ExportError: it has a class of containers that a file cannot hold.
    """
    if spec.is_leaf():
        return "leaf"
    parts = [write_tree(part) for part in spec.children()]
    kind = spec.type
    if kind in (tuple, list):
        return {"kind": kind.__name__, "parts": parts}
    if kind is namedtuple:
        made = spec.context
        return {"kind": "namedtuple", "name": made.__name__, "keys": made._fields, "parts": parts}
    keys = spec.context
    if kind is dict or (isinstance(kind, type) and issubclass(kind, OrderedDict)):
        names = [write_value(key) for key in (keys if isinstance(keys, list) else list(keys[0]))]
        return {"kind": "dict", "keys": names, "parts": parts}
    raise ExportError(
        f"a file cannot hold the container {getattr(kind, '__name__', kind)}",
        code="export", fix="take and return tuples, lists, dicts and named tuples",
    )  # fmt: skip


def read_tree(tree: Any) -> TreeSpec:
    """Return the structure that `write_tree` has written."""
    return tree_flatten(_skeleton(tree))[1]


def _skeleton(tree: Any) -> Any:
    """Return containers of this structure, with zeros as leaves."""
    if tree == "leaf":
        return 0
    parts = [_skeleton(part) for part in tree["parts"]]
    kind = tree["kind"]
    if kind == "namedtuple":
        return namedtuple(tree["name"], tree["keys"])(*parts)
    if kind == "dict":
        return dict(zip(map(read_value, tree["keys"]), parts, strict=True))
    return {"tuple": tuple, "list": list}[kind](parts)


# Signatures ---------------------------------------------------------------------------------------


def write_signature(signature: Signature) -> dict[str, Any]:
    """Return a signature as JSON."""
    return {
        "inputs": [_fields(each) for each in signature.inputs],
        "outputs": [_fields(each) for each in signature.outputs],
        "symbols": {name: _fields(symbol) for name, symbol in signature.symbols.items()},
        "conditions": [_fields(each) for each in signature.conditions],
        "arguments": write_tree(signature.arguments),
        "results": write_tree(signature.results),
    }


def read_signature(content: dict[str, Any]) -> Signature:
    """Return the signature that `write_signature` has written."""
    return Signature(
        tuple(_read(Input, each) for each in content["inputs"]),
        tuple(_read(Output, each) for each in content["outputs"]),
        {name: _read(Symbol, each) for name, each in content["symbols"].items()},
        tuple(_read(Condition, each) for each in content["conditions"]),
        read_tree(content["arguments"]),
        read_tree(content["results"]),
    )


def _fields(record: Any) -> dict[str, Any]:
    """Return the fields of a record of the signature."""
    found = {field.name: getattr(record, field.name) for field in fields(record)}
    form = found.pop("form", None)
    written = {name: write_value(value) for name, value in found.items()}
    return written if form is None else {**written, "form": _fields(form)}


def _read(kind: type[Any], content: dict[str, Any]) -> Any:
    given = {name: read_value(value) for name, value in content.items() if name != "form"}
    if "form" in content:
        given["form"] = _read(TensorForm, content["form"])
    return kind(**given)
