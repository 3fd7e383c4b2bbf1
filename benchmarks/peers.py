"""Other compilers behind our capture: ONNX Runtime, TVM and OpenVINO, each where it is installed.

The paper compares TorchInductor with six compilers behind one capture (section 6.2). ONNX Runtime
and TVM are two of them. OpenVINO is none of them, and brings a backend of its own. The program
tries all seven here, and prints what came of it: `python -m benchmarks.peers`.
"""

import importlib.util
import logging
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import minitorch2
from benchmarks.cases import Case
from minitorch2.autograd import aot_autograd, default_partition
from minitorch2.backends import to_torch_fx
from minitorch2.backends.fx_interop import adapt_fx_backend
from minitorch2.graph.graph_module import GraphModule

ONNX_RUNTIME, OPENVINO, TVM = "ONNX Runtime", "OpenVINO", "TVM"
NEEDS = {
    ONNX_RUNTIME: ("onnxruntime", "onnxscript"), OPENVINO: ("openvino",), TVM: ("tvm",),
}  # fmt: skip
"""The modules that each compiler needs."""
PACKAGES = {"tvm": "apache-tvm"}
"""The packages of modules that have another name."""

GRADIENTS, BFLOAT16 = "gradients", "bfloat16"
LACKS = {ONNX_RUNTIME: {BFLOAT16}, OPENVINO: {GRADIENTS, BFLOAT16}, TVM: {GRADIENTS, BFLOAT16}}
"""What each compiler cannot run. Tensors reach ONNX Runtime and OpenVINO by NumPy, which has no
bfloat16. TVM's reader of exported programs has no operators of backward passes."""

Function = Callable[..., Any]


def by(
    compiler: Callable[[GraphModule, list[Any]], Function],
    graph: GraphModule, example_inputs: list[Any],
) -> Function:  # fmt: skip
    """Compile a graph of operators of `aten` for what it computes, and one for its gradients."""
    return aot_autograd(
        graph, example_inputs, forward_compiler=compiler, partition=default_partition,
        decompositions={},
    )  # fmt: skip


def tvm_machine(graph: GraphModule, example_inputs: list[Any]) -> Function:
    """Return a graph of `aten` as a program of TVM's virtual machine; no schedule is tuned."""
    # Deferred: the package is optional.
    import tvm

    # Deferred, as above.
    from tvm.relax import VirtualMachine

    # Deferred, as above.
    from tvm.relax.frontend.torch import from_exported_program

    # Deferred, as above.
    from tvm.target.codegen import llvm_get_system_cpu

    module = to_torch_fx(graph).eval()
    for node in module.graph.nodes:  # attention is exported with other strides than it has
        if node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default
    module.recompile()
    with warnings.catch_warnings(action="ignore"):
        program = torch.export.export(module, tuple(example_inputs))
    target = tvm.target.Target({"kind": "llvm", "mcpu": llvm_get_system_cpu()})
    made = tvm.compile(from_exported_program(program), target=target)
    run = VirtualMachine(made, tvm.cpu())["main"]

    def call(arguments: list[Any]) -> list[Any]:
        given = [tvm.runtime.from_dlpack(each.detach().contiguous()) for each in arguments]
        arguments.clear()
        return [torch.from_dlpack(each) for each in run(*given)]

    return call


def session(graph: GraphModule, example_inputs: list[Any]) -> Function:
    """Return a graph of `aten` as a session of ONNX Runtime, which takes and empties a list."""
    # Deferred: the package is optional.
    import onnxruntime

    (output,) = [node for node in graph.graph.nodes if node.op == "output"]
    is_there = [value is not None for value in output.args[0]]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    # Or its threads wait busily, and eager mode, whose turn it is, finds no core.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    run = onnxruntime.InferenceSession(exported(graph, example_inputs), options)
    names = [each.name for each in run.get_inputs()]

    def call(arguments: list[Any]) -> list[Any]:
        given = [each.detach().contiguous().numpy() for each in arguments]
        arguments.clear()
        found = iter(run.run(None, dict(zip(names, given, strict=True))))
        return [torch.from_numpy(next(found)) if there else None for there in is_there]

    return call


