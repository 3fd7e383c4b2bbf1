"""Built-in functions of Python written as LLVM IR, and the parts that they share."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from minitorch2 import cache as disk
from minitorch2.native.cpython.builtin_functions import bind, new_method
from minitorch2.native.llvm import machine_code

WORD, INT, VOID = ir.IntType(64), ir.IntType(32), ir.VoidType()
WORDS = WORD.as_pointer()
OBJECT = ir.IntType(8).as_pointer()
BODY = ir.FunctionType(OBJECT, [OBJECT, OBJECT.as_pointer(), WORD])
NULL = ir.Constant(OBJECT, None)


def make_builtin(name: str, body: int, receiver: object) -> Callable[..., Any]:
    """Make a built-in function, given the address of its body and the object for `receiver`."""
    return bind(new_method(name, body), receiver)


def link_python(*names: str) -> None:
    """Let machine code find functions and objects of CPython."""
    for name in names:
        address = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))
        llvm.add_symbol(name, address)


def load_cached(symbol: str, layer: str, build: Callable[[], ir.Module], **fields: str) -> int:
    """Return the address of `symbol` in a module that is compiled once and cached.

    The module depends on `fields`, besides the compilers and the processor.
    """
    key = disk.key_of(layer, **fields, **machine_code.toolchain())
    object_code = disk.load(key)
    if object_code is None:
        module = llvm.parse_assembly(str(build()))
        machine_code.optimize(module)
        object_code = machine_code.emit_object(module)
        disk.store(key, object_code)
    return machine_code.load(object_code, symbol)


def field(builder: ir.IRBuilder, words: ir.Value, index: int) -> ir.Value:
    """Return a word of a structure of words."""
    return builder.load(builder.gep(words, [WORD(index)]))


def build_conversion(
    builder: ir.IRBuilder,
    functions: Mapping[str, ir.Function],
    objects: ir.Value,
    count: ir.Value,
    block: ir.Value,
) -> None:
    """Store each argument as a word of `block`; return NULL from the function if one cannot be a
    word.

    `functions["word"]` returns an object's word, or -1 with an exception if it has none.
    """
    before = builder.block
    test, loop, after = map(builder.append_basic_block, ("test", "convert", "converted"))
    builder.branch(test)
    builder.position_at_end(test)
    i = builder.phi(WORD)
    i.add_incoming(WORD(0), before)
    builder.cbranch(builder.icmp_signed("<", i, count), loop, after)
    builder.position_at_end(loop)
    word = builder.call(functions["word"], [builder.load(builder.gep(objects, [i]))])
    with builder.if_then(builder.icmp_signed("==", word, WORD(-1)), likely=False):
        failed = builder.icmp_unsigned("!=", builder.call(functions["PyErr_Occurred"], []), NULL)
        with builder.if_then(failed):
            builder.ret(NULL)
    builder.store(word, builder.gep(block, [i]))
    i.add_incoming(builder.add(i, WORD(1)), builder.block)
    builder.branch(test)
    builder.position_at_end(after)


def build_error(
    builder: ir.IRBuilder,
    functions: Mapping[str, ir.Function],
    kind: str,
    message: str,
    *values: ir.Value,
) -> None:
    """Set a Python exception and return NULL."""
    exception = builder.load(builder.module.get_global(kind))
    arguments = [exception, text(builder, message), *values]
    builder.call(functions["PyErr_Format"], arguments)
    builder.ret(NULL)


def begin_launch(
    launch: ir.Function, functions: Mapping[str, ir.Function], count_at: int
) -> tuple[ir.IRBuilder, ir.Value]:
    """Begin the body of a launcher: read its state, whose word `count_at` counts the arguments."""
    builder = ir.IRBuilder(launch.append_basic_block())
    address, _, given = launch.args
    state = builder.inttoptr(builder.call(functions["PyLong_AsLongLong"], [address]), WORDS)
    expected = field(builder, state, count_at)
    with builder.if_then(builder.icmp_signed("!=", given, expected), likely=False):
        text_of_error = "kernel takes %lld arguments, not %lld"
        build_error(builder, functions, "PyExc_TypeError", text_of_error, expected, given)
    return builder, state


def text(builder: ir.IRBuilder, value: str) -> ir.Value:
    """Return a C string."""
    data = bytearray(value.encode() + b"\0")
    constant = ir.Constant(ir.ArrayType(ir.IntType(8), len(data)), data)
    name = builder.module.get_unique_name("text")
    variable = ir.GlobalVariable(builder.module, constant.type, name)
    variable.initializer, variable.global_constant, variable.linkage = constant, True, "private"
    return builder.bitcast(variable, OBJECT)
