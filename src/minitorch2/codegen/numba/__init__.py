"""Numba kernels: the code generator for the CPU. No C compiler is needed, here or at run time.

The text of kernels: read `names` (names in a kernel's text), `operators` and `handler` (primitives
as text). Their loops follow in `kernel`, `kernel_printer`, `pointwise`, `reduction`, `rows`,
`columns`, `scatter`. The functions that the names stand for are in `primitives`, `library`,
`seldom`, `vecmath`, `vecmath_f64`, `vecmath_real`, `transpose` and `vocabulary`. From text to
machine code lead `arithmetic`, `frontend`, `linking` and `machine_code`. Calls, arguments and
threads are in `openmp`, `builtin`, `tensors` and `launcher`. The cache of kernels in this process
and on disk is `runtime`. Two other modules run the same text: `jit` (compiled by Numba) and
`stepping` (plain Python, for a debugger), with `python_launcher`. Last, `trial` lets the file of a
kernel compare the three ways.
"""
