"""Functions that kernels call by name: LLVM operations, and elementary functions of them."""
