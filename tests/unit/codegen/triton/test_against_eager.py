"""Triton kernels against eager PyTorch, operator by operator, with the number of kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2.autograd.decompositions import losses
from minitorch2.codegen.triton import domain
from minitorch2.codegen.triton.blocks import Blocks
from tests.unit.codegen.triton.run_lowered import check, kernels_of, to_device

SPECIAL = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0, -1.0, 1e-30])
UNARY = [
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "lgamma",
    "sigmoid",
    "floor",
    "ceil",
    "trunc",
    "round",
    "abs",
    "neg",
    "sign",
    "isnan",
    "isinf",
    "signbit",
    "exp2",
    "expm1",
    "log2",
    "log10",
    "log1p",
    "relu",
    "reciprocal",
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: torch.dtype) -> None:
    x = torch.cat([torch.randn(50) * 3, torch.randn(50) * 1e-4, SPECIAL]).to(dtype)
    check(getattr(torch, name), x)


@pytest.mark.parametrize(
    "name",
    [
        "pow",
        "atan2",
        "fmod",
        "remainder",
        "maximum",
        "minimum",
        "copysign",
        "add",
        "sub",
        "mul",
        "div",
        "eq",
        "ne",
        "lt",
        "le",
    ],
)
def test_binary(name: str) -> None:
    x, y = torch.randn(200), torch.cat([torch.randn(192), SPECIAL])
    check(getattr(torch, name), x.abs() if name == "pow" else x, y)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize(
    "name",
    [
        "floor_divide",
        "remainder",
        "fmod",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "maximum",
        "add",
        "mul",
    ],
)
def test_integers(name: str, dtype: torch.dtype) -> None:
    x = torch.randint(-100, 100, (60,), dtype=dtype)
    y = (torch.randint(1, 7, (60,)) * torch.where(torch.rand(60) < 0.5, -1, 1)).to(dtype)
    check(getattr(torch, name), x, y)


def test_division_that_truncates() -> None:
    x, y = torch.randint(-100, 100, (60,)), torch.randint(1, 7, (60,))
    check(lambda a, b: torch.div(a, -b, rounding_mode="trunc"), x, y)


def test_unsigned_and_wrapping_integers() -> None:
    check(
        lambda a: (a * 3, -a, a.sum()), torch.randint(0, 255, (60,), dtype=torch.uint8), kernels=1
    )
    check(lambda a: a * a, torch.randint(-(2**31), 2**31 - 1, (60,), dtype=torch.int32))


def test_bool() -> None:
    a, b = torch.rand(50) < 0.5, torch.rand(50) < 0.5
    check(lambda a, b: (a & b, a | b, a ^ b, ~a, a.any(), a.all(), a.sum()), a, b)


def test_casts() -> None:
    check(
        lambda a: (a.to(torch.int32), a.to(torch.bool), a.half(), a.bfloat16(), a.double(),
                   a.half().float(), (a > 0).float(), (a > 0).to(torch.int64)),
        torch.randn(6, 40) * 10,
    )  # fmt: skip


def test_bitcast() -> None:
    check(lambda a: a.view(torch.int32) + 1, torch.randn(5))
    check(lambda a: a.view(torch.int16) + 1, torch.randn(5).half())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_floats_compute_in_float32(dtype: torch.dtype) -> None:
    made = check(lambda a: (a * 2 + 1).sum(-1), torch.randn(5, 33).to(dtype))
    assert ".to(tl.float32)" in made.texts[0]
    check(lambda a: a.softmax(-1), torch.randn(5, 33).to(dtype))


INDEXING: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "broadcast": (lambda a, b: a + b, [torch.randn(4, 1, 5), torch.randn(3, 1)]),
    "scalar": (lambda a: a + 1, [torch.tensor(2.0)]),
    "transposed": (lambda a: a.t() * 2, [torch.randn(6, 9)]),
    "transposed and not": (lambda a, b: a.t() + b, [torch.randn(6, 9), torch.randn(9, 6)]),
    "permuted copy": (lambda a: a.permute(2, 0, 1).contiguous(), [torch.randn(3, 4, 5)]),
    "reshaped": (lambda a: a.permute(1, 0, 2).reshape(4, 15) + 1, [torch.randn(3, 4, 5)]),
    "concatenated": (lambda a, b: torch.cat([a, b * 2], 1), [torch.randn(3, 4), torch.randn(3, 5)]),
    "padded": (lambda a: F.pad(a, (1, 2, 1, 0)) + 0, [torch.randn(3, 4)]),
    "flipped": (lambda a: a.flip(1), [torch.randn(5, 8)]),
    "sliced": (lambda a: a[1:3, ::2] + 1, [torch.randn(5, 8)]),
    "arange": (lambda a: a + torch.arange(8, device=a.device), [torch.randn(5, 8)]),
    "embedding": (lambda w, k: F.embedding(k, w), [torch.randn(9, 8), torch.randint(9, (3, 4))]),
    "indexed": (lambda w, k: w[k], [torch.randn(10, 8), torch.randint(-10, 10, (5,))]),
    "gathered": (lambda w, k: w.gather(1, k), [torch.randn(4, 8), torch.randint(0, 8, (4, 3))]),
    "lower triangle": (lambda a: a.tril(), [torch.randn(5, 6)]),
    "where": (lambda a, b: torch.where(a > 0, a, b), [torch.randn(6, 4), torch.randn(6, 4)]),
    "clamped": (lambda a: a.clamp(-1, 1), [torch.cat([torch.randn(30), SPECIAL])]),
    "empty": (lambda a: a + 1, [torch.randn(0, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEXING)
def test_indexing(name: str) -> None:
    program, inputs = INDEXING[name]
    check(program, *inputs)


def with_nan_and_ties() -> torch.Tensor:
    x = torch.randn(4, 20)
    x[1, 3] = x[3, 0] = x[3, 9] = float("nan")
    x[2, 5] = x[2, 7] = 9.0
    x[0] = 1.0
    return x


@pytest.mark.parametrize(
    "name", ["amax", "amin", "argmax", "argmin", "sum", "prod", "mean", "var", "std"]
)
@pytest.mark.parametrize("dim", [0, 1])
def test_reduction(name: str, dim: int) -> None:
    check(lambda a: getattr(torch, name)(a, dim), with_nan_and_ties())


def test_reduction_of_everything() -> None:
    check(lambda a: (a.sin() * 2).sum(), torch.randn(33, 50))
    check(lambda a: a.argmax(), torch.randint(0, 5, (9, 11)).float())


def test_reduction_of_nothing() -> None:
    check(lambda a: a.sum(0), torch.randn(0, 4))


def test_any_and_all() -> None:
    check(lambda a: (a > 1).any(1), torch.randn(6, 40))
    check(lambda a: (a > -2).all(0), torch.randn(6, 40))


ROWS: dict[str, Callable[..., Any]] = {
    "softmax": lambda a: a.softmax(-1),
    "log_softmax": lambda a: a.log_softmax(-1),
    "normalize": lambda a: (
        (a - a.mean(-1, keepdim=True)) * (a.var(-1, keepdim=True, correction=0) + 1e-5).rsqrt()
    ),
    "sum of squares": lambda a: (a * a).sum(-1).sqrt(),
    "two results": lambda a: (a.amax(-1), a.argmin(-1), (a > 1).any(-1), a.sum(-1)),
    "residual": lambda a: (a + 1, (a + 1).softmax(-1)),
}


@pytest.fixture(params=[1, 16], ids=lambda fold: f"folded {fold}")
def small_blocks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Loops over blocks of 16, so that short rows take several steps; accumulators have 16 elements
    or one."""
    blocks = Blocks(2, 1, r=16, fold=request.param)
    monkeypatch.setattr(domain, "reduction_blocks", lambda *_: blocks)


