"""Sizes of inputs as symbols: how often is compiled, what is guarded, what Python makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import config
from minitorch2.bytecode.dispatch import dispatcher_of
from minitorch2.errors import ConfigError, DynamicSizeError, GraphBreakError
from minitorch2.testing.assertions import assert_same


class Compiled:
    """A function compiled with a backend that runs graphs as they are and keeps them."""

    def __init__(self, function: Callable[..., Any], **settings: Any) -> None:
        self.graphs: list[Any] = []
        self.function = function
        self.fast = minitorch2.compile(function, backend=self._keep, **settings)

    def _keep(self, graph: Any, inputs: list[Any]) -> Any:
        self.graphs.append(graph)
        return graph

    def __call__(self, *args: Any) -> int:
        """Compare with eager; how often was compiled so far."""
        assert_same(self.fast(*args), self.function(*args))
        return len(self.graphs)


def counts(function: Callable[..., Any], calls: Iterable[Any], **settings: Any) -> list[int]:
    """How often was compiled after each call; a call is arguments, or the size of one vector."""
    compiled = Compiled(function, **settings)
    calls = [call if isinstance(call, tuple) else (torch.randn(call),) for call in calls]
    return [compiled(*call) for call in calls]


def shape_guards(compiled: Compiled) -> list[str]:
    """The conditions on sizes of the last entry."""
    (*_, report) = minitorch2.shapes(compiled.fast).entries
    return list(report.guards)


def methods_of(graph: Any) -> list[str]:
    """The methods of tensors that a graph calls."""
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_method"]


def double(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def test_automatic_dynamic_compiles_once_for_all_sizes_but_zero_and_one() -> None:
    assert counts(double, [5, 7, 9, 11, 1, 0]) == [1, 2, 2, 2, 3, 4]


def test_dynamic_from_the_start() -> None:
    assert counts(double, [5, 7, 1, 0, 9, 1, 0], dynamic=True)[-1] == 3


@pytest.mark.parametrize(("dynamic", "compilations"), [(None, 2), (True, 1), (False, 3)])
def test_the_three_ways(dynamic: bool | None, compilations: int) -> None:
    assert counts(double, [5, 7, 9], dynamic=dynamic)[-1] == compilations


def test_another_rank_is_compiled_anew() -> None:
    calls = [(torch.ones(*s),) for s in [(4,), (5,), (6,), (4, 5), (4, 6), (5, 7), (3,)]]
    assert counts(double, calls) == [1, 2, 2, 3, 4, 5, 5]


def cat_example(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.cat([x, y])
    return z.mul(2) if z.size(0) > 2 else z.add(2)


def test_cat_example_of_the_paper() -> None:
    """Section 5.1: the size of z is reduced to the inputs'. Here the guard is implied: both sizes
    are at least 2."""
    compiled = Compiled(cat_example, dynamic=True)
    assert compiled(torch.ones(2), torch.ones(3)) == 1
    assert compiled(torch.ones(4), torch.ones(9)) == 1
    assert shape_guards(compiled) == ["x.shape[0] >= 2", "y.shape[0] >= 2"]


def test_a_branch_on_an_intermediate_guards_the_inputs() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.cat([x, y])
        return z.mul(2) if z.size(0) > 8 else z.add(2)

    compiled = Compiled(f, dynamic=True)
    assert compiled(torch.ones(2), torch.ones(3)) == 1
    assert shape_guards(compiled)[-1] == "x.shape[0] + y.shape[0] <= 8"
    assert compiled(torch.ones(3), torch.ones(5)) == 1
    assert compiled(torch.ones(4), torch.ones(9)) == 2
    assert shape_guards(compiled)[-1] == "x.shape[0] + y.shape[0] > 8"
    assert compiled(torch.ones(7), torch.ones(2)) == 2


def test_the_hint_chooses_the_one_branch_that_is_traced() -> None:
    """The paper's section 5.1: the value in the example decides, and a guard says so."""
    entered = []

    def f(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] * 2 > 10:
            entered.append("large")
            return x.mul(2)
        entered.append("small")
        return x.add(2)

    compiled = Compiled(f, dynamic=True)
    x = torch.ones(6)
    compiled.fast(x)
    assert entered == ["large"]
    assert methods_of(compiled.graphs[0]) == ["mul"]
    assert shape_guards(compiled)[-1] == "2*x.shape[0] > 10"


