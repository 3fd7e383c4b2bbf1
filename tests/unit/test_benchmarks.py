"""The benchmarks must not flatter anybody: results are checked, and equal things measure equal."""

import inspect
import itertools
import json
import xml.etree.ElementTree as xml
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("transformers")

import minitorch2
from benchmarks import __main__ as program
from benchmarks import figure4, gpu_models, kernels, measure, models, scale, table4
from benchmarks.breadth import programs, report, trial
from benchmarks.cases import Case
from benchmarks.evaluate.worker import in_dtype
from benchmarks.settled import settled

IDENTITY = {"eager": lambda f: f, "minitorch2": lambda f: f}
CASE = Case("wave", lambda: torch.sin, lambda: (torch.randn(64),))
TRAINED = Case(
    "linear, training", lambda: torch.nn.Linear(4, 3), lambda: (torch.randn(2, 4),), True
)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(program, "RESULTS", tmp_path)


@pytest.mark.parametrize("case", [CASE, TRAINED])
def test_the_same_function_is_right_and_takes_a_time(case):
    result = measure.measure(case, IDENTITY, 0.05)
    assert result.wrong == []
    assert all(spent > 0 for spent in result.seconds.values())


def test_a_time_ends_when_the_gpu_has_finished(monkeypatch):
    waits = []
    monkeypatch.setattr(torch.cuda, "synchronize", waits.append)
    on_gpu = SimpleNamespace(device=torch.device("cuda", 0))
    measure.repeated(lambda *_: None, (on_gpu, torch.ones(2)), 3)()
    assert waits == [on_gpu.device]


def test_the_phases_of_a_first_call_are_all_of_it(monkeypatch):
    monkeypatch.setattr(gpu_models, "DEVICE", "cpu")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    model = gpu_models.Model(lambda: torch.nn.Linear(4, 3), lambda: (torch.randn(2, 4),))
    inputs, result = model.inputs(), gpu_models.Measured("linear", "minitorch2", training=True)
    exact = gpu_models.prepared(model, True, torch.float32)
    expected = [t.clone() for t in gpu_models.runner(exact, exact, True)(inputs)]
    gpu_models.first_calls(result, model, minitorch2.compile, inputs, expected, torch.float32)
    seconds = [spent for name, spent in result.phases.items() if name not in ("graphs", "kernels")]
    assert result.phases["graphs"] == 1
    assert sum(seconds) == pytest.approx(result.first_call, abs=0.1)
    assert result.error < 1e-5


def test_table_4_has_a_line_for_each_switch(monkeypatch, tmp_path):
    cases = [replace(CASE, name="gpt, inference"), replace(TRAINED, name="gpt, training")]
    monkeypatch.setattr(models, "cases", lambda: cases)
    assert program.main(["table4", "--seconds", "0.01", "--twice"]) == 0
    report = json.loads((tmp_path / "table4.json").read_text())
    first, _ = report["runs"]
    assert len(first["lines"]) == 7 and report["device"] == "cpu"
    assert len(first["models"]) == 2 and report["largest_difference"] > 0
    assert all(line["inference"] and line["training"] for line in first["lines"])


def test_table_4_on_a_gpu_measures_its_models_side_by_side(monkeypatch):
    """Without a GPU: what each process would answer is made up here."""

    def at_once(jobs, make, deadline):
        failures = {("GPT-2 32x256", 2): "no memory"}
        return [
            gpu_models.Measured(model, name, training, milliseconds=number + 1.0, error=0.1,
                                failure=failures.get((model, number), ""))
            for model, training in jobs for number, name in enumerate(make())
        ]  # fmt: skip

    monkeypatch.setattr(gpu_models, "at_once", at_once)
    found = table4.measured_on_gpu("")
    cases = [f"{table4.GPU_MODELS[0]}, {kind}" for kind in ("inference", "training")]
    assert [result.case for result in found] == cases  # those that failed do not count
    lines = table4.lines_of(found)
    expected = [1 / n for n in range(2, 2 + len(lines))]
    assert [line.inference for line in lines] == pytest.approx(expected)


def test_the_largest_difference_of_two_tables_names_its_cell():
    first = [table4.Line("all", 2.0, None, (1, 1)), table4.Line("one off", 1.5, None, (1, 1))]
    second = [first[0], table4.Line("one off", 1.2, None, (1, 1))]
    difference, where = table4.largest_difference(first, second)
    assert difference == pytest.approx(0.2) and where == "one off, inference"


