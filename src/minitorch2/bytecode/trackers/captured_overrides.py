"""The overrides of PyTorch's functions that are in force at a point of the captured code.

`overrides` reads the state of a thread. The captured code may enter and leave modes, so here the
state is one of trackers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.native.torch_internals.modes import DeviceContext, device_constructors


@dataclass
class Overrides:
    """The state of a captured frame.

    Attributes:
        of_classes: whether overrides of classes act.
        of_modes: whether modes act.
        modes: the trackers of the modes, innermost last.
        before: the modes that were active when the frame began.
        default: the default device that the code sets; empty if it sets none.
    """

    of_classes: bool
    of_modes: bool
    modes: list[VariableTracker] = field(default_factory=list)
    before: tuple[VariableTracker, ...] = ()
    default: list[VariableTracker] = field(default_factory=list)

    def innermost(self) -> VariableTracker | None:
        """Return the mode that sees the next call; None if there is none."""
        return self.modes[-1] if self.of_modes and self.modes else None

    def sees(self, target: object) -> bool:
        """Return whether a mode may override a call of a function, or of the method of a name."""
        if not self.of_modes or not self.modes:
            return False
        only_devices = all(mode.python_type() is DeviceContext for mode in self.modes)
        return not only_devices or (callable(target) and target in device_constructors())

    def default_device(self) -> torch.device | None:
        """Return the innermost default device; None if there is none."""
        modes = reversed(self.modes) if self.of_modes else ()
        return next((m.device for m in modes if m.python_type() is DeviceContext), None)  # type: ignore[attr-defined]

    def set_default(self, device: VariableTracker, mode: VariableTracker | None) -> None:
        """Replace the default device, whose mode is the outermost; residual code sets it."""
        others = [m for m in self.modes if m.python_type() is not DeviceContext]
        self.modes = [*([] if mode is None else [mode]), *others]
        self.before, self.default = tuple(self.modes), [device]

    @contextmanager
    def without_innermost(self) -> Iterator[None]:
        """Take the innermost mode off in the block: it does not see its own calls."""
        mode = self.modes.pop()
        try:
            yield
        finally:
            self.modes.append(mode)

    def disable(self, *, modes_too: bool) -> tuple[bool, bool]:
        """Switch overrides of classes off from here on; return the state to `restore`."""
        before = self.of_classes, self.of_modes
        self.of_classes, self.of_modes = False, self.of_modes and not modes_too
        return before

    def restore(self, before: tuple[bool, bool]) -> None:
        """Go back to a state that `disable` has returned."""
        self.of_classes, self.of_modes = before

    @contextmanager
    def disabled(self, *, modes_too: bool) -> Iterator[None]:
        """Switch overrides of classes off inside of the block."""
        before = self.disable(modes_too=modes_too)
        try:
            yield
        finally:
            self.restore(before)

    def changes(self) -> tuple[int, list[VariableTracker]]:
        """Return the number of modes that were left, and the modes that were entered instead."""
        pairs = zip(self.before, self.modes, strict=False)
        kept = next((i for i, (old, new) in enumerate(pairs) if old is not new), None)
        if kept is None:
            kept = min(len(self.before), len(self.modes))
        return len(self.before) - kept, self.modes[kept:]
