"""Why code was compiled again, as data."""

import dis
import sys

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.bytecode.dispatch.recompiles import REMEDIES, remedy_of_guard
from minitorch2.bytecode.frames.expressions import stack_expressions
from minitorch2.bytecode.guards import Guard
from minitorch2.errors import ConfigError, MinitorchWarning

X = torch.tensor([1.0, -2.0, 3.0])


def capture(function):
    return minitorch2.compile(function, backend="eager")


def scaled(x, mode):
    return x * 2 if mode == "double" else x


def test_nothing_was_compiled_again():
    fast = capture(scaled)
    fast(X, "double")
    fast(X, "double")
    assert fast.recompiles() == []


def test_the_first_failing_guard_with_expected_and_actual():
    fast = capture(scaled)
    fast(X, "double")
    fast(X.double(), "double")
    (recompile,) = fast.recompiles()
    assert (recompile.function, recompile.entry, recompile.times) == ("scaled", 0, 1)
    assert recompile.guard.kind == "TENSOR_MATCH"
    assert recompile.what == "dtype"
    assert (recompile.expected, recompile.actual) == ("torch.float32", "torch.float64")
    assert recompile.line.text == 'return x * 2 if mode == "double" else x'
    assert [line.function for line in recompile.stack] == ["scaled"]
    assert "x.to(dtype)" in recompile.fix
    assert "dtype was torch.float32, now torch.float64" in str(recompile)


def test_each_entry_says_why_it_did_not_serve():
    fast = capture(scaled)
    for x, mode in ((X, "double"), (X, "same"), (X.double(), "double")):
        fast(x, mode)
    found = [(r.entry, r.guard.kind, r.what, r.actual, r.times) for r in fast.recompiles()]
    assert found == [
        (0, "CONSTANT_MATCH", "constant", "same", 1),
        (0, "TENSOR_MATCH", "dtype", "torch.float64", 1),
        (1, "TENSOR_MATCH", "dtype", "torch.float64", 1),
    ] or [f[:2] for f in found] == [
        (0, "CONSTANT_MATCH"),
        (0, "TENSOR_MATCH"),
        (1, "CONSTANT_MATCH"),
    ]


def test_calls_that_find_their_entry_are_not_recorded():
    fast = capture(scaled)
    for x in (X, X.double(), X, X.double(), X.double()):
        fast(x, "double")
    (recompile,) = fast.recompiles()
    assert recompile.times == 1


def doubled(x):
    return x * 2


def test_the_stack_shows_the_inlined_calls():
    fast = capture(lambda x: doubled(x + 1))
    fast(X)
    original = doubled.__code__
    try:
        doubled.__code__ = (lambda x: x * 3).__code__
        fast(X)
    finally:
        doubled.__code__ = original
    (found,) = fast.recompiles()
    assert found.what == "code" and found.line.text.startswith("fast = capture(lambda x")


def test_continuations_and_nested_frames_are_covered():
    @minitorch2.compile(backend="eager")
    def f(x, scale):
        y = x.sin()
        print(end="")
        return y * scale

    f(X, True)
    f(X, False)
    recompiles = f.recompiles()
    assert any(r.guard.kind == "CONSTANT_MATCH" and r.what == "constant" for r in recompiles)
    assert {r.function.split(".")[-1] for r in recompiles} == {"f"}


def breaks(x, scale):
    print(end="")
    return x.cos() * scale


def test_functions_called_at_a_break_are_covered():
    def f(x, scale):
        return breaks(x + 1, scale) + 1

    fast = capture(f)
    for value in (X, X.double()):
        fast(value, 2)
    assert {"breaks"} < {r.function.split(".")[-1] for r in fast.recompiles()}


def test_modules_have_recompiles_too():
    model = capture(torch.nn.Linear(3, 3))
    model(X)
    model(torch.ones(2, 3, dtype=torch.float32).requires_grad_())
    assert [r.what for r in model.recompiles()] == ["requires_grad"]
    assert model.recompiles() == minitorch2.recompiles(model)


def test_a_module_keeps_an_attribute_of_its_own():
    class Named(torch.nn.Module):
        def recompiles(self):
            return "mine"

        def forward(self, x):
            return x + 1

    model = capture(Named())
    model(X)
    assert model.recompiles() == "mine"
    assert minitorch2.recompiles(model) == []


def test_what_is_not_compiled_has_none():
    with pytest.raises(ConfigError, match="not compiled"):
        minitorch2.recompiles(scaled)


def test_methods_have_recompiles():
    class Scale:
        by = 2

        @minitorch2.compile(backend="eager")
        def call(self, x):
            return x * self.by

    scale = Scale()
    scale.call(X)
    scale.call(X.double())
    assert len(scale.call.recompiles()) == 1


def test_reset_forgets():
    fast = capture(scaled)
    fast(X, "double")
    fast(X.double(), "double")
    minitorch2.reset()
    assert fast.recompiles() == []


