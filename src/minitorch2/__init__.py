"""minitorch2: PyTorch 2's compiler, small enough to read, fast enough to use.

`compile` takes a PyTorch function or module and returns one that computes the same, faster.

Read the packages in this order, each with its own docstring. First come `graph` (the language all
layers share), `bytecode` (a Python frame -> a graph), `autograd` (a graph -> forward and backward).
Then read `loopir` (a graph -> loops), `codegen` (loops -> kernels), `backends`, and last `api`,
which chains them. `lazy` captures in another way: it defers operators. `script` is a third way, a
typed subset of Python; `jit` has its interface. All of them use `marks` (what a program says to its
compiler), `stages` (the report of a compilation), `config`, `logs`, `errors` and `foundation`.

Names of the public interface are looked up on first use, so that `import minitorch2` costs a few
milliseconds and a single layer can be used without the others.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING

from minitorch2.foundation.compile_lock import AsBefore, put_garbage_off

if TYPE_CHECKING:  # what `__getattr__` gives, for type checkers and editors
    from minitorch2 import (
        config as config,
        distributed as distributed,
        errors as errors,
        guard_filters as guard_filters,
        jit as jit,
        lazy as lazy,
        logs as logs,
        stages as stages,
    )
    from minitorch2.api.compiler import (
        compile as compile,
        cudagraph_mark_step_begin as cudagraph_mark_step_begin,
        get_default_backend as get_default_backend,
        list_mode_options as list_mode_options,
        reset as reset,
        set_default_backend as set_default_backend,
    )
    from minitorch2.api.disabled import disable as disable
    from minitorch2.api.reports import (
        bisect as bisect,
        explain as explain,
        recompiles as recompiles,
        replay as replay,
        shapes as shapes,
    )
    from minitorch2.api.stances import set_stance as set_stance
    from minitorch2.backends import (
        list_backends as list_backends,
        lookup_backend as lookup_backend,
        register_backend as register_backend,
    )
    from minitorch2.bytecode.dispatch.background import finish_compiling as finish_compiling
    from minitorch2.bytecode.observe.explain import Explanation as Explanation
    from minitorch2.bytecode.observe.replay import save_call as save_call
    from minitorch2.cache.bundle import (
        CacheInfo as CacheInfo,
        load_cache_artifacts as load_cache_artifacts,
        save_cache_artifacts as save_cache_artifacts,
    )
    from minitorch2.config import list_options as list_options
    from minitorch2.exporting.loading import load as load
    from minitorch2.exporting.packaging import package as package
    from minitorch2.exporting.program import export as export
    from minitorch2.marks.controls import (
        allow_in_graph as allow_in_graph,
        assume_constant_result as assume_constant_result,
        disallow_in_graph as disallow_in_graph,
        error_on_graph_break as error_on_graph_break,
        forbid_in_graph as forbid_in_graph,
        graph_break as graph_break,
        is_compiling as is_compiling,
        nested_compile_region as nested_compile_region,
        skip_frame as skip_frame,
        substitute_in_graph as substitute_in_graph,
    )
    from minitorch2.marks.dimensions import (
        Dim as Dim,
        mark_dynamic as mark_dynamic,
        mark_static as mark_static,
        mark_unbacked as mark_unbacked,
        maybe_mark_dynamic as maybe_mark_dynamic,
    )
    from minitorch2.lazy import lazily as lazily
    from minitorch2.marks.wrappers import (
        nonstrict_trace as nonstrict_trace,
        wrap_numpy as wrap_numpy,
    )

__version__ = "0.1.0"

_NAMES = {
    "api.compiler": (
        "compile", "cudagraph_mark_step_begin", "get_default_backend", "list_mode_options", "reset",
        "set_default_backend",
    ),
    "api.disabled": ("disable",),
    "api.reports": ("bisect", "explain", "recompiles", "replay", "shapes"),
    "api.stances": ("set_stance",),
    "backends": ("list_backends", "lookup_backend", "register_backend"),
    "bytecode.dispatch.background": ("finish_compiling",),
    "bytecode.observe.explain": ("Explanation",),
    "bytecode.observe.replay": ("save_call",),
    "cache.bundle": ("CacheInfo", "load_cache_artifacts", "save_cache_artifacts"),
    "config": ("list_options",),
    "exporting.loading": ("load",),
    "exporting.packaging": ("package",),
    "exporting.program": ("export",),
    "marks.controls": (
        "allow_in_graph", "assume_constant_result", "disallow_in_graph", "error_on_graph_break",
        "forbid_in_graph", "graph_break", "is_compiling", "nested_compile_region", "skip_frame",
        "substitute_in_graph",
    ),
    "lazy": ("lazily",),
    "marks.dimensions": (
        "Dim", "mark_dynamic", "mark_static", "mark_unbacked", "maybe_mark_dynamic",
    ),
    "marks.wrappers": ("nonstrict_trace", "wrap_numpy"),
}  # fmt: skip
_PLACES = {name: module for module, names in _NAMES.items() for name in names}
_MODULES = (
    "config", "distributed", "errors", "guard_filters", "jit", "lazy", "logs", "stages", "testing",
)  # fmt: skip

__all__ = sorted({"__version__", *_PLACES, *_MODULES} - {"testing"})  # which needs Hypothesis


def __getattr__(name: str) -> object:
    if not gc.isenabled():  # an import, for which garbage is put off, asks for another name
        return _imported(name)
    with AsBefore(), AsBefore():
        put_garbage_off()  # what is imported stays alive
        return _imported(name)


def _imported(name: str) -> object:
    if name in _PLACES:
        return getattr(import_module(f"minitorch2.{_PLACES[name]}"), name)
    if name in _MODULES:
        return import_module(f"minitorch2.{name}")
    raise AttributeError(f"module 'minitorch2' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
