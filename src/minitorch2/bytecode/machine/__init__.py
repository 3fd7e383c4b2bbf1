"""CPython's bytecode as data, and the hook that sees every frame. No PyTorch in here.

Takes a code object or a starting frame. Gives canonical instructions that mean the same on every
CPython version, code objects made from them, and a callback before each frame runs.

Reading order: `instruction` (the grammar), `slots`, `decoder` and `encoder` (the two directions),
and `versions/` (one table per CPython version). Then come `disassemble` and `program`, `assemble`
(with `tables`, the compressed line and exception tables), `comprehensions`, `liveness` and
`continuation`. Last are `interpreter_api`, `frame_layout` and `frame_hook`.
"""
