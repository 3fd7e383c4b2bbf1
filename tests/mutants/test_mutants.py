"""Each planted bug makes its property test fail, on an example that passes without the bug."""

import random
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from minitorch2.native.kernels import linking
from minitorch2.native.llvm import machine_code
from tests.mutants.mutants import MUTANTS, Mutant, forget_skipped_code

EXAMPLE_BYTES = 4000
LAYERS = {"bytecode machine", "lazy", "script", "bytecode capture", "guards", "graph", "autograd",
          "loopir", "scheduler", "wrapper", "graph cache", "codegen numba",
          "codegen triton"}  # fmt: skip


def examples(count: int) -> Iterator[bytes]:
    """Random bytes from which Hypothesis makes examples: the same ones in every run."""
    return (random.Random(number).randbytes(EXAMPLE_BYTES) for number in range(count))


def failing_example(property_test: Callable[..., Any], count: int) -> bytes | None:
    """The first of the examples on which the test fails; None if there is none."""
    run = property_test.hypothesis.fuzz_one_input  # type: ignore[attr-defined]
    for example in examples(count):
        try:
            run(example)
        except Exception:  # whichever way it fails, it has seen the bug
            return example
    return None


@contextmanager
def own_kernels(mutant: Mutant) -> Iterator[None]:
    """Machine code is kept by its content; a kernel with a bug in it must not pass for a good one.

    Its key has the name of the compilers in it: here, another name.
    """
    name = f"{machine_code.toolchain()} with the bug {mutant.name}"
    linking.bitcode.cache_clear()
    with (
        mock.patch.object(machine_code, "toolchain", lambda: {"compilers": name}),
        mock.patch.object(linking, "toolchain", lambda: {"compilers": name}),
    ):
        yield
    linking.bitcode.cache_clear()


SHOWN = 3
"""Of each layer so many bugs are planted by `make test`; `make deep` plants all."""


def of_each_layer() -> Iterator[Any]:
    """All bugs; those behind the first few of a layer are marked as slow."""
    seen: Counter[str] = Counter()
    for mutant in MUTANTS:
        marks = [pytest.mark.slow] if seen[mutant.layer] >= SHOWN else []
        seen[mutant.layer] += 1
        yield pytest.param(mutant, id=mutant.name, marks=marks)


@pytest.mark.parametrize("mutant", [*of_each_layer()])
def test_the_property_test_finds_the_bug(mutant: Mutant) -> None:
    with own_kernels(mutant), mutant.plant.planted():
        example = failing_example(mutant.found_by, mutant.examples)
    assert example is not None, f"{mutant.found_by.__name__} is too weak: it misses {mutant.name}"
    mutant.found_by.hypothesis.fuzz_one_input(example)  # type: ignore[attr-defined]


def test_every_layer_has_a_bug() -> None:
    assert {mutant.layer for mutant in MUTANTS} == LAYERS


def test_every_bug_can_be_planted() -> None:
    """The text that a bug changes stands where the bug says, also of bugs that only run rarely."""
    for mutant in MUTANTS:
        with mutant.plant.planted():
            pass


def test_a_bug_is_planted_beside_a_proxy_whose_object_is_gone() -> None:
    """A plant looks at all objects of the process; other tests leave dead weak proxies behind."""
    proxy = weakref.proxy(lambda: None)
    forget_skipped_code()
    with pytest.raises(ReferenceError):
        isinstance(proxy, int)
