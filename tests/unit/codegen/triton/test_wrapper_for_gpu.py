"""What the host does in a call, counted without a GPU: the lines of a wrapper."""

import re

import pytest
import torch
import torch.nn.functional as F

from minitorch2 import config
from minitorch2.autograd.decompositions import normalizations
from minitorch2.codegen.compile_graph import print_module
from minitorch2.codegen.triton import target
from minitorch2.codegen.triton.values import constant
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


def test_a_gpu_without_a_number_is_the_one_of_the_other_operands(monkeypatch):
    """Its buffers were copied "to the other GPU" as numbers, and did not fit."""
    monkeypatch.setattr(target, "why_unavailable", lambda device: None)

    def program(x):
        positions = aten.arange.default(4, device=torch.device("cuda"))
        wide = aten._to_copy.default(x, dtype=torch.float64, device=torch.device("cuda"))
        return positions, aten.mul.Tensor(x, positions), wide

    text = printed(program, on_gpu(4))
    assert "copy_default" not in text and len(re.findall(r"^    fused_\w+\(", text, re.M)) == 1


def test_the_sign_of_zero_is_kept_by_any_triton(monkeypatch):
    """Triton before 3.7 computes `-x` as `0 - x`, and writes `0.0` for the literal `-0.0`."""
    monkeypatch.setattr(target, "why_unavailable", lambda device: None)

    def program(x):
        return aten.neg.default(x), aten.where.ScalarOther(aten.gt.Scalar(x, 0), x, -0.0)

    text = printed(program, on_gpu(4))
    assert "* -1.0" in text and "-0.0" not in text.replace("* 0.0", "")
    assert constant(-0.0, torch.int64).text == "tl.full([], 0, tl.int64)", "integers have one zero"


def test_statistics_of_batch_norm_in_evaluation_are_those_of_a_gpu():
    x, channels = (
        on_gpu(2, 3, 4),
        FakeTensor(torch.empty(3, device="meta"), torch.device("cuda", 0)),
    )
    results = normalizations.native_batch_norm(x, None, None, channels, channels, False, 0.1, 1e-5)
    assert [(tuple(r.shape), r.dtype) for r in results[1:]] == [((3,), torch.float32)] * 2


def test_eigenvectors_of_a_gpu_are_rows():
    x = FakeTensor(torch.empty(5, 5, device="meta"), torch.device("cuda", 0))
    assert aten.linalg_eig.default(x)[1].stride() == (5, 1)


def test_a_kernel_without_elements_that_writes_in_place_is_left_out(monkeypatch):
    """`index_fill` at no index has its operand's elements, and no loop."""
    monkeypatch.setattr(target, "why_unavailable", lambda device: None)

    def program(x):
        nowhere = aten.arange.default(0, device=x.device)
        return aten.index_fill.int_Scalar(aten.mul.Tensor(x, 2), 0, nowhere, 0.5)

    text = printed(program, on_gpu(1))
    assert "# in place" in text
    assert len(re.findall(r"^    fused_\w+\(", text, re.M)) == 1
