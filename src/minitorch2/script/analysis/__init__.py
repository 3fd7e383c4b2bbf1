"""Analyses of a graph: aliasing and liveness."""
