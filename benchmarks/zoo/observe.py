"""What a caller can see of a program's run: all tensors that come out, gradients, buffers."""

import dataclasses
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from benchmarks.zoo.programs import Program

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
"""The backend runs the very operators of eager; only their order may differ (fused attention)."""


def observe(program: Program, model: nn.Module, call: Any, seed: int) -> dict[str, Tensor]:
    """Call the program with the inputs of a seed; everything that has changed, by name."""
    args, kwargs = program.draw(model, seed)
    model.zero_grad()
    seed_everything(seed)
    with torch.set_grad_enabled(program.trains):
        output = call(*args, **kwargs)
        seen = dict(leaves(output, "output"))
        if program.trains:
            seen |= gradients(model, output)
    seen |= leaves(kwargs, "argument")  # caches are written to
    return {name: tensor.detach().clone() for name, tensor in seen.items()} | buffers(model)


def seed_everything(seed: int) -> None:
    """Seed all generators that models draw from."""
    torch.manual_seed(seed)
    numpy.random.seed(seed)
    random.seed(seed)


def gradients(model: nn.Module, output: Any) -> dict[str, Tensor]:
    """Gradients of the parameters: of the loss, or of all that comes out where there is none."""
    loss = output.get("loss") if isinstance(output, Mapping) else None
    results = dict(leaves(output, "output")).values() if loss is None else [loss]
    parts = [(x * x.detach().cos()).sum() for x in results if x.requires_grad]
    if parts:
        torch.stack(parts).sum().backward()
    named = model.named_parameters()
    return {f"gradient of {name}": p.grad for name, p in named if p.grad is not None}


def buffers(model: nn.Module) -> dict[str, Tensor]:
    """Buffers as they are now."""
    return {f"buffer {name}": tensor.clone() for name, tensor in model.named_buffers()}


def leaves(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """All tensors inside containers, dataclasses and caches."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, bool | int | float):
        yield name, torch.tensor(value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from leaves(part, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from leaves(part, f"{name}.{i}")
    elif dataclasses.is_dataclass(value) or hasattr(value, "layers") or hasattr(value, "keys"):
        yield from leaves(vars(value), name)


def difference(got: dict[str, Tensor], expected: dict[str, Tensor]) -> str:
    """The first way in which two observations differ; empty if they agree."""
    if list(got) != list(expected):
        return f"names differ: {sorted(set(got) ^ set(expected))[:4] or 'in order'}"
    for name, tensor in expected.items():
        try:
            torch.testing.assert_close(got[name], tensor, **TOLERANCE, equal_nan=True)
        except AssertionError as error:
            return f"{name}: {error}".splitlines()[0]
    return ""
