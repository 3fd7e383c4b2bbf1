"""A sample of real-world modules: classes of installed packages, with arguments that they get.

The models of a source run once in evaluation mode. Of each class of module that belongs to the
package the first call is kept. The classes of a package, sorted by name, are drawn by a fixed seed,
so that nobody chooses what is counted.

sources ::= transformers      the architectures of `benchmarks.zoo`, on inputs without labels
         |  torchvision       the smallest model of each file, on small images
         |  timm              the smallest model of each file, on small images
         |  torch_geometric   the layers of `torch_geometric.nn`, on a random graph
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.zoo.architectures import ARCHITECTURES
from benchmarks.zoo.programs import INFERENCE, of_architecture

SIDE, NODES, EDGES = 64, 8, 20
SMALL = ("zepto", "atto", "femto", "pico", "nano", "micro", "xxs", "xs", "xxtiny", "tiny", "mini",
         "small")  # fmt: skip
"""Words of models' names, the smallest first."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Source:
    """A model of a package: how to build it, and what it is called with."""

    package: str
    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[nn.Module], Arguments]

    def calls(self) -> dict[str, tuple[nn.Module, Arguments]]:
        """Run the model; return the first call of each class of the package, by the class's name.

        Raises:
            Exception: the model cannot be built here, or its inputs do not fit it.
        """
        torch.manual_seed(0)
        model = self.build().eval()
        found: dict[str, tuple[nn.Module, Arguments]] = {}

        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            cls = type(module)
            if cls.__module__.partition(".")[0] == self.package:
                found.setdefault(f"{cls.__module__}.{cls.__qualname__}", (module, (args, kwargs)))

        with torch.no_grad():
            args, kwargs = self.inputs(model)  # may try the model
            hooks = [
                each.register_forward_pre_hook(keep, with_kwargs=True) for each in model.modules()
            ]
            model(*args, **kwargs)
        for hook in hooks:
            hook.remove()
        return found


def transformers() -> Iterator[Source]:
    """The architectures of `benchmarks.zoo`."""
    allow_torchvision()
    for architecture in ARCHITECTURES:
        for program in of_architecture(architecture):
            if program.suite == INFERENCE:
                yield Source("transformers", program.name, program.make, program.inputs)


def size_of(name: str) -> tuple[int, int, str]:
    """Return a key that is smaller for the names of smaller models."""
    words = name.replace("_", " ").replace("-", " ").split()
    place = next((k for k, small in enumerate(SMALL) if small in words), len(SMALL))
    return place, len(name), name


def images(model: nn.Module) -> Arguments:
    """Small images."""
    return (torch.randn(2, 3, SIDE, SIDE),), {}


def allow_torchvision() -> None:
    """Let torchvision load where its operators do not: no classifier calls them."""
    for part in ("_meta_registrations", "_autograd_registrations"):
        sys.modules.setdefault(f"torchvision.{part}", ModuleType(part))


def timm() -> Iterator[Source]:
    """The smallest model of each file of timm."""
    allow_torchvision()
    package = import_module("timm")
    for family in package.list_modules():
        name = min(package.list_models(module=family), key=size_of, default="")
        if name:
            yield Source("timm", name, lambda n=name: package.create_model(n), timm_images)


def timm_images(model: Any) -> Arguments:
    """Small images, or an image of the size that the model was made for."""
    small = images(model)
    try:
        model(*small[0])
    except Exception:
        return (torch.randn(1, *model.pretrained_cfg["input_size"]),), {}
    return small


def torchvision() -> Iterator[Source]:
    """The smallest model of each file of torchvision, random weights."""
    allow_torchvision()
    models = import_module("torchvision.models")
    files: dict[str, list[str]] = {}
    for name in models.list_models():
        file = models.get_model_builder(name).__module__
        files.setdefault(file, []).append(name)
    for names in files.values():
        name = min(names, key=size_of)
        yield Source("torchvision", name, lambda n=name: vision_model(models, n), vision_inputs)


def vision_model(models: ModuleType, name: str) -> nn.Module:
    """Build a model of torchvision without weights."""
    builder = models.get_model_builder(name)
    known = inspect.signature(builder).parameters
    options = {key: None for key in ("weights", "weights_backbone") if key in known}
    return builder(**options)


def vision_inputs(model: nn.Module) -> Arguments:
    """Images, lists of images, videos or pairs of images, as the model takes them."""
    kind = type(model).__module__.split(".")[-2]
    if kind == "detection":
        return ([torch.rand(3, SIDE, SIDE)],), {}
    if kind == "video":
        return (torch.randn(1, 3, 16, 112, 112),), {}
    if kind == "optical_flow":
        return (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128)), {}
    side = 224 if "vision_transformer" in type(model).__module__ else 2 * SIDE
    side = 299 if "inception" in type(model).__module__ else side
    return (torch.randn(2, 3, side, side),), {}


GRAPH_SIZES: dict[str, Any] = {
    "in_channels": 16, "out_channels": 8, "hidden_channels": 8, "num_layers": 2, "channels": 16,
    "heads": 2, "K": 2, "dim": 2, "kernel_size": 3, "num_relations": 3, "edge_dim": 4,
    "num_nodes": NODES, "ratio": 0.5, "k": 2, "input_dim": 16, "output_dim": 8, "num_features": 16,
}  # fmt: skip
"""Arguments of layers for graphs, by the names of their parameters."""


def torch_geometric() -> Iterator[Source]:
    """The layers of torch_geometric that random features of nodes, and edges, can be given to."""
    package = import_module("torch_geometric.nn")
    for name in sorted(dir(package)):
        cls = getattr(package, name)
        if inspect.isclass(cls) and issubclass(cls, nn.Module):
            yield Source("torch_geometric", name, lambda c=cls: graph_layer(c), graph_inputs)


def graph_layer(cls: type[nn.Module]) -> nn.Module:
    """Build a layer with small sizes for its required parameters."""
    given = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        if parameter.default is inspect.Parameter.empty and name in GRAPH_SIZES:
            given[name] = GRAPH_SIZES[name]
    return cls(**given)


def graph_inputs(layer: nn.Module) -> Arguments:
    """Features, with edges, with weights or kinds of edges, with positions, or alone.

    Raises:
        TypeError: the layer takes none of these.
    """
    x, edges = torch.randn(NODES, 16), torch.randint(NODES, (2, EDGES))
    named: dict[str, Tensor] = {
        "x": x, "edge_index": edges, "pos": torch.randn(NODES, 3), "h": x, "src": x, "index":
        torch.arange(NODES).div(2, rounding_mode="floor"), "z": x, "edge_type": torch.randint(3,
        (EDGES,)), "batch": torch.zeros(NODES, dtype=torch.long),
    }  # fmt: skip
    required = [
        name
        for name, parameter in inspect.signature(layer.forward).parameters.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    if not set(required) <= set(named):
        raise TypeError(f"{type(layer).__name__} takes {required}")
    return tuple(named[name] for name in required), {}


SOURCES: dict[str, Callable[[], Iterator[Source]]] = {
    "torchvision": torchvision,
    "timm": timm,
    "torch_geometric": torch_geometric,
    "transformers": transformers,
}
