"""torchmetrics: states that `update` changes are those of eager mode; functions are one graph."""

import pytest
import torch

import minitorch2
from minitorch2 import stages

torchmetrics = pytest.importorskip("torchmetrics")

BATCHES = [(torch.randn(n, 5).softmax(1), torch.randint(5, (n,))) for n in (8, 8, 12, 9)]


def test_a_functional_metric_is_one_graph():
    def accuracy(scores, labels):
        return torchmetrics.functional.accuracy(scores, labels, task="multiclass", num_classes=5)

    fast = minitorch2.compile(accuracy, fullgraph=True)
    for batch in BATCHES:
        torch.testing.assert_close(fast(*batch), accuracy(*batch))


@pytest.mark.parametrize("name", ["MulticlassAccuracy", "MulticlassConfusionMatrix"])
@pytest.mark.parametrize("call", ["update", "forward"])
def test_a_metric_keeps_its_state(name, call):
    def make():
        return getattr(torchmetrics.classification, name)(num_classes=5, validate_args=False)

    wanted, metric = make(), make()
    with stages.collect() as log:
        fast = minitorch2.compile(lambda *batch: getattr(metric, call)(*batch))
        for batch in BATCHES * 3:
            torch.testing.assert_close(fast(*batch), getattr(wanted, call)(*batch))
        torch.testing.assert_close(metric.compute(), wanted.compute())
    assert log.counts["recompiles"] <= 3, "the metric counts its calls"
