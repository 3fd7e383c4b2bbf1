"""Elementary functions as straight-line code that LLVM vectorizes.

A loop over `math.exp` calls the library for each element. The functions here have no branch and no
call, so a loop over them runs 8 or 16 elements at a time. Method, for all of them: reduce the
argument to a small interval, evaluate a minimax polynomial there, undo the reduction. Errors are at
most 4 units in the last place (tested against float64); infinities, NaN, zeros and subnormals are
those of the C library. The functions of this file are for float32, those of `vecmath_f64` for
float64, and those of `vecmath_real` for both.

`vocabulary` says which of them a kernel's `exp` or `log` stands for. Functions that are missing
here come from the C math library, one element at a time.
"""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int32, int64, uint64

from minitorch2.native.kernel_library.library import for_each_float, library_function, real
from minitorch2.native.kernel_library.primitives import (
    absolute,
    bits,
    copysign,
    fma,
    from_bits,
    polynomial,
)

f32 = np.float32

INFINITY = f32(np.inf)
# ln 2 in two parts: the first has trailing zeros, so its product with a small integer is exact.
LN2_HIGH = f32(0.693359375)
LN2_LOW = f32(-2.12194440e-4)
LOG2_E = f32(1.4426950408889634)
# Adding 1.5 * 2**23 rounds a float32 to an integer and leaves that integer in the low bits.
ROUNDING = f32(12582912.0)
ROUNDING_BITS = np.int32(0x4B400000)
SQRT_HALF_BITS = np.int32(0x3F3504F3)
SMALLEST_NORMAL = f32(1.17549435e-38)

# The binary digits of 1 / (2 pi) / 2**8, after the point.
TURN_0 = np.uint64(0x0028BE60DB939105)
TURN_1 = np.uint64(0x4A7F09D5F47D4D37)
TURN_2 = np.uint64(0x7036D8A5664F10E4)
TURN_3 = np.uint64(0x107F9458EAF7AEF1)
# Beyond this the argument of a sine is reduced with as many digits of pi as it needs.
FAR = f32(32768.0)


@library_function(float32(int32))
def power_of_two(exponent):  # type: ignore[no-untyped-def]
    """2**exponent for an int32 in -126..127."""
    return from_bits(int32((exponent + int32(127)) << int32(23)))


@library_function(float32(float32))
def expm1_reduced(r):  # type: ignore[no-untyped-def]
    """exp(r) - 1 for |r| <= ln(2)/2."""
    tail = polynomial(
        r, (0.5000000078, 0.1666666685, 0.04166626945, 0.008333266644, 0.001394609928,
            0.0001991718872)
    )  # fmt: skip
    return fma(r * r, tail, r)


@library_function(float32(float32))
def exp(x):  # type: ignore[no-untyped-def]
    """e**x = 2**n * e**r, with n the integer nearest to x / ln 2."""
    x = f32(89.0) if x > f32(89.0) else x
    x = f32(-104.0) if x < f32(-104.0) else x
    shifted = fma(x, LOG2_E, ROUNDING)
    n = shifted - ROUNDING
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    whole = int32(bits(shifted) - ROUNDING_BITS)
    # In two steps, so that results near the ends of the range neither overflow nor flush to zero.
    half = int32(whole >> int32(1))
    value = expm1_reduced(r) + f32(1.0)
    return value * power_of_two(half) * power_of_two(int32(whole - half))


@library_function(float32(float32))
def expm1(x):  # type: ignore[no-untyped-def]
    """e**x - 1 = (2**n - 1) + 2**n * (e**r - 1), in halves so that 2**128 does not overflow."""
    clamped = f32(89.0) if x > f32(89.0) else x
    clamped = f32(-18.0) if clamped < f32(-18.0) else clamped
    shifted = fma(clamped, LOG2_E, ROUNDING)
    n = shifted - ROUNDING
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, clamped))
    scale = power_of_two(int32(bits(shifted) - ROUNDING_BITS - int32(1)))
    value = f32(2.0) * fma(scale, expm1_reduced(r), scale - f32(0.5))
    return x if x == f32(0.0) else value  # keeps the sign of zero


@library_function(float32(float32))
def exp2(x):  # type: ignore[no-untyped-def]
    """2**x, reduced exactly."""
    x = f32(129.0) if x > f32(129.0) else x
    x = f32(-151.0) if x < f32(-151.0) else x
    shifted = x + ROUNDING
    r = (x - (shifted - ROUNDING)) * f32(0.6931471805599453)
    whole = int32(bits(shifted) - ROUNDING_BITS)
    half = int32(whole >> int32(1))
    value = expm1_reduced(r) + f32(1.0)
    return value * power_of_two(half) * power_of_two(int32(whole - half))


