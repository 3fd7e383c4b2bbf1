"""Tensors and arrays that no graph takes: subclasses, sparse, quantized and nested ones.

They can be loaded, passed on and asked for their class. Any other operation on one breaks the graph
there, for a reason that names the kind of tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator


def why_unmodeled(value: torch.Tensor, plain: Sequence[type]) -> tuple[str, str] | None:
    """Return code and cause of the break that such a tensor makes; None if graphs take it."""
    if type(value) not in plain:
        return "tensor-subclass", f"the tensor subclass {type(value).__name__}"
    if value.layout is not torch.strided or value.is_quantized or value.is_nested:
        kind = "a quantized tensor" if value.is_quantized else f"a tensor of layout {value.layout}"
        return "tensor-layout", kind
    if value.is_conj() or value.is_neg():
        return "tensor-layout", "a tensor whose conjugation or negation is put off"
    if value._is_zerotensor():
        return "tensor-layout", "a tensor of zeros without memory"
    return None


class UnmodeledTensorVariable(VariableTracker):
    """A tensor, or an array of NumPy, that no graph takes, from outside."""

    def __init__(self, cls: type, reason: tuple[str, str], **options: Any) -> None:
        super().__init__(**options)
        self.cls, self.reason = cls, reason

    def python_type(self) -> type:
        return self.cls

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        unsupported(*self.reason)

    as_argument = truth = items = set_attribute = call_method = _refuse

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if callable(getattr(self.cls, name, None)):
            return GetAttrVariable(self, name)
        return self._refuse()
