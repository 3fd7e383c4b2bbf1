"""From a wrapper module's text to its function, without the modules that write texts."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any, Final

from minitorch2 import cache, config
from minitorch2.foundation.generated_code import execute
from minitorch2.foundation.profiling import GRAPH, OFF, PROFILER, ranged
from minitorch2.foundation.source_lines import keep_lines
from minitorch2.graph.compiled_graph import BoxedCall


def load_program(text: str, names: Mapping[str, Any] | None = None) -> BoxedCall:
    """Execute a wrapper module's text and return its `call`.

    Debuggers find the text in a file, which measures itself when it is run. Only `text` itself is
    executed here, never the file's former content.
    """
    path = cache.folder() / "graphs" / f"{name_of(text)}.py"
    if config.current().cache:
        cache.keep_file(path, text.encode())
    namespace = {"__name__": "minitorch2.generated", "_profiler": PROFILER, **(names or {})}
    execute(text.replace(*_ASKING, 1), str(path), namespace)
    call: FunctionType = namespace["call"]
    namespace["_profiled"] = ranged(f"{GRAPH}{path.stem}", _with_ranges(call))
    keep_lines(str(path), text, call)
    return call


def name_of(text: str) -> str:
    """Return the name of a program: that of its file, and of its range in a profile."""
    return cache.digest_of(text)[:16]


_ASKING: Final = (
    "\n\ndef call(args):\n",
    "\ndef call(args):\n    if _profiler._is_profiler_enabled: return _profiled(args)\n",
)
"""What makes a program ask whether a profiler is on; its other lines keep their numbers."""


def _with_ranges(call: FunctionType) -> BoxedCall:
    """Return the same function, whose kernels appear under their names in a profile."""
    names = call.__globals__
    kernels = [name for name in call.__code__.co_names if name.startswith(("fused_", "joined_"))]
    ranged_kernels = {name: ranged(name, names[name]) for name in kernels}
    return FunctionType(call.__code__, {**names, **ranged_kernels, "_profiler": OFF})