@library_function(float32(float32))
def log_tail(f):  # type: ignore[no-untyped-def]
    """log(1 + f) - f + f**2/2, for sqrt(1/2) <= 1 + f <= sqrt(2)."""
    return f * f * f * polynomial(
        f, (0.3333331044, -0.2499998663, 0.2000222671, -0.1666924933, 0.1421865518,
            -0.1238437243, 0.1187302014, -0.1178968464, 0.06915125436)
    )  # fmt: skip


@for_each_float
def log_edges(x, value):  # type: ignore[no-untyped-def]
    """Return the logarithm's value at 0, infinity, below 0 and at NaN; `value` elsewhere."""
    value = x if x == real(np.inf) else value
    value = real(-np.inf) if x == real(0.0) else value
    return value if x >= real(0.0) else real(np.nan)


@library_function(float32(float32))
def log(x):  # type: ignore[no-untyped-def]
    """log(2**e * (1 + f)) = e * ln 2 + log(1 + f)."""
    tiny = x < SMALLEST_NORMAL
    pattern = bits(x * f32(8388608.0) if tiny else x)
    e = int32((pattern - SQRT_HALF_BITS) >> int32(23))
    f = from_bits(int32(pattern - (e << int32(23)))) - f32(1.0)
    exponent = float32(e) - (f32(23.0) if tiny else f32(0.0))
    rest = fma(exponent, LN2_LOW, fma(f * f, f32(-0.5), log_tail(f)))
    return log_edges(x, fma(exponent, LN2_HIGH, f + rest))


@library_function(float32(float32))
def log2(x):  # type: ignore[no-untyped-def]
    """log2(2**e * (1 + f)) = e + log(1 + f) / ln 2; exact at powers of two."""
    tiny = x < SMALLEST_NORMAL
    pattern = bits(x * f32(8388608.0) if tiny else x)
    e = int32((pattern - SQRT_HALF_BITS) >> int32(23))
    f = from_bits(int32(pattern - (e << int32(23)))) - f32(1.0)
    exponent = float32(e) - (f32(23.0) if tiny else f32(0.0))
    # 1/ln 2 = 1 + 0.4426950408889634: the whole part is added without rounding.
    rest = fma(f * f, f32(-0.5), log_tail(f))
    value = fma(f + rest, f32(0.4426950408889634), rest) + f
    return log_edges(x, exponent + value)


@library_function(float32(float32))
def log10(x):  # type: ignore[no-untyped-def]
    """log(x) / ln 10, the constant in two parts."""
    natural = log(x)
    return fma(natural, f32(0.4342944819032518), natural * f32(1.2e-8))


@library_function(float32(float32))
def erf(x):  # type: ignore[no-untyped-def]
    """x + x * P(x**2) up to 1, from there 1 - Q(|x|)**8, where Q is the eighth root of erfc."""
    s = x * x
    p = polynomial(
        s, (0.1283791363, -0.3761235476, 0.112803854, -0.02671646886, 0.004922800697,
            -0.000565024151)
    )  # fmt: skip
    a = absolute(x)
    t = f32(3.95) if a > f32(3.95) else a  # beyond, it is 1 in float32
    q = polynomial(
        t, (1.000372887, -0.14293468, -0.06553895772, -0.007043581456, 0.0102485856,
            -0.001498325379, -4.152847396e-05, 1.578422416e-05)
    )  # fmt: skip
    q = q * q
    q = q * q
    return fma(x, p, x) if a < f32(1.0) else copysign(fma(-q, q, f32(1.0)), x)


@library_function(float32(float32, float32))
def after_turns(x, n):  # type: ignore[no-untyped-def]
    """x - n * pi/2, with pi/2 in three parts (Cody and Waite)."""
    r = fma(n, f32(-1.57079601), x)
    return fma(n, f32(-5.39030253e-15), fma(n, f32(-3.13916473e-7), r))


