"""Copies of matrices across, in blocks that stay in vector registers.

Element by element, a transposed copy is a gather: an instruction per element, each to another cache
line. Here the N rows of a block of N x N elements are loaded as vectors. Then log2(N) rounds, each
of which interleaves the first half of the rows with the second, exchange rows and columns.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import for_range
from numba.extending import intrinsic

_WORD, _LANE = ir.IntType(64), ir.IntType(32)
Place = tuple[ir.Value, ir.Value]
"""Where a matrix starts, and how many elements its lines are apart."""
_CACHE_LINE, _MOST_ROWS = 64, 16


@intrinsic
def copy_transposed(
    typingctx: Any,
    to: Any,
    pitch: Any,
    source: Any,
    offset: Any,
    stride: Any,
    rows: Any,
    columns: Any,
) -> Any:
    """`to[r*pitch + c] = source[offset + r + c*stride]` for all r < rows and c < columns."""
    size = min(_MOST_ROWS, _CACHE_LINE * 8 // to.dtype.bitwidth)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> ir.Value:
        to, pitch, source, offset, stride, rows, columns = args
        source = builder.gep(source, [offset])
        copy = _Copy(builder, (to, pitch), (source, stride))
        whole_rows, whole_columns = (builder.sdiv(n, _WORD(size)) for n in (rows, columns))
        with for_range(builder, whole_columns) as j, for_range(builder, whole_rows) as i:
            copy.block(builder.mul(i.index, _WORD(size)), builder.mul(j.index, _WORD(size)), size)
        done_rows, done_columns = (builder.mul(n, _WORD(size)) for n in (whole_rows, whole_columns))
        with for_range(builder, columns) as j:
            inside = builder.icmp_signed("<", j.index, done_columns)
            start = builder.select(inside, done_rows, _WORD(0))
            with for_range(builder, rows, start) as i:
                copy.element(i.index, j.index)
        return _WORD(0)

    return types.int64(to, types.int64, source, *[types.int64] * 4), codegen


class _Copy:
    """The writer of the instructions of a copy between two places."""

    def __init__(self, builder: Any, to: Place, source: Place) -> None:
        self.builder, self.to, self.source = builder, to, source

    def element(self, row: ir.Value, column: ir.Value) -> None:
        """Copy one element."""
        value = self.builder.load(self._address(self.source, column, row))
        self.builder.store(value, self._address(self.to, row, column))

    def block(self, row: ir.Value, column: ir.Value, size: int) -> None:
        """Copy a square of elements, from this one on."""
        vectors = [
            self.builder.load(self._vector(self.source, column, row, line, size), align=1)
            for line in range(size)
        ]
        half = size // 2
        low = [lane + other for lane in range(half) for other in (0, size)]
        high = [lane + half for lane in low]
        for _ in range(size.bit_length() - 1):
            vectors = [
                self.builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(_LANE, size), lanes))
                for pair in zip(vectors[:half], vectors[half:], strict=True)
                for lanes in (low, high)
            ]
        for line, vector in enumerate(vectors):
            self.builder.store(vector, self._vector(self.to, row, column, line, size), align=1)

    def _address(self, place: Place, line: ir.Value, position: ir.Value) -> Any:
        start, stride = place
        return self.builder.gep(start, [self.builder.add(self.builder.mul(line, stride), position)])

    def _vector(
        self, place: Place, line: ir.Value, position: ir.Value, i: int, size: int
    ) -> ir.Value:
        address = self._address(place, self.builder.add(line, _WORD(i)), position)
        kind = ir.VectorType(address.type.pointee, size)
        return self.builder.bitcast(address, kind.as_pointer())
