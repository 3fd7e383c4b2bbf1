"""Operators that Python has signs for: numbers, texts, lists and dictionaries; and tensors' own.

    aten::floordiv(int, int) -> a // b      aten::len -> len(a)      aten::mul(Tensor, int) -> a * b

A template is used only where Python's sign means what the schema says: `aten::add` of tensors with
another `alpha` than 1 is a call.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from minitorch2.script.ir.graph import Node
from minitorch2.script.ir.types import BOOL, FLOAT, INT, STR, DictType, ListType, TensorType, Type

Expressions: TypeAlias = Sequence[ast.expr]
Template: TypeAlias = Callable[[Expressions], ast.expr]

NUMBERS: Final[frozenset[Type]] = frozenset({INT, FLOAT, BOOL})

_ARITHMETIC: Final[dict[str, type[ast.operator]]] = {
    "aten::add": ast.Add,
    "aten::sub": ast.Sub,
    "aten::mul": ast.Mult,
    "aten::div": ast.Div,
    "aten::floordiv": ast.FloorDiv,
    "aten::remainder": ast.Mod,
    "aten::__and__": ast.BitAnd,
    "aten::__or__": ast.BitOr,
    "aten::__xor__": ast.BitXor,
    "aten::__lshift__": ast.LShift,
    "aten::__rshift__": ast.RShift,
    "aten::matmul": ast.MatMult,
}
_COMPARISONS: Final[dict[str, type[ast.cmpop]]] = {
    "aten::eq": ast.Eq,
    "aten::ne": ast.NotEq,
    "aten::lt": ast.Lt,
    "aten::le": ast.LtE,
    "aten::gt": ast.Gt,
    "aten::ge": ast.GtE,
    "aten::__is__": ast.Is,
    "aten::__isnot__": ast.IsNot,
}
_UNARY: Final[dict[str, type[ast.unaryop]]] = {"aten::neg": ast.USub, "aten::__not__": ast.Not}
_BUILTINS: Final = {
    "aten::len": "len",
    "aten::Bool": "bool",
    "aten::Int": "int",
    "aten::Float": "float",
    "aten::ord": "ord",
    "aten::chr": "chr",
}
WRITTEN_NAMES: Final = frozenset({"range", *_BUILTINS.values()})
"""Builtins of Python that generated text names; no variable of a program may hide them."""

_FOR_TENSORS: Final = frozenset(
    {"aten::add", "aten::sub", "aten::mul", "aten::div", "aten::matmul", "aten::neg"}
)


def template_of(node: Node) -> Template | None:
    """Return how a node is written with Python's own signs; None if it is a call."""
    kinds = [value.type for value in node.inputs]
    if not kinds or len(node.outputs) != 1:
        return None
    if node.kind in _BUILTINS and len(kinds) == 1 and _is_plain(node.kind, kinds[0]):
        return lambda args: _call(_BUILTINS[node.kind], *args)
    if node.kind == "aten::__getitem__" and isinstance(kinds[0], ListType | DictType):
        return lambda args: ast.Subscript(args[0], args[1], ast.Load())
    if node.kind == "aten::__range_length":
        return lambda args: _call("len", _call("range", *args))
    if node.kind == "aten::__derive_index":
        return lambda args: _index_in_range(*args)
    return _signs(node, kinds)


def _index_in_range(index: ast.expr, start: ast.expr, step: ast.expr) -> ast.expr:
    """Return ``start + index * step``, in short where these are 0 and 1."""
    if not (isinstance(step, ast.Constant) and step.value == 1):
        index = ast.BinOp(index, ast.Mult(), step)
    if isinstance(start, ast.Constant) and start.value == 0:
        return index
    return ast.BinOp(start, ast.Add(), index)


def _is_plain(kind: str, given: Type) -> bool:
    return kind == "aten::len" or given in NUMBERS or given == STR


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), [*arguments], [])


def _signs(node: Node, kinds: Sequence[Type]) -> Template | None:
    count = len(kinds)
    if any(isinstance(kind, TensorType) for kind in kinds):
        count = _count_for_tensors(node, kinds)
    elif not (_is_identity(node) or all(kind in NUMBERS or kind == STR for kind in kinds)):
        return None
    if count == 1 and node.kind in _UNARY:
        return lambda args: ast.UnaryOp(_UNARY[node.kind](), args[0])
    if count == 2 and node.kind in _ARITHMETIC:
        return lambda args: ast.BinOp(args[0], _ARITHMETIC[node.kind](), args[1])
    if count == 2 and node.kind in _COMPARISONS:
        return lambda args: ast.Compare(args[0], [_COMPARISONS[node.kind]()], [args[1]])
    return None


def _is_identity(node: Node) -> bool:
    return node.kind in ("aten::__is__", "aten::__isnot__")


def _count_for_tensors(node: Node, kinds: Sequence[Type]) -> int:
    """Return how many operands Python's sign takes; 0 where it means something else."""
    if _is_identity(node):
        return 2
    if node.kind not in _FOR_TENSORS or not isinstance(kinds[0], TensorType):
        return 0
    if len(kinds) == 3:  # alpha
        alpha = node.constant(2)
        return 2 if type(alpha) is int and alpha == 1 else 0
    is_number = kinds[-1] in NUMBERS or isinstance(kinds[-1], TensorType)
    return len(kinds) if is_number else 0
