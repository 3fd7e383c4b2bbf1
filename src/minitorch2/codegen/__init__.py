"""The code floor: takes a functional aten graph, gives a function that runs it.

Read in this order: `compile_graph` (the whole way), `channels_last`
(convolutions of images), `common` (scopes, shared subexpressions,
printed indices), `numba/` (kernels for the CPU), `triton/` (kernels for the GPU), `extern` (library
calls), `arena` (places of intermediates), `wrapper` (a Python module per graph), `asserts` and
`standalone` (what such a module can check and measure), `replay` (CUDA graphs), `cache` (compiled
code on disk). `python -m minitorch2.codegen` prints a demo.
"""
