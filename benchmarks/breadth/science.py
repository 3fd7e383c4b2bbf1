"""Small scientific programs, as one writes them in a notebook."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def heat(u: Tensor) -> Tensor:
    """Ten steps of the heat equation on a periodic grid."""
    for _ in range(10):
        around = u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1)
        u = u + 0.1 * (around - 4 * u)
    return u


def waves(u: Tensor, before: Tensor) -> Tensor:
    """Leapfrog steps of the wave equation between fixed borders."""
    for _ in range(8):
        laplace = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        after = 2 * u - before + 0.2 * F.pad(laplace, (1, 1, 1, 1))
        u, before = after, u
    return u


def option_prices(spot: Tensor, strike: Tensor, years: Tensor) -> Tensor:
    """Prices of calls by Black and Scholes."""
    rate, volatility = 0.03, 0.25
    spread = volatility * years.sqrt()
    d1 = (torch.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread

    def normal(x: Tensor) -> Tensor:
        return 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    return spot * normal(d1) - strike * torch.exp(-rate * years) * normal(d1 - spread)


def asian_option(noise: Tensor) -> Tensor:
    """The price of an option on a mean, by paths of given noise (paths, days)."""
    days = noise.shape[1]
    drift, spread = (0.03 - 0.5 * 0.04) / days, 0.2 / math.sqrt(days)
    paths = 100 * torch.exp(torch.cumsum(drift + spread * noise, 1))
    return (paths.mean(1) - 100).clamp(min=0).mean() * math.exp(-0.03)


def k_means(points: Tensor, centers: Tensor) -> Tensor:
    """Three rounds of Lloyd's algorithm."""
    for _ in range(3):
        nearest = torch.cdist(points, centers).argmin(1)
        member = F.one_hot(nearest, len(centers)).to(points.dtype)
        centers = (member.t() @ points) / member.sum(0).clamp(min=1)[:, None]
    return centers


def planets(place: Tensor, speed: Tensor, mass: Tensor) -> Tensor:
    """Steps of particles that attract each other."""
    for _ in range(4):
        apart = place[None] - place[:, None]
        distance = apart.square().sum(-1) + 1e-2
        force = apart * (mass[None, :, None] * distance.pow(-1.5)[..., None])
        speed = speed + 0.01 * force.sum(1)
        place = place + 0.01 * speed
    return place


def lennard_jones(place: Tensor) -> Tensor:
    """The energy of atoms; forces are its gradients."""
    apart = place[:, None] - place[None]
    squared = apart.square().sum(-1) + torch.eye(len(place), device=place.device) * 1e6
    sixth = (1.0 / squared) ** 3
    return 2 * (sixth.square() - sixth).sum()


class GraphNetwork(nn.Module):
    """Messages along edges, added up at their ends (Kipf and Welling, 2017)."""

    def __init__(self, width: int = 64, depth: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        sources, ends = edges
        degree = torch.zeros(len(x), device=x.device).index_add(
            0, ends, torch.ones_like(ends) * 1.0
        )
        weight = (degree + 1).rsqrt()
        for layer in self.layers:
            message = layer(x)[sources] * (weight[sources] * weight[ends])[:, None]
            x = F.relu(torch.zeros_like(x).index_add(0, ends, message)) + x
        return x


class GraphAttention(nn.Module):
    """Messages weighted by a softmax over the edges of each end (Velickovic et al., 2018)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.project, self.score = nn.Linear(width, width), nn.Linear(2 * width, 1)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        sources, ends = edges
        h = self.project(x)
        score = F.leaky_relu(self.score(torch.cat([h[sources], h[ends]], 1)), 0.2).squeeze(1)
        start = torch.full((len(x),), -math.inf, device=x.device)
        top = start.scatter_reduce(0, ends, score.detach(), "amax")
        weight = torch.exp(score - top[ends])
        total = torch.zeros(len(x), device=x.device).index_add(0, ends, weight)
        share = weight / (total[ends] + 1e-9)
        return torch.zeros_like(h).index_add(0, ends, share[:, None] * h[sources])


class PhysicsInformed(nn.Module):
    """The residual of Burgers' equation, with second derivatives of a network in its input."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, 1),
        )  # fmt: skip

    def forward(self, points: Tensor) -> Tensor:
        points = points.detach().requires_grad_()
        u = self.net(points)
        (first,) = torch.autograd.grad(u.sum(), points, create_graph=True)
        (second,) = torch.autograd.grad(first[:, 0].sum(), points, create_graph=True)
        residual = first[:, 1] + u[:, 0] * first[:, 0] - 0.01 * second[:, 0]
        return residual.square().mean()


