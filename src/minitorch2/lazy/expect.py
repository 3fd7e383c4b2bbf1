"""Calls that are expected: a form of the trie knows the call that has followed it.

    expectation ::= entry* operator, wanted arguments, outcome       of the form behind the call
    wanted      ::= %i | a number | a literal | any float | [wanted*]
    outcome     ::= new values | a view of the first argument | the argument that is written

Most calls of a step are those of the step before. They need no event and no look-up: a function
compares the arguments with the wanted ones, and makes the results. Its text is generated
from the kinds of the arguments, so operators of one kind share it. Whatever it does not expect, it
leaves to `record.py`, which is right for every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import torch

from minitorch2.foundation.generated_code import keep_source, new_file
from minitorch2.lazy.event import FLOAT, INT, arguments_of
from minitorch2.lazy.marks import gives_marks
from minitorch2.lazy.plan import Plan
from minitorch2.lazy.step import Step
from minitorch2.lazy.trie import ENTERED, MISS, Event, Form, no_match
from minitorch2.lazy.value import LazyTensor, Meta, Ref, Value, View, ref_of
from minitorch2.loopir.layout import contiguous_strides
from minitorch2.native.torch_internals.dispatch import make_wrapper_tensor


def expected_result(
    step: Step,
    func: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    plain: Mapping[int, Value],
) -> Any:
    """Record a call that is the expected one and return its results; otherwise return `MISS`.

    Args:
        step: the step.
        func: the operator.
        args: its arguments by position.
        kwargs: its arguments by name.
        plain: the ordinary tensors that stand for values of the step; none outside of a region.
    """
    after = step.form.expected
    if (
        after is None
        or step.at_once
        or step.default_dtype is not torch.get_default_dtype()
        or step.is_inference is not torch.is_inference_mode_enabled()
        or len(step.numbers) + 1 >= step.most_operators
    ):
        return MISS
    made = after.match(after, step, func, args, kwargs, plain)
    while made is ENTERED:
        after = step.form.expected
        if after is None:
            return MISS
        made = after.match(after, step, func, args, kwargs, plain)
    return made


def expect(before: Form, step: Step, plan: Plan, args: tuple[Any, ...], event: Event) -> None:
    """Expect a call again that has followed a form for the second time.

    Args:
        before: the form before the call.
        step: the step, behind the call; the results have no numbers yet.
        plan: of the operator.
        args: the arguments by position.
        event: the call.
    """
    after = step.form
    if not after.wanted:
        kinds = _kinds_of(step, plan, args, event)
        after.match = no_match if kinds is None else _matcher(kinds.shape)
        after.wanted = (plan,) if kinds is None else kinds.wanted
    before.expected = None if after.match is no_match else after


class _Shape(NamedTuple):
    """The kinds of arguments and of the outcome, on which the text of a matcher depends."""

    args: tuple[str, ...]
    named: tuple[tuple[str, str], ...]
    outcome: str


class _Kinds(NamedTuple):
    """The text of a matcher, as its shape, and what it compares and makes."""

    shape: _Shape
    wanted: tuple[Any, ...]


def _kinds_of(step: Step, plan: Plan, args: tuple[Any, ...], event: Event) -> _Kinds | None:
    """Return how a call is matched; None if it has an argument or an outcome of another kind."""
    numbers = step.numbers[-1]
    outcome = _outcome(step, plan, args, event)
    if outcome is None or plan.reads_offset or (plan.sizes_by_floats and numbers):
        return None
    wanted, named = arguments_of(event)
    left = iter(numbers)
    compared = [_kind_of(argument, left) for argument in (*wanted, *named.values())]
    kinds = [kind for kind, _ in compared]
    by_name = tuple(zip(named, kinds[len(wanted) :], strict=True))
    if not all(kinds) or (_INTS.intersection(kinds) and not _takes_sizes_only(plan)):
        return None
    made, facts = outcome
    shape = _Shape(tuple(kinds[: len(wanted)]), by_name, made)
    return _Kinds(shape, (plan.func, numbers, facts, *(want for _, want in compared)))


_INTS: Final = {"ints", "fixed ints"}


def _takes_sizes_only(plan: Plan) -> bool:
    """Return whether the lists of numbers that an operator takes hold integers: 2 equals 2.0."""
    types = [str(argument.type) for argument in plan.func._schema.arguments]
    return not any("List[number]" in kind or "List[float]" in kind for kind in types)


def _kind_of(argument: Any, numbers: Iterator[Any]) -> tuple[str, Any]:
    """Return the kind of an argument of an event, and what it is compared with."""
    if type(argument) is Ref:
        return "tensor", argument
    if argument is INT:
        return "int", next(numbers)
    if argument is FLOAT:
        next(numbers)
        return "float", None
    if type(argument) is list:
        return _kind_of_list(argument, numbers)
    if argument is None or isinstance(argument, bool | torch.dtype | torch.layout):
        return "literal", argument
    if type(argument) in (int, str, torch.device, torch.memory_format):
        return "equal", argument
    return "", None


def _kind_of_list(items: list[Any], numbers: Iterator[Any]) -> tuple[str, Any]:
    if items and all(type(item) is Ref for item in items):
        return "tensors", items
    if items and all(item is FLOAT for item in items):
        return "floats", [next(numbers) for _ in items]
    if items and all(type(item) is bool for item in items):
        return "bools", items
    values = [next(numbers) if item is INT else item for item in items]
    if not all(type(value) is int for value in values):
        return "", None
    return "ints" if INT in items else "fixed ints", values


def _outcome(step: Step, plan: Plan, args: tuple[Any, ...], event: Event) -> tuple[str, Any] | None:
    """Return the kind of a call's results, and what they are made of."""
    metas = step.form.results
    if plan.written:
        writes = any(step.was_there(value) for value in _written(step, plan, event))
        if plan.returned == (0,) and plan.written == (0,) and not plan.counts_writes:
            return "argument", writes
        return ("nothing", (plan, writes)) if plan.counts_writes and not plan.returned else None
    if None in metas or not metas or (plan.is_view and len(metas) > 1):
        return None
    if plan.is_view and (plan.is_list or step.is_inference or type(args[0]) is Value):
        return None
    if plan.is_view and gives_marks(args[0], plan.func):
        return None
    begin = _begin(args[0]) if plan.is_view else 0
    made = [_made_of(step, meta, begin, k) for k, meta in enumerate(metas) if meta is not None]
    if plan.is_view:
        return "view of data" if begin is None else "view", made[0]
    return ("one", made[0]) if plan.gives_one else ("list" if plan.is_list else "several", made)


