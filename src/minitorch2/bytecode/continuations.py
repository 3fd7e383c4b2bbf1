"""Continuation functions as residual code calls them.

PyTorch 2 paper, section 3.8. `machine/continuation.py` makes their code; here they get a name, the
list of what to pass, and, when the user's function shares variables with closures, its cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType

from minitorch2.bytecode.frame_evaluator import FrameEvaluator
from minitorch2.bytecode.machine.continuation import make_continuation
from minitorch2.bytecode.machine.liveness import live_names
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.null import NULL


@dataclass(frozen=True)
class Continuation:
    """The rest of a function.

    Attributes:
        name: such as ``__resume_at_30_1``.
        code: takes the arguments positionally; its free variables are the cells it goes on using.
        as_is: whether it runs in Python without capture.
    """

    name: str
    code: CodeType
    as_is: bool

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of its parameters: ``.stack0`` for stack items, else local variables."""
        return self.code.co_varnames[: self.code.co_argcount]


def continuation_at(
    evaluator: FrameEvaluator, position: int, number: int, *, as_is: bool = False
) -> Continuation:
    """The continuation of the evaluator's frame at an instruction, with its present stack.

    Raises:
        ContinuationError: a frame cannot go on there.
    """
    live = live_names(evaluator.program.instructions, position, evaluator.code)
    bound = [name for name in live if name in evaluator.locals or name in evaluator.cells]
    nulls = [slot for slot, value in enumerate(evaluator.stack) if value is NULL]
    code = make_continuation(
        evaluator.code, position, bound, len(evaluator.stack), nulls, number=number
    )
    shown = code.replace(co_name=evaluator.code.co_name, co_qualname=evaluator.code.co_qualname)
    return Continuation(code.co_name, shown, as_is)


def argument_value(evaluator: FrameEvaluator, name: str) -> VariableTracker:
    """What residual code passes for a parameter of a continuation."""
    if name.startswith(".stack"):
        return evaluator.stack[int(name.removeprefix(".stack"))]
    return evaluator.locals[name]
