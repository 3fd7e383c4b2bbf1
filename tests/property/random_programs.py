"""Random tensor programs: a list of steps over a growing list of tensors.

A step is a name and small integers; what does not apply to the tensors at hand (an eager error) is
left out by a dry run, so that each program that remains is valid in eager, backward included.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

Step = Callable[[list[Tensor], int, int], Any]

VIEWS: dict[str, Step] = {
    "t": lambda v, i, j: v[i].transpose(0, -1),
    "flat": lambda v, i, j: v[i].view(-1),
    "reshape": lambda v, i, j: v[i].reshape(-1, 2),
    "row": lambda v, i, j: v[i][j % len(v[i])],
    "slice": lambda v, i, j: v[i][j % 3 : 3],
    "stride": lambda v, i, j: v[i][..., ::2],
    "unsqueeze": lambda v, i, j: v[i].unsqueeze(j % 2),
    "squeeze": lambda v, i, j: v[i].squeeze(),
    "narrow": lambda v, i, j: v[i].narrow(-1, j % 2, 1),
    "diagonal": lambda v, i, j: v[i].diagonal(),
    "expand": lambda v, i, j: v[i].unsqueeze(0).expand(2, *v[i].shape),
    "detach": lambda v, i, j: v[i].detach(),
    "split": lambda v, i, j: v[i].split(2)[0],
}
WINDOWS: dict[str, Step] = {
    "as_strided": lambda v, i, j: v[i].as_strided((2, 2), (j + 1, 1)),
    "as_strided_at": lambda v, i, j: v[i].as_strided((2, 3), (3, 1), v[i].storage_offset() + j),
    "unfold": lambda v, i, j: v[i].unfold(-1, 2, j + 1),
    "complex": lambda v, i, j: torch.view_as_complex(v[i].unflatten(-1, (-1, 2))).t(),
    "real": lambda v, i, j: torch.view_as_real(v[i])[..., j % 2],
    "imag": lambda v, i, j: v[i].conj().imag,
    "movedim": lambda v, i, j: v[i].movedim(0, -1),
    "unflatten": lambda v, i, j: v[i].unflatten(-1, (2, -1)),
    "other_diagonal": lambda v, i, j: v[i].diagonal(j % 3 - 1, 0, -1),
    "as_ints": lambda v, i, j: v[i].view(torch.int32),
}
"""Views that few programs take, for which functionalization has rules of its own."""

WRITES: dict[str, Step] = {
    "add_": lambda v, i, j: v[i].add_(j),
    "mul_": lambda v, i, j: v[i].mul_(0.5),
    "zero_": lambda v, i, j: v[i].zero_(),
    "add_other_": lambda v, i, j: v[i].add_(v[j % len(v)]),
    "copy_": lambda v, i, j: v[i].copy_(v[j % len(v)]),
    "set_row": lambda v, i, j: v[i].__setitem__(0, float(j)),
    "set_column": lambda v, i, j: v[i].__setitem__((slice(None), 0), v[i][:, -1] * 2),
    "clamp_": lambda v, i, j: v[i].clamp_(-1, 1),
    "masked_": lambda v, i, j: v[i].masked_fill_(v[i] > 0, 0.25),
}
ALONE = {name: WRITES[name] for name in WRITES if name not in ("add_other_", "copy_")} | {
    "add_copy_": lambda v, i, j: v[i].add_(v[j % len(v)].clone()),
}
"""Writes of what is nowhere in the memory that is written to: else eager's result has no order."""

VALUES: dict[str, Step] = {
    "sin": lambda v, i, j: v[i].sin(),
    "scale": lambda v, i, j: v[i] * (j + 1),
    "add": lambda v, i, j: v[i] + v[j % len(v)],
    "mul": lambda v, i, j: v[i] * v[j % len(v)],
    "sigmoid": lambda v, i, j: torch.sigmoid(v[i]),
    "relu": lambda v, i, j: torch.relu(v[i]),
    "where": lambda v, i, j: torch.where(v[i] > 0, v[i], v[j % len(v)]),
    "sum": lambda v, i, j: v[i].sum(j % max(v[i].dim(), 1)),
    "mean": lambda v, i, j: v[i].mean(-1, keepdim=True),
    "amax": lambda v, i, j: v[i].amax(-1),
    "softmax": lambda v, i, j: v[i].softmax(-1),
    "layer_norm": lambda v, i, j: torch.nn.functional.layer_norm(v[i], v[i].shape[-1:]),
    "matmul": lambda v, i, j: v[i] @ v[i].transpose(-1, -2),
    "gelu": lambda v, i, j: torch.nn.functional.gelu(v[i]),
    "dropout": lambda v, i, j: torch.nn.functional.dropout(v[i], 0.5),
    "cat": lambda v, i, j: torch.cat([v[i], v[i]]),
    "clone": lambda v, i, j: v[i].clone(),
    "index": lambda v, i, j: v[i][torch.tensor([0, 1, 0])],
    "var": lambda v, i, j: v[i].var(-1),
}


@dataclass(frozen=True)
class RandomProgram:
    """Steps, and which of the tensors are returned. Calling it runs it."""

    steps: tuple[tuple[str, int, int], ...]
    returned: tuple[int, ...]

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        for step in self.steps:
            run(step, values)
        return tuple(values[i % len(values)] for i in self.returned)

    def valid_on(self, inputs: Sequence[Tensor]) -> "RandomProgram":
        """Without the steps that eager refuses."""
        values, steps = list(inputs), []
        for step in self.steps:
            try:
                run(step, values)
            except (RuntimeError, IndexError, TypeError, ZeroDivisionError):
                continue
            steps.append(step)
        return RandomProgram(tuple(steps), self.returned)


def run(step: tuple[str, int, int], values: list[Tensor]) -> None:
    name, i, j = step
    function = {**VIEWS, **WINDOWS, **WRITES, **ALONE, **VALUES}[name]
    result = function(values, i % len(values), j)
    if name not in WRITES and name not in ALONE:
        if result.numel() > 200:
            raise RuntimeError("too large")
        values.append(result)


def programs(*kinds: dict[str, Step], most_steps: int = 10) -> st.SearchStrategy[RandomProgram]:
    """Programs of these kinds of steps, up to three results."""
    names = [name for kind in kinds for name in kind]
    step = st.tuples(st.sampled_from(names), st.integers(0, 12), st.integers(0, 3))
    returned = st.lists(st.integers(0, 12), min_size=1, max_size=3).map(tuple)
    return st.builds(RandomProgram, st.lists(step, max_size=most_steps).map(tuple), returned)
