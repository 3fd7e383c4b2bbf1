"""What `explain` says: all breaks, what each costs, and what became of each line."""

import time

import pytest
import torch

import minitorch2
from minitorch2 import config
from minitorch2.bytecode.dispatch import Region
from minitorch2.bytecode.guards.guard_function import CompiledGuards
from minitorch2.bytecode.guards.torch_state import DefaultDevice
from minitorch2.bytecode.observe.listing import Listing

X = torch.tensor([1.0, -2.0, 3.0])


@pytest.fixture(autouse=True)
def reading_a_number_is_a_break():
    with config.patch(capture_data_dependent=False):
        yield


def explain(function, *args):
    return minitorch2.explain(function, backend="eager")(*args)


def reads_a_number(x):
    y = x * 2
    n = y.sum().item()
    return y + n


def calls_it(x):
    return reads_a_number(x.sin()).cos()


def test_all_breaks_are_listed_without_stopping_at_the_first():
    def f(x):
        x = x + 1
        print(end="")
        x = calls_it(x)
        if x.sum() > 0:
            x = x - 1
        return x + 1

    explanation = explain(f, X)
    reasons = {each.reason for each in explanation.breaks}
    assert {"builtin", "scalar-read", "data-dependent-branch"} <= reasons
    assert explanation.graph_break_count == len(explanation.breaks) == 5
    assert len(explanation.costs) == 3  # the inlined calls break three graphs at one line


def test_the_stack_of_inlined_calls():
    def f(x):
        return calls_it(x + 1)

    first, *_ = explain(f, X).break_reasons
    assert [line.function for line in first.user_stack] == ["f", "calls_it", "reads_a_number"]
    assert first.user_stack[-1].text == "n = y.sum().item()"
    assert "reads the data" in first.reason


def test_the_text_shows_line_cause_remedy_page_and_callers():
    def f(x):
        return calls_it(x + 1)

    first, *_ = explain(f, X).breaks
    text = str(first)
    assert text.splitlines()[0].endswith("code: n = y.sum().item()")
    assert "[scalar-read]" in text and "Fix: keep the number a tensor" in text
    assert "See python -m minitorch2 why scalar-read" in text
    assert text.index("return reads_a_number") < text.index("return calls_it(x + 1)")


def test_costs_count_operators_in_and_out_of_graphs():
    def f(x):
        y = x.sin().cos()
        n = y.max().item()
        return (y + n).exp()

    (cost,) = explain(f, X).costs
    assert (cost.outside, cost.before, cost.after, cost.graphs) == (1, 3, 2, 1)


def test_operators_of_a_function_that_is_not_captured_are_counted():
    @minitorch2.disable
    def outside(x):
        return x.sin().cos().exp() + x.shape[0]

    def f(x):
        return outside(x * 2) + 1

    explanation = explain(f, X)
    (cost,) = explanation.costs
    assert (cost.outside, cost.before, cost.after) == (4, 1, 1)
    assert explanation.ops_outside_graphs == 4


def test_breaks_are_ordered_by_cost():
    @minitorch2.disable
    def many(x):
        return x.sin().sin().sin().sin()

    @minitorch2.disable
    def few(x):
        return x.sin()

    def f(x):
        x = few(x + 1)
        return many(x + 1) + 1

    costs = explain(f, X).costs
    assert [cost.outside for cost in costs] == [4, 1]


def test_functions_that_run_as_they_are_are_blamed_for_their_operators():
    def f(x):
        names = eval("[1]")
        return x.sin().cos(), names

    explanation = explain(f, X)
    assert [each.reason for each in explanation.as_is] == ["builtin"]
    assert sum(cost.outside for cost in explanation.costs) == 2
    assert "functions that run in Python: 1" in str(explanation)


def test_a_whole_graph_costs_nothing():
    explanation = explain(lambda x: x.sin() + 1, X)
    assert (explanation.costs, explanation.ops_outside_graphs) == ([], 0)
    assert explanation.graph_count == 1


def test_names_of_torch_compile():
    explanation = explain(reads_a_number, X)
    assert explanation.out_guards is explanation.guards
    assert explanation.compile_times is explanation.seconds
    assert explanation.op_count == sum(explanation.ops_per_graph) == 3


def test_explain_runs_the_program_once():
    calls = []

    def f(x):
        calls.append(1)
        return x + 1

    explain(f, X)
    assert len(calls) == 1


def test_a_compiled_function_is_explained():
    fast = minitorch2.compile(reads_a_number, backend="eager")
    assert explain(fast, X).graph_break_count == 1


