"""Code generation: from a functional aten graph to a function that runs it.

The package takes a graph whose nodes have `meta["val"]`. It gives a Python module with the graph's
kernels and the function that runs them.

Read first `compile_graph` (the whole way), `target` (what a code generator has to bring),
`channels_last` (convolutions of images), `common` (scopes, shared subexpressions, printed indices).
Then read `numba/` (kernels for the CPU), `triton/` (kernels for the GPU), `extern` (library calls),
`arena` (places of intermediates), `wrapper` (a module per graph). The last ones are `asserts` and
`standalone` (checks and measurements of such a module) and `replay` (CUDA graphs).
`python -m minitorch2.codegen` prints a demo.
"""
