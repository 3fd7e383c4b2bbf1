"""Reading and writing parts of tensors."""

from tests.unit.bytecode.torch_values.programs import check_row, table

KEYS = [
    "0", "-1", "1, 2", "1, -1", "s - 2", "1:", ":2", "::2", "-2:", "1:3, ::2", ":, 1", ":, None",
    "None", "None, ..., None", "...", "..., 0", "0, ...", "[0, 2]", "[0, 2], [1, 3]", ":, [1, 0]",
    "j", "j, 0", "0, j", ":, j", "j, :2", "j, j", "j[:, None], j", "None, j", "j, None", "(0, 1)",
    "[[0, 1], [1, 2]]", "torch.tensor([0, 1])", "torch.tensor(1)", "1:1", "5:", "True", "False",
    "None, True",
    "slice(1, 2)", "slice(None), 1", "tuple([0, 1])", "()", "x.shape[0] - 1", "range(2)",
    "(slice(None), [0, 1])", "i % 3", "j.int()",
]  # fmt: skip
"""Parts whose place does not depend on data."""

NUMBER_KEYS = [
    "k", "k, 0", "k, k", "..., k", "j, k", "k, None", ":, k", "k.item()", "k.item(), 1:",
    "None, :, k",
]  # fmt: skip
"""Integers that are known at run time only select views."""

READS = [
    *(f"x[{key}] + 1" for key in KEYS),
    *(f"x[{key}] + 1" for key in NUMBER_KEYS),
    *(f"w[{key}].sum() * 2" for key in NUMBER_KEYS),
    "t = x * 1\nv = t[k]\nv.add_(1)\nt, v",
    "x[k]",
    "z[k]",
    "x[k - 9]",
    "x[[True, False, True]] + 1",
    "x[0], x[1:], x[:, 1], x[None]",
    "b[0, :, 1], b[..., 0], b[:, 1, 2:], b[1, j], b[:, j, 1], b[0, ..., 0]",
    "x[0][1], x[1:][0][None]",
    "x[3]",
    "t = x + 1\nt[t > 0], t * 2",
    "t = x + 1\nt[j > 0], t * 2",
    "x[0, 0, 0]",
    "x[0.5]",
    "x['a']",
    "x[[0, 5]]",
    "e[0:0], e[:, 1]",
    "z[()], z[...], z[None]",
    "z[0]",
    "x.__getitem__(0)",
    "x[0].sum(), x[-1, -1]",
    "lst[0] + lst[1], lst[-1]",
    "lst[x.ndim - 1]",
    "x[1]",
    "w[0], w[j], w[:, 1:]",
    "x[::-1]",
]

WRITES = [
    *(f"x[{key}] = 7\nx" for key in KEYS),
    *(f"x[{key}] = 7\nx" for key in NUMBER_KEYS),
    "x[k].add_(1)\nx",
    "t = x * 1\nt[k, 1:] = w[0, 1:]\nt * w",
    "x[[True, False, True]] = 7\nx",
    "x[0] = y\nx",
    "x[:, 0] = torch.ones(3)\nx + 1",
    "x[1:, 2:] += 1\nx",
    "x[0] += y\nx[1] *= 2\nx",
    "x[m] = 0\nx",
    ("x[m] = x[0, 0]\nx", "overlap"),
    "x[x > 0] = -1\nx",
    "x[m] += 1\nx",
    "x[j] = x.clone()\nx",
    "x[j, 0] = torch.tensor(1.5)\nx",
    "t = x.clone()\nt[0] = 1\nt",
    "t = x[0]\nt[1] = 9\nx",
    "t = x[0]\nt.add_(1)\nx",
    "t = x.view(-1)\nt[0] = 9\nt, x",
    "t = torch.zeros(3, 4)\nt[0] = w[0]\nt",
    "t = torch.zeros(3, 4)\nt[:, 1] = w[:, 1] * 2\nt * w",
    "t = torch.zeros(3, 4)\nfor n_ in range(3):\n    t[n_] = y * n_\nt",
    "x[0, 0] = 1\nx[0, 0] = 2\nx[0, 0]",
    "x[...] = 0\nx",
    "x[:] = i\nx",
    "x[0] = True\nx",
    "x[3] = 1\nx",
    "x[0] = torch.ones(5)\nx",
    "x.data[0] = 3\nx",
    "x.data += 1\nx",
    "with torch.no_grad():\n    w[0] = 0\nw * 2",
    "w[0] = 1",
    "x.T[0] = 5\nx",
    "x[0], x[1] = x[1].clone(), x[0].clone()\nx",
    "x[j] = 0.0\nx.sum()",
    "x.diagonal()[:] = 1\nx",
    "x.__setitem__(0, 1)\nx",
    "t = x + 1\nt[k] = 0\nt",
    "x[0] = z\nx",
    "x[i % 2 == 0] = y.sum()\nx",
    "lst[0][1] = 5\nlst",
    "lst[0] = lst[1] + 1\nlst",
    "lst.append(x * 2)\nlst",
]

BREAKS = [
    ("t = x + 1\nt[k:], t * 2", "data-dependent"),
    ("t = x + 1\nt[:k], t * 2", "data-dependent"),
    ("x[True, :, k]", "data-dependent"),  # adds a dimension, where a number takes one
    ("x[False, :, k] = 7\nx", "data-dependent"),
]


@table(READS)
def test_reading(row):
    check_row(row)


@table(WRITES)
def test_writing(row):
    check_row(row)


@table(BREAKS)
def test_breaks(row):
    check_row(row)
