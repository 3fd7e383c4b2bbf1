"""The form of results that the trie does not know: fake tensors run through meta kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from minitorch2.autograd.functionalize import overlaps_itself
from minitorch2.errors import UnsupportedError
from minitorch2.graph.fake_tensor import FakeTensor, flat, run_fake
from minitorch2.lazy.plan import Plan
from minitorch2.lazy.step import memory_of
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
        UnsupportedError: there is no meta kernel, it refuses the arguments, the form depends on
            data, or memory is written that is also read in another form.
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
    """Refuse a write to memory that is also read in another form: eager mode refuses most of them.

    Raises:
        UnsupportedError: such a write. The real kernel knows whether it takes it.
    """
    sharing: dict[int, list[FakeTensor]] = {}
    for tensor in flat((*fakes, *named.values())):
        if isinstance(tensor, FakeTensor):
            sharing.setdefault(memory_of(tensor.meta), []).append(tensor)
    by_element = torch.Tag.pointwise in func.tags or plan.counts_writes
    for target in plan.written_by(fakes, named):
        if not isinstance(target, FakeTensor) or not target.numel():
            continue
        metas = [tensor.meta for tensor in sharing[memory_of(target.meta)]]
        is_read = not by_element and [*map(_form, metas)].count(_form(target.meta)) > 1
        is_sound = not (is_read or overlaps_itself(target.shape, target.stride()))
        if not is_sound or any(_overlap_in_part(target.meta, meta) for meta in metas):
            raise UnsupportedError(f"{func} writes to memory that it reads in another form")


def _overlap_in_part(target: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether tensors in one memory share elements, but not element by element."""
    if target.itemsize != other.itemsize:
        return True
    (first, end), (start, last) = _span(target), _span(other)
    if end <= start or last <= first or _form(target) == _form(other):
        return False
    if target.numel() == end - first and other.numel() == last - start:
        return True
    written = torch.zeros(max(end, last), dtype=torch.bool, device="cpu")
    written.as_strided(*_form(target)).fill_(True)
    return bool(written.as_strided(*_form(other)).any())


def _form(meta: torch.Tensor) -> tuple[Sequence[int], Sequence[int], int]:
    return meta.size(), meta.stride(), int(meta.storage_offset())


def _span(meta: torch.Tensor) -> tuple[int, int]:
    """Return the first element of a tensor in its memory, and the one behind its last."""
    first = int(meta.storage_offset())
    if not meta.numel():
        return first, first
    steps = ((n - 1) * step for n, step in zip(meta.shape, meta.stride(), strict=True))
    return first, first + sum(steps) + 1
