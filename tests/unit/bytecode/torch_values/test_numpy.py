"""NumPy arrays as tensors, where the meaning is the same."""

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
]

BREAKS = [
    ("t = x + 1\nni / 2, t", "numpy"),
    ("t = x + 1\nn + nd, t", "numpy"),
    ("t = x + 1\nn[n > 0], t", "numpy"),
    ("t = x + 1\nn.argsort(), t", "numpy"),
    ("t = x + 1\nni + 0.5, t", "numpy"),
    ("w.numpy()", "scalar-read"),
    ("t = x + 1\nnp.linalg.norm(n), t * 2", "builtin-method"),
    ("t = x + 1\nfloat(n[0, 0]), t * 2", "numpy"),
]


@table(CAPTURED)
def test_captured(row):
    check_row(row)


@table(BREAKS)
def test_breaks(row):
    check_row(row)
