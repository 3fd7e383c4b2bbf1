"""Device functions that generated kernels call, written in Triton.

They run as they are on the GPU and in Triton's interpreter. `libdevice` is CUDA's math library, or,
in the interpreter, its stand-in on the CPU.
"""

# Triton reads annotations as its own types, so device functions have none.
# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl

from minitorch2.codegen.triton.availability import is_interpreting

if is_interpreting():
    from minitorch2.codegen.triton import libdevice_on_cpu as libdevice
    from minitorch2.codegen.triton.libdevice_on_cpu import check_index

    @triton.jit
    def dot(left, right, acc, precision: tl.constexpr):
        """Multiply two blocks; the interpreter would multiply bfloat16 as if they were integers."""
        return tl.dot(left.to(tl.float32), right.to(tl.float32), acc, input_precision=precision)
else:
    from triton.language.extra import libdevice  # type: ignore[no-redef]

    @triton.jit
    def check_index(index, size, mask):
        """Stop the kernel if an index that counts is not in `0 <= index < size`, as eager does."""
        tl.device_assert((index >= 0) & (index < size), "index out of bounds", mask)

    @triton.jit
    def dot(left, right, acc, precision: tl.constexpr):
        """Add the product of two blocks to `acc`: on tensor cores, unless float32 is `ieee`."""
        return tl.dot(left, right, acc, input_precision=precision)


__all__ = [
    "argmax", "argmin", "check_index", "dot", "floordiv", "libdevice", "maximum", "minimum", "mod",
    "product", "rescaled", "running_moments", "running_softmax", "sigmoid", "sign", "squares_from",
    "weigh", "xor",
]  # fmt: skip


@triton.jit
def maximum(x, y):
    """Return the larger one; NaN if either is NaN."""
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(x, y):
    """Return the smaller one; NaN if either is NaN."""
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def add(x, y):
    """Combine two values of a running sum."""
    return x + y


@triton.jit
def product(x, y):
    """Combine two values of `prod`."""
    return x * y


@triton.jit
def xor(x, y):
    """Combine two values of `xor_sum`."""
    return x ^ y


@triton.jit
def _pick(better, equal, x, i, y, j):
    """Return the better of (x, i) and (y, j), and of equal values the one of smaller position."""
    first = better | (equal & (i < j))
    return tl.where(first, x, y), tl.where(first, i, j)


@triton.jit
def argmax(x, i, y, j):
    """Return the larger of two candidates with positions; NaN is larger than every number."""
    better = (x > y) | ((x != x) & (y == y))
    return _pick(better, (x == y) | ((x != x) & (y != y)), x, i, y, j)


@triton.jit
def argmin(x, i, y, j):
    """Return the smaller of two candidates with positions; NaN is smaller than every number."""
    better = (x < y) | ((x != x) & (y == y))
    return _pick(better, (x == y) | ((x != x) & (y != y)), x, i, y, j)


@triton.jit
def _small_exp(x):
    """Return the exponential of differences from a maximum, for a sum of them. CUDA's fast one has
    an error that grows with the difference, but less than the term becomes smaller.
    """
    return libdevice.exp(x) if x.dtype == tl.float64 else libdevice.fast_expf(x)


@triton.jit
def running_softmax(m, s, x):
    """Update the maximum m and the sum s of exp(... - m) by the elements of x, along dimension 1.

    A row whose maximum is -inf has a sum of 0.
    """
    n = maximum(m, tl.reduce(x, 1, maximum))
    base = tl.where(n == float("-inf"), 0.0, n)
    return n, s * _small_exp(m - base) + tl.sum(_small_exp(x - base[:, None, :]), 1)


@triton.jit
def rescaled(s, m, n):
    """Convert a sum of exp(... - m) to one of exp(... - n)."""
    return s * _small_exp(m - n)


@triton.jit
def weigh(m, s, x):
    """Update a column of maxima and one of sums by a block of scores.

    Returns both, the weights exp(x - m), and what earlier weights are multiplied by.
    """
    n = tl.maximum(m, tl.max(x, 1)[:, None])  # a NaN is in the sum
    base = tl.where(n == float("-inf"), 0.0, n)
    weight, rest = _small_exp(x - base), _small_exp(m - base)
    return n, s * rest + tl.sum(weight, 1)[:, None], weight, rest


@triton.jit
def running_moments(s, m, n, x, ones):
    """Update the sum s of n elements and the sum m of their squared differences from the mean.

    The new elements are those of x, along dimension 1, that have a 1 in `ones`.
    """
    k = tl.sum(ones, 1)
    t = tl.sum(x, 1)
    mean = t / tl.maximum(k, 1.0)
    e = (x - mean[:, None, :]) * ones
    d = mean - s / tl.maximum(n, 1.0)
    return s + t, m + tl.sum(e * e, 1) + d * (d * (n * k / tl.maximum(n + k, 1.0))), n + k


@triton.jit
def squares_from(mean, s, m, n):
    """Convert the sum m of squared differences from the mean to differences from another mean."""
    d = s / tl.maximum(n, 1.0) - mean
    return m + d * (d * n)


@triton.jit
def sign(x):
    """-1, 0 or 1; 0 for NaN."""
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def sigmoid(x):
    """1 / (1 + exp(-x)); exp may overflow, and then the result is 0 as it should be."""
    return 1 / (1 + libdevice.exp(-x))


@triton.jit
def mod(x, y):
    """Return the remainder that has the sign of the divisor, as in Python."""
    if x.dtype.is_floating():
        r = libdevice.fmod(x, y)
    else:
        r = x % y
    return tl.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)


@triton.jit
def floordiv(x, y):
    """Divide integers, rounding towards minus infinity, as in Python."""
    q = x // y
    r = x - q * y
    return tl.where((r != 0) & ((r < 0) != (y < 0)), q - 1, q)
