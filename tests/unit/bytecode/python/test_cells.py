"""Variables that closures share: behind graph breaks, unbound, and looked at as cells."""

# The programs under test are written in every style.
# ruff: noqa

from __future__ import annotations

from typing import Any

import pytest
import torch

import minitorch2
from tests.unit.bytecode.python.programs import Case, X, case

TABLE: list[Any] = []
SHOWN: list[Any] = []


def show(*values: Any) -> None:
    SHOWN.append(values)
    print(end="")


@case(TABLE, breaks=None, watched=("SHOWN",))
def shared_before_and_behind_breaks(x: torch.Tensor) -> Any:
    count = 1

    def step() -> int:
        nonlocal count
        count += 1
        return count

    show("first")
    y = x * step()
    show("second", count)
    many = [count for _ in range(2)]
    show("third", many, sorted(locals()))
    step()
    show("fourth", list(locals()))
    return y * count, step, step()


@case(TABLE, breaks=None, watched=("SHOWN",))
def one_cell_for_all_iterations_and_one_closure_for_each(x: torch.Tensor) -> Any:
    total, made = 0, []
    for i in range(3):

        def add(n: int) -> int:
            nonlocal total
            total += n + i
            return total

        made.append(add)
        x = x + add(i)
        show(i, total)
    return x, [f(1) for f in made], total


@case(TABLE, X, 2, breaks=None, watched=("SHOWN",))
def parameters_that_closures_change(x: torch.Tensor, k: int) -> Any:
    def change() -> None:
        nonlocal x, k
        x, k = x * 2, k + 1

    show("before")
    change()
    show("between", k)
    change()
    return x, k, change


@case(TABLE, breaks=None, watched=("SHOWN",))
def not_bound_behind_a_break(x: torch.Tensor) -> Any:
    def read() -> Any:
        return value

    y = x + 1
    show("break")
    errors = []
    try:
        read()
    except NameError as error:
        errors.append((type(error), str(error)))
    try:
        value
    except NameError as error:
        errors.append((type(error), str(error)))
    try:
        del value
    except NameError as error:
        errors.append((type(error), str(error)))
    value = 3
    return y * read(), errors


@case(TABLE, breaks=None, watched=("SHOWN",))
def deleted_between_breaks(x: torch.Tensor) -> Any:
    value = x

    def read() -> Any:
        return value

    show("bound")
    del value
    show("unbound")
    try:
        return read()
    except NameError as error:
        first = type(error), str(error)
    try:
        return value
    except NameError as error:
        return x + 1, first, type(error), str(error)


@case(TABLE, breaks=None)
def the_error_leaves_the_function(x: torch.Tensor) -> Any:
    def read() -> Any:
        return value

    y = x + 1
    show("break")
    if y.shape[0] == 1:
        value = 1
    return y + value


@case(TABLE)
def cells_as_objects(x: torch.Tensor) -> Any:
    value = 3
    (cell,) = (lambda: value).__closure__  # type: ignore[misc]
    value = 4
    seen = cell.cell_contents
    cell.cell_contents = 7
    del value
    try:
        cell.cell_contents
    except ValueError as error:
        return x * seen, error.args
    value = 1


@pytest.mark.parametrize("program", TABLE)
def test_cells(program: Case) -> None:
    program.run()


def test_an_empty_cell_may_be_filled_in_another_closure() -> None:
    """A function that is passed is known by its code: that its cell is empty is guarded."""

    def make(fill: bool) -> Any:
        if fill:
            factor = 3

        def scaled(x: torch.Tensor) -> Any:
            try:
                return x * factor
            except NameError:
                return x

        return scaled

    compiled = minitorch2.compile(lambda x, f: f(x) + 1, backend="eager")
    for fill in (False, True, False):
        assert torch.equal(compiled(X, make(fill)), X * (3 if fill else 1) + 1)
