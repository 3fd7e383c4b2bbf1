"""What is around a program: options, settings, folders of the cache, backends that fail, names.

Each test draws small cases of one promise that whole programs show too seldom.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import minitorch2
from minitorch2 import config, stages
from minitorch2.backends.graph_cache import bypass, lookup
from minitorch2.cache import key_of, storage
from minitorch2.errors import BackendError
from minitorch2.graph.scope import PYTHON, Scope
from tests.property.state_world import flags_as_before

PATIENT = settings(  # each example compiles a graph
    max_examples=max(settings().max_examples // 5, 1),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
OPTIONS: Final[dict[str, st.SearchStrategy[Any]]] = {
    **dict.fromkeys(
        ("fusion", "inline_pointwise", "emulate_eager", "arenas", "assert_layouts",
         "assert_no_nan", "fallback_random", "reorder_loops"),
        st.booleans(),
    ),
    "max_fusion_size": st.integers(1, 9),
    "realize_reads_threshold": st.integers(1, 9),
    "unroll_reductions_threshold": st.integers(0, 9),
    "threads": st.integers(1, 2),
}  # fmt: skip
"""Options that change what is compiled, and values for them."""


def chosen_options(most: int) -> st.SearchStrategy[dict[str, Any]]:
    """Some options with values."""
    names = st.lists(st.sampled_from(sorted(OPTIONS)), min_size=1, max_size=most, unique=True)
    return names.flatmap(lambda found: st.fixed_dictionaries({n: OPTIONS[n] for n in found}))


@given(chosen_options(4), st.booleans())
def test_options_reach_the_backend(options: dict[str, Any], patched: bool) -> None:
    seen: dict[str, Any] = {}

    def backend(graph: Any, inputs: Any) -> Any:
        seen.update((name, getattr(config.current(), name)) for name in options)
        return graph

    around = config.patch(**options) if patched else contextlib.nullcontext()
    with around:
        given_ = None if patched else options
        minitorch2.compile(lambda x: x + 1, backend=backend, options=given_)(torch.ones(2))
    assert seen == options


@given(st.integers(0, 0o77).map(lambda bits: 0o700 | bits), st.binary(min_size=1, max_size=9))
def test_only_folders_that_nobody_else_writes_to_are_read(mode: int, payload: bytes) -> None:
    key = key_of("test", "an entry", payload=payload.hex())
    with tempfile.TemporaryDirectory() as above, mock.patch.object(storage, "HELD", {}):
        folder = Path(above) / "cache"
        with config.patch(cache_dir=str(folder), cache=True):
            storage.store(key, payload)
            assert storage.load(key) == payload
            folder.chmod(mode)
            assert storage.load(key) == (None if mode & 0o002 else payload)


@given(
    st.sampled_from((ValueError, RuntimeError, KeyError, AssertionError, NotImplementedError)),
    st.integers(1, 4),
    st.booleans(),
)
def test_a_backend_that_fails_stops_no_program(
    kind: type[Exception], most: int, suppress: bool
) -> None:
    def backend(graph: Any, inputs: Any) -> Any:
        if len([*graph.graph.nodes]) > most + 2:
            raise kind("too many")
        return graph

    def program(x: torch.Tensor, count: int) -> torch.Tensor:
        for _ in range(count):
            x = x.sin()
        return x

    x = torch.linspace(-1, 1, 3)
    with config.patch(suppress_errors=suppress):
        fast = minitorch2.compile(program, backend=backend)
        for count in range(1, 6):
            if count > most and not suppress:
                with pytest.raises(BackendError, match=kind.__name__):
                    fast(x, count)
                continue
            torch.testing.assert_close(fast(x, count), program(x, count))


WISHES = st.sampled_from(("x", "x_1", "x_1_1", "len", "len_1", "for", "x.y", "x_y", "1", "Δ", ""))


@given(st.lists(WISHES), st.sets(WISHES), st.lists(WISHES))
def test_a_scope_gives_each_name_once(wishes: list[str], taken: set[str], later: list[str]) -> None:
    scope, grown = Scope(taken, later), {*taken, *later, *PYTHON}
    names = [scope.fresh(wish) for wish in wishes]
    assert len({*names}) == len(names)
    assert grown.isdisjoint(names) and all(name.isidentifier() for name in names)


def arithmetic(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A program whose kernels depend on most options."""
    a = x.sin() + y
    b = (a.sum(1, keepdim=True) * y.exp()).t() + torch.rand(())
    return a, b, (b @ x).softmax(-1).sum(0) + a * 2


