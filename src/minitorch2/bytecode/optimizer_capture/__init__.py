"""Optimizers in compiled functions: an extension of capture, which core does without.

Importing this package registers its `rules`, and the `bodies` of what `torch.optim` calls. The
front door, `api`, imports it. Without it, a training step is captured in more pieces.
"""

from typing import Any, Final

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from minitorch2.bytecode.optimizer_capture import bodies
from minitorch2.bytecode.optimizer_capture import rules as rules
from minitorch2.bytecode.polyfills import POLYFILLS
from minitorch2.native.torch_internals import functions

BODIES: Final[dict[Any, Any]] = {
    functions.group_by_device_and_dtype: bodies.group_tensors,
    torch.optim.Optimizer.zero_grad: bodies.zero_grad,
    functions.value_of_number: bodies.get_value,
    functions.step_unless_infinite: bodies.step_if_finite,
    ReduceLROnPlateau.step: bodies.step_on_plateau,
    torch._fused_adam_: bodies.fused_adam_,
    torch._fused_adamw_: bodies.fused_adamw_,
    torch._fused_sgd_: bodies.fused_sgd_,
    torch._fused_adagrad_: bodies.fused_adagrad_,
}
"""The Python function that is inlined in place of each function or method."""

POLYFILLS.update(BODIES)
