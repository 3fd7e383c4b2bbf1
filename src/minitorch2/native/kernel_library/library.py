"""Functions that kernels call by symbol and that are linked in, and inlined, as LLVM bitcode.

If kernels called ordinary Numba functions, Numba would type and compile the callee in each process.
A `library_function` is lowered once, kept as bitcode in the cache, and costs a kernel one `call`
instruction until LLVM inlines it. Its Python source stays the only definition.

A name may have a version for float32 and one for float64, chosen by the type of the argument. They
are two functions, the second with `_f64` after its name, or one source for both (`for_each_float`),
where `real` is the type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import float32, float64
from numba.core import cgutils
from numba.core.typing import Signature
from numba.extending import intrinsic

PREFIX = "minitorch2_"
Versions = dict[tuple[Any, ...], tuple[str, Signature]]
OnCall = Callable[[Any, str], None]


@dataclass(frozen=True)
class LibraryFunction:
    """A Python function in Numba's subset, with the one signature it is compiled for.

    `beyond`: only arguments of at least this size need it, see `seldom`.
    """

    symbol: str
    python: Callable[..., Any]
    signature: Signature
    beyond: float | None = None


LIBRARY: dict[str, LibraryFunction] = {}
VERSIONS: dict[str, Versions] = {}
"""The symbol and signature of each version of a name, by the types of its arguments."""

real: Any = float64
"""In the source of a library function: the type of its first argument."""


def library_function(
    signature: Signature, beyond: float | None = None
) -> Callable[[Callable[..., Any]], Any]:
    """Put a function in the library; the name then stands for a call of its symbol."""

    def register(python: Callable[..., Any]) -> Any:
        return _register(python.__name__, python, signature, beyond)

    return register


def for_each_float(python: Callable[..., Any]) -> Any:
    """Put a function in the library twice: of float32 and of float64 arguments."""
    name, arity = python.__name__, python.__code__.co_argcount
    _register(f"{name}_f64", python, float64(*[float64] * arity))
    return _register(name, python, float32(*[float32] * arity))


def _register(
    name: str, python: Callable[..., Any], signature: Signature, beyond: float | None = None
) -> Any:
    function = LibraryFunction(PREFIX + name, python, signature, beyond)
    LIBRARY[function.symbol] = function
    versions = VERSIONS.setdefault(name.removesuffix("_f64"), {})
    versions[signature.args] = function.symbol, signature
    call = call_symbol(versions, len(signature.args))
    call.__doc__ = python.__doc__
    return call


def call_symbol(versions: Versions, arity: int, on_call: OnCall | None = None) -> Any:
    """Return an intrinsic that calls a C function, chosen by the types of its arguments.

    `on_call` is called with Numba's context and the symbol for each call that is written.
    """

    def typed(*args: Any) -> Any:
        found = versions.get(args)
        if found is None:
            return None
        symbol, signature = found

        def codegen(context: Any, builder: Any, signature: Signature, values: Any) -> ir.Value:
            if on_call is not None:
                on_call(context, symbol)
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
