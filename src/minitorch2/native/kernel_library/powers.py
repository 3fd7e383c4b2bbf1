"""Powers: x**y = 2**(y * log2|x|), with more digits of the logarithm than the result has.

A power of float32 is computed in float64. For a power of float64, each number is a sum of two: the
second one is the rounding error of the first.
"""

from __future__ import annotations

import numpy as np
from numba import float32, float64

from minitorch2.native.kernel_library.library import for_each_float, library_function, real
from minitorch2.native.kernel_library.primitives import (
    absolute,
    bits,
    copysign,
    fma,
    from_bits,
    fused,
    polynomial,
    round_even,
)
from minitorch2.native.kernel_library.vecmath_f64 import (
    ROUNDING,
    ROUNDING_BITS,
    SMALLEST_NORMAL,
    expm1_reduced_f64,
    log_exponent_f64,
    power_of_two_f64,
)

THIRD, THIRD_LOW = 0.3333333333333333, 1.850371707708594e-17
TWO_LOG2_E, TWO_LOG2_E_LOW = 2.8853900817779268, 4.0710547481862066e-17
LARGEST_EXPONENT = 1100.0
"""Beyond, a power of two is infinite or 0."""


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


@for_each_float
def power_edges(x, y, value):  # type: ignore[no-untyped-def]
    """Return the C standard's special cases of x**y; elsewhere `value`, with its sign."""
    size = absolute(x)
    inf = real(np.inf)
    limit = inf if (x == real(0.0)) == (y < real(0.0)) else real(0.0)
    value = limit if x == real(0.0) or size == inf else value
    is_whole = round_even(y) == y
    half = y * real(0.5)
    value = -value if bits(x) < 0 and is_whole and round_even(half) != half else value
    is_root_of_negative = x < real(0.0) and size != inf and not is_whole
    value = value if x == x and y == y and not is_root_of_negative else real(np.nan)
    is_one = x == real(1.0) or y == real(0.0) or (size == real(1.0) and absolute(y) == inf)
    return real(1.0) if is_one else value


@library_function(float32(float32, float32))
def pow(x, y):  # type: ignore[no-untyped-def]
    """x**y."""
    return power_edges(x, y, exp2_to_float32(float64(y) * log2_of_size(x)))


@library_function(float64(float64, float64))
def pow_f64(x, y):  # type: ignore[no-untyped-def]
    """x**y. With |x| = 2**e * m and s = (m - 1) / (m + 1), log2 m = 2 / ln 2 * artanh(s)."""
    size = absolute(x)
    tiny = size < SMALLEST_NORMAL
    normal = size * 4503599627370496.0 if tiny else size
    e = log_exponent_f64(normal)
    m = from_bits(bits(normal) - (e << 52))
    exponent = float64(e) - (52.0 if tiny else 0.0)
    below = m + 1.0
    inverse = 1.0 / below
    s = (m - 1.0) * inverse
    s_low = (fused(-s, below, m - 1.0) - s * (m - (below - 1.0))) * inverse
    z = s * s
    z_low = fma(2.0 * s, s_low, fused(s, s, -z))
    # artanh(s) = s + s * u, where u = z / 3 + z**2 / 5 + ...
    tail = z * polynomial(
        z, (0.2, 0.1428571428571469, 0.1111111111082441, 0.09090909168496285, 0.07692297395881176,
            0.06667406985646002, 0.058529940782504536, 0.05862885610905572)
    )  # fmt: skip
    t = THIRD + tail
    t_low = (THIRD - t) + tail + THIRD_LOW
    u = z * t
    u_low = fma(z_low, t, fma(z, t_low, fused(z, t, -u)))
    v = s * u
    v_low = fma(s_low, u, fma(s, u_low, fused(s, u, -v)))
    w = s + v
    w_low = (s - w) + v + (s_low + v_low)
    part = TWO_LOG2_E * w
    part_low = fma(TWO_LOG2_E_LOW, w, fma(TWO_LOG2_E, w_low, fused(TWO_LOG2_E, w, -part)))
    log2 = exponent + part
    log2_low = (exponent - log2) + part + part_low
    power = y * log2
    is_far = absolute(power) > LARGEST_EXPONENT
    power_low = 0.0 if is_far else fma(y, log2_low, fused(y, log2, -power))
    power = copysign(LARGEST_EXPONENT, power) if is_far else power
    shifted = power + ROUNDING
    rest = (power - (shifted - ROUNDING)) + power_low
    value = expm1_reduced_f64(rest * 0.6931471805599453) + 1.0
    whole = bits(shifted) - ROUNDING_BITS
    half = whole >> 1
    return power_edges(x, y, value * power_of_two_f64(half) * power_of_two_f64(whole - half))
