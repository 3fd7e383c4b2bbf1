"""How many operators tell the form of their result without data, and how many for symbolic sizes.

The PyTorch 2 paper counts meta functions for 2,657 of 3,028 operator overloads (section 5.1). Here
kernels are counted, too, and then tried: PyTorch's own samples of its operators are run on small
tensors, and each overload that such a run reaches is asked again on fake tensors. Size, stride and
dtype of the answer must be those of the real result; once with numbers as sizes, once with symbols.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from minitorch2.errors import UnsupportedError
from minitorch2.graph.fake_kernels import FAKE_KERNELS
from minitorch2.graph.fake_tensor import FakeConverter, FakeMode, operator_facts
from minitorch2.graph.symbols import ShapeEnv, expr_of

Operator = torch._ops.OpOverload
PAPER: Final = (2657, 3028)
KERNELS: Final = (
    "Meta", "CompositeImplicitAutograd", "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)  # fmt: skip
"""Kinds of kernels that run on tensors without data."""
SAMPLES: Final = 4
"""So many samples of each operator are run."""
LARGEST: Final = 4096
"""Calls with more elements than this in a tensor are not tried."""


@dataclass
class Coverage:
    """The counts; sets hold names of overloads.

    Attributes:
        overloads: all of PyTorch's own (``aten``).
        kernels: those with a kernel that runs without data, PyTorch's or ours.
        reached: those that a sample has called.
        fake: of these: with the right form, without data.
        symbolic: with the right form for symbolic sizes.
        data: whose result's form, or value, is in the data.
        failures: why the others are not among `symbolic`.
    """

    overloads: set[str] = field(default_factory=set)
    kernels: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    fake: set[str] = field(default_factory=set)
    symbolic: set[str] = field(default_factory=set)
    data: set[str] = field(default_factory=set)
    failures: dict[str, str] = field(default_factory=dict)


def run(only: str, folder: Path, console: Console) -> int:
    """Count, print and write JSON. The status is 1 if a fake result had a wrong form."""
    coverage = measure(only, lambda operators: track(operators, "meta_coverage"))
    console.print(table(coverage))
    named = {name: sorted(found) for name, found in vars(coverage).items() if name != "failures"}
    counts = {name: len(found) for name, found in named.items()}
    missing = {"without a kernel": sorted(coverage.overloads - coverage.kernels)}
    report = {"torch": torch.__version__, "counts": counts, **missing, "tried": coverage.failures}
    if not only:
        folder.mkdir(exist_ok=True)
        (folder / "meta_coverage.json").write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any(why.startswith("wrong") for why in coverage.failures.values()) else 0


Watch = Callable[[list[Any]], Iterable[Any]]
"""Goes through a list, and may show how far it has come."""


def measure(only: str = "", watch: Watch = iter) -> Coverage:
    """Count kernels, then try what the samples of operators whose name contains `only` reach."""
    coverage = Coverage()
    for operator in overloads():
        coverage.overloads.add(str(operator))
        if has_kernel(operator):
            coverage.kernels.add(str(operator))
    for call in calls(only, watch):
        name = str(call.operator)
        coverage.reached.add(name)
        if operator_facts(call.operator).needs_data:
            coverage.data.add(name)
        elif name not in coverage.symbolic:
            _try(call, coverage)
    coverage.data -= coverage.symbolic
    return coverage


def overloads() -> Iterator[Operator]:
    """PyTorch's own operator overloads."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if namespace == "aten":
            found = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
            if isinstance(found, Operator):
                yield found


def has_kernel(operator: Operator) -> bool:
    """Whether an operator has a kernel that needs no data."""
    name = operator.name()
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return operator in FAKE_KERNELS or any(has(name, kind) for kind in KERNELS)


# Trying them --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A call of an overload with small real tensors, and its result."""

    operator: Operator
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any


