"""From a Python frame to a graph, guards and residual code.

Takes a running frame (its function and argument values). Gives a `graph.Graph` of the tensor
operators, guards that say for which inputs it holds, and code that calls it in place of the frame.

Reading order: `machine/` holds bytecode as data and the frame hook, without PyTorch. `sources` say
how a value is loaded again, and `trackers/` are the symbolic values (a new kind of value is one
file there). `building/` makes trackers of real objects, and `guards/` holds conditions and the
program that checks them. Then come `capture`, `sizes` and `evaluator` (the state of one attempt at
a frame, and its interpreter), `handlers/` (one function for each instruction), and `left_to_python`
(instructions without a handler). `operations` and `polyfills/` hold operators, and library
functions as Python. `side_effects` and `residual` write the Python that is left to run. `breaks`,
`perform` and `continuations` go on behind an instruction that is not supported, and `suspensions`
and `steps` are for generators and coroutines. `rerun` runs a frame in Python if its graph raises.
`compile_frame` does all of it in order, and `dispatch/` finds the compiled code that serves a call.
`explain` and `observe/` tell what happened, in the words of `reasons`.
"""
