"""Fake tensors: metadata equal to eager's, aliasing, devices, and what they refuse."""

import time

import pytest
import torch
import torch.nn.functional as F

from minitorch2.graph import (
    DataDependentError,
    FakeConverter,
    FakeMode,
    FakeTensor,
    same_storage,
    to_fake,
)
from minitorch2.graph.fake_checks import _is_small

PROGRAMS = {
    "pointwise": lambda x: x.sin() + x * 2,
    "promotion": lambda x: (x > 0).int() + torch.tensor([1.5]),
    "transpose": lambda x: x.t().contiguous().t() + 1,
    "reduce": lambda x: x.sum(0, keepdim=True),
    "matmul": lambda x: x @ x.t(),
    "view": lambda x: x.view(-1)[2:9:3],
    "softmax": lambda x: torch.softmax(x, -1).half(),
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "conv": lambda x: F.conv2d(x[None, None], torch.ones(2, 1, 3, 3)),
    "cat": lambda x: torch.cat([x, x.to(torch.float64)]),
    "index": lambda x: x[torch.tensor([0, 2])],
    "topk": lambda x: x.topk(2).values,
    "sdpa": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "factory": lambda x: x + torch.ones(4, 1) + torch.arange(6),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_metadata_is_eagers(name: str) -> None:
    real = torch.randn(4, 6)
    expected = PROGRAMS[name](real)
    got = PROGRAMS[name](to_fake(real))
    assert isinstance(got, FakeTensor)
    assert (got.shape, got.stride(), got.dtype) == (
        expected.shape,
        expected.stride(),
        expected.dtype,
    )
    repeated = PROGRAMS[name](to_fake(real))  # the second time answers from memory
    assert (repeated.shape, repeated.stride()) == (got.shape, got.stride())


def test_cached_answers_are_separate_memories() -> None:
    x = to_fake(torch.randn(3))
    a, b = x.sin(), x.sin()
    assert not same_storage(a, b) and not same_storage(a, x)


def test_views_share_storage_and_in_place_keeps_the_object() -> None:
    x = to_fake(torch.randn(4, 4))
    assert same_storage(x, x.view(16)[3:]) and same_storage(x, x.t())
    assert not same_storage(x, x.clone())
    assert x.add_(1) is x
    assert x[0].fill_(0).shape == (4,)


def test_metadata_changing_in_place_operators_reach_the_wrapper() -> None:
    x = to_fake(torch.randn(2, 3)) * 1
    assert x.t_() is x
    assert x.shape == (3, 2) and x.stride() == (1, 3)
    assert x.unsqueeze_(0).shape == (1, 3, 2)


def test_parameters_and_requires_grad() -> None:
    parameter = torch.nn.Parameter(torch.randn(3))
    fake = to_fake(parameter)
    assert isinstance(fake, torch.nn.Parameter) and fake.requires_grad
    assert (fake * 2).requires_grad and not to_fake(torch.ones(1)).requires_grad
    with torch.no_grad():
        assert not (fake * 2).requires_grad


def test_devices_are_carried() -> None:
    cuda = FakeTensor(torch.empty(3, device="meta"), torch.device("cuda:0"))
    assert cuda.sin().device == torch.device("cuda:0")
    named = FakeTensor(torch.empty(3, device="meta"), torch.device("cuda"))
    assert named.device == cuda.device, "a GPU without a number is the current one"
    cpu = FakeTensor(torch.empty(3, device="meta"), torch.device("cpu:0"))
    assert cpu.device == torch.ones(1, device="cpu:0").device == torch.device("cpu")
    assert (
        cuda * torch.tensor(2.0)
    ).device.type == "cuda"  # a zero-dimensional CPU tensor may join
    assert (torch.tensor(2.0) * cuda).device.type == "cuda"
    assert cuda.to("cpu").device.type == "cpu"


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.sum().item(),
        lambda x: bool((x > 0).all()),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: torch.unique(x),
        lambda x: torch.equal(x, x),
        lambda x: x.tolist(),
        lambda x: torch.masked_select(x, x > 0),
    ],
)
def test_what_needs_data_is_refused(program: object) -> None:
    assert callable(program)
    with pytest.raises(DataDependentError):
        program(to_fake(torch.randn(4)))


def test_factories_inside_the_mode_are_fake() -> None:
    with FakeMode():
        values = [torch.zeros(2), torch.randn(3), torch.arange(4), torch.full((2,), 7)]
    assert all(isinstance(value, FakeTensor) for value in values)
    assert [v.dtype for v in values] == [torch.float32, torch.float32, torch.int64, torch.int64]


def test_a_converter_keeps_identity_and_aliasing() -> None:
    base = torch.randn(4, 4)
    convert = FakeConverter().convert
    assert convert(base) is convert(base)
    view = convert(base[1:, 2])
    assert same_storage(convert(base), view)
    assert (view.stride(), view.storage_offset()) == (
        base[1:, 2].stride(),
        base[1:, 2].storage_offset(),
    )


def test_random_operators_draw_nothing() -> None:
    state = torch.get_rng_state()
    with FakeMode():
        torch.randn(3)
    F.dropout(to_fake(torch.ones(3)), 0.5, True)
    assert torch.equal(state, torch.get_rng_state())


def test_fake_propagation_is_fast() -> None:
    x = to_fake(torch.randn(4, 4))
    samples = []
    for _ in range(200):
        start = time.perf_counter()
        torch.ops.aten.add.Tensor(x, x)
        samples.append(time.perf_counter() - start)
    assert sorted(samples)[100] < 200e-6  # about 12 us on an idle machine


@pytest.mark.parametrize(
    ("operator", "arguments", "dtype", "runs"),
    [
        (torch.ops.aten.arange.default, (2**33,), torch.int32, False),
        (torch.ops.aten.arange.start_step, (0, 2**33, 1), torch.int32, False),
        (torch.ops.aten.full.default, ((2,), 2**33), torch.int32, True),
        (torch.ops.aten.arange.default, (512,), torch.uint8, True),
    ],
)
def test_a_number_is_not_tried_where_it_counts_elements(operator, arguments, dtype, runs) -> None:
    """An arange of 2**33 numbers takes 32 GiB, and never refuses its end."""
    assert _is_small(operator, arguments, {"dtype": dtype}) is runs
