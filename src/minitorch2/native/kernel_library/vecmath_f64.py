"""Elementary functions of float64, by the methods of `vecmath`, with longer polynomials.

Sines of huge arguments, which few programs ask for, are those of the C library (`seldom`).
"""

from __future__ import annotations

from numba import float64, int64

from minitorch2.native.kernel_library.library import call_symbol, library_function
from minitorch2.native.kernel_library.primitives import (
    absolute,
    bits,
    copysign,
    fma,
    from_bits,
    polynomial,
)
from minitorch2.native.kernel_library.vecmath import log_edges

LN2_HIGH = 0.6931471803691238
LN2_LOW = 1.9082149292705877e-10
LOG2_E = 1.4426950408889634
# Adding 1.5 * 2**52 rounds a float64 to an integer and leaves that integer in the low bits.
ROUNDING = 6755399441055744.0
ROUNDING_BITS = 0x4338000000000000
SMALLEST_NORMAL = 2.2250738585072014e-308
# pi/2 in three parts. Below `FAR` the product of the first with a count of quarter turns is within
# 73 bits, and what is left of the argument within 53, so a fused multiplication loses nothing.
HALF_PI_HIGH = 1.5707963267948966
HALF_PI_MIDDLE = 6.123233995736766e-17
HALF_PI_LOW = -1.4973849048591698e-33
FAR = 1048576.0

_of_c = {
    name: call_symbol({(float64,): (name, float64(float64))}, 1) for name in ("sin", "cos", "tan")
}
c_sin, c_cos, c_tan = _of_c["sin"], _of_c["cos"], _of_c["tan"]


@library_function(float64(int64))
def power_of_two_f64(exponent):  # type: ignore[no-untyped-def]
    """2**exponent for an int64 in -1022..1023."""
    return from_bits((exponent + 1023) << 52)


@library_function(float64(float64))
def expm1_reduced_f64(r):  # type: ignore[no-untyped-def]
    """exp(r) - 1 for |r| <= ln(2)/2."""
    tail = polynomial(
        r, (1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040, 1 / 40320, 1 / 362880, 1 / 3628800,
            1 / 39916800, 1 / 479001600, 1 / 6227020800)
    )  # fmt: skip
    return fma(r * r, tail, r)


@library_function(float64(float64))
def exp_f64(x):  # type: ignore[no-untyped-def]
    """e**x."""
    x = 710.0 if x > 710.0 else x
    x = -746.0 if x < -746.0 else x
    shifted = fma(x, LOG2_E, ROUNDING)
    n = shifted - ROUNDING
    value = expm1_reduced_f64(fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))) + 1.0
    whole = bits(shifted) - ROUNDING_BITS
    half = whole >> 1
    return value * power_of_two_f64(half) * power_of_two_f64(whole - half)


@library_function(float64(float64))
def expm1_f64(x):  # type: ignore[no-untyped-def]
    """e**x - 1."""
    clamped = 710.0 if x > 710.0 else x
    clamped = -40.0 if clamped < -40.0 else clamped
    shifted = fma(clamped, LOG2_E, ROUNDING)
    n = shifted - ROUNDING
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, clamped))
    scale = power_of_two_f64(bits(shifted) - ROUNDING_BITS - 1)
    value = 2.0 * fma(scale, expm1_reduced_f64(r), scale - 0.5)
    return x if x == 0.0 else value  # keeps the sign of zero


@library_function(float64(float64))
def exp2_f64(x):  # type: ignore[no-untyped-def]
    """2**x."""
    x = 1025.0 if x > 1025.0 else x
    x = -1076.0 if x < -1076.0 else x
    shifted = x + ROUNDING
    value = expm1_reduced_f64((x - (shifted - ROUNDING)) * 0.6931471805599453) + 1.0
    whole = bits(shifted) - ROUNDING_BITS
    half = whole >> 1
    return value * power_of_two_f64(half) * power_of_two_f64(whole - half)


@library_function(int64(float64))
def log_exponent_f64(x):  # type: ignore[no-untyped-def]
    """Return the e of x = 2**e * (1 + f), sqrt(1/2) <= 1 + f <= sqrt(2), for a normal x."""
    return (bits(x) - 0x3FE6A09E667F3BCD) >> 52


@library_function(float64(float64))
def log_rest_f64(f):  # type: ignore[no-untyped-def]
    """f - log(1 + f): log(1 + f) = 2 * artanh(s) with s = f / (2 + f)."""
    s = f / (2.0 + f)
    z = s * s
    tail = z * polynomial(
        z, (2 / 3, 2 / 5, 2 / 7, 2 / 9, 2 / 11, 2 / 13, 2 / 15, 2 / 17, 2 / 19, 2 / 21)
    )
    square = 0.5 * f * f
    return square - s * (square + tail)


