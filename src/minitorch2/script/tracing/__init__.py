"""Calls to graphs: record the operators that a function calls.

Takes a function and example arguments; gives a graph that checks what Python looked at. Read
`trace`, `recorder` and `traced_tensor`, then `assumptions` (the checks of each call) and
`check_trace`.
"""
