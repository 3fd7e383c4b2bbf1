"""From a Python frame to a graph, guards and residual code.

Takes a running frame (its function and argument values). Gives a `graph.Graph` of the tensor operators,
guards that say for which inputs it holds, and code that calls it in place of the frame.

Reading order: `machine/` (bytecode as data and the frame hook: no PyTorch in it), `sources` (how a value
is loaded again), `trackers/` (symbolic values), then the evaluator, guards and code generation.
"""
