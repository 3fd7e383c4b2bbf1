"""It is wrong: find the graph, the smallest program and the part of the compiler that are to blame.

It takes a function or a script whose compiled results are wrong, raise, or kill the process. It
gives a file with a program that fails in the same way, and the floor, pass, rewrite, fusion or
switch to blame.

Read `outcomes` (all that a caller can see of a call) and `differences` (when are two outcomes not
the same?) first. `checked` compares each call of a graph with eager PyTorch: `compare=True`.
`programs` holds a graph that can be cut, `trials` compiles one in one way, `minimize` cuts it,
`levels` searches for the blame, and `inputs` and `minimal_file` write the file. If no graph is
wrong, `statements` cuts the function itself. `frontends` holds the ways that have no graph of ours
from the start: lazy regions and scripts. `search` ties them together.
"""

from minitorch2.explorer.bisection.__main__ import check
from minitorch2.explorer.bisection.search import Bisection
