"""TorchScript under torch.jit's names: `minitorch2.jit.script`, `trace`, `save`, `load` and more.

`minitorch2.script` holds the code. Here are the names that programs use.
"""

from typing import Final

from minitorch2.script.api import (
    Attribute,
    CompilationUnit,
    ScriptError,
    ScriptFunction,
    ScriptModule,
    annotate,
    define,
    export,
    fork,
    freeze,
    ignore,
    is_scripting,
    load,
    optimized_execution,
    save,
    script,
    trace,
    unused,
    wait,
)

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Final",
    "ScriptError",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "define",
    "export",
    "fork",
    "freeze",
    "ignore",
    "is_scripting",
    "load",
    "optimized_execution",
    "save",
    "script",
    "trace",
    "unused",
    "wait",
]
