"""Exercises of the chapter on values without data."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from minitorch2 import stages
from minitorch2.api import compiler
from minitorch2.course.exercise import exercise

PAGE = "capture/values"


def busy(x: Tensor, log: list[int]) -> Tensor:
    """Return a tensor, and write to a list and to a dict on the way."""
    log.append(1)
    log.pop()
    scratch = {"y": x + 1}
    scratch["z"] = scratch["y"] * 2
    log.append(2)
    return scratch["z"]


def residual_of(function: Callable[..., Any], *inputs: Any) -> str:
    """Return the Python that is left of a function when its graph has been taken out."""
    with stages.collect() as log:
        compiler.compile(function, backend="eager")(*inputs)
    return log.texts("residual.py")[0]


@exercise(
    PAGE,
    "look",
    question="""
        Which of the names `scratch`, `log` and `x` stand in the residual code of `busy`? Set
        `names`, a set.
    """,
    stub="""
        from minitorch2.course.exercises.values import busy, residual_of

        names = ...
    """,
    hints=(
        "Print `residual_of(busy, torch.ones(2), [])`.",
        "A dict that nobody outside can see leaves nothing behind.",
    ),
    solution="""
        import torch

        from minitorch2.course.exercises.values import busy, residual_of

        text = residual_of(busy, torch.ones(2), [])
        names = {name for name in ("scratch", "log", "x") if name in text}
    """,
)
def names_left(names: set[str]) -> None:
    """Read the residual code."""
    text = residual_of(busy, torch.ones(2), [])
    found = {name for name in ("scratch", "log", "x") if name in text}
    assert set(names) == found, f"{names} are not the names: print the residual code"


@exercise(
    PAGE,
    "change",
    question="""
        `shape_of(function, *inputs)` computes a result to know its sizes. Change it so that it
        needs no memory for data: the check gives it matrices of four terabytes.
    """,
    stub="""
        def shape_of(function, *inputs):
            return function(*inputs).shape
    """,
    hints=('Tensors on the device "meta" have sizes and no data: `x.to("meta")`.',),
    solution="""
        def shape_of(function, *inputs):
            return function(*(x.to("meta") for x in inputs)).shape
    """,
)
def sizes_without_data(shape_of: Callable[..., torch.Size]) -> None:
    """Begin with small tensors, so that a computed answer is found to be one."""
    small = torch.ones(2, 3)
    found = shape_of(lambda x: x @ x.T, small)
    assert tuple(found) == (2, 2), f"sizes are (2, 2), not {found}"
    ran: list[torch.device] = []

    def watched(x: Tensor) -> Tensor:
        ran.append(x.device)
        return x

    shape_of(watched, small)
    assert ran == [torch.device("meta")], "the function has seen a tensor with data"
    huge = torch.empty(1).expand(1_000_000, 1_000_000)
    assert tuple(shape_of(lambda x: (x + 1) @ x, huge)) == (1_000_000, 1_000_000)


@exercise(
    PAGE,
    "build",
    question="""
        Write the class `Source`: `Source("x")` is a path that prints as `x`, and
        `Source("model").layers[0]["w"]` is one that prints as `model.layers[0]['w']`.
    """,
    stub="""
        class Source:
            def __init__(self, text):
                self.text = text

            def __str__(self):
                return self.text
    """,
    hints=(
        "`__getattr__(self, name)` is asked for attributes that the object does not have.",
        "`__getitem__(self, key)` makes a longer path; `repr(key)` is how Python writes a key.",
    ),
    solution="""
        class Source:
            def __init__(self, text):
                self.text = text

            def __str__(self):
                return self.text

            def __getattr__(self, name):
                return Source(f"{self.text}.{name}")

            def __getitem__(self, key):
                return Source(f"{self.text}[{key!r}]")
    """,
)
def write_sources(Source: Callable[[str], Any]) -> None:
    """Print paths, and evaluate them again."""
    model = SimpleNamespace(layers=[{"w": 7, 3: "three"}])
    first = Source("model").layers[0]
    for path, value in ((first["w"], 7), (first[3], "three"), (Source("model"), model)):
        found = eval(str(path), {"model": model})
        assert found == value, f"{path} leads to {found!r}, not to {value!r}"
    assert str(first["w"]) == "model.layers[0]['w']", f"{first['w']} is written otherwise"


@exercise(
    PAGE,
    "build",
    question="""
        Write the class `PendingList`: it stands for a list from outside. `append`, `pop` and
        `items()` behave as if the list changed at once. The list itself changes only when
        `emit()` is called, and stays the same object.
    """,
    stub="""
        class PendingList:
            def __init__(self, outside):
                self.outside = outside

            def append(self, value):
                self.outside.append(value)

            def pop(self):
                return self.outside.pop()

            def items(self):
                return list(self.outside)

            def emit(self):
                pass
    """,
    hints=("Work on a copy.", "`outside[:] = copy` changes a list and keeps the object."),
    solution="""
        class PendingList:
            def __init__(self, outside):
                self.outside, self.now = outside, list(outside)

            def append(self, value):
                self.now.append(value)

            def pop(self):
                return self.now.pop()

            def items(self):
                return list(self.now)

            def emit(self):
                self.outside[:] = self.now
    """,
)
def delay_writes(PendingList: Callable[[list[int]], Any]) -> None:
    """Look at the list outside before and after the end."""
    outside = [1, 2]
    same = outside
    pending = PendingList(outside)
    pending.append(3)
    assert pending.pop() == 3 and pending.pop() == 2, "pop gives what was appended last"
    pending.append(4)
    assert pending.items() == [1, 4], "reads must see pending writes"
    assert outside == [1, 2], "the list outside has changed too early"
    pending.emit()
    assert same == [1, 4], f"after emit the list is {same}, not [1, 4]"
