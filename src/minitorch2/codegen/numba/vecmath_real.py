"""Elementary functions whose source is one for float32 and float64: what `vecmath` and
`vecmath_f64` approximate, combined.

In a function's source `real` is the type of its arguments, so `real(1.0)` is a constant of it.
"""

from __future__ import annotations

import numpy as np
from numba import float32, float64

from minitorch2.codegen.numba.library import (
    call_symbol,
    for_each_float,
    library_function,
    real,
)
from minitorch2.codegen.numba.primitives import (
    absolute,
    bits,
    copysign,
    fma,
    from_bits,
    fused,
    polynomial,
    round_even,
    trunc,
)
from minitorch2.codegen.numba.primitives import sqrt as square_root
from minitorch2.codegen.numba.vecmath import (
    INFINITY,
    NOT_A_NUMBER,
    asin_tail,
    atan_tail,
    exp,
    expm1,
    f32,
    log,
)
from minitorch2.codegen.numba.vecmath_f64 import (
    ROUNDING,
    ROUNDING_BITS,
    erfc_f64,
    log_exponent_f64,
    power_of_two_f64,
)

c_fmod = call_symbol(
    {(float32,) * 2: ("fmodf", float32(float32, float32)),
     (float64,) * 2: ("fmod", float64(float64, float64))}, 2
)  # fmt: skip
# From here on a quotient is not cut off exactly.
MANY, MANY_F64 = f32(2.0**24), 2.0**53
HALF_PI = 1.5707963267948966
HALF_PI_LOW = 6.123233995736766e-17  # what float64 leaves of pi/2


@for_each_float
def rsqrt(x):  # type: ignore[no-untyped-def]
    """1 / sqrt(x), correctly rounded twice."""
    return real(1.0) / square_root(x)


@library_function(float32(float32, float32, float32), beyond=float(MANY))
def far_fmod(ratio, x, y):  # type: ignore[no-untyped-def]
    """fmod(x, y) where the quotient has too many digits; 0 elsewhere, as vectors give."""
    return c_fmod(x, y) if ratio >= MANY else f32(0.0)


@library_function(float64(float64, float64, float64), beyond=MANY_F64)
def far_fmod_f64(ratio, x, y):  # type: ignore[no-untyped-def]
    """fmod(x, y) where the quotient has too many digits; 0 elsewhere, as vectors give."""
    return c_fmod(x, y) if ratio >= MANY_F64 else 0.0


@for_each_float
def fmod(x, y):  # type: ignore[no-untyped-def]
    """What x / y, cut off, leaves, exactly; the quotient may be rounded up to the next integer."""
    a = absolute(x)
    b = absolute(y)
    ratio = a / b
    far = far_fmod(ratio, x, y)
    rest = fused(-trunc(ratio), b, a)
    rest = rest + b if rest < real(0.0) else rest
    rest = a if a < b else rest  # b may be infinite
    return far if ratio + real(1.0) == ratio else copysign(rest, x)


@for_each_float
def log1p(x):  # type: ignore[no-untyped-def]
    """log(1 + x) = log(u) + (x - (u - 1)) / u, where u = 1 + x rounded."""
    u = real(1.0) + x
    value = log(u) + (x - (u - real(1.0))) / u
    value = u if u == real(np.inf) else value
    value = real(-np.inf) if x == real(-1.0) else value
    return x if x == real(0.0) else value


@for_each_float
def tanh(x):  # type: ignore[no-untyped-def]
    """(e**2x - 1) / (e**2x + 1), on the positive side; beyond 20 it is 1."""
    a = absolute(x)
    t = expm1(real(40.0) if a > real(20.0) else a + a)
    return copysign(t / (t + real(2.0)), x)


@for_each_float
def sigmoid(x):  # type: ignore[no-untyped-def]
    """1 / (1 + e**-x), or e**x / (1 + e**x) below zero, where e**-x could overflow."""
    e = exp(-absolute(x))
    return (e if x < real(0.0) else real(1.0)) / (real(1.0) + e)


@for_each_float
def half_exp(a):  # type: ignore[no-untyped-def]
    """e**a / 2, which overflows later than e**a."""
    root = exp(a * real(0.5))
    return (root * real(0.5)) * root


@for_each_float
def sinh(x):  # type: ignore[no-untyped-def]
    """(e**x - e**-x) / 2, on the positive side: of t = e**x - 1, (t + t / (t + 1)) / 2."""
    a = absolute(x)
    t = expm1(real(40.0) if a > real(40.0) else a)
    near = real(0.5) * (t + t / (t + real(1.0)))
    return copysign(half_exp(a) if a > real(40.0) else near, x)


@for_each_float
def cosh(x):  # type: ignore[no-untyped-def]
    """(e**x + e**-x) / 2"""
    half = half_exp(absolute(x))
    return half + real(0.25) / half


@for_each_float
def asinh(x):  # type: ignore[no-untyped-def]
    """log(x + sqrt(x**2 + 1)) on the positive side; log(2 x) where x**2 could overflow."""
    a = absolute(x)
    is_large = a > real(1e18)
    square = real(0.0) if is_large else a * a
    near = a + square / (real(1.0) + square_root(square + real(1.0)))
    value = log1p(near)
    return copysign(value + real(0.6931471805599453) if is_large else value, x)