def test_rounds_go_on_until_their_ratios_are_known():
    """A round in which all is slow changes nothing; one in which a side is slow does."""
    steady = iter([{"eager": speed, "ours": speed / 2} for speed in (1.0, 3.0, 2.0, 1.0)])
    assert settled(lambda: next(steady), "eager") == pytest.approx({"eager": 1.5, "ours": 0.75})
    count = itertools.count()
    unsteady = lambda: {"eager": 1.0, "ours": 1.0 + 0.5 * (next(count) % 2)}  # noqa: E731
    settled(unsteady, "eager", most=9)
    assert next(count) == 9


def test_a_step_that_is_no_module_is_made_on_the_device():
    """Its parameters stayed on the CPU once, and the step could not run on a GPU."""
    for case in (
        models.cases()[0],
        *(c for c in programs.sciences() if c.name == "regression step"),
    ):
        moved = table4.on_device(case, "meta")
        assert {x.device.type for x in moved.inputs()} == {"meta"}
        step = inspect.getclosurevars(moved.make()).nonlocals
        assert {p.device.type for p in step["model"].parameters()} == {"meta"}


@pytest.mark.parametrize("case", [CASE, TRAINED])
def test_a_wrong_result_is_reported(case):
    wrong = {**IDENTITY, "minitorch2": lambda f: lambda *inputs: f(*inputs) * 1.01}
    assert measure.measure(case, wrong, 0.05).wrong == ["minitorch2"]


