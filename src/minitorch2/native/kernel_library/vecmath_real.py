"""Elementary functions with one source for float32 and float64, made of `vecmath`'s functions.

In a function's source `real` is the type of its arguments, so `real(1.0)` is a constant of it.
"""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64

from minitorch2.native.kernel_library.library import (
    call_symbol,
    for_each_float,
    library_function,
    real,
)
from minitorch2.native.kernel_library.primitives import (
    absolute,
    bits,
    copysign,
    fma,
    fused,
    polynomial,
    round_even,
    trunc,
)
from minitorch2.native.kernel_library.primitives import sqrt as square_root
from minitorch2.native.kernel_library.vecmath import (
    INFINITY,
    asin_tail,
    atan_tail,
    erf,
    exp,
    expm1,
    f32,
    log,
)
from minitorch2.native.kernel_library.vecmath_f64 import log_f64, sin_after_f64

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
    """Return the exact remainder of x / y truncated; the quotient may be rounded up by one."""
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
    """Return the angle of the point (x, y): atan(y / x) in the right quadrant."""
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
    """From 0.45 on e**(-x**2) * R(x) / (1 + 2 x), x**2 in two parts: e**x magnifies its error."""
    a = absolute(x)
    a = f32(11.0) if a > f32(11.0) else a  # beyond, it is 0
    r = polynomial(
        (a - f32(2.0)) / (a + f32(2.0)),
        (1.276978387, -0.09276381135, -0.1660303473, 0.1640505344, -0.05422092974, -0.008023975417,
            0.008729092777, 0.00121483067, -0.00147392205, -0.0003099914466, 0.0002192755201)
    )  # fmt: skip
    r = r / fma(f32(2.0), a, f32(1.0))
    square = a * a
    value = exp(-square) * fma(-fused(a, a, -square), r, r)
    value = f32(2.0) - value if x < f32(0.0) else value
    return f32(1.0) - erf(x) if a < f32(0.45) else value


@library_function(float32(float32))
def lgamma(x):  # type: ignore[no-untyped-def]
    """Compute in float64 by Stirling's series at 8 or beyond.

    Smaller arguments get there by gamma(x + 1) = x gamma(x). On the left of 1/2, gamma(x) gamma(1 -
    x) = pi / sin(pi x).
    """
    given = float64(x)
    is_left = given < 0.5
    z = 1.0 - given if is_left else given
    is_small = z < 8.0
    w = z + 8.0 if is_small else z
    between = z * (z + 1.0) * (z + 2.0) * (z + 3.0) * (z + 4.0) * (z + 5.0) * (z + 6.0) * (z + 7.0)
    between = between if is_small else 1.0
    v = 1.0 / w
    series = v * polynomial(
        v * v, (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
    )
    above = (w - 0.5) * log_f64(w) - w + (0.9189385332046728 + series)
    turned = absolute(sin_after_f64((given - round_even(given)) * 3.141592653589793, int64(0)))
    value = above - log_f64(between * (3.141592653589793 / turned) if is_left else between)
    value = -value if is_left else value
    value = 0.0 if given == 1.0 or given == 2.0 else value
    return INFINITY if absolute(x) == INFINITY else float32(value)
