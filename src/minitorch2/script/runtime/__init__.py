"""Run a graph: the interpreter, generated Python, profiles, plans and compiled regions."""
