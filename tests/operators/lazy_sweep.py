"""PyTorch's operator database in deferred execution: values and gradients against eager mode.

    python -m tests.operators.lazy_sweep --limit 4
    python -m tests.operators.lazy_sweep --dtypes float32,int64,complex64 --ops tensor_split,cat
    python -m tests.operators.lazy_sweep --every 12 --limit 2       a sample of the operators
    python -m tests.operators.lazy_sweep --every 4 --start 1        the second quarter

Each call is deferred in a region and with lazy inputs, in a step that runs operator by operator and
in one that is compiled. Steps of one operator share places of the trie, so that the sizes and
numbers of later samples become symbols.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map_only

from minitorch2 import config, lazy
from tests.operators.compare import TOLERANCES, UNDEFINED
from tests.operators.sweep import OPERATORS

REGION, INPUTS = "region", "lazy inputs"
NEEDS_REGION = {"tensor_split"}
"""PyTorch reads the indices in C++, before an operator is called: only a region sees the call."""


def call(op: OpInfo, sample: SampleInput, make: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return the results of an operator and the gradients of its inputs."""

    def fresh(tensor: torch.Tensor) -> torch.Tensor:
        return make(tensor.detach().clone()).requires_grad_(tensor.requires_grad)

    arguments = tree_map_only(torch.Tensor, fresh, (sample.input, sample.args, sample.kwargs))
    first, others, named = arguments
    torch.manual_seed(0)
    out = op.op(first, *others, **named)
    outs = [o for o in tensors_of(out) if o.requires_grad]
    inputs = [t for t in tensors_of(arguments) if t.requires_grad]
    if not outs or not inputs:
        return out, ()
    totals = [o.abs().sum() for o in outs]
    return out, torch.autograd.grad(totals, inputs, allow_unused=True)


CASES: Counter[bool] = Counter()
"""How many samples were deferred as a whole, and how many were not, when they came again."""


def tensors_of(tree: Any) -> list[torch.Tensor]:
    """Return the tensors of a nested structure."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def real(tree: Any) -> Any:
    """Return results with ordinary tensors that have no history."""
    return tree_map_only(torch.Tensor, lambda t: lazy.to_eager(t.detach()), tree)


def deferred(op: OpInfo, sample: SampleInput, way: str, compile_after: int) -> Iterator[Any]:
    """Yield what `call` returns when its operators are new, and when they are deferred."""
    options = {"backend": "aot_eager", "lazy_compile_after": compile_after}
    is_region = way == REGION
    for is_known in (False, True):
        before = lazy.metrics().counts.fallbacks.total()
        with (
            config.patch(**options),
            lazy.lazily(eager_first=False) if is_region else nullcontext(),
        ):
            made = call(op, sample, (lambda t: t) if is_region else lazy.to_lazy)
            lazy.mark_step()
            if is_known and is_region and compile_after > 1:
                CASES[lazy.metrics().counts.fallbacks.total() == before] += 1
            yield real(made)


def differences(op: OpInfo, dtype: torch.dtype, limit: int) -> Iterator[str]:
    """Yield one line for each sample and way in which deferred execution differs from eager."""
    for number, sample in enumerate(samples_of(op, dtype, limit)):
        try:
            wanted = real(call(op, sample, lambda t: t))
        except Exception:  # eager mode refuses this sample
            continue
        for way in (REGION,) if op.name in NEEDS_REGION else (REGION, INPUTS):
            for compile_after in (99, 1):
                try:
                    for given in deferred(op, sample, way, compile_after):
                        check(given, wanted, dtype)
                except Exception as error:
                    what = "compiled" if compile_after == 1 else "operator by operator"
                    text = f"{type(error).__name__}: {error}".replace("\n", " ")
                    yield f"sample {number}, {way}, {what}: {text[:200]}"
                    lazy.reset()


def samples_of(op: OpInfo, dtype: torch.dtype, limit: int) -> list[SampleInput]:
    """Return the first samples of an operator, with gradients where it has them."""
    gradients = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    try:
        found = op.sample_inputs("cpu", dtype, requires_grad=gradients)
        return [sample for sample, _ in zip(found, range(limit), strict=False)]
    except Exception:  # some need a library that is not there
        return []


def check(given: Any, wanted: Any, dtype: torch.dtype) -> None:
    """Raise AssertionError if results differ."""
    relative, absolute = TOLERANCES.get(dtype, (0, 0))
    torch.testing.assert_close(
        given, wanted, rtol=relative, atol=absolute, equal_nan=True, check_stride=False
    )


def sweep(names: Sequence[str], dtypes: Sequence[torch.dtype], limit: int) -> dict[str, list[str]]:
    """Return the differences by operator and dtype; an empty list where there is none."""
    found: dict[str, list[str]] = {}
    for name in names:
        for dtype in dtypes:
            op = OPERATORS[name]
            if op.name not in UNDEFINED and dtype in op.dtypes:
                lazy.reset()
                found[f"{name} {dtype}"] = [*differences(op, dtype, limit)]
    return found


def main() -> None:
    """Print the operators that differ, by the first words of the difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", default=",".join(OPERATORS))
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = options.ops.split(",")[options.start :: options.every]
    dtypes = [getattr(torch, name) for name in options.dtypes.split(",")]
    found = sweep(names, dtypes, options.limit)
    causes: dict[str, list[str]] = defaultdict(list)
    for name, lines in found.items():
        for line in lines:
            causes[line.partition(", ")[2]].append(name)
    for line, where in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"{len(where):4} {line}\n       {', '.join(sorted(set(where))[:8])}")
    print(f"{len(found)} operators, {sum(map(bool, found.values()))} differ")
    print(f"{CASES[True]} of {CASES.total()} samples deferred: {CASES[True] / CASES.total():.1%}")


if __name__ == "__main__":
    main()
