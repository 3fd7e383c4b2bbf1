"""Kernels of whole programs against eager, with their number; text in tests/golden/codegen."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import config, stages
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.lower_graph import lower_graph
from tests.unit.codegen.aten_graph import call_inputs, record

GOLDEN = Path(__file__).parents[2] / "golden" / "codegen"
X = torch.randn(37, 50, generator=torch.Generator().manual_seed(1))


def kernel_texts(log):
    """The kernel functions in the wrapper's text."""
    (wrapper,) = log.texts("wrapper.py")
    return [part.split("\n'''")[0] for part in wrapper.split("text='''\n")[1:]]


GOLDEN_PROGRAMS = {
    "sin_cos": (lambda x: (lambda s: (s, torch.cos(s)))(torch.sin(x)), (64, 100)),
    "softmax": (lambda x: torch.softmax(x, -1), (64, 100)),
    "column_sum": (lambda x: (x * 2).sum(0), (64, 700)),
    "transpose": (lambda x: x.t().contiguous() + 1, (64, 100)),
    "argmax": (lambda x: x.argmax(1), (64, 100)),
}


@pytest.mark.parametrize("name", GOLDEN_PROGRAMS)
def test_golden_text(name, check, golden):
    """Each file holds the kernel that the program gives."""
    program, shape = GOLDEN_PROGRAMS[name]
    with config.patch(threads=8):
        log = check(program, torch.randn(shape), kernels=1)
    text = "\n".join(kernel_texts(log)) + "\n"
    golden(GOLDEN / f"{name}.py.txt", text)


def test_sin_cos_is_one_loop_with_one_load_and_two_stores(check):
    (text,) = kernel_texts(check(GOLDEN_PROGRAMS["sin_cos"][0], torch.randn(8, 8), kernels=1))
    assert text.count("for ") == 1
    assert text.count("= in_ptr") == 1
    assert text.count("out_ptr0[") == text.count("out_ptr1[") == 1


PROGRAMS = {
    "softmax": (lambda x: torch.softmax(x, 1), 1),
    "softmax of columns": (lambda x: torch.softmax(x, 0), 1),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), 1),
    "layer norm": (lambda x: (x - x.mean(1, True)) * torch.rsqrt(x.var(1, keepdim=True) + 1e-5), 1),
    "variance": (lambda x: torch.var_mean(x, 0), 1),
    "normalized columns": (lambda x: (x - x.mean(0)) / (x.std(0) + 1e-5), 1),
    "bias and gelu": (lambda x: F.gelu(x + x[0]), 1),
    "argmax": (lambda x: (x.argmax(1), x.argmin(1)), 1),
    "argmax of columns": (lambda x: x.argmax(0), 1),
    "maximum and position": (lambda x: torch.max(x, 1), 1),
    "all of it": (lambda x: x.sum(), 1),
    "any, all": (lambda x: ((x > 2).any(1), (x < 9).all(1)), 1),
    "padding": (lambda x: F.pad(x, (1, 2, 3, 0)) + 1, 1),
    "concatenation": (lambda x: torch.cat([x, x * 2], 1) * 2, 1),
    "flip": (lambda x: x.flip(0) + x, 1),
    "triangle": (lambda x: x.tril() + 1, 1),
    "transposed sum": (lambda x: x[:, :37] + x[:, :37].t(), 1),
    "narrow columns": (lambda x: x.reshape(-1, 5).sum(0), 1),
    "three dimensions": (lambda x: x.view(37, 5, 10).sum((0, 2)), 1),
    "int64": (lambda x: (x * 10).long() // 3 % 5, 1),
    "double": (lambda x: torch.tanh(x.double()).sum(1), 1),
    "bfloat16": (lambda x: x.bfloat16() * 2, 1),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, dynamic, check):
    program, kernels = PROGRAMS[name]
    check(program, X, kernels=kernels, dynamic=dynamic)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (), (1,), (1, 1, 7), (2, 3, 4, 5)])
def test_shapes(shape, check):
    check(
        lambda x: (torch.sin(x) + 1, x.sum(), (x * 2).sum(-1) if x.ndim else x), torch.randn(shape)
    )


FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_dtypes(dtype, check):
    x = torch.randint(0, 100, (9, 11)).to(dtype)
    check(lambda x: (x + x, x * 3, x > 5, -x, x.amax(1), x.float().sum(0)), x)


def test_maxima_propagate_nan(check):
    x = X.clone()
    x[3, 4] = x[5, 0] = float("nan")
    x[7] = -float("inf")
    check(
        lambda x: (x.amax(1), x.amin(0), x.argmax(1), x.argmin(0), x.amax(1, keepdim=True) - x), x
    )


def test_ties_go_to_the_first_position(check):
    x = torch.zeros(8, 20)
    x[:, 7] = x[:, 13] = 1
    check(lambda x: (x.argmax(1), x.argmax(0), x.argmin(1)), x)


