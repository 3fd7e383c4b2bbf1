"""NumPy arrays as tensors, where the meaning is the same."""

import re

import numpy as np
import pytest
import torch

import minitorch2
from minitorch2 import stages
from tests.unit.bytecode.capturing import capture
from tests.unit.bytecode.torch_values.programs import check_row, table

CAPTURED = [
    "torch.from_numpy(n) + 1",
    "torch.from_numpy(n)",
    "torch.as_tensor(n) * 2, torch.tensor(n), torch.as_tensor(n, dtype=torch.float64)",
    "n + n, n - 1, 2 * n, n / 4, n * 0.5",
    "nd * nd + nd, 1 / nd, nd - 0.5",
    "n > 0, n == n, n <= 0.5",
    "ni + 1, ni * ni, ni - 2, ni < 2",
    "n.shape, n.ndim, n.size, n.dtype, n.nbytes, n.itemsize, x + 1",
    "n.T, n.T + 1, n.reshape(4, 3), n.reshape(-1), n.reshape((2, 6))",
    "n[0], n[1:], n[:, 1], n[..., 0], n[None], n[0, 1]",
    "n[0] = 5\nn",
    "n[0] = n[1]\nn",
    "n[1, 2] = 0.5\nn, n + 1",
    "n.copy(), n.astype(np.float64), ni.astype(np.float32), ni.astype('int32')",
    "np.sqrt(abs_ := n * n), np.floor(n), np.negative(n), np.absolute(n)",
    "np.add(n, 1), np.multiply(n, n), np.subtract(1, n)",
    "np.where(n > 0, n, n * 2)",
    "n.max(), n.min(axis=0), ni.sum(), n.max(1)",
    "t = torch.from_numpy(n)\nt.add_(1)\nn",
    "t = torch.from_numpy(n)\nt.add_(1)\nt, n",
    "t = x + 1\nt.numpy()",
    "t = x + 1\nt.numpy() * 2, t * 3",
    "x.numpy()",
    "x.detach().numpy() + 1",
    "t = w + 1\nt.detach().numpy(), t * 2",
    "x.cpu().numpy().shape, x + 1",
    "torch.from_numpy(x.numpy() * 2) + 1",
    "len(n), n is n, x + 1",
    "isinstance(n, np.ndarray), type(n) is np.ndarray, x + 1",
    "np.pi * x, x + np.e",
    # NumPy's own promotion
    "ni / 2, n + nd, ni + 0.5, ni // 3, ni % 3, n + 2, n + np.float64(2), ni.astype('int8') * 2",
    "np.sin(ni), np.sqrt(ni.astype('int8')), np.add(n, 1, dtype='f8'), True + ni, ni ** 2",
    "nd // 0.3, nd % 0.3, divmod(nd, 0.3), ni // (ni - 1), ni % (ni - 1)",
    "nb + nb, nb * 2, nb & nb, ~nb, nb.sum(), nb.mean(), n.astype('uint8') + n.astype('int8')",
    # arrays and scalars
    "type(n.sum()), n.sum().dtype, n[0, 0] + 1, n[0].dot(n[1]), np.float32(n[0, 0]), x + 1",
    "isinstance(nd.sum(), float), isinstance(n.sum(), np.floating), x + 1",
    "n.reshape(-1)[:1].reshape(()), np.array(1.5) + n, np.asarray(n) is n, x + 1",
    # NumPy's own Python
    "n.mean(), n.mean(0), n.std(1), n.var(ddof=1), np.ptp(n), np.average(n, axis=0)",
    "np.stack([n, n], 1), np.vstack([n, n]), np.hstack([n, n]), np.split(nd, 2), np.concatenate([n, nd[None]])",
    "np.roll(n, 1, 0), np.diff(n), np.tile(n, (2, 1)), np.outer(nd, nd), np.kron(n, n), np.cross(n[:, :3], n[:, 1:])",
    "np.linspace(0, 1, 5) + x.numpy()[0, 0], np.arange(4) * nd, np.eye(4) @ nd, np.full((2,), 3) + ni[:2]",
    "np.linalg.norm(n), np.linalg.norm(n, axis=1), np.trace(n), np.tril(n), np.gradient(nd)",
    "np.fft.fft(nd), np.fft.ifft(nd), np.fft.rfft(n).real, np.fft.fftshift(nd)",
    "np.clip(n, 0, 0.5), np.round(n, 1), np.nan_to_num(n), np.sign(n), np.isclose(n, 0.1)",
    "np.cumsum(n), np.cumsum(ni, 0), np.sort(n, 0), np.argsort(n, kind='stable'), np.argmax(n, 1)",
    "np.meshgrid(nd, nd), np.pad(n, 1), np.cov(n), np.interp is not None, np.trapezoid(nd)",
    # indexing
    "n[[0, 2]], n[:, [1, 1]], n[ni[:3]], n[np.array([[0, 1], [1, 2]])], n[n.argmax() % 3, 0]",
    "n[n > 0], n[nb[:3]], n[np.abs(n) > 0.5].sum()",
    "w.numpy(force=True) + 1",
    "n[n > 0] = 0\nn",
    "n[[0, 1], [1, 2]] = 7\nn",
    "[row.sum() for row in n]",
    # writes
    "n += 1\nn",
    "n *= n\nn",
    "np.add(n, 1, out=n), n",
    "np.exp(n, out=n, where=n > 0)\nn",
    "n.fill(3)\nn",
    "n.sort()\nn",
    "v = n[1:]\nv += 1\nn",
    "np.copyto(n, 0)\nn",
    "with np.errstate(divide='ignore'):\n    r = 1 / (n - n)\nr",
    "float(n[0, 0]), int(ni[1]), n[0, 1].item(), n[0].tolist(), x + 1",
]

