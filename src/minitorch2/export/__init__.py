"""A program as a file: `export` captures a call as one graph; `save` and `package` write it.

Takes a function or module and an example call; gives a graph of aten operators with a signature. It
also gives a file that needs neither the program's source nor a pickle, and a file of machine code.

    program   ::= graph, Signature, tensors             see ``signature.py``
    file      ::= manifest, entries, digests            see ``container.py``
    package   ::= wrapper, image for each kind of machine, Signature, tensors

Read `signature` first (what a program is, besides its graph), then `program` (`export`). From a
call to a graph lead `dimensions` (which sizes vary), `capturing`, `lowering`, `input_sizes` and
`explicit_sizes`. `checking` and `running` are calls of a program. Files are in `container`,
`as_json`, `program_file` and `loading`. Packages with machine code are made by `packaging` and
`object_code`, and loaded by `loaded_package`, which imports no compiler.

``minitorch2.export(model, args)`` calls this module.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    """This module as the function that it is named after."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Deferred: a process that only loads a package needs no compiler.
        return import_module("minitorch2.export.program").export(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
