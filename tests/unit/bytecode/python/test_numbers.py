"""Numbers: operators, methods, conversions, `math`, `operator`."""

# The programs under test are written in every style.
# ruff: noqa

from __future__ import annotations

import cmath
import math
import operator
import statistics
from fractions import Fraction
from typing import Any

import pytest
import torch

from tests.unit.bytecode.python.programs import Case, X, case, expressions

TABLE: list[Any] = []

expressions(
    TABLE,
    """
    i + f, i - f, i * f, i / 2, i // 2, i % 4, -i % 4, i ** 2, 2 ** -i, f // 1, f % 1, -f // 1
    i & 3, i | 8, i ^ 5, ~i, i << 2, i >> 1, -i >> 1
    i < f < 10, i == 7.0, i != 7, True + i, not i, i and f, 0 or f
    i.bit_length(), i.bit_count(), (-i).to_bytes(2, "big", signed=True), int.from_bytes(b"ab", "little")
    i.as_integer_ratio(), i.numerator, i.denominator, i.real, i.imag, i.conjugate()
    f.is_integer(), f.as_integer_ratio(), f.hex(), float.fromhex("0x1.8p1"), (2.0).is_integer()
    c.real, c.imag, c.conjugate(), abs(c), c * c, c ** 2, c == complex(1, 2), -c
    int("12"), int("ff", 16), int(2.7), int(-2.7), int(True), int(), int("0b11", 0), int("1_000")
    float("1e3"), float("inf"), float("-nan") != float("nan"), float(i), float()
    complex("1+2j"), complex(1.5), complex(1, i), bool(i), bool(""), bool()
    round(f), round(2.675, 2), round(1234, -2), round(-0.5), round(1.5), round(f, None)
    divmod(i, 3), divmod(-i, 3), divmod(f, 0.7), pow(i, 3), pow(i, -1, 11), pow(2, 10, 1000)
    abs(-i), abs(-f), bin(i), oct(i), hex(255), chr(97), ord("a"), hash(i), hash(f)
    max(i, f), min(i, f, -1), max([3, 1]), min((), default=4), max("abc", key=lambda s: -ord(s))
    sum([1, 2, 3]), sum([0.1] * 10), sum([[1], [2]], []), sum((), 5), sum([1, 2], start=10)
    math.pi, math.tau, math.inf, math.isnan(math.nan), math.isinf(-math.inf), math.isfinite(f)
    math.sqrt(16), math.exp(1), math.log(8, 2), math.log2(8), math.log10(100), math.log1p(0.5)
    math.floor(f), math.ceil(f), math.trunc(-f), math.fabs(-3), math.fmod(7, 3), math.modf(2.5)
    math.sin(f), math.cos(f), math.tan(f), math.atan2(1, 2), math.hypot(3, 4), math.degrees(1)
    math.gcd(12, 18), math.lcm(4, 6), math.factorial(5), math.comb(5, 2), math.perm(5, 2)
    math.prod([1, 2, 3]), math.fsum([0.1] * 10), math.dist([0, 0], [3, 4]), math.isqrt(17)
    math.copysign(1, -2), math.frexp(8), math.ldexp(0.5, 3), math.isclose(0.1 + 0.2, 0.3)
    math.nextafter(1.0, 2.0), math.ulp(1.0), math.remainder(7, 4), math.erf(0.5), math.gamma(5)
    cmath.sqrt(-1), cmath.phase(c), cmath.polar(c), cmath.exp(c)
    operator.add(i, 1), operator.mul(2, f), operator.neg(i), operator.truediv(1, 4)
    operator.itemgetter(1)([5, 6]), operator.itemgetter(0, 2)("abc"), operator.attrgetter("real")(i)
    operator.attrgetter("real", "imag")(c), operator.attrgetter("real.imag")(i)
    operator.methodcaller("upper")("ab"), operator.methodcaller("split", sep=",")("a,b")
    operator.concat([1], [2]), operator.countOf([1, 2, 1], 1), operator.indexOf([1, 2], 2)
    operator.iadd([1], [2]), operator.contains("abc", "b"), operator.truth([]), operator.not_(0)
    operator.is_(None, None), operator.is_not(i, None), operator.lt(1, 2), operator.index(True)
    operator.matmul(x, x), operator.getitem([1, 2], 0), operator.length_hint([1, 2], 3), operator.xor(5, 3)
    (0.1).__add__(0.2), (7).__rsub__(10), (7).__floordiv__(2), (7).__eq__(7.0), (7).__lt__("a")
    int.__add__(1, 2), float.__mul__(2.0, 3.0), int.bit_length(255), complex.conjugate(c)
    i if f > 2 else -i, 1 < i < 10 != 3, i in (1, 7), (lambda: i)(), [i, f][i > 3]
    isinstance(i, int), isinstance(True, int), isinstance(f, (int, float)), type(i) is int
    issubclass(bool, int), callable(abs), callable(i), type(f).__name__, int.__name__
    x * i, x * True, f - x, x ** 2, i @ x if False else 0
    statistics.mean([1, 2, 3])
    Fraction(1, 3) + Fraction(1, 6)  # breaks=any
    """,
    {"math": math, "cmath": cmath, "operator": operator, "statistics": statistics, "Fraction": Fraction},
    i=7,
    f=2.5,
    c=1 + 2j,
)  # fmt: skip


