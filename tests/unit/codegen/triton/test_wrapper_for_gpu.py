"""What the host does in a call, counted without a GPU: the lines of a wrapper."""

import re

import pytest
import torch
import torch.nn.functional as F

from minitorch2 import config
from minitorch2.autograd.decompositions import normalizations
from minitorch2.codegen.compile_graph import print_module
from minitorch2.codegen.triton import target
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.scheduler import schedule
from tests.unit.codegen.aten_graph import record

aten = torch.ops.aten


def on_gpu(*size, order=torch.contiguous_format):
    fake = torch.empty(size, dtype=torch.float16, device="meta", memory_format=order)
    return FakeTensor(fake, torch.device("cuda", 0))


def convnext_block(x, window, scale, shift, up, up_bias, down, down_bias, gamma):
    pixels = F.conv2d(x, window, padding=3, groups=96).permute(0, 2, 3, 1)
    normal = normalizations.native_layer_norm(pixels, [96], scale, shift, 1e-6)[0]
    hidden = F.gelu(F.linear(normal, up, up_bias))
    return (F.linear(hidden, down, down_bias) * gamma).permute(0, 3, 1, 2) + x


@pytest.fixture
def body(monkeypatch):
    monkeypatch.setattr(target, "why_unavailable", lambda device: None)
    x = on_gpu(16, 96, 56, 56, order=torch.channels_last)
    weights = (96, 1, 7, 7), (96,), (96,), (384, 96), (384,), (96, 384), (96,), (96,)
    lowered = lower_graph(record(convnext_block, x, *(on_gpu(*size) for size in weights)))
    plan = schedule(lowered, target.CAPABILITIES)
    return print_module(lowered, plan, target.TRITON).text.partition("def call(args):")[2]


def test_a_block_is_three_kernels_and_three_library_calls(body):
    assert len(re.findall(r"^    fused_\w+\(", body, re.M)) == 3
    assert len(re.findall(r"= (?:with_layout\()?(?:torch_convolution|linear)\(", body)) == 3


def test_nothing_is_made_or_asked_for_that_need_not_be(body):
    assert body.count("as_strided(") <= 2  # for the products, whose rows are pixels
    assert "empty" not in body, "kernels write where the library has made memory"
    assert "data_ptr" not in body, "kernels take tensors"
    assert "aten_" not in body, "libraries are called by their bindings"


def printed(program, *inputs):
    """The wrapper of a program for a GPU, checked."""
    lowered = lower_graph(record(program, *inputs))
    with config.patch(verify=True):
        return print_module(lowered, schedule(lowered, target.CAPABILITIES), target.TRITON).text


def test_a_kernel_without_elements_that_writes_in_place_is_left_out(monkeypatch):
    """`index_fill` at no index has its operand's elements, and no loop."""
    monkeypatch.setattr(target, "why_unavailable", lambda device: None)

    def program(x):
        nowhere = aten.arange.default(0, device=x.device)
        return aten.index_fill.int_Scalar(aten.mul.Tensor(x, 2), 0, nowhere, 0.5)

    text = printed(program, on_gpu(1))
    assert "# in place" in text
    assert len(re.findall(r"^    fused_\w+\(", text, re.M)) == 1
