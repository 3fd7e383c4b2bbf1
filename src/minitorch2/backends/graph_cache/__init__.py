"""A cache of compiled graphs: an equal graph, here or in a later process, is not compiled again.

Capture always runs; what it gives is the graph that is looked up. ``key`` says what a compiled
graph depends on, ``bypass`` which graphs are left out, ``sizes`` what compiling has learned about
sizes that vary, ``entry`` how all of it is written down, and ``lookup`` ties them together.
"""

from minitorch2.backends.graph_cache.bypass import REASONS
from minitorch2.backends.graph_cache.lookup import Build, Compilers, compiled_once

__all__ = ["REASONS", "Build", "Compilers", "compiled_once"]