@library_function(float64(float64))
def log_f64(x):  # type: ignore[no-untyped-def]
    """log(2**e * (1 + f)) = e * ln 2 + log(1 + f)."""
    tiny = x < SMALLEST_NORMAL
    normal = x * 4503599627370496.0 if tiny else x
    e = log_exponent_f64(normal)
    f = from_bits(bits(normal) - (e << 52)) - 1.0
    exponent = float64(e) - (52.0 if tiny else 0.0)
    rest = log_rest_f64(f) - exponent * LN2_LOW
    return log_edges(x, fma(exponent, LN2_HIGH, f - rest))


@library_function(float64(float64))
def log2_f64(x):  # type: ignore[no-untyped-def]
    """e + log(1 + f) / ln 2; exact at powers of two."""
    tiny = x < SMALLEST_NORMAL
    normal = x * 4503599627370496.0 if tiny else x
    e = log_exponent_f64(normal)
    f = from_bits(bits(normal) - (e << 52)) - 1.0
    exponent = float64(e) - (52.0 if tiny else 0.0)
    return log_edges(x, fma(f - log_rest_f64(f), LOG2_E, exponent))


@library_function(float64(float64))
def log10_f64(x):  # type: ignore[no-untyped-def]
    """log(x) / ln 10, the constant in two parts."""
    natural = log_f64(x)
    return fma(natural, 0.4342944819032518, natural * 1.098319650216765e-17)


@library_function(float64(float64))
def erf_f64(x):  # type: ignore[no-untyped-def]
    """x + x * P(x**2) up to 5/4, from there 1 - Q(|x|)**16, where Q is a root of erfc."""
    s = x * x
    p = polynomial(
        s, (0.1283791670955126, -0.3761263890318372, 0.11283791670953926, -0.026866170644938736,
            0.005223977623829034, -0.0008548326942370993, 0.00012055330337207415,
            -1.492559167673822e-05, 1.6461204029859037e-06, -1.6355847950757926e-07,
            1.4729553160844711e-08, -1.1870684279377057e-09, 7.896410793771548e-11,
            -3.2205828893757173e-12)
    )  # fmt: skip
    a = absolute(x)
    t = 5.95 if a > 5.95 else a  # beyond, it is 1
    q = polynomial(
        (t - 3.6) / 2.35,
        (0.39532581659141586, -0.4331305361982744, 0.1051556344057708, 0.0565307330115632,
            -0.031161818746269505, -0.0017460970841187715, 0.0040921451443832555,
            -0.0005352188065557538, -0.0002486555983924248, 6.000700093872676e-05,
            1.3482878094616795e-05, -5.592404092728308e-06, -2.918900700525717e-07,
            4.1479534679877763e-07, -8.637893512223948e-08, 2.3858205058078604e-08,
            -1.4322841727887552e-08, 6.356399385931139e-09, -1.973831208731581e-09,
            4.0307823598587766e-10, 1.2994630428604826e-11, -4.953022256639661e-11,
            3.543549046877569e-11, -3.701612754765316e-11, 2.323533564176211e-11,
            -5.382448447768196e-12)
    )  # fmt: skip
    q = q * q
    q = q * q
    q = q * q
    return fma(x, p, x) if a < 1.25 else copysign(fma(-q, q, 1.0), x)


@library_function(float64(float64))
def erfc_f64(x):  # type: ignore[no-untyped-def]
    """From 1/2 e**(-x**2) * R(x) / (1 + 2 x), x**2 in two parts, as e**x magnifies its error."""
    a = absolute(x)
    a = 28.0 if a > 28.0 else a  # beyond, it is 0
    r = polynomial(
        (a - 4.0) / (a + 4.0),
        (1.2329951186255526, -0.13962111684056253, 0.015379652102620111, 0.06809705425469303,
            -0.10103906603632955, 0.09373283499833329, -0.06633036581154421,
            0.03716751553787908, -0.016197734067039865, 0.005031969972225688,
            -0.0007577732147971718, -0.00019925664291065565, 0.00015062131217624512,
            -2.4399505458525544e-05, -1.1220902504340601e-05, 5.710769473216913e-06,
            2.916445562939141e-07, -8.277591913537945e-07, 7.703495881102781e-08,
            1.1328048304274549e-07, -1.9106294487779176e-08, -1.660879467182853e-08,
            1.6868082625932292e-09, 2.1031095817570338e-09, 2.9111659955327447e-10)
    )  # fmt: skip
    r = r / (1.0 + 2.0 * a)
    square = a * a
    value = exp_f64(-square) * fma(-fma(a, a, -square), r, r)
    value = 2.0 - value if x < 0.0 else value
    return 1.0 - erf_f64(x) if a < 0.5 else value


@library_function(float64(float64), beyond=FAR)
def far_sin_f64(x):  # type: ignore[no-untyped-def]
    """sin(x) for |x| >= 2**20."""
    return c_sin(x)


