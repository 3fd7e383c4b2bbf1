"""Residual code: the Python that runs in place of a captured frame.

`residual_function` collects its statements. `shared_paths` loads values whose paths begin alike.
`breaks` ends it behind an unsupported instruction, which `perform` writes as Python.
`continuations` hold the rest of the frame, and `suspensions` end a segment of a generator.
PyTorch 2 paper, sections 3.7 and 3.8.
"""
