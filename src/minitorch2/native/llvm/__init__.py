"""LLVM modules as machine code, and built-in functions of Python made of them."""
