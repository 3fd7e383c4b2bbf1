"""The seed and the state of random generators inside of one graph: eager's numbers, eager's state."""

import pytest
import torch
import torch._dynamo  # replaces torch.manual_seed, at the latest when PyTorch itself imports it
import torch.nn.functional as F
from torch.testing import assert_close

import minitorch2
from minitorch2 import stages
from tests.unit.bytecode.capturing import check


def seeded(x, g):
    torch.manual_seed(3)
    first = torch.rand(4)
    torch.manual_seed(3)
    return first * x, torch.rand(4) + x, torch.initial_seed()


def seeded_with_a_size(x, g):
    generator = torch.manual_seed(x.shape[0])
    return torch.rand(x.shape) * x, generator.initial_seed()


def seeded_in_a_loop(x, g):
    rows = []
    for seed in (-1, 2**64 - 2, True, 5):
        torch.random.manual_seed(seed)
        rows.append(torch.randn(4))
    return torch.stack(rows) * x.sum()


def dropped_out(x, g):
    torch.manual_seed(2)
    return F.dropout(x, 0.5, True)


def forked(x, g):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        inside = torch.rand(4)
    return inside * x, torch.rand(4)


def forked_in_name_only(x, g):
    with torch.random.fork_rng(enabled=False), torch.random.fork_rng(devices=[]):
        inside = torch.rand(4)
    return inside * x, torch.rand(4)


def read_and_set(x, g):
    state = torch.get_rng_state()
    first = torch.rand(4)
    torch.set_rng_state(state)
    return first * x, torch.rand(4), state


def default_generator(x, g):
    state = torch.default_generator.get_state()
    first = torch.rand(4, generator=torch.default_generator)
    torch.default_generator.set_state(state)
    return first * x, torch.default_generator.manual_seed(4).initial_seed(), torch.rand(2)


def made_inside(x, g):
    made = torch.Generator(device=x.device).manual_seed(3)
    other = torch.Generator()
    drawn = torch.rand(4, generator=made), torch.randn(2, generator=other)
    copy = made.clone_state()
    more = torch.randperm(4, generator=made), torch.randperm(4, generator=copy)
    return drawn[0] * x, drawn[1], more, made.initial_seed(), other.device


def returned(x, g):
    made = torch.Generator().manual_seed(3)
    return torch.rand(4, generator=made) * x, made


def passed(x, g):
    kept, seed = g.get_state(), g.initial_seed()
    first = torch.rand(4, generator=g)
    state = g.get_state()
    second = torch.empty(4).normal_(generator=g)
    g.set_state(state)
    return first * x + second, torch.empty(4).normal_(generator=g), seed, kept


def seeds_what_is_passed(x, g):
    g.manual_seed(11)
    return x * torch.rand(4, generator=g), g.initial_seed()


def every_law(x, g):
    p = torch.full((3,), 0.4)
    return (
        torch.multinomial(p, 2, generator=g),
        torch.normal(p, 1.0, generator=g),
        torch.bernoulli(p, generator=g),
        torch.poisson(p, generator=g),
        torch.randint(9, (4,), generator=g),
        torch.empty(3).exponential_(generator=g),
        torch.empty(3).cauchy_(generator=g),
        torch.empty(3).log_normal_(generator=g),
        torch.empty(3).geometric_(0.3, generator=g),
        torch.empty(3).uniform_(1, 2, generator=g),
        torch.empty(3).random_(0, 10, generator=g),
        torch.nn.init.xavier_uniform_(torch.empty(2, 2), generator=g),
        x * 2,
    )


PROGRAMS = [
    seeded,
    seeded_with_a_size,
    seeded_in_a_loop,
    dropped_out,
    forked,
    forked_in_name_only,
    read_and_set,
    default_generator,
    made_inside,
    returned,
    passed,
    seeds_what_is_passed,
    every_law,
]