def test_a_wrong_gradient_is_reported():
    class Halved(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            return gradient / 2

    wrong = {**IDENTITY, "minitorch2": lambda f: lambda x: Halved.apply(f(x))}
    assert measure.measure(TRAINED, wrong, 0.05).wrong == ["minitorch2"]


def test_a_slower_function_measures_slower():
    def slow(f):
        return lambda *inputs: max((f(*inputs) for _ in range(20)), key=torch.Tensor.sum)

    result = measure.measure(CASE, {**IDENTITY, "minitorch2": slow}, 0.05)
    assert result.speedup("minitorch2") < 0.3


def test_forward_only_cases_run_without_gradients():
    seen = []
    case = Case("mode", lambda: lambda x: (seen.append(torch.is_grad_enabled()), x)[1], CASE.inputs)
    measure.measure(case, IDENTITY, 0.05)
    assert set(seen) == {False}


def test_every_kernel_has_a_name_of_its_own_and_small_ones_run():
    cases = kernels.cases()
    assert len({case.name for case in cases}) == len(cases) >= 60
    for case in cases:
        if "32x32" in case.name:
            function = case.build(lambda f: f)
            assert measure.same(function(*(inputs := case.fresh_inputs())), function(*inputs))


def test_command_prints_ratios_and_writes_json(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(program, "compilers", lambda peer, numba, others: IDENTITY)
    monkeypatch.setattr(program, "SUITES", {"kernels": lambda: [CASE, TRAINED]})
    assert program.main(["kernels", "--only", "wave", "--seconds", "0.05"]) == 0
    assert "wave" in capsys.readouterr().out
    results = json.loads((tmp_path / "kernels.json").read_text())["results"]
    assert [each["case"] for each in results] == ["wave"]


def test_command_fails_when_a_result_is_wrong(monkeypatch):
    wrong = {**IDENTITY, "minitorch2": lambda f: lambda x: f(x) + 1}
    monkeypatch.setattr(program, "compilers", lambda peer, numba, others: wrong)
    monkeypatch.setattr(program, "SUITES", {"kernels": lambda: [CASE]})
    assert program.main(["kernels", "--seconds", "0.05"]) == 1


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.50 s"), (0.0025, "2.50 ms"), (2.5e-6, "2.5 us")]
)
def test_durations(seconds, text):
    assert program.duration(seconds) == text


def test_the_figure_has_a_curve_for_each_compiler_and_mode():
    results = [
        measure.Result(
            f"{name}, {mode}", {"eager": 1.0, "minitorch2": ours, "torch.compile": 0.7}, []
        )
        for name, ours in (("a", 0.5), ("b", 0.25), ("c", 2.0))
        for mode in ("inference", "training")
    ]
    figure = xml.fromstring(figure4.figure(results))
    curves = [line for line in figure.iter() if line.get("stroke-width") == "2"]
    assert len(curves) == 4
    assert figure4.steps([0.5, 2.0]) == [(0.5, 0), (0.5, 0.5), (2.0, 0.5), (2.0, 1)]


def test_at_least_twenty_models_in_both_modes():
    names = [case.name for case in models.cases()]
    assert len(set(names)) == len(names)
    for mode in ("inference", "training"):
        assert sum(name.endswith(f", {mode}") for name in names) >= 20


def test_a_chain_of_16_bits_is_wrong_only_if_eager_is_nearer_to_float64():
    shape = (256, 256)
    inputs = lambda: tuple(torch.randn(shape, dtype=torch.bfloat16) for _ in range(2))  # noqa: E731
    case = Case("chain", lambda: kernels.chain, inputs)
    in_float32 = lambda x, y: kernels.chain(x.float(), y.float()).bfloat16()  # noqa: E731
    off = lambda x, y: in_float32(x, y) * 1.1  # noqa: E731
    functions = {"eager": kernels.chain, "nearer": in_float32, "off": off}
    torch.manual_seed(0)
    assert not measure.same(in_float32(*(given := inputs())), kernels.chain(*given))
    assert measure.disagreeing(case, functions) == {"off"}


class Steps(torch.nn.Module):
    """A model whose gradient jumps where `w x` is its own mean: there rounding decides."""

    def __init__(self, dropped: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(1000))
        self.last = torch.nn.Sequential(torch.nn.Linear(1000, 7), torch.nn.Dropout(dropped))
        with torch.no_grad():  # the first element is the mean, up to rounding
            self.weight[0] = self.weight[1:].double().mean()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        moved = self.weight * x
        return self.last((moved - moved.mean(1, keepdim=True)).relu())


def on_the_step(dropped: float) -> Case:
    """A training step on inputs at which one ReLU is about to switch."""
    return Case("steps, training", lambda: Steps(dropped), lambda: (torch.ones(2, 1000),),
                backward=True, draws=bool(dropped))  # fmt: skip


@pytest.mark.parametrize("dropped", [0.0, 0.25])
def test_a_training_step_that_is_rounded_otherwise_is_right(dropped):
    case = on_the_step(dropped)

    def one_digit_less(model):
        return lambda x: model(x * (1 + (torch.arange(1000) == 0) * 1e-6))

    def one_digit_more(model):
        return lambda x: model(x * (1 - (torch.arange(1000) == 0) * 1e-6))

    compilers = {"less": one_digit_less, "more": one_digit_more}
    functions = {name: case.build(c) for name, c in {**IDENTITY, **compilers}.items()}
    torch.manual_seed(1)
    expected = functions["eager"](*(x := case.fresh_inputs()))
    torch.manual_seed(1)
    others = [functions[name](*x) for name in compilers]
    assert dropped or not all(measure.same(other, expected) for other in others)
    assert measure.disagreeing(case, functions) == set()


@pytest.mark.parametrize("dropped", [0.0, 0.25])
@pytest.mark.parametrize("factor", [1.02, 0.5, 0.0, float("nan")])
def test_a_wrong_result_at_a_step_of_rounding_is_wrong(dropped, factor):
    case = on_the_step(dropped)
    functions = {**IDENTITY, "minitorch2": lambda f: lambda x: f(x) * factor}
    built = {name: case.build(compiler) for name, compiler in functions.items()}
    assert measure.disagreeing(case, built) == {"minitorch2"}


@pytest.mark.parametrize("element", [0, 999])
def test_one_wrong_element_of_a_gradient_is_wrong(element):
    case = on_the_step(0.0)
    eager = case.build(lambda f: f)

    def doubled(x):
        output, weight, *rest = eager(x)
        weight = torch.where(torch.arange(1000) == element, weight.abs().max() * 3, weight)
        return output, weight, *rest

    assert measure.disagreeing(case, {"eager": eager, "minitorch2": doubled}) == {"minitorch2"}


@pytest.mark.parametrize(("factor", "wrong"), [(1.0, set()), (1.2, {"other"}), (0.0, {"other"})])
def test_training_in_16_bits_is_wrong_only_if_eager_is_much_nearer_to_float64(factor, wrong):
    """Sums that another compiler keeps in float32 differ from eager's by a hundredth and more."""

    def make():
        parts = (torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256))
        return torch.nn.Sequential(*parts, torch.nn.Linear(256, 10))

    case = Case("net, training", make, lambda: (torch.randn(64, 64),), backward=True)
    case = in_dtype(case, "bfloat16", "cpu")
    eager = case.build(lambda f: f)
    wide = replace(case, make=lambda: case.make().float()).build(lambda f: f)

    def in_float32(x):
        given = wide(x.detach().float().requires_grad_())
        return tuple(factor * each.bfloat16() for each in given)

    assert not measure.same(in_float32(*(given := case.fresh_inputs())), eager(*given))
    assert measure.disagreeing(case, {"eager": eager, "other": in_float32}) == wrong


