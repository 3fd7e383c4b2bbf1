"""LazyTensor: operators are recorded when they are called, and run at barriers as one program.

Takes operators of eager PyTorch, forward, backward and optimizers alike; gives graphs to `backends`
and real tensors to the program (LazyTensor: combining eager execution with domain-specific
compilers, 2021).

    step     ::= event* barrier                    what ran between two barriers
    event    ::= enter numbers                     data that are there become an input
              |  operator argument* numbers        an operator, a write or a view
    argument ::= %i | hole | literal | [argument*] %i: the i-th value of the step
    hole     ::= a number that may vary: sizes, scalars and floats, as the schema says
    place    ::= where a step has come in the trie of steps
    program  ::= (place, live values) -> graph; each hole a constant, an expression or a parameter
    value    ::= data | promise (step, %i) | view (value, operator)

Two laws, tested as properties: ``run(step) == eager(step)`` for all that a caller can see, and
``admits(program, step) => program(step) == interpret(step)``.

Read first the data: `value`, `event`, `trie`, `step`. An operator is recorded by `plan`, `infer`,
`record` and `defer`, known ones by `expect`, or runs at once by `draw` and `fallback`; views keep
`marks`. A step runs by `interpret`, `holes`, `path_graph`, `program` and `barrier`. Tensors become
lazy in `region` (with `control_flow`) and `transfer`; `stable` and `repeat` run known steps without
Python. `explain` and `print_ir` show what happened.
"""

from minitorch2.lazy.barrier import mark_step, reset, sync
from minitorch2.lazy.explain import Compilation, Metrics, metrics, why_compiled
from minitorch2.lazy.fallback import run_fallback
from minitorch2.lazy.print_ir import pending_dot, pending_text
from minitorch2.lazy.region import lazily
from minitorch2.lazy.stable import Stable, stable
from minitorch2.lazy.transfer import to_eager, to_lazy
from minitorch2.lazy.value import LazyTensor

__all__ = [
    "Compilation",
    "LazyTensor",
    "Metrics",
    "Stable",
    "lazily",
    "mark_step",
    "metrics",
    "pending_dot",
    "pending_text",
    "reset",
    "run_fallback",
    "stable",
    "sync",
    "to_eager",
    "to_lazy",
    "why_compiled",
]
