"""Operators: schemas with alias annotations, overloads, and what each computes.

Takes the name of a call and its arguments; gives an overload and converted arguments. Read
`schema`, `registry`, then `match`. A new operator goes into `builtins` if it is a function of
Python, and into `prims` if it is a kind of node.
"""
