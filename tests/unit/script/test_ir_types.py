"""Types: subtyping, joining, type variables, and the types of Python values."""

import collections

import pytest
import torch

from minitorch2.script.ir.parse_type import parse_type
from minitorch2.script.ir.types import (
    ANY,
    INT,
    NONE,
    TENSOR,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    erase_facts,
    is_subtype_of,
    match_type,
    type_of,
    unify,
)

TEXTS = [
    "Tensor", "int", "Scalar?", "int[]", "Tensor?[]", "(int, float)", "(int, float)[]", "()",
    "Dict(str, Tensor[])", "Future((Tensor, int))", "Float(2, *, s0, requires_grad=1, device=cpu)",
    "Long()", "Float(...)", "Tensor(*, 3)", "Half(..., device=cuda:0)", "t[]", "NoneType",
    "Point(x: Tensor, y: int)", "__torch__.model.Encoder", "Function(f)", "Float8_e4m3fn(2)",
    "Tensor(..., requires_grad=0)", "Device", "ScalarType", "Any",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_type_gives_its_text_back(text):
    assert str(parse_type(text)) == text


@pytest.mark.parametrize(
    "sub, base",
    [
        ("int", "int"), ("int", "Scalar"), ("int", "int?"), ("NoneType", "Tensor?"),
        ("int?", "Scalar?"), ("Float(2, 3)", "Tensor"), ("Float(2, 3)", "Float(*, 3)"),
        ("(int, Float(2))", "(Scalar, Tensor)"), ("P(x: int)", "(int)"), ("int[]", "Any"),
        ("Float(2)[]", "Tensor[]"), ("Future(int)", "Future(int?)"),
    ],
)  # fmt: skip
def test_a_subtype_can_stand_for_its_base(sub, base):
    a, b = parse_type(sub), parse_type(base)
    assert is_subtype_of(a, b)
    assert a == b or not is_subtype_of(b, a)
    assert unify(a, b) == unify(b, a) == b


@pytest.mark.parametrize(
    "a, b", [("int", "float"), ("int[]", "Scalar[]"), ("int?", "int"), ("bool", "int"),
             ("Float(2)", "Float(2, 2)"), ("(int)", "P(x: int)"), ("(int)", "(int, int)")],
)  # fmt: skip
def test_other_types_are_no_subtypes(a, b):
    assert not is_subtype_of(parse_type(a), parse_type(b))


@pytest.mark.parametrize(
    "a, b, joined",
    [
        ("int", "NoneType", "int?"), ("int?", "NoneType", "int?"), ("Float(2, 3)", "Float(2, 4)",
        "Float(2, *)"), ("Float(2)", "Long(2)", "Tensor(2)"), ("Float(2)", "Float()", "Float(...)"),
        ("(int, NoneType)", "(int, Tensor)", "(int, Tensor?)"), ("int?", "Tensor?", None),
        ("Float(2)[]", "Float(3)[]", "Tensor[]"), ("int", "str", None), ("int[]", "float[]", None),
    ],
)  # fmt: skip
def test_two_types_join(a, b, joined):
    wanted = None if joined is None else parse_type(joined)
    assert unify(parse_type(a), parse_type(b)) == wanted
    assert unify(parse_type(b), parse_type(a)) == wanted


@pytest.mark.parametrize(
    "formal, actual, bound",
    [
        ("t[]", "int[]", "int[]"), ("Dict(str, t)", "Dict(str, Tensor)", "Dict(str, Tensor)"),
        ("t?", "NoneType", "t?"), ("(t, t)", "(int, NoneType)", "(int?, int?)"),
        ("t[]", "(int, int)", None), ("t[]", "int", None), ("int", "float", None),
        ("Scalar", "int", "Scalar"), ("(t, t[])", "(float, int[])", None),
    ],
)  # fmt: skip
def test_type_variables_bind(formal, actual, bound):
    wanted = None if bound is None else parse_type(bound)
    assert match_type(parse_type(formal), parse_type(actual), {}) == wanted


def test_values_have_types():
    point = collections.namedtuple("point", "x y")(1, 2.0)
    assert str(type_of(point)) == "point(x: int, y: float)"
    assert type_of([1, 2]) == type_of(torch.Size([2])) == ListType(INT)
    assert type_of([True, None]) == parse_type("bool?[]")
    assert type_of([1, "a"]) == ListType(ANY)
    assert type_of({"a": torch.ones(2)}) == parse_type("Dict(str, Tensor)")
    assert type_of((1, None)) == TupleType((INT, NONE))
    assert type_of([]) == ListType(TENSOR)
    assert str(TensorType.of(torch.ones(2, 3))) == "Float(2, 3, requires_grad=0, device=cpu)"


def test_an_optional_of_an_optional_is_one_optional():
    assert OptionalType(OptionalType(INT)) == OptionalType(INT)


def test_facts_of_tensors_are_erased_inside_of_containers_too():
    given = parse_type("Dict(str, (Float(2), Long(3)[], int)?)")
    assert str(erase_facts(given)) == "Dict(str, (Tensor, Tensor[], int)?)"