def _begin(base: torch.Tensor) -> int | None:
    """Return where a promise begins in its memory; of data, only the call tells."""
    is_promise = type(base) is LazyTensor and base.value.root.data is None
    return int(base.storage_offset()) if is_promise else None


def _made_of(step: Step, meta: Meta, begin: int | None, position: int) -> tuple[Any, ...]:
    size, stride, offset, dtype, device, fake = meta
    ref = ref_of(len(step.values) + position)
    if begin == offset == 0 and tuple(stride) == contiguous_strides(size):
        return size, None, None, dtype, device, fake, ref  # PyTorch's own default, which is faster
    return size, stride, (begin or 0) + offset, dtype, device, fake, ref


def _written(step: Step, plan: Plan, event: Event) -> list[Value]:
    """Return the values that a call writes."""
    refs = plan.written_by(*arguments_of(event))
    return [step.values[ref.index] for ref in refs if type(ref) is Ref]


# The text -----------------------------------------------------------------------------------------


@cache
def _matcher(shape: _Shape) -> Callable[..., Any]:
    """Return the function that matches calls of a shape."""
    text = "\n".join(_lines(shape))
    names = {**_NAMES}
    code = compile(text, new_file("expectations", shape.outcome), "exec")
    keep_source(code, text)
    exec(code, names)
    match: Callable[..., Any] = names["match"]
    return match


def _lines(shape: _Shape) -> Iterator[str]:
    """Yield the text of a matcher, line by line."""
    count, names = len(shape.args), len(shape.named)
    kinds = [*shape.args, *(kind for _, kind in shape.named)]
    named = f"len(kwargs) != {names}" if names else "kwargs"
    wants = "".join(f", w{k}" for k in range(len(kinds)))
    yield "def match(after, step, func, args, kwargs, plain):"
    yield f"    operator, numbers, made{wants} = after.wanted"
    yield f"    if func is not operator or len(args) != {count} or {named}:"
    yield "        return MISS"
    if count:
        yield f"    {''.join(f'a{k}, ' for k in range(count))}= args"
    for k, (name, _) in enumerate(shape.named, count):
        yield f"    a{k} = kwargs.get({name!r}, MISS)"
    for k, kind in enumerate(kinds):
        yield from _CHECKS[kind].format(k=k).splitlines()
    if any(kind.startswith("float") for kind in kinds):
        given = (_NUMBERS[kind].format(k=k) for k, kind in enumerate(kinds) if kind in _NUMBERS)
        yield f"    numbers = ({''.join(given)})"
    yield "    step.form, step.place = after, after.place"
    yield "    step.numbers.append(numbers)"
    yield from _OUTCOMES[shape.outcome].splitlines()


