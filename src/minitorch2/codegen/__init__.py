"""Code generation: from a functional aten graph to a function that runs it.

Read first `compile_graph` (the whole way), `channels_last` (convolutions of images), `common`
(scopes, shared subexpressions, printed indices). Then read `numba/` (kernels for the CPU),
`triton/` (kernels for the GPU), `extern` (library calls), `arena` (places of intermediates),
`wrapper` (a Python module per graph). The last ones are `asserts` and `standalone` (checks and
measurements of such a module), `replay` (CUDA graphs) and `cache` (compiled code on disk). `python
-m minitorch2.codegen` prints a demo.
"""
