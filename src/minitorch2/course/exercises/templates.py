"""Exercises of the chapter on templates and tuning."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from minitorch2.course.exercise import exercise

PAGE = "gpu/templates"


def programs_of(rows: int, columns: int, tile: tuple[int, int]) -> int:
    """Return how many programs compute a product, one for each tile of the result."""
    return math.ceil(rows / tile[0]) * math.ceil(columns / tile[1])


@exercise(
    PAGE,
    "look",
    question="""
        How many programs compute a result of 2,000 x 3,072 in tiles of 128 x 128, and how many
        in tiles of 64 x 256? Set `square` and `wide`.
    """,
    stub="""
        square = ...
        wide = ...
    """,
    hints=("Divide and round up, in both directions.",),
    solution="""
        import math

        square = math.ceil(2000 / 128) * math.ceil(3072 / 128)
        wide = math.ceil(2000 / 64) * math.ceil(3072 / 256)
    """,
)
def count_programs(square: int, wide: int) -> None:
    """Compute them."""
    found = programs_of(2000, 3072, (128, 128)), programs_of(2000, 3072, (64, 256))
    assert (square, wide) == found, f"{square} and {wide} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        `layer` stores a product, reads it again, and stores what the epilogue makes of it.
        Change it so that `store(top, left, tile)` is called once for each tile, with the
        epilogue done.
    """,
    stub="""
        def layer(left, right, epilogue, store):
            for top in range(0, left.shape[0], 4):
                for start in range(0, right.shape[1], 4):
                    tile = left[top : top + 4] @ right[:, start : start + 4]
                    store(top, start, tile)
            for top in range(0, left.shape[0], 4):
                for start in range(0, right.shape[1], 4):
                    tile = left[top : top + 4] @ right[:, start : start + 4]
                    store(top, start, epilogue(tile))
    """,
    hints=("The tile is in registers when the epilogue needs it.",),
    solution="""
        def layer(left, right, epilogue, store):
            for top in range(0, left.shape[0], 4):
                for start in range(0, right.shape[1], 4):
                    tile = left[top : top + 4] @ right[:, start : start + 4]
                    store(top, start, epilogue(tile))
    """,
)
def put_the_epilogue_inside(layer: Callable[..., None]) -> None:
    """Count stores, and compare with the product."""
    left, right = torch.randn(10, 3), torch.randn(3, 6)
    result, stores = torch.full((10, 6), torch.nan), 0

    def store(top: int, start: int, tile: Tensor) -> None:
        nonlocal stores
        stores += 1
        result[top : top + tile.shape[0], start : start + tile.shape[1]] = tile

    layer(left, right, lambda tile: torch.relu(tile) + 1, store)
    torch.testing.assert_close(result, torch.relu(left @ right) + 1)
    assert stores == programs_of(10, 6, (4, 4)), f"there were {stores} stores"


@exercise(
    PAGE,
    "build",
    question="""
        Write `tile_of(program, rows, columns, group)`: programs run about in the order of
        their numbers, and `group` rows of tiles shall share the columns that they read. So go
        down `group` rows in a column, then to the next column; then to the next group. The
        last group may have fewer rows. Return (row, column).
    """,
    stub="""
        def tile_of(program, rows, columns, group):
            return program // columns, program % columns
    """,
    hints=(
        "A group has `group * columns` tiles.",
        "Read the first lines of the kernel `layer` in this chapter.",
    ),
    solution="""
        def tile_of(program, rows, columns, group):
            first = program // (group * columns) * group
            height = min(rows - first, group)
            place = program % (group * columns)
            return first + place % height, place // height
    """,
)
def order_the_tiles(tile_of: Callable[[int, int, int, int], tuple[int, int]]) -> None:
    """Check that each tile comes once, and that neighbours share columns."""
    for rows, columns, group in ((16, 24, 8), (10, 3, 4), (2, 5, 8)):
        tiles = [tuple(tile_of(n, rows, columns, group)) for n in range(rows * columns)]
        assert len(set(tiles)) == rows * columns, "each tile must come once"
        height = min(rows, group)
        expected = [(row, column) for column in range(columns) for row in range(height)]
        found = tiles[: len(expected)]
        assert found == expected, f"{rows} x {columns}: it begins {expected[:5]}, not {found[:5]}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `convolve(images, weight)`: a convolution as a sum of products, one for each
        element of the window. `images` is (batch, channels, height, width), `weight` is (out,
        channels, rows, columns); no padding, step 1, and no convolution of PyTorch's.
    """,
    stub="""
        import torch


        def convolve(images, weight):
            return torch.einsum("bchw,oc->bohw", images, weight[:, :, 0, 0])
    """,
    hints=(
        "For the element (i, j) of the window, the left operand is the images, cut out from "
        "row i and column j on.",
        "Add `einsum` products of that and `weight[:, :, i, j]`.",
    ),
    solution="""
        import torch


        def convolve(images, weight):
            rows, columns = weight.shape[2:]
            height, width = images.shape[2] - rows + 1, images.shape[3] - columns + 1
            total = 0
            for i in range(rows):
                for j in range(columns):
                    part = images[:, :, i : i + height, j : j + width]
                    total = total + torch.einsum("bchw,oc->bohw", part, weight[:, :, i, j])
            return total
    """,
)
def convolve_by_products(convolve: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Compare with PyTorch's convolution on several windows."""
    images = torch.randn(2, 3, 6, 7)
    for window in ((1, 1), (3, 3), (2, 5)):
        weight = torch.randn(4, 3, *window)
        expected = functional.conv2d(images, weight)
        found = convolve(images, weight)
        assert found.shape == expected.shape, f"{window}: {tuple(expected.shape)} are the sizes"
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