def test_a_graph_runs_only_where_its_guards_hold() -> None:
    """There is no bailout: what does not fit is known before the first operator has run."""
    runs: list[str] = []

    def backend(graph: Any, inputs: list[Any]) -> Any:
        return lambda *args: runs.extend(methods_of(graph)) or graph(*args)

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.mul(2) if x.shape[0] > 5 else x.add(2)

    fast = minitorch2.compile(f, backend=backend, dynamic=True)
    for size in (6, 3, 9, 4):
        assert_same(fast(torch.ones(size)), f(torch.ones(size)))
    assert runs == ["mul", "add", "mul", "add"]


def test_a_guard_that_divides_by_a_size_of_0_fails() -> None:
    """The explanation of the failed guard divided by zero, and the call raised that."""
    program = lambda x: sum(part.sum() for part in x.chunk(3, 0)) * x  # noqa: E731
    fast = minitorch2.compile(program, backend="aot_eager", dynamic=True)
    for shape in [(33, 9, 1), (7, 33, 4), (0, 2, 12)]:
        x = torch.randn(shape, requires_grad=True)
        assert_same(fast(x), program(x), 1e-5)


def test_conditions_on_sizes_are_one_boolean_expression_over_the_inputs() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        large = x.shape[0] + y.shape[0] > 8 and x.shape[0] % 2 == 0
        return x.sum() * y.sum() if large else x.sum()

    fast = minitorch2.compile(f, backend="eager", dynamic=True)
    fast(torch.ones(6), torch.ones(7))
    (report,) = minitorch2.shapes(fast).entries
    condition = " and ".join(f"({guard})" for guard in report.guards)
    for m, n, holds in [(6, 7, True), (2, 7, True), (2, 6, False), (5, 9, False), (6, 1, False)]:
        x, y = torch.ones(m), torch.ones(n)
        assert eval(condition, {"x": x, "y": y}) is holds
        entry = dispatcher_of(fast).cache.compiled[0]  # type: ignore[union-attr]
        assert entry.guards.bind(f).fast_check(x, y) is holds


def test_implied_guards_are_not_added() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        for bound in (3, 2, 1, 0, -5):
            if n > bound:
                x = x + bound
        if n == 1 or n == 0 or n < 2 or n * 2 < 4 or n * n < 9:
            x = x * 100
        return x

    compiled = Compiled(f, dynamic=True)
    compiled(torch.ones(9))
    assert shape_guards(compiled) == ["x.shape[0] >= 2", "x.shape[0] > 3"]
    assert minitorch2.shapes(compiled.fast).entries[0].implied >= 9


def test_duck_shapes_and_their_switch() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum() + y.sum()

    calls = [(torch.ones(4), torch.ones(4)), (torch.ones(5), torch.ones(5)),
             (torch.ones(5), torch.ones(6)), (torch.ones(7), torch.ones(8))]  # fmt: skip
    assert counts(f, calls, dynamic=True) == [1, 1, 2, 2]
    assert counts(f, calls, dynamic=True, options={"duck_shapes": False}) == [1, 1, 1, 1]


def test_weights_are_static() -> None:
    layer = torch.nn.Linear(6, 3)
    compiled = Compiled(lambda x: layer(x), dynamic=True)
    for batch in (4, 5, 9):
        assert compiled(torch.ones(batch, 6)) == 1
    assert shape_guards(compiled)[-1] == "x.shape[1] == 6"


def test_sizes_that_meet_are_unified() -> None:
    compiled = Compiled(lambda x, y: x + y, dynamic=True, options={"duck_shapes": False})
    assert compiled(torch.ones(4, 8), torch.ones(4, 8)) == 1
    assert compiled(torch.ones(6, 3), torch.ones(6, 3)) == 1
    assert "y.shape[0] == x.shape[0]" in shape_guards(compiled)
    assert compiled(torch.ones(6, 3), torch.ones(3)) == 2


