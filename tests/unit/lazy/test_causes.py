"""Each cause of a compilation is named, with the line of the step and of an earlier one."""

import inspect

import pytest
import torch

from minitorch2 import config, lazy

X = torch.arange(1.0, 13.0).view(3, 4)
BASE, ALONE = torch.ones(2, 3).unbind(), torch.ones(3)
SHORT = torch.ones(2, 4)


def other_operator(again):
    y = X + 1
    if again:
        return y.cos()
    return y.sin()


def one_more_operator(again):
    y = X + 1
    if again:
        y = y.exp()
    return y


def one_operator_less(again):
    y = X + 1
    if not again:
        y = y.exp()
    return y


def other_size(again):
    return (SHORT if again else X) + 1


def other_dtype_of_an_input(again):
    x = X.double() if again else X.float()
    lazy.mark_step()
    return x + 1


def other_rank(again):
    x = X.flatten() * 1 if again else X * 1
    lazy.mark_step()
    return x + 1


def other_layout(again):
    x = X.t().clone() if again else X.clone().t()
    lazy.mark_step()
    return x + 1


def shared_memory(again):
    return BASE[0] + (BASE[1] if again else ALONE)


def other_number(again):
    return X * (2.5 if again else 3.5)


def other_type_of_number(again):
    return X * (2 if again else 2.0)


def other_dimension(again):
    if again:
        return X.sum(0)
    return X.sum(1)


def other_results(again):
    a = X.sin()
    b = a * 2
    return (a, b) if again else b


def other_default_dtype(again):
    torch.set_default_dtype(torch.float64 if again else torch.float32)
    return torch.ones(2) * 2


CAUSES = {
    other_operator: "the step has aten.cos.default where an earlier one had aten.sin.default",
    one_more_operator: "the step goes on with aten.exp.default where an earlier one ended",
    one_operator_less: "the step ends where an earlier one goes on with aten.exp.default",
    other_size: "a size of an input was 3 and is 2",
    other_dtype_of_an_input: "dtype was torch.float32 and is torch.float64",
    other_rank: "rank was 2 and is 1",
    other_layout: "layout was",
    shared_memory: "shared memory was None and is (0, 12)",
    other_number: "a number of aten.mul.Tensor was 3.5 and is 2.5",
    other_type_of_number: "the step has aten.mul.Tensor where an earlier one had aten.mul.Tensor, "
    "with other arguments",
    other_dimension: "aten.sum.dim_IntList, with other arguments",
    other_results: "other results are held at the end",
    other_default_dtype: "the default dtype is another one: an earlier step began with "
    "torch.float32",
}


@pytest.mark.parametrize("step", CAUSES, ids=lambda step: step.__name__)
def test_a_cause_is_named_with_both_lines(step):
    lazy.reset()
    lines, first = inspect.getsourcelines(step)
    try:
        with config.patch(backend="aot_eager"):
            for again in (False, False, False, True, True, True):
                with lazy.lazily():
                    kept = step(again)
                del kept
    finally:
        torch.set_default_dtype(torch.float32)
    found = [c for c in lazy.why_compiled() if CAUSES[step] in c.cause]
    assert found, "\n".join(map(str, lazy.why_compiled()))
    compilation = found[-1]
    for line in (compilation.line, compilation.other):
        assert first <= line.line < first + len(lines), str(compilation)


def test_a_step_that_comes_again_compiles_nothing_more():
    lazy.reset()
    with config.patch(backend="aot_eager"):
        for _ in range(6):
            for step in CAUSES:
                if step is not other_default_dtype:
                    with lazy.lazily():
                        step(True)
    compiled = lazy.metrics().compiled
    with config.patch(backend="aot_eager"), lazy.lazily():
        other_operator(True)
    assert lazy.metrics().compiled == compiled
