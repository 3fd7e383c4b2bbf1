"""Where the time of a run goes, by kind."""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.__main__ import main
from minitorch2.codegen.memory import Memory
from minitorch2.explorer.profiled import machine
from minitorch2.explorer.profiled.machine import Limits
from minitorch2.explorer.profiled.missed import Measured, missed_in
from minitorch2.explorer.profiled.plans import PlanLog
from minitorch2.explorer.profiled.report import profile_of, short_place
from minitorch2.explorer.profiled.spending import (
    AROUND,
    COMPILE,
    KERNEL,
    LIBRARY,
    OUTSIDE,
    WRAPPER,
    spending_lines,
    spendings,
)


def profiled(run):
    with torch.profiler.profile() as recorded:
        run()
    return spendings(recorded.events())


def test_kernels_library_calls_and_operators_outside_are_told_apart():
    def f(x, w):
        h = torch.relu(x @ w)
        return (h * h.sigmoid()).sum()

    x, w = torch.ones(64, 32), torch.ones(32, 16, requires_grad=True)
    compiled = minitorch2.compile(f, backend="numba")
    compiled(x, w).backward()

    def run():
        for _ in range(3):
            compiled(x, w).backward()
        x.cos()

    found = profiled(run)
    by_kind = {kind: [s for s in found if s.kind == kind] for kind in (KERNEL, LIBRARY, OUTSIDE)}
    assert all(each.name.startswith("fused_") for each in by_kind[KERNEL])
    assert {each.calls for each in by_kind[KERNEL]} == {3}
    assert "aten::mm" in [each.name for each in by_kind[LIBRARY]]
    assert "aten::cos" in [each.name for each in by_kind[OUTSIDE]]
    assert {each.calls for each in found if each.kind == WRAPPER} == {3}
    around = [each.name for each in found if each.kind == AROUND]
    assert any(name.startswith("minitorch2: ") for name in around)
    assert not [s for s in found if s.kind == COMPILE]


def test_compiling_is_no_time_of_the_run():
    compiled = minitorch2.compile(lambda x: x.sin() + 1, backend="aot_eager")
    found = profiled(lambda: compiled(torch.ones(3)))
    assert [s.kind for s in found if s.seconds == max(s.seconds for s in found)] == [COMPILE]
    assert next(spending_lines(found)).endswith("ms compiling")
    names = [s.name for s in found if s.kind == OUTSIDE]
    assert "aten::sin" not in names  # neither traced nor run outside


