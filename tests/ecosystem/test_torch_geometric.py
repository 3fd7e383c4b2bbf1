"""PyTorch Geometric: message passing over graphs of any number of nodes and edges."""

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import stages

layers = pytest.importorskip("torch_geometric.nn")


class Net(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.first, self.second = kind(8, 16), kind(16, 4)

    def forward(self, x, edges, batch):
        x = self.second(F.relu(self.first(x, edges)), edges)
        return layers.global_mean_pool(x, batch, size=2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["GCNConv", "GATConv", "SAGEConv"])
def test_graphs_of_other_sizes_compile_once_more(kind):
    torch.manual_seed(0)
    net = Net(getattr(layers, kind))

    def step(forward, *data):
        net.zero_grad()
        value = forward(*data)
        value.square().sum().backward()
        return [value, *(p.grad.clone() for p in net.parameters())]

    with stages.collect() as log:
        fast = minitorch2.compile(net)
        for nodes, edges in ((10, 30), (13, 41), (20, 77), (7, 15)):
            data = (
                torch.randn(nodes, 8),
                torch.randint(nodes, (2, edges)),
                torch.arange(nodes) % 2,
            )
            torch.testing.assert_close(step(fast, *data), step(net, *data), rtol=1e-4, atol=1e-5)
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (2, 0)