@for_each_float
def acosh(x):  # type: ignore[no-untyped-def]
    """log(x + sqrt(x**2 - 1)), by t = x - 1; log(2 x) where x**2 could overflow."""
    is_large = x > real(1e18)
    t = x - real(1.0)
    value = log1p(x if is_large else t + square_root(t * t + (t + t)))
    value = value + real(0.6931471805599453) if is_large else value
    return value if x >= real(1.0) else real(np.nan)


@for_each_float
def atanh(x):  # type: ignore[no-untyped-def]
    """log((1 + x) / (1 - x)) / 2, on the positive side."""
    a = absolute(x)
    value = real(0.5) * log1p((a + a) / (real(1.0) - a))
    return copysign(value, x)


@for_each_float
def from_half_pi(r):  # type: ignore[no-untyped-def]
    """pi/2 - r, pi/2 in two parts."""
    high = real(HALF_PI)
    low = real(HALF_PI - float64(high) + HALF_PI_LOW)
    return (high - r) + low


@for_each_float
def atan(x):  # type: ignore[no-untyped-def]
    """On the positive side, up to 1 a polynomial, from there pi/2 - atan(1 / x)."""
    a = absolute(x)
    t = real(1.0) / a if a > real(1.0) else a
    s = t * t
    r = fma(t * s, atan_tail(s), t)
    return copysign(from_half_pi(r) if a > real(1.0) else r, x)


@for_each_float
def atan2(y, x):  # type: ignore[no-untyped-def]
    """The angle of the point (x, y): atan(y / x) in the right quadrant."""
    a = absolute(y)
    b = absolute(x)
    is_steep = a > b
    low = b if is_steep else a
    high = a if is_steep else b
    t = real(0.0) if high == real(0.0) else low / high
    t = real(1.0) if low == real(np.inf) else t
    s = t * t
    r = fma(t * s, atan_tail(s), t)
    r = from_half_pi(r) if is_steep else r
    r = real(2.0) * from_half_pi(real(0.5) * r) if bits(x) < 0 else r
    return copysign(r, y) if x == x and y == y else real(np.nan)


@for_each_float
def asin(x):  # type: ignore[no-untyped-def]
    """Up to 1/2 a polynomial, from there pi/2 - 2 asin(sqrt((1 - x) / 2))."""
    a = absolute(x)
    is_large = a > real(0.5)
    s = real(0.5) * (real(1.0) - a) if is_large else a * a
    t = square_root(s) if is_large else a
    r = fma(t * s, asin_tail(s), t)
    return copysign(from_half_pi(r + r) if is_large else r, x)


@for_each_float
def acos(x):  # type: ignore[no-untyped-def]
    """pi/2 - asin(x), without cancellation: 2 asin(sqrt((1 - x) / 2)) near 1."""
    a = absolute(x)
    is_large = a > real(0.5)
    s = real(0.5) * (real(1.0) - a) if is_large else a * a
    t = square_root(s) if is_large else a
    r = fma(t * s, asin_tail(s), t)
    near = from_half_pi(copysign(r, x))
    far = real(2.0) * from_half_pi(r) if x < real(0.0) else r + r
    return far if is_large else near


@library_function(float32(float32))
def erfc(x):  # type: ignore[no-untyped-def]
    """1 - erf(x) without cancellation, in float64."""
    return float32(erfc_f64(float64(x)))


@library_function(float64(float32))
def log2_of_size(x):  # type: ignore[no-untyped-def]
    """log2|x| of a finite x that is not 0, to 37 bits: all that a float32's power needs."""
    a = float64(absolute(x))
    e = log_exponent_f64(a)
    f = from_bits(bits(a) - (e << 52)) - 1.0
    s = f / (2.0 + f)
    tail = polynomial(
        s * s, (2.8853900817900864, 0.9617966733417975, 0.5770835849651513, 0.4116727189977767,
                0.34073010658534336)
    )  # fmt: skip
    return fma(s, tail, float64(e))


@library_function(float32(float64))
def exp2_to_float32(x):  # type: ignore[no-untyped-def]
    """2**x, rounded (and overflown, and underflown) once."""
    x = 160.0 if x > 160.0 else x
    x = -160.0 if x < -160.0 else x
    shifted = x + ROUNDING
    value = polynomial(
        x - (shifted - ROUNDING),
        (1.0000000005542113, 0.6931472057366993, 0.2402264688962273, 0.05550328777451203,
            0.009618489062444849, 0.0013399931173091366, 0.00015345786147305806)
    )  # fmt: skip
    return float32(value * power_of_two_f64(bits(shifted) - ROUNDING_BITS))


@library_function(float32(float32, float32))
def pow(x, y):  # type: ignore[no-untyped-def]
    """x**y = 2**(y * log2|x|) in float64, then the C standard's special cases."""
    size = absolute(x)
    value = exp2_to_float32(float64(y) * log2_of_size(x))
    limit = INFINITY if (x == f32(0.0)) == (y < f32(0.0)) else f32(0.0)
    value = limit if x == f32(0.0) or size == INFINITY else value
    is_whole = round_even(y) == y
    half = y * f32(0.5)
    value = -value if bits(x) < 0 and is_whole and round_even(half) != half else value
    is_root_of_negative = x < f32(0.0) and size != INFINITY and not is_whole
    value = value if x == x and y == y and not is_root_of_negative else NOT_A_NUMBER
    is_one = x == f32(1.0) or y == f32(0.0) or (size == f32(1.0) and absolute(y) == INFINITY)
    return f32(1.0) if is_one else value
