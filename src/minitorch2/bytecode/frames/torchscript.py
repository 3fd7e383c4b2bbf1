"""TorchScript: functions and modules that PyTorch's older compiler has made.

None of them runs Python code, so capture finds no bytecode: they are called as they are.
"""

from __future__ import annotations

from typing import Final

import torch

from minitorch2.native.torch_internals.functions import ScriptModule


def is_scripted_module(module: torch.nn.Module) -> bool:
    """Return whether a module was scripted or traced, or its class has methods that were."""
    return any(isinstance(vars(module).get(name), _SCRIPTED) for name in _PLACES)


_SCRIPTED: Final = (ScriptModule, torch.nn.Module)
_PLACES: Final = ("_c", "_actual_script_module")
"""The attributes in which such a module keeps its program."""
