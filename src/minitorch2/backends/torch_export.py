"""Programs of `torch.export`, made of modules: the only file that imports it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.export

TorchProgram = torch.export.ExportedProgram


def exported_by_torch(module: torch.nn.Module, args: Any, kwargs: Any, shapes: Any) -> TorchProgram:
    """Return the program of a module's call; `shapes` says with `varying` which sizes vary."""
    with torch.no_grad():  # or the whole graph is one node that switches gradients off
        return torch.export.export(module, args, kwargs, dynamic_shapes=shapes)


def varying(limits: Mapping[str, float]) -> Any:
    """Return the mark of a size that may vary; `limits` are ``min`` and ``max``."""
    return torch.export.Dim.AUTO(**limits)
