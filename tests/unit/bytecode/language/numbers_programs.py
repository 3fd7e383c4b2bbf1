"""Numbers: int, float, complex, math, fractions, decimals, statistics."""

import cmath
import decimal
import fractions
import math
import random
import statistics

from tests.unit.bytecode.language import program


@program
def integers(x):
    n = 37
    return (
        x + n,
        n.bit_length(),
        n // 5,
        -n // 5,
        n % -5,
        divmod(n, 5),
        n << 2,
        ~n,
        n ^ 3,
        pow(n, 3, 7),
        n.real,
    )


@program
def floats(x):
    f = 2.75
    return (
        x * f,
        f.is_integer(),
        f.as_integer_ratio(),
        round(f),
        round(f, 1),
        int(f),
        float.fromhex("0x1p3"),
        f // 1,
    )


@program
def complex_numbers(x):
    c = 1 + 2j
    return (
        x + c.real,
        c.conjugate(),
        abs(3 + 4j),
        c * 2,
        complex("1j"),
        c == 1 + 2j,
        complex(1, 2).imag,
    )


@program
def math_functions(x):
    return x + math.sqrt(2), [
        math.sin(1), math.gcd(4, 6), math.factorial(5), math.comb(5, 2), math.isclose(1, 1 + 1e-12), math.hypot(3, 4),
        math.log(8, 2), math.log2(8), math.inf, math.isnan(math.nan), math.copysign(1, -0.0), math.prod([2, 3]),
        math.fsum([0.1] * 3), math.trunc(2.5), math.ceil(2.1), math.floor(-2.1), math.fmod(5, 3), math.modf(2.5),
        math.frexp(8), math.ldexp(1, 3), math.degrees(math.pi), math.atan2(1, 1), math.exp(1), math.isqrt(10), math.dist([0], [1]),
    ]  # fmt: skip


@program
def math_of_sizes(x):
    n = x.shape[0]
    return (
        x * math.sqrt(n),
        math.ceil(n / 2),
        math.log(x.shape[1]),
        math.floor(n / 2),
        math.prod(x.shape),
    )


@program
def complex_math(x):
    return x + cmath.sqrt(-1).imag, cmath.phase(1j), cmath.polar(1 + 1j), cmath.exp(0)


@program
def exact_fractions(x):
    f = fractions.Fraction(1, 3) + fractions.Fraction("1/6")
    return x * float(f), f.numerator, f.denominator, f == fractions.Fraction(1, 2), str(f), f < 1


@program
def decimals(x):
    d = decimal.Decimal("0.1") + decimal.Decimal("0.2")
    return x * float(d), str(d), d == decimal.Decimal("0.3"), d.quantize(decimal.Decimal("1.00"))


@program
def statistics_of_constants(x):
    values = [1.0, 2.0, 4.0]
    return (
        x + statistics.mean(values),
        statistics.median(values),
        statistics.stdev(values),
        statistics.mode([1, 1, 2]),
    )


@program
def bools(x):
    return (
        x + True,
        True + True,
        isinstance(True, int),
        bool([]),
        True & False,
        not 0,
        bool("a"),
        sum([True, False]),
    )


@program
def conversions(x):
    return (
        x + int("12"),
        float("inf"),
        int(2.9),
        str(3),
        list("ab"),
        tuple([1]),
        set("aa"),
        bool(0.0),
        complex(2),
        ord("A"),
    )


@program
def division_by_zero(x):
    try:
        1 / 0
    except ZeroDivisionError as error:
        return x + 1, str(error)


@program
def big_integers(x):
    n = 2**100
    return x + (n % 7), n.bit_length(), str(n)[:5], int(str(n)) == n


@program
def seeded_random(x):
    r = random.Random(3)
    return x + r.random(), r.randint(1, 10)


@program
def sizes_in_arithmetic(x):
    a, b = x.shape
    return (
        x * (a + b) / 2,
        a * b,
        a // 2,
        a % 2,
        -a,
        a == 3,
        a > b,
        max(a, b),
        min(a, 7),
        abs(-a),
        divmod(a, 2),
    )


@program
def number_protocols(x):
    n = x.shape[0]
    return (
        x + n,
        isinstance(n, int),
        n.bit_length(),
        int(n),
        float(n),
        bool(n),
        hash(n) == hash(int(n)),
        [1, 2, 3, 4, 5, 6, 7][n - 1],
    )
