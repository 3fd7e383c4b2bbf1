"""Lightning: the network inside the module, or the training step, is compiled."""

import logging
import warnings

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import stages

lightning = pytest.importorskip("lightning")


class Lit(lightning.LightningModule):
    def __init__(self, compiled=False):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.compiled, self.losses = compiled, []

    def configure_model(self):
        if self.compiled:
            self.net = minitorch2.compile(self.net)

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        self.losses.append(loss.detach())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def fit(compiled, change=lambda module: None):
    torch.manual_seed(0)
    module = Lit(compiled)
    change(module)
    data = torch.utils.data.TensorDataset(torch.randn(12, 8), torch.randint(4, (12,)))
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", gradient_clip_val=0.5, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=4))
    return module.losses, list(module.state_dict())


def test_a_network_compiled_by_configure_model():
    with stages.collect() as log:
        given = fit(compiled=True)
    torch.testing.assert_close(given[0], fit(compiled=False)[0], rtol=1e-4, atol=1e-5)
    assert given[1] == fit(compiled=False)[1], "checkpoints have the names that they had"
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (1, 0)


def test_a_compiled_training_step_breaks_where_lightning_logs():
    def compile_step(module):
        module.training_step = minitorch2.compile(module.training_step)

    with stages.collect() as log:
        given = fit(compiled=False, change=compile_step)
    torch.testing.assert_close(given[0], fit(compiled=False)[0], rtol=1e-4, atol=1e-5)
    assert log.counts["graphs"] > 0
