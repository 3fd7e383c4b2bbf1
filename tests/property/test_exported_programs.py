"""Random programs, exported, saved and loaded: at random sizes they equal eager, or refuse."""

import tempfile
from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch2
from minitorch2 import Dim
from minitorch2.errors import ExportError
from tests.property.random_programs import ALONE, VALUES, VIEWS, RandomProgram, programs

SIZE = st.integers(2, 7)
ERRORS = (RuntimeError, IndexError, TypeError)


def inputs(rows: int, columns: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(rows * 10 + columns)
    shapes = (rows, columns), (rows, columns), (columns,)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


@settings(max_examples=15)
@given(programs(VIEWS, VALUES, ALONE), st.tuples(SIZE, SIZE), st.tuples(SIZE, SIZE))
def test_a_loaded_program_equals_eager_or_says_why_not(
    program: RandomProgram, example: tuple[int, int], other: tuple[int, int]
) -> None:
    valid = program.valid_on(inputs(*example))

    def run(x, y, z):
        return valid(x, y, z)

    varies = {0: Dim.AUTO, 1: Dim.AUTO}
    exported = minitorch2.export(
        run, inputs(*example), dynamic_shapes=[varies, varies, {0: Dim.AUTO}]
    )
    with tempfile.TemporaryDirectory() as folder:
        exported.save(Path(folder) / "program.mt2")
        loaded = minitorch2.load(Path(folder) / "program.mt2")
    assert str(loaded.signature) == str(exported.signature)
    for sizes in (example, other):
        given_here, given_there = inputs(*sizes), inputs(*sizes)
        try:
            found = loaded(*given_here)
        except ExportError as error:
            assert sizes != example and error.fix  # the example itself is served
            continue
        torch.testing.assert_close(found, valid(*given_there))
        torch.testing.assert_close(given_here, given_there)  # what is written to them
