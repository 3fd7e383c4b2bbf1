"""Values of PyTorch: tensors, sizes, functions, modules, contexts.

Files that end in `_rules` model calls of library functions. The others hold one kind of value each.
Read `tensor`, `torch_function` and `nn_module`; `word_size` says which integers a graph may
compute.
"""
