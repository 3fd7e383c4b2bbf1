"""A GPT's training step as one function is one graph and trains as eager does."""

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import stages
from minitorch2.demo.workloads import load_gpt_example


def trained(compile, steps=3):
    """Losses and parameters of a small GPT, as nanoGPT trains it."""
    torch.manual_seed(0)
    gpt = load_gpt_example()
    config = gpt.GPTConfig(16, context=8, width=16, heads=2, layers=1, dropout=0.0)
    model = gpt.GPT(config).double()  # AdamW makes steps of what is 0 but for rounding
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95))

    def step(tokens, targets):
        optimizer.zero_grad(set_to_none=True)
        loss = model(tokens, targets)[1]
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    step = compile(step)
    tokens = torch.randint(16, (2, 9))
    losses = [step(tokens[:, :-1], tokens[:, 1:]) for _ in range(steps)]
    return losses, [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
def test_a_gpt_step_is_one_graph(backend):
    expected = trained(lambda step: step)
    with stages.collect() as log:
        given = trained(lambda step: minitorch2.compile(step, backend=backend, fullgraph=True))
    torch.testing.assert_close(given, expected, rtol=1e-6, atol=1e-7)
    assert log.counts["graph_breaks"] == log.counts["frames_as_is"] == 0
    assert log.counts["graphs"] == log.counts["frames"] == 2  # without and with moments
