"""Values of Python: numbers, containers, functions, classes, objects, exceptions, iterators.

Files that end in `_rules` model calls of built-in and library functions. The others hold one kind
of value each. Read `constant`, `sequence`, `functions` and `objects`. Numbers that are drawn at
random (`random_generator`) become symbols.
"""
