"""The dtype promotion matrix against torch.result_type and real operators."""

import itertools

import pytest
import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.buffers import BufferTable, InputBuffer, use_table
from minitorch2.loopir.layout import FixedLayout, contiguous_strides
from minitorch2.loopir.ops import LOOP_DTYPES
from minitorch2.loopir.promotion import result_type
from tests.unit.loopir.trace_aten import check

DTYPES = sorted(LOOP_DTYPES, key=str)
KINDS = [*((dtype, ndim) for dtype in DTYPES for ndim in (0, 2)), True, 3, 2.5]


def operands(kind):
    """The kind as an eager operand and as ours."""
    if not isinstance(kind, tuple):
        return kind, kind
    dtype, ndim = kind
    tensor = torch.ones((2,) * ndim, dtype=dtype)
    layout = FixedLayout(tensor.device, dtype, (2,) * ndim, contiguous_strides((2,) * ndim))
    return tensor, TensorBox.create(InputBuffer("x", layout))


def test_promotion_matrix_of_pairs():
    with use_table(BufferTable()):
        for left, right in itertools.product(KINDS, repeat=2):
            (a, box_a), (b, box_b) = operands(left), operands(right)
            assert result_type((box_a, box_b)) == torch.result_type(a, b), (left, right)


@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_promote_like_eager(dtype):
    x = torch.tensor([[0, 1, 3], [2, 5, 7]]).to(dtype)
    for other in DTYPES:
        for y in (torch.tensor([1, 2, 3]).to(other), torch.tensor(2).to(other)):
            check(
                lambda x, y: (
                    x + y,
                    x * y,
                    x / y,
                    x < y,
                    torch.maximum(x, y),
                    torch.where(x > y, x, y),
                ),
                x,
                y,
                rtol=2e-2,
                atol=2e-2,
            )
    check(
        lambda x: (x + 1, x * 2.5, x / 2, x + True, x == 1, torch.where(x > 1, x, 0.5)),
        x,
        rtol=2e-2,
        atol=2e-2,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_of_every_dtype(dtype):
    x = torch.tensor([[0, 1, 3] * 4, [2, 5, 7] * 4]).to(dtype)
    check(
        lambda x: (x.sum(), x.sum(1), x.prod(1), x.amax(1), x.amin(0), x.any(1), x.all(1)),
        x,
        rtol=2e-2,
        atol=2e-2,
    )
    if dtype != torch.bool:
        check(lambda x: (x.argmax(1), x.argmin(), x.float().mean(1)), x, rtol=2e-2, atol=2e-2)
    check(lambda x: [x.to(d) for d in DTYPES], x, rtol=2e-2, atol=2e-2)