BREAKS = [
    ("t = x + 1\nn.argsort(), t", "numpy"),
    ("t = x + 1\nn[::-1], t", "numpy"),
    ("t = x + 1\nni ** -ni, t", "numpy"),
    ("t = x + 1\nni << ni, t", "numpy"),
    ("t = x + 1\nn.astype('uint8') + 300, t", "numpy"),
    ("t = x + 1\nnp.diagonal(n), t", "numpy"),
    ("t = x + 1\nnp.linalg.svd(n), t", "numpy"),
    ("t = x + 1\nn.astype('f2').sum(), t", "numpy"),
    ("w.numpy()", "scalar-read"),
]


@table(CAPTURED)
def test_captured(row):
    assert check_row(row).counts["frames"] == 1


@table(BREAKS)
def test_breaks(row):
    check_row(row)


def test_scalars_of_numpy_are_keys_equal_to_pythons_numbers():
    table = {np.int64(3): 1.0, np.float64(2.5): 2.0, 7: 4.0, (np.int8(1), 2): 8.0}
    chosen = {np.float32(1.5), np.int64(3)}

    def look_up(x, key):
        found = x * table[key], key in table, table.get(key), {key: x}, {key} & chosen
        return *found, table[3] + table[2.5] + table[np.int32(7)] + table[1, 2], [*table]

    compiled = capture(look_up, fullgraph=True, recompile_limit=64)
    keys = [3, np.int64(3), np.float64(3), 3.0, np.uint8(7), 7, np.float32(2.5), 2.5, np.int64(3)]

    def agree():
        for key in keys:
            assert repr(compiled(torch.ones(2), key)) == repr(look_up(torch.ones(2), key))

    agree()
    with stages.collect() as log:
        agree()
    assert not log.counts["graphs"], "equal keys of the same classes are compiled once"
    table[3] = 5.0  # the key stays a NumPy scalar
    agree()
    table[3] = table.pop(3)  # it becomes a number of Python's
    agree()
    for absent in (np.int64(4), np.float32("nan")):
        with pytest.raises(KeyError) as wanted:
            look_up(torch.ones(2), absent)
        with pytest.raises(KeyError, match=re.escape(str(wanted.value))):
            compiled(torch.ones(2), absent)


