"""Every decomposition against eager, forward and backward; the registry; cycles; bfloat16."""
# ruff: noqa: E501  (one program a line reads as a table)

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2.autograd import DECOMPOSITIONS, register_decomposition
from minitorch2.autograd.decompositions.public import PUBLIC
from minitorch2.errors import LoweringError
from tests.unit.autograd.programs import check, compiled, joint_of, operators

aten = torch.ops.aten


def leaf(*size: int) -> torch.Tensor:
    return torch.randn(*size, requires_grad=True)


INDEX = torch.tensor([1, 2, -100, 3, 0])
ACTIVATIONS = {
    name: (lambda function: lambda x: (function(x * 3),))(function)
    for name, function in {
        "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
        "sigmoid": torch.sigmoid, "tanh": torch.tanh, "elu": F.elu, "selu": F.selu, "celu": F.celu,
        "leaky_relu": F.leaky_relu, "softplus": F.softplus, "mish": F.mish, "hardswish": F.hardswish,
        "hardsigmoid": F.hardsigmoid, "relu6": F.relu6, "hardtanh": F.hardtanh, "logsigmoid": F.logsigmoid,
        "glu": F.glu, "threshold": lambda x: F.threshold(x, 0.5, -1.0), "softsign": F.softsign,
        "prelu": lambda x: F.prelu(x, torch.tensor([0.2])), "logit": lambda x: torch.logit(torch.sigmoid(x)),
        "square": torch.square, "rsub": lambda x: 1.5 - x, "reciprocal": lambda x: 1 / (x * x + 1),
        "nan_to_num": lambda x: torch.nan_to_num(torch.where(x > 1, float("nan"), x)),
        "lerp": lambda x: torch.lerp(x, x * 2, 0.3) + torch.lerp(x, x * 2, -3.0) + torch.lerp(x, x * 2, torch.sigmoid(x)),
        "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5) + torch.addcdiv(x, x, x.exp(), value=2),
        "masked_fill": lambda x: x.masked_fill(x > 1, float("-inf")).softmax(-1),
        "tril_triu": lambda x: torch.tril(x) + torch.triu(x, 1) * 2,
    }.items()
}  # fmt: skip
PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    **{name: (program, [leaf(4, 6)]) for name, program in ACTIVATIONS.items()},
    "layer_norm": (lambda x, w, b: (F.layer_norm(x, (8,), w, b),), [leaf(4, 8), leaf(8), leaf(8)]),
    "layer_norm_2d": (lambda x: (F.layer_norm(x, (3, 4)),), [leaf(2, 3, 4)]),
    "layer_norm_whole": (lambda x, w: (F.layer_norm(x, (8,), w),), [leaf(8), leaf(8)]),
    "rms_norm": (lambda x, w: (F.rms_norm(x, (8,), w),), [leaf(4, 8), leaf(8)]),
    "group_norm": (lambda x, w, b: (F.group_norm(x, 2, w, b),), [leaf(3, 4, 5), leaf(4), leaf(4)]),
    "instance_norm": (lambda x: (F.instance_norm(x),), [leaf(3, 4, 5)]),
    "batch_norm": (
        lambda x, w, b, m, v: (F.batch_norm(x, m, v, w, b, True, 0.3),),
        [leaf(6, 4, 3), leaf(4), leaf(4), torch.randn(4), torch.rand(4) + 0.5],
    ),
    "batch_norm_eval": (
        lambda x, w, b, m, v: (F.batch_norm(x, m, v, w, b, False),),
        [leaf(6, 4, 3, 2), leaf(4), leaf(4), torch.randn(4), torch.rand(4) + 0.5],
    ),
    "softmax": (lambda x: (torch.softmax(x, -1), torch.softmax(x, 0)), [leaf(4, 6)]),
    "log_softmax": (lambda x: (F.log_softmax(x, 1), torch.logsumexp(x, (0, 1))), [leaf(4, 6)]),
    "logsumexp_infinite": (lambda x: (torch.logsumexp(torch.full_like(x, -torch.inf), 1),), [torch.ones(2, 3)]),
    "cross_entropy": (lambda x, t: (F.cross_entropy(x, t),), [leaf(5, 7), INDEX]),
    "cross_entropy_sum": (lambda x, t: (F.cross_entropy(x, t, reduction="sum"),), [leaf(5, 7), INDEX]),
    "cross_entropy_none": (lambda x, t: (F.cross_entropy(x, t, reduction="none"),), [leaf(5, 7), INDEX]),
    "cross_entropy_weight": (
        lambda x, t, w: (F.cross_entropy(x, t, w, label_smoothing=0.1),), [leaf(5, 7), INDEX, torch.rand(7)],
    ),
    "cross_entropy_2d": (
        lambda x, t: (F.cross_entropy(x, t),), [leaf(2, 5, 3, 3), torch.randint(0, 5, (2, 3, 3))],
    ),
    "nll_one": (lambda x, t: (F.nll_loss(x, t),), [leaf(7), torch.tensor(2)]),
    "nll_all_ignored": (lambda x: (F.cross_entropy(x, torch.full((5,), -100)),), [leaf(5, 7)]),
    "losses": (
        lambda x, y: (
            F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y, beta=0.7), F.huber_loss(x, y, delta=0.6),
            F.mse_loss(x, y, reduction="none"), F.kl_div(x, y.softmax(-1), reduction="batchmean"),
            F.binary_cross_entropy_with_logits(x, torch.sigmoid(y), pos_weight=torch.ones(5) * 2),
            F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y)),
        ),
        [leaf(4, 5), leaf(4, 5)],
    ),
    "moments": (
        lambda x: (x.var(), x.std(1), x.mean(0), x.var(0, keepdim=True), *torch.var_mean(x, 1), x.std(unbiased=False)),
        [leaf(3, 4)],
    ),
    "variance_of_one": (lambda x: (x[:1].var(0),), [torch.randn(3, 4)]),
    "norms": (lambda x: (x.norm(), x.norm(dim=1), F.normalize(x), x.norm(p=1), x.norm(p=3)), [leaf(4, 6)]),
    "baddbmm": (
        lambda a, b, c: (torch.baddbmm(a, b, c, beta=0.5, alpha=2), torch.baddbmm(a * torch.nan, b, c, beta=0)),
        [leaf(2, 3, 3), leaf(2, 3, 4), leaf(2, 4, 3)],
    ),
    "stack_unbind": (lambda x: (torch.stack(x.unbind(1), 0) * 2, *torch.stack([x, x]).split([1, 1])), [leaf(3, 4)]),
    "creation": (
        lambda x: (
            x + torch.zeros_like(x.t()).t() + x.new_full((4, 1), 2) + torch.ones(6) * torch.arange(6) + torch.eye(4, 6),
        ),
        [leaf(4, 6)],
    ),
    "full_like_layout": (lambda x: (torch.ones_like(x.permute(2, 0, 1)),), [torch.randn(2, 3, 4)]),
    "embedding": (lambda w, i: (F.embedding(i, w, padding_idx=1),), [leaf(10, 4), torch.tensor([1, 2, 1, 7])]),
    "index": (lambda x, i: (x[i], x[:, i], x[i, i], x[1:3, None]), [leaf(4, 6), torch.tensor([0, 2, 2])]),
    "attention": (
        lambda q, k, v: (torch.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v,), [leaf(2, 6, 8) for _ in range(3)],
    ),
    "sdpa": (
        lambda q, k, v: (F.scaled_dot_product_attention(q, k, v, is_causal=True),), [leaf(1, 2, 6, 8) for _ in range(3)],
    ),
    "sdpa_mask": (
        lambda q, k, v, m: (F.scaled_dot_product_attention(q, k, v, attn_mask=m),),
        [*(leaf(1, 2, 6, 8) for _ in range(3)), torch.rand(6, 6) > 0.3],
    ),
    "conv_pool": (
        lambda x, w: (F.max_pool2d(F.conv2d(x, w, padding=1), 2), F.adaptive_avg_pool2d(x, 1)),
        [leaf(2, 3, 8, 8), leaf(4, 3, 3, 3)],
    ),
    "maxima": (
        lambda x: (F.adaptive_max_pool2d(x[0], 2), F.max_pool3d(x, 2, 1), F.adaptive_max_pool3d(x, (1, 2, 1))),
        [leaf(2, 3, 4, 4)],
    ),
    "unpool": (
        lambda x: (F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),), [leaf(2, 3, 4, 6)],
    ),
    "masked_scatter": (
        lambda x, m, v: (x.masked_scatter(m, v), x.masked_scatter(m[0] | True, v)),
        [leaf(3, 4), torch.rand(3, 4) > 0.5, leaf(20)],
    ),
    "scatter_reduce": (
        lambda x, i, v: tuple(
            x.scatter_reduce(0, i, v, reduce, include_self=own) for reduce in ("sum", "mean") for own in (True, False)
        ),
        [leaf(3, 4), torch.tensor([[0, 2, 0, 0], [0, 1, 1, 0]]), leaf(2, 4)],
    ),
    "polygamma": (lambda x: (torch.polygamma(0, x), torch.polygamma(1, x.detach())), [leaf(4, 5)]),
    "lstm_cell": (
        lambda x, h, c, w, u: torch._VF.lstm_cell(x, (h, c), w, u),  # type: ignore[attr-defined]
        [leaf(2, 3), leaf(2, 4), leaf(2, 4), leaf(16, 3), leaf(16, 4)],
    ),
    "einsum": (lambda a, b: (torch.einsum("bij,bjk->bik", a, b),), [leaf(2, 3, 4), leaf(2, 4, 5)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str) -> None:
    program, inputs = PROGRAMS[name]
    check(program, inputs, tolerance=2e-5)


@pytest.mark.parametrize(
    "name", ["softmax", "gelu", "layer_norm", "silu", "moments", "log_softmax"]
)
def test_half_precision_is_computed_in_single(name: str) -> None:
    program, inputs = PROGRAMS[name]
    half = [x.detach().to(torch.bfloat16).requires_grad_() for x in inputs]
    check(program, half, tolerance=2e-2)


@pytest.mark.parametrize("mode", ["dropout", "native", "rand", "attention"])
def test_random_numbers_are_eagers(mode: str) -> None:
    programs: dict[str, Callable[..., Any]] = {
        "dropout": lambda x: (F.dropout(F.dropout(x, 0.5).sin(), 0.3),),
        "native": lambda x: torch.native_dropout(x, 0.4, True)[:1],
        "rand": lambda x: (
            x * torch.rand(8, 8) + torch.randn_like(x) + torch.empty(8, 8).uniform_(),
        ),
        "attention": lambda x: (F.dropout(torch.softmax(x @ x.t(), -1), 0.2) @ x,),
    }
    check(programs[mode], [leaf(8, 8)])


def test_random_operators_stay_and_are_not_recomputed() -> None:
    run = joint_of(lambda x: (F.dropout(x, 0.5),), [leaf(4)])
    assert operators(run.module) == [
        "full",
        "bernoulli",
        "div",
        "mul",
        "mul",
    ] or "bernoulli" in operators(run.module)
    assert operators(run.module).count("bernoulli") == 1


def test_what_fuses_is_left_small_and_known() -> None:
    """The operators that remain of a transformer's layers, forward and backward."""

    def program(x: Any, w: Any, g: Any, b: Any, t: Any) -> Any:
        h = F.gelu(F.layer_norm(x, (8,), g, b) @ w) + F.silu(x) * torch.sigmoid(x)
        return (F.cross_entropy(h.softmax(-1), t),)

    inputs = [leaf(4, 8), leaf(8, 8), leaf(8), leaf(8), torch.tensor([1, 2, 3, 0])]
    names = set(operators(joint_of(program, inputs).module))
    assert names <= {
        "add", "sub", "mul", "div", "neg", "exp", "log", "erf", "rsqrt", "sigmoid", "sum", "amax", "mm", "permute",
        "where", "eq", "ne", "bitwise_and", "full", "arange", "unsqueeze", "squeeze", "expand", "view", "gather",
        "_to_copy", "reshape", "var_mean", "getitem",
    }  # fmt: skip


def test_registering_twice_is_an_error() -> None:
    table: dict[Any, Any] = {}
    register_decomposition(aten.log2.default, table=table)(lambda x: x)
    with pytest.raises(LoweringError, match=r"aten.log2.default"):
        register_decomposition(aten.log2.default, table=table)(lambda x: x)


def test_a_packet_registers_its_functional_overloads() -> None:
    table: dict[Any, Any] = {}
    register_decomposition(aten.add, table=table)(lambda x, y: x)
    assert aten.add.Tensor in table and aten.add.out not in table


def test_decompositions_reach_a_fixed_point() -> None:
    table: dict[Any, Any] = {}

    @register_decomposition(aten.sin.default, table=table)
    def sin(x: torch.Tensor) -> torch.Tensor:
        return torch.cos(x - torch.pi / 2)

    @register_decomposition(aten.cos.default, table=table)
    def cos(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x)

    x = torch.ones(2)
    (result,) = compiled(lambda x: (x.sin(),), [x], decompositions=table)(x)
    torch.testing.assert_close(result, torch.exp(x - torch.pi / 2))


def test_a_cycle_is_a_clear_error() -> None:
    table: dict[Any, Any] = {}
    register_decomposition(aten.sin.default, table=table)(lambda x: torch.cos(x))
    register_decomposition(aten.cos.default, table=table)(lambda x: torch.sin(x))
    with pytest.raises(LoweringError) as found:
        compiled(lambda x: (x.sin(),), [torch.ones(2)], decompositions=table)
    assert found.value.code == "decomposition-cycle"
    assert "aten.sin.default -> aten.cos.default -> aten.sin.default" in str(found.value)


def test_the_papers_example() -> None:
    table: dict[Any, Any] = {}
    register_decomposition(aten.log2.default, table=table)(
        lambda x: torch.log(x) * (1 / math.log(2))
    )
    x = torch.rand(4) + 1
    run = compiled(lambda x: (x.log2(),), [x], decompositions=table)
    torch.testing.assert_close(run(x)[0], x.log2())


def test_the_table_is_documented() -> None:
    assert len(DECOMPOSITIONS) >= 100
    ours = {operator: rule for operator, rule in DECOMPOSITIONS.items() if operator not in PUBLIC}
    assert all(function.__doc__ for function in ours.values())


ROWS_LAST = {
    "softmax": lambda x: x.permute(0, 2, 1).softmax(-1).view(-1),
    "log_softmax": lambda x: x.permute(0, 2, 1).log_softmax(-1).view(-1),
    "layer_norm": lambda x: F.layer_norm(x.permute(0, 2, 1), (4,)).view(-1),
    "sigmoid": lambda x: torch.sigmoid(x.permute(0, 2, 1)).permute(0, 2, 1).view(-1),
    "group_norm": lambda x: F.group_norm(x.unsqueeze(3), 2).view(-1),
}


@pytest.mark.parametrize("name", ROWS_LAST)
def test_results_are_laid_out_as_eagers(name: str) -> None:
    """A view of them must be possible where it is in eager."""
    check(lambda x: (ROWS_LAST[name](x),), [leaf(3, 4, 5)])


def test_batch_norm_of_permuted_inputs_is_row_major() -> None:
    for x in (torch.randn(3, 5, 4).permute(0, 2, 1), torch.randn(4, 3).t()):
        norm = lambda x: torch.nn.functional.batch_norm(x, None, None, training=True)  # noqa: E731
        given = minitorch2.compile(norm)(x)
        torch.testing.assert_close(given, norm(x))
        assert given.stride() == norm(x).stride()


def test_reductions_of_nothing() -> None:
    for x in (torch.zeros(0, 3), torch.zeros(3, 0)):
        program = lambda x: (torch.logsumexp(x, 1), F.mse_loss(x, x + 1, reduction="sum"))  # noqa: E731
        torch.testing.assert_close(minitorch2.compile(program)(x), program(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("weights", [torch.float32, None], ids=str)
def test_statistics_have_eagers_dtype(dtype: torch.dtype, weights: torch.dtype | None) -> None:
    w = torch.ones(6, dtype=weights or dtype)
    x = torch.randn(4, 6, 6, dtype=dtype)
    running = [torch.zeros(6, dtype=w.dtype), torch.ones(6, dtype=w.dtype)]
    norms = {
        "layer": lambda x: torch.native_layer_norm(x, (6,), w, w, 1e-5),
        "group": lambda x: torch.native_group_norm(x, w, w, 4, 6, 6, 3, 1e-5),
        "batch": lambda x: torch.native_batch_norm(x, w, w, None, None, True, 0.1, 1e-5),
        "running": lambda x: torch.native_batch_norm(x, w, w, *running, False, 0.1, 1e-5),
    }
    for norm in norms.values():
        got, expected = compiled(norm, [x])(x), norm(x)
        assert [t.dtype for t in got] == [t.dtype for t in expected]
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=0.02, atol=0.02)


def test_channels_last_is_kept() -> None:
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.GroupNorm(2, 4), torch.nn.BatchNorm2d(4)]
    model = torch.nn.Sequential(*layers, torch.nn.SiLU(), torch.nn.MaxPool2d(2)).eval()
    model.requires_grad_(False)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    check(lambda x: (model(x),), [x])
