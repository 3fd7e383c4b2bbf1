"""The pointers that a Triton kernel writes through, read off its source.

A variable *carries* the pointer parameters from which its value is computed. Assignments pass
pointers on, until nothing changes; only values loaded from memory carry none. A kernel writes
through each parameter that the pointer of a store or of an atomic operation carries. It also writes
through the parameters that it passes to a kernel that writes them. If the source cannot be read,
all parameters count as written.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from types import FunctionType
from typing import Any, Final

_LOADS: Final = ("load", "program_id", "num_programs")
_STORES: Final = ("store", "store_tensor_descriptor", "atomic_")
_OPAQUE: Final = ("inline_asm_elementwise", "extern_elementwise")
"""Calls that may do anything with a pointer."""
_WITHOUT_WRITES: Final = ("triton", "builtins", "")
"""Packages of functions that pass pointers on, and write through none that is not a store."""


@cache
def written_pointers(function: FunctionType) -> frozenset[str]:
    """Return the names of the parameters of a kernel through which it may write.

    Args:
        function: the Python function below `triton.jit`.
    """
    parameters = frozenset(inspect.signature(function).parameters)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return parameters
    return frozenset(_Flow(function, tree, parameters).written()) & parameters


class _Flow:
    """The flow of pointers through the variables of one kernel, in whatever order of lines."""

    def __init__(self, function: FunctionType, tree: ast.AST, parameters: frozenset[str]) -> None:
        self.function = function
        self.tree = tree
        self.carried: dict[str, set[str]] = defaultdict(set)
        for name in parameters:
            self.carried[name].add(name)
        while self._pass_on():
            pass

    def _pass_on(self) -> bool:
        """Let each assignment pass on the pointers of its value; return whether any was new."""
        before = sum(map(len, self.carried.values()))
        for node in ast.walk(self.tree):
            for target, value in _assignments(node):
                found = self.of(value)
                for name in (n.id for n in ast.walk(target) if isinstance(n, ast.Name)):
                    self.carried[name] |= found
        return sum(map(len, self.carried.values())) > before

    def of(self, value: ast.AST) -> set[str]:
        """Return the parameters that an expression carries."""
        if isinstance(value, ast.Name):
            return set(self.carried[value.id])
        if isinstance(value, ast.Call) and _called(value) in _LOADS:
            return set()
        return set[str]().union(*map(self.of, ast.iter_child_nodes(value)))

    def written(self) -> Iterator[str]:
        """Yield the parameters that some call writes through."""
        for call in ast.walk(self.tree):
            if isinstance(call, ast.Call):
                yield from self._written_by(call)

    def _written_by(self, call: ast.Call) -> Iterator[str]:
        name = _called(call)
        if name.startswith(_STORES):
            yield from self._destination(call)
        elif name in _OPAQUE:
            yield from self.of(call)
        elif not isinstance(call.func, ast.Attribute):
            yield from self._written_by_callee(call, name)

    def _destination(self, call: ast.Call) -> set[str]:
        """Return the parameters carried by a store's pointer: first argument, or method's owner."""
        first = call.args[:1] or [keyword.value for keyword in call.keywords[:1]]
        method = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        return set[str]().union(*map(self.of, (*first, *method)))

    def _written_by_callee(self, call: ast.Call, name: str) -> Iterator[str]:
        callee: Any = self.function.__globals__.get(name)
        inner = getattr(callee, "fn", None)
        if not isinstance(inner, FunctionType):
            package = getattr(callee, "__module__", "").partition(".")[0]
            yield from self.of(call) if package not in _WITHOUT_WRITES else ()
            return
        written, parameters = written_pointers(inner), list(inspect.signature(inner).parameters)
        named = [(k.arg, k.value) for k in call.keywords]
        for parameter, value in [*zip(parameters, call.args, strict=False), *named]:
            if parameter in written:
                yield from self.of(value)


def _assignments(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield the target and the value of each assignment that a node of the tree is."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and node.value:
        yield node.target, node.value
    elif isinstance(node, ast.For):
        yield node.target, node.iter


def _called(call: ast.Call) -> str:
    """Return the last part of the called function's name."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
