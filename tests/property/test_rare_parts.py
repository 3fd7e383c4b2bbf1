"""What a program has that few have: parts that TorchScript made, kernels of its own, odd names,
classes that die, sizes and graphs that grow, operators that write.

Each test draws small cases of one promise, as those of `test_surroundings` do.
"""

from __future__ import annotations

import gc
import keyword
import weakref
from collections.abc import Callable
from typing import Any, Final
from unittest import mock

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import minitorch2
from minitorch2 import config, stages
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.graph.node import Node
from minitorch2.graph.symbols import sym_node
from minitorch2.graph.symbols.expression import expr_of
from minitorch2.graph.symbols.polynomials import operations_in
from minitorch2.loopir import fusion_region
from minitorch2.loopir.scheduler import Scheduler
from tests.property.test_surroundings import PATIENT
from tests.unit.loopir.test_scheduler import lower

# Modules that TorchScript has made ---------------------------------------------------------------


class Gate(nn.Module):
    """A module with a branch and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.scale = nn.Parameter(torch.full((3,), 1.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.scale if bool(x.sum() > 0) else x - self.scale


LAYERS: Final[dict[str, Callable[[], nn.Module]]] = {
    "plain": lambda: nn.Linear(3, 3),
    "scripted": lambda: torch.jit.script(nn.Linear(3, 3)),
    "scripted with a branch": lambda: torch.jit.script(Gate()),
    "traced": lambda: torch.jit.trace(nn.Sequential(nn.Linear(3, 3), nn.Tanh()), torch.ones(2, 3)),
    "function": nn.Tanh,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@PATIENT
@given(
    st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=4),
    st.sampled_from(("eager", "aot_eager", "numba")),
)
def test_models_with_scripted_parts_are_eagers(kinds: list[str], backend: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(LAYERS[kind]() for kind in kinds))
    fast = minitorch2.compile(model, backend=backend)
    with stages.collect(texts=False) as log:
        for sign in (1.0, -1.0, 1.0):
            x = torch.linspace(-1, 2, 6).view(2, 3).mul(sign).requires_grad_()
            found: list[Any] = []
            for each in (model, fast):
                model.zero_grad()
                result = each(x)
                result.sum().backward()
                found.append((result, [p.grad for p in model.parameters()]))
            torch.testing.assert_close(*found)
    assert log.counts["frames"] <= len(kinds) + 1  # nothing of a scripted part is captured


# Names that Python's grammar does not have --------------------------------------------------------

LETTERS = st.characters(max_codepoint=0x2FFF) | st.sampled_from("\udc80\ud800 .'\"\\{}%\n#")
WORDS = st.text(LETTERS, max_size=6) | st.sampled_from((*keyword.kwlist, "\ud800", "a\udc80b"))


class Bag:
    """Any attributes."""


@PATIENT
@given(WORDS, WORDS, st.sampled_from(("eager", "numba")))
def test_attributes_and_files_have_any_name(name: str, file: str, backend: str) -> None:
    text = (
        "def program(x, bag):\n"
        "    y = x.sin() + getattr(bag, name) * 2\n"
        "    print(end='')\n"
        "    setattr(bag, name, y)\n"
        "    return y * getattr(bag, name), getattr(bag, name)\n"
    )
    scope: dict[str, Any] = {"name": name}
    exec(compile(text, f"<{file}>".replace("\0", ""), "exec"), scope)
    program, (ours, theirs) = scope["program"], (Bag(), Bag())
    fast = minitorch2.compile(program, backend=backend)
    for bag in (ours, theirs):
        setattr(bag, name, torch.ones(3))
    with config.patch(suppress_errors=False):
        for _ in range(2):
            x = torch.linspace(-1, 1, 3)
            torch.testing.assert_close(fast(x, ours), program(x, theirs))
            torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))


# Classes that die ---------------------------------------------------------------------------------

VALUES = st.sampled_from((1, 2.5, "text", None, (1, 2))) | st.integers(3, 9)


@PATIENT
@given(st.lists(VALUES, min_size=1, max_size=3), st.booleans())
def test_classes_and_functions_die_with_their_programs(values: list[Any], of_class: bool) -> None:
    def program(thing: Any, x: torch.Tensor) -> Any:
        return x * thing.factor(2), thing.value

    fast = minitorch2.compile(program, backend="eager")
    for value in values:
        kind: Any = type("Kind", (), {"factor": lambda self, n: n + 1})
        thing = kind()
        (kind if of_class else thing).value = value
        assert fast(thing, torch.ones(2))[1] == value
        died = [weakref.ref(kind), weakref.ref(kind.factor)]
        del kind, thing
        gc.collect()
        assert [each() for each in died] == [None, None]


# Code that is generated is none of the program's --------------------------------------------------


@PATIENT
@given(st.integers(1, 3), st.booleans())
def test_generated_code_is_not_captured(layers: int, breaks: bool) -> None:
    """A backward pass that begins inside compiled code runs code that was generated before."""

    def step(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
        for weight in weights:
            x = torch.tanh(x @ weight)
        if breaks:
            minitorch2.graph_break()
        loss = x.square().sum()
        minitorch2.graph_break()
        loss.backward()
        minitorch2.graph_break()
        return loss.detach() * 2

    frames = {}
    for backend in ("eager", "numba"):
        minitorch2.reset()
        weights = [torch.eye(3).mul(i + 1).requires_grad_() for i in range(layers)]
        seen: list[torch.Tensor] = []
        for weight in weights:  # with a hook that has effects, backward itself breaks the graph
            weight.register_post_accumulate_grad_hook(seen.append)
        with stages.collect(texts=False) as log:
            fast = minitorch2.compile(step, backend=backend)
            for _ in range(2):
                fast(torch.ones(2, 3), weights)
        frames[backend] = log.counts["frames"], log.counts["graphs"]
    assert frames["eager"] == frames["numba"]


# Sizes and graphs that grow -----------------------------------------------------------------------

GROWTH: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "product": lambda n, m: n * m + 1,
    "quotient": lambda n, m: (n + 7) // (m // 2 + 2) + n,
    "remainder": lambda n, m: (n * m) % (m + n // 2 + 5) + 2,
    "maximum": lambda n, m: max(n // 2 + 3, 50 - m) + m,
}


@PATIENT
@given(st.lists(st.sampled_from(sorted(GROWTH)), min_size=1, max_size=4))
def test_sizes_have_short_expressions(steps: list[str]) -> None:
    most = 20

    def program(x: torch.Tensor) -> torch.Tensor:
        n, m = x.shape
        for step in steps:
            n, m = GROWTH[step](n, m), n
        return x * n + m

    lengths: list[int] = []

    def backend(graph: Any, inputs: Any) -> Any:
        for node in graph.graph.nodes:
            numbers = [a for a in node.args if not isinstance(a, Node | tuple)]
            lengths.extend(operations_in(sympy.sympify(expr_of(number))) for number in numbers)
        return graph

    with mock.patch.object(sym_node, "LONGEST", most), config.patch(suppress_errors=False):
        fast = minitorch2.compile(program, backend=backend, dynamic=True)
        for n in (5, 6):
            x = torch.ones(n, 4)
            torch.testing.assert_close(fast(x), program(x))
    assert max(lengths, default=0) <= 2 * most


FAMILIES: Final[dict[str, Callable[[int], Callable[[torch.Tensor], Any]]]] = {
    "fan": lambda count: lambda x: [x + i for i in range(count)],
    "concatenation": lambda count: lambda x: torch.cat([x + i for i in range(count)]),
    "reductions": lambda count: lambda x: [(x + i).sum(i % 2) for i in range(count)],
    "columns": lambda count: lambda x: [x.t() + i if i % 2 else x * i for i in range(count)],
}


@PATIENT
@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, 90))
def test_few_pairs_of_kernels_are_examined(family: str, count: int) -> None:
    lowered = lower(FAMILIES[family](count), torch.empty(8, 8))
    asked = mock.Mock(side_effect=fusion_region.match_order)
    with (
        stages.collect(texts=False) as log,
        mock.patch.object(fusion_region, "match_order", asked),
    ):
        Scheduler(lowered, NUMBA.capabilities()).run()
    assert log.counts["fusion_pairs"] <= 25 * count
    asked.assert_not_called()  # more bodies than fit are no matter of loops


# Kernels of the user's ----------------------------------------------------------------------------


@PATIENT
@given(st.integers(1, 70), st.sampled_from((16, 32)), st.sampled_from(("eager", "numba")))
def test_launches_of_triton_kernels_are_eagers(size: int, block: int, backend: str) -> None:
    pytest.importorskip("triton")
    kernels = pytest.importorskip("tests.unit.bytecode.torch_values.test_triton_kernels")

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, n = x * 2, x.numel()
        kernels.scale_kernel[((n + block - 1) // block,)](y, n, 3.0, BLOCK=block)
        out = torch.zeros_like(x)
        kernels.add_kernel[lambda meta: ((n + meta["BLOCK"] - 1) // meta["BLOCK"],)](
            x, y, out, n, BLOCK=block
        )
        return out, y + 1

    x = torch.linspace(-1, 1, size, device=kernels.DEVICE)
    with stages.collect(texts=False) as log:
        found = minitorch2.compile(program, backend=backend, fullgraph=True)(x)
    torch.testing.assert_close(found, program(x))
    assert log.counts["graphs"] == 1


# Operators of the user's that write ---------------------------------------------------------------


@torch.library.custom_op("minitorch2_tests_rare::shift", mutates_args={"x"})
def shift(x: torch.Tensor, by: float) -> None:
    """Write to one tensor."""
    x += by


@torch.library.custom_op("minitorch2_tests_rare::both", mutates_args={"x", "y"})
def both(x: torch.Tensor, by: float, y: torch.Tensor) -> torch.Tensor:
    """Write to two tensors, and give a third."""
    x.add_(by)
    y.mul_(by)
    return x + y


@both.register_fake
def _(x: torch.Tensor, by: float, y: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("minitorch2_tests_rare::every", mutates_args={"xs"})
def every(xs: list[torch.Tensor], by: float) -> None:
    """Write to the tensors of a list."""
    for x in xs:
        x.add_(by)


def appended(values: list[torch.Tensor], value: torch.Tensor) -> None:
    """One more value."""
    values.append(value)


CALLS: Final[dict[str, Callable[[list[torch.Tensor], torch.Tensor, torch.Tensor], None]]] = {
    "shift": lambda v, x, y: shift(x, 1.5),
    "shift a part": lambda v, x, y: shift(x[:, 1:], 1.0),
    "shift the transposed": lambda v, x, y: shift(x.t(), 0.5),
    "both": lambda v, x, y: appended(v, both(x, 2.0, y)),
    "every": lambda v, x, y: every([x, y], 1.0),
    "twice": lambda v, x, y: appended(v, x * 2),
    "sine": lambda v, x, y: appended(v, x.sin()),
    "sum": lambda v, x, y: appended(v, x.sum(0, keepdim=True) + y),
    "zeros": lambda v, x, y: appended(v, torch.zeros_like(x)),
    "copy": lambda v, x, y: appended(v, x.clone()),
    "product": lambda v, x, y: appended(v, x @ y),
    "view": lambda v, x, y: appended(v, x.view(-1).view(4, 4)),
    "add": lambda v, x, y: appended(v, x.add_(y)),
}
PLACES = st.integers(0, 6)


@PATIENT
@given(
    st.lists(st.tuples(st.sampled_from(sorted(CALLS)), PLACES, PLACES), min_size=2, max_size=9),
    PLACES,
)
def test_operators_that_write_are_eagers(steps: list[tuple[str, int, int]], last: int) -> None:
    def program(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = [a * 1, b * 1]
        for name, i, j in steps:  # mostly the newest value, so that others die
            CALLS[name](values, values[-1 - i % 2], values[j % len(values)])
        return values[-1] * 2, values[last % len(values)] + 1

    inputs = torch.linspace(-1, 2, 32).view(2, 4, 4)
    with config.patch(suppress_errors=False):
        try:
            expected = program(*inputs.clone())
        except RuntimeError:  # both arguments are one tensor
            return
        found = minitorch2.compile(program)(*inputs.clone())
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
