"""Functions whose traces could be wrong for other inputs: what PyTorch 2's paper calls unsound.

Each looks at something that is not in the operators: data, sizes, modes, the state of Python.
"""

import random
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).name
WEIGHT = torch.full((4,), 2.0, requires_grad=True)
CALLS = []


def branch_on_data(x):
    if x.sum() > 0:
        return x.relu()
    return x.sigmoid()


def branch_on_size(x):
    return x * 2 if x.shape[0] > 3 else x


def length(x):
    return x * len(x)


def item(x):
    return x + x.max().item()


def list_of_numbers(x):
    return x * x[0].tolist()[0]


def without_gradients(x):
    with torch.no_grad():
        y = x * WEIGHT
    return (y * WEIGHT).sum()


def global_list(x):
    CALLS.append(1)
    return x * len(CALLS)


def order_of_a_dict(x):
    total = torch.zeros(())
    for value in x.values():
        total = total * 2 + value.sum()
    return total


def number_of_python(x):
    return x * random.random()


def numpy_function(x):
    return x + torch.from_numpy(np.sin(x.detach().numpy()))


def range_over_a_size(x):
    total = x
    for i in range(x.shape[0]):
        total = total + i * x
    return total


class Flag(torch.nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x


UNSOUND = [
    branch_on_data,
    branch_on_size,
    length,
    item,
    list_of_numbers,
    without_gradients,
    global_list,
    order_of_a_dict,
    Flag,
    number_of_python,
    numpy_function,
    range_over_a_size,
]


def inputs(function, rows, sign):
    """Return an argument; ``sign`` decides the data and what else may differ between calls."""
    x = sign * (torch.arange(rows * 4.0).reshape(rows, 4) + 1)
    if function is not order_of_a_dict:
        return x
    return {"a": x, "b": x * 3} if sign > 0 else {"b": x * 3, "a": x}
