"""``python -m minitorch2.bytecode``: the slides' toy example from bytecode to graphs, guards and
residual code, with a backend that runs each graph as it is.
"""

import sys
from types import FunctionType
from typing import cast

import torch

from minitorch2 import stages
from minitorch2.bytecode.dispatch import Dispatcher, Region
from minitorch2.bytecode.machine.disassemble import disassemble
from minitorch2.graph.graph_module import GraphModule


def toy_example(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Run the toy example of the PyTorch 2 slides, whose branch depends on data."""
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def run_as_captured(module: GraphModule, inputs: list[torch.Tensor]) -> GraphModule:
    """Return the graph module itself, which is callable: the simplest backend."""
    return module


def main() -> None:
    """Print the canonical instructions, then every stage of two captured calls."""
    sys.stdout.write("--- canonical instructions\n")
    for instruction in disassemble(toy_example.__code__):
        sys.stdout.write(f"{instruction}\n")
    with stages.collect() as log:
        fast = Dispatcher(Region(run_as_captured), cast(FunctionType, toy_example)).as_function()
        for b in (torch.ones(10), -torch.ones(10)):
            fast(torch.randn(10), b)
    for stage in log.stages:
        sys.stdout.write(f"\n--- {stage.name}\n{stage.text.rstrip()}\n")
    sys.stdout.write(f"\ngraphs: {log.counts['graphs']}\n")


if __name__ == "__main__":
    main()
