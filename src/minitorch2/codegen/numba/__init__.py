"""Numba kernels: the code generator for the CPU. No C compiler is needed, here or at run time.

Read in this order: `operators` and `handler` (primitives as text), `kernel`, `kernel_printer`,
`pointwise`, `reduction`, `rows`, `columns`, `scatter` (loops around them), `primitives`, `library`,
`seldom`, `vecmath`, `vecmath_f64`, `vecmath_real`, `transpose`, `vocabulary` (the names that the
text may use), `arithmetic`, `frontend`, `linking`, `machine_code` (text to machine code), `openmp`,
`launcher` (calls and threads), `runtime` (the cache of kernels in this process and on disk),
`stepping` (kernels as plain Python, for a debugger).
"""
