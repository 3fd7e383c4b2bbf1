"""The form of results that the trie does not know: fake tensors run through meta kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from minitorch2.errors import UnsupportedError
from minitorch2.graph.fake_tensor import FakeTensor, run_fake
from minitorch2.lazy.plan import Plan
from minitorch2.lazy.value import Meta, Metas, Operator, Value


def map_tensors(argument: Any, change: Callable[[Any], Any]) -> Any:
    """Return an argument with its tensors (and values) replaced, those in lists included."""
    if isinstance(argument, torch.Tensor | Value):
        return change(argument)
    if isinstance(argument, list | tuple):
        return type(argument)(map_tensors(item, change) for item in argument)
    return argument


def infer(
    func: Operator,
    plan: Plan,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    value_of: Callable[[Any], Value],
    fake_of_data: Callable[[torch.Tensor], FakeTensor],
) -> Metas:
    """Return the form of each new result of an operator; None where it gives no tensor.

    Raises:
        UnsupportedError: there is no meta kernel, it refuses the arguments, or the form depends
            on data.
        Exception: eager mode refuses such a write.
    """

    def fake(tensor: Any) -> FakeTensor:
        return fake_of(value_of(tensor), fake_of_data)

    fakes = map_tensors(args, fake)
    named = {name: map_tensors(argument, fake) for name, argument in kwargs.items()}
    if plan.written:
        check_write(func, plan, fakes, named)
    try:
        result = run_fake(func, fakes, named)
    except NotImplementedError:
        raise
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        # The real kernel may take these arguments, or refuse them in its own words.
        raise UnsupportedError(f"the meta kernel of {func} fails: {error}") from error
    results = result if isinstance(result, tuple | list) else (result,)
    base = fakes[0].storage_offset() if plan.is_view else 0
    new = (r for r, known in _with_known(results, plan) if known is None)
    return tuple(None if r is None else _meta_of(r, base) for r in new)


def _meta_of(fake: FakeTensor, base: int) -> Meta:
    """Return the form of a fake tensor; ``base`` is where the memory begins that it views."""
    size, stride, offset = fake.size(), fake.stride(), int(fake.storage_offset())
    return Meta(size, stride, offset - base, fake.dtype, fake.fake_device, fake)


def _with_known(results: Any, plan: Plan) -> list[tuple[Any, int | str | None]]:
    """Return each result with the written argument that it is, if it is one."""
    known = (None,) * len(results) if plan.is_list else plan.returned
    return [
        (r, k)
        for r, k in zip(results, known, strict=False)
        if r is None or isinstance(r, FakeTensor)
    ]


def fake_of(value: Value, fake_of_data: Callable[[torch.Tensor], FakeTensor]) -> FakeTensor:
    """Return the fake of a value; made when it is first needed."""
    if value.fake is None:
        if value.view is not None:
            base = fake_of(value.view.base, fake_of_data)
            value.fake = value.view.of(base)
        else:
            assert value.data is not None
            value.fake = fake_of_data(value.data)
    return value.fake


def check_write(
    func: Operator, plan: Plan, fakes: tuple[Any, ...], named: Mapping[str, Any]
) -> None:
    """Raise what eager mode raises for a write to memory that is also read in another form."""
    written = [fakes[p] if isinstance(p, int) else named[p] for p in plan.written]
    tensors = [t for t in (*fakes, *named.values()) if isinstance(t, FakeTensor)]
    for target in written:
        if not isinstance(target, FakeTensor):
            continue
        if any(step == 0 and n > 1 for step, n in zip(target.stride(), target.shape, strict=True)):
            raise RuntimeError(
                _OVERLAP.format("more than one element of the written-to tensor refers")
            )
        if any(word in func.__name__ for word in _OTHER_CHECKS):
            continue
        if any(_overlaps_in_part(target, t) for t in tensors if t is not target):
            raise RuntimeError(
                _OVERLAP.format("some elements of the input tensor and the written-to tensor refer")
            )


_OVERLAP = (
    "unsupported operation: {} to a single memory location. Please clone() the tensor before "
    "performing the operation."
)
_OTHER_CHECKS = ("index", "scatter", "masked", "resize", "set_")


def _overlaps_in_part(target: FakeTensor, other: FakeTensor) -> bool:
    """Return whether two dense tensors share memory, but not element by element."""
    if target.meta.untyped_storage()._cdata != other.meta.untyped_storage()._cdata:
        return False
    (first, end), (start, last) = _span(target.meta), _span(other.meta)
    is_dense = target.numel() == end - first and other.numel() == last - start
    is_same = (first, end) == (start, last) and target.stride() == other.stride()
    return is_dense and first < last and start < end and not is_same


def _span(meta: torch.Tensor) -> tuple[int, int]:
    """Return the first element of a tensor in its memory, and the one behind its last."""
    first = int(meta.storage_offset())
    steps = ((n - 1) * step for n, step in zip(meta.shape, meta.stride(), strict=True))
    return first, first + sum(steps) + 1
