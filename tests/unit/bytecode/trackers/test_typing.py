"""Types as values: validators of configurations take them apart."""

import types
import typing

import torch

from tests.unit.bytecode.trackers.program import check

X = torch.ones(2)
KINDS = int | None, typing.Optional[str], list[int], typing.Any, int | list[float]  # noqa: UP045


def accepts(kind, value):
    """What a validator of fields does."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(accepts(part, value) for part in parts)
    if origin is list:
        return isinstance(value, list) and all(accepts(parts[0], each) for each in value)
    return kind is typing.Any or isinstance(value, kind)


def test_unions_and_generic_types_are_taken_apart():
    def program(x):
        return x + 1, [accepts(kind, value) for kind in KINDS for value in (1, "a", [2], None)]

    check(program, X)


def test_a_subscripted_class_is_not_the_class():
    def program(x):
        kind = dict[str, int]
        return x + 1, kind, kind is dict, kind.__args__, list[float].__origin__ is list

    check(program, X)
