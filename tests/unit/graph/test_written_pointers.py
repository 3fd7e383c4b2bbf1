"""Through which parameters a Triton kernel writes, read off its source."""

from __future__ import annotations

import pytest

from minitorch2.graph.kernel_launch import plain_function
from minitorch2.graph.written_pointers import written_pointers

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def _put(pointer, value):
    tl.store(pointer, value)


@triton.jit
def direct(a, b, n):
    tl.store(b + n, tl.load(a + n))


@triton.jit
def through_variables(a, b, c, n):
    place = b
    for _ in range(3):
        place += n
        other = place
    tl.atomic_add(other, tl.load(a))
    value = tl.load(c)
    tl.store(other, value)


@triton.jit
def through_a_callee(a, b):
    _put(value=tl.load(a), pointer=b)


@triton.jit
def through_a_block_pointer(a, b, n):
    block = tl.make_block_ptr(b, (n,), (1,), (0,), (8,), (0,))
    block = tl.advance(block, (8,))
    tl.store(block, tl.load(a + tl.arange(0, 8)))


@triton.jit
def chosen(a, b, flag):
    place = a if flag else b
    tl.store(place, 0)


@triton.jit
def loaded_addresses(table, a):
    tl.store(tl.load(table).to(tl.pointer_type(tl.float32)), tl.load(a))


@pytest.mark.parametrize(
    ("kernel", "written"),
    [
        (direct, {"b"}),
        (through_variables, {"b"}),
        (through_a_callee, {"b"}),
        (through_a_block_pointer, {"b"}),
        (chosen, {"a", "b"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_writes_are_found_through_the_kernels_variables(kernel: object, written: set[str]) -> None:
    assert written_pointers(plain_function(kernel)) & {"a", "b", "c"} == written


def test_without_source_all_parameters_count_as_written() -> None:
    namespace: dict[str, object] = {}
    exec("def kernel(a, b): pass", namespace)
    assert written_pointers(namespace["kernel"]) == {"a", "b"}
