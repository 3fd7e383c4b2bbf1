"""Values are written as Python text that evaluates to equal values, or refused."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minitorch2.autograd.epilogue import Computed, Epilogue, InputView, Mutation
from minitorch2.autograd.functionalize import ViewStep
from minitorch2.codegen.spelling import MOST_BYTES, UnspellableError, definitions
from minitorch2.graph.graph_module import GraphModule

leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(),
    st.sampled_from([torch.float16, torch.strided, torch.channels_last, torch.device("cuda", 1)]),
    st.frozensets(st.integers(), max_size=1),
)  # fmt: skip
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.text(), inner),
        inner.map(lambda value: InputView(0, (), value)),
    ),
    max_leaves=8,
)


def read(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(text, names)
    return names


@given(values)
def test_data_are_read_as_they_were_spelled(value: Any) -> None:
    found = read(definitions({"value": value}))["value"]
    assert repr(found) == repr(value)  # NaN is not equal to itself
    assert type(found) is type(value)


def test_an_epilogue_is_data() -> None:
    step = ViewStep(torch.ops.aten.slice.Tensor, (0, 1, math.inf), {})
    epilogue = Epilogue((Mutation(0, 1, True, (step,)),), (Computed(2),))
    assert read(definitions({"epilogue": epilogue}))["epilogue"] == epilogue


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_are_spelled_to_the_bit(dtype: torch.dtype) -> None:
    for tensor in (
        torch.tensor([[-0.0, math.nan, 1.5], [3, 0, math.inf]]).to(dtype).t(),
        torch.tensor(2).to(dtype),
        torch.zeros(0, 3, dtype=dtype),
    ):
        found = read(definitions({"x": tensor}, {}))["x"]
        assert (found.dtype, found.shape, found.stride()) == (dtype, tensor.shape, tensor.stride())
        torch.testing.assert_close(found, tensor, rtol=0, atol=0, equal_nan=True)


def test_functions_and_graphs_are_spelled_where_they_may_be() -> None:
    graph = GraphModule.__new__(GraphModule)
    text = "def call(args):\n    return [len(args), '\\\\n', '''x''']\n"
    found = read(definitions({"graph": graph, "add": operator.add}, {graph: text}))
    assert found["add"] is operator.add
    assert found["graph"](1, 2) == [2, "\\n", "x"]


@pytest.mark.parametrize(
    "value", [object(), lambda: 0, torch.zeros(MOST_BYTES), torch.zeros(2, requires_grad=True)]
)
def test_what_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(UnspellableError):
        definitions({"value": value}, {})
    with pytest.raises(UnspellableError):
        definitions({"value": torch.zeros(2)})
