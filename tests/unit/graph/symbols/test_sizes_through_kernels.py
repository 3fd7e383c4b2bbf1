"""Symbolic sizes through meta kernels: expressions, hints, guards, specialization."""

import pytest
import torch

from minitorch2.graph import ShapeEnv, expr_of, free_symbols, to_fake
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.symbols.conditions import compare


def fake(env: ShapeEnv, *sizes: object) -> FakeTensor:
    hints = [int(env.hint(expr_of(size))) for size in sizes]  # type: ignore[arg-type]
    return to_fake(torch.empty(hints), sizes)


def test_zero_and_one_are_specialised() -> None:
    env = ShapeEnv()
    assert env.new_size("s0", 0) == 0 and env.new_size("s1", 1) == 1
    assert not env.hints


def test_comparing_with_one_needs_no_guard() -> None:
    env = ShapeEnv()
    size = env.new_size("s0", 8)
    assert size != 1 and size > 1 and size >= 2 and size * 2 + 1 != 0
    assert not env.guards


def test_a_branch_records_one_guard_for_the_side_taken() -> None:
    env = ShapeEnv()
    a, b = env.new_size("s0", 2), env.new_size("s1", 3)
    z = torch.cat([fake(env, a), fake(env, b)])
    before = len(env.guards)
    for _ in range(3):
        z = z.mul(2) if z.size(0) > 2 else z.add(2)
    # s0 + s1 > 2 follows from both being at least 2
    assert len(env.guards) == before
    for _ in range(3):
        assert z.size(0) <= 5
    assert [str(g) for g in env.guards][before:] == ["s0 + s1 <= 5"]


def test_int_specialises_with_a_guard() -> None:
    env = ShapeEnv()
    size = env.new_size("s0", 8)
    assert int(size) == 8
    assert [str(g) for g in env.guards] == ["s0 == 8"]


@pytest.mark.parametrize(
    ("name", "program", "sizes"),
    [
        ("add", lambda x: x + 1, "s0, s1"),
        ("mm", lambda x: x @ x.t(), "s0, s0"),
        ("sum", lambda x: x.sum(1), "s0"),
        ("view", lambda x: x.view(-1), "s0*s1"),
        ("cat", lambda x: torch.cat([x, x]), "2*s0, s1"),
        ("softmax", lambda x: torch.softmax(x, -1), "s0, s1"),
        ("slice", lambda x: x[:, :2], "s0, 2"),
        ("pad", lambda x: torch.nn.functional.pad(x, (1, 2)), "s0, s1 + 3"),
        ("expand", lambda x: x[None].expand(3, -1, -1), "3, s0, s1"),
    ],
)
def test_sizes_stay_expressions(name: str, program: object, sizes: str) -> None:
    env = ShapeEnv()
    assert callable(program)
    result = program(fake(env, env.new_size("s0", 8), env.new_size("s1", 16)))
    assert ", ".join(str(expr_of(size)) for size in result.shape) == sizes


def test_static_sizes_are_plain_ints() -> None:
    env = ShapeEnv()
    x = fake(env, env.new_size("s0", 8), 4)
    assert type(x.shape[1]) is int and type((x @ x.t()).sum(0).stride(0)) is int


def test_free_symbols_of_structures() -> None:
    env = ShapeEnv()
    a, b = env.new_size("a", 5), env.new_size("b", 6)
    assert {str(s) for s in free_symbols(([a * 2], {"k": slice(0, b)}, 3, None))} == {"a", "b"}


def test_decide() -> None:
    env = ShapeEnv()
    s = env.new_symbol("s", 8)
    assert env.decide(compare(">", s + 1, 2)) is True
    assert env.decide(compare("==", s * 2, 3)) is False
    assert env.decide(compare(">", s, 4)) is None
