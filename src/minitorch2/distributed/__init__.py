"""Many processes, one program: collectives in graphs, and a check that ranks compile the same.

The engine is `torch.distributed`. Its collectives are operators of compiled graphs (`collectives`,
`overlap_collectives`), and so are conversions of its distributed tensors (`dtensor`). Its hooks see
the gradients that graphs give. A backward graph may be cut (`cut_backward`); its parts give
gradients one by one (`backward_in_parts`). `job` says when.
The check takes the reports of compiling inside a block, and gives an error where ranks differ::

    block   ::= journal, place                    of one rank, in the store of its process group
    journal ::= event*                            in the order of compiling
    event   ::= graph (digest of its text)  |  graph break (line, cause)  |  recompile (cause)
    place   ::= left  |  the user's line where the rank is

Read `collectives` first, then `journal` (the check on one rank) and `agreement` (on all of them).
"""

from minitorch2.distributed.agreement import RanksDifferError, same_on_all_ranks

__all__ = ["RanksDifferError", "same_on_all_ranks"]
