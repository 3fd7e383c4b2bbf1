"""Elementary functions of floats: those of the CPU's kernel library, run on Halide's expressions.

A function of `native.kernel_library` is straight-line Python: assignments, arithmetic, choices.
Here its source is executed once more, with expressions for numbers:

    x if c else y   -->  where(c, x, y)
    a and b, not a  -->  a & b, hl.logical_not(a)
    -x              -->  neg(x), which keeps the sign of zero
    x >= y          -->  ge(x, y), false for NaN; Halide's own is `not x < y`
    n << 23         -->  lshift(n, 23), which drops bits; Halide forbids signed numbers to overflow

So both targets compute `erf` with the same polynomial, and a kernel has no call of the C library,
which Halide could not vectorize.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import halide as hl
import numpy as np

from minitorch2.errors import LoweringError
from minitorch2.native.kernel_library import powers, vecmath_real  # noqa: F401  (fill LIBRARY)
from minitorch2.native.kernel_library.library import LIBRARY, PREFIX

CASTS: dict[str, Callable[..., Any]] = {
    "float32": hl.f32, "float64": hl.f64, "int8": hl.i8, "int16": hl.i16, "int32": hl.i32,
    "int64": hl.i64, "uint8": hl.u8, "uint16": hl.u16, "uint32": hl.u32, "uint64": hl.u64,
}  # fmt: skip
_OF_C = {"pow_f64": hl.pow, "sin_f64": hl.sin, "cos_f64": hl.cos, "tan_f64": hl.tan}
"""Functions made of sums of products of float64 that are rounded once. Halide cannot say these, so
they are the C library's, one element at a time."""
_NEEDS_EXACT_PRODUCTS = {"after_turns"}


def function(name: str, kind: str) -> Callable[..., Any]:
    """Return an elementary function of `float32` or `float64` expressions.

    Raises:
        LoweringError: the library has none, or it is one of C's.
    """
    versioned = f"{name}_f64" if kind == "float64" else name
    if versioned in _OF_C:
        found: Callable[..., Any] = _OF_C[versioned]
        return found
    if PREFIX + versioned not in LIBRARY:
        raise LoweringError(f"Halide has no {name} of {kind}")
    return _translated(versioned, kind)


@cache
def _translated(name: str, kind: str) -> Callable[..., Any]:
    """Return a library function whose numbers are expressions."""
    python = LIBRARY[PREFIX + name].python
    tree = ast.parse(textwrap.dedent(inspect.getsource(python)))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    code = compile(
        ast.fix_missing_locations(_Choices().visit(tree)), inspect.getfile(python), "exec"
    )
    (body,) = (part for part in code.co_consts if inspect.iscode(part))
    exact = {"fma": _fused} if name in _NEEDS_EXACT_PRODUCTS else {}
    names = {name: _meaning(name, python.__globals__, kind) for name in body.co_names} | exact
    return FunctionType(body, names)


class _Choices(ast.NodeTransformer):
    """The rewriting of choices, conditions and signs into calls."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Rewrite `x if c else y`."""
        self.generic_visit(node)
        return _call("where", node.test, node.body, node.orelse)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Rewrite `a and b`, `a or b`."""
        self.generic_visit(node)
        name = "both" if isinstance(node.op, ast.And) else "either"
        first, *rest = node.values
        for value in rest:
            first = _call(name, first, value)
        return first

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Rewrite `-x` and `not a`."""
        self.generic_visit(node)
        is_sign = isinstance(node.op, ast.USub)
        return _call("neg" if is_sign else "logical_not", node.operand)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Rewrite a number with a point, which is a float64 where no cast is around it."""
        return _call("float64", node) if isinstance(node.value, float) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Rewrite `a >= b`."""
        self.generic_visit(node)
        name = {ast.GtE: "ge", ast.LtE: "le"}.get(type(node.ops[0]))
        return _call(name, node.left, node.comparators[0]) if name else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Rewrite `a << b`."""
        self.generic_visit(node)
        return _call("lshift", node.left, node.right) if isinstance(node.op, ast.LShift) else node


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [*args], [])


def _meaning(name: str, module: dict[str, Any], kind: str) -> Any:
    """Return the meaning of a free name of a library function's source."""
    if name in _OPERATIONS:
        return _OPERATIONS[name]
    if name == "real":
        return CASTS[kind]
    if PREFIX + name in LIBRARY:
        return _by_type(name)
    if name.startswith("c_"):
        raise LoweringError(f"Halide has no {name.removeprefix('c_')}")
    value = module.get(name, getattr(np, name, None))
    if isinstance(value, np.generic):
        return CASTS[value.dtype.name](value.item())
    return hl.f64(value) if isinstance(value, float) and name != "inf" else value


