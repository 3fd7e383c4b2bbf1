"""Python source -> LLVM IR, by Numba's type inference and lowering alone.

Numba's `njit` would also build a Python wrapper, a C wrapper, optimize twice and link: most of the
seconds of a kernel. Here its front end is asked for LLVM IR, and `machine_code` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import compiler, registry
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing import Signature


def lower(function: Callable[..., Any], signature: Signature) -> tuple[llvm.ModuleRef, str]:
    """The LLVM module of a function in Numba's subset, and the name of the function in it.

    The function found there has Numba's own calling convention: it takes pointers to the result and
    to an exception before its arguments, and returns a status (see `c_function`).

    Raises:
        numba.errors.TypingError: the source does not type-check.
    """
    target = registry.cpu_target
    with global_compiler_lock:
        result = compiler.compile_extra(
            target.typing_context,
            target.target_context,
            function,
            signature.args,
            signature.return_type,
            _flags(),
            {},
        )
    module = llvm.parse_assembly(result.library.get_llvm_str())
    return module, result.fndesc.llvm_func_name


def _flags() -> compiler.Flags:
    flags = compiler.Flags()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.nrt = False
    flags.boundscheck = False
    flags.error_model = "numpy"  # division by zero gives inf or NaN, and no branch
    return flags


def c_function(symbol: str, numba_name: str, signature: Signature) -> str:
    """LLVM text of a function `symbol` that calls a Numba function with the plain C convention."""
    context = registry.cpu_target.target_context
    kinds = [context.get_value_type(kind) for kind in signature.args]
    result = context.get_value_type(signature.return_type)
    module = ir.Module(name=symbol)
    function = ir.Function(module, ir.FunctionType(result, kinds), symbol)
    function.attributes.add("alwaysinline")
    inner_kinds = [result.as_pointer(), ir.IntType(8).as_pointer().as_pointer(), *kinds]
    inner = ir.Function(module, ir.FunctionType(ir.IntType(32), inner_kinds), numba_name)
    builder = ir.IRBuilder(function.append_basic_block())
    answer = builder.alloca(result)
    error = builder.alloca(ir.IntType(8).as_pointer())
    builder.call(inner, [answer, error, *function.args])
    builder.ret(builder.load(answer))
    return str(module)
