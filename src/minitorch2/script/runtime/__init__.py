"""Run a graph: the interpreter, generated Python, profiles, plans and compiled regions.

Takes a graph and arguments; gives results. Read `code` and `interpreter` (the plain way),
`python_code` (the fast way), `executor` (when a plan is made), then `region` (what backends
compile).
"""