def test_divisibility() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 4 == 0:
            y = x.view(x.shape[0] // 4, 4)
            return y.sum(1) if y.shape[0] * 4 == x.shape[0] else y
        return x + 1

    compiled = Compiled(f, dynamic=True)
    assert compiled(torch.ones(8)) == 1
    assert shape_guards(compiled) == ["x.shape[0] >= 2", "(x.shape[0] % 4) == 0"]
    assert compiled(torch.ones(20)) == 1
    assert compiled(torch.ones(21)) == 2
    assert compiled(torch.ones(23)) == 2


@pytest.mark.parametrize("numbers", [(1, 0, 0), (1, 2, 0), (3, -4, 0), (1, 0, -2, 4)])
def test_an_even_number_may_be_zero_or_negative(numbers: tuple[int, ...]) -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        row = x[n % 2]
        return row + 1 if n > 0 else row - 1

    compiled, x = Compiled(f), torch.arange(4.0).view(2, 2)
    for number in numbers:
        compiled(x, number)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.view(x.shape[0] * x.shape[1]),
        lambda x: (x, x.shape, x.size(1), x.shape[0] + 1, len(x), x.numel()),
        lambda x: x.reshape(-1)[: x.shape[0] // 2],
        lambda x: torch.zeros(x.shape[0], 3) + x.shape[1],
        lambda x: x / x.shape[0] + x.shape[0] / x.shape[1],
        lambda x: x.mean() * (x.shape[0] ** 0.5),
        lambda x: x.new_ones(max(x.shape[0], 3)),
        lambda x: x.expand(3, *x.shape).transpose(0, 1).contiguous(),
        lambda x: torch.arange(x.shape[0]).to(x.dtype),
        lambda x: F.pad(x, (1, 2)).sum(0),
        lambda x: x.split(2, dim=1)[0] + x.chunk(2, dim=1)[0][:, :1],
        lambda x: [x[i].sum() for i in range(2)],
        lambda x: torch.softmax(x @ x.t(), -1),
        lambda x: {"n": x.shape[0], "odd": x.shape[0] % 2, "wide": x.shape[1] > x.shape[0]},
        lambda x: x[:, -1] + x[0, 0] + x[..., 1],
        lambda x: torch.nn.functional.interpolate(x[None, None], scale_factor=2.0).sum(),
        lambda x: x.t() @ x + x.shape[1],
        lambda x: x.flatten().unfold(0, 2, 1).sum(1),
        lambda x: (int(x.shape[0]) + 2, float(x.shape[1]), bool(x.shape[0])),
        lambda x: x.repeat(2, 1).narrow(0, 1, x.shape[0]),
    ],
)  # fmt: skip
def test_programs_on_sizes(program: Callable[[torch.Tensor], Any]) -> None:
    compiled = Compiled(program, dynamic=True, fullgraph=True)
    for rows, columns in [(6, 9), (8, 11), (7, 12), (12, 31), (3, 5)]:
        compiled(torch.randn(rows, columns))
    assert len(compiled.graphs) <= 4


def test_a_size_that_python_needs_is_specialised() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(x.shape[0]):
            x = x + 1
        return x

    assert counts(f, [4, 5, 6], dynamic=True) == [1, 2, 3]


def test_text_of_a_size_specialises() -> None:
    assert counts(lambda x: (x + 1, f"{x.shape[0]}"), [4, 5, 5], dynamic=True) == [1, 2, 2]


