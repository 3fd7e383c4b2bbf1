"""TorchScript: functions and modules that PyTorch's older compiler has made.

What they run is no Python, so there is no bytecode to capture: they are called as they are.
"""

from __future__ import annotations

from typing import Final

import torch


def is_scripted_module(module: torch.nn.Module) -> bool:
    """Whether a module was scripted or traced, or its class has methods that were."""
    return any(isinstance(vars(module).get(name), _SCRIPTED) for name in _PLACES)


_SCRIPTED: Final = (torch._C.ScriptModule, torch.nn.Module)
_PLACES: Final = ("_c", "_actual_script_module")
"""Where such a module keeps its program."""