def test_modules_are_explained():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    explanation = explain(model, X)
    assert (explanation.graph_count, explanation.costs) == (1, [])


# The listing --------------------------------------------------------------------------------------


def states(listing: Listing, name: str) -> dict[str, str]:
    """Label by text of the line, of one function."""
    (function,) = (f for f in listing.functions if f.name.split(".")[-1] == name)
    return {line.text.strip(): line.label for line in function.lines}


def test_listing_says_what_became_of_each_line():
    def branches(x):
        y = x + 1
        k = 3
        if y.sum() > 100:
            y = y * 2
        names = eval("k")
        y = y - k
        return y, names

    listing = explain(branches, X).listing()
    assert states(listing, "branches") == {
        "def branches(x):": "captured",
        "y = x + 1": "graph 0",
        "k = 3": "captured",
        "if y.sum() > 100:": "graph 0, break",
        "y = y * 2": "",
        'names = eval("k")': "break",
        "y = y - k": "python",
        "return y, names": "python",
    }


def test_listing_shows_the_functions_that_were_entered():
    listing = explain(calls_it, X).listing()
    assert [function.name for function in listing.functions] == ["calls_it", "reads_a_number"]
    assert states(listing, "reads_a_number")["n = y.sum().item()"].endswith("break")


def test_listing_in_colours():
    console = pytest.importorskip("rich.console").Console(
        force_terminal=True, color_system="standard", width=200
    )
    text = pytest.importorskip("rich.text").Text

    def f(x):
        return x[0] + 1

    listing = explain(f, X).listing()
    with console.capture() as captured:
        console.print(listing)
    assert "\x1b[32m" in captured.get()  # green
    assert text.from_markup(listing.__rich__()).plain == str(listing)


def test_html_page_holds_everything_escaped():
    def f(x):
        if x.sum() < 100:
            x = x + 1
        return x

    page = explain(f, X).to_html()
    assert page.startswith("<!doctype html>")
    assert "if x.sum() \\u003c 100:" in page and "if x.sum() < 100:" not in page
    assert "data-dependent-branch" in page


# Seconds ------------------------------------------------------------------------------------------


def test_seconds_by_phase_add_up_to_the_wall_time(monkeypatch):
    total = []
    whole = Region.compile

    def timed(*args):
        start = time.perf_counter()
        try:
            return whole(*args)
        finally:
            total.append(time.perf_counter() - start)

    monkeypatch.setattr(Region, "compile", timed)
    explanation = minitorch2.explain(lambda x: (x.sin() + 1).sum(), backend="numba")(X)
    assert {"capture", "lower", "schedule", "codegen", "guards"} <= explanation.seconds.keys()
    assert sum(explanation.seconds.values()) == pytest.approx(sum(total), rel=0.05)


def test_guards_are_measured_as_a_compiled_call_asks_them(monkeypatch):
    """Under explain's own function mode PyTorch answers slowly, and is asked for its device."""
    asked = []
    measure = CompiledGuards.measure

    def noting(self, check, values):
        modes = torch._C._len_torch_function_stack()
        asked.append((modes, any(isinstance(guard, DefaultDevice) for guard in self.guards)))
        return measure(self, check, values)

    monkeypatch.setattr(CompiledGuards, "measure", noting)
    explanation = minitorch2.explain(lambda x: x.sin() + 1, backend="eager")(torch.ones(3))
    assert asked == [(1, True), (0, False)] and len(explanation.guard_microseconds) == 1
    with torch.device("cpu"):  # the program's own mode stays
        minitorch2.explain(lambda x: x.sin() + 1, backend="eager")(torch.ones(3))
    assert asked[2:] == [(2, True), (1, True)]


def test_the_line_that_calls_a_library_is_named_instead_of_the_librarys():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Softmax(-1))

    def called(x):
        return model(x).cumsum(0)

    (graph,) = minitorch2.explain(called, backend="eager")(torch.ones(1, 2)).graphs
    lines = [n.meta["source"] for n in graph.graph.nodes if n.op.startswith("call")]
    assert {(line.file, line.function) for line in lines} == {(__file__, "called")}
    (graph,) = minitorch2.explain(model, backend="eager")(torch.ones(1, 2)).graphs
    lines = [n.meta["source"] for n in graph.graph.nodes if n.op.startswith("call")]
    assert [line.file.rpartition("/")[2] for line in lines] == ["linear.py", "activation.py"]
