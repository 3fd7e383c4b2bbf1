"""Library functions that a large kernel calls, where a small one has them inlined.

A kernel that computes five hundred sines would have five hundred copies of the sine's instructions,
and LLVM takes ten milliseconds for each. A function that is not inlined has a version for whole
vectors, made from the same source by the same vectorizer, so its results are the same.
"""

from __future__ import annotations

from string import Template

from llvmlite import ir

from minitorch2.native.llvm.vector_calls import announce, versions

MOST_INLINED = 32
"""A kernel that has more calls of library functions keeps them as calls."""

_VERSION = Template("""
define <$n x $result> @${symbol}_$n($parameters) nounwind readnone noinline {
entry:
$stored
  %all = alloca <$n x $result>
  br label %turn
turn:
  %i = phi i64 [ 0, %entry ], [ %next, %turn ]
$elements
  %value = call $result @${symbol}_body($values)
  %place = getelementptr inbounds $result, ptr %all, i64 %i
  store $result %value, ptr %place
  %next = add nuw nsw i64 %i, 1
  %is_last = icmp eq i64 %next, $n
  br i1 %is_last, label %done, label %turn, !llvm.loop !100$n
done:
  %vector = load <$n x $result>, ptr %all
  ret <$n x $result> %vector
}
!100$n = distinct !{!100$n, !1000, !200$n}
!200$n = !{!"llvm.loop.vectorize.width", i32 $n}
""")
_LINES = {
    "stored": "  $x.all = alloca $vector\n  store $vector $x, ptr $x.all",
    "elements": "  $e.place = getelementptr inbounds $kind, ptr $x.all, i64 %i\n"
    "  $e = load $kind, ptr $e.place",
}
_VECTORIZE = '!1000 = !{!"llvm.loop.vectorize.enable", i1 true}'


def is_of_floats(function: ir.Function) -> bool:
    """Return whether all parameters and the result are floats, whose vectors can be stored."""
    kinds = [function.return_value.type, *(each.type for each in function.args)]
    return all(isinstance(kind, (ir.FloatType, ir.DoubleType)) for kind in kinds)


def outline(body: ir.Function, symbol: str) -> str:
    """Write a function that calls `body`, `symbol_body`, and is not inlined where it is called.

    Returns:
        Its versions for vectors, as text to follow it in its module.
    """
    body.linkage = "internal"
    function = ir.Function(body.module, body.function_type, symbol)
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(builder.call(body, function.args))
    kept = announce(function)
    return "\n".join((versions(function, _VERSION, _LINES), kept, _VECTORIZE))
