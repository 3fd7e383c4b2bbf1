"""NumPy's random numbers: drawn by the program's generators, in front of one graph."""

import numpy as np
import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.bytecode.guards.drawing import state_of
from minitorch2.errors import GraphBreakError

X = torch.arange(12.0).reshape(3, 4)
GENERATOR = np.random.default_rng(0)
STATE = np.random.RandomState(0)
RAND = np.random.rand.__self__


def check(function, graphs=1, **options):
    """Compare values and the states of all generators with eager's, for several seeds."""
    compiled = minitorch2.compile(function, backend="eager", fullgraph=True, **options)
    with stages.collect() as log:
        for seed in range(3):
            outcomes = []
            for call in (function, compiled):
                np.random.seed(seed)
                STATE.seed(seed)
                GENERATOR.bit_generator.state = np.random.PCG64(seed).state
                result = call(X.clone())
                states = [str(state_of(each)) for each in (RAND, STATE, GENERATOR)]
                outcomes.append((describe(result), states))
            assert outcomes[1] == outcomes[0]
    assert log.counts["graph_breaks"] == log.counts["frames_as_is"] == 0
    assert log.counts["graphs"] == graphs


def describe(value):
    """Types and values, deep."""
    if isinstance(value, (tuple, list)):
        return type(value), [describe(part) for part in value]
    if isinstance(value, torch.Tensor | np.ndarray):
        return type(value), value.dtype, value.tolist()
    return type(value), value


def shuffles(x):
    order, names = np.arange(6), [1, x, "c"]
    np.random.shuffle(order)
    np.random.shuffle(names)
    return x + 1, order, names


def mixed(x):
    share = np.random.beta(0.5, 0.5)
    return share * x + (1 - share) * x[np.random.permutation(3)], share


def made_inside(x):
    generator, old = np.random.default_rng(7), np.random.RandomState(3)
    names = ["a", "b", "c"]
    generator.shuffle(names)
    return x * generator.random(), generator.integers(9, size=2), old.rand(2), names


def seeded_inside(x):
    np.random.seed(5)
    return x * np.random.rand(), np.random.randint(3), np.random.permutation(4)


def returned(x):
    generator = np.random.default_rng(7)
    generator.random()
    return x + 1, generator.random(), np.random.default_rng(generator).random()


def noise(x):
    drawn = np.random.normal(0, 0.1, size=(3, 4)).astype(np.float32)
    return x + torch.from_numpy(drawn), drawn * 2


PROGRAMS = [
    lambda x: x * np.random.rand() + np.random.uniform(0.1, 0.5),
    lambda x: (x * np.random.randint(1, 5), np.random.randint(0, 9, size=2)),
    lambda x: x * np.random.choice([1, 2, 3]) + STATE.choice([0.5, 1.5], p=[0.3, 0.7]),
    lambda x: (x + torch.from_numpy(GENERATOR.normal(size=4)), GENERATOR.integers(3)),
    lambda x: x[:, np.random.randint(0, 2) :][:, :2],
    lambda x: (x + 1, GENERATOR.choice(["a", "b"]), float(STATE.standard_normal())),
    mixed,
    noise,
    shuffles,
    made_inside,
    seeded_inside,
    returned,
]


@pytest.mark.parametrize("function", PROGRAMS)
def test_one_graph_with_the_generators_own_numbers(function):
    check(function)


def test_sizes_of_what_is_drawn_follow_from_the_call():
    check(lambda x: x + torch.from_numpy(np.random.randn(*x.shape)), dynamic=True)


def test_a_call_that_fails_raises():
    def function(x):
        try:
            np.random.randint(5, 2)
        except ValueError as error:
            return x + 1, str(error)

    check(function)


def test_a_generator_of_unknown_seed_is_a_break():
    with pytest.raises(GraphBreakError) as broken:
        minitorch2.compile(lambda x: x * np.random.default_rng().random(), fullgraph=True)(X)
    assert broken.value.code == "random-state"


def test_an_array_drawn_is_a_new_one_each_time():
    function = minitorch2.compile(lambda x: (x + 1, np.random.RandomState(3).rand(2)))
    first = function(X)[1]
    first[:] = 0
    assert function(X)[1].tolist() == np.random.RandomState(3).rand(2).tolist()
