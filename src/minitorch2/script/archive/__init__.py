"""Code and files: print a module as Python, save it and load it.

Takes scripted modules and gives torch.jit's own files, and the other way round. Read `print_code`
and `read_code` (text both ways), `mode_classes` and `dtype_comparisons` (where files and graphs
differ), `pickle_subset` and `container` (the file), then `archive`.
"""
