"""The kernel language -> LLVM IR, in one walk over the syntax tree.

The language is a part of Numba's subset of Python, with Numba's types and rules for arithmetic
(`arithmetic`), and Numba compiles the same text (which the tests do, to compare):

    function   ::= def name(argument...): statement...
    statement  ::= name = value | place[index] = value | place[i], place[j] = value, value
                 | for name in range([start,] stop): ... | if value: ... | return value
                 | call(value...)
    value      ::= number | name | place[index] | value operator value | call(value...)
                 | value if value else value

Numba infers types by a fixed point over a control flow graph, since a variable may get its type
from a later line. Here each name has the type of its first assigned value, so that typing a line
and writing its instructions are one step. It takes a tenth of the time.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing import Signature

from minitorch2.foundation import syntax_tree
from minitorch2.native.kernels import arithmetic
from minitorch2.native.kernels.arithmetic import Typed, cast, kind_of, literal

_WORD = ir.IntType(64)
_NUMPY_TYPES = {
    np.float32: types.float32, np.float64: types.float64, np.int32: types.int32,
    np.int64: types.int64, np.uint64: types.uint64,
}  # fmt: skip
_FEW_TURNS = 8
"""Loops of so few turns are written out."""
_SHARED = ("nounwind", "alwaysinline")


def lower(
    function: Callable[..., Any], signature: Signature, module: ir.Module, symbol: str
) -> ir.Function:
    """Write a Python function of the language into a module; `real` is its first argument's type.

    Raises:
        TypeError: its source is outside of the language, or types do not fit.
    """
    tree = syntax_tree.parse(textwrap.dedent(inspect.getsource(function)))
    names = function.__globals__ | {"real": signature.args[0]}
    return lower_tree(tree, names, signature, module, symbol)


def lower_tree(
    tree: ast.Module, names: Mapping[str, Any], signature: Signature, module: ir.Module, symbol: str
) -> ir.Function:
    """Write the function that a syntax tree defines; its free names stand for `names`."""
    (definition,) = tree.body
    if not isinstance(definition, ast.FunctionDef):
        raise TypeError("a kernel is one function")
    kinds = [kind_of(type_) for type_ in signature.args]
    kind = ir.FunctionType(kind_of(signature.return_type), kinds)
    function = ir.Function(module, kind, symbol)
    for attribute in _SHARED:
        function.attributes.add(attribute)
    for argument in function.args:
        if isinstance(argument.type, ir.PointerType):
            argument.add_attribute("noalias")
    _Writer(function, definition, names, signature).write()
    return function


class _Context:
    """The target context that Numba's intrinsics ask for types."""

    get_value_type = staticmethod(kind_of)
    get_data_type = staticmethod(kind_of)


_CONTEXT = _Context()


