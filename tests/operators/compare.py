"""One operator's samples through a compiled function, against eager, by all that a caller sees."""

from __future__ import annotations

import copy
import itertools
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only

import minitorch2
from minitorch2 import config, stages
from minitorch2.autograd import aot_autograd
from minitorch2.graph.graph_module import GraphModule
from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.lower_graph import lower_graph

Call = Callable[..., Any]

TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-5),
    torch.float16: (5e-3, 5e-3),
    torch.bfloat16: (2e-2, 2e-2),
    torch.complex64: (1e-4, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
"""Relative and absolute; dtypes that are not here must agree exactly."""

FACTOR, ULPS = 2.0, 4.0
"""What is not within the tolerances may be so many times as far from the result in float64 as eager
is, or so many units in the last place of a tensor's largest element."""

UNDEFINED = frozenset({
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
})  # fmt: skip
"""Operators whose values mean nothing: only the results' form is compared."""

RESULTS = {
    "torch.ops.aten._efficient_attention_forward": 2, "torch.ops.aten._flash_attention_forward": 2,
}  # fmt: skip
"""How many results mean anything. Random states behind them are undefined without dropout."""

# Their element count may be larger than MAX_ELEMENTS in some samples, which are left out.
MAX_ELEMENTS = 20_000


class Difference(AssertionError):
    """The compiled function and eager can be told apart."""


class OtherStrides(Difference):
    """Only the layout in memory is different."""


@dataclass
class Outcome:
    """What came out for one operator and dtype.

    Attributes:
        status: "pass", "fallback" (right, but in part by eager's own operators), "strides" (right,
            but laid out otherwise), "wrong", "error", or "skipped" (eager raises, or no samples).
            A program without an operator left to compile passes.
        note: the first difference or error, or what fell back.
        samples: how many were compared.
    """

    status: str
    note: str = ""
    samples: int = 0
    counts: Counter[str] = field(default_factory=Counter)


def interpreted(gm: GraphModule, example_inputs: list[Any]) -> Call:
    """A backend that runs loop bodies with NumPy: all of the compiler but code generation."""
    return aot_autograd(gm, example_inputs, forward_compiler=_interpreting)


def _interpreting(gm: GraphModule, example_inputs: Any) -> Callable[[list[Any]], list[Any]]:
    lowered = lower_graph(gm, example_inputs)
    return lambda inputs: interpret(lowered, inputs)


BACKENDS: dict[str, Any] = {"interpret": interpreted, "numba": "numba", "triton": "triton",
                            "eager": "eager", "aot_eager": "aot_eager"}  # fmt: skip


def function_of(op: OpInfo) -> Call:
    """The operator's function; one of the database's own as if the user had written it here.

    Capture takes functions of PyTorch's modules as they are, and most of those are not.
    """
    function = op.op
    if (
        not isinstance(function, FunctionType)
        or "torch/testing" not in function.__code__.co_filename
    ):
        return function
    code = function.__code__.replace(co_filename=__file__)
    own = FunctionType(code, function.__globals__, function.__name__, function.__defaults__,
                       function.__closure__)  # fmt: skip
    own.__kwdefaults__ = function.__kwdefaults__
    return own


def _with_given_seed(function: Call, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


# The database seeds inside of random operators, which tracing would do at the wrong time.
common_methods_invocations.wrapper_set_seed = _with_given_seed


def samples_of(
    op: OpInfo, dtype: torch.dtype, limit: int, backward: bool = False, device: str = "cpu"
) -> list[SampleInput]:
    """The first small samples of an operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = op.sample_inputs(device, dtype, requires_grad=backward)
        return list(itertools.islice((s for s in found if _is_usable(s)), limit))


def _is_usable(sample: SampleInput) -> bool:
    tensors = _tensors(sample)
    strided = all(t.layout is torch.strided and not t.is_nested for t in tensors)
    return strided and sum(t.numel() for t in tensors) <= MAX_ELEMENTS


def _tensors(values: Any) -> list[torch.Tensor]:
    if isinstance(values, SampleInput):
        values = (values.input, values.args, values.kwargs)
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def check_operator(
    op: OpInfo,
    dtype: torch.dtype,
    backend: str = "interpret",
    limit: int = 4,
    backward: bool = False,
    seconds: int = 120,
    device: str = "cpu",
) -> Outcome:
    """Compare all samples; the first that is wrong or fails decides."""
    outcome = Outcome("skipped")
    with time_limit(seconds):
        try:
            samples = samples_of(op, dtype, limit, backward, device)
        except Exception as error:  # the database's own functions fail for some dtypes
            return Outcome("skipped", f"no samples: {_line(error)}")
        for number, sample in enumerate(samples):
            try:
                compared = check_sample(op, sample, backend, backward, outcome.counts)
            except OtherStrides as difference:
                return Outcome("strides", f"sample {number}: {_line(difference)}", number)
            except Difference as difference:
                return Outcome("wrong", f"sample {number}: {_line(difference)}", number)
            except Exception as error:
                note = f"sample {number}: {type(error).__name__}: {_line(error)}"
                return Outcome("error", note, number)
            outcome.samples += compared
    return _judged(outcome)


def _judged(outcome: Outcome) -> Outcome:
    if not outcome.samples:
        return outcome
    fell_back = [name for name in ("fallbacks", "graph_breaks") if outcome.counts[name]]
    outcome.status = "fallback" if fell_back else "pass"
    outcome.note = ", ".join(fell_back)
    return outcome


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the block when it takes longer."""

    def expire(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check_sample(
    op: OpInfo, sample: SampleInput, backend: str, backward: bool, counts: Counter[str]
) -> bool:
    """Compare one sample; False if eager itself raises.

    Raises:
        Difference: the results can be told apart.
    """

    function, count = function_of(op), RESULTS.get(op.name)

    def operator(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if count is None else function(*args, **kwargs)[:count]

    inputs = ((sample.input, *sample.args), sample.kwargs)
    process = sample.output_process_fn_grad or (lambda value: value)
    try:
        wanted = observe(operator, inputs, process, backward)
    except Exception:  # a sample that eager refuses says nothing
        return False
    fast = minitorch2.compile(operator, backend=BACKENDS[backend])
    has_values = op.name not in UNDEFINED
    with stages.collect() as log, config.patch(suppress_errors=False):
        given = observe(fast, inputs, process, backward)
    counts.update(log.counts)
    try:
        _assert_same(given, wanted, has_values)
    except OtherStrides:
        raise
    except Difference as difference:
        doubled = tree_map_only(torch.Tensor, _doubled, inputs)
        try:
            exact = observe(operator, doubled, process, backward)
        except Exception:  # kernels for some dtypes only have no float64 beside them
            raise difference from None
        if not is_as_near(given, wanted, exact):
            raise
    return True


def _assert_same(given: Any, wanted: Any, has_values: bool) -> None:
    for part, left, right in zip(("result", "gradient", "argument"), given, wanted, strict=True):
        assert_equal(left, right, part, has_values)


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    """A float as float64; anything else as it is."""
    if not tensor.is_floating_point():
        return tensor
    return tensor.detach().double().requires_grad_(tensor.requires_grad)


def is_as_near(given: Any, wanted: Any, exact: Any) -> bool:
    """Whether eager and we differ in how results are rounded, and eager is not the better one.

    Of each tensor, the error is eager's at most, up to `FACTOR`, or a few units in the last place.
    """
    triples = zip(*(tree_leaves(tree) for tree in (given, wanted, exact)), strict=True)
    return all(_is_leaf_as_near(*triple) for triple in triples)


def _is_leaf_as_near(given: Any, wanted: Any, exact: Any) -> bool:
    if not isinstance(wanted, torch.Tensor) or not wanted.is_floating_point():
        return not isinstance(wanted, torch.Tensor) or torch.equal(given, wanted)
    if given.dtype != wanted.dtype or not torch.equal(given.isnan(), wanted.isnan()):
        return False
    differs = given.ne(wanted) & ~given.isnan()
    if not differs.any():
        return True
    ours, theirs = ((t - exact).abs()[differs].detach() for t in (given, wanted))
    unit = torch.finfo(wanted.dtype).eps * exact[exact.isfinite()].abs().max()
    return bool(ours.max() <= max(FACTOR * theirs.max(), ULPS * unit))


def observe(function: Call, inputs: Any, process: Call, backward: bool) -> tuple[Any, Any, Any]:
    """Results, gradients and arguments afterwards of one call with a fixed seed."""
    args, kwargs = tree_map_only(torch.Tensor, copied, inputs)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*args, **kwargs)
        gradients = _gradients(process(result), _tensors((args, kwargs))) if backward else []
    return result, gradients, (args, kwargs)


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """An equal leaf with the same strides."""
    return copy.deepcopy(tensor.detach()).requires_grad_(tensor.requires_grad)


def _gradients(result: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """Gradients of a weighted sum of all results, so that no two elements count alike."""
    outputs = [t for t in _tensors(result) if t.requires_grad]
    leaves = [t for t in inputs if t.requires_grad]
    if not outputs or not leaves:
        return []
    generator = torch.Generator().manual_seed(1)
    weights = [torch.rand(t.shape, generator=generator).to(t) + 0.5 for t in outputs]
    return list(torch.autograd.grad(outputs, leaves, weights, allow_unused=True))


def assert_equal(given: Any, wanted: Any, part: str = "result", values: bool = True) -> None:
    """Check structure, numbers, and each tensor's dtype, shape, strides and elements.

    Raises:
        Difference: they can be told apart.
    """
    left, structure = tree_flatten(given)
    right, expected = tree_flatten(wanted)
    if structure != expected:
        raise Difference(f"{part} is built as {structure}, not {expected}")
    for a, b in zip(left, right, strict=True):
        _assert_equal_leaf(a, b, part, values)


def _assert_equal_leaf(given: Any, wanted: Any, part: str, values: bool) -> None:
    if not isinstance(wanted, torch.Tensor):
        same = type(given) is type(wanted) and (given == wanted or given != given)
        if not same:
            raise Difference(f"{part} has {given!r} for {wanted!r}")
        return
    if not isinstance(given, torch.Tensor):
        raise Difference(f"{part} has {given!r} for a tensor")
    for name, of in FORM.items():
        if of(given) != of(wanted):
            raise Difference(f"{part} has {name} {of(given)}, not {of(wanted)}")
    if values:
        _assert_close(given.detach(), wanted.detach(), part)
    left, right = effective_strides(given), effective_strides(wanted)
    # Autograd gives the gradients of leaves the leaves' own layout: only results' layouts count.
    if left != right and is_dense(wanted) and part != "gradient":
        raise OtherStrides(f"{part} has strides {left}, not {right}")


FORM: dict[str, Callable[[torch.Tensor], Any]] = {
    "dtype": lambda t: t.dtype,
    "shape": lambda t: tuple(t.shape),
    "layout": lambda t: t.layout,
    "requires_grad": lambda t: t.requires_grad,
}


def effective_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides that say where elements are: those of dimensions of size 1 do not."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return ()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(0 if size == 1 else step for size, step in pairs)


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether elements fill the memory without gaps or overlaps, in some order of dimensions."""
    expected = 1
    pairs = zip(effective_strides(tensor), tensor.shape, strict=False)
    for step, size in sorted(pair for pair in pairs if pair[1] != 1):
        if step != expected:
            return False
        expected *= size
    return True


def _assert_close(given: torch.Tensor, wanted: torch.Tensor, part: str) -> None:
    rtol, atol = TOLERANCES.get(wanted.dtype, (0.0, 0.0))
    atol *= 10 if part == "gradient" else 1  # sums that cancel
    compare = partial(torch.testing.assert_close, rtol=rtol, atol=atol, equal_nan=True)
    try:
        compare(given, wanted, check_stride=False)
    except AssertionError as error:
        raise Difference(f"{part}: {_line(error)}") from error
