"""Values of PyTorch and NumPy: tensors, sizes, functions, modules, contexts, arrays.

Files that end in `_rules` model calls of library functions. The others hold one kind of value each.
Read `tensor`, `torch_function` and `nn_module`; for NumPy `numpy_array`, then `numpy_ufuncs`;
`word_size` says which integers a graph may compute.
"""
