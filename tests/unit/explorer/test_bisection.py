"""It is wrong: each kind of failure is found, cut down, and written as a file that fails alike."""

import copy
import json
import os
import random
import signal
from pathlib import Path

import numpy
import pytest
import torch

import minitorch2
from minitorch2 import config
from minitorch2.__main__ import main
from minitorch2.backends import lookup_backend
from minitorch2.errors import CheckError, ConfigError
from minitorch2.explorer.bisection.differences import Difference, first_difference
from minitorch2.explorer.bisection.outcomes import Outcome, copies_of, exact, observed
from minitorch2.explorer.bisection.programs import Program
from minitorch2.graph import Graph
from minitorch2.graph.patterns import FAMILIES, rule


def wave(x, w):
    h = torch.relu(x @ w).softmax(-1)
    z = torch.sin(h * 1 + 0.5)
    return z.cos().sum(), (h * 2).tanh()


def arguments():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(8, 6, generator=generator), torch.randn(6, 7, generator=generator)


@pytest.fixture
def wrong_sine():
    """A rule that is wrong for all but small numbers."""

    @rule("simplify_algebra")
    def sine_is_its_argument(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """``sin(x) --> x``"""
        return torch.sin(x), x

    yield
    FAMILIES["simplify_algebra"].remove(sine_is_its_argument)


def faulty(how):
    """A backend whose graphs are wrong where they have a softmax."""

    def backend(module, examples):
        names = [str(getattr(node.target, "__name__", node.target)) for node in module.graph.nodes]
        run = lookup_backend("eager")(module, examples)
        return run if "softmax" not in names else lambda *inputs: how(run(*inputs))

    return backend


def one_more(results):
    return tuple(result + 1 for result in results)


def slightly_more(results):
    return tuple(result * 1.001 for result in results)


def raised(results):
    raise ArithmeticError("no such number")


def died(results):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_right_program_has_nothing_to_find(tmp_path):
    found = minitorch2.bisect(wave, *arguments(), path=tmp_path / "small.py")
    assert found.difference is None
    assert "nothing is wrong" in str(found)
    assert not list(tmp_path.iterdir())


def test_a_wrong_rewrite_is_named_and_the_file_fails_alike(wrong_sine, tmp_path):
    path = tmp_path / "small.py"
    found = minitorch2.bisect(wave, *arguments(), backend="numba", path=path)
    assert found.difference.kind == "value"
    assert found.blame.rewrite.name == "simplify_algebra"
    assert "sine_is_its_argument" in found.blame.rewrite.rewrites[0]
    assert found.blame.floor.startswith("autograd")
    before, after = found.operations
    assert before >= 7
    assert after <= 2
    names = {"__name__": "small"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert names["check"](names["program"], names["inputs"](), backend="numba", options={}) == 1


@pytest.mark.parametrize(
    ("how", "kind"),
    [(one_more, "value"), (slightly_more, "accuracy"), (raised, "exception"), (died, "crash")],
)
def test_each_kind_of_failure_is_kept(how, kind):
    found = minitorch2.bisect(
        wave, *arguments(), backend=faulty(how), path=None, own_process=how is died
    )
    assert found.difference.kind == kind
    assert found.operations[1] == 1
    assert "softmax" in found.text
    if how is raised:
        assert found.difference.where == "ArithmeticError"


def test_sizes_that_vary_still_vary_in_the_small_program():
    x, w = arguments()
    minitorch2.mark_dynamic(x, 0)
    found = minitorch2.bisect(wave, x, w, backend=faulty(one_more), path=None)
    assert "maybe_mark_dynamic(x0, 0)" in found.text
    assert found.operations[1] == 1


def test_a_wrong_gradient_and_a_wrong_write_are_found():
    def scaled(x, state):
        state.add_(x.detach().sum())
        return (x.softmax(-1)[:, 0] * 3).sum()

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.randn(4, 5, requires_grad=True)
    doubled = faulty(lambda results: tuple(map(Wrong.apply, results)))
    found = minitorch2.bisect(scaled, x, torch.zeros(()), backend=doubled, path=None)
    assert found.difference.where == "gradient of input 0"

    def forgetful(module, examples):
        return lambda *inputs: module(*copies_of(inputs))

    found = minitorch2.bisect(lambda x: x.mul_(2), torch.ones(3), backend=forgetful, path=None)
    assert found.difference.where == "input 0 afterwards"


def test_a_fake_implementation_that_is_wrong_is_blamed():
    @torch.library.custom_op("bisected::halves", mutates_args=())
    def halves(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @halves.register_fake
    def _(x):
        return x.new_empty(x.shape[::-1])

    # The small program has inputs of other sizes: what capture has noted is of the first ones.
    found = minitorch2.bisect(lambda x: halves(x.sin()) + 1, torch.ones(3, 4), path=None)
    assert found.operations[1] <= 2
    assert found.blame.floor.startswith("the fake implementation of bisected.halves.default: ")
    assert "of shape (4, 3), and gets torch.float32 of shape (3, 4)" in found.blame.floor


def test_a_wrong_fake_is_blamed_where_the_call_names_no_overload():
    @torch.library.custom_op("bisected::pairs", mutates_args=())
    def pairs(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0] // 2, 2, -1).amax(1)

    @pairs.register_fake
    def _(x):
        return x.new_empty(x.shape[0], x.shape[1] // 2)

    def pooled(x):
        return torch.ops.bisected.pairs(x.sin()) * 2

    found = minitorch2.bisect(pooled, torch.ones(8, 16), path=None)
    assert found.blame.floor.startswith("the fake implementation of bisected.pairs: "), str(found)


def test_what_a_call_leaves_in_its_arguments_is_compared():
    class Counted:
        calls = 0

    def both(x, counts, counted):
        counts["calls"] = [x.detach() * 2]
        counted.calls = 3
        x.sum().backward()
        return x.detach()

    given = torch.ones(3, requires_grad=True), {}, Counted()
    left = observed(both, copies_of(given)).values
    names = {name for name in left if name.startswith("input")}
    assert names == {
        "input 0 afterwards", "input 0 afterwards.grad", "input 1 afterwards['calls'][0]",
        "input 2 afterwards.calls",
    }  # fmt: skip
    assert minitorch2.bisect(both, *given, backend="eager", path=None).difference is None


def test_a_container_that_holds_itself_is_compared():
    def appended(x, held):
        held.append(held)
        return x * 2

    assert observed(appended, [torch.ones(2), [1]]).values["input 1 afterwards[0]"] == 1


def test_more_results_than_eagers_are_a_difference():
    one, two = Outcome({"result[0]": 1}), Outcome({"result[0]": 1, "result[1]": 2})
    assert first_difference(two, one, None, None).where == "result[1]"


def test_random_numbers_of_python_and_numpy_are_the_same_in_both_runs():
    def drawn(x):
        return x * random.random() + numpy.random.rand()

    random.seed(3)
    state = random.getstate()
    assert minitorch2.bisect(drawn, torch.ones(3), backend="eager", path=None).difference is None
    assert random.getstate() == state


def test_a_function_between_two_calls_changes_what_they_read():
    held = {"factor": 2.0}

    def unguarded(module, examples):
        return lambda *inputs: (inputs[0] * first,)

    def times(x):
        return x * held["factor"]

    first = held["factor"]
    options = {"backend": unguarded, "path": None}
    same = minitorch2.bisect(times, torch.ones(3), earlier=[[torch.ones(3)]], **options)
    assert same.difference is None
    found = minitorch2.bisect(
        times, torch.ones(3), earlier=[[torch.ones(3)], lambda: held.update(factor=5.0)], **options
    )
    assert found.blame.floor.startswith("guards"), str(found)


def test_capture_is_blamed_if_all_graphs_are_right():
    state = []

    def counting(x):  # what eager sees is another number at each call
        state.append(None)
        return x * len(state)

    found = minitorch2.bisect(counting, torch.ones(3), backend="eager", path=None)
    assert found.blame.floor.startswith("capture")


# The switch


def test_compare_checks_each_call_and_names_what_differs():
    compiled = minitorch2.compile(wave, backend=faulty(one_more), compare=True)
    with pytest.raises(CheckError) as raised:
        compiled(*arguments())
    text = str(raised.value)
    assert raised.value.code == "not-eager"
    for part in ("test_bisection.py", "result[", "within 1e-05", "python -m minitorch2 bisect"):
        assert part in text


def test_compare_runs_the_program_once():
    wanted = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    given = copy.deepcopy(wanted)
    compiled = minitorch2.compile(given, compare=True)
    x = torch.randn(6, 4)
    for _ in range(2):
        torch.manual_seed(1)
        expected = wanted(x)
        state = torch.random.get_rng_state()
        torch.manual_seed(1)
        found = compiled(x)
        assert torch.equal(torch.random.get_rng_state(), state)
        torch.testing.assert_close(found, expected)
        expected.sum().backward()
        found.sum().backward()
    for name, value in wanted.state_dict().items():
        torch.testing.assert_close(given.state_dict()[name], value)
    for left, right in zip(given.parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(left.grad, right.grad)


def test_compare_is_an_option_and_an_environment_variable():
    options = {each.name: each for each in minitorch2.list_options()}
    assert options["compare"].environment == "MINITORCH2_COMPARE"
    compiled = minitorch2.compile(wave, backend=faulty(one_more), options={"compare": True})
    with pytest.raises(CheckError):
        compiled(*arguments())
    with config.patch(compare=True):
        compiled = minitorch2.compile(wave, backend=faulty(raised))
    with pytest.raises(CheckError, match="ArithmeticError"):
        compiled(*arguments())
    with pytest.raises(ConfigError, match="compare takes bool"):
        minitorch2.compile(wave, compare="yes")


# Outcomes


def test_float64_decides_where_eager_rounds():
    def cancelling(x):
        return (x + 1e4).sum() - 1e4 * x.numel()

    x = torch.rand(1000)
    wanted, true = observed(cancelling, [x]), exact(cancelling, [x])
    rounded = Outcome({**wanted.values, "result": true.values["result"].to(torch.float32)})
    assert first_difference(rounded, wanted, true, None) is None
    worse = Outcome({**wanted.values, "result": wanted.values["result"] + 100})
    assert first_difference(worse, wanted, true, None).kind == "value"


def test_a_number_that_is_read_from_a_tensor_is_rounded_like_the_tensor():
    def difference(given, wanted, exact):
        outcomes = (Outcome({"result": value}, None) for value in (given, wanted, exact))
        return first_difference(*outcomes, None)

    eager = torch.tensor(-1.44731342792).item()
    assert difference(-1.4473133087158203, eager, -1.4473133512) is None
    assert difference(-1.4473133087158203 - 1e-3, eager, -1.4473133512).kind == "accuracy"
    assert difference(0.1 + 1e-8, 0.1, 0.1).kind == "accuracy"  # as 0.1 is no float32
    assert difference(float("nan"), 0.5, 0.5).kind == "value"
    assert difference(float("nan"), float("nan"), float("nan")) is None


def test_what_rounding_leaves_of_zero_is_not_wrong():
    """The gradient of a bias in front of a batch norm is 0 but for rounding."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))
    torch.manual_seed(0)
    compiled = minitorch2.compile(model, compare=True)
    compiled(torch.randn(2, 3, 8, 8)).sum().backward()
    noise = {"result": torch.tensor([9e-7, -5e-7])}
    true = Outcome({"result": torch.tensor([1e-16, 2e-16], dtype=torch.float64)})
    given = Outcome({"result": torch.tensor([-8e-7, 1e-6])})
    assert first_difference(given, Outcome(noise), true, None) is None
    wrong = Outcome({"result": torch.tensor([0.5, 0.0])})
    assert first_difference(wrong, Outcome(noise), true, None).kind == "value"


def test_copies_share_memory_as_the_inputs_do():
    base = torch.zeros(4)
    first, second = copies_of([base, base[1:]])
    first[1] = 5
    assert second[0] == 5
    assert not base.any()


def test_failures_are_alike_only_if_they_are_of_one_kind():
    one = Difference("exception", "ValueError", "is raised")
    assert one.is_like(Difference("exception", "ValueError", "is raised: more"))
    assert not one.is_like(Difference("exception", "TypeError", "is raised"))
    assert not one.is_like(None)


def test_a_program_that_calls_what_no_import_reaches_has_no_text():
    graph = Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(lambda x: x + 1, (x,)),))
    with pytest.raises(ValueError, match="no import reaches"):
        Program(graph, [torch.ones(2)]).text()


# The command


SCRIPT = """
import os, sys, torch, minitorch2
from minitorch2.backends import lookup_backend

word = sys.argv[1]

def faulty(module, examples):
    run = lookup_backend("eager")(module, examples)
    wrong = any("softmax" in str(node.target) for node in module.graph.nodes)
    def call(*inputs):
        if wrong and word == "die":
            os.kill(os.getpid(), 9)
        return tuple(each + 1 for each in run(*inputs)) if wrong else run(*inputs)
    return call

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Softmax(-1))
minitorch2.compile(model, backend=faulty)(torch.ones(2, 4))
print("the end")
"""


@pytest.mark.parametrize(("word", "kind"), [("wrong", "value"), ("die", "crash")])
def test_the_command_finds_the_graph_of_a_script(word, kind, tmp_path, capfd):
    script, small = tmp_path / "script.py", tmp_path / "small.py"
    script.write_text(SCRIPT)
    assert main(["bisect", "--json", "-o", str(small), str(script), word]) == 1
    data = json.loads(capfd.readouterr().out)
    assert data["difference"]["kind"] == kind
    assert data["operations"][1] == 1
    assert "softmax" in Path(data["path"]).read_text()


RAISES = """
import torch
import minitorch2

@minitorch2.compile(backend="eager")
def half(x):
    return x / 2

print("begun")
half(torch.ones(4))
if {condition}:
    {end}
"""
ENDS = {
    "ValueError": "raise ValueError('too late')",
    "SystemExit": "raise SystemExit('too late')",
}
WRONG, FAILS = 1, 3


@pytest.mark.parametrize("error", ENDS)
@pytest.mark.parametrize(
    ("condition", "status"), [("True", FAILS), ("hasattr(half, '__wrapped__')", WRONG)]
)
def test_a_failure_is_wrong_if_eager_does_not_fail(condition, status, error, tmp_path, capfd):
    script = tmp_path / "script.py"
    script.write_text(RAISES.format(condition=condition, end=ENDS[error]))
    assert main(["bisect", "--json", str(script)]) == status
    told = capfd.readouterr()
    data = json.loads(told.out)
    assert "multiprocessing" not in told.err
    if status == WRONG:
        assert data["difference"]["where"] == error and data["floor"].startswith("capture")
    else:
        assert data["difference"] is None and "in eager PyTorch, too" in data["note"]
        assert "too late" in data["note"]


def test_a_script_that_fails_in_eager_too_is_heard_once(tmp_path, capfd):
    script = tmp_path / "script.py"
    script.write_text(RAISES.format(condition="True", end=ENDS["ValueError"]))
    assert main(["bisect", str(script)]) == FAILS
    told = capfd.readouterr()
    assert told.err.count("Traceback") == 1 and told.out.count("begun") == 1


def test_a_script_that_compiles_nothing_is_not_called_right(tmp_path, capfd):
    script = tmp_path / "script.py"
    script.write_text("import torch\n")
    assert main(["bisect", str(script)]) == 0
    assert capfd.readouterr().out == "no graph was compiled, so nothing was compared\n"


def test_the_command_refuses_a_script_that_is_not_there(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["bisect", "nowhere.py"])
    assert "there is no script nowhere.py" in capsys.readouterr().err


def rows_of(jagged):
    return jagged.values().sin()


def rows_behind_break(x):
    jagged = torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 1, 3])) * 2
    print(end="")
    return rows_of(jagged)


def test_the_gradient_of_a_jagged_tensor_is_compared_by_its_rows():
    """Its size has another symbol in each run: a right program was told to be wrong."""
    x = torch.linspace(-1, 1, 12).view(3, 4).requires_grad_()
    assert minitorch2.bisect(rows_behind_break, x, path=None).difference is None

    def wrong(module, examples):
        run = lookup_backend("eager")(module, examples)
        names = [str(getattr(node.target, "__name__", node.target)) for node in module.graph.nodes]
        return run if "sin" not in names else lambda *inputs: tuple(r * 2 for r in run(*inputs))

    found = minitorch2.bisect(rows_behind_break, x, path=None, backend=wrong)
    assert found.difference is not None
