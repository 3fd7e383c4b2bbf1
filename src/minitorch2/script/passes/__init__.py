"""Passes: each rewrites a graph in place, and is one file with its law.

Takes a graph and gives the same graph, changed. Read `rewriting` (the form of a pass), then
`pipeline` (their order), where a new pass takes its place.
"""
