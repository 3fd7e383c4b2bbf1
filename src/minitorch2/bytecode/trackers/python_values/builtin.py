"""Built-in functions as values. Their rules are in `builtin_rules` and its neighbours.

A function that is pure folds on constants; one with a rule is modelled; any other is a graph break,
since C code cannot be inlined.
"""

from __future__ import annotations

import cmath
import json
import math
import operator
import os
import re
import string
import struct
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Any, Final

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.known import KnownObjectVariable
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable, fold, literal
from minitorch2.bytecode.trackers.rules import Rule, apply_rule, registers
from minitorch2.bytecode.trackers.torch_values.symbolic import compute
from minitorch2.native.cpython.library import STRING_FORMATS

BUILTINS: Final[dict[Any, Rule]] = {}
"""Built-in functions that have a rule: (evaluator, *args, **kwargs) -> outcome, None for None."""

models: Final[Callable[..., Callable[[Rule], Rule]]] = registers(BUILTINS)
"""Register the rule of some built-in functions."""


def _functions_of(*modules: types.ModuleType) -> set[Any]:
    return {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, types.BuiltinFunctionType)
    }


_PURE_OF_MODULES: Final[set[Any]] = {
    getattr(module, name)
    for module, names in (
        (json, "dumps loads"),
        (os.path, "basename commonprefix dirname isabs join normpath split splitext"),
        (re, "compile escape findall finditer fullmatch match search split sub subn"),
        (string, "capwords"),
        (struct, "calcsize pack unpack"),
        (textwrap, "dedent fill indent shorten wrap"),
    )
    for name in names.split()
}
"""Functions in C, and functions in Python that are cheaper to call than to inline."""

PURE: Final = (
    _functions_of(math, cmath, operator)
    | _PURE_OF_MODULES
    | _functions_of(STRING_FORMATS)
    | {
        abs,
        ascii,
        bin,
        bytes.fromhex,
        chr,
        divmod,
        float.fromhex,
        format,
        hash,
        hex,
        int.from_bytes,
        len,
        oct,
        ord,
        pow,
        repr,
        round,
        str.maketrans,
        sys.getrecursionlimit,
        sys.intern,
    }
)
"""Functions that fold on constants: no effects, and the same answer each time."""


class BuiltinVariable(KnownObjectVariable):
    """A function written in C, or one of the standard library that has a rule."""

    def __repr__(self) -> str:
        return f"BuiltinVariable({self.name})"

    @property
    def name(self) -> str:
        """The function's qualified name."""
        return str(getattr(self.value, "__qualname__", self.value))

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return literal(getattr(self.value, name))
        return super().get_attribute(evaluator, name)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        rule, operands = BUILTINS.get(self.value), (*args, *kwargs.values())
        if self.value in PURE and all(self._is_known(operand, rule) for operand in operands):
            return fold(self.value, args, kwargs)
        if rule is None:
            if self.value in PURE and (number := compute(self.value, *args)) is not None:
                return number
            module = getattr(self.value, "__module__", None) or "builtins"
            unsupported("c-function", f"{module}.{self.name} is written in C and cannot be inlined")
        result = apply_rule(rule, self.value, evaluator, args, kwargs)
        return literal(None) if result is None else result

    def _is_known(self, operand: VariableTracker, rule: Rule | None) -> bool:
        """Return whether the operand counts as a constant.

        With a rule a container does not: rules look into containers no further than they must.
        """
        return operand.is_constant() if rule is None else isinstance(operand, ConstantVariable)
