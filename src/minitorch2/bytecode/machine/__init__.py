"""CPython's bytecode as data. No PyTorch in here.

Takes a code object. Gives canonical instructions that mean the same on every CPython version, and
code objects made from them.

Reading order: `instruction` (the grammar), `slots`, `decoder` and `encoder` (the two directions),
and `versions/` (one table per CPython version). Then come `disassemble` and `program`, `assemble`
(with `native.cpython.tables`, the compressed line and exception tables), `comprehensions`,
`liveness` and `continuation`. The hook that sees every frame is `native.cpython.frame_hook`.
"""
