"""An equal graph is not compiled again, in this process or another, and gives the same bits."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import minitorch2
from minitorch2 import cache, config, stages
from minitorch2.backends.graph_cache import REASONS, bypass, key, lookup
from minitorch2.backends.graph_cache.sizes import Sizes
from minitorch2.cache import storage
from minitorch2.cache.bundle import load_bundle, save_bundle
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.codegen.target import Target
from minitorch2.codegen.triton.target import TRITON
from minitorch2.config import Choice, Config, list_options
from minitorch2.explorer.cached import report
from minitorch2.graph import extensions
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.symbols import ShapeEnv
from tests.unit.backends.graph_cache_programs import PROGRAMS, numbers

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache, in use although tests verify graphs; no program of an earlier test, and none
    of the passes and lowerings that other tests have added.
    """
    monkeypatch.setattr(bypass, "EXTENSIONS", list[str]())
    forget()
    with config.patch(cache_dir=str(tmp_path / "cache"), verify=False, suppress_errors=False):
        yield
    forget()


def forget() -> None:
    """As a new process would start."""
    minitorch2.reset()
    gc.collect()
    lookup._PROGRAMS.clear()


def counted(run: Callable[[], Any]) -> dict[str, int]:
    """How graphs were had, by the last words of the counts' names."""
    with stages.collect(texts=False) as log:
        run()
    return {
        name.removeprefix("graphs_"): number
        for name, number in log.counts.items()
        if name.startswith("graphs_")
    }


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a.nan_to_num(7), b.nan_to_num(7))


# Another process


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], Any]]:
    """What two processes gave and counted, the second in another order of programs."""
    folder = tmp_path_factory.mktemp("processes")
    environment = os.environ | {
        "MINITORCH2_CACHE_DIR": str(folder / "cache"), "MINITORCH2_VERIFY": "0",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "2",
    }  # fmt: skip
    found = []
    for number, order in enumerate([[], ["reversed"]]):
        results = folder / str(number)
        command = [sys.executable, "-m", "tests.unit.backends.graph_cache_programs", str(results)]
        environment["PYTHONHASHSEED"] = str(number)
        done = subprocess.run([*command, *order], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append((torch.load(results), json.loads(done.stdout.splitlines()[-1])))
    return found


def test_a_second_process_compiles_no_graph_and_no_kernel(processes: Any) -> None:
    (_, (first, reasons)), (_, (second, _)) = processes
    assert reasons == {} and first["graphs_compiled"] == first["graphs"]
    assert second["graphs_loaded"] == first["graphs_compiled"], second
    assert "graphs_compiled" not in second and "kernels_compiled" not in second
    for name in ("kernels_before_fusion", "fusions", "kernels", "fallbacks", "rewrites"):
        assert second[name] == first[name], name


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_gives_the_same_bits(processes: Any, name: str) -> None:
    (first, _), (second, _) = processes
    assert len(first[name]) == len(second[name]) > 0
    for a, b in zip(first[name], second[name], strict=True):
        assert same_bits(a, b), name


# The key


class Seen:
    """A captured graph and its inputs."""

    def __init__(self, function: Callable[..., Any], *inputs: Any, **options: Any) -> None:
        def backend(module: GraphModule, examples: list[Any]) -> Any:
            self.module, self.examples = module, examples
            return module

        minitorch2.compile(function, backend=backend, **options)(*inputs)

    def key(self, target: Target[Any] = NUMBA) -> cache.Key:
        sizes = Sizes.of(self.module)
        return key.key_of_graph(self.module, self.examples, target, sizes.text)


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y).sin()


def differing(one: cache.Key, other: cache.Key) -> set[str]:
    return {name for name in one.fields if one.fields[name] != other.fields[name]}


@contextmanager
def changed(change: Callable[[Any], Any], value: Any, before: Any) -> Iterator[None]:
    change(value)
    try:
        yield
    finally:
        change(before)


STATES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "options": lambda: config.patch(fusion=False),
    "grad_mode": torch.no_grad,
    "default_dtype": lambda: changed(torch.set_default_dtype, torch.float64, torch.float32),
    "deterministic_algorithms": lambda: changed(torch.use_deterministic_algorithms, True, False),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "matmul_precision": lambda: changed(torch.set_float32_matmul_precision, "medium", "highest"),
    "attention": lambda: changed(torch.backends.cuda.enable_flash_sdp, False, True),
    "threads": lambda: changed(torch.set_num_threads, 7, torch.get_num_threads()),
    "cudnn.benchmark": lambda: torch.backends.cudnn.flags(True, True, 10, False, True),
}


@pytest.mark.parametrize("part", STATES)
def test_each_setting_is_a_part_of_the_key(part: str) -> None:
    seen = Seen(product, torch.ones(3), torch.ones(3))
    before = seen.key()
    with STATES[part]():
        found = differing(before, seen.key())
    assert {name for name in found if not name.endswith(".fp32_precision")} == {part}
    assert part not in differing(before, seen.key())


