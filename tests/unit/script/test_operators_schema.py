"""Schemas from text: every schema that PyTorch publishes gives its text back."""

import re

import pytest
import torch

from minitorch2.script.ir.types import FLOAT, INT, TENSOR, ListType, OptionalType, VariableType
from minitorch2.script.operators.schema import NO_DEFAULT, AliasInfo, parse_schema
from minitorch2.script.syntax.errors import ScriptError


def published_texts(namespace):
    for name in dir(namespace):
        packet = getattr(namespace, name)
        if isinstance(packet, torch._ops.OpOverloadPacket):
            yield from (str(getattr(packet, overload)._schema) for overload in packet.overloads())


def sort_sets(text):
    """Return the text with `(a|b)` for `(b|a)`: PyTorch prints sets in any order."""
    return re.sub(r"\((\w\|\w)\)", lambda found: f"({'|'.join(sorted(found[1][::2]))})", text)


def test_all_published_schemas_give_their_text_back():
    texts = list(published_texts(torch.ops.aten))
    assert len(texts) > 2000
    assert [text for text in texts if str(parse_schema(text)) != sort_sets(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "aten::items.str(Dict(str, t) self) -> ((str, t)[])",
        "aten::format(str self, ...) -> str",
        "prim::Print(...) -> ()",
        "aten::f(Tensor(a|b) x, *, Tensor(c -> *) y) -> Tensor(a|b)",
        "aten::f(Tensor(a!)[](b!)? x) -> (Tensor(a!) first, int n)",
        "forward(Tensor x, (int, float)[] pairs, str mode='a=b') -> (Tensor, Tensor?)",
    ],
)
def test_other_schemas_give_their_text_back(text):
    assert str(parse_schema(text)) == text


def test_arguments_have_types_defaults_and_lengths():
    schema = parse_schema(
        "aten::f(Tensor self, SymInt[2] stride=1, float? scale=2, *, Tensor(a!) out) -> Tensor(a!)"
    )
    tensor, stride, scale, out = schema.arguments
    assert (tensor.type, tensor.default, tensor.kwarg_only) == (TENSOR, NO_DEFAULT, False)
    assert (stride.type, stride.default, stride.symbolic) == (ListType(INT), [1, 1], True)
    assert stride.fixed_length == 2
    assert (scale.type, scale.default, type(scale.default)) == (OptionalType(FLOAT), 2.0, float)
    assert out.kwarg_only and out.is_written and schema.is_mutable
    assert schema.returns[0].alias == out.alias


def test_alias_annotations_have_levels():
    (argument,) = parse_schema("aten::f(Tensor(a!)[](b) x) -> ()").arguments
    outer, inner = argument.alias.levels()
    assert outer.before == {"b"} and not outer.is_write
    assert inner == AliasInfo(frozenset("a"), frozenset("a"), True)


def test_wildcards_after_a_call_are_seen():
    lost = parse_schema("aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)").arguments[1]
    assert lost.alias.is_wildcard and not lost.is_written
    assert lost.type == VariableType("t")


def test_schemas_that_are_none_name_the_word():
    with pytest.raises(ScriptError, match="-> is expected here, not the end of the text"):
        parse_schema("aten::f(Tensor x)")
    with pytest.raises(ScriptError, match="'\\$' is no part"):
        parse_schema("aten::f($)")