@library_function(int64(float32), beyond=float(FAR))
def after_many_turns(x):  # type: ignore[no-untyped-def]
    """Return the quotient of x by pi/2, modulo 4, above 32 bits of the remainder.

    The integer arithmetic is exact for |x| >= 2**15. Let |x| = m * 2**e. Only the digits of 1 / (2
    pi) after the e-th matter for |x| / (2 pi) modulo 1 in units of 2**-64 (Payne and Hanek).
    """
    pattern = uint64(bits(absolute(x)))
    mantissa = (pattern & uint64(0x7FFFFF)) | uint64(0x800000)
    e = ((pattern >> uint64(23)) - uint64(142)) & uint64(127)
    shift = e & uint64(63)
    is_near = e < uint64(64)
    first = TURN_0 if is_near else TURN_1
    second = TURN_1 if is_near else TURN_2
    third = TURN_2 if is_near else TURN_3
    digits = (first << shift) | ((second >> uint64(1)) >> (uint64(63) - shift))
    # The next 32 digits: what is left next to a multiple of pi/2 has none above them.
    further = ((second << shift) | ((third >> uint64(1)) >> (uint64(63) - shift))) >> uint64(32)
    phase = int64(mantissa * digits + ((mantissa * further) >> uint64(32)))
    turns = ((phase >> 61) + 1) >> 1
    rest = float32(float64(phase << 2) * 8.515303950216386e-20)  # 2 pi / 2**66
    is_negative = x < f32(0.0)
    left = bits(-rest if is_negative else rest)
    return ((-turns if is_negative else turns) << 32) | (int64(left) & 0xFFFFFFFF)


@library_function(float32(float32))
def sin_reduced(r):  # type: ignore[no-untyped-def]
    """sin(r) for |r| <= pi/4."""
    s = r * r
    tail = polynomial(s, (-0.1666666664, 0.008333329267, -0.0001983929612, 2.717939777e-06))
    return fma(r * s, tail, r)


@library_function(float32(float32))
def cos_reduced(r):  # type: ignore[no-untyped-def]
    """cos(r) for |r| <= pi/4."""
    s = r * r
    tail = polynomial(s, (0.04166664627, -0.001388733705, 2.443484311e-05))
    return fma(s * s, tail, fma(s, f32(-0.5), f32(1.0)))


@library_function(float32(float32, int32))
def sin_after(x, quarters):  # type: ignore[no-untyped-def]
    """sin(x + quarters * pi/2)."""
    shifted = fma(x, f32(0.6366197723675814), ROUNDING)
    is_far = absolute(x) >= FAR and absolute(x) < INFINITY
    far = after_many_turns(x)
    turns = int32(far >> 32) if is_far else int32(bits(shifted) - ROUNDING_BITS)
    r = from_bits(int32(far)) if is_far else after_turns(x, shifted - ROUNDING)
    turns = int32(turns + quarters)
    value = cos_reduced(r) if (turns & int32(1)) != int32(0) else sin_reduced(r)
    value = -value if (turns & int32(2)) != int32(0) else value
    return x if x == f32(0.0) and quarters == int32(0) else value  # keeps the sign of zero


@library_function(float32(float32))
def sin(x):  # type: ignore[no-untyped-def]
    """Return the sine; its argument is reduced in integer arithmetic where it is large."""
    return sin_after(x, int32(0))


@library_function(float32(float32))
def cos(x):  # type: ignore[no-untyped-def]
    """cos(x) = sin(x + pi/2), the quarter turn added to the count of turns."""
    return sin_after(x, int32(1))


@library_function(float32(float32))
def tan(x):  # type: ignore[no-untyped-def]
    """tan(x) = sin(x) / cos(x), of the remainder after whole turns."""
    shifted = fma(x, f32(0.6366197723675814), ROUNDING)
    is_far = absolute(x) >= FAR and absolute(x) < INFINITY
    far = after_many_turns(x)
    turns = int32(far >> 32) if is_far else int32(bits(shifted) - ROUNDING_BITS)
    r = from_bits(int32(far)) if is_far else after_turns(x, shifted - ROUNDING)
    s = sin_reduced(r)
    c = cos_reduced(r)
    value = -c / s if (turns & int32(1)) != int32(0) else s / c
    return x if x == f32(0.0) else value  # keeps the sign of zero


@library_function(float32(float32))
def atan_tail(s):  # type: ignore[no-untyped-def]
    """(atan(t) - t) / t**3 for s = t**2 <= 1."""
    return polynomial(
        s, (-0.3333333173, 0.1999973933, -0.1427856875, 0.1103376412, -0.0865688043, 0.06250169445,
            -0.03587153898, 0.01350777143, -0.002386997317)
    )  # fmt: skip


@library_function(float32(float32))
def asin_tail(s):  # type: ignore[no-untyped-def]
    """(asin(t) - t) / t**3 for s = t**2 <= 1/4."""
    return polynomial(s, (0.1666667241, 0.07498855073, 0.04500138007, 0.02655454221, 0.03808502356))
