"""Library functions that few arguments need: vectors without such an argument skip them.

A vectorized loop has no branch, so it would compute for every element steps that only huge
arguments need (the sine of 1e30). A function for these steps is not inlined. Instead LLVM calls
versions of it for whole vectors, in place of one call per element. They test whether any element of
the first argument is at or beyond the limit, and return zeros if none is.
"""

from __future__ import annotations

from string import Template

from llvmlite import ir

WIDTHS = (2, 4, 8, 16)
"""How many elements LLVM may want at a time."""

_VERSION = Template("""
define <$n x $result> @${symbol}_$n($parameters) nounwind readnone alwaysinline {
entry:
  %size = call <$n x $argument> @llvm.fabs.v$n$short(<$n x $argument> %x0)
  %is_far = fcmp oge <$n x $argument> %size, $limits
  %is_any_far = call i1 @llvm.vector.reduce.or.v${n}i1(<$n x i1> %is_far)
  br i1 %is_any_far, label %turn, label %done, !prof !0
turn:
  %i = phi i64 [ 0, %entry ], [ %next, %turn ]
  %before = phi <$n x $result> [ zeroinitializer, %entry ], [ %after, %turn ]
$elements
  %value = call $result @$symbol($values)
  %after = insertelement <$n x $result> %before, $result %value, i64 %i
  %next = add i64 %i, 1
  %is_last = icmp eq i64 %next, $n
  br i1 %is_last, label %done, label %turn
done:
  %all = phi <$n x $result> [ zeroinitializer, %entry ], [ %after, %turn ]
  ret <$n x $result> %all
}
declare <$n x $argument> @llvm.fabs.v$n$short(<$n x $argument>)
declare i1 @llvm.vector.reduce.or.v${n}i1(<$n x i1>)
""")


_UNLIKELY = '!0 = !{!"branch_weights", i32 1, i32 1000}'


def let_vectors_skip(function: ir.Function, limit: float) -> str:
    """The versions for vectors of a function of floats, as text to follow it in its module."""
    symbol, argument = function.name, function.args[0].type
    names = [f"{symbol}_{n}" for n in WIDTHS]
    kinds = "v" * len(function.args)
    mapped = ",".join(f"_ZGV_LLVM_N{n}{kinds}_{symbol}({name})" for n, name in zip(WIDTHS, names))
    function.attributes.remove("alwaysinline")
    # llvmlite knows no attributes with a value, but prints what is in the set.
    set.update(function.attributes, ["noinline", f'"vector-function-abi-variant"="{mapped}"'])
    versions = (
        _VERSION.substitute(
            _arguments([str(each.type) for each in function.args], n),
            n=n,
            symbol=symbol,
            argument=argument,
            result=function.return_value.type,
            short=argument.intrinsic_name,
            limits=f"<{', '.join([f'{argument} {limit!r}'] * n)}>",
        )
        for n in WIDTHS
    )
    addresses = ", ".join(f"ptr @{name}" for name in names)
    kept = f'[{len(names)} x ptr] [{addresses}], section "llvm.metadata"'
    return "\n".join((*versions, f"@llvm.compiler.used = appending global {kept}", _UNLIKELY))


def _arguments(kinds: list[str], n: int) -> dict[str, str]:
    """The parameters of a version, one element of each, and how these are handed on."""
    vectors = [f"<{n} x {kind}> %x{i}" for i, kind in enumerate(kinds)]
    elements = [f"  %e{i} = extractelement {x}, i64 %i" for i, x in enumerate(vectors)]
    values = [f"{kind} %e{i}" for i, kind in enumerate(kinds)]
    return {
        "parameters": ", ".join(vectors), "elements": "\n".join(elements),
        "values": ", ".join(values),
    }  # fmt: skip