class _Writer:
    """The writer of one function. A name is a value, or a stack slot if loops change it."""

    def __init__(
        self,
        function: ir.Function,
        definition: ast.FunctionDef,
        names: Mapping[str, Any],
        signature: Signature,
    ) -> None:
        self.definition = definition
        self.globals = names
        self.result = signature.return_type
        self.entry = function.append_basic_block("entry")
        self.builder = ir.IRBuilder(function.append_basic_block("body"))
        self.locals: dict[str, Typed] = {}
        self.slots: dict[str, tuple[ir.Value, Any]] = {}
        self.changing = _changing(definition)
        self.index_flags: tuple[str, ...] = ()
        for argument, value, type_ in zip(definition.args.args, function.args, signature.args):
            self.locals[argument.arg] = Typed(value, type_)

    def write(self) -> None:
        """The whole function; the entry block holds the stack slots."""
        body = self.builder.block
        for statement in self.definition.body:
            self.statement(statement)
        ir.IRBuilder(self.entry).branch(body)

    # -- statements --------------------------------------------------------------------------------

    def statement(self, node: ast.stmt) -> None:
        """Write one statement."""
        if isinstance(node, ast.Assign):
            self.assign(node.targets[0], node.value)
        elif isinstance(node, ast.For):
            self.loop(node)
        elif isinstance(node, ast.If):
            self.branch(node)
        elif isinstance(node, ast.Return):
            assert node.value is not None
            self.builder.ret(cast(self.builder, self.value(node.value), self.result).value)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.value(node.value)
        elif not isinstance(node, ast.Expr):  # an expression is a docstring
            raise TypeError(f"no {type(node).__name__} in a kernel")

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """`name = value`, `place[index] = value`, or both sides tuples of these."""
        if isinstance(target, ast.Tuple):
            assert isinstance(value, ast.Tuple)
            for each, own in zip(target.elts, value.elts, strict=True):
                self.assign(each, own)
        elif isinstance(target, ast.Subscript):
            place, element = self.address(target)
            self.builder.store(cast(self.builder, self.value(value), element).value, place)
        else:
            assert isinstance(target, ast.Name)
            self.bind(target.id, self.value(value))

    def bind(self, name: str, value: Typed) -> None:
        """Let a name stand for a value."""
        if name not in self.changing:
            self.locals[name] = value
            return
        if name not in self.slots:
            slot = ir.IRBuilder(self.entry).alloca(kind_of(value.type), name=name)
            self.slots[name] = slot, value.type
        slot, type_ = self.slots[name]
        self.builder.store(cast(self.builder, value, type_).value, slot)

    def loop(self, node: ast.For) -> None:
        """`for name in range(start, stop):`, counted in a register."""
        assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
        limits = [cast(self.builder, self.index(each), types.int64) for each in node.iter.args]
        start, stop = (limits if len(limits) == 2 else [literal(0), *limits])[:2]
        before = self.builder.block
        head, body, after = (self.builder.append_basic_block(n) for n in ("loop", "turn", "after"))
        self.builder.branch(head)
        self.builder.position_at_end(head)
        counter = self.builder.phi(_WORD, name=node.target.id)
        counter.add_incoming(start.value, before)
        self.builder.cbranch(self.builder.icmp_signed("<", counter, stop.value), body, after)
        self.builder.position_at_end(body)
        self.bind(node.target.id, Typed(counter, types.int64))
        for statement in node.body:
            self.statement(statement)
        following = self.builder.add(counter, _WORD(1), flags=("nsw",))
        counter.add_incoming(following, self.builder.block)
        back = self.builder.branch(head)
        if stop.literal is not None and start.literal == 0 and stop.literal <= _FEW_TURNS:
            self.unroll(back)
        self.builder.position_at_end(after)

    def unroll(self, back: ir.Instruction) -> None:
        """Ask LLVM to write out each turn of the loop that ends in this branch."""
        module = self.builder.module
        loop = module.add_metadata(["distinct", module.add_metadata(["llvm.loop.unroll.full"])])
        back.set_metadata("llvm.loop", loop)

    def branch(self, node: ast.If) -> None:
        """`if value: ...` without else."""
        condition = cast(self.builder, self.value(node.test), types.boolean)
        inside, after = (self.builder.append_basic_block(name) for name in ("then", "after"))
        self.builder.cbranch(condition.value, inside, after)
        self.builder.position_at_end(inside)
        for statement in node.body:
            self.statement(statement)
        if not self.builder.block.is_terminated:
            self.builder.branch(after)
        self.builder.position_at_end(after)

    # -- values ------------------------------------------------------------------------------------

    def index(self, node: ast.expr) -> Typed:
        """Return a value as an index, which does not overflow."""
        outer, self.index_flags = self.index_flags, ("nsw",)
        value = self.value(node)
        self.index_flags = outer
        return value

    def value(self, node: ast.expr) -> Typed:
        """Write the instructions of an expression."""
        builder = self.builder
        if isinstance(node, ast.Constant):
            return _constant(node.value)
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self.name(node)
        if isinstance(node, ast.Subscript):
            place, element = self.address(node)
            return Typed(builder.load(place), element)
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left), self.value(node.right)
            return arithmetic.binary(builder, node.op, left, right, self.index_flags)
        if isinstance(node, ast.UnaryOp):
            return arithmetic.unary(builder, node.op, self.value(node.operand))
        if isinstance(node, ast.Compare):
            (operator,), (right_node,) = node.ops, node.comparators
            return arithmetic.compare(
                builder, operator, self.value(node.left), self.value(right_node)
            )
        if isinstance(node, ast.BoolOp):
            return self.both_or_either(node)
        if isinstance(node, ast.IfExp):
            chosen = self.value(node.body), self.value(node.orelse)
            return arithmetic.select(builder, self.value(node.test), *chosen)
        if isinstance(node, ast.Call):
            return self.call(node)
        raise TypeError(f"no {type(node).__name__} in a kernel")

    def name(self, node: ast.Name | ast.Attribute) -> Typed:
        """Return a variable, or a constant of the surroundings."""
        if isinstance(node, ast.Name) and node.id in self.slots:
            slot, type_ = self.slots[node.id]
            return Typed(self.builder.load(slot), type_)
        if isinstance(node, ast.Name) and node.id in self.locals:
            return self.locals[node.id]
        return _constant(self.resolve(node))

    def resolve(self, node: ast.expr) -> Any:
        """Return the value that a free name stands for."""
        if isinstance(node, ast.Attribute):
            return getattr(self.resolve(node.value), node.attr)
        assert isinstance(node, ast.Name)
        if node.id not in self.globals:
            raise TypeError(f"the name {node.id!r} is unknown")
        return self.globals[node.id]

    def both_or_either(self, node: ast.BoolOp) -> Typed:
        """`a and b`, `a or b`: no operand has an effect, so all are computed."""
        values = [cast(self.builder, self.value(each), types.boolean) for each in node.values]
        join = self.builder.and_ if isinstance(node.op, ast.And) else self.builder.or_
        total = values[0].value
        for value in values[1:]:
            total = join(total, value.value)
        return Typed(total, types.boolean)

    def address(self, node: ast.Subscript) -> tuple[ir.Value, Any]:
        """Return the address of an element, and its type."""
        place = self.value(node.value)
        if not isinstance(place.type, types.CPointer):
            raise TypeError(f"{place.type} has no elements")
        index = cast(self.builder, self.index(node.slice), types.int64)
        return self.builder.gep(place.value, [index.value], inbounds=True), place.type.dtype

    def call(self, node: ast.Call) -> Typed:
        """Write a call: a cast, `abs` of an integer, or an intrinsic, which writes itself."""
        called = self.resolve(node.func)
        target = _NUMPY_TYPES.get(called, called)
        if isinstance(target, types.Type):
            return cast(self.builder, self.value(node.args[0]), target)
        if called is abs:
            number = self.value(node.args[0])
            is_negative = arithmetic.compare(self.builder, ast.Lt(), number, literal(0))
            negated = arithmetic.unary(self.builder, ast.USub(), number)
            return arithmetic.select(self.builder, is_negative, negated, number)
        operands = list(map(self.operand, node.args))
        signature, write = _definition(called, operands)
        values = tuple(
            self.passed(each, wanted) for each, wanted in zip(operands, signature.args, strict=True)
        )
        return Typed(write(_CONTEXT, self.builder, signature, values), signature.return_type)

    def passed(self, operand: Typed, wanted: Any) -> ir.Value:
        """Return an operand as the type that an intrinsic takes."""
        if wanted not in arithmetic.KINDS:
            return operand.value
        value = operand if operand.literal is None else literal(operand.literal)
        return cast(self.builder, value, wanted).value

    def operand(self, node: ast.expr) -> Typed:
        """Return an intrinsic's argument: a value, a literal, a type, or a tuple of constants."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return Typed(literal(node.value).value, types.literal(node.value), node.value)
        if isinstance(node, ast.Tuple):
            numbers = [float(eval(ast.unparse(each), {})) for each in node.elts]  # only digits
            kind = ir.ArrayType(ir.DoubleType(), len(numbers))
            return Typed(ir.Constant(kind, numbers), types.UniTuple(types.float64, len(numbers)))
        if isinstance(node, ast.Name) and isinstance(self.globals.get(node.id), types.Type):
            return Typed(ir.Constant(_WORD, 0), types.NumberClass(self.globals[node.id]))
        return self.value(node)


def _definition(called: Any, operands: Sequence[Typed]) -> Any:
    """Return the signature of an intrinsic for these operands, and the function that writes it."""
    define = getattr(called, "_defn", None)  # Numba's name for the decorated function
    found = define(None, *(each.type for each in operands)) if define else None
    if found is None:
        shown = ", ".join(str(each.type) for each in operands)
        raise TypeError(f"{called} does not take ({shown})")
    return found


def _constant(value: Any) -> Typed:
    """Return a number of the surroundings, with the type that it has there."""
    if type(value) in _NUMPY_TYPES:
        type_ = _NUMPY_TYPES[type(value)]
        return Typed(ir.Constant(kind_of(type_), value.item()), type_)
    if isinstance(value, (bool, int, float)):
        return literal(value)
    raise TypeError(f"{value!r} is no constant of a kernel")


def _changing(definition: ast.FunctionDef) -> set[str]:
    """Return the names that a loop or a branch assigns and that another statement assigns, too."""
    everywhere: Counter[str] = Counter()
    nested: set[str] = set()
    for name, is_nested in _assigned(definition.body, False):
        everywhere[name] += 1
        if is_nested:
            nested.add(name)
    return {name for name in nested if everywhere[name] > 1}


def _assigned(statements: Sequence[ast.stmt], is_nested: bool) -> Iterator[tuple[str, bool]]:
    """Yield the names that statements assign, and whether a loop or a branch does it."""
    for each in statements:
        if isinstance(each, (ast.For, ast.If)):
            yield from _assigned(each.body, True)
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            yield each.targets[0].id, is_nested
