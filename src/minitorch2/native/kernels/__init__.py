"""The kernel language: its names, its front end to LLVM IR, and the run time of kernels.

No C compiler is needed, here or at run time. Read `names` (names in a kernel's text) and
`vocabulary` (what they stand for; the functions are in `native.kernel_library`). From text to
machine code lead `arithmetic`, `frontend` and `linking`. Calls and threads are in `openmp` and
`launcher`. The cache of kernels in this process and on disk is `runtime`. Two other modules run the
same text: `jit` (compiled by Numba) and `stepping` (plain Python, for a debugger), with
`python_launcher`. Last, `trial` lets the file of a kernel compare the three ways."""
