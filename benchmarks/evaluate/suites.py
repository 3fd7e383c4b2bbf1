"""The suites: models by library, each a list of cases.

A suite of a package that is not installed is empty. Models have random weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice

import torch
from torch import Tensor, nn

from benchmarks.breadth import programs as breadth
from benchmarks.cases import Case
from benchmarks.models import cases, in_both_modes

EVERY = 3
"""Of the architectures of timm and torchvision, one in so many is drawn."""
SMALL_IMAGE = 64
LARGEST_IMAGE = 256


class FirstTensor(nn.Module):
    """A model whose answer is the first tensor of its own answer."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> Tensor:
        found = self.model(*inputs)
        while not isinstance(found, Tensor):
            found = next(iter(found.values() if isinstance(found, dict) else found))
        return found


def timm() -> Iterator[Case]:
    """The first model of every third architecture of timm, on images of its own size."""
    # Imported here: an optional package.
    import timm

    architectures = (timm.list_models(module=module) for module in timm.list_modules())
    names = (models[0] for models in architectures if models)
    for name in islice(names, 0, None, EVERY):
        size = timm.get_pretrained_cfg(name).input_size
        if size[-1] <= LARGEST_IMAGE:
            yield from _images(f"timm {name}", lambda name=name: timm.create_model(name), size)


def torchvision() -> Iterator[Case]:
    """Every third model of torchvision's lists of classifiers, one small image."""
    # Imported here: an optional package.
    from torchvision import models

    names = models.list_models(module=models)
    for name in islice(names, 0, None, EVERY):
        large = name.startswith(("vit", "swin", "maxvit", "inception"))
        size = (3, 224, 224) if large else (3, SMALL_IMAGE, SMALL_IMAGE)
        yield from _images(
            f"torchvision {name}", lambda name=name: models.get_model(name, weights=None), size
        )


def _images(name: str, make: Callable[[], nn.Module], size: tuple[int, ...]) -> list[Case]:
    """Inference with one image, training with two."""
    one, two = (lambda: (torch.randn(1, *size),)), (lambda: (torch.randn(2, *size),))
    inference, _ = in_both_modes(name, lambda: FirstTensor(make()), one)
    _, training = in_both_modes(name, lambda: FirstTensor(make()), two)
    return [inference, training]


def torch_geometric() -> Iterator[Case]:
    """Two layers of message passing of each kind, over a random graph."""
    # Imported here: an optional package.
    from torch_geometric.nn import models

    def graph() -> tuple[Tensor, ...]:
        return torch.randn(1000, 64), torch.randint(1000, (2, 5000))

    for kind in (models.GCN, models.GraphSAGE, models.GIN, models.GAT, models.EdgeCNN):
        yield from in_both_modes(f"PyG {kind.__name__}", lambda k=kind: k(64, 64, 2, 16), graph)


SUITES: dict[str, tuple[str, Callable[[], Iterator[Case] | list[Case]]]] = {
    "models": ("torch", cases),
    "vision": ("torch", breadth.vision),
    "language": ("torch", breadth.language),
    "science": ("torch", breadth.sciences),
    "timm": ("timm", timm),
    "torchvision": ("torchvision", torchvision),
    "torch_geometric": ("torch_geometric", torch_geometric),
}
"""By name: the package that a suite needs, and its cases."""


def cases_of(suite: str) -> list[Case]:
    """The cases of a suite; none where its package is not installed."""
    package, make = SUITES[suite]
    return list(make()) if find_spec(package) else []