def exported(graph: GraphModule, example_inputs: list[Any]) -> bytes:
    """Return a graph as a file of ONNX; PyTorch's exporter maps its operators.

    Raises NotImplementedError for an operator that the exporter does not know.
    """
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            program = torch.onnx.export(
                to_torch_fx(graph).eval(), tuple(example_inputs), dynamo=True, verbose=False
            )
    except torch.onnx.errors.OnnxExporterError as error:
        named = re.search(r"torch\.ops\.([\w.]+)", str(error.__cause__))
        what = named[1] if named else error.__cause__
        raise NotImplementedError(f"PyTorch's exporter to ONNX has no {what}") from error
    assert program is not None
    return program.model_proto.SerializeToString()


def openvino(graph: GraphModule, example_inputs: list[Any]) -> Function:
    """Compile a graph by OpenVINO's own backend of `torch.compile`, in the precision of eager.

    By default it rounds products to bfloat16 where the processor has units for that.
    """
    # Deferred: the package is optional.
    from openvino.frontend.pytorch.torchdynamo.backend import openvino as backend

    threads = str(torch.get_num_threads())
    options = {"config": {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}}
    return adapt_fx_backend(partial(backend, options=options))(graph, example_inputs)


STRICTLY = {"suppress_errors": False}  # or eager PyTorch would be timed in their place

PEERS: dict[str, Callable[[Function], Function]] = {
    ONNX_RUNTIME: partial(minitorch2.compile, backend=partial(by, session), options=STRICTLY),
    OPENVINO: partial(minitorch2.compile, backend=openvino, options=STRICTLY),
    TVM: partial(minitorch2.compile, backend=partial(by, tvm_machine), options=STRICTLY),
}
"""The compilers by name."""


def is_installed(name: str) -> bool:
    """Return whether the packages are there that a compiler needs."""
    return all(map(importlib.util.find_spec, NEEDS[name]))


def how(name: str) -> str:
    """Return what to install for a compiler."""
    packages = (PACKAGES.get(each, each) for each in NEEDS[name])
    return f"{name}: pip install {' '.join(packages)}"


def installed_peers() -> dict[str, Callable[[Function], Function]]:
    """Return the compilers that are installed, by name.

    Raises ModuleNotFoundError if none is, with the packages that each needs.
    """
    there = {name: compiler for name, compiler in PEERS.items() if is_installed(name)}
    if not there:
        raise ModuleNotFoundError("no other compiler is installed; " + "; ".join(map(how, NEEDS)))
    return there


def needed_by(case: Case) -> set[str]:
    """Return what a case asks of a compiler; a kernel of bfloat16 says so in its name."""
    asked = {GRADIENTS: case.backward, BFLOAT16: "bf16" in case.name}
    return {name for name, is_asked in asked.items() if is_asked}


def takes(compiler: str, needed: set[str]) -> bool:
    """Return whether a compiler offers all that is needed; those that are no peers do."""
    return LACKS.get(compiler, set()).isdisjoint(needed)


TRIAL = """
import torch
from benchmarks.peers import PEERS
x = torch.randn(3, 6)
torch.testing.assert_close(PEERS[{!r}](lambda x: x.sin() + 1)(x), x.sin() + 1, rtol=0.02, atol=0.02)
"""
TRIALS = {name: TRIAL.format(name) for name in PEERS} | {
    "NNC": "import torch; assert torch._C._llvm_enabled(), 'PyTorch is built without it'",
    "nvFuser": "import nvfuser",
    "Hidet": "import torch, minitorch2 as mt; mt.compile(abs, backend='hidet')(torch.ones(3))",
    "PyTorch/XLA": "import torch_xla",
}
"""A program for each compiler, which fails where it cannot run here; the first ones compile."""


def tried(program: str) -> str:
    """Return `runs`, or the last line that a program wrote before it failed."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if not done.returncode:
        return "runs"
    return (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]


if __name__ == "__main__":
    for name, program in TRIALS.items():
        print(f"{name}: {tried(program)}", flush=True)
