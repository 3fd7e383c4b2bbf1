"""The pending step as text and as a drawing, in the form of the LazyTensor paper's Figure 1.

    IR {
      %0 = f32[2,4] device_data(), device=cpu
      %1 = f32[2,4] aten::mul(%0, 2.5)
      %2 = f32[2,4] aten::add(%1, %0), ROOT=0
    }

A leaf is data that has entered; ``ROOT`` numbers the values that the program holds. The paper's
operators take constants as nodes; here a number is an argument, and may vary from step to step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch

from minitorch2.lazy.event import Hole, arguments_of, fill
from minitorch2.lazy.step import Step, current
from minitorch2.lazy.trie import Numbers, Place
from minitorch2.lazy.value import Ref

_SHORT: Final = {torch.bool: "pred", torch.bfloat16: "bf16", torch.uint8: "u8"}


@dataclass(frozen=True)
class Line:
    """One value of a step, or a write: number, form, operator, and the arguments as text."""

    number: int | None
    form: str
    operator: str
    arguments: tuple[str, ...]
    operands: tuple[int, ...]
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        call = f"{self.operator}({', '.join(self.arguments)})"
        value = "" if self.number is None else f"%{self.number} = {self.form} "
        return f"  {value}{call}" + "".join(f", {remark}" for remark in self.remarks)


def pending_text() -> str:
    """Return the operators that were recorded since the last barrier, one a line."""
    return "\n".join(["IR {", *map(str, _lines(current())), "}"])


def pending_dot() -> str:
    """Return the same as a graph in the DOT language; edges are numbered by the argument."""
    lines = [*_lines(current())]
    names = [f"w{n}" if line.number is None else f"n{line.number}" for n, line in enumerate(lines)]
    nodes = [
        f'  {name} [label="{line.operator}\\n{line.form}"];'
        for name, line in zip(names, lines, strict=True)
    ]
    edges = [
        f'  n{operand} -> {name} [label="i={position}"];'
        for name, line in zip(names, lines, strict=True)
        for position, operand in enumerate(line.operands)
    ]
    return "\n".join(["digraph G {", *nodes, *edges, "}"])


def _lines(step: Step) -> Iterator[Line]:
    roots = _roots(step)
    made = 0
    for place, numbers in zip(step.place.path, step.numbers, strict=True):
        count = 1 if place.func is None else len(place.results or ())
        for index in range(max(count, 1)):
            number = made + index
            root = (f"ROOT={roots[number]}",) if number in roots and count else ()
            if not place.results or place.results[index] is not None:
                yield _line(place, numbers, number if count else None, index, root)
        made += count


def _roots(step: Step) -> dict[int, int]:
    """Return the numbers of the values that the program holds, in order."""
    inputs = {id(value) for value in step.inputs}
    held = [n for n, v in enumerate(step.held()) if v is not None and id(v) not in inputs]
    return {number: position for position, number in enumerate(held)}


def _line(
    place: Place, numbers: Numbers, number: int | None, index: int, root: tuple[str, ...]
) -> Line:
    if place.func is None:
        _, dtype, _, device, *_ = place.event
        form = _form(dtype, numbers)
        return Line(number, form, "device_data", (), (), (f"device={device}", *root))
    args, kwargs = arguments_of(place.event)
    holes = iter(numbers)
    arguments = tuple(_text(fill_text(a, holes)) for a in args)
    remarks = tuple(f"{name}={_text(fill_text(a, holes))}" for name, a in kwargs.items())
    operands = tuple(item.index for item in place.event[1:] if type(item) is Ref)
    result = place.results[index] if place.results else None
    form = "" if result is None else _form(result.dtype, result.size)
    name = place.func._schema.name
    return Line(number, form, name, arguments, operands, (*remarks, *root))


def fill_text(template: Any, numbers: Iterator[Any]) -> Any:
    """Return an argument with its numbers; references stay."""
    if type(template) is list:
        return [fill_text(item, numbers) for item in template]
    return fill(template, (), numbers) if type(template) is Hole else template


def _text(argument: Any) -> str:
    if isinstance(argument, list):
        return f"({', '.join(map(_text, argument))})"
    return str(argument)


def _form(dtype: torch.dtype, size: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    short = _SHORT.get(dtype) or name.replace("float", "f").replace("int", "s")
    return f"{short}[{','.join(map(str, size))}]"
