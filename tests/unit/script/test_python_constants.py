"""What a script reads of Python objects is a constant of its graph, and checked at each call."""

import enum
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from minitorch2 import jit

X = torch.tensor([1.0, -2.0])


class Color(enum.Enum):
    RED = 1.5
    BLUE = 2.5


class Settings:
    SCALE = 3.0

    def __init__(self):
        self.factor = 2.0
        self.rates = [1.0, 2.0]

    def scaled(self, x):
        return x * self.factor

    @property
    def doubled(self):
        return self.factor * 2


def add_factor(x):
    return x + WORLD_FACTOR


def subtract(x):
    return x - 1


def with_default(x, rates: list[float] = [1.0]):  # noqa: B006 - it is changed on purpose
    return x * rates[0]


WORLD_FACTOR, FLAG, SHAPE, ABSENT, COLOR = 2.0, True, (1, 2), None, Color.RED
NUMBERS, TABLE, FUNCTIONS, CALLED = [1, 2], {"a": 1.0, "inner": {"k": 3}}, [subtract], subtract
SETTINGS, MODULE = Settings(), SimpleNamespace(inner=Settings())


@pytest.fixture(autouse=True)
def _world(monkeypatch):
    """Give each test globals of its own."""
    values = {
        "WORLD_FACTOR": 2.0, "FLAG": True, "SHAPE": (1, 2), "ABSENT": None, "COLOR": Color.RED,
        "NUMBERS": [1, 2], "TABLE": {"a": 1.0, "inner": {"k": 3}}, "FUNCTIONS": [subtract],
        "CALLED": subtract, "SETTINGS": Settings(), "MODULE": SimpleNamespace(inner=Settings()),
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setitem(globals(), name, value)
    monkeypatch.setattr(Settings, "SCALE", 3.0)
    monkeypatch.setattr(with_default, "__defaults__", ([1.0],))


def set_to(**values):
    return lambda: globals().update(values)


def number(x):
    return x * WORLD_FACTOR


def flag(x):
    return x * 2 if FLAG else x - 1


def element_of_a_list(x):
    return x * NUMBERS[1]


def loop_over_a_list(x):
    for factor in NUMBERS:
        x = x * factor
    return x + len(NUMBERS)


def alias_of_a_list(x):
    numbers = NUMBERS
    return x * sum(numbers)


def tuple_of_sizes(x):
    return x.reshape(SHAPE) if len(SHAPE) == 2 else x


def element_of_a_dict(x):
    return x * TABLE["a"]


def element_of_an_inner_dict(x):
    return x * TABLE["inner"]["k"]


def key_of_a_dict(x):
    return x * 2 if "b" in TABLE else x


def length_of_a_dict(x):
    return x * len(TABLE)


def keywords_of_a_dict(x):
    return torch.sum(x, **KEYWORDS)


KEYWORDS = {"dim": 0}


def attribute(x):
    return x * SETTINGS.factor


def class_attribute(x):
    return x * Settings.SCALE


def class_attribute_of_an_instance(x):
    return x * SETTINGS.SCALE


def attribute_of_an_attribute(x):
    return x * MODULE.inner.factor


def list_in_an_attribute(x):
    return x * SETTINGS.rates[0] + len(SETTINGS.rates)


def truth_of_an_attribute(x):
    return x * 2 if SETTINGS.rates else x


def presence_of_an_attribute(x):
    return x * 2 if hasattr(SETTINGS, "other") else x


def property_of_an_object(x):
    return x * SETTINGS.doubled


def method_of_an_object(x):
    return SETTINGS.scaled(x)


def enumeration(x):
    return x * COLOR.value if COLOR is Color.RED else x - 1


def missing_value(x):
    return x if ABSENT is None else x * ABSENT


def called_function(x):
    return CALLED(x)


def function_in_a_list(x):
    return FUNCTIONS[0](x)


def inner_function(x):
    return add_factor(x) * 2


def default_of_a_function(x):
    return with_default(x)


def sign_of_zero(x):
    return torch.atan2(x * 0 + WORLD_FACTOR, -x.abs())


def kind_of_a_number(x):
    return x.long() * WORLD_FACTOR


def imported_inside(x):
    from tests.unit.script.test_python_constants import WORLD_FACTOR as imported

    return x * imported


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = nn.Linear(2, 2)

    def inner(this, x):
        return this.own(x) * WORLD_FACTOR

    def forward(this, x):
        return this.inner(x) + NUMBERS[0]


CHANGES = [
    (number, set_to(WORLD_FACTOR=5.0)),
    (flag, set_to(FLAG=False)),
    (element_of_a_list, lambda: NUMBERS.__setitem__(1, 7)),
    (loop_over_a_list, lambda: NUMBERS.append(7)),
    (alias_of_a_list, lambda: NUMBERS.append(7)),
    (tuple_of_sizes, set_to(SHAPE=(1, 2, 1))),
    (element_of_a_dict, lambda: TABLE.__setitem__("a", 7.0)),
    (element_of_an_inner_dict, lambda: TABLE["inner"].__setitem__("k", 7)),
    (key_of_a_dict, lambda: TABLE.__setitem__("b", 7)),
    (length_of_a_dict, lambda: TABLE.__setitem__("b", 7)),
    (keywords_of_a_dict, set_to(KEYWORDS={"dim": 0, "keepdim": True})),
    (attribute, lambda: setattr(SETTINGS, "factor", 5.0)),
    (class_attribute, lambda: setattr(Settings, "SCALE", 5.0)),
    (class_attribute_of_an_instance, lambda: setattr(SETTINGS, "SCALE", 5.0)),
    (attribute_of_an_attribute, lambda: setattr(MODULE.inner, "factor", 5.0)),
    (attribute_of_an_attribute, lambda: setattr(MODULE, "inner", SimpleNamespace(factor=9.0))),
    (list_in_an_attribute, lambda: SETTINGS.rates.insert(0, 4.0)),
    (truth_of_an_attribute, lambda: SETTINGS.rates.clear()),
    (presence_of_an_attribute, lambda: setattr(SETTINGS, "other", 1)),
    (property_of_an_object, lambda: setattr(SETTINGS, "factor", 5.0)),
    (method_of_an_object, lambda: setattr(SETTINGS, "factor", 5.0)),
    (enumeration, set_to(COLOR=Color.BLUE)),
    (missing_value, set_to(ABSENT=3.0)),
    (called_function, set_to(CALLED=add_factor)),
    (function_in_a_list, lambda: FUNCTIONS.__setitem__(0, add_factor)),
    (inner_function, set_to(WORLD_FACTOR=5.0)),
    (default_of_a_function, lambda: with_default.__defaults__[0].__setitem__(0, 4.0)),
    (sign_of_zero, set_to(WORLD_FACTOR=-0.0)),
    (kind_of_a_number, set_to(WORLD_FACTOR=2)),
    (imported_inside, set_to(WORLD_FACTOR=5.0)),
    (Reader(), set_to(WORLD_FACTOR=5.0)),
    (Reader(), lambda: NUMBERS.__setitem__(0, 5)),
    (nn.Sequential(Reader(), nn.ReLU(), Reader()), set_to(WORLD_FACTOR=5.0)),
]


@pytest.mark.parametrize(("function", "change"), CHANGES)
def test_a_script_follows_what_it_has_read_of_python(function, change):
    script = jit.script(function)
    for _ in range(3):
        torch.testing.assert_close(script(X), function(X), equal_nan=True)
    change()
    for _ in range(3):
        expected = function(X)
        assert script(X).dtype == expected.dtype
        torch.testing.assert_close(script(X), expected, equal_nan=True)


def test_a_function_that_was_compiled_for_a_call_is_compiled_anew_for_the_next_script():
    jit.script(inner_function)(X)
    set_to(WORLD_FACTOR=5.0)()
    torch.testing.assert_close(jit.script(inner_function)(X), inner_function(X))


def test_a_closure_is_read_at_each_call():
    factor, rates = 2.0, [1.0]

    def scaled(x):
        return x * factor + rates[0]

    script = jit.script(scaled)
    assert script(X).tolist() == scaled(X).tolist()
    factor, rates[0] = 5.0, 8.0
    assert script(X).tolist() == scaled(X).tolist() == [13.0, -2.0]


def test_old_values_need_no_new_graph():
    script = jit.script(flag)
    graphs = {True: script.graph}
    for value in (False, True, False):
        set_to(FLAG=value)()
        torch.testing.assert_close(script(X), flag(X))
        assert graphs.setdefault(value, script.graph) is script.graph


def test_an_inner_script_that_was_compiled_anew_does_not_change_the_graph_of_its_caller():
    inner = jit.script(number)

    def outer(x):
        return inner(x) + 1

    script = jit.script(outer)
    set_to(WORLD_FACTOR=5.0)()
    assert inner(X).tolist() == number(X).tolist()
    set_to(WORLD_FACTOR=2.0)()
    assert script(X).tolist() == outer(X).tolist() == (number(X) + 1).tolist()


def test_a_constant_of_another_type_is_an_error_with_the_line():
    script = jit.script(number)
    set_to(WORLD_FACTOR="two")()
    with pytest.raises(jit.ScriptError, match=r"return x \* WORLD_FACTOR"):
        script(X)


def test_names_of_libraries_and_finals_are_not_checked():
    class Fixed(nn.Module):
        steps: jit.Final[int]

        def __init__(self):
            super().__init__()
            self.steps = 3

        def forward(self, x):
            return x * math.pi + self.steps

    model = Fixed()
    script = jit.script(model)
    torch.testing.assert_close(script(X), model(X))
    read = {str(constant.key) for constant in script._type.methods["forward"].constants}
    assert read == {"math"}


def append_to_a_list(x):
    NUMBERS.append(3)
    return x * len(NUMBERS)


def append_to_an_alias(x):
    numbers = NUMBERS
    numbers.append(3)
    return x


def give_a_list(x):
    return NUMBERS


def append_in_a_function(x):
    appended(NUMBERS)
    return x


def appended(numbers: list[int]):
    numbers.append(3)


@pytest.mark.parametrize(
    "function", [append_to_a_list, append_to_an_alias, give_a_list, append_in_a_function]
)
def test_a_list_of_python_that_a_script_would_write_to_is_refused(function):
    with pytest.raises(jit.ScriptError, match="`NUMBERS` is a list of Python") as caught:
        jit.script(function)
    assert caught.value.code == "script-list-of-python"


def test_a_copy_of_a_list_of_python_is_the_scripts_own():
    def f(x):
        numbers = list(NUMBERS)
        numbers.append(3)
        return numbers

    assert jit.script(f)(X) == [1, 2, 3] and NUMBERS == [1, 2]


def calls_a_script(x):
    return SCRIPT(x) + 1


SCRIPT = jit.script(number)


class CallsAScript(nn.Module):
    def forward(self, x):
        return SCRIPT(x) + 1


class CallsAModule(nn.Module):
    def forward(self, x):
        return x * WORLD_FACTOR


@pytest.mark.parametrize("function", [calls_a_script, CallsAScript(), CallsAModule()])
def test_a_trace_does_not_outlive_what_it_has_read_of_python(function):
    traced = jit.trace(function, (X,))
    torch.testing.assert_close(traced(X), function(X))
    set_to(WORLD_FACTOR=5.0)()
    with pytest.raises(Exception, match="trace-diverged"):
        traced(X)


def test_a_trace_that_may_fall_back_runs_python_where_a_script_has_changed():
    traced = jit.trace(calls_a_script, (X,), assumptions="python")
    set_to(WORLD_FACTOR=5.0)()
    torch.testing.assert_close(traced(X), calls_a_script(X))


def test_a_script_that_calls_a_trace_does_not_outlive_what_the_trace_has_read():
    traced = jit.trace(number, (X,))

    def f(x):
        return traced(x) + 1

    script = jit.script(f)
    torch.testing.assert_close(script(X), f(X))
    set_to(WORLD_FACTOR=5.0)()
    with pytest.raises(jit.ScriptError, match="trace it again"):
        script(X)


def test_a_frozen_module_says_that_what_it_has_read_has_changed():
    frozen = jit.freeze(jit.script(CallsAModule().eval()))
    torch.testing.assert_close(frozen(X), X * 2)
    set_to(WORLD_FACTOR=5.0)()
    with pytest.raises(jit.ScriptError, match=r"`WORLD_FACTOR` was 2.0(.|\n)*now is 5.0"):
        frozen(X)


def test_a_parameter_named_self_is_one_of_a_function():
    def f(self, x: int):
        return self * x

    assert jit.script(f)(X, 3).tolist() == (X * 3).tolist()
