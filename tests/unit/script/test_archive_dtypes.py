"""Element types in files, which hold numbers for them: comparisons give what eager mode gives."""

import io

import pytest
import torch
from torch import Tensor

from minitorch2 import jit
from minitorch2.script.archive.dtype_comparisons import may_be_dtype


def equal(x: Tensor, kind: torch.dtype):
    return x + 1 if x.dtype == torch.float32 else x * 100


def unequal(x: Tensor, kind: torch.dtype):
    return x + 1 if torch.float32 != x.dtype else x * 100


def among(x: Tensor, kind: torch.dtype):
    return x + 1 if x.dtype in (torch.float32, torch.int64) else x * 100


def identical(x: Tensor, kind: torch.dtype):
    return x + 1 if x.dtype is torch.float32 else x * 100


def of_a_parameter(x: Tensor, kind: torch.dtype):
    if kind == torch.float64:
        return x.to(kind)
    return x + 1 if kind == x.dtype else x * 100


def of_a_branch(x: Tensor, kind: torch.dtype):
    found = x.dtype if x.dim() == 1 else torch.float64
    return x + 1 if found == torch.float32 else x * 100


def of_a_loop(x: Tensor, kind: torch.dtype):
    found, count = kind, 0
    for _ in range(3):
        if found == torch.float32:
            count += 1
        found = x.dtype
    return x + count


def chosen(x: Tensor, kind: torch.dtype):
    return x.to(kind)


def of_a_call(x: Tensor, kind: torch.dtype):
    return chosen(x, x.dtype) if kind == torch.float32 else chosen(x, torch.float64)


def layout(x: Tensor, kind: torch.dtype):
    return x + 1 if x.layout == torch.strided else x * 100


FUNCTIONS = [
    equal, unequal, among, identical, of_a_parameter, of_a_branch, of_a_loop, of_a_call, layout
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("write", [jit, torch.jit], ids=["ours", "torch.jit"])
def test_element_types_of_a_file_are_compared_as_in_eager_mode(function, write):
    file = io.BytesIO()
    write.save(write.script(function), file)
    for load in (jit.load, torch.jit.load):
        file.seek(0)
        loaded = load(file)
        for kind in (torch.float32, torch.float64) * 2:
            for x in (torch.ones(2), torch.ones(2, dtype=torch.float64)):
                found, expected = loaded(x, kind), function(x, kind)
                assert torch.equal(found, expected) and found.dtype == expected.dtype


def test_a_file_of_a_trace_takes_the_inputs_that_the_trace_takes():
    traced, file = jit.trace(lambda x: x * 2, (torch.ones(2, 2),)), io.BytesIO()
    jit.save(traced, file)
    for load in (jit.load, torch.jit.load):
        file.seek(0)
        loaded = load(file)
        assert torch.equal(loaded(torch.ones(3, 2)), torch.full((3, 2), 2.0))
        with pytest.raises(Exception, match=r"2 dimensions and torch\.float32"):
            loaded(torch.ones(3, 2, dtype=torch.int64))


def count_of_threes(items: list[int]):
    count = 0
    for step in range(5):
        if step == 3 or len(items) == 3:
            count += 1
    while count != 7:
        count += 1
    return count


def test_numbers_of_a_file_are_compared_as_they_are():
    file = io.BytesIO()
    jit.save(jit.script(count_of_threes), file)
    file.seek(0)
    method = jit.load(file)._type.methods["forward"]
    compared = [node for node in method.graph.nodes() if node.kind in ("aten::eq", "aten::ne")]
    assert len(compared) >= 3
    assert not any(may_be_dtype(value, set()) for node in compared for value in node.inputs)
    assert "prim::number" not in str(method.graph)
