"""Make parameters constants of the graph.

Law::

    w = placeholder, a parameter      -->      w = get_attr("frozen_w"), its value now

The pass is for inference only (``options={"freezing": True}``). A change of the weights afterwards
has no effect, since they are copied. Parameters that the graph writes to stay inputs. Nodes that
depend on parameters only are then computed once (``fold_constants``; PyTorch 2 paper, section 6.4).
The graph keeps its inputs: nothing reads a placeholder that was frozen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from minitorch2.graph.effects import may_be_written
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.graph.rewriting import Rewrite, graph_pass


@graph_pass
def freeze_parameters(module: GraphModule, example_inputs: Sequence[Any]) -> Iterator[Rewrite]:
    """Freeze the parameters among the inputs, and buffers of modules."""
    for node, value in zip(module.graph.placeholders, example_inputs, strict=True):
        if node.users and is_parameter(node, value) and not may_be_written(node):
            yield Rewrite("a parameter is a constant", node)
            _freeze(module, node, value)


def is_parameter(node: Node, value: Any) -> bool:
    """Return whether an input is a parameter, or a buffer by the mark that capture gives it."""
    return isinstance(value, torch.nn.Parameter) or (
        isinstance(value, torch.Tensor) and bool(node.meta.get("buffer"))
    )


def _freeze(module: GraphModule, node: Node, value: torch.Tensor) -> None:
    name = module.graph.unique_name(f"frozen_{node.name}")
    with module.graph.inserting_after(module.graph.placeholders[-1]):
        constant = module.graph.create_node("get_attr", name, name=name)
    constant.name = name
    constant.meta = {**node.meta, "frozen": True}
    module.attributes[name] = value.detach().clone()
    node.replace_all_uses_with(constant)
