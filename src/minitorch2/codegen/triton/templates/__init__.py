"""Kernels around a loop that is written by hand: an extension of the Triton target.

Importing this package adds its planners to the target's; the backend imports it. Read in this
order:

    contraction.py products and convolutions as one sum of products of two operands
    sites.py       where a schedule has one, and the kernels that could be one with it
    template.py    the kernel of a site, around a loop with holes (contraction.py.jinja)
    trial.py       all ways to compute a site: their kernels and their times
    autotune.py    which of them are worth it: measured, and remembered
    attention.py   where a schedule has two products with a softmax between them
    columns.py     which columns of the scores a block of rows can see
    online_softmax.py  the kernel of an attention (attention.py.jinja)
"""

from minitorch2 import config
from minitorch2.codegen.triton.own_kernels import PLANNERS
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.schedule import Capabilities, Schedule


def plan_templates(lowered: LoweredGraph, plan: Schedule, capabilities: Capabilities) -> Schedule:
    """Return the schedule with each attention as one kernel, and with measured templates.

    Products and convolutions become templates under the option `max_autotune`, where a template
    was measured to be faster than the library.
    """
    # Deferred: a process that finds its graphs in the cache plans none.
    from minitorch2.codegen.triton.templates.online_softmax import with_attention

    plan = with_attention(lowered, plan, capabilities)
    if not config.current().max_autotune:
        return plan
    from minitorch2.codegen.triton.templates.autotune import with_templates  # only this option

    return with_templates(lowered, plan, capabilities)


PLANNERS.append(plan_templates)
