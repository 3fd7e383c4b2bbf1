"""Other compilers behind our capture, where they are installed; and the message where none is."""

import importlib.util
from functools import partial

import pytest
import torch
from torch import nn

import minitorch2
from benchmarks import peers


def test_where_no_other_compiler_is_installed_the_packages_are_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install onnxruntime onnxscript"):
        peers.installed_peers()


def test_graphs_and_gradients_run_in_onnx_runtime():
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    layer, x = nn.Sequential(nn.Linear(6, 4), nn.Tanh()), torch.randn(3, 6)
    compiled = minitorch2.compile(
        layer, backend=partial(peers.by, peers.session), options={"suppress_errors": False}
    )
    given = torch.autograd.grad(compiled(x).sum(), list(layer.parameters()))
    wanted = torch.autograd.grad(layer(x).sum(), list(layer.parameters()))
    torch.testing.assert_close(given, wanted)


def test_onnx_runtime_has_as_many_threads_as_eager_mode(monkeypatch):
    """Threads of its own, which waited busily, took the cores of eager mode, whose turn it was."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    given = []
    make = onnxruntime.InferenceSession
    monkeypatch.setattr(
        onnxruntime, "InferenceSession",
        lambda model, options: given.append(options) or make(model, options),
    )  # fmt: skip
    peers.PEERS[peers.ONNX_RUNTIME](torch.sin)(torch.randn(3))
    (options,) = given
    assert options.intra_op_num_threads == torch.get_num_threads()
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_an_operator_that_onnx_lacks_is_named():
    pytest.importorskip("onnxscript")
    layer, x = nn.Conv2d(1, 2, 3), torch.randn(1, 1, 5, 5)
    compiled = peers.PEERS[peers.ONNX_RUNTIME](layer)
    with pytest.raises(Exception, match=r"aten\.convolution_backward"):
        compiled(x).sum().backward()


def test_openvino_computes_in_float32():
    """It rounded to bfloat16 where the processor can, and no model of it was right there."""
    pytest.importorskip("openvino")
    layer, x = nn.Linear(256, 64), torch.randn(8, 256)
    with torch.no_grad():
        torch.testing.assert_close(peers.PEERS[peers.OPENVINO](layer)(x), layer(x))


def test_an_installed_backend_of_torch_compile_is_found_by_its_name():
    pytest.importorskip("openvino")
    x = torch.randn(3, 6)
    compiled = minitorch2.compile(
        lambda x: x.sin() + 1, backend="openvino", options={"suppress_errors": False}
    )
    torch.testing.assert_close(compiled(x), x.sin() + 1, rtol=2e-2, atol=2e-2)  # it has bfloat16


def test_graphs_run_in_tvm():
    pytest.importorskip("tvm")
    layer, x = nn.Sequential(nn.Linear(6, 4), nn.Tanh()).eval(), torch.randn(3, 6)
    with torch.no_grad():
        torch.testing.assert_close(peers.PEERS[peers.TVM](layer)(x), layer(x))


def test_a_compiler_that_cannot_run_says_why():
    assert peers.tried("import torch") == "runs"
    assert peers.tried("import no_such_compiler").startswith("ModuleNotFoundError: No module")
    assert peers.tried("import os; os._exit(3)") == "ended with 3"


def test_each_compiler_of_the_paper_is_tried():
    six = {"nvFuser", "NNC", "Hidet", peers.TVM, peers.ONNX_RUNTIME, "PyTorch/XLA"}
    assert {*peers.TRIALS} == six | {peers.OPENVINO}