def outcome(function, x, *, calls=2):
    """Results, gradients and states of some calls."""
    torch.manual_seed(0)
    x = x.detach().clone().requires_grad_()
    g = torch.Generator().manual_seed(7)
    found = []
    for _ in range(calls):
        results = function(x, g)
        results = results if isinstance(results, tuple) else (results,)
        flat = [each for r in results for each in (r if isinstance(r, tuple) else (r,))]
        states = [r.get_state() for r in flat if isinstance(r, torch.Generator)]
        values = [r for r in flat if not isinstance(r, torch.Generator | torch.device)]
        loss = sum(r.sum() for r in values if isinstance(r, torch.Tensor) and r.requires_grad)
        found += [values, torch.autograd.grad(loss, x), g.get_state(), states]
        found += [torch.get_rng_state(), torch.initial_seed(), g.initial_seed()]
    return found


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_and_the_same_state(program, dynamic):
    x = torch.arange(12.0).reshape(3, 4)
    expected = outcome(program, x)
    with stages.collect() as log:
        compiled = minitorch2.compile(program, fullgraph=True, dynamic=dynamic)
        assert_close(outcome(compiled, x), expected)
    assert log.counts["graphs"] == 1


def test_the_default_generator_may_be_passed_after_another():
    compiled = minitorch2.compile(passed, fullgraph=True, backend="eager")
    for generator in (torch.Generator(), torch.default_generator, torch.Generator()):
        generator.manual_seed(5)
        expected = passed(torch.ones(4), generator), generator.get_state()
        generator.manual_seed(5)
        actual = compiled(torch.ones(4), generator), generator.get_state()
        assert_close(actual, expected, rtol=0, atol=0)


def test_one_generator_twice_and_two():
    def function(g, h):
        return torch.rand(2, generator=g), torch.rand(2, generator=h), g is h

    def call(function, *seeds):
        made = [torch.Generator().manual_seed(seed) for seed in seeds]
        g, h = made[0], made[-1]
        return *function(g, h), g.get_state(), h.get_state()

    compiled = minitorch2.compile(function, fullgraph=True, backend="eager")
    for seeds in ((1,), (1, 2), (3,), (4, 4)):
        assert_close(call(compiled, *seeds), call(function, *seeds), rtol=0, atol=0)


def test_an_unread_draw_that_may_raise_keeps_its_place():
    """A draw that nobody read, and that may raise, once ran before earlier draws."""

    def function(p):
        first = torch.rand(3)
        torch.multinomial(p, 2)
        return first, torch.rand(3)

    for dynamic in (False, True):
        compiled = minitorch2.compile(function, fullgraph=True, dynamic=dynamic)
        torch.manual_seed(0)
        expected = function(torch.ones(5))
        torch.manual_seed(0)
        assert_close(compiled(torch.ones(5)), expected, rtol=0, atol=0)


def test_a_graph_that_raises_leaves_the_generator_as_eager_does():
    def function(x, g):
        y = torch.rand(3, generator=g)
        return y + torch.linalg.inv(x)

    def call(function):
        torch.manual_seed(0)
        g = torch.Generator().manual_seed(1)
        with pytest.raises(torch.linalg.LinAlgError):
            function(torch.zeros(3, 3), g)
        return g.get_state(), torch.get_rng_state()

    assert_close(call(minitorch2.compile(function)), call(function))


def test_wrong_seeds_and_states_are_eagers_errors():
    def of_text(x):
        return x * torch.Generator().manual_seed("1").initial_seed()

    def too_short(x):
        torch.set_rng_state(torch.zeros(3, dtype=torch.uint8))
        return x

    for function, error in ((of_text, (RuntimeError, TypeError)), (too_short, RuntimeError)):
        with pytest.raises(error) as expected:
            function(torch.ones(2))
        with pytest.raises(error) as actual:
            minitorch2.compile(function)(torch.ones(2))
        assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_a_draw_across_a_break():
    def function(x):
        g = torch.Generator().manual_seed(3)
        y = torch.rand(2, generator=g)
        print(end="")
        return x + y, torch.rand(2, generator=g), g.initial_seed()

    check(function, torch.ones(2), breaks=1)