@case(TABLE)
def arithmetic_in_a_loop(x: torch.Tensor) -> Any:
    total, product = 0, 1.0
    for k in range(1, 6):
        total += k
        product *= k / 2
        total -= k % 2
    return x * total, product, total


@case(TABLE)
def divisions_by_zero(x: torch.Tensor) -> Any:
    found = []
    for operation in (lambda: 1 / 0, lambda: 1 // 0, lambda: 1 % 0, lambda: 0.0**-1):
        try:
            operation()
        except ZeroDivisionError as error:
            found.append(str(error))
    return x + 1, found


@case(TABLE)
def wrong_types(x: torch.Tensor) -> Any:
    found = []
    for operation in (
        lambda: 1 + "a",
        lambda: "a" + 1,
        lambda: [] + (),
        lambda: -"a",
        lambda: 1 < "a",
        lambda: int("x"),
        lambda: int([]),
        lambda: float("y"),
        lambda: len(5),
        lambda: 5[0],
        lambda: math.sqrt(-1),
        lambda: chr(-1),
        lambda: round("a"),
        lambda: abs("a"),
        lambda: {} < {},
        lambda: [] < (),
        lambda: None + 1,
        lambda: 3 @ 4,
        lambda: [1, 2]["a"],
        lambda: (1,)["a"],
        lambda: "ab"["a"],
        lambda: {}[[]],
        lambda: {[]},
        lambda: next(5),
        lambda: iter(5),
        lambda: sum(["a"]),
        lambda: max([]),
        lambda: sorted([1, "a"]),
        lambda: hash([]),
        lambda: (5).nothing,
        lambda: [].nothing,
        lambda: {}.nothing,
        lambda: "".nothing,
    ):
        try:
            operation()
            found.append("no error")
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return x + 1, found


@case(TABLE, X, 3)
def integer_argument(x: torch.Tensor, n: int) -> Any:
    return x.reshape(n - 1, -1) * n, n**2, f"{n:03d}"


@case(TABLE, X, 3, 0.5)
def in_place_operators(x: torch.Tensor, n: int, rate: float) -> Any:
    n += 1
    n -= 3
    n *= 10
    n //= 3
    n **= 2
    n %= 7
    n <<= 3
    n >>= 1
    n |= 3
    n &= 6
    n ^= 1
    rate /= 4
    return x * n, n, rate


@pytest.mark.parametrize("program", TABLE)
def test_numbers(program: Case) -> None:
    program.run()