@pytest.mark.parametrize("name", ROWS)
def test_rows_in_one_kernel(name: str) -> None:
    made = check(ROWS[name], torch.randn(5, 37))
    assert "for roffset" not in made.texts[0]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.usefixtures("small_blocks")
def test_rows_in_one_kernel_with_loops(name: str, dynamic: bool) -> None:
    made = check(ROWS[name], torch.randn(5, 37), dynamic=dynamic)
    extent = "rnumel" if dynamic else "37"
    assert f"for roffset in range(0, {extent}, RBLOCK)" in made.texts[0]


@pytest.mark.parametrize("special", [0.0, math.inf, -math.inf, math.nan, 200.0])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "by hand", "in pieces"])
@pytest.mark.usefixtures("small_blocks")
def test_a_sum_of_exponentials_follows_the_maximum(name: str, special: float) -> None:
    """Rows are read once for both, also if they begin or end with infinities."""
    programs = ROWS | {
        "by hand": lambda a: (a - a.amax(-1, keepdim=True)).exp().sum(-1).log(),
        "in pieces": lambda a: (a.double() * 2).softmax(-1),
    }
    x = torch.randn(7, 50)
    x[0, 0], x[1, 49], x[2, :20], x[3, 20:], x[4] = (special,) * 5
    made = check(programs[name], x)
    passes = 1 if name == "by hand" else 2
    assert made.texts[0].count("for roffset") == passes
    assert "lib.running_softmax(" in made.texts[0]


