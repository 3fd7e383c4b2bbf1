"""Numba kernels: the code generator for the CPU. No C compiler is needed, here or at run time.

Read in this order: `names` (what a kernel's text may use), `operators` and `handler` (primitives as
text), `kernel`, `kernel_printer`, `pointwise`, `reduction`, `rows`, `columns`, `scatter` (loops
around them), `primitives`, `library`, `seldom`, `vecmath`, `vecmath_f64`, `vecmath_real`,
`transpose`, `vocabulary` (what the names mean), `arithmetic`, `frontend`, `linking`, `machine_code`
(text to machine code), `openmp`, `builtin`, `tensors`, `launcher` (calls, arguments and threads),
`runtime` (the cache of kernels in this process and on disk), and the two other ways to run the same
text: `jit` (compiled by Numba), `stepping` (plain Python, for a debugger), with `python_launcher`;
`trial` lets the file of a kernel compare the three.
"""
