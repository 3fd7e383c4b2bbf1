"""Code and files: print a module as Python, save it and load it."""
