"""The symbolic evaluator: one attempt at a frame, instruction by instruction.

`capture` holds the state of the attempt (graph, inputs, guards, effects), `evaluator` one frame of
it, and `frame_evaluator` the captured frame itself. `handlers/` has a function for each canonical
instruction. PyTorch 2 paper, section 3.4.
"""
