"""From a frame to compiled code: the steps in their order, and what happens when one fails.

`compile_frame` runs the attempts and puts the parts together as a `compiled_frame`, and
`frame_report` reports the stages. `backend_calls` checks the results of a backend, `rerun` runs a
frame in Python if its graph raises, and `isolation` undoes a compilation that is cut off. `reasons`
explains each code of a graph break. PyTorch 2 paper, section 3.2.
"""
