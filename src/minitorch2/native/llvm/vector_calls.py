"""Versions of a library function for whole vectors, which LLVM's vectorizer calls by name.

A loop that calls a function which is not inlined can be vectorized if LLVM knows a version for 2,
4, 8 or 16 elements at a time. The attribute `vector-function-abi-variant` names these versions
(LLVM Language Reference, "Call Site Attributes").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template

from llvmlite import ir

WIDTHS = (2, 4, 8, 16)
"""How many elements LLVM may want at a time."""


def announce(function: ir.Function) -> str:
    """Keep calls of a function, and map them to versions with `_2` to `_16` after its name.

    Returns:
        The text that keeps all of them in the module, and as they are, until the vectorizer comes.
    """
    symbol = function.name
    names = [f"{symbol}_{n}" for n in WIDTHS]
    kinds = "v" * len(function.args)
    mapped = ",".join(f"_ZGV_LLVM_N{n}{kinds}_{symbol}({name})" for n, name in zip(WIDTHS, names))
    function.attributes.discard("alwaysinline")
    # llvmlite knows no attributes with a value, but prints what is in the set.
    set.update(function.attributes, ["noinline", f'"vector-function-abi-variant"="{mapped}"'])
    # The function itself is named, too: LLVM would drop a parameter that is the same in all calls.
    used = [symbol, *names]
    addresses = ", ".join(f"ptr @{name}" for name in used)
    kept = f'[{len(used)} x ptr] [{addresses}], section "llvm.metadata"'
    return f"@llvm.compiler.used = appending global {kept}"


def versions(
    function: ir.Function, template: Template, lines: Mapping[str, str], **texts: str
) -> str:
    """Fill in the template for each width; the text follows the function in its module.

    The template may contain `n`, the function's `symbol` and `result` type, the `parameters`, and
    `values`, which passes on `%e0`, `%e1` and so on. It may contain names of `texts`, and names of
    `lines`. These have a line for each parameter `$x` of the type `$vector`, whose element `$e` has
    the type `$kind`.
    """
    kinds = [str(each.type) for each in function.args]
    return "\n".join(
        template.substitute(
            texts | {name: _for_each(kinds, n, line) for name, line in lines.items()},
            n=n,
            symbol=function.name,
            result=function.return_value.type,
            parameters=", ".join(f"<{n} x {kind}> %x{i}" for i, kind in enumerate(kinds)),
            values=", ".join(f"{kind} %e{i}" for i, kind in enumerate(kinds)),
        )
        for n in WIDTHS
    )


def _for_each(kinds: Sequence[str], n: int, line: str) -> str:
    return "\n".join(
        Template(line).substitute(x=f"%x{i}", e=f"%e{i}", vector=f"<{n} x {kind}>", kind=kind)
        for i, kind in enumerate(kinds)
    )