def test_ints_are_symbols_from_their_second_value_on() -> None:
    calls = [(torch.ones(3), n) for n in (3, 4, 5, 6, 1, 0, 7)]
    assert counts(lambda x, n: (x * n + n // 2, n + 1), calls) == [1, 2, 2, 2, 2, 2, 2]


def test_an_int_that_is_specialised_is_a_constant_again() -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = x + 1
        return x

    assert counts(f, [(torch.ones(3), n) for n in (3, 4, 5, 4, 3)]) == [1, 2, 3, 3, 3]


def test_a_size_of_a_tensor_that_the_graph_does_not_read() -> None:
    compiled = Compiled(lambda x, y: x * y.shape[0], dynamic=True)
    for n in (4, 5, 6):
        assert compiled(torch.ones(3), torch.ones(n)) == 1
    assert next(node.name for node in compiled.graphs[0].graph.placeholders).startswith("s")


def test_strides_of_other_orders() -> None:
    compiled = Compiled(lambda x: (x * 2).sum(0) + x[0], dynamic=True)
    for rows, columns in [(4, 6), (5, 7)]:
        assert compiled(torch.randn(rows, columns)) == 1
    for rows, columns in [(4, 6), (5, 7), (6, 9)]:
        assert compiled(torch.randn(columns, rows).t()) == 2


def test_modules() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
    model.eval()
    compiled = Compiled(lambda x: model(x))
    assert [compiled(torch.randn(n, 4)) for n in (3, 5, 7, 9)] == [1, 2, 2, 2]


# Marks --------------------------------------------------------------------------------------------


def marked(mark: Callable[..., None], size: int, *args: Any, **limits: Any) -> torch.Tensor:
    x = torch.randn(size, 4)
    mark(x, *args, **limits)
    return x


@pytest.mark.parametrize("dynamic", [None, False])
def test_mark_dynamic(dynamic: bool | None) -> None:
    calls = [(marked(minitorch2.mark_dynamic, n, 0),) for n in (5, 7, 9)]
    assert counts(double, calls, dynamic=dynamic) == [1, 1, 1]


def test_mark_static() -> None:
    calls = [(marked(minitorch2.mark_static, n, 0),) for n in (5, 7, 9)]
    assert counts(double, calls, dynamic=True) == [1, 2, 3]


def test_limits_of_a_mark_are_guarded() -> None:
    compiled = Compiled(double)
    assert compiled(marked(minitorch2.mark_dynamic, 5, 0, min=4, max=8)) == 1
    assert [compiled(torch.ones(n, 4)) for n in (4, 8, 9, 3)] == [1, 1, 2, 2]


def test_limits_of_a_mark_decide_branches() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] <= 8 else x - 1

    compiled = Compiled(f)
    compiled(marked(minitorch2.mark_dynamic, 5, 0, max=8))
    assert shape_guards(compiled) == ["x.shape[0] >= 2", "x.shape[0] <= 8"]


def test_a_violated_mark_raises_with_the_chain() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x + y
        return z * int(torch.numel(z)) if f"{z.shape[0]}" else z

    x = marked(minitorch2.mark_dynamic, 5, 0)
    with pytest.raises(DynamicSizeError) as found:
        minitorch2.compile(f, backend="eager", dynamic=True)(x, torch.ones(5, 4))
    text = str(found.value)
    assert "x.shape[0] is marked as dynamic, and its size was specialised to 5" in text
    assert "y.shape[0] == x.shape[0], asked by aten.add.Tensor" in text
    assert "x.shape[0] == 5, asked by Python" in text
    assert "z.shape[0]" in text  # the user's line


def test_a_violated_limit_raises() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] <= 6 else x - 1

    x = marked(minitorch2.mark_dynamic, 5, 0, max=8)
    with pytest.raises(DynamicSizeError, match=r"works for sizes 2 \.\. 6 only, not for 2 \.\. 8"):
        minitorch2.compile(f, backend="eager")(x)


def test_maybe_mark_dynamic_accepts_a_specialization() -> None:
    x = marked(minitorch2.maybe_mark_dynamic, 5, 0)
    compiled = Compiled(lambda x: x * int(f"{x.shape[0]}"))
    assert compiled(x) == 1


def test_marks_of_what_is_not_there() -> None:
    with pytest.raises(ConfigError, match="no dimension 2"):
        minitorch2.mark_dynamic(torch.ones(2, 3), 2)
    with pytest.raises(ConfigError, match="has size 1"):
        minitorch2.mark_dynamic(torch.ones(1, 3), 0)


