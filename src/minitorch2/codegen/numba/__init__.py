"""The printers of CPU kernels: loops become text in Numba's subset of Python.

Read `operators` and `handler` (primitives as text). The loops follow in `kernel`,
`kernel_printer`, `pointwise`, `reduction`, `rows`, `columns`, `scatter` and `cuts`. The text is
compiled and run by `native.kernels`.
"""