def test_a_program_without_float64_has_no_excuse():
    """Eager in float64 raises: then a result is eager's or wrong."""

    def only_float32(x):
        if x.dtype != torch.float32:
            raise TypeError(x.dtype)
        return x.sin()

    case = Case("only", lambda: only_float32, CASE.inputs)
    functions = {"eager": only_float32, "minitorch2": lambda x: only_float32(x) + 1}
    assert measure.disagreeing(case, functions) == {"minitorch2"}


def test_other_numbers_in_float64_excuse_nothing():
    """A program that draws otherwise in float64 has no truth there, whatever it gives."""

    def noisy(x):
        return x + (torch.randn(64) if x.dtype == torch.float64 else 0)

    case = Case("noisy", lambda: noisy, CASE.inputs)
    functions = {"eager": noisy, "minitorch2": lambda x: x * 1.01}
    assert measure.disagreeing(case, functions) == {"minitorch2"}


def test_programs_of_breadth_have_names_of_their_own():
    names = [case.name for case in programs.programs()]
    assert len(set(names)) == len(names) >= 40


def test_breadth_checks_times_and_names_the_slowest_kernels(monkeypatch, tmp_path):
    class Here:
        """A process's answers, given by this one."""

        def __init__(self, name, compiler, device):
            self.runner = trial.Runner(CASE, compiler)

        def ask(self, what):
            return getattr(self.runner, what)()

        def end(self):
            pass

    monkeypatch.setattr(trial, "Process", Here)
    monkeypatch.setattr(trial, "SECONDS_A_TURN", 1e-4)
    monkeypatch.setattr(trial, "keep_memory", lambda: None)
    monkeypatch.setattr(trial.Trial, "ratio", lambda self, compiler="": 0.5)
    found = trial.tried(CASE, ["eager", "minitorch2"], "cpu")
    torch.set_grad_enabled(True)
    assert found.seconds.keys() == {"eager", "minitorch2"} and not found.wrong
    assert "fused_sin_0" in found.slowest and "fused_sin_0" in report.line_of(found)
    report.write([found], "cpu", tmp_path)
    assert json.loads((tmp_path / "breadth.json").read_text())["programs"][0]["program"] == "wave"


def test_breadth_puts_the_worst_first_and_says_what_is_wrong(capsys):
    good = trial.Trial("good", {"eager": 2.0, "minitorch2": 1.0}, {"eager": 1.0, "minitorch2": 1.0})
    bad = trial.Trial("bad", {"eager": 1.0}, {"eager": 1.0}, [], {"minitorch2": "ValueError: no"})
    console = report.Console(width=120)
    console.print(report.table([good, bad], ["eager", "minitorch2"], "cpu"))
    shown = capsys.readouterr().out
    assert shown.index("FAILED: ValueError") < shown.index("good") and "2.00x" in shown


def test_on_paper_the_slowest_rank_decides_unless_one_compiles():
    alone = [scale.simulated(n, 60, 2, False, 0.2) for n in (1, 10, 1000)]
    shared = [scale.simulated(n, 60, 2, True, 0.2) for n in (1, 10, 1000)]
    assert alone == sorted(alone) and alone[2] > 1.4 * alone[0]
    assert shared[2] - shared[0] < 2 * 2 and shared[2] < alone[2]
    assert (
        scale.simulated(8, 60, 2, True, 0.0) == 62 and scale.simulated(8, 60, 2, False, 0.0) == 60
    )