def _by_type(name: str) -> Callable[..., Any]:
    """Return a library function that chooses its version by the type of its first argument."""

    def call(*args: Any) -> Any:
        is_wide = name.endswith("_f64") or str(args[0].type()) == "float64"
        has_both = PREFIX + name.removesuffix("_f64") + "_f64" in LIBRARY
        kind = "float64" if is_wide and has_both else "float32"
        return function(name.removesuffix("_f64"), kind)(*args)

    return call


# -- what the functions are made of ----------------------------------------------------------------


def bits(x: Any) -> Any:
    """Return the bits of a float as a signed integer."""
    return hl.reinterpret(hl.Int(x.type().bits()), x)


def from_bits(pattern: Any) -> Any:
    """Return the float of these bits."""
    return hl.reinterpret(hl.Float(pattern.type().bits()), pattern)


def where(condition: Any, x: Any, y: Any) -> Any:
    """Return a choice; a Python number takes the type of the other value."""
    kind = str((x if isinstance(x, hl.Expr) else y).type())
    x, y = (v if isinstance(v, hl.Expr) else CASTS[kind](v) for v in (x, y))
    return hl.select(condition, x, y)


def neg(x: Any) -> Any:
    """Return a number with the other sign; integers wrap around. Halide's own is `0 - x`."""
    if not isinstance(x, hl.Expr):
        return -x
    if x.type().is_float():
        return from_bits(bits(x) ^ _sign_bit(x))
    return wrapping(lambda a: hl.cast(a.type(), 0) - a, x)


def _sign_bit(x: Any) -> Any:
    width = x.type().bits()
    return hl.cast(hl.Int(width), -(1 << (width - 1)))


def lshift(x: Any, count: Any) -> Any:
    """Return bits shifted to the left, by less than their width."""
    return wrapping(lambda a, b: a << b, x, count)


def wrapping(operation: Callable[..., Any], *args: Any) -> Any:
    """Return an operation on integers of one type, which wraps around, as on a processor."""
    kind = args[0].type()
    if not kind.is_int():
        return operation(*args)
    bare = hl.UInt(kind.bits())
    return hl.cast(kind, operation(*(hl.cast(bare, arg) for arg in args)))


def ge(x: Any, y: Any) -> Any:
    """Return `x >= y`, which is false if either is NaN."""
    return (x > y) | (x == y)


def le(x: Any, y: Any) -> Any:
    """Return `x <= y`, which is false if either is NaN."""
    return (x < y) | (x == y)


def copysign(x: Any, y: Any) -> Any:
    """Return `x` with the sign of `y`."""
    sign = _sign_bit(y)
    return from_bits((bits(x) & ~sign) | (bits(y) & sign))


def polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """`c[0] + c[1]*x + c[2]*x**2 + ...` by Horner's rule."""
    real = CASTS[str(x.type())]
    total = real(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + real(coefficient)
    return total


def _fused(a: Any, b: Any, c: Any) -> Any:
    """Return `a * b + c` of float32, whose product is exact in float64."""
    if str(a.type()) != "float32":
        raise LoweringError("Halide has no sum of a product of float64 that is rounded once")
    return hl.f32(hl.f64(a) * hl.f64(b) + hl.f64(c))


_OPERATIONS: dict[str, Callable[..., Any]] = CASTS | {
    "f32": hl.f32, "where": where, "neg": neg, "lshift": lshift, "ge": ge, "le": le,
    "logical_not": hl.logical_not,
    "both": lambda a, b: a & b, "either": lambda a, b: a | b, "bits": bits,
    "from_bits": from_bits, "copysign": copysign, "absolute": hl.abs, "polynomial": polynomial,
    "fma": lambda a, b, c: a * b + c, "fused": _fused, "floor": hl.floor, "ceil": hl.ceil,
    "trunc": hl.trunc, "round_even": hl.round, "square_root": hl.sqrt, "sqrt": hl.sqrt,
}  # fmt: skip
"""The primitives of the library as expressions."""