def test_profile_command(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("import torch\ntorch.ones(3).cos()\n")
    options = ["--json", "--bandwidth", "10", "--peak", "100", "-o", str(tmp_path / "t.json")]
    assert main(["profile", *options, str(script)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "aten::cos" in [each["name"] for each in found["spent"]]
    assert found["version"] == 1 and found["limits"]["bandwidth"] == 10e9
    assert (tmp_path / "t.json").exists()
    with pytest.raises(SystemExit, match="2"):
        main(["profile", str(tmp_path / "none.py")])


# The machine's limit, missed optimizations, peaks of memory ---------------------------------------

LIMITS = Limits("cpu", 1, bandwidth=10e9, operations=100e9)


def profile(run):
    log = PlanLog()
    stages.open_everywhere(log)
    try:
        with torch.profiler.profile(profile_memory=True) as recorded:
            run()
    finally:
        stages.close_everywhere(log)
    return profile_of(recorded, log, LIMITS)


def compiled(f):
    return minitorch2.compile(f, backend="numba", dynamic=False)


def reached_of(f, *inputs):
    found = profile(lambda: compiled(f)(*inputs))
    return {each.work.name: each.work for each in found.reached}


def missed_of(f, *inputs, calls=2):
    step = compiled(f)
    found = profile(lambda: [step(*inputs) for _ in range(calls)])
    return found.missed


def test_a_kernel_moves_what_it_reads_and_writes_of_memory():
    x = torch.ones(64, 32)
    (work,) = reached_of(lambda x: x.sin() * 2 + x, x).values()
    assert work.bytes == 2 * 64 * 32 * 4  # x once, though it is read twice; the result
    assert work.operations == (10 + 1 + 1) * 64 * 32  # a sine counts as ten
    (work,) = reached_of(lambda x: (x * 2).sum(), x).values()
    assert work.bytes == (64 * 32 + 1) * 4
    (work,) = reached_of(lambda x, y: x + y, x, torch.ones(32)).values()
    assert work.bytes == (2 * 64 * 32 + 32) * 4


def test_a_matrix_product_has_two_operations_for_each_pair():
    works = reached_of(lambda x, w: torch.relu(x @ w), torch.ones(64, 32), torch.ones(32, 16))
    assert works["aten::mm"].operations == 2 * 64 * 32 * 16
    assert works["aten::mm"].bytes == (64 * 32 + 32 * 16 + 64 * 16) * 4
    assert __file__ in works["aten::mm"].lines[0]


def test_a_break_in_a_loop_is_told_from_one_in_the_middle():
    def loops(x):
        for _ in range(2):
            x = x + 1
            print(end="")
        return x * 2

    def straight(x):
        x = x + 1
        print(end="")
        return x * 2

    for f, where in ((loops, "in a loop"), (straight, "in the middle")):
        breaks = [each for each in missed_of(f, torch.ones(8)) if each.kind == "graph break"]
        assert breaks and all(each.subject == f"the graph ends {where}" for each in breaks)
        assert all(each.microseconds > 0 for each in breaks)
        assert "function print has effects" in breaks[0].reason and __file__ in breaks[0].lines[0]


def test_library_calls_and_eager_operators_are_told_with_their_lines():
    def f(x, w):
        h = torch.relu(x @ w)
        columns = h.t().contiguous()
        return torch.linalg.eigvalsh(columns @ h), columns, h.softmax(0)

    found = missed_of(f, torch.rand(96, 64), torch.rand(64, 48))
    by_kind = {each.kind: each for each in found}
    assert "aten::mm, then fused" in by_kind["library call"].subject
    assert by_kind["operator as eager's"].subject == "aten::_linalg_eigh"
    assert by_kind["operator as eager's"].reason == "it has no lowering"
    assert by_kind["operator as eager's"].microseconds > 0
    assert all(__file__ in each.lines[0] for each in found)


def test_a_fusion_that_is_refused_has_the_scheduler_s_reason():
    found = missed_of(lambda x: x.cumsum(0).softmax(0), torch.rand(2048, 256))
    refused = [each for each in found if each.kind == "fusion refused"]
    assert refused and all(" + buf" in each.reason and each.microseconds > 0 for each in refused)


def test_a_kernel_that_only_moves_data_is_a_layout_conversion():
    found = missed_of(
        lambda x, w: torch.mm(x.t().contiguous(), w), torch.ones(64, 48), torch.ones(64, 8)
    )
    conversions = [each for each in found if each.kind == "layout conversion"]
    assert len(conversions) <= 1
    (work,) = reached_of(lambda x: x.t().contiguous(), torch.ones(64, 48)).values()
    assert work.moves_only and work.operations == 0
    (work,) = reached_of(lambda x: x.t().contiguous() + 1, torch.ones(64, 48)).values()
    assert not work.moves_only


def test_a_gain_is_the_bytes_that_need_not_move():
    f = compiled(lambda x, w: torch.relu(x @ w))
    x, w = torch.ones(64, 32), torch.ones(32, 16)
    found = profile(lambda: [f(x, w) for _ in range(3)])
    (each,) = [each for each in found.missed if each.kind == "library call"]
    assert each.microseconds == pytest.approx(3 * 2 * 64 * 16 * 4 / LIMITS.bandwidth * 1e6)


def test_a_slow_kernel_is_named_with_what_slows_it():
    step = compiled(lambda x: x.cumsum(0))
    x = torch.ones(1 << 12, 1 << 7)
    log = PlanLog()
    stages.open_everywhere(log)
    try:
        with torch.profiler.profile(profile_memory=True) as recorded:
            step(x)
    finally:
        stages.close_everywhere(log)
    fast = Limits("cpu", 1, bandwidth=1e15, operations=1e15)
    (slow,) = [m for m in profile_of(recorded, log, fast).missed if m.kind == "slow kernel"]
    assert "stride 128" in slow.reason and "of the machine's limit" in slow.reason


def test_the_planned_peak_is_what_is_measured():
    def f(x):
        y = (x @ x).relu()
        z = y @ x
        return (z @ y).sum()

    found = profile(lambda: compiled(f)(torch.ones(64, 64)))
    (peak,) = found.peaks
    assert peak.planned.bytes == peak.measured == 3 * 64 * 64 * 4
    assert peak.planned.lines[0].endswith(f":{f.__code__.co_firstlineno + 3}")
    assert sum(nbytes for _, nbytes in peak.planned.largest) == peak.planned.bytes
    assert found.most_bytes >= peak.measured


def test_the_planned_peak_is_that_of_the_memory_plan():
    planned = []

    class Watching(PlanLog):
        def _close(self, name, module):
            planned.append(Memory(self._lowered, self._plan).peak)
            super()._close(name, module)

    log = Watching()
    stages.open_everywhere(log)
    try:
        x = torch.ones(32, 32, requires_grad=True)
        compiled(lambda x: torch.nn.functional.layer_norm((x @ x).exp(), (32,)))(x).sum().backward()
    finally:
        stages.close_everywhere(log)
    assert len(planned) == 2 and planned == [plan.peak.bytes for plan in log.plans.values()]


def test_sizes_that_vary_have_no_plan_but_a_measured_peak():
    step = minitorch2.compile(lambda x: (x @ x.t()).relu(), backend="numba", dynamic=True)
    found = profile(lambda: [step(torch.ones(n, 8)) for n in (4, 6)])
    (peak,) = found.peaks
    assert peak.planned is None and peak.measured >= 6 * 6 * 4
    assert any("sizes vary" in line for line in found.lines())


def test_a_replay_that_is_refused_is_told_with_its_graph():
    log = PlanLog()
    log.add(stages.Stage("cudagraphs.txt", "launched, not replayed: its sizes vary"))
    (missed,) = missed_in(Measured([], log, LIMITS))
    assert (missed.kind, missed.reason) == (
        "replay refused", "launched, not replayed: its sizes vary",
    )  # fmt: skip


def test_limits_are_the_best_of_all_probes(monkeypatch, tmp_path):
    probes = [LIMITS, replace(LIMITS, bandwidth=20e9, operations=1e9)]
    calls = []

    def probe(device):
        calls.append(device)
        return probes[len(calls) - 1]

    monkeypatch.setattr(machine, "probe", probe)
    device = torch.device("cpu")
    assert machine.limits_of(device, bandwidth=1.0, operations=2.0).seconds(2.0, 2.0) == 2.0
    assert not calls  # both are stated
    with config.patch(cache_dir=str(tmp_path)):
        first = machine.limits_of(device, bandwidth=5.0)
        assert (first.bandwidth, first.operations) == (5.0, LIMITS.operations)
        assert machine.limits_of(device) == replace(LIMITS, bandwidth=20e9) and len(calls) == 2


def test_the_probe_measures_a_copy_and_a_product(monkeypatch):
    """The clock goes on by half a second: the speed of a busy machine is no fact to test."""
    monkeypatch.setattr(machine, "COPIED_BYTES", 1 << 20)
    monkeypatch.setattr(machine, "MATRIX_SIZE", 64)
    clock = itertools.count(0, 0.5)
    monkeypatch.setattr(machine, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    with torch.profiler.profile() as profiled:
        found = machine.probe(torch.device("cpu"))
    assert {"aten::copy_", "aten::mm"} <= {event.key for event in profiled.key_averages()}
    assert found.bandwidth == 2 * (1 << 20) / 0.5
    assert found.operations == 2 * 64**3 / 0.5
    assert "GB/s copied" in str(found)


def test_a_run_of_nothing_took_no_time():
    assert [*spending_lines([])] == [
        "0.0 ms running, 0.0 ms compiling", "no operator of PyTorch ran",
    ]  # fmt: skip


def test_a_linear_layer_is_found_under_the_name_of_its_range():
    layer, x = torch.nn.Linear(8, 8), torch.ones(4, 8)
    found = profile(lambda: compiled(layer)(x))
    (product,) = [each for each in found.reached if each.work.kind == LIBRARY]
    assert (product.work.name, product.work.operator) == ("aten::linear", "aten::addmm")
    assert product.work.operations == 2 * 4 * 8 * 8


def test_optimizations_missed_in_equal_layers_are_told_once():
    layers = torch.nn.Sequential(*[torch.nn.Linear(8, 8), torch.nn.GELU()] * 3)
    step, x = compiled(layers), torch.ones(64, 8)
    found = profile(lambda: [step(x) for _ in range(2)])
    equal = [each for each in found.missed if each.kind == "library call" and each.times > 1]
    assert equal and len({(e.subject, e.reason, e.lines) for e in found.missed}) == len(
        found.missed
    )


def test_an_optimizer_outside_of_graphs_is_missed_and_graphs_have_their_functions_names():
    model = torch.nn.Linear(8, 8)
    optimizer, step = torch.optim.SGD(model.parameters(), lr=0.1), compiled(model)

    def train():
        for _ in range(2):
            step(torch.ones(4, 8)).sum().backward()
            optimizer.step()

    found = profile(train)
    (missed,) = [each for each in found.missed if each.kind == "not compiled"]
    assert (missed.subject, missed.reason) == ("optimizer SGD", "step() runs in eager PyTorch")
    assert missed.fix and missed.microseconds > 0
    assert "    Fix: compile the function that calls it" in "\n".join(found.lines())
    names = {each.function for each in found.peaks}
    assert names <= {"Linear.forward", "backward of Linear.forward"} and names


def test_paths_are_shown_from_the_folder_of_packages_or_this_one_on(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert short_place(f"{tmp_path}/train.py:3") == "train.py:3"
    assert short_place(f"{torch.__file__}:3") == "torch/__init__.py:3"
    assert short_place("/else/where.py:3") == "/else/where.py:3"


def test_a_profile_has_the_metrics_of_compiling_running_counters_and_fallbacks():
    step = minitorch2.compile(lambda x: torch.linalg.eigvals(x).abs() + 1, backend="numba")
    found = profile(lambda: [step(torch.eye(3)) for _ in range(2)])
    metrics = found.as_data()["metrics"]
    assert metrics["compile_seconds"] > 0 and metrics["run_seconds"] > 0
    assert metrics["counts"]["graphs"] == 1 and metrics["counts"]["kernels"] >= 1
    fallback, *others = metrics["fallbacks"]  # those of complex numbers follow
    line = test_a_profile_has_the_metrics_of_compiling_running_counters_and_fallbacks
    assert fallback.startswith(f"aten::linalg_eig at {__file__}:{first_line(line) + 1}: ")
    text = list(found.lines())
    assert f"fallbacks: {1 + len(others)}" in text and any("graphs 1" in each for each in text)


def first_line(function):
    return function.__code__.co_firstlineno
