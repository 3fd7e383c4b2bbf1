"""The suites: models by library, each a list of cases.

A suite of a package that is not installed is empty. Models have random weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from benchmarks.breadth import programs as breadth
from benchmarks.cases import Case
from benchmarks.models import cases, in_both_modes
from benchmarks.zoo.modules import MODULES

if TYPE_CHECKING:
    from benchmarks.zoo.architectures import Architecture

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


def transformers() -> Iterator[Case]:
    """Architectures of transformers, small by their configurations, with labels."""
    # Imported here: an optional package.
    from benchmarks.zoo.architectures import ARCHITECTURES

    for each in ARCHITECTURES:
        inputs = {k: v for k, v in each.inputs().items() if isinstance(v, Tensor)}

        def make(each: Architecture = each, names: tuple[str, ...] = tuple(inputs)) -> nn.Module:
            return FirstTensor(Named(each.make(), names))

        def drawn(each: Architecture = each, names: Iterable[str] = inputs) -> tuple[Tensor, ...]:
            found = each.inputs()
            return tuple(found[name] for name in names)

        yield from in_both_modes(f"transformers {each.head}", make, drawn)


class Named(nn.Module):
    """A model that takes its inputs by name, as a function of tensors."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Any:
        return self.model(**dict(zip(self.names, inputs, strict=True)))


def torch_nn() -> Iterator[Case]:
    """Modules of torch.nn that take tensors; training for those with parameters."""
    for module in MODULES:
        made, drawn = module.make(), module.draw()
        parameters = list(made.parameters())
        if all(isinstance(x, Tensor) for x in drawn) and not any(map(is_lazy, parameters)):
            inference, training = in_both_modes(
                f"nn {module.name}", lambda m=module: FirstTensor(m.make()), module.draw
            )
            yield from (inference, training)[: 1 + any(p.requires_grad for p in parameters)]


def diffusers() -> Iterator[Case]:
    """A denoiser, one that text conditions, and an autoencoder, small by their configurations."""
    # Imported here: an optional package.
    import diffusers as library

    sizes = {"layers_per_block": 1, "norm_num_groups": 8, "block_out_channels": (32, 64)}
    step = lambda: (torch.randn(1, 4, 16, 16), torch.tensor(7))  # noqa: E731
    text = lambda: (*step(), torch.randn(1, 8, 32))  # noqa: E731
    networks: list[tuple[type[nn.Module], Callable[[], tuple[Tensor, ...]], dict[str, Any]]] = [
        (library.UNet2DModel, step, {
            "in_channels": 4, "out_channels": 4,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), "attention_head_dim": 8,
        }),
        (library.UNet2DConditionModel, text, {
            "cross_attention_dim": 32, "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"), "attention_head_dim": 8,
        }),
        (library.AutoencoderKL, lambda: (torch.randn(1, 3, 16, 16),), {
            "down_block_types": ("DownEncoderBlock2D",) * 2,
            "up_block_types": ("UpDecoderBlock2D",) * 2,
        }),
    ]  # fmt: skip
    for cls, inputs, more in networks:
        yield from in_both_modes(
            f"diffusers {cls.__name__}",
            lambda cls=cls, more=more: FirstTensor(cls(**sizes, **more)), inputs,
        )  # fmt: skip


SUITES: dict[str, tuple[str, Callable[[], Iterator[Case] | list[Case]]]] = {
    "models": ("torch", cases),
    "vision": ("torch", breadth.vision),
    "language": ("torch", breadth.language),
    "science": ("torch", breadth.sciences),
    "transformers": ("transformers", transformers),
    "nn": ("torch", torch_nn),
    "timm": ("timm", timm),
    "torchvision": ("torchvision", torchvision),
    "torch_geometric": ("torch_geometric", torch_geometric),
    "diffusers": ("diffusers", diffusers),
}
"""By name: the package that a suite needs, and its cases."""


def cases_of(suite: str) -> list[Case]:
    """The cases of a suite; none where its package is not installed."""
    package, make = SUITES[suite]
    return list(make()) if find_spec(package) else []