def compiled_under(options: dict[str, Any], texts: bool) -> stages.StageLog:
    """What is compiled for the program, as in a new process; with texts it comes from no cache."""
    minitorch2.reset()
    lookup._PROGRAMS.clear()
    with stages.collect(texts=texts) as log, config.patch(**options):
        x = torch.linspace(-1, 1, 9).view(3, 3)
        minitorch2.compile(arithmetic)(x, x + 1)
    return log


@PATIENT
@given(chosen_options(2), chosen_options(2))
def test_the_cache_tells_options_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        config.patch(cache_dir=folder, verify=False),
        mock.patch.object(bypass, "EXTENSIONS", list[str]()),  # other tests add lowerings
    ):
        assert compiled_under(one, texts=False).counts["graphs_compiled"] == 1
        if compiled_under(other, texts=False).counts["graphs_loaded"]:
            first, second = (compiled_under(options, texts=True) for options in (one, other))
            for kind in ("wrapper.py", "kernel.py"):
                assert first.texts(kind) == second.texts(kind)


TEXTS: Final = (
    "str(x.shape)", "f'{x.shape}'", "repr(x.shape[0])", "str(tuple(x.shape))", "'%d' % x.shape[0]",
    "f'{x.shape[0]:>5}'", "str([x.size(0), 1])", "str(x.shape[0] * 2)", "f'{x.numel()!r}'",
    "str({'n': x.shape[0]})", "'{}'.format(x.size())", "str(x.shape[1:])", "str(x.stride())",
    "str(x.unsqueeze(0).shape)", "str(torch.cat([x, x]).shape)", "','.join(map(str, x.shape))",
    "str(x.shape[0] > 3)", "str(x.shape[0] / 2)", "str((x.shape, 1.5))", "format(x.shape[0], '04')",
)  # fmt: skip


@given(
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 4)), min_size=1, max_size=3),
)
def test_texts_of_sizes_are_pythons(texts: list[str], sizes: list[tuple[int, int]]) -> None:
    names: dict[str, Any] = {"torch": torch}
    body = f"    shown = [{', '.join(texts)}]\n    return shown, x + len(''.join(shown))\n"
    exec(compile(f"def program(x):\n{body}", f"<{hash(body)}>", "exec"), names)
    program: Callable[..., Any] = names["program"]
    fast = minitorch2.compile(program, backend="eager", dynamic=True)
    with config.patch(recompile_limit=64, suppress_errors=False):
        for size in sizes:
            shown, values = program(torch.ones(size))
            given_, found = fast(torch.ones(size))
            assert given_ == shown
            torch.testing.assert_close(found, values)


NEW: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "empty": lambda x: torch.empty(2, 3, dtype=x.dtype),
    "empty_like": torch.empty_like,
    "new_empty": lambda x: x.new_empty(4),
    "empty_strided": lambda x: torch.empty_strided((2, 2), (1, 2), dtype=x.dtype),
    "Tensor": lambda x: x.new_empty((1, 0, 2)),
}
DTYPES: Final = (torch.float32, torch.int8, torch.bool, torch.bfloat16, torch.int64, torch.float16)


@PATIENT
@given(
    st.sampled_from(sorted(NEW)), st.sampled_from(DTYPES), st.sampled_from(("aot_eager", "numba"))
)
def test_new_memory_is_filled_where_algorithms_are_deterministic(
    name: str, dtype: torch.dtype, backend: str
) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return NEW[name](x)

    x = torch.ones(2, dtype=dtype)
    with flags_as_before():
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[assignment]
        fast = minitorch2.compile(program, backend=backend)
        torch.testing.assert_close(fast(x), program(x), equal_nan=True)
