"""The class of placements of distributed tensors, in a PyTorch that is built with them."""

from typing import Any, Final

import torch

_CLASSES: Any = getattr(torch._C, "_distributed", None)
PLACEMENTS: Final[tuple[type, ...]] = (
    (_CLASSES.Placement,) if hasattr(_CLASSES, "Placement") else ()
)
