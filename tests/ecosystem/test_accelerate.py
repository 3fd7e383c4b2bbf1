"""Accelerate: a compiled model may be prepared; its plugin knows PyTorch's own backends only."""

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import stages

accelerate = pytest.importorskip("accelerate")


def train(before=lambda model: model, after=lambda model: model):
    """The losses of an epoch whose gradients add up over two batches, and the names of weights."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = torch.utils.data.TensorDataset(torch.randn(16, 8), torch.randint(4, (16,)))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer, loader = accelerator.prepare(before(model), optimizer, loader)
    model, losses = after(model), []
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
    return losses, list(accelerator.get_state_dict(model))


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_model_is_compiled_before_or_after_it_is_prepared(when):
    with stages.collect() as log:
        losses, names = train(**{when: minitorch2.compile})
    wanted = train()
    torch.testing.assert_close(losses, wanted[0], rtol=1e-4, atol=1e-5)
    assert names == wanted[1]
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (1, 0)


def test_the_plugin_takes_no_other_backend():
    with pytest.raises(ValueError, match="MINITORCH2"):
        accelerate.Accelerator(cpu=True, dynamo_backend="minitorch2")
