"""Library functions that few arguments need: vectors without such an argument skip them.

A vectorized loop has no branch, so it would compute for every element steps that only huge
arguments need (the sine of 1e30). A function for these steps is not inlined. Instead LLVM calls
versions of it for whole vectors, in place of one call per element. They test whether any element of
the first argument is at or beyond the limit, and return zeros if none is.
"""

from __future__ import annotations

from string import Template

from llvmlite import ir

from minitorch2.native.llvm.vector_calls import announce, versions

_VERSION = Template("""
define <$n x $result> @${symbol}_$n($parameters) nounwind readnone alwaysinline {
entry:
  %size = call <$n x $argument> @llvm.fabs.v$n$short(<$n x $argument> %x0)
  %one = insertelement <$n x $argument> poison, $argument $limit, i64 0
  %limits = shufflevector <$n x $argument> %one, <$n x $argument> poison, <$n x i32> zeroinitializer
  %is_far = fcmp oge <$n x $argument> %size, %limits
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

_ELEMENT = "  $e = extractelement $vector $x, i64 %i"
_UNLIKELY = '!0 = !{!"branch_weights", i32 1, i32 1000}'


def let_vectors_skip(function: ir.Function, limit: float) -> str:
    """Return the vector versions of a function of floats, as text to follow it in its module."""
    kind = function.args[0].type
    texts = {"argument": str(kind), "short": kind.intrinsic_name, "limit": repr(limit)}
    skipping = versions(function, _VERSION, {"elements": _ELEMENT}, **texts)
    return "\n".join((skipping, announce(function), _UNLIKELY))