def spectrogram(sound: Tensor, window: Tensor) -> Tensor:
    """Decibels of short spectra."""
    spectra = torch.stft(sound, 256, 64, window=window, return_complex=True)
    return 10 * torch.log10(spectra.abs().square() + 1e-10)


def filtered(sound: Tensor, taps: Tensor) -> Tensor:
    """A finite impulse response, its envelope, and a threshold."""
    length = taps.shape[-1]
    y = F.conv1d(F.pad(sound[:, None], (length - 1, 0)), taps[None, None])[:, 0]
    envelope = F.avg_pool1d(y.abs()[:, None], 31, 1, 15)[:, 0]
    return torch.where(envelope > envelope.mean(), y, 0.1 * y)


def kalman(measured: Tensor) -> Tensor:
    """A filter for place and speed along many tracks (tracks, steps)."""
    place, speed = measured[:, 0], torch.zeros_like(measured[:, 0])
    p00, p01, p11 = (torch.full_like(place, value) for value in (1.0, 0.0, 1.0))
    for step in range(1, measured.shape[1]):
        place = place + speed
        p00, p01, p11 = p00 + 2 * p01 + p11 + 0.01, p01 + p11, p11 + 0.01
        gain0, gain1 = p00 / (p00 + 0.5), p01 / (p00 + 0.5)
        error = measured[:, step] - place
        place, speed = place + gain0 * error, speed + gain1 * error
        p00, p01, p11 = (1 - gain0) * p00, (1 - gain0) * p01, p11 - gain1 * p01
    return torch.stack([place, speed])


def lorenz(state: Tensor) -> Tensor:
    """Runge-Kutta steps of Lorenz' system, many at a time (3, n)."""

    def slope(s: Tensor) -> Tensor:
        x, y, z = s
        return torch.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    for _ in range(5):
        k1 = slope(state)
        k2 = slope(state + 0.005 * k1)
        k3 = slope(state + 0.005 * k2)
        k4 = slope(state + 0.01 * k3)
        state = state + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state


def mandelbrot(real: Tensor, imaginary: Tensor) -> Tensor:
    """How many of 20 steps stay bounded."""
    x, y = torch.zeros_like(real), torch.zeros_like(real)
    count = torch.zeros_like(real)
    for _ in range(20):
        x, y = x * x - y * y + real, 2 * x * y + imaginary
        x, y = x.clamp(-10, 10), y.clamp(-10, 10)
        count = count + (x * x + y * y < 4)
    return count


def edges(images: Tensor) -> Tensor:
    """A blur, Sobel's gradients, and their strength as a share of the largest."""
    blur = torch.tensor([1.0, 4, 6, 4, 1], device=images.device) / 16
    x = F.conv2d(images, blur.view(1, 1, 1, 5), padding=(0, 2))
    x = F.conv2d(x, blur.view(1, 1, 5, 1), padding=(2, 0))
    sobel = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]], device=images.device)
    kernels = torch.stack([sobel, sobel.t()])[:, None]
    strength = F.conv2d(x, kernels, padding=1).square().sum(1).sqrt()
    return strength / strength.amax((1, 2), keepdim=True)


def gaussian_process(x: Tensor, y: Tensor) -> Tensor:
    """The log likelihood of a Gaussian process, but for a constant."""
    distance = (x[:, None] - x[None]).square().sum(-1)
    kernel = torch.exp(-0.5 * distance) + 0.1 * torch.eye(len(x), device=x.device)
    factor = torch.linalg.cholesky(kernel)
    solved = torch.cholesky_solve(y[:, None], factor)[:, 0]
    return -0.5 * (y @ solved) - factor.diagonal().log().sum()


def ranks(links: Tensor, rank: Tensor) -> Tensor:
    """Ten rounds of PageRank over a dense matrix."""
    shares = links / links.sum(0).clamp(min=1)
    for _ in range(10):
        rank = 0.85 * (shares @ rank) + 0.15 / len(rank)
    return rank


def regression() -> Callable[[Tensor, Tensor], Tensor]:
    """A step of logistic regression with momentum."""
    model = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step(x: Tensor, labels: Tensor) -> Tensor:
        with torch.enable_grad():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), labels)
            loss.backward()
        optimizer.step()
        return loss.detach()

    return step
