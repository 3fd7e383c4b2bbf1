"""Stores at computed positions: what they mean, how they share loops, in all three handlers."""

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import stages
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.codegen.triton.target import TRITON
from minitorch2.loopir.loops import Scatter
from minitorch2.loopir.lower_graph import lower_graph
from tests.unit.loopir.trace_aten import check, trace

aten = torch.ops.aten
X, ROWS = torch.randn(6, 8), torch.tensor([0, 2, 2, 5, 0])
VALUES = torch.randn(5, 8)
MASK = torch.arange(6) % 2 == 0

PROGRAMS = {
    "index_put": lambda x, i, v: aten.index_put(x, (i,), v, True),
    "index_put_columns": lambda x, i, v: aten.index_put(x, (None, i), v[0, :5], True),
    "index_put_apart": lambda x, i, v: aten.index_put(x[:, None], (i, None, i - 8), v[:, :1], True),
    "index_put_set": lambda x, i, v: aten.index_put(x, (i.unique() * 0 - 1,), v[:1].sin()),
    "index_put_mask": lambda x, i, v: aten.index_put(x, (x > 0,), v[0, 0]),
    "scatter_add": lambda x, i, v: x.scatter_add(1, i[:, None].expand(5, 3), v),
    "scatter_add_rows": lambda x, i, v: x.scatter_add(0, i[:, None].expand(5, 8), v),
    "scatter": lambda x, i, v: x.scatter(0, i.argsort()[None].expand(1, 5), v),
    "scatter_value": lambda x, i, v: x.scatter(1, i[:, None], 2.5),
    "scatter_reduce": lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(5, 8), v, "sum"),
    "index_add": lambda x, i, v: x.index_add(0, i, v, alpha=2),
    "index_copy": lambda x, i, v: x.index_copy(0, i.argsort(), v),
    "index_fill": lambda x, i, v: (x.index_fill(1, -i, 3.0), x.index_fill(0, i, v[0, 0])),
    "put": lambda x, i, v: x.put(i - 3, v[0, :5], True),
    "embedding_backward": lambda x, i, v: aten.embedding_dense_backward(v, i, 6, 2, False),
    "diagonals": lambda x, i, v: (torch.diag_embed(x, 1, 0, 2), x.diagonal_scatter(v[0, :5], -1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_meaning(name, dynamic):
    function = PROGRAMS[name]
    if dynamic and "unique" in function.__code__.co_names:
        pytest.skip("its size depends on data")
    if name == "index_put_set":
        function = lambda x, i, v: aten.index_put(x, (i[:1] - 1,), v[:1].sin())  # noqa: E731
    check(function, X, ROWS, VALUES, dynamic=dynamic)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "index_put_set"])
@pytest.mark.parametrize("target", [NUMBA, TRITON], ids=["numba", "triton"])
def test_kernels(name, target):
    expected = PROGRAMS[name](X, ROWS, VALUES)
    inputs = (X, ROWS, VALUES)
    given = compile_graph(trace(PROGRAMS[name], inputs), target=target)(list(inputs))
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for ours, theirs in zip(given, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int32, torch.uint8])
@pytest.mark.parametrize("dim", [0, 1])
def test_kernels_are_eagers_bit_by_bit(dtype, dim):
    """Elements that meet add up in eager's order, whichever dimension is shared by threads."""
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn(40, 30, generator=generator) * 9).to(dtype)
    index = torch.randint(0, 20, (200,), generator=generator)
    values = torch.randn(200, 30, generator=generator) * 9
    values = (values if dim == 0 else values.t().contiguous()).to(dtype)
    x = x if dim == 0 else x.t().contiguous()
    (result,) = compile_graph(trace(lambda x, i, v: x.index_add(dim, i, v), (x, index, values)))(
        [x, index, values]
    )
    assert torch.equal(result, x.index_add(dim, index, values))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_is_added_in_float32(dtype):
    index, values = torch.zeros(500, dtype=torch.int64), torch.randn(500, 3).to(dtype)
    x = torch.zeros(1, 3, dtype=dtype)
    (result,) = compile_graph(trace(lambda x, i, v: x.index_add(0, i, v), (x, index, values)))(
        [x, index, values]
    )
    assert torch.equal(result, values.float().sum(0, keepdim=True).to(dtype))


def test_the_sum_is_read_and_not_the_last_term():
    """One element: the reader of the sum has the address of the store, but not its value."""
    x, index, value = torch.tensor([2.0]), torch.tensor([0]), torch.tensor([3.0])
    call = compile_graph(trace(lambda x, i, v: x.index_add(0, i, v) * 10, (x, index, value)))
    assert call([x, index, value])[0].item() == 50.0