def test_mark_unbacked_serves_zero_and_one() -> None:
    calls = [(marked(minitorch2.mark_unbacked, n, 0),) for n in (5, 1, 0, 3)]
    assert counts(double, calls, fullgraph=True) == [1, 1, 1, 1]


def test_a_branch_on_an_unbacked_size_breaks_the_graph() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 3 else x - 1

    x = marked(minitorch2.mark_unbacked, 5, 0)
    with pytest.raises(GraphBreakError, match="whether u0 > 3"):
        minitorch2.compile(f, backend="eager", fullgraph=True)(x)


# Named dimensions ---------------------------------------------------------------------------------

BATCH = minitorch2.Dim("batch", max=64)
LENGTH = minitorch2.Dim("length")


def named(*dims: minitorch2.Dim | None, shape: tuple[int, ...]) -> torch.Tensor:
    x = torch.randn(shape)
    minitorch2.mark_dynamic(x, {d: dim for d, dim in enumerate(dims) if dim is not None})
    return x


def test_dimensions_of_one_name_are_one_symbol() -> None:
    compiled = Compiled(lambda x, y: torch.cat([x, y], 1) * x.shape[0])
    x, y = named(BATCH, LENGTH, shape=(4, 4)), named(BATCH, None, shape=(4, 3))
    assert compiled(x, y) == 1
    assert shape_guards(compiled) == [
        "y.shape[0] == x.shape[0]",
        "x.shape[0] >= 2",
        "x.shape[0] <= 64",
        "x.shape[1] >= 2",
    ]
    assert {size.symbol for size in minitorch2.shapes(compiled.fast).entries[0].sizes} == {
        "batch",
        "length",
    }
    assert compiled(torch.ones(9, 7), torch.ones(9, 3)) == 1
    assert compiled(torch.ones(65, 7), torch.ones(65, 3)) == 2


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda x: x * int(f"{x.shape[0]}"), "was specialised to 6"),
        (lambda x: x + x.t(), "works where it is batch only"),
        (lambda x: x.view(2, -1, 6), r"works where it is 2\*\(batch // 2\) only"),
        (lambda x: x if x.shape[0] > 5 else x + 1, r"Dim\('batch', min=6, max=64\)"),
    ],
)
def test_a_promise_that_a_program_breaks(program: Callable[..., Any], message: str) -> None:
    x = named(BATCH, LENGTH, shape=(6, 6))
    with pytest.raises(DynamicSizeError, match=message) as found:
        minitorch2.compile(program, backend="eager")(x)
    assert "asked by" in str(found.value) and "test_dynamic_sizes.py" in str(found.value)


def test_one_name_for_two_sizes() -> None:
    x, y = named(BATCH, shape=(4, 3)), named(BATCH, shape=(5, 3))
    with pytest.raises(
        DynamicSizeError, match=r"batch is 4 as x.shape\[0\], and 5 as y.shape\[0\]"
    ):
        minitorch2.compile(lambda x, y: (x + 1, y + 1), backend="eager")(x, y)


def test_names_and_limits_that_are_none() -> None:
    with pytest.raises(ConfigError, match="no name"):
        minitorch2.Dim("s0")
    with pytest.raises(ConfigError, match="no limits"):
        minitorch2.Dim("batch", min=1)
    with pytest.raises(ConfigError, match=r"has size 65, and mark_dynamic serves sizes 2 \.\. 64"):
        named(BATCH, shape=(65, 2))


# The report ---------------------------------------------------------------------------------------


def test_shapes_says_why_a_size_is_a_number() -> None:
    compiled = Compiled(lambda x, y, z: x.sum() + y.sum() + z.sum())
    y = marked(minitorch2.mark_static, 4, 0)
    compiled(torch.ones(3, 1), y, torch.ones(2))
    compiled(torch.ones(5, 1), y, torch.ones(2))
    first, second = minitorch2.shapes(compiled.fast).entries
    assert "x.shape[0] = 3, and has not changed" in first.numbers
    assert second.numbers == (
        "x.shape[1] = 1, as sizes 0 and 1 are compiled apart",
        "y.shape[0] = 4, as it is marked as static",
        "y.shape[1] = 4, and has not changed",
        "z.shape[0] = 2, and has not changed",
    )
    static = Compiled(lambda x: x + 1, dynamic=False)
    static(torch.ones(3))
    assert "x.shape[0] = 3, as dynamic is False" in str(minitorch2.shapes(static.fast))


