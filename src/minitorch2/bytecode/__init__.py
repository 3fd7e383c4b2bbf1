"""From a Python frame to a graph, guards and residual code.

Takes a running frame (its function and argument values). Gives a `graph.Graph` of the tensor
operators, guards that say for which inputs it holds, and code that calls it in place of the frame.

Reading order, from the ground up: a room imports from rooms named before it only. `machine/` holds
bytecode as data and the frame hook, without PyTorch. `frames/` describes the user's functions.
`guards/` holds sources (how a value is loaded again), conditions, and the program that checks them.
`polyfills/` are library functions as Python, and `operators/` what a captured graph has besides
PyTorch's operators. `trackers/` are the symbolic values (a new kind of value is one file there).
`building/` makes them of real objects; the extensions `numpy_capture/`, `optimizer_capture/` and
`kernel_capture/` add NumPy's, what `torch.optim` calls, and the user's Triton kernels.
`evaluation/` is the interpreter of one attempt at a frame, `residual/` writes the Python that is
left to run, and `compiling/` does all of it in order. `dispatch/` finds the compiled code that
serves a call. `observe/` tells what happened; it is an extension as well.
"""
