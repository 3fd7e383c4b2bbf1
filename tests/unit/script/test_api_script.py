"""`minitorch2.jit`: functions, text without Python, marks, traces, futures."""

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import jit


def helper(x, factor: int = 2):
    return x * factor


@jit.unused
def never(x: torch.Tensor) -> torch.Tensor:
    return x


def test_script_compiles_a_function_once():
    def f(x, n: int, flag: bool = True):
        if not jit.is_scripting():
            return never(x)
        return helper(x, n) if flag else x

    script = minitorch2.jit.script(f)
    assert jit.script(script) is script
    x = torch.ones(2)
    assert script(x, 3).tolist() == [3, 3]
    assert script(x, n=3, flag=False).tolist() == [1, 1]
    assert [str(argument.type) for argument in script.schema.arguments] == ["Tensor", "int", "bool"]
    assert script.member_inputs == ()


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "needs a value for 'x'"),
        ((1, 2, 3), {}, "takes 2 arguments"),
        ((1,), {"x": 1}, "two values"),
        ((1,), {"y": 1}, "no parameter 'y'"),
    ],
)
def test_wrong_arguments_are_refused(args, kwargs, message):
    with pytest.raises(TypeError, match=message):
        jit.script(helper)(*args, **kwargs)


@pytest.mark.parametrize(
    ("args", "given"),
    [
        ((3,), "Tensor for 'x', and got one of type int"),
        ((torch.ones(1), 2.5), "int for 'factor', and got one of type float"),
        ((torch.ones(1), None), "int for 'factor', and got one of type NoneType"),
        ((torch.ones(1), [1, 2]), r"int for 'factor', and got one of type int\[\]"),
    ],
)
def test_an_argument_of_another_type_is_refused_with_the_line_of_the_function(args, given):
    with pytest.raises(TypeError, match=f"test_api_script.py:(.|\n)*{given}"):
        jit.script(helper)(*args)


def test_elements_of_containers_are_arguments_too():
    def f(xs: list[float], pair: tuple[int, str], table: dict[str, torch.Tensor]):
        return sum(xs), pair, table

    script, one = jit.script(f), torch.ones(1)
    assert script([1.0, 2], (1, "a"), {"x": one}) == (3.0, (1, "a"), {"x": one})
    for wrong in (
        (["a"], (1, "a"), {}),
        ([], (1, 2), {}),
        ([], (1, "a", 3), {}),
        ([], (1, "a"), {"x": 1}),
        ([], (1, "a"), []),
    ):
        with pytest.raises(TypeError, match="takes a value of type"):
            script(*wrong)


def test_text_alone_defines_functions():
    unit = jit.define(
        """
        def twice(x):
            return x + x

        def four_times(x):
            return twice(twice(x))
        """
    )
    assert unit.four_times(torch.ones(1)).item() == 4
    assert [function.name for function in unit] == ["twice", "four_times"]
    with pytest.raises(AttributeError):
        print(unit.five_times)


def test_text_that_begins_at_its_first_line_keeps_its_indentation():
    text = "def f(x):\n    if bool(x.sum() > 0):\n        x = x * 2\n    return x\n"
    assert jit.define(text).f(torch.ones(1)).item() == 2


def test_a_scripted_function_calls_another_one():
    inner = jit.script(helper)

    def f(x):
        return inner(x, 5)

    script = jit.script(f)
    assert script(torch.ones(1)).item() == 5
    assert "prim::CallFunction" in str(script.graph)
    assert "prim::CallFunction" not in str(script.inlined_graph)


def test_traces_of_functions_and_modules_run():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    traced = jit.trace(model, torch.randn(4, 2))
    for size in (4, 7):
        x = torch.randn(size, 2)
        torch.testing.assert_close(traced(x), model(x))
    assert traced[0].weight is model[0].weight
    assert jit.trace(helper, torch.ones(2))(torch.ones(3)).tolist() == [2, 2, 2]


def test_a_trace_may_fall_back_to_python():
    def f(x):
        return x * 2 if x.sum() > 0 else x - 1

    traced = jit.trace(f, torch.ones(2), assumptions="python")
    assert traced(-torch.ones(2)).tolist() == [-2, -2]
    assert traced(torch.ones(3)).tolist() == [2, 2, 2]


def test_fork_and_wait_in_python():
    future = jit.fork(helper, torch.ones(1), factor=7)
    assert jit.wait(future).item() == 7


def test_only_functions_and_modules_are_scripted():
    with pytest.raises(TypeError, match="got int"):
        jit.script(3)


def test_an_argument_that_does_not_fit_is_refused_after_calls_whose_arguments_fit():
    def f(x: torch.Tensor, count: int, names: list[str]):
        return x + count + len(names)

    scripted = jit.script(f)
    for count in (1, 2, True):
        assert torch.equal(scripted(torch.ones(2), count, ["a"]), torch.ones(2) + count + 1)
    for wrong in ((torch.ones(2), 1.5, ["a"]), (torch.ones(2), 1, [1]), (3, 1, ["a"])):
        with pytest.raises(TypeError, match="takes a value of type"):
            scripted(*wrong)
