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


def write_to_an_input(x):
    x.mul_(2)
    return x + 1


def random_branch(x):
    return x * 2 if random.random() > 0.5 else x - 1


def list_that_grows(x):
    parts = [x]
    while len(parts) < 6 and parts[-1].sum() < 300:
        parts.append(parts[-1] * 2)
    return torch.stack(parts).sum(0)


def appended_argument(rows):
    rows.append(rows[0] * 2)
    return torch.stack(rows).sum(0)


def argument_that_may_be_none(pair):
    x, bias = pair
    return x if bias is None else x + bias


def changed_dict(x):
    x["sum"] = sum(x.values())
    return x["sum"] * 2


def dtype_switch(x):
    return x.float() * 2 if x.dtype == torch.float64 else x.double() + 1


def attribute_of_an_object(x):
    return x * SCALE.factor


def strides(x):
    return x.reshape(-1) * 2 if x.is_contiguous() else x.reshape(-1) * 3


class Scale:
    """The calls change it: see `inputs`."""

    factor = 1


SCALE = Scale()


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
    write_to_an_input,
    random_branch,
    list_that_grows,
    appended_argument,
    argument_that_may_be_none,
    changed_dict,
    dtype_switch,
    attribute_of_an_object,
    strides,
]

EXAMPLE = 5, 1
OTHERS = [(rows, sign) for rows in (5, 2, 1, 7, 4, 12) for sign in (1, -1)][1:]
"""Numbers of rows, and signs of the data, that differ from the example in one of both."""


def inputs(function, rows, sign):
    """Return an argument; ``sign`` decides the data and what else may differ between calls."""
    x = sign * (torch.arange(rows * 4.0).reshape(rows, 4) + 1)
    SCALE.factor = 2.0 + sign
    if function in (order_of_a_dict, changed_dict):
        return {"a": x, "b": x * 3} if sign > 0 else {"b": x * 3, "a": x}
    if function is appended_argument:
        return [x + place for place in range(rows)]
    if function is argument_that_may_be_none:
        return x, (x * 2 if sign > 0 else None)
    if function is dtype_switch and sign < 0:
        return x.double()
    if function is strides and sign < 0:
        return x.t().contiguous().t()
    return x
