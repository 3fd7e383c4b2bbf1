"""Python kernels as LLVM modules: the front end, and the function library linked in.

Only this module and its imports need Numba; `runtime` imports it for the first kernel that no cache
has. `compile_function` makes a C function of one Python function. `link_kernel` makes the entry of
a range kernel, whose C type is the same for all kernels: see `launcher`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core.typing import Signature

from minitorch2 import cache as disk
from minitorch2.foundation import syntax_tree
from minitorch2.native.kernel_library import library
from minitorch2.native.kernel_library.library import LibraryFunction
from minitorch2.native.kernels import frontend
from minitorch2.native.kernels.vocabulary import VOCABULARY
from minitorch2.native.llvm import outlining, seldom
from minitorch2.native.llvm.machine_code import optimize, parse_alone, toolchain

_WORD, _BIT = ir.IntType(64), ir.IntType(1)


def signature_of(pointers: Sequence[str], sizes: int) -> Signature:
    """Return the Numba signature of a kernel, given the element types of its pointers."""
    addresses = [types.CPointer(getattr(types, kind)) for kind in pointers]
    numbers = [types.int64] * sizes
    return types.int64(types.int64, types.int64, *addresses, *numbers, types.CPointer(types.int64))


def link_text(text: str, pointers: Sequence[str], sizes: int, symbol: str) -> llvm.ModuleRef:
    """Return the module of a range kernel, given as `runtime.KernelSource` says."""
    tree = syntax_tree.parse(text)
    return link_kernel(tree, VOCABULARY, signature_of(pointers, sizes), symbol)


def link_kernel(
    tree: ast.Module, names: Mapping[str, Any], signature: Signature, symbol: str
) -> llvm.ModuleRef:
    """Return the module of a range kernel with all functions that it calls, not yet optimized.

    Args:
        tree: the syntax of `(lo, hi, argument...)` in the kernel language, answering 0 or an error
            code. Its pointers must not overlap: that is what the optimizer is told.
        names: what its free names stand for.
        signature: (int64, int64, ...) -> int64, with `CPointer` or int64 arguments.
        symbol: the name of the entry `int64 symbol(int64 lo, int64 hi, int64 *arguments)`.
    """
    written = ir.Module(name=symbol)
    kernel = frontend.lower_tree(tree, names, signature, written, f"{symbol}_range")
    _write_entry(written, kernel, symbol)
    module, context = parse_alone(str(written))
    link_library(module, context, outlined=_calls(kernel) > outlining.MOST_INLINED)
    keep_only(module, symbol)
    return module


def compile_function(function: LibraryFunction) -> llvm.ModuleRef:
    """Return a module with one C function to link; it is simplified but not vectorized."""
    written = ir.Module(name=function.symbol)
    lowered = frontend.lower(function.python, function.signature, written, function.symbol)
    skipping = "" if function.beyond is None else seldom.let_vectors_skip(lowered, function.beyond)
    module = llvm.parse_assembly(str(written) + skipping)
    optimize(module, vectorize=False)
    return module


def compile_outlined(function: LibraryFunction) -> llvm.ModuleRef:
    """Return a module with a C function that kernels call, and its versions for vectors.

    The functions that it calls are linked in. A function with other types than floats is inlined
    all the same.
    """
    written = ir.Module(name=function.symbol)
    body = frontend.lower(function.python, function.signature, written, f"{function.symbol}_body")
    if function.beyond is not None or not outlining.is_of_floats(body):
        return compile_function(function)
    versions = outlining.outline(body, function.symbol)
    module = llvm.parse_assembly(str(written) + versions)
    link_library(module, llvm.get_global_context(), keep=function.symbol)
    optimize(module)
    return module


def link_library(
    module: llvm.ModuleRef, context: llvm.ContextRef, keep: str = "", *, outlined: bool = False
) -> None:
    """Link in each library function that the module calls, and those that they call.

    They become private to the module, but for the one whose symbol is `keep`.

    Args:
        outlined: they are not to be inlined.
    """
    missing = _missing(module)
    while missing:
        for symbol in missing:
            module.link_in(llvm.parse_bitcode(bitcode(symbol, outlined), context))
        missing = _missing(module)
    for function in module.functions:
        if function.name.startswith(library.PREFIX) and function.name != keep:
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


def _calls(function: ir.Function) -> int:
    """Return the number of calls of library functions in a function."""
    return sum(
        isinstance(each, ir.CallInstr) and each.callee.name.startswith(library.PREFIX)
        for block in function.blocks
        for each in block.instructions
    )


@cache
def bitcode(symbol: str, outlined: bool = False) -> bytes:
    """Return a library function as bitcode, from the cache or compiled now."""
    compile = compile_outlined if outlined else compile_function
    fields = {"function": symbol, "by": compile.__name__, **toolchain()}
    key = disk.key_of("library", symbol, **fields)
    code = disk.load(key)
    if code is None:
        code = compile(library.LIBRARY[symbol]).as_bitcode()
        disk.store(key, code)
    return code


def _write_entry(module: ir.Module, kernel: ir.Function, symbol: str) -> None:
    """Write the entry, which takes the arguments from a block of 64-bit words."""
    entry_kind = ir.FunctionType(_WORD, [_WORD, _WORD, _WORD.as_pointer()])
    function = ir.Function(module, entry_kind, symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    lo, hi, block = function.args
    kinds = [argument.type for argument in kernel.args[2:]]
    words = [builder.load(builder.gep(block, [_WORD(i)])) for i in range(len(kinds))]
    arguments = [
        builder.inttoptr(word, kind) if isinstance(kind, ir.PointerType) else word
        for word, kind in zip(words, kinds, strict=True)
    ]
    assume = module.declare_intrinsic("llvm.assume", (), ir.FunctionType(ir.VoidType(), [_BIT]))
    builder.call(assume, [builder.icmp_signed(">=", lo, _WORD(0))])
    builder.ret(builder.call(kernel, [lo, hi, *arguments]))
