"""Passes: each rewrites a graph in place."""
