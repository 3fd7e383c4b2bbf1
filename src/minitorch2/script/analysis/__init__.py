"""Analyses of a graph: aliasing and liveness.

Takes a graph; gives which values may share memory, which moves of nodes keep the results, and where
each value is read last. Read `effects` (what nodes do besides computing), `alias_tracker` (memory
as a graph), `alias_db` (both for one graph), then `liveness`.
"""