def test_long_sums_are_accurate():
    x = torch.rand(3, 1_000_003)
    call = compile_graph(record(lambda x: (x.sum(1), (x * 1).t().sum(0)), x))
    exact = x.double().sum(1)
    for result in call([x]):
        # Some hundred partial sums are added in order, each with half a unit of rounding.
        assert ((result.double() - exact) / exact).abs().max() < 5e-7


def test_a_masked_load_reads_nothing_outside(check):
    check(lambda x: F.pad(x, (3, 3)).roll(1, 0), torch.randn(4, 5), kernels=1)


CHOOSING = {
    "embedding": lambda x, i: F.embedding(i, x) * 2,
    "gather": lambda x, i: x.gather(0, i[:, None]) * 2,
    "index_select": lambda x, i: x.index_select(0, i) * 2,
    "take_along_dim": lambda x, i: torch.take_along_dim(x, i[:, None], 0) * 2,
    "index": lambda x, i: x[i] * 2,
    "take": lambda x, i: x[:, 0].contiguous().take(i) * 2,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("number", [-11, -10, -1, 9, 10])
@pytest.mark.parametrize("name", CHOOSING)
def test_what_a_negative_index_means_is_the_operators_choice(name, number, dynamic):
    """Embedding, gather and index_select used to count negative indices from the end."""
    if dynamic and name == "take_along_dim":
        pytest.skip("PyTorch asks a size that is a symbol")
    program, x = CHOOSING[name], torch.randn(10, 4)
    gm = record(program, x, torch.tensor([1, 2]), dynamic=dynamic)
    arguments = call_inputs(gm, x, positions := torch.tensor([1, number]))
    lowered = lower_graph(gm)
    try:
        expected = program(x, positions)
    except (IndexError, RuntimeError):
        with pytest.raises(IndexError, match=f"index {number} is out of bounds .* of size 10"):
            interpret(lowered, list(arguments))
        with pytest.raises(IndexError, match=f"index {number} is out of bounds .* of size 10"):
            compile_graph(gm)(arguments)
    else:
        assert torch.equal(interpret(lowered, list(arguments))[0], expected)
        assert torch.equal(compile_graph(gm)(arguments)[0], expected)


def test_one_index_into_two_tables_is_checked_for_both():
    def program(a, b, i):
        return F.embedding(i, a) + F.embedding(i, b)

    a, b = torch.randn(10, 4), torch.randn(5, 4)
    call = compile_graph(record(program, a, b, torch.tensor([1, 2])))
    with pytest.raises(IndexError, match="index 7 is out of bounds for a dimension of size 5"):
        call([a, b, torch.tensor([1, 7])])


def test_indices_are_checked_as_in_eager():
    table, positions = torch.randn(10, 4), torch.tensor([1, 9, -10])
    call = compile_graph(record(lambda w, i: w[i] * 2, table, positions))
    assert torch.equal(call([table, positions])[0], table[positions] * 2)
    with pytest.raises(IndexError, match="index 10 is out of bounds"):
        call([table, torch.tensor([1, 10, 0])])
    with pytest.raises(IndexError, match="index -11 is out of bounds"):
        call([table, torch.tensor([1, -11, 0])])


def test_equal_layers_share_kernels(check):
    def program(x, w):
        for _ in range(3):
            x = torch.relu(torch.mm(x, w) + 1)
        return x

    log = check(program, torch.randn(8, 8), torch.randn(8, 8) / 3, kernels=3)
    assert len(kernel_texts(log)) == 1


def test_kernels_take_varying_sizes_as_arguments():
    gm = record(lambda x: torch.softmax(x + 1, 1), torch.randn(5, 7), dynamic=True)
    call = compile_graph(gm)
    for shape in ((5, 7), (3, 100), (2, 9000)):
        x = torch.randn(shape)
        torch.testing.assert_close(call([*shape, x])[0], torch.softmax(x + 1, 1))


def test_in_place_argmax_regression(check):
    """The position search runs after the pass: its input must not have been overwritten."""
    check(lambda x, w: (lambda a: (a.argmax(1), torch.sin(a)))(torch.mm(x, w)),
          torch.randn(8, 8), torch.randn(8, 8))  # fmt: skip


def test_values_kept_between_passes_are_bounded(check):
    """Regression: columns of 1024 elements asked for a 2 MiB array on the stack of a thread."""
    for rows in (300, 1024, 4999):
        (text,) = kernel_texts(
            check(lambda x: torch.softmax(x, 0), torch.randn(rows, 70), kernels=1)
        )
        arrays = [
            int(line.split("(")[1].split(",")[0])
            for line in text.split("\n")
            if "local_array(" in line
        ]
        assert sum(arrays) < 40_000


def test_sums_of_rows_that_are_looked_up_walk_along_the_rows(check):
    """Each element went through all its rows alone, so each number of a row was read 64 times."""
    (text,) = kernel_texts(
        check(lambda i, w: F.embedding(i, w).sum(1), torch.randint(0, 9, (5, 70)),
              torch.randn(9, 64), kernels=1)
    )  # fmt: skip
    assert text.index("for r0 in") < text.index("error[0]") < text.rindex("for i1 in")
    assert "local_array(64" in text


def test_group_norm_is_one_kernel_over_parts_of_a_loop() -> None:
    """Regression: an address that moves along parts of a loop only, as channels of groups do, was
    not looked at again when the loop was split."""
    norm, x = torch.nn.GroupNorm(4, 16), torch.randn(2, 16, 8, 8)
    with stages.collect() as log, torch.no_grad():
        result = minitorch2.compile(norm)(x)
    assert log.counts["kernels"] == 1
    torch.testing.assert_close(result, norm(x))


def test_any_user_line_can_be_a_comment(check):
    from minitorch2.graph.node import SourceLine

    gm = record(lambda x: x + 1, X)
    for node in gm.graph.nodes:
        node.meta["source"] = SourceLine("a.py", 1, "x = '''\\N{DASH}'''\n + \"\\x\"", "f")
    torch.testing.assert_close(compile_graph(gm)([X])[0], X + 1)


@pytest.mark.parametrize("length", [2**17, 100_003, 3 * 2**15])
def test_long_reductions(length, check):
    x = torch.randn(length)
    everything = lambda x: (x.sum(), x.amax(), (x * 2).amin(), (x > 9).any())  # noqa: E731
    check(everything, x, rtol=1e-4, atol=1e-3)
    check(lambda x: x.sum((0, 1)), torch.randn(length // 16, 4, 4), rtol=1e-4, atol=1e-3)
    check(lambda x: x.sum(1), torch.randint(0, 9, (2, length), dtype=torch.int32))


@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32, torch.int64])
@pytest.mark.parametrize("shape", [(64, 64), (100, 37), (17, 130), (3, 40, 50)])
def test_transposes_of_every_width(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Whole blocks are turned in registers, edges element by element."""
    x = torch.randint(-100, 100, shape).to(dtype)
    for function in (lambda x: x.mT.contiguous(), lambda x: x.mT + x.abs().mT.contiguous()):
        assert torch.equal(minitorch2.compile(function)(x), function(x))


@pytest.mark.parametrize("size", [8, 24, 100, 400])
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float64, torch.float16], ids=str)
def test_scans_along_memory_are_eagers(dtype, size):
    """Turns are written out where they divide the length; float16 is the library's."""
    x = torch.randint(0, 5, (30, size)).to(dtype)
    with stages.collect() as log:
        result = minitorch2.compile(lambda x: x.cumsum(1))(x)
    assert torch.equal(result, x.cumsum(1))
    assert ("for turn" in "".join(log.texts("kernel.py"))) == (
        size in (24, 400) and dtype != torch.float16
    )


@pytest.mark.parametrize("channels", [2, 3, 8])
@pytest.mark.parametrize("shape", [(4, 30, 40), (2, 70, 80)])
def test_short_rows_are_written_out(channels, shape):
    """The loop around them is vectorized: no division by the row's length for each row."""
    batch, height, width = shape
    x = torch.randn(batch, channels, height, width)

    def channels_last(x):
        return x.permute(0, 2, 3, 1).contiguous() * x[:1, :, 0, 0]

    with stages.collect() as log:
        result = minitorch2.compile(channels_last, dynamic=False)(x)
    assert torch.equal(result, channels_last(x))
    (text,) = log.texts("kernel.py")
    assert "%" not in text.split("for i1")[1] and f"range({channels})" in text
    assert torch.equal(minitorch2.compile(channels_last, dynamic=True)(x), result)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int8], ids=str)
