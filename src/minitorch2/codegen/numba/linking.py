"""Compile Python kernels to object code: Numba's front end, the function library, LLVM.

`compile_function` gives a C function for one Python function; `compile_kernel` the entry of a range
kernel, whose C type is the same for all kernels: see `launcher`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import registry
from numba.core.typing import Signature

from minitorch2.codegen import cache as disk
from minitorch2.codegen.numba import frontend, library, primitives, vecmath
from minitorch2.codegen.numba.machine_code import optimize, own_sources, toolchain

_WORD = ir.IntType(64)


def compile_kernel(
    function: Callable[..., Any], signature: Signature, symbol: str
) -> llvm.ModuleRef:
    """The optimized module of a range kernel.

    Args:
        function: `(lo, hi, argument...)` in Numba's subset, answering 0 or an error code. Its
            pointers must not overlap: that is what the optimizer is told.
        signature: (int64, int64, ...) -> int64, with `CPointer` or int64 arguments.
        symbol: the name of the entry `int64 symbol(int64 lo, int64 hi, int64 *arguments)`.
    """
    module, name = frontend.lower(function, signature)
    module = llvm.parse_assembly(_without_aliases(str(module), name))
    module.link_in(llvm.parse_assembly(_entry(symbol, name, signature)))
    link_library(module)
    keep_only(module, symbol)
    optimize(module)
    return module


def compile_function(
    function: Callable[..., Any], signature: Signature, symbol: str
) -> llvm.ModuleRef:
    """A module with one C function, for linking; it is simplified but not vectorized."""
    module, name = frontend.lower(function, signature)
    module.link_in(llvm.parse_assembly(frontend.c_function(symbol, name, signature)))
    keep_only(module, symbol)
    optimize(module, vectorize=False)
    return module


def link_library(module: llvm.ModuleRef) -> None:
    """Link in each library function that the module calls, and those that they call."""
    missing = _missing(module)
    while missing:
        for symbol in missing:
            module.link_in(llvm.parse_bitcode(_bitcode(symbol)))
        missing = _missing(module)
    for function in module.functions:
        if function.name.startswith(library.PREFIX):
            function.linkage = "internal"


def keep_only(module: llvm.ModuleRef, symbol: str) -> None:
    """Make every other function of the module private to it, so that unused ones vanish."""
    for function in module.functions:
        if not function.is_declaration and function.name != symbol:
            function.linkage = "internal"


def _missing(module: llvm.ModuleRef) -> list[str]:
    return [
        function.name
        for function in module.functions
        if function.is_declaration and function.name in library.LIBRARY
    ]


@cache
def _bitcode(symbol: str) -> bytes:
    """A library function as bitcode, from the cache or compiled now."""
    key = disk.key_of("library", symbol, toolchain(), own_sources(primitives, library, vecmath))
    bitcode = disk.load(key)
    if bitcode is None:
        function = library.LIBRARY[symbol]
        bitcode = compile_function(function.python, function.signature, symbol).as_bitcode()
        disk.store(key, bitcode)
    return bitcode


def _without_aliases(text: str, name: str) -> str:
    """Mark each pointer argument `noalias`: without it, loops get checks or stay scalar."""
    start = text.index(f"@{name}(", text.index("define "))
    end = text.index("\n", start)
    pointer = re.compile(r"(ptr|[\w.]+\*) ((?:(?!noalias)[^%])*%arg\.)")
    return text[:start] + pointer.sub(r"\1 noalias \2", text[start:end]) + text[end:]


def _entry(symbol: str, numba_name: str, signature: Signature) -> str:
    """LLVM text of the entry: it takes the arguments from a block of 64-bit words."""
    context = registry.cpu_target.target_context
    kinds = [context.get_value_type(kind) for kind in signature.args]
    module = ir.Module(name=symbol)
    entry_kind = ir.FunctionType(_WORD, [_WORD, _WORD, _WORD.as_pointer()])
    function = ir.Function(module, entry_kind, symbol)
    inner_kinds = [_WORD.as_pointer(), ir.IntType(8).as_pointer().as_pointer(), *kinds]
    inner = ir.Function(module, ir.FunctionType(ir.IntType(32), inner_kinds), numba_name)
    builder = ir.IRBuilder(function.append_basic_block())
    status = builder.alloca(_WORD)
    error = builder.alloca(ir.IntType(8).as_pointer())
    lo, hi, block = function.args
    words = [builder.load(builder.gep(block, [_WORD(i)])) for i in range(len(kinds) - 2)]
    arguments = [
        builder.inttoptr(word, kind) if isinstance(kind, ir.PointerType) else word
        for word, kind in zip(words, kinds[2:], strict=True)
    ]
    builder.call(inner, [status, error, lo, hi, *arguments])
    builder.ret(builder.load(status))
    return str(module)
