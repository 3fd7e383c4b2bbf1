"""A cache of compiled graphs: an equal graph, here or in a later process, is not compiled again.

Capture always runs; its graph is then looked up in the cache. ``key`` lists all properties on which
a compiled graph depends, and ``bypass`` the graphs that are left out. ``sizes`` records the facts
that compiling has learned about varying sizes, ``entry`` writes a compiled graph down, and
``lookup`` ties them together.
"""

from minitorch2.backends.graph_cache.bypass import REASONS
from minitorch2.backends.graph_cache.lookup import Build, Compilers, compiled_once
