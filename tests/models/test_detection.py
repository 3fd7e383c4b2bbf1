"""Detection models: images of several sizes, and sizes that only data tells."""

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.testing.assertions import assert_same

torchvision = pytest.importorskip("torchvision")
detection = pytest.importorskip("torchvision.models.detection")

SIZES = [((120, 160), (100, 90)), ((130, 150), (110, 100)), ((140, 170), (90, 120))]


def images(sizes, dtype):
    generator = torch.Generator().manual_seed(sizes[0][0])
    return [torch.rand(3, *size, generator=generator).to(dtype) for size in sizes]


def assert_same_detections(given, wanted, tolerance):
    """The same boxes with the same labels, scores and masks, scores in order.

    A model with random weights gives many boxes nearly one score. Rounding of the scores decides
    which of two comes first: eager gives another order, too, if its input differs by 1e-7.
    """
    assert given["scores"].shape == wanted["scores"].shape
    assert_same(given["scores"], wanted["scores"], tolerance=tolerance)
    order = []
    for place, label in enumerate(wanted["labels"]):
        near = (given["scores"] - wanted["scores"][place]).abs() < tolerance
        distances = (given["boxes"] - wanted["boxes"][place]).abs().amax(1)
        distances[~near | (given["labels"] != label)] = torch.inf
        distances[order] = torch.inf  # each counts once
        order.append(int(distances.argmin()))
        assert distances[order[-1]] < tolerance * 10, f"there is no box {place}"
    if wanted["scores"].dtype == torch.float64:
        assert order == sorted(order), "rounding in float64 is too small for another order"
    if "masks" in wanted:
        assert_same(given["masks"][order], wanted["masks"], tolerance=tolerance)


def check_detections(name, dtype, tolerance, sizes):
    torch.manual_seed(0)
    model = getattr(detection, name)(weights=None, weights_backbone=None).eval().to(dtype)
    fast = minitorch2.compile(model)
    with torch.no_grad(), stages.collect() as log:
        for each in sizes:
            batch = images(each, dtype)
            for wanted, given in zip(model(batch), fast(batch), strict=True):
                assert_same_detections(given, wanted, tolerance)
    assert log.counts["graphs"] > 0
    assert log.counts["sizes fixed as expressions grew too long"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["fasterrcnn_mobilenet_v3_large_320_fpn", "ssdlite320_mobilenet_v3_large"]
)
def test_images_of_new_sizes(name: str) -> None:
    """The third pair of sizes once asked SymPy for minutes, or for an arange of 2**32 numbers."""
    check_detections(name, torch.float32, 1e-3, SIZES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.float64, 1e-9)], ids=str
)
@pytest.mark.parametrize("name", ["fasterrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn"])
def test_boxes_of_nearly_one_score_may_change_places(name, dtype, tolerance) -> None:
    """In float64 they keep their places, so what moves them in float32 is rounding alone."""
    check_detections(name, dtype, tolerance, SIZES[:2])