def test_each_fact_of_the_inputs_is_a_part_of_the_key() -> None:
    x, y = torch.ones(3), torch.ones(3)
    plain = Seen(product, x, y).key()
    assert differing(plain, Seen(product, torch.ones(4), torch.ones(4)).key()) == {"graph"}
    assert differing(plain, Seen(product, x.double(), y.double()).key()) == {"graph"}
    trained = Seen(product, x.clone().requires_grad_(), y).key()
    assert differing(plain, trained) == {"graph", "inputs"}
    moved = Seen(product, torch.ones(4)[1:], y).key()
    assert differing(plain, moved) == {"inputs"}
    both = torch.ones(6)
    assert "memory" in differing(plain, Seen(product, both[:3], both[3:]).key())
    assert differing(plain, Seen(product, x, y, dynamic=True).key()) == {"graph", "sizes"}
    renamed = Seen(lambda b, a: (b * a).sin(), x, y).key()
    assert plain.digest == renamed.digest and plain.title != renamed.title


@pytest.mark.parametrize(
    "part, reader",
    [("minitorch2", "digest_of_sources"), ("versions", "_versions"), ("device", "_devices")],
)
def test_versions_and_the_device_are_parts_of_the_key(
    part: str, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen(product, torch.ones(3), torch.ones(3))
    before = seen.key()
    monkeypatch.setattr(key, reader, lambda *_: "another")
    assert differing(before, seen.key()) == {part}
    assert differing(before, seen.key(TRITON)) >= {"target"}


def test_every_option_counts_but_those_that_are_named() -> None:
    names = set(vars(Config()))
    assert names >= key.WITHOUT_INFLUENCE
    choices = {o.name: o.range for o in list_options() if isinstance(o.range, Choice)}
    for name in names - key.WITHOUT_INFLUENCE:
        value: Any = getattr(Config(), name)
        other = ("x",) if isinstance(value, tuple) else not value
        if name in choices:
            other = next(word for word in choices[name] if word != value)
        if type(value) in (int, float):
            other = value / 2 if isinstance(value, float) else value + 1
        with config.patch(**{name: other}):
            assert name in key._options(), name


def test_why_a_graph_was_not_found_is_said() -> None:
    seen = Seen(product, torch.ones(3), torch.ones(3))
    storage.store(seen.key(), b"")
    with config.patch(fusion=False):
        assert report.explain(seen.key()).differing == ("options",)


# Hits, misses, damage


def train(model: Callable[..., Any]) -> list[torch.Tensor]:
    x = numbers(4, 6, grad=True)
    result = minitorch2.compile(model)(x)
    result.square().sum().backward()
    return [result, x.grad]


def test_equal_models_share_a_graph_and_a_later_one_loads_it() -> None:
    first, second = torch.nn.Linear(6, 3), torch.nn.Linear(6, 3)
    kept: list[Any] = []

    def run(model: torch.nn.Module) -> Any:
        return lambda: kept.append(train(lambda x: model(x).tanh()))

    assert counted(run(first)) == {"compiled": 1}
    assert counted(run(second)) == {"shared": 1}
    values = kept.pop(0)
    kept.clear()
    forget()
    assert counted(run(first)) == {"loaded": 1}
    assert all(map(same_bits, kept[0], values))


def test_equal_blocks_share_a_graph() -> None:
    layers = [torch.nn.Linear(4, 4) for _ in range(4)]

    def block(layer: Any) -> Any:
        return minitorch2.compile(lambda x: torch.relu(layer(x)))

    def run() -> None:
        with torch.no_grad():
            x, kept = numbers(2, 4), []
            for layer in layers:
                kept.append(block(layer))
                x = kept[-1](x)

    assert counted(run) == {"compiled": 1, "shared": 3}


def test_programs_that_nobody_uses_are_let_go() -> None:
    function = minitorch2.compile(lambda x: x.cos())
    with torch.no_grad():
        function(numbers(3))
    assert len(lookup._PROGRAMS) == 1
    del function
    minitorch2.reset()
    gc.collect()
    assert len(lookup._PROGRAMS) == 0


def test_a_trained_graph_is_stored_with_its_backward_graph_only() -> None:
    def forward_alone() -> None:
        minitorch2.compile(lambda x: x.exp().sum())(numbers(3, grad=True))

    assert counted(forward_alone) == {"compiled": 1}
    forget()
    assert counted(forward_alone) == {"compiled": 1}
    assert [found for found in report.entries() if found.entry.layer == "graph"] == []


def test_a_damaged_entry_is_made_again() -> None:
    def run() -> None:
        with torch.no_grad():
            result = minitorch2.compile(lambda x: x.sin() * 3)(numbers(5))
        torch.testing.assert_close(result, numbers(5).sin() * 3)

    assert counted(run) == {"compiled": 1}
    (found,) = (found for found in report.entries() if found.entry.layer == "graph")
    path = storage.path_of(found.digest)
    content = path.read_bytes()
    path.write_bytes(content[:-3] + b"xyz")
    forget()
    damaged = cache.STATISTICS["graph"].damaged
    assert counted(run) == {"compiled": 1}
    assert cache.STATISTICS["graph"].damaged == damaged + 1
    assert path.read_bytes() == content
    forget()
    assert counted(run) == {"loaded": 1}


def test_a_bundle_carries_graphs(tmp_path: Path) -> None:
    run = lambda: train(torch.nn.GELU())  # noqa: E731
    assert counted(run) == {"compiled": 1}
    bundle = save_bundle(found.digest for found in report.entries())
    forget()
    with config.patch(cache_dir=str(tmp_path / "elsewhere")):
        load_bundle(bundle)
        assert counted(run) == {"loaded": 1}


def test_who_watches_sees_everything_compiled() -> None:
    def run() -> None:
        with torch.no_grad():
            minitorch2.compile(lambda x: x.sin() * 3)(numbers(5))

    for _ in range(2):
        forget()
        with stages.collect() as log:
            run()
        assert log.texts("loopir.py") and log.texts("schedule.txt") and log.texts("wrapper.py")


# What is left out


@torch.library.custom_op("graph_cache::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice.register_fake(torch.empty_like)


class Counting(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def hooks() -> AbstractContextManager[Any]:
    return torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)


BYPASSED: dict[str, tuple[Callable[[Any], Any], AbstractContextManager[Any]]] = {
    "it calls graph_cache::twice, which may change": (twice, nullcontext()),
    "parameters are constants": (torch.sin, config.patch(freezing=True)),
}


@pytest.mark.parametrize("reason", BYPASSED)
def test_what_no_key_tells_is_compiled_and_counted(reason: str) -> None:
    function, context = BYPASSED[reason]

    def run() -> None:
        with torch.no_grad(), context:
            result = minitorch2.compile(lambda x: function(x) + 1)(numbers(3))
        torch.testing.assert_close(result, function(numbers(3)) + 1)

    before = REASONS.copy()
    assert counted(run) == {"bypassed": 1}
    assert REASONS - before == {reason: 1}


@pytest.mark.parametrize(
    "reason, context",
    [("there are dispatch modes", Counting), ("hooks change what is saved for backward", hooks)],
)
def test_states_that_no_key_tells(
    reason: str, context: Callable[[], AbstractContextManager[Any]]
) -> None:
    seen = Seen(product, torch.ones(3), torch.ones(3))
    with context(), pytest.raises(bypass.Bypass, match=reason):
        bypass.check(seen.module, seen.examples, NUMBA)
    bypass.check(seen.module, seen.examples, NUMBA)


def test_an_extended_compiler_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "EXTENSIONS", added := list[str]())
    monkeypatch.setattr(bypass, "EXTENSIONS", added)
    extensions.note_extension(torch.sin)
    extensions.note_extension(key.key_of_graph)
    assert added == []
    extensions.note_extension(twice._init_fn)
    seen = Seen(product, torch.ones(3), torch.ones(3))
    with pytest.raises(bypass.Bypass, match="extended by"):
        bypass.check(seen.module, seen.examples, NUMBA)


# Sizes that vary


def sizes_with(hint: int) -> tuple[ShapeEnv, Sizes, Any]:
    env = ShapeEnv()
    size = env.new_size("s0", hint)
    return env, Sizes(env), size


def test_guards_that_compiling_has_found_come_with_the_graph() -> None:
    env, sizes, size = sizes_with(12)
    assert size % 4 == 0 and size > 8 and torch.sym_float(size) - 1.0 != 0
    guards = sizes.learned()
    assert len(guards) == len(env.guards) == 3
    env, sizes, size = sizes_with(16)
    assert sizes.admit(guards) and len(env.guards) == 3
    env, sizes, size = sizes_with(8)
    assert not sizes.admit(guards) and env.guards == []


def test_guards_that_no_text_asks_again_keep_a_graph_out_of_the_cache() -> None:
    _, sizes, size = sizes_with(12)
    assert torch.sym_sqrt(torch.sym_float(size)) != 1.0  # type: ignore[attr-defined]
    with pytest.raises(bypass.Bypass, match="cannot be asked again"):
        sizes.learned()


def test_a_graph_is_not_used_for_sizes_that_its_guards_exclude() -> None:
    _, sizes, _ = sizes_with(12)
    assert sizes.admit(()) and not Sizes(None).admit((("", "s0 > 8"),))
    assert Sizes(None).learned() == ()
