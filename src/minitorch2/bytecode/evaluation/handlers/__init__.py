"""The handlers of canonical instructions on trackers: one file for each family of instructions.

Importing this package fills `minitorch2.bytecode.evaluation.evaluator.HANDLERS`.
"""

from minitorch2.bytecode.evaluation.handlers import (
    attributes,
    calls,
    class_bodies,
    containers,
    control_flow,
    coroutines,
    exceptions,
    functions,
    generators,
    imports,
    matching,
    names,
    operators,
    stack,
    strings,
)

__all__ = [
    "attributes",
    "calls",
    "class_bodies",
    "containers",
    "control_flow",
    "coroutines",
    "exceptions",
    "functions",
    "generators",
    "imports",
    "matching",
    "names",
    "operators",
    "stack",
    "strings",
]
