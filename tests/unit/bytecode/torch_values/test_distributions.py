"""`torch.distributions`, validation of arguments included: each method is one graph.

`python -m tests.unit.bytecode.torch_values.sweep_distributions` runs every method of every one, and
every divergence. What looks at data breaks the graph: `Wishart` (a warning depends on it), `VonMises.sample` (draws
until all are accepted), the entropy of `Binomial` and `Multinomial` (a size is drawn from data), the
variance of `StudentT`.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import distributions as D
from torch.testing import assert_close

import minitorch2

MAKERS: dict[str, Callable[..., Any]] = {
    "Bernoulli": lambda x: D.Bernoulli(x / 3),
    "Beta": lambda x: D.Beta(x, x + 1),
    "Binomial": lambda x: D.Binomial(5, x / 3),
    "Categorical": D.Categorical,
    "Cauchy": lambda x: D.Cauchy(x, x),
    "Chi2": D.Chi2,
    "ContinuousBernoulli": lambda x: D.ContinuousBernoulli(x / 3),
    "Dirichlet": D.Dirichlet,
    "Exponential": D.Exponential,
    "FisherSnedecor": lambda x: D.FisherSnedecor(x, x + 1),
    "Gamma": lambda x: D.Gamma(x, x),
    "Geometric": lambda x: D.Geometric(x / 3),
    "Gumbel": lambda x: D.Gumbel(x, x),
    "HalfCauchy": D.HalfCauchy,
    "HalfNormal": D.HalfNormal,
    "Independent": lambda x: D.Independent(D.Normal(x, x), 1),
    "InverseGamma": lambda x: D.InverseGamma(x, x),
    "Kumaraswamy": lambda x: D.Kumaraswamy(x, x),
    "LKJCholesky": lambda x: D.LKJCholesky(3, x[0]),
    "Laplace": lambda x: D.Laplace(x, x),
    "LogNormal": lambda x: D.LogNormal(x, x),
    "LogisticNormal": lambda x: D.LogisticNormal(x, x),
    "LowRankMultivariateNormal": lambda x: D.LowRankMultivariateNormal(x, x[:, None], x),
    "MixtureSameFamily": lambda x: D.MixtureSameFamily(D.Categorical(x), D.Normal(x, x)),
    "Multinomial": lambda x: D.Multinomial(5, x),
    "MultivariateNormal": lambda x: D.MultivariateNormal(x, torch.diag(x)),
    "of many covariances": lambda x: D.MultivariateNormal(x, torch.diag(x).expand(2, 3, 3)),
    "of a precision": lambda x: D.MultivariateNormal(x, precision_matrix=torch.diag(x)),
    "NegativeBinomial": lambda x: D.NegativeBinomial(5, x / 3),
    "Normal": lambda x: D.Normal(x, x),
    "OneHotCategorical": D.OneHotCategorical,
    "OneHotCategoricalStraightThrough": D.OneHotCategoricalStraightThrough,
    "Pareto": lambda x: D.Pareto(x, x),
    "Poisson": D.Poisson,
    "RelaxedBernoulli": lambda x: D.RelaxedBernoulli(x[0], x / 3),
    "RelaxedOneHotCategorical": lambda x: D.RelaxedOneHotCategorical(x[0], x),
    "StudentT": lambda x: D.StudentT(x, x, x),
    "TransformedDistribution": lambda x: D.TransformedDistribution(
        D.Normal(x, x), [D.transforms.ExpTransform(), D.transforms.AffineTransform(1.0, 2.0)]
    ),
    "Uniform": lambda x: D.Uniform(x, x + 1),
    "VonMises": lambda x: D.VonMises(x, x),
    "Weibull": lambda x: D.Weibull(x, x),
    "Wishart": lambda x: D.Wishart(x[0] + 3, torch.diag(x)),
}
DATA = {"Wishart", "VonMises.sample", "Binomial.entropy", "Multinomial.entropy"}
"""What looks at data."""

METHODS: dict[str, Callable[..., Any]] = {
    "sample": lambda made, x: made(x).sample((2,)),
    "log_prob": lambda made, x: made(x).log_prob(made(x).sample()),
    "rsample": lambda made, x: made(x).rsample(),
    "entropy": lambda made, x: made(x).entropy(),
    "kl": lambda made, x: D.kl_divergence(made(x), made(x + 0.1)),
}


def outcome(function: Callable[..., Any], x: torch.Tensor) -> Any:
    """Results, gradients, and the random state that is left; None for what is not defined."""
    torch.manual_seed(0)
    try:
        result = function(x)
    except NotImplementedError:
        return None
    has_gradient = result.requires_grad
    gradient = torch.autograd.grad(result.sum(), x, allow_unused=True) if has_gradient else None
    return result, gradient, torch.get_rng_state()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", MAKERS)
def test_distributions(name: str, method: str) -> None:
    x = (torch.rand(3) + 0.5).requires_grad_()
    make, call = MAKERS[name], METHODS[method]
    try:
        expected = outcome(lambda x: call(make, x), x)
    except (AssertionError, RuntimeError):
        expected = None
    if expected is None:
        pytest.skip(f"PyTorch has no {name}.{method}")
    fullgraph = DATA.isdisjoint({name, f"{name}.{method}", f"{name}.sample"})
    compiled = minitorch2.compile(
        lambda x: call(make, x), fullgraph=fullgraph and name != "InverseGamma", backend="eager"
    )
    assert_close(outcome(compiled, x), expected, equal_nan=True)


def test_arguments_are_validated() -> None:
    """The error is eager's."""
    compiled = minitorch2.compile(MAKERS["MultivariateNormal"], backend="eager", fullgraph=True)
    with pytest.raises(ValueError, match="PositiveDefinite"):
        compiled(-torch.ones(3))
    of_matrix = minitorch2.compile(
        lambda m: D.MultivariateNormal(torch.zeros(3), m).log_prob(torch.ones(3)),
        backend="eager", fullgraph=True,
    )  # fmt: skip
    assert_close(of_matrix(torch.eye(3)), torch.tensor(-4.2568), rtol=1e-4, atol=1e-4)
    for wrong in (torch.eye(3).tril() + torch.ones(3, 3).tril(), -torch.eye(3)):
        with pytest.raises(ValueError, match="PositiveDefinite"):
            of_matrix(wrong)


def test_new_tensors_of_sizes() -> None:
    """`Tensor.new` of a `torch.Size` once gave a tensor of the numbers."""

    def function(x):
        sizes = x.new(3, 4).fill_(1), x.new(x.shape).zero_(), x.new(x.size(0)).fill_(2)
        return *sizes, x.new([1, 2]), x.new((3,)), x.new().shape

    for dynamic in (False, True):
        compiled = minitorch2.compile(function, fullgraph=True, backend="eager", dynamic=dynamic)
        assert_close(compiled(torch.zeros(3, 4)), function(torch.zeros(3, 4)))
