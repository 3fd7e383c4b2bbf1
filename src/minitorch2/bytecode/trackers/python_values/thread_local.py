"""``threading.local``: each thread's own attributes, read and guarded in the thread that calls."""

from __future__ import annotations

from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.descriptors import MISSING, class_lookup
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable


class ThreadLocalVariable(ObjectVariable):
    """A `threading.local`, or an instance of a class derived from it."""

    def instance_dict(self) -> dict[str, object]:
        found: dict[str, object] = {} if self.value is MISSING else self.value.__dict__
        return found

    def plain_set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        if class_lookup(self.cls, name)[1] is not MISSING:
            super().plain_set_attribute(evaluator, name, value)
        else:
            evaluator.capture.side_effects.store_attribute(self, name, value)