@library_function(float64(float64), beyond=FAR)
def far_cos_f64(x):  # type: ignore[no-untyped-def]
    """cos(x) for |x| >= 2**20."""
    return c_cos(x)


@library_function(float64(float64), beyond=FAR)
def far_tan_f64(x):  # type: ignore[no-untyped-def]
    """tan(x) for |x| >= 2**20."""
    return c_tan(x)


@library_function(float64(float64))
def quarter_turns_f64(x):  # type: ignore[no-untyped-def]
    """Return the quotient of x by pi/2, in the low bits of a number around 1.5 * 2**52."""
    return fma(x, 0.6366197723675814, ROUNDING)


@library_function(float64(float64, float64))
def after_turns_f64(x, n):  # type: ignore[no-untyped-def]
    """x - n * pi/2."""
    return fma(n, -HALF_PI_LOW, fma(n, -HALF_PI_MIDDLE, fma(n, -HALF_PI_HIGH, x)))


@library_function(float64(float64))
def sin_reduced_f64(r):  # type: ignore[no-untyped-def]
    """sin(r) for |r| <= pi/4."""
    s = r * r
    tail = polynomial(
        s, (-0.16666666666666666, 0.00833333333333094, -0.0001984126983674298,
            2.755731609430797e-06, -2.505113010180549e-08, 1.5918002281872834e-10)
    )  # fmt: skip
    return fma(r * s, tail, r)


@library_function(float64(float64))
def cos_reduced_f64(r):  # type: ignore[no-untyped-def]
    """cos(r) for |r| <= pi/4."""
    s = r * r
    tail = polynomial(
        s, (0.041666666666666664, -0.001388888888888739, 2.4801587298755762e-05,
            -2.7557317266494944e-07, 2.0876145163581403e-09, -1.1382552040954918e-11)
    )  # fmt: skip
    return fma(s * s, tail, fma(s, -0.5, 1.0))


@library_function(float64(float64, int64))
def sin_after_f64(x, quarters):  # type: ignore[no-untyped-def]
    """sin(x + quarters * pi/2) for |x| < 2**20."""
    shifted = quarter_turns_f64(x)
    r = after_turns_f64(x, shifted - ROUNDING)
    turns = bits(shifted) + quarters
    value = cos_reduced_f64(r) if (turns & 1) != 0 else sin_reduced_f64(r)
    return -value if (turns & 2) != 0 else value


@library_function(float64(float64))
def sin_f64(x):  # type: ignore[no-untyped-def]
    """Return the sine."""
    far = far_sin_f64(x)
    value = sin_after_f64(x, int64(0))
    value = far if absolute(x) >= FAR else value
    return x if x == 0.0 else value  # keeps the sign of zero


@library_function(float64(float64))
def cos_f64(x):  # type: ignore[no-untyped-def]
    """cos(x) = sin(x + pi/2), the quarter turn added to the count of turns."""
    far = far_cos_f64(x)
    return far if absolute(x) >= FAR else sin_after_f64(x, int64(1))


@library_function(float64(float64))
def tan_f64(x):  # type: ignore[no-untyped-def]
    """tan(x) = sin(x) / cos(x), of the remainder after whole turns."""
    far = far_tan_f64(x)
    shifted = quarter_turns_f64(x)
    r = after_turns_f64(x, shifted - ROUNDING)
    s = sin_reduced_f64(r)
    c = cos_reduced_f64(r)
    value = -c / s if (bits(shifted) & 1) != 0 else s / c
    value = far if absolute(x) >= FAR else value
    return x if x == 0.0 else value  # keeps the sign of zero


@library_function(float64(float64))
def atan_tail_f64(s):  # type: ignore[no-untyped-def]
    """(atan(t) - t) / t**3 for s = t**2 <= 1."""
    return polynomial(
        s, (-0.3333333333333333, 0.1999999999999753, -0.14285714285384132, 0.11111111093490827,
            -0.09090908590891934, 0.07692298971033217, -0.06666564699289104,
            0.05881506877793656, -0.052579733342841106, 0.04737749579527779,
            -0.04260356632601652, 0.03749486812535247, -0.031277189066996385,
            0.023696731580048622, -0.015535152475414177, 0.008368931178450162,
            -0.0034958859739163094, 0.0010496035084968515, -0.00019996189377901382,
            1.806195461861215e-05)
    )  # fmt: skip


@library_function(float64(float64))
def asin_tail_f64(s):  # type: ignore[no-untyped-def]
    """(asin(t) - t) / t**3 for s = t**2 <= 1/4."""
    return polynomial(
        s, (0.1666666666666665, 0.07500000000020764, 0.044642857103423646, 0.03038194736709848,
            0.02237204763174451, 0.017355259955786323, 0.013929652902326633,
            0.011875494382636922, 0.0078029494773533175, 0.01603551434914882,
            -0.010749050339697808, 0.028169218060881414)
    )  # fmt: skip
