"""Detection models: images of several sizes, and sizes that only data tells."""

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.testing.assertions import assert_same

torchvision = pytest.importorskip("torchvision")
detection = pytest.importorskip("torchvision.models.detection")

SIZES = [((120, 160), (100, 90)), ((130, 150), (110, 100)), ((140, 170), (90, 120))]


def images(sizes):
    generator = torch.Generator().manual_seed(sizes[0][0])
    return [torch.rand(3, *size, generator=generator) for size in sizes]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["fasterrcnn_mobilenet_v3_large_320_fpn", "ssdlite320_mobilenet_v3_large"]
)
def test_images_of_new_sizes(name: str) -> None:
    """The third pair of sizes once asked SymPy for minutes, or for an arange of 2**32 numbers."""
    torch.manual_seed(0)
    model = getattr(detection, name)(weights=None, weights_backbone=None).eval()
    fast = minitorch2.compile(model)
    with torch.no_grad(), stages.collect() as log:
        for sizes in SIZES:
            for wanted, given in zip(model(images(sizes)), fast(images(sizes)), strict=True):
                for key, value in wanted.items():
                    assert_same(given[key], value, tolerance=1e-3)
    assert log.counts["graphs"] > 0
    assert log.counts["sizes fixed as expressions grew too long"] == 0
