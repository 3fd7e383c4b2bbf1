"""From a Python frame to a graph, guards and residual code.

Takes a running frame (its function and argument values). Gives a `graph.Graph` of the tensor
operators, guards that say for which inputs it holds, and code that calls it in place of the frame.

Reading order: `machine/` (bytecode as data and the frame hook: no PyTorch in it), `sources` (how a
value is loaded again), `trackers/` (symbolic values; a new kind of value is one file there) and
`building/` (trackers of real objects), `guards/` (conditions, and the program that checks them);
then `capture`, `sizes` and `evaluator` (what one attempt at a frame knows, and how it runs
instructions), `handlers/` (what each instruction does), `left_to_python` (those without one),
`operations` and `polyfills/` (operators, and library functions as Python), `side_effects` and
`residual` (what is left to do in Python), `breaks`, `perform` and `continuations` (how to go on
behind an instruction that is not supported), `suspensions` and `steps` (generators and coroutines),
`rerun` (what happens if a graph raises), `compile_frame` (all of it in order) and `dispatch/`
(which compiled code serves a call). `explain` and `observe/` tell what happened, in the words of
`reasons`.
"""