def test_zeros_of_numpy_as_keys_are_told_apart_by_their_signs():
    table = {np.float32(0.0): 1.0}

    def show(x):
        return x + table[0], [str(key) for key in table]

    compiled = capture(show, fullgraph=True)
    assert compiled(torch.ones(1)) == show(torch.ones(1))
    table[np.float32(-0.0)] = table.pop(0)
    assert compiled(torch.ones(1))[1] == ["-0.0"]


SCALAR_PROGRAMS = [
    lambda s: (s.astype(np.int64), s.copy(), s.T, s.squeeze(), s.reshape(()), s.transpose()),
    lambda s: (s.view(np.int32), np.arange(3, dtype=np.int32).view("f4"), s.ravel()),
    lambda s: ("large" if s * 2 > 1 else "small", max(s, np.float32(2)), min(3, s), s in (1.5, 2)),
    lambda s: (int(s), round(s, 1), list(range(int(s) + 1)), [1, 2, 3][int(s)], bool(s)),
    lambda s: (str(s), f"{s:.2f} {s}", repr(s + 1), hash(s) == hash(1.5)),
]


@pytest.mark.parametrize("program", SCALAR_PROGRAMS)
def test_a_scalar_from_outside_is_a_scalar_of_the_same_class_and_value(program):
    def f(x, s):
        return x * 2, program(s)

    compiled = capture(f, fullgraph=True)
    with stages.collect() as log:
        for value in (np.float32(1.5), np.float32(0.25), np.float32(1.5)):
            given, wanted = compiled(torch.ones(2), value)[1], program(value)
            assert repr(given) == repr(wanted)
            assert [type(part) for part in given] == [type(part) for part in wanted]
    assert log.counts["graphs"] <= 2


def test_a_scalar_that_varies_is_fixed_a_few_times_only():
    def f(x, s):
        return x * s if s > 0.5 else x - s

    compiled = capture(f, recompile_limit=8)
    with stages.collect() as log:
        for value in np.linspace(0, 1, 20, dtype=np.float32):
            torch.testing.assert_close(compiled(torch.ones(2), value), f(torch.ones(2), value))
    assert log.counts["graphs"] < 12


@pytest.mark.parametrize("kind", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("seed", range(4))
def test_quantiles_are_those_of_numpy(kind, seed):
    """Places, interpolation, NaN and infinities, dtypes and shapes are NumPy's own."""
    random = np.random.default_rng(seed)
    for shape in ((5,), (1,), (4, 3), (2, 3, 4)):
        array = (random.normal(size=shape) * 50 + 60).clip(0, 200).astype(kind)
        if kind.startswith("f") and seed:
            array.flat[random.integers(array.size)] = (np.nan, np.inf, -np.inf)[seed - 1]
        for q in (0, 1.0, 0.3, [0.1, 0.9], [0, 1]):
            for axis, keepdims in ((None, False), (0, True), (-1, False)):

                def program(a, q=q, axis=axis, keepdims=keepdims):
                    percent = [100 * part for part in q] if isinstance(q, list) else 100 * q
                    return (
                        np.quantile(a, q, axis=axis, keepdims=keepdims),
                        np.percentile(a, percent, axis, keepdims=keepdims),
                    )

                given = minitorch2.compile(program, backend="eager", fullgraph=True)(array)
                for mine, theirs in zip(given, program(array), strict=True):
                    assert type(mine) is type(theirs) and mine.dtype == theirs.dtype
                    np.testing.assert_array_equal(mine, theirs, strict=True)


@pytest.mark.parametrize("q", [1.5, [-0.1, 0.5]])
def test_quantiles_outside_of_their_range(q):
    for function in (np.quantile, lambda a, q: np.percentile(a, np.multiply(q, 100).tolist())):
        with pytest.raises(ValueError, match=r"must be in the range"):
            minitorch2.compile(function, backend="eager")(np.ones(3), q)


def test_flags_of_an_array_from_outside():
    def program(a):
        flags = a.flags
        return a.sum(), flags.c_contiguous, flags.f_contiguous, flags.owndata, flags.writeable

    fast = minitorch2.compile(program, backend="eager", fullgraph=True)
    whole = np.ones((4, 4))
    for array in (whole, whole[:2], whole.T, whole[:, ::2], np.asfortranarray(whole)):
        assert fast(array) == program(array)
