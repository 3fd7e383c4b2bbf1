"""Many processes, one program: a check that all ranks of a job compile the same.

The engine is `torch.distributed`: its collectives run between compiled graphs, and its hooks see
the gradients that they give. This package adds a word on what the other ranks have compiled. It
takes the reports of compiling inside a block, and gives an error where they differ::

    block   ::= journal, place                    of one rank, in the store of its process group
    journal ::= event*                            in the order of compiling
    event   ::= graph (digest of its text)  |  graph break (line, cause)  |  recompile (cause)
    place   ::= left  |  the user's line where the rank is

Read `journal` first (one rank), then `agreement` (all of them).
"""

from minitorch2.distributed.agreement import RanksDifferError, same_on_all_ranks

__all__ = ["RanksDifferError", "same_on_all_ranks"]
