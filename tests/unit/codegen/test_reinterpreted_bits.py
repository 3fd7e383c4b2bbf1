"""Memory viewed as another dtype: its bits, not the numbers that kernels compute with."""

import numpy as np
import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.loopir.handlers.interpreter import narrowed, widened
from tests.operators.compare import interpreted

BACKENDS = {"interpret": interpreted, "numba": "numba", "triton": "triton"}
SHORT = [torch.float16, torch.bfloat16]


def every_short(dtype: torch.dtype) -> torch.Tensor:
    """All 65536 patterns, NaN with all fractions among them."""
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)


def bits_of(results) -> list[torch.Tensor]:
    tensors = results if isinstance(results, tuple) else (results,)
    return [t.contiguous().view(torch.int16) for t in tensors]


PROGRAMS = {
    "read": lambda x: x.view(torch.int16) + 1,
    "written": lambda x: (x.view(torch.int16) ^ 3).view(x.dtype),
    "other": lambda x: x.view(torch.bfloat16 if x.dtype == torch.float16 else torch.float16),
    "moved": lambda x: x.flip(0).view(torch.int16),
    "joined": lambda x: torch.cat([x[5:100], x, x[1:3]]),
    "padded": lambda x: torch.nn.functional.pad(x, (1, 2), value=0.5),
    "chosen": lambda x: torch.where(x.view(torch.int16) > 5, x, x.flip(0)),
    "computed": lambda x: (x.nan_to_num().clamp(-9, 9) * 1.5).view(torch.int16),
    "two results": lambda x: (x.roll(1), x.view(torch.int16).roll(1).view(x.dtype)),
}


@pytest.mark.parametrize("emulate_eager", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_16_bits_are_those_in_memory(name, dtype, backend, emulate_eager):
    program, x = PROGRAMS[name], every_short(dtype)
    with config.patch(emulate_eager=emulate_eager), stages.collect() as log:
        compiled = minitorch2.compile(program, backend=BACKENDS[backend], fullgraph=True)
        results = bits_of(compiled(x))
    wanted = bits_of(program(x))
    if name == "computed" and backend == "triton" and dtype is torch.bfloat16:
        # Its interpreter cuts what a card rounds, and has no small numbers.
        alike = [((r - w).abs() <= 1) | (x.abs() < 1e-30) for r, w in zip(results, wanted)]
        wanted = [torch.where(yes, r, w) for yes, r, w in zip(alike, results, wanted)]
    assert all(map(torch.equal, results, wanted))
    assert log.counts["fallbacks"] == 0


def test_the_bits_of_float16_are_not_those_of_float32():
    x = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float16)
    compiled = minitorch2.compile(lambda x: x.view(torch.int16).to(torch.int32), fullgraph=True)
    assert compiled(x).tolist() == [15360, -16384, 14336]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_bits_are_written_through_a_view(dtype, backend, dynamic):
    def program(x):
        y = x.clone()
        y.view(torch.int16).add_(1)
        return y

    x = every_short(dtype)[::97].reshape(-1, 4)
    compiled = minitorch2.compile(
        program, backend=BACKENDS[backend], dynamic=dynamic, fullgraph=True
    )
    assert torch.equal(compiled(x).view(torch.int16), program(x).view(torch.int16))


def test_what_is_only_copied_is_not_converted():
    with stages.collect() as log:
        minitorch2.compile(lambda x: x.flip(0))(every_short(torch.float16))
    (text,) = log.texts("kernel.py")
    assert "float16" not in "".join(line.partition("#")[0] for line in text.splitlines())


def test_a_view_as_another_dtype_has_no_gradient():
    x = torch.randn(4, requires_grad=True)
    compiled = minitorch2.compile(lambda x: (x.view(torch.int32), x.view(torch.float32), x * 2))
    results = compiled(x)
    assert [r.requires_grad for r in results] == [False, False, True]


@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_the_interpreter_converts_without_loss(dtype):
    short = every_short(dtype)
    wide = widened(short)
    assert wide.dtype == np.float32
    assert torch.equal(narrowed(wide, dtype).view(torch.int16), short.view(torch.int16))
    assert np.array_equal(wide, short.float().numpy(), equal_nan=True)


WIDTHS = [
    (torch.float32, torch.float64), (torch.float64, torch.float32), (torch.uint8, torch.int32),
    (torch.int64, torch.int16), (torch.complex64, torch.float32), (torch.float32, torch.complex64),
    (torch.float16, torch.uint8), (torch.bool, torch.uint8), (torch.bfloat16, torch.int64),
]  # fmt: skip


def eight_a_row(dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.rand(3, 8) > 0.5 if dtype is torch.bool else (torch.randn(3, 8) * 9).to(dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtypes", WIDTHS, ids=lambda pair: "-".join(str(d)[6:] for d in pair))
def test_the_last_dimension_changes_with_the_width(dtypes, backend):
    dtype, other = dtypes

    def program(x):
        return x.flip(0).contiguous().view(other), x[1:].view(other)[..., :1]

    x = eight_a_row(dtype)
    with stages.collect() as log:
        compiled = minitorch2.compile(program, backend=BACKENDS[backend], fullgraph=True)
        for result, wanted in zip(compiled(x), program(x), strict=True):
            assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
            assert bytes_of(result) == bytes_of(wanted)
    assert log.counts["graphs"] == 1  # the views themselves are the library's: they compute nothing


def bytes_of(x: torch.Tensor) -> list[int]:
    return x.contiguous().view(torch.uint8).flatten().tolist()


@pytest.mark.parametrize("dtypes", WIDTHS, ids=lambda pair: "-".join(str(d)[6:] for d in pair))
def test_what_cannot_be_viewed_raises_as_in_eager(dtypes):
    dtype, other = dtypes
    program = lambda x: x.view(other)  # noqa: E731
    compiled = minitorch2.compile(program, backend="eager")
    x = eight_a_row(dtype)
    for tensor in (x[0, 0].clone(), x[:, :5].contiguous(), x[:, ::2], x.t()):
        try:
            wanted = program(tensor)
        except RuntimeError as error:
            with pytest.raises(RuntimeError) as raised:
                compiled(tensor)
            assert str(raised.value) == str(error)
        else:
            assert bytes_of(compiled(tensor)) == bytes_of(wanted)
