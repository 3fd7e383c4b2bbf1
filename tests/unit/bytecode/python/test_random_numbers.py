"""Python's random numbers: the stream is CPython's, and no number is taken for a constant."""

import random
from unittest import mock

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.errors import GraphBreakError
from minitorch2.testing import assert_matches_eager, observe
from minitorch2.testing.assertions import assert_same_observation
from tests.unit.bytecode.capturing import capture

X = torch.arange(3.0)


def check(function, *inputs, breaks=0, backend="eager"):
    """Compare with CPython for several seeds: results, and the state of the generator."""
    compiled = minitorch2.compile(function, backend=backend)
    with stages.collect() as log:
        for seed in range(4):
            states = []
            for call in (function, compiled):
                random.seed(seed)
                states.append((observe(call, inputs, [inputs]), random.getstate()))
            (wanted, left), (given, state) = states
            assert_same_observation(given, wanted)
            assert state == left
    assert log.counts["graph_breaks"] == breaks, log.texts("graph_break")
    assert log.counts["frames_as_is"] == 0
    return log


NUMBERS = [
    lambda x: x * random.random(),
    lambda x: x + random.randint(-3, 3),
    lambda x: [x * random.uniform(-1, b=scale) for scale in range(3)],
    lambda x: (x + random.randrange(0, 10, 5), random.getrandbits(8)),
    lambda x: x * random.gauss(0, 1) + random.normalvariate() * random.triangular(),
    lambda x: (x, [random.random(), {"k": random.randint(0, 9) * 2.5}], random.random() < 0.5),
    lambda x: torch.zeros(random.randint(1, 4)) + 1,
]


@pytest.mark.parametrize("function", NUMBERS)
@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_a_number_is_an_input_of_the_graph(function, backend):
    log = check(function, X, backend=backend)
    assert log.counts["graphs"] == (function is not NUMBERS[5])


def test_a_generator_of_the_users_own():
    def function(x, generator):
        return x * generator.random() + generator.randint(0, 3)

    with stages.collect() as log:
        compiled = capture(function)
        for seed in range(3):
            mine, theirs = random.Random(seed), random.Random(seed)
            assert torch.equal(compiled(X, mine), function(X, theirs))
            assert mine.getstate() == theirs.getstate()
    assert log.counts["graphs"] == 1


def test_the_residual_code_draws_in_front_of_the_graph():
    with stages.collect() as log:
        capture(lambda x: x * random.random())(X)
    (text,) = log.texts("residual.py")
    drawn = text.index("__drawn_0 = random.random.__self__.random()")
    assert drawn < text.index("mul, = __compiled_fn_0(__drawn_0, x)")


def kept(x):
    """A branch on a number that is drawn: layers are dropped like this."""
    y = x + 1
    if random.random() < 0.5:
        return y * 2
    return y


def test_a_branch_on_a_number_is_a_break():
    check(kept, X, breaks=1)


def test_what_changes_a_generator_otherwise_is_left_to_python():
    def shuffled(x):
        parts = [x, x + 1, x + 2]
        a = random.random()
        random.shuffle(parts)
        return parts[0] * a + parts[1] * random.random()

    check(shuffled, X, breaks=1)
    check(lambda x: x + random.randint(0, 2**80) % 7, X, breaks=1)


CHOICES = [
    lambda x: x * random.choice([1, 2, 3]) + random.choice((0.5, 1.5)),
    lambda x: random.choice([x, x + 1, x * 2]),
    lambda x: (x + 1, random.sample(range(10), 3), random.sample("abcd", k=2)),
    lambda x: x[random.sample(range(3), 2)] + x[torch.tensor(random.sample(range(3), 2))],
    lambda x: x * random.choices([1.5, 2.5], weights=[1, 3], k=3)[1] + random.random(),
    lambda x: {"kind": random.choice(["a", None, (x, 1)]), "x": x - 1},
    lambda x: x * torch.tensor([random.random(), 2, random.randint(0, 3)]),
]


@pytest.mark.parametrize("function", CHOICES)
def test_places_are_drawn_in_front_of_the_graph(function):
    assert check(function, X).counts["graphs"] <= 1


def in_place(x):
    rows, parts = list(range(len(x))), [x, "b", None]
    random.shuffle(rows)
    random.shuffle(parts)
    return x[rows] * rows[0], rows, parts, sum(rows)


def test_a_list_is_shuffled_in_front_of_the_graph():
    assert check(in_place, X).counts["graphs"] == 1


ASKING = [
    lambda x: x + 1 if random.choice([None, x]) is None else x,
    lambda x: x + 1 if random.choice("ab") == "a" else x,
    lambda x: x * {"a": 1, "b": 2}[random.choice("ab")],
    lambda x: x * len(random.choice([[1], [2, 3]])),
    lambda x: (x + 1, f"{random.choice('ab')}!"),
    lambda x: random.choice([torch.sin, torch.cos])(x),
]


@pytest.mark.parametrize("function", ASKING)
def test_what_needs_to_know_the_choice_is_a_break(function):
    compiled = minitorch2.compile(function, backend="eager")
    for seed in range(6):
        random.seed(seed)
        wanted = function(X)
        random.seed(seed)
        assert str(compiled(X)) == str(wanted)
    with pytest.raises(GraphBreakError) as broken:
        minitorch2.compile(function, backend="eager", fullgraph=True)(X)
    assert broken.value.code == "random-state"


@pytest.mark.parametrize("call", [lambda: random.choice([]), lambda: random.sample([1], 2)])
def test_a_choice_that_cannot_be_made_raises(call):
    def function(x):
        try:
            call()
        except (IndexError, ValueError) as error:
            return x + 1, type(error), str(error)

    check(function, X)


def test_numbers_behind_a_seed_are_known():
    def function(x):
        parts = [x, x + 1, x + 2]
        a = random.random()
        random.seed(7)
        random.shuffle(parts)
        return parts[0] * a + parts[1] * random.random()

    check(function, X, breaks=0)


def test_a_call_that_fails_raises_where_it_stands():
    def function(x, log):
        log.append(random.random())
        x = x + 1
        try:
            return random.randint(5, 1) + x
        finally:
            log.append(random.random())

    compiled = capture(function)
    for call in (function, compiled):
        random.seed(0)
        log = []
        with pytest.raises(ValueError, match="empty range"):
            call(X, log)
        assert log == [random.Random(0).random(), mock.ANY] and log[1] != log[0]


def test_a_graph_that_raises_has_drawn_nothing():
    def function(x, places):
        k = random.random()
        try:
            return x[places] * k
        except IndexError:
            return x + random.random() - k

    check(function, X, torch.tensor([7]))


def test_gradients():
    def function(x):
        return (x * random.random() + random.uniform(1, 2)).sin()

    def seeded(compiled):
        def call(x):
            random.seed(3)
            return compiled(x)

        return call

    leaf = X.clone().requires_grad_()
    fast = seeded(minitorch2.compile(function))
    assert_matches_eager(seeded(function), leaf, compile=lambda _: fast, tolerance=1e-6)


def test_a_replaced_function_is_noticed():
    compiled = capture(lambda x: x * random.random())
    compiled(X)
    with mock.patch("random.random", return_value=0.25):
        assert torch.equal(compiled(X), X * 0.25)
    generator = random.Random(1)
    compiled = capture(lambda x: x * generator.random())
    compiled(X)
    generator.random = lambda: 0.5
    assert torch.equal(compiled(X), X * 0.5)