def test_threads_own_what_they_add_to():
    """Many threads, few rows, all elements meet: the same sum in every run."""
    index, values = torch.zeros(3000, dtype=torch.int64), torch.randn(3000, 64)
    with minitorch2.config.patch(threads=4):
        call = compile_graph(
            trace(lambda i, v: torch.zeros(2, 64).index_add(0, i, v), (index, values))
        )
        results = [call([index, values])[0] for _ in range(20)]
    assert all(torch.equal(result, results[0]) for result in results)
    torch.testing.assert_close(results[0], torch.zeros(2, 64).index_add(0, index, values))


@pytest.mark.parametrize("wrong", [6, -1])
def test_positions_are_checked(wrong):
    index = torch.tensor([0, wrong])
    call = compile_graph(trace(lambda x, i: x.index_add(0, i, x[:2]), (X, index)))
    with pytest.raises(IndexError, match=str(wrong)):
        call([X, index])


def test_an_input_stays_as_it_is():
    call = compile_graph(trace(lambda x, i, v: x.index_add(0, i, v), (X, ROWS, VALUES)))
    before = X.clone()
    call([X, ROWS, VALUES])
    assert torch.equal(X, before)


def test_gradient_of_an_embedding_is_one_scatter():
    weight = torch.randn(20, 8, requires_grad=True)
    tokens = torch.randint(0, 20, (4, 5))

    def loss(weight, tokens):
        return F.embedding(tokens, weight, padding_idx=3).sin().sum()

    with stages.collect() as log:
        minitorch2.compile(loss)(weight, tokens).backward()
    compiled, weight.grad = weight.grad, None
    loss(weight, tokens).backward()
    torch.testing.assert_close(compiled, weight.grad)
    assert log.counts["fallbacks"] == 0
    assert "embedding_dense_backward" in log.texts("wrapper.py")[-1]


# -- concatenation --------------------------------------------------------------------------------


def parts_of(function, *inputs):
    lowered = lower_graph(trace(function, inputs))
    return [b for b in lowered.buffers if isinstance(getattr(b, "loops", None), Scatter)]


@pytest.mark.parametrize("count", [5, 16, 40])
@pytest.mark.parametrize("dim", [0, 1])
def test_parts_are_computed_into_their_place(count, dim):
    def function(x):
        return torch.cat([x * k for k in range(count)], dim)

    assert len(parts_of(function, X)) == count
    check(function, X)
    check(function, X, dynamic=True)
    with stages.collect() as log:
        result = minitorch2.compile(function)(X)
    assert torch.equal(result, function(X))
    assert log.counts["kernels"] == 1
    assert log.texts("wrapper.py")[0].count("empty_cpu((") == 1


def test_parts_of_many_kinds():
    def function(x):
        product = x @ x.t()
        parts = [x, x.sum(1, keepdim=True), product, x[:, :0], x.sin(), x.sum(1, True).expand(6, 3)]
        whole = torch.cat([*parts, x.to(torch.int64)], 1)
        return whole, whole[:, 9:20] * 2

    check(function, X)
    torch.testing.assert_close(minitorch2.compile(function)(X), function(X))


def test_given_parts_are_copied_by_the_library():
    inputs = [torch.randn(2, n) for n in range(1, 7)]
    assert check(lambda *parts: torch.cat(parts, 1), *inputs).externs == ["aten.cat.default"]


def test_a_reader_of_one_part_may_share_its_loop():
    def function(x):
        whole = torch.cat([x * k for k in range(1, 7)], 1)
        return whole, whole[:, 40:].exp(), whole[:, :8].exp()

    torch.testing.assert_close(minitorch2.compile(function)(X), function(X))


@pytest.mark.parametrize("backend", ["numba", "triton"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_narrow_integers_are_added_with_their_overflow(dtype, backend):
    """A GPU has atomic additions for int32: the kernel adds these, and keeps the low bits."""

    def program(x, i, v):
        return x.scatter_add(0, i, v), x.index_add(0, i, v + v)

    x, v = (torch.randint(0, 120, (n,)).to(dtype) for n in (7, 300))
    i = torch.randint(0, 7, (300,))
    fast = minitorch2.compile(program, backend=backend, fullgraph=True)
    with stages.collect() as log:
        results = fast(x, i, v)
    for result, expected in zip(results, program(x, i, v), strict=True):
        assert torch.equal(result, expected)
    assert not log.counts["fallbacks"] and log.counts["kernels"]