class _Recorder(TorchDispatchMode):  # type: ignore[misc]  # untyped in PyTorch
    """Keeps the calls that a sample makes, of overloads that change none of their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(
        self,
        func: Operator,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        tensors = [v for v in tree_leaves((args, kwargs, result)) if isinstance(v, torch.Tensor)]
        is_small = all(t.layout is torch.strided and t.numel() <= LARGEST for t in tensors)
        if func.namespace == "aten" and is_small and not func._schema.is_mutable:
            self.calls.append(Call(func, args, kwargs, result))
        return result


def calls(only: str, watch: Watch) -> Iterator[Call]:
    """What samples of PyTorch's operator database call, forward."""
    # Imported here: it takes seconds, and only this suite needs it.
    from torch.testing._internal.common_methods_invocations import op_db

    chosen = [op for op in op_db if only in op.name and "sparse" not in op.name]
    warnings.simplefilter("ignore")  # samples use what is deprecated, too
    for op in watch(chosen):
        dtype = torch.float32 if torch.float32 in op.dtypes else next(iter(op.dtypes), None)
        recorder = _Recorder()
        try:
            samples = list(zip(range(SAMPLES), op.sample_inputs("cpu", dtype)))
            for _, sample in samples:
                with recorder, torch.no_grad():
                    op(sample.input, *sample.args, **sample.kwargs)
        except (RuntimeError, TypeError, ValueError, AssertionError):
            pass  # samples for another device or build; what was called so far counts
        yield from recorder.calls


def _try(call: Call, coverage: Coverage) -> None:
    name = str(call.operator)
    for reached, env in ((coverage.fake, None), (coverage.symbolic, ShapeEnv())):
        try:
            why = compare(call, env)
        except UnsupportedError as error:
            why = f"{error.code}: {error.cause}"
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        if why is not None:
            coverage.failures.setdefault(name, f"{why} ({'sizes' if env else 'fake'})")
            return
        reached.add(name)
    coverage.failures.pop(name, None)


def compare(call: Call, env: ShapeEnv | None) -> str | None:
    """Run a call on fakes, with symbolic sizes if there is an environment; what is wrong."""
    converter = FakeConverter()

    def fake(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if env is None or not value.is_contiguous():
            return converter.convert(value)
        sizes = [env.input_size((id(value), d), n) for d, n in enumerate(value.shape)]
        return converter.convert(value, sizes)

    args, kwargs = tree_map(fake, (call.args, dict(call.kwargs)))
    with FakeMode():
        result = call.operator(*args, **kwargs)
    given, wanted = (
        [form(leaf, env) for leaf in tree_leaves(value)] for value in (result, call.result)
    )
    return None if given == wanted else f"wrong: {given} is not {wanted}"


def form(value: Any, env: ShapeEnv | None) -> Any:
    """Size, stride and dtype of a tensor as plain numbers; other values as they are."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    number = (lambda n: int(env.hint(expr_of(n)))) if env else int
    size = tuple(map(number, value.shape))
    strides = tuple(map(number, value.stride()))
    seen = [stride for n, stride in zip(size, strides) if n > 1] if 0 not in size else []
    return size, seen, value.dtype


def table(coverage: Coverage) -> Table:
    """The counts, each as a share of what it is counted of."""
    shown = Table(title=f"Operator overloads of PyTorch {torch.__version__}")
    for column, justify in (("", "left"), ("overloads", "right"), ("share", "right")):
        shown.add_column(column, justify=justify)  # type: ignore[arg-type]
    tried = coverage.reached - coverage.data

    def row(what: str, found: set[str], of: set[str]) -> None:
        shown.add_row(what, f"{len(found)} of {len(of)}", f"{len(found) / max(len(of), 1):.1%}")

    shown.add_row("paper: with a meta function", "2657 of 3028", f"{PAPER[0] / PAPER[1]:.1%}")
    row("here: with a kernel that needs no data", coverage.kernels, coverage.overloads)
    row("called by PyTorch's samples of its operators", coverage.reached, coverage.overloads)
    row("of these: the result's form is in the data", coverage.data, coverage.reached)
    row("of the others: right form on fake tensors", coverage.fake & tried, tried)
    row("and for symbolic sizes", coverage.symbolic & tried, tried)
    return shown
