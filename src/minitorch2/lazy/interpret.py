"""Run a step operator by operator: the meaning of a step, and what it costs to run it once.

    run(step) == what eager mode computes, in the order of the program

Steps that are new run so: no time is lost to compile what may never come again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import torch

from minitorch2.autograd.decompositions import recurrent
from minitorch2.lazy.event import arguments_of, fill
from minitorch2.lazy.plan import Plan, plan_of
from minitorch2.lazy.step import Step
from minitorch2.lazy.trie import Numbers, Place
from minitorch2.lazy.value import Operator, Ref


def interpret(step: Step, wanted: Collection[int]) -> dict[int, torch.Tensor]:
    """Run the events of a step; return the values of the wanted numbers.

    A value is let go behind its last use, as a program in eager mode would.

    Raises:
        Exception: what an operator raises; a note names the line that recorded it.
    """
    path = step.place.path
    dying = _last_uses(path, wanted)
    values: dict[int, Any] = {}
    inputs = iter(step.inputs)
    for position, (place, numbers) in enumerate(zip(path, step.numbers, strict=True)):
        if place.func is None:
            values[len_of(values)] = next(inputs).data
        else:
            _run(place, numbers, values)
        for number in dying.get(position, ()):
            values[number] = None
    return {number: with_memory(values[number]) for number in wanted}


def with_memory(value: Any) -> Any:
    """Return zeros for a tensor that PyTorch keeps without memory, as some gradients are."""
    is_bare = isinstance(value, torch.Tensor) and value._is_zerotensor()
    return value.clone() if is_bare else value


WITHOUT_HISTORY: Final[dict[Operator, Callable[..., Any]]] = {
    torch.ops.aten.mkldnn_rnn_layer.default: recurrent.rnn_layer
}
"""Operators that keep values for gradients only while gradients are recorded: these always do.

A graph needs them as well, for the backends that do not decompose it.
"""


def len_of(values: dict[int, Any]) -> int:
    """Return the number of the next value."""
    return len(values)


def _run(place: Place, numbers: Numbers, values: dict[int, Any]) -> None:
    assert place.func is not None
    holes = iter(numbers)
    args, kwargs = arguments_of(place.event)
    try:
        result = WITHOUT_HISTORY.get(place.func, place.func)(
            *[fill(a, values, holes) for a in args],
            **{name: fill(a, values, holes) for name, a in kwargs.items()},
        )
    except Exception as error:
        error.add_note(f"recorded at {place.line}" if place.line else "recorded in a library")
        raise
    for new in new_results(plan_of(place.func), result):
        values[len_of(values)] = new


def new_results(plan: Plan, result: Any) -> list[Any]:
    """Return the results of an operator that are new tensors."""
    results: Sequence[Any] = result if isinstance(result, tuple | list) else (result,)
    if plan.is_list:
        return [*results]
    return [r for r, known in zip(results, plan.returned, strict=False) if known is None]


def _last_uses(path: Sequence[Place], wanted: Collection[int]) -> dict[int, list[int]]:
    """Return, for each event, the values that no later event reads and nobody wants."""
    last: dict[int, int] = {}
    made = 0
    for position, place in enumerate(path):
        for item in place.event[1:]:
            if type(item) is Ref:
                last[item.index] = position
        count = 1 if place.func is None else len(place.results or ())
        last |= dict.fromkeys(range(made, made + count), position)
        made += count
    dying: dict[int, list[int]] = {}
    for number, position in last.items():
        if number not in wanted:
            dying.setdefault(position, []).append(number)
    return dying
