"""Special functions, sets, distances and other rare operators against eager."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.unit.loopir.trace_aten import check

aten = torch.ops.aten
EDGES = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, math.inf, -math.inf, math.nan, 1e-30, -1e30, 12, -7.25]
)
# Sixteen columns: eager computes whole vectors of eight alike, and the rest by another loop.
PAIRS = (EDGES[:, None].expand(14, 16).contiguous(), EDGES[:8].repeat(2).expand(14, 16) * 1)
X, Y = torch.randn(4, 8), torch.randn(4, 8)

ELEMENTWISE = {
    "logaddexp2": torch.logaddexp2,
    "hypot": torch.hypot,
    "ldexp": lambda x, y: torch.ldexp(x, y.abs().floor().clamp(max=20)),
    "angle": lambda x, y: x.angle(),
    "round_decimals": lambda x, y: (x.round(decimals=2), x.round(decimals=-1)),
    "entr": lambda x, y: torch.special.entr(x),
    "xlog1py": torch.special.xlog1py,
    "erfinv": lambda x, y: torch.erfinv(x / 2),
    "digamma": lambda x, y: torch.digamma(x),
    "softshrink_backward": lambda x, y: aten.softshrink_backward(y, x, 0.5),
    "hardshrink_backward": lambda x, y: aten.hardshrink_backward(y, x, 0.5),
    "logit_backward": lambda x, y: aten.logit_backward(y, x.sigmoid()),
    "logit_backward_eps": lambda x, y: aten.logit_backward(y, x.sigmoid(), 0.3),
}

OTHERS = {
    "addr": lambda x, y: torch.addr(x, y[:, 0], y[0], beta=0.5, alpha=2),
    "addr_ignores": lambda x, y: torch.addr(x * math.nan, y[:, 0], y[0], beta=0),
    "trace": lambda x, y: (x.trace(), x.to(torch.int32).trace()),
    "cross": lambda x, y: torch.linalg.cross(x[:, :3], y[:, 1:4]),
    "cross_broadcast": lambda x, y: torch.linalg.cross(x[:3], y[:3, :1], dim=0),
    "dist": lambda x, y: (torch.dist(x, y), torch.dist(x, y, 1), torch.dist(x, y, math.inf)),
    "pairwise_distance": F.pairwise_distance,
    "addbmm": lambda x, y: torch.addbmm(x[:, :2], y.view(4, 4, 2), x.view(4, 2, 4)[..., :2]),
    "soft_margin": lambda x, y: (
        F.soft_margin_loss(x, y.sign()),
        F.soft_margin_loss(x, y.sign(), reduction="sum"),
        aten.soft_margin_loss_backward(x, y, x.sign(), 1),
    ),
    "isin": lambda x, y: (torch.isin(x, x[1]), torch.isin(x, x[0], invert=True)),
    "isin_number": lambda x, y: (torch.isin(x.round(), 1.0), torch.isin(2.0, x.round())),
    "rot90": lambda x, y: [torch.rot90(x, k) for k in range(-2, 5)],
    "narrow_copy": lambda x, y: torch.narrow_copy(x, 1, 2, 3),
    "unsafe_split": lambda x, y: [a + 1 for a in torch.unsafe_split(x, 3, 1)],
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_elementwise(name, dtype):
    check(ELEMENTWISE[name], *(x.to(dtype) for x in PAIRS), strides=False)


@pytest.mark.parametrize("name", OTHERS)
def test_others(name):
    check(OTHERS[name], X, Y)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("count", [1, 2, 7, 8, 33])
def test_positions_among_boundaries(right, count):
    boundaries = torch.arange(count) * 0.5 - 2
    values = torch.cat([X.flatten(), boundaries, EDGES])
    check(lambda x, b: torch.bucketize(x, b, right=right), values, boundaries)
    check(lambda x, b: torch.searchsorted(b, x, right=right, out_int32=True), values, boundaries)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 1, 5)])
def test_positions_in_rows_of_boundaries(right, shape):
    boundaries = torch.randn(*shape[:-1], 7).sort(-1).values
    values = torch.cat([torch.randn(shape), boundaries[..., :2]], -1) if shape[1:] else X
    check(lambda b, x: torch.searchsorted(b, x, right=right) * 2, boundaries, values)


def test_a_table_that_is_searched_is_computed_once():
    def program(weights, x):
        return torch.searchsorted(weights.exp().sin() * 0.4 + torch.arange(8), x) + 1

    assert check(program, X, Y * 4).kernels == 2


FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_mantissas_exponents_and_neighbours_of_floats(dtype):
    about = torch.finfo(dtype)
    least = about.tiny * about.eps
    ends = torch.tensor(
        [about.max, about.min, about.tiny, -about.tiny, least, -3 * least], dtype=dtype
    )
    values = torch.cat([EDGES.to(dtype), ends])
    x, y = torch.broadcast_tensors(values[:, None], values)
    check(torch.frexp, values)
    check(torch.nextafter, x.contiguous(), y.contiguous())


def test_large_sets_are_sorted_by_the_library():
    check(lambda x, y: torch.isin(x, y), X, torch.randn(100), fallbacks=1)


IMAGES = torch.randn(2, 3, 4, 6)


@pytest.mark.parametrize("scale", [1, 2, 4, (2.0, 8.0)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_whole_factors_enlarge_in_loops(scale, channels_last):
    form = torch.channels_last if channels_last else torch.contiguous_format
    x = IMAGES.contiguous(memory_format=form)
    checked = check(lambda x: F.interpolate(x, scale_factor=scale).relu(), x)
    assert not checked.externs
    assert not check(lambda x: F.interpolate(x, size=(8, 12)), x).externs


def test_other_factors_and_ranks_are_one_kernel_too():
    for x, sizes in (
        (IMAGES, {"scale_factor": 3}), (IMAGES, {"size": (5, 7)}),
        (IMAGES[0], {"scale_factor": 2}), (IMAGES[None, 0], {"scale_factor": 2}),
    ):  # fmt: skip
        assert check(lambda x, sizes=sizes: F.interpolate(x, **sizes), x).kernels == 1
