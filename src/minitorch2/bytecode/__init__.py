"""From a Python frame to a graph, guards and residual code.

Takes a running frame (its function and argument values). Gives a `graph.Graph` of the tensor
operators, guards that say for which inputs it holds, and code that calls it in place of the frame.

Reading order: `machine/` (bytecode as data and the frame hook: no PyTorch in it), `sources` (how a
value is loaded again), `trackers/` (symbolic values), `guards` and `guard_function`; then
`capture` and `evaluator` (what one attempt at a frame knows, and how it runs instructions),
`handlers/` (what each instruction does), `side_effects` and `residual` (what is left to do in
Python), `breaks` and `perform` (how to go on behind an instruction that is not supported),
`compile_frame` (all of it in order) and `dispatch` (which compiled code serves a call). `explain`
tells what happened.
"""
