"""Random products and convolutions with what is around them, as templates: against eager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch2 import config, stages
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.codegen.triton.target import TRITON
from minitorch2.codegen.triton.templates import autotune
from minitorch2.codegen.triton.templates.template import TemplateNode, Tile
from tests.unit.codegen.aten_graph import call_inputs, record
from tests.unit.codegen.triton.run_lowered import to_device

KINDS = ("template", "pointwise")
SIZES = st.integers(1, 40)
BLOCKS = st.sampled_from([16, 32])
TILES = st.builds(Tile, BLOCKS, BLOCKS, BLOCKS, st.just(4), st.just(2))
BEFORE = st.sampled_from([lambda x: x, torch.cos, lambda x: x * 2 + 1, torch.sigmoid])
AFTER = st.sampled_from([lambda y, r: y, lambda y, r: F.relu(y), lambda y, r: y * r + y])


def check(program: Callable[..., Any], tile: Tile, *inputs: torch.Tensor) -> None:
    """As a template with all prologues, whatever would be fastest."""
    moved = [to_device(tensor) for tensor in inputs]
    gm = record(program, *moved)

    def choose(site: Any, *_: Any) -> TemplateNode:
        return TemplateNode(site, tile, site.prologues)

    forced = mock.patch.object(autotune, "choose_by_measuring", choose)
    with forced, config.patch(max_autotune=True), stages.collect() as log:
        call = compile_graph(gm, (), target=TRITON)
    (got,), (expected,) = call(call_inputs(gm, *moved)), program(*moved)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    assert [log.texts("wrapper.py")[0].count(f"@{kind}") for kind in KINDS] == [1, 0]


@st.composite
def matrices(draw: st.DrawFn, rows: int, columns: int) -> torch.Tensor:
    """Rows first or columns first, perhaps with gaps between them."""
    if draw(st.booleans()):
        return torch.randn(columns, rows + draw(st.integers(0, 3)))[:, :rows].t()
    return torch.randn(rows, columns + draw(st.integers(0, 3)))[:, :columns]


@settings(max_examples=25)
@given(st.data(), SIZES, SIZES, SIZES, TILES)
def test_products(data: st.DataObject, m: int, k: int, n: int, tile: Tile) -> None:
    x, w = data.draw(matrices(m, k)), data.draw(matrices(k, n))
    left, right, after = data.draw(BEFORE), data.draw(BEFORE), data.draw(AFTER)
    check(lambda x, w, r: (after(left(x) @ right(w), r),), tile, x, w, torch.randn(m, n))


@dataclass(frozen=True)
class Axis:
    """How a convolution walks along one dimension, which has room for the window at least.

    Where padding is as wide as the window, PyTorch's own kernels for the CPU may crash.
    """

    window: int
    stride: int
    padded: bool
    dilation: int
    more: int

    @property
    def padding(self) -> int:
        return self.window - 1 if self.padded else 0

    @property
    def size(self) -> int:
        return max(1, self.dilation * (self.window - 1) + 1 - 2 * self.padding + self.more)


UP_TO_3, STEPS = st.integers(1, 3), st.integers(1, 2)
AXES = st.builds(Axis, UP_TO_3, UP_TO_3, st.booleans(), STEPS, st.integers(0, 6))


@settings(max_examples=25)
@given(st.data(), AXES, AXES, UP_TO_3, st.integers(2, 40), SIZES, TILES)
def test_convolutions(
    data: st.DataObject, high: Axis, wide: Axis, images: int, k: int, n: int, tile: Tile
) -> None:
    before, after = data.draw(BEFORE), data.draw(AFTER)
    x = torch.randn(images, high.size, wide.size, k).permute(0, 3, 1, 2)
    w = torch.randn(n, k, high.window, wide.window)
    names = ("stride", "padding", "dilation")
    walk = {name: (getattr(high, name), getattr(wide, name)) for name in names}

    def program(x: Any, w: Any, b: Any, r: Any) -> Any:
        return (after(F.conv2d(before(x), w, b, **walk), r),)

    check(program, tile, x, w, torch.randn(n), torch.randn(1, n, 1, 1))
