"""The strides that fake tensors promise are eager mode's, those of short dimensions included.

    python -m tests.operators.stride_sweep --every 4 --start 0
    python -m tests.operators.stride_sweep --ops flip,sort,maximum

No element is reached by the stride of a dimension of one element, or of none. PyTorch's meta
kernels and its real ones give such dimensions different strides, and a program can see them. Each
overload that a sample of PyTorch's operator database reaches is called again with tensors whose
dimensions have been narrowed to one element or none, and with strange strides. Each operator runs
in a process of its own: some kernels read indices of narrowed tensors without a check.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from minitorch2.graph.fake_tensor import FakeConverter, FakeTensor
from tests.operators.sweep import OPERATORS

STRANGE = 7
SAMPLES = 6
MOST_ELEMENTS = 4096
KNOWN = {
    "aten._fft_r2c.default": "of dimensions with equal strides, either may be the outer one",
    "aten._fft_c2r.default": "the library's order of dimensions, for layouts that it likes",
    "aten._embedding_bag.default": "a CPU makes what its fast path needs for backward",
    "aten.native_batch_norm.default": "a CPU gives no statistics in evaluation mode",
    "aten._native_batch_norm_legit.default": "a CPU gives no statistics in evaluation mode",
    "aten._batch_norm_with_update.default": "strides of one element say which order it is",
    "aten.max_unpool2d.default": "channels-last order is told by the stride of one element alone",
    "aten.rot90.default": "flipped without elements, a view keeps the strides and a copy does not",
}  # fmt: skip
"""Overloads whose forms differ still, and why."""


def forms(tree: Any) -> list[Any]:
    """Return size, stride, offset and dtype of each tensor of a nested structure."""
    return [
        (tuple(t.shape), t.stride(), int(t.storage_offset()), t.dtype)
        for t in tree_leaves(tree)
        if isinstance(t, torch.Tensor) and t.layout is torch.strided
    ]


# Other arguments ----------------------------------------------------------------------------------


def narrowed(dims: Sequence[int], size: int, x: torch.Tensor) -> torch.Tensor:
    """Return a part of a tensor; the strides stay those of the whole."""
    for dim in dims:
        if dim < x.dim() and x.size(dim) >= size:
            x = x.narrow(dim, 0, size)
    return x


def strange(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose short dimensions have a stride that nothing else gives."""
    strides = [STRANGE if n < 2 else by for n, by in zip(x.shape, x.stride(), strict=True)]
    return x.as_strided(x.shape, strides)


def changes(rank: int) -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    """Yield ways to change all tensors of a call."""
    yield lambda x: x
    yield strange
    for dim in range(min(rank, 4)):
        yield partial(narrowed, [dim], 1)
        yield partial(narrowed, [dim], 0)
    yield partial(narrowed, range(rank), 1)
    yield partial(narrowed, range(rank - 1), 1)


# Calls --------------------------------------------------------------------------------------------


class _Calls(TorchDispatchMode):  # type: ignore[misc]  # untyped in PyTorch
    """Compares each call of an overload, changed in several ways; collects the differences."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.compared = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        is_small = all(t.layout is torch.strided and t.numel() <= MOST_ELEMENTS for t in tensors)
        needs_data = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
        if tensors and is_small and not needs_data.intersection(func.tags):
            for change in changes(max(t.dim() for t in tensors)):
                with suppress(Exception):  # eager mode refuses it, or no meta kernel is there
                    self.compare(func, change, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def compare(
        self,
        func: Any,
        change: Callable[[torch.Tensor], torch.Tensor],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        """Call an overload on real and on fake tensors."""

        def real(x: torch.Tensor) -> torch.Tensor:
            form = change(x)
            made = torch.empty_strided(form.shape, form.stride(), dtype=x.dtype)
            return made.copy_(form)

        given, named = tree_map_only(torch.Tensor, real, (args, dict(kwargs)))
        fakes = tree_map_only(torch.Tensor, FakeConverter().convert, (given, named))
        before = forms((given, named))
        wanted = forms(func(*given, **named))
        made = func(*fakes[0], **fakes[1])
        self.compared += 1
        is_fake = any(isinstance(leaf, FakeTensor) for leaf in tree_leaves(made))
        if is_fake and forms(made) != wanted:
            others = [v for v in tree_leaves((given, named)) if not isinstance(v, torch.Tensor)]
            text = f"{before} {others}: {forms(made)} is not {wanted}"
            self.found.setdefault(str(func), text.replace("\n", " "))


def differences(name: str) -> tuple[dict[str, str], int]:
    """Return a difference for each overload that samples of an operator reach, and the calls."""
    op, calls = OPERATORS[name], _Calls()
    with suppress(Exception):  # some samples need a library that is not there
        samples = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
        for sample, _ in zip(samples, range(SAMPLES), strict=False):
            with suppress(Exception), calls:
                torch.manual_seed(0)
                out = op.op(sample.input, *sample.args, **sample.kwargs)
                _differentiate(out, (sample.input, sample.args, sample.kwargs))
    return {n: text for n, text in calls.found.items() if n not in KNOWN}, calls.compared


def _differentiate(out: Any, arguments: Any) -> None:
    outs, ins = (
        [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor) and t.requires_grad]
        for tree in (out, arguments)
    )
    if outs and ins:
        torch.autograd.grad([o.abs().sum() for o in outs], ins, allow_unused=True)


def in_a_process(name: str, seconds: int) -> list[str] | None:
    """Return the lines that a process prints which compares one operator; None if it died."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        signal.alarm(seconds)
        found, compared = differences(name)
        lines = [f"{compared}", *(f"{overload} {text}" for overload, text in found.items())]
        os.write(writing, "\n".join(lines).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(process, 0)
    return None if status else lines


def main() -> None:
    """Print the overloads that differ; the status is 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", default=",".join(OPERATORS))
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=20, help="the most for one operator")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, str] = {}
    compared = 0
    names = options.ops.split(",")[options.start :: options.every]
    died = []
    for name in names:
        told = in_a_process(name, options.seconds)
        if told is None:  # a kernel has read outside of its memory, or it took too long
            died.append(name)
            continue
        count, *lines = told
        compared += int(count)
        found |= dict(line.split(" ", 1) for line in lines)
    for overload, text in sorted(found.items()):
        print(f"{overload}: {text[:300]}")
    print(f"{len(died)} operators are not compared, since their process died: {', '.join(died)}")
    print(f"{len(names)} operators, {compared} calls compared, {len(found)} overloads differ")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
