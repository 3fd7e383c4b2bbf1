"""Pointwise metadata found without meta kernels equals what eager gives."""

import itertools

import pytest
import torch

from minitorch2.graph.fake_pointwise import is_plain_pointwise, pointwise_result

aten = torch.ops.aten
BINARY = [aten.add.Tensor, aten.div.Tensor, aten.lt.Tensor, aten.pow.Tensor_Tensor,
aten.maximum.default,
          aten.atan2.default, aten.remainder.Tensor, aten.bitwise_and.Tensor]  # fmt: skip
UNARY = [
    aten.sin.default,
    aten.abs.default,
    aten.isnan.default,
    aten.sigmoid.default,
    aten.relu.default,
]
DTYPES = [torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64]
LAYOUTS = [
    torch.ones(2, 3, 4),
    torch.ones(4, 3, 2).permute(2, 1, 0),
    torch.ones(3, 1),
    torch.ones(()),
    torch.ones(2, 3, 8)[..., ::2],
    torch.ones(1, 3, 4).expand(2, 3, 4),
]


def compare(func: torch._ops.OpOverload, *args: object) -> None:
    assert is_plain_pointwise(func)
    try:
        expected = func(*args)
    except RuntimeError:
        return  # not for these dtypes
    got = pointwise_result(
        func, [a.to("meta") if isinstance(a, torch.Tensor) else a for a in args], {}
    )
    assert got is not None
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    metas = [
        torch.empty_strided(a.shape, a.stride(), dtype=a.dtype, device="meta")
        if isinstance(a, torch.Tensor)
        else a
        for a in args
    ]
    exact = pointwise_result(func, metas, {})
    assert exact is not None and exact.stride() == expected.stride()


@pytest.mark.parametrize("func", BINARY, ids=str)
def test_binary(func: torch._ops.OpOverload) -> None:
    for a, b in itertools.product(LAYOUTS, LAYOUTS):
        compare(func, a, b)
    for s, t in itertools.product(DTYPES, DTYPES):
        compare(func, torch.ones(2, 3, dtype=s), torch.ones(3, dtype=t))
        compare(func, torch.ones(2, 3, dtype=s), torch.ones((), dtype=t))
        compare(func, torch.ones((), dtype=s), 2)


@pytest.mark.parametrize("func", UNARY, ids=str)
def test_unary(func: torch._ops.OpOverload) -> None:
    for a in LAYOUTS:
        compare(func, a)
    for dtype in DTYPES:
        compare(func, torch.ones(2, 3, dtype=dtype))


def test_scalars_promote() -> None:
    for dtype, scalar in itertools.product(DTYPES, (1, 1.5, True, 1j)):
        compare(aten.add.Tensor, torch.ones(3, dtype=dtype), scalar)
        compare(aten.mul.Tensor, torch.ones(3, dtype=dtype), scalar)


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(RuntimeError):
        pointwise_result(
            aten.add.Tensor, [torch.empty(2, device="meta"), torch.empty(3, device="meta")], {}
        )


def test_random_and_layout_changing_operators_are_not_plain() -> None:
    for func in (aten.clone.default, aten.bernoulli.p, aten.add_.Tensor, aten.rand_like.default):
        assert not is_plain_pointwise(func)
