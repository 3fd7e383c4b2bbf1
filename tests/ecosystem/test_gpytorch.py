"""GPyTorch: a Gaussian process that learns its hyperparameters from the marginal likelihood."""

import pytest
import torch

import minitorch2
from minitorch2 import stages

gpytorch = pytest.importorskip("gpytorch")


class Process(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def losses(compiler, steps=4):
    """The loss of each step of a short training."""
    torch.manual_seed(0)
    x = torch.linspace(0, 1, 60)
    y = torch.sin(6 * x) + 0.1 * torch.randn(60)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    process = Process(x, y, likelihood)
    optimizer = torch.optim.Adam(process.parameters(), lr=0.1)
    likelihood_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, process)
    forward, found = compiler(process), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -likelihood_of(forward(x), y)
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


@pytest.mark.slow
def test_an_exact_process_learns_as_in_eager_mode():
    with stages.collect() as log:
        found = losses(minitorch2.compile)
    assert found == pytest.approx(losses(lambda process: process), rel=1e-3)
    assert (log.counts["graphs"], log.counts["recompiles"]) == (1, 0)
    assert log.counts["graph_breaks"] <= 4, "the cache of lazy matrices pickles arguments"
