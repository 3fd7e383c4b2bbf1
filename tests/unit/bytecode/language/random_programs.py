"""Generators of random numbers that the program seeds, and statistics."""

import random
import statistics

from tests.unit.bytecode.language import program

G = random.Random(5)


@program
def inside(x):
    r = random.Random(3)
    return (
        x * r.random(),
        r.randint(1, 9),
        r.choice([1, 2, 3]),
        r.gauss(0, 1),
        r.sample(range(9), 3),
        r.uniform(1, 2),
        r.choice([x, x + 1]),
        r.getrandbits(5),
        r.randbytes(2),
        r.choices([1, 2], [0.1, 0.9], k=3),
    )


@program
def seeded(x):
    random.seed(1)
    l = [1, 2, 3, 4]
    random.shuffle(l)
    return (
        x + 1,
        l,
        random.choice("abc"),
        random.sample([1, 2, 3], 2),
        random.gauss(0, 1),
        random.choices([1, 2], k=3),
        random.randrange(9),
        random.betavariate(1, 2),
        random.normalvariate(0, 1),
        random.random(),
    )


@program
def shuffled(x):
    random.seed("s")
    l = [x, x + 1, x + 2]
    random.shuffle(l)
    return l


@program
def state(x):
    random.seed(7)
    s = random.getstate()
    a = random.random()
    random.setstate(s)
    return (x * a, a == random.random())


@program
def own(x):
    G.seed(3)
    return x + G.random()


@program
def ret(x):
    r = random.Random(9)
    r.random()
    return (x + 1, r.random(), [random.Random(2).random()])


@program
def mean_(x):
    return (
        x + 1,
        statistics.mean([1, 2, 4]),
        statistics.median([3, 1, 2]),
        statistics.stdev([1.0, 2.0, 4.0]),
        statistics.mode([1, 1, 2]),
        statistics.pvariance([1, 2]),
        statistics.fmean([1, 2.5]),
        statistics.quantiles([1, 2, 3, 4]),
    )
