"""timm: image models are one graph, and take batches of any size."""

import pytest
import torch

import minitorch2
from minitorch2 import stages

timm = pytest.importorskip("timm")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "convnext_atto"])
def test_an_image_model_is_one_graph(name):
    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False, num_classes=10).eval()
    with stages.collect() as log, torch.no_grad():
        fast = minitorch2.compile(model, fullgraph=True)
        for batch in (2, 3):
            x = torch.randn(batch, 3, 64, 64)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-3, atol=1e-4)
    assert log.counts["graphs"] == 2  # one of fixed size, one for all