_CHECKS: Final = {
    "tensor": """\
    v{k} = a{k}.value if type(a{k}) is LazyTensor else plain.get(id(a{k}))
    if v{k} is None or v{k}.ref is not w{k} or v{k}.step is not step:
        return MISS""",
    "tensors": """\
    if len(a{k}) != len(w{k}) or not are_known(step, a{k}, w{k}, plain):
        return MISS""",
    "int": "    if type(a{k}) is not int or a{k} != w{k}:\n        return MISS",
    "ints": "    if type(a{k}) is not list or a{k} != w{k}:\n        return MISS",
    "bools": "    if a{k} != w{k} or {{*map(type, a{k})}} != {{bool}}:\n        return MISS",
    "fixed ints": "    if type(a{k}) is not list or a{k} != w{k}:\n        return MISS",
    "float": "    if type(a{k}) is not float or not a{k}:\n        return MISS",
    "floats": "    if len(a{k}) != len(w{k}) or not are_floats(a{k}):\n        return MISS",
    "literal": "    if a{k} is not w{k}:\n        return MISS",
    "equal": "    if type(a{k}) is not type(w{k}) or a{k} != w{k}:\n        return MISS",
}
"""Tests of an argument `a` against the wanted one `w`. Zeros have signs: `record` tells them."""
_NUMBERS: Final = {"int": "a{k}, ", "float": "a{k}, ", "ints": "*a{k}, ", "floats": "*a{k}, "}
_PROMISE: Final = """\
    size, stride, offset, dtype, device, fake, ref = made
    tensor = make(LazyTensor, size, stride, {begin}offset, None, dtype, strided, device)
    tensor.value = value = new(Value)
    value.data = value.error = None
    value.step, value.ref, value.fake, value.view = step, ref, fake, {view}
    step.values.append(value)
    return tensor"""
_VIEW: Final = "new_tuple(View, (v0, func, args[1:], kwargs, None))"
_OUTCOMES: Final = {
    "one": _PROMISE.format(begin="", view="None"),
    "view": _PROMISE.format(begin="", view=_VIEW),
    "view of data": _PROMISE.format(begin="a0.storage_offset() + ", view=_VIEW),
    "several": "    return tuple([promise(step, form) for form in made])",
    "list": "    return [promise(step, form) for form in made]",
    "argument": "    if made:\n        step.writes = True\n    return a0",
    "nothing": """\
    plan, writes = made
    step.writes = step.writes or writes
    count_writes(plan.written_by(args, kwargs))""",
}


def _promise(step: Step, form: tuple[Any, ...]) -> LazyTensor:
    """Return a promise among several."""
    size, stride, offset, dtype, device, fake, _ = form
    tensor: LazyTensor = make_wrapper_tensor(
        LazyTensor, size, stride, offset, None, dtype, torch.strided, device
    )
    value = tensor.value = Value(fake=fake)
    step.promise(value)
    return tensor


def _are_known(
    step: Step, tensors: Sequence[Any], refs: Sequence[Ref], plain: Mapping[int, Value]
) -> bool:
    """Return whether tensors are those values of the step."""
    for tensor, ref in zip(tensors, refs, strict=True):
        value = tensor.value if type(tensor) is LazyTensor else plain.get(id(tensor))
        if value is None or value.ref is not ref or value.step is not step:
            return False
    return True


def _are_floats(numbers: Sequence[Any]) -> bool:
    """Return whether all are floats other than zero."""
    return all(numbers) and {*map(type, numbers)} == {float}


_NAMES: Final[dict[str, Any]] = {
    "LazyTensor": LazyTensor,
    "MISS": MISS,
    "Value": Value,
    "View": View,
    "are_floats": _are_floats,
    "are_known": _are_known,
    "count_writes": torch.autograd.graph.increment_version,
    "make": make_wrapper_tensor,
    "new": Value.__new__,
    "new_tuple": tuple.__new__,
    "promise": _promise,
    "strided": torch.strided,
}
