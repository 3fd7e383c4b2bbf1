"""Functions that kernels call by symbol and that are linked in, and inlined, as LLVM bitcode.

If kernels called ordinary Numba functions, Numba would type and compile the callee in each process.
A `library_function` is lowered once, kept as bitcode in the cache, and costs a kernel one `call`
instruction until LLVM inlines it. Its Python source stays the only definition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.typing import Signature
from numba.extending import intrinsic

PREFIX = "minitorch2_"


@dataclass(frozen=True)
class LibraryFunction:
    """A Python function in Numba's subset, with the one signature it is compiled for."""

    symbol: str
    python: Callable[..., Any]
    signature: Signature


LIBRARY: dict[str, LibraryFunction] = {}


def library_function(signature: Signature) -> Callable[[Callable[..., Any]], Any]:
    """Put a function in the library; the name then stands for a call of its symbol."""

    def register(python: Callable[..., Any]) -> Any:
        function = LibraryFunction(PREFIX + python.__name__, python, signature)
        LIBRARY[function.symbol] = function
        call = call_symbol({signature.args: (function.symbol, signature)}, len(signature.args))
        call.__doc__ = python.__doc__
        return call

    return register


def call_symbol(versions: dict[tuple[Any, ...], tuple[str, Signature]], arity: int) -> Any:
    """An intrinsic that calls a C function, chosen by the types of its arguments."""

    def typed(*args: Any) -> Any:
        found = versions.get(args)
        if found is None:
            return None
        symbol, signature = found

        def codegen(context: Any, builder: Any, signature: Signature, values: Any) -> ir.Value:
            kinds = [context.get_value_type(kind) for kind in signature.args]
            kind = ir.FunctionType(context.get_value_type(signature.return_type), kinds)
            function = cgutils.get_or_insert_function(builder.module, kind, symbol)
            # No memory is read or written: the call may be moved, shared or dropped.
            function.attributes.add("nounwind")
            function.attributes.add("readnone")
            return builder.call(function, values)

        return signature, codegen

    if arity == 1:
        return intrinsic(lambda typingctx, a: typed(a))
    if arity == 2:
        return intrinsic(lambda typingctx, a, b: typed(a, b))
    return intrinsic(lambda typingctx, a, b, c: typed(a, b, c))