def test_a_multiple_that_is_specialised_is_a_number() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.view(3, -1) * int(f"{x.shape[0]}")

    compiled = Compiled(f, dynamic=True)
    compiled(torch.ones(6))
    assert minitorch2.shapes(compiled.fast).entries[0].sizes[0].value == "6"
    with pytest.raises(DynamicSizeError, match="specialised to 6"):
        minitorch2.compile(f, backend="eager")(marked_vector(6))


def marked_vector(size: int) -> torch.Tensor:
    x = torch.ones(size)
    minitorch2.mark_dynamic(x, 0)
    return x


def test_dynamic_sizes_switch_off_the_checks_of_sizes_and_strides() -> None:
    """The asterisk of the slides' TENSOR_MATCH: under dynamic shapes these are not compared."""
    for dynamic, expected in ((False, True), (True, False)):
        compiled = Compiled(double, dynamic=dynamic)
        compiled(torch.ones(4, 5))
        text = dispatcher_of(compiled.fast).cache.compiled[0].guards.source
        assert ("x.shape == " in text) is ("x.stride() == " in text) is expected
        assert ("x.ndim == 2" in text) is not expected


def test_shapes_shows_symbols_ranges_and_chains() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x @ w
        return y + 1 if y.shape[0] > 3 else y

    compiled = Compiled(f, dynamic=True)
    compiled(torch.ones(5, 6), torch.ones(6, 7))
    report = minitorch2.shapes(compiled.fast)
    symbols = {size.symbol: size for size in report.entries[0].sizes}
    assert symbols["s0"].sources == ("x.shape[0]",) and symbols["s0"].range == ">= 4"
    assert symbols["s1"].sources == ("x.shape[1]", "w.shape[0]")
    assert "x.shape[0] > 3, asked by Python" in str(report)
    assert "y.shape[0] > 3" in str(report)


def test_a_recompile_names_the_relation_that_failed() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] * 2 > 8 else x - 1

    compiled = Compiled(f, dynamic=True)
    compiled(torch.ones(9))
    compiled(torch.ones(3))
    (recompile,) = minitorch2.recompiles(compiled.fast)
    assert "2*x.shape[0] > 8" in str(recompile) and "x.shape[0] = 3" in str(recompile)


def test_static_compilation_asks_no_shape_environment() -> None:
    """The static path stays as it was: no symbol, no guard on sizes but the tensors' own."""
    compiled = Compiled(double)
    compiled(torch.ones(4))
    assert minitorch2.shapes(compiled.fast).entries[0].sizes == ()
    with config.patch(dynamic=False):
        assert Compiled(double)(torch.ones(4)) == 1


@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_a_number_of_known_parity_reaches_the_graph(backend: str) -> None:
    """The graph used ``s0_2``, half of the number, which nothing computed."""

    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x + (n - 1)
        return y * 2 if n % 2 == 0 else y

    fast = minitorch2.compile(program, backend=backend)
    for n in (3, 4, 6, 5, 8, 9):
        x = torch.randn(5)
        assert_same(fast(x, n), program(x, n))


SEARCHES: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x * 2 if -1 in x.shape else x + 1,
    lambda x: x * 2 if -1 in [x.shape[0] * x.shape[1]] else x + 1,
    lambda x: x * list(x.shape).count(1),
    lambda x: x * (0, x.shape[1], 7).index(7),
]


@pytest.mark.parametrize("program", SEARCHES)
def test_a_search_among_sizes_fixes_none(program: Callable[[torch.Tensor], Any]) -> None:
    compiled = Compiled(program, dynamic=True, fullgraph=True)
    for size in (4, 6, 8):
        compiled(torch.ones(2, size))
    assert len(compiled.graphs) == 1
