"""The loop IR: from a functional aten graph to loop bodies, which are scheduled into kernels.

The package takes a functional aten graph. It gives a schedule of loop bodies.

A loop body is a Python function of SymPy indices that calls `ops.*`; handlers interpret it. Read
`expressions` (index arithmetic), `ops` (the primitives), `layout`, `loops`, `buffers`, `boxes` (the
IR; `ir` has its grammar in one place) first. Then read `views`, `promotion`, `lowering/` (one
function per operator), `lower_graph`, `handlers/` (the interpreters of bodies), `interpret` (a
whole graph, with NumPy) and `verify`. The modules of the scheduler are `iteration`, `schedule`,
`fusion`, `loop_order`, `order` and `memory_plan` (of kernels), and `scheduler`. `coverage` counts
lowerings; a new operator goes into the file of its family in `lowering/`. `python -m
minitorch2.loopir` prints a demo.
"""