def test_positions_in_rows_are_counted_in_32_bits(dtype):
    """Vectors of the search then hold as many positions as numbers."""
    x = torch.randint(-3, 3, (70, 130)).to(dtype)
    with stages.collect() as log:
        result = minitorch2.compile(lambda x: x.argmax(1))(x)
    assert torch.equal(result, x.argmax(1))
    (text,) = log.texts("kernel.py")
    assert "int32(2147483647)" in text and "int64(9223372036854775807)" not in text


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dim", [-1, -2])
def test_a_value_that_vanishes_is_kept_for_the_search_of_a_position(dim, dynamic):
    """The loop that searches for a maximum's position read a buffer that nobody had made."""

    def program(x, a, b, c, d, e):
        y = ((x @ x.transpose(-1, -2)) - a) * b * c + d * e
        values, positions = torch.where(y > 0, y, y * 0.01).max(dim)
        return values, positions, y.argmin(dim)

    columns = [torch.randn(32, 1) for _ in range(5)]
    x = torch.randn(4, 32, 8)
    with stages.collect() as log:
        found = minitorch2.compile(program, dynamic=dynamic, fullgraph=True)(x, *columns)
    for a, b in zip(found, program(x, *columns), strict=True):
        torch.testing.assert_close(a, b)
    assert log.counts["kernels"] == 1