def test_at_the_limit_one_warning_says_what_to_do():
    fast = capture(scaled)
    with config.patch(recompile_limit=2), pytest.warns(MinitorchWarning) as warned:
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64):
            fast(X.to(dtype), "double")
    assert len(warned) == 1
    message = str(warned[0].message)
    assert "was compiled 2 times" in message and "dtype was" in message and "Fix:" in message
    assert [r.times for r in fast.recompiles()] == [2, 1]


def test_the_log_has_a_line_for_each(caplog):
    fast = capture(scaled)
    with stages.collect() as log:
        fast(X, "double")
        fast(X.double(), "double")
    assert log.counts["recompiles"] == 1
    (line,) = log.texts("recompile")
    assert line == str(fast.recompiles()[0])


def kinds_of_guards(cls=Guard):
    for sub in cls.__subclasses__():
        yield from kinds_of_guards(sub)
        if sub.KIND != Guard.KIND:
            yield sub.KIND


def test_every_kind_of_guard_has_a_remedy():
    assert set(kinds_of_guards()) - set(REMEDIES) == set()
    assert {"FUNCTION_MATCH", "ID_MATCH"} < set(REMEDIES)


def test_remedies_of_tensors_depend_on_the_property():
    fast = capture(lambda x: x + 1)
    fast(X)
    fast(torch.ones(4, 3).t())
    guard = fast.recompiles()[0].guard
    fixes = {remedy_of_guard(guard, what) for what in ("sizes", "dtype", "device", "strides")}
    assert len(fixes) == 4


def test_recompiles_print_a_line_each_and_show_a_table_in_a_notebook():
    fast = minitorch2.compile(lambda x: x + 1, backend="eager")
    fast(torch.ones(3))
    assert str(fast.recompiles()) == "nothing was compiled again"
    fast(torch.ones(3, dtype=torch.float64))
    found = minitorch2.recompiles(fast)
    assert str(found) == str(found[0]) and "dtype was torch.float32" in str(found)
    table = found._repr_html_()
    assert table.count("<tr>") == 2 and "x.to(dtype)" in table
    assert "&lt;lambda&gt;" in table and "<lambda>" not in table


def test_other_reports_show_in_a_notebook_without_reaching_beyond_it():
    fast = minitorch2.compile(lambda x: x * 2, backend="eager", dynamic=True)
    assert "nothing is compiled yet" in minitorch2.shapes(fast)._repr_html_()
    fast(torch.ones(3))
    shapes = minitorch2.shapes(fast)
    explanation = minitorch2.explain(lambda x: x * 2, backend="eager")(torch.ones(3))
    assert "s0" in str(shapes) and "s0" in shapes._repr_html_()
    for text in (shapes._repr_html_(), explanation._repr_html_()):
        assert text.startswith('<div class="minitorch2">') and "<html" not in text
        rules = text.partition("<style>")[2].partition("</style>")[0].splitlines()
        assert all(rule.startswith(".minitorch2 ") for rule in rules)
    assert "What was captured" in explanation._repr_html_()


def test_the_text_of_a_large_set_is_cut_short():
    names = {f"operator_{i}" for i in range(1000)}
    fast = capture(lambda x, known: x * 2 if "operator_1" in known else x)
    fast(X, names)
    fast(X, set())
    (recompile,) = fast.recompiles()
    assert len(recompile.expected) == 300 and recompile.expected.endswith("...")


# What reports say ---------------------------------------------------------------------------------


def test_failures_of_one_cause_are_told_once_with_their_number():
    fast = minitorch2.compile(lambda x, keys: x + len(keys))
    for count in range(4):
        fast(torch.ones(2), dict.fromkeys(range(count)))
    assert len(fast.recompiles()) == 3
    (line,) = str(fast.recompiles()).splitlines()
    assert "entries 0 to 2: DICT_KEYS keys: keys was [], now [0, 1, 2]; last: keys was" in line
    assert "; 3x. Fix:" in line


def asked(number):
    print(end="")  # ends the graph
    return number


def test_reasons_show_the_expression_of_a_value_without_a_name():
    def scaled(x, numbers):
        return [x * n * asked(numbers[0]) for n in numbers] + [x * asked(numbers[1] + 1)]

    fast = minitorch2.compile(scaled)
    for count in range(3):
        fast(torch.ones(2), [count, count + 1])
    text = str(fast.recompiles())
    assert "implicit" not in text and "stack" not in text
    assert "asked(numbers[0])" in text and "asked(numbers[1] + 1)" in text
    assert "iter(numbers)" in text or sys.version_info >= (3, 12)  # there it is inlined


def called(a, b):
    for _ in a.items().copy():
        print(-b.c[0], [*a.d.e(1), *a], 7)


def test_expressions_of_stack_items_are_the_widest_that_leave_them():
    instructions = list(dis.get_instructions(called))
    (last,) = (i.offset for i in instructions if i.argval == 7)
    items = stack_expressions(called.__code__, last, depth_before(instructions, last))
    found = [text for text in items.values() if text != "print"]
    assert found == ["a.items().copy()", "-b.c[0]", "[*a.d.e(1), *a]"]


def depth_before(instructions, offset):
    before = [i for i in instructions if i.offset < offset]
    return sum(dis.stack_effect(i.opcode, i.arg, jump=False) for i in before)
