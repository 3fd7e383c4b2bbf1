"""Calls to graphs: record the operators that a function calls."""