@pytest.mark.parametrize("special", [0.0, math.inf, math.nan, 1e4])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fold", [1, 4])
def test_squares_follow_the_sum(
    special: float, dynamic: bool, fold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are read once for mean and variance, and once more where they are normalized."""
    blocks = Blocks(2, 1, r=16, fold=fold)
    monkeypatch.setattr(domain, "reduction_blocks", lambda *_: blocks)
    x = torch.randn(7, 50) + 5
    x[0, 0], x[1, 49], x[4, 1:] = (special,) * 3
    for program, passes in ((lambda a: a.var(-1), 1), (ROWS["normalize"], 2)):
        made = check(program, x, dynamic=dynamic)
        assert made.texts[0].count("for roffset") == passes
        assert "lib.running_moments(" in made.texts[0]


def test_squares_follow_a_sum_that_is_computed_twice() -> None:
    """The variance with its gradient: the mean is there once for each of them."""
    made = check(lambda a: (a.var(), a - a.mean(), a.std()), torch.randn(5, 5))
    assert "lib.running_moments(" in made.texts[0] or "for roffset" not in made.texts[0]
    x = torch.randn(5, 5, requires_grad=True)
    compiled = minitorch2.compile(lambda a: a.std(), backend="triton", fullgraph=True)
    compiled(x).backward()
    (wanted,) = torch.autograd.grad(x.std(), x)
    torch.testing.assert_close(x.grad, wanted)


@pytest.mark.usefixtures("small_blocks")
def test_a_sum_of_other_exponentials_is_a_pass_of_its_own() -> None:
    made = check(lambda a: (a - 2 * a.amax(-1, keepdim=True)).exp().sum(-1), torch.rand(7, 50))
    assert made.texts[0].count("for roffset") == 2


@pytest.mark.parametrize("shape", [(1, 37), (1, 16), (9, 9), (4, 48), (2, 1)])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.usefixtures("small_blocks")
def test_few_rows_and_short_ones_in_a_loop(shape: tuple[int, int], dynamic: bool) -> None:
    rows = torch.randn(shape)
    check(lambda a: (a.softmax(-1), a.argmax(-1), (a * a).sum(-1)), rows, dynamic=dynamic)
    check(lambda a: (a.amin(0), a.sum(0)), torch.randn(shape), dynamic=dynamic)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy_of_odd_rows(reduction: str) -> None:
    x, target = torch.randn(9, 37) * 5, torch.randint(37, (9,))
    x[0, :20], x[1, 5:] = -math.inf, 1e30
    target[0], target[1], target[2], target[5] = 25, 7, -100, -100
    mode = ("none", "mean", "sum").index(reduction)

    def program(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return losses.nll_loss_forward(x.log_softmax(-1), target, None, mode, -100)[0]

    (loss,) = kernels_of(program, x, target).run([to_device(x), to_device(target)])
    torch.testing.assert_close(loss.cpu(), F.cross_entropy(x, target, reduction=reduction))


@pytest.mark.usefixtures("small_blocks")
def test_columns_in_a_loop() -> None:
    made = check(lambda a: (a.sum(0), a.argmax(0), (a > 3).any(0)), torch.randn(130, 5))
    assert "for roffset" in made.texts[0]


@pytest.mark.usefixtures("small_blocks")
def test_what_neighbours_have_in_common_is_one_number() -> None:
    """A row's statistics are the same for all columns of a block: computed once, not per column."""
    made = check(lambda a, m: (a * m.sqrt()).sum(1), torch.randn(3, 20, 64), torch.rand(3, 20, 1))
    assert "x1 = xoffset // 64\n" in made.texts[0]
    assert "tl.load(in_ptr1 + (r0 + 20*x1), rmask, other=0.0" in made.texts[0]


def test_long_rows_loop() -> None:
    made = check(lambda a: a.sum(-1), torch.randn(2, 20000))
    assert "for roffset in range(0, 20000, RBLOCK)" in made.texts[0]
    assert "eviction_policy" not in made.texts[0]


@pytest.mark.parametrize(
    ("length", "dtype", "policy"),
    [(20008, torch.float32, None), (20008, torch.float16, "last"), (20001, torch.int64, "last")],
)
def test_a_sector_of_two_rows_is_not_dropped_after_one(
    length: int, dtype: torch.dtype, policy: str | None
) -> None:
    made = check(lambda a: a.amax(-1), torch.ones(2, length, dtype=dtype))
    options = f", eviction_policy='evict_{policy}'" if policy else ""
    assert f", rmask, other={0 if dtype == torch.int64 else 0.0}{options})" in made.texts[0]


@pytest.mark.parametrize("shape", [(33, 70), (64, 64), (16, 100)])
def test_transposed_reads_are_tiled(shape: tuple[int, int]) -> None:
    x, y = torch.randn(shape), torch.randn(shape[::-1])
    made = check(lambda a, b: (a.t() + b, (a.t() * b).exp()), x, y)
    assert "YBLOCK" in made.texts[0]


def test_tiles_of_four_dimensions() -> None:
    made = check(lambda a: a.permute(0, 2, 3, 1).contiguous() * 2, torch.randn(2, 17, 5, 7))
    assert "YBLOCK" in made.texts[0]


def test_symbolic_sizes_are_arguments() -> None:
    made = check(lambda a, b: a.sin() + b.t(), torch.randn(5, 7), torch.randn(7, 5), dynamic=True)
    assert "ks0" in made.texts[0] and "xnumel" in made.texts[0]
    check(lambda a: a.permute(1, 0).reshape(-1) * 2, torch.randn(5, 7), dynamic=True)
    check(lambda a: a + torch.arange(a.shape[1], device=a.device), torch.randn(5, 7), dynamic=True)


def test_constant_tensor_is_an_argument() -> None:
    constant = torch.tensor([1.0, 2.0, 3.0])
    check(lambda a: a + constant.to(a.device), torch.randn(2, 3))


def test_library_call_between_kernels() -> None:
    check(lambda a, b: (a.sin() @ b).relu(), torch.randn(3, 4), torch.randn(4, 5), kernels=2)


def test_index_out_of_range_is_an_error() -> None:
    if torch.cuda.is_available():
        pytest.skip("a failed assertion on the device ends the process, as in eager PyTorch")
    w = torch.randn(10, 8)
    made = kernels_of(lambda w, k: w[k], w, torch.tensor([3, 9]))
    assert "lib.check_index" in made.texts[0]
    for wrong in (10, -11):
        with pytest.raises(Exception, match=f"index {max(wrong, -1)} is out of bounds for size 10"):
            made.run([w, torch.tensor([3, wrong])])
    for program in (
        lambda w, k: F.embedding(k, w),
        lambda w, k: w.gather(0, k[:, None]),
        lambda w, k: w.index_select(0, k),
    ):
        made = kernels_of(program, w, torch.tensor([3, 9]))
        with pytest.raises(Exception, match="index -1 is out of bounds for size 10"):
            made.run([w, torch.tensor([3, -1])])


def test_questions_about_numbers_are_answered_before_the_kernel_runs() -> None:
    made = check(lambda x: (x >> 3) + (x << 70), torch.arange(-9, 9))
    assert "tl.where" not in made.texts[0] and "tmp0 >> 3" in made.texts[0]


def test_constants_are_converted_like_other_values() -> None:
    """A 2 that becomes a bool is 1 afterwards, and 300 does not fit 8 bits."""

    def program(x: torch.Tensor) -> torch.Tensor:
        two = torch.full((3,), 2, device=x.device)
        many = torch.full((3,), 300, device=x.device)
        return x + two.to(torch.bool).to(torch.int64) + many.to(torch.int8).to(torch.int64)

    check(program, torch.arange(3))
