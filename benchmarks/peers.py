"""Other compilers behind our capture: ONNX Runtime and OpenVINO, each where it is installed.

The paper compares TorchInductor with six compilers behind one capture (section 6.2). ONNX Runtime
is one of them. OpenVINO is none of them, and brings a backend of its own. The page
`docs/layers/backends.md` says what the other five need.
"""

import importlib.util
import logging
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import minitorch2
from benchmarks.cases import Case
from minitorch2.autograd import aot_autograd, default_partition
from minitorch2.backends import to_torch_fx
from minitorch2.graph.graph_module import GraphModule

ONNX_RUNTIME, OPENVINO = "ONNX Runtime", "OpenVINO"
NEEDS = {ONNX_RUNTIME: ("onnxruntime", "onnxscript"), OPENVINO: ("openvino",)}
"""The packages that each compiler needs."""

GRADIENTS, BFLOAT16 = "gradients", "bfloat16"
LACKS = {ONNX_RUNTIME: {BFLOAT16}, OPENVINO: {GRADIENTS, BFLOAT16}}
"""What each compiler cannot run. Tensors reach them by NumPy, which has no bfloat16."""

Function = Callable[..., Any]


def onnx_runtime(graph: GraphModule, example_inputs: list[Any]) -> Function:
    """Compile a graph and its gradients by ONNX Runtime: a backend of `minitorch2.compile`."""
    return aot_autograd(
        graph, example_inputs, forward_compiler=session, partition=default_partition,
        decompositions={},
    )  # fmt: skip


def session(graph: GraphModule, example_inputs: list[Any]) -> Function:
    """Return a graph of `aten` as a session of ONNX Runtime, which takes and empties a list."""
    # Deferred: the package is optional.
    import onnxruntime

    (output,) = [node for node in graph.graph.nodes if node.op == "output"]
    is_there = [value is not None for value in output.args[0]]
    run = onnxruntime.InferenceSession(exported(graph, example_inputs))
    names = [each.name for each in run.get_inputs()]

    def call(arguments: list[Any]) -> list[Any]:
        given = [each.detach().contiguous().numpy() for each in arguments]
        arguments.clear()
        found = iter(run.run(None, dict(zip(names, given, strict=True))))
        return [torch.from_numpy(next(found)) if there else None for there in is_there]

    return call


def exported(graph: GraphModule, example_inputs: list[Any]) -> bytes:
    """Return a graph as a file of ONNX; PyTorch's exporter maps its operators."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(action="ignore"):
        program = torch.onnx.export(
            to_torch_fx(graph).eval(), tuple(example_inputs), dynamo=True, verbose=False
        )
    assert program is not None
    return program.model_proto.SerializeToString()


STRICTLY = {"suppress_errors": False}  # or eager PyTorch would be timed in their place

PEERS: dict[str, Callable[[Function], Function]] = {
    ONNX_RUNTIME: partial(minitorch2.compile, backend=onnx_runtime, options=STRICTLY),
    OPENVINO: partial(minitorch2.compile, backend="openvino", options=STRICTLY),
}
"""The compilers by name."""


def is_installed(name: str) -> bool:
    """Return whether the packages are there that a compiler needs."""
    return all(map(importlib.util.find_spec, NEEDS[name]))


def installed_peers() -> dict[str, Callable[[Function], Function]]:
    """Return the compilers that are installed, by name.

    Raises ModuleNotFoundError if none is, with the packages that each needs.
    """
    there = {name: compiler for name, compiler in PEERS.items() if is_installed(name)}
    if not there:
        texts = [f"{name}: pip install {' '.join(needed)}" for name, needed in NEEDS.items()]
        raise ModuleNotFoundError("no other compiler is installed; " + "; ".join(texts))
    return there


def needed_by(case: Case) -> set[str]:
    """Return what a case asks of a compiler; a kernel of bfloat16 says so in its name."""
    asked = {GRADIENTS: case.backward, BFLOAT16: "bf16" in case.name}
    return {name for name, is_asked in asked.items() if is_asked}


def takes(compiler: str, needed: set[str]) -> bool:
    """Return whether a compiler offers all that is needed; those that are no peers do."""
    return LACKS.get(compiler, set()).isdisjoint(needed)
