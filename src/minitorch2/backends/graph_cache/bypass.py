"""Graphs that are compiled without a look into the cache, and the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import torch

from minitorch2 import config, logs, stages
from minitorch2.bytecode.guards.torch_state import STATE_READERS
from minitorch2.cache import STATISTICS
from minitorch2.codegen.target import Target
from minitorch2.foundation.module_names import is_in_package
from minitorch2.graph.extensions import EXTENSIONS
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.names import qualified_name
from minitorch2.graph.node import Node
from minitorch2.native.torch_internals import gradients
from minitorch2.native.torch_internals.operators import OpOverload, OpOverloadPacket

LAYER: Final = "graph"
"""Of the cache's entries and statistics."""
REASONS: Final[Counter[str]] = Counter()
"""How often graphs of this process were left out, and why."""
_ROOTS: Final = frozenset(["builtins", "math", "minitorch2", "operator", "torch"])
_LIBRARIES: Final = frozenset(["aten", "minitorch2", "prims"])
"""Whose code does not change while the versions in the key are the same."""
_PLAIN_TENSORS: Final = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_COMPILING: Final = ("graph", "autograd", "loopir", "native")
"""The packages that are at work only where a graph is compiled, for what their logs show."""
ALWAYS_MADE: Final = frozenset([
    "source", "bytecode", "graph", "graph_code", "graph_breaks", "guards", "recompiles",
    "residual_code", "output_code",
])  # fmt: skip
"""The artifacts of capture, and the one that a cached graph is."""
_STAGES: Final = tuple(
    stage
    for artifact in logs.ARTIFACTS
    for stage in artifact.stages
    if artifact.name not in ALWAYS_MADE
)
"""What is made only where a graph is compiled."""
_NO_MODES: Final = ("function modes", "dispatch modes", "tracing by torch.jit")


class Bypass(Exception):
    """A graph is not looked up, and not stored; the message says why."""


def note_bypass(reason: str) -> None:
    """Count a bypass by its reason."""
    STATISTICS[LAYER].bypassed += 1
    REASONS[reason] += 1
    stages.count("graphs_bypassed")


def is_unwanted(target: Target[Any]) -> bool:
    """Return whether every graph is compiled anew: the cache is off, or compilation is observed."""
    options = config.current()
    logged = (*_COMPILING, f"codegen.{target.name}")
    is_watched = any(map(stages.wanted, _STAGES)) or any(map(logs.are_read, logged))
    return not options.cache or options.verify or is_watched


def check(module: GraphModule, examples: Sequence[Any], target: Target[Any]) -> None:
    """Raise `Bypass` for a graph that no key or no entry can describe."""
    options = config.current()
    if options.freezing and not torch.is_grad_enabled():
        raise Bypass("parameters are constants")
    if reason := target.why_not_kept():
        raise Bypass(reason)
    if EXTENSIONS:
        raise Bypass(f"the compiler is extended by {EXTENSIONS[0]}")
    _check_state()
    _check_inputs(module, examples)
    for value in _held_by(module):
        if not _is_known(value):
            name = getattr(value, "__qualname__", None) or str(value)
            raise Bypass(f"it calls {name}, which may change")


def _check_state() -> None:
    active = {name for name, reader in STATE_READERS if reader()}
    for name in _NO_MODES:
        if name in active:
            raise Bypass(f"there are {name}")
    if gradients.are_transforms_active():
        raise Bypass("it is transformed by torch.func")
    if gradients.innermost_saved_tensor_hooks(False) is not None:
        raise Bypass("hooks change what is saved for backward")


def _check_inputs(module: GraphModule, examples: Sequence[Any]) -> None:
    for node, example in zip(module.graph.placeholders, examples, strict=True):
        if not isinstance(example, torch.Tensor):
            continue
        if type(example) not in _PLAIN_TENSORS or example.layout is not torch.strided:
            raise Bypass(f"an input is a {type(example).__name__}, {example.layout}")
        if not isinstance(node.meta.get("val"), FakeTensor):
            raise Bypass("its inputs are not described")


def _held_by(module: GraphModule) -> Iterator[Any]:
    """Yield the functions that a graph and its inner graphs call, and the objects in them."""
    for node in module.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            raise Bypass("it holds tensors or modules")
        target = node.target if node.op == "call_function" else None
        yield from _parts((target, node.args, node.kwargs))


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _parts(item)
    elif isinstance(value, Mapping):
        yield from _parts((*value.keys(), *value.values()))
    elif isinstance(value, GraphModule):
        yield from _held_by(value)
    elif is_dataclass(value) and is_in_package(type(value).__module__, "minitorch2"):
        yield from _parts([getattr(value, field.name) for field in fields(value)])
    elif callable(value) and not isinstance(value, Node):
        yield value


def _is_known(function: Any) -> bool:
    """Return whether a function is PyTorch's, Python's or ours."""
    if isinstance(function, OpOverload | OpOverloadPacket):
        return str(qualified_name(function)).split(".")[2] in _LIBRARIES
    name = qualified_name(function)
    return name is not None and ("." not in name or name.split(".")[0] in _ROOTS)
