"""Inputs that the program writes to are computed in their own memory, where nothing can fail."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import minitorch2
from minitorch2 import stages


def check(function, *inputs, in_place, copies=0, **options):
    """As in eager, with so many buffers in an argument's memory and so many copies behind."""
    compiled = minitorch2.compile(function, fullgraph=True, **options)
    with torch.no_grad(), stages.collect() as log:
        compiled(*(x.clone() for x in inputs))  # preserves strides of dense tensors
        given, expected = [x.clone() for x in inputs], [x.clone() for x in inputs]
        versions = [x._version for x in given]
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            result = compiled(*given)
        torch.testing.assert_close(result, function(*expected))
        torch.testing.assert_close(given, expected)
    changed = [not torch.equal(a, b) for a, b in zip(given, inputs, strict=True)]
    assert changed == [x._version > v for x, v in zip(given, versions, strict=True)]
    assert "".join(log.texts("wrapper.py")).count("# in place") == in_place
    assert sum(event.name == "aten::copy_" for event in profiled.events()) == copies
    return compiled


X, Y = torch.rand(6, 8), torch.rand(6, 8)


def optimizer(parameter, gradient, momentum):
    momentum.mul_(0.9).add_(gradient)
    parameter.sub_(momentum * 0.1)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: x.add_(1), (X,)),
        (lambda x, y: x.mul_(y).sin_().sub_(y), (X, Y)),
        (lambda x, y: x.copy_(y * 2), (X, Y)),
        (lambda x: x.zero_(), (X,)),
        (lambda x, y: x.mul_(torch.softmax(y, 1)).sum(), (X, Y)),
        (lambda x: x.mul_(2).sum(), (X.t(),)),
        (lambda x, y: x.add_(x @ y.t() @ y), (X, Y)),
    ],
)
def test_one_buffer_and_no_copy(function, inputs):
    check(function, *inputs, in_place=1)


def test_an_optimizer_writes_where_parameters_are():
    check(optimizer, X, Y, X + Y, in_place=2)
    check(optimizer, X, Y, X + Y, in_place=2, dynamic=True)


def test_parameters_that_require_gradients():
    compiled = minitorch2.compile(optimizer)
    state = [torch.rand(5, requires_grad=True), torch.rand(5), torch.rand(5)]
    expected = [x.detach().clone() for x in state]
    with torch.no_grad():
        compiled(*state)
    optimizer(*expected)
    torch.testing.assert_close([x.detach() for x in state], expected)
    assert state[0].is_leaf and state[0]._version == 1


def test_a_write_under_no_grad_has_no_gradient():
    """Though the caller is in grad mode, and the parameter is a leaf that requires gradients."""

    def program(parameter, gradient):
        with torch.no_grad():
            parameter.sub_(gradient * 0.1)

    compiled = minitorch2.compile(program, fullgraph=True)
    parameter, gradient = torch.rand(5, requires_grad=True), torch.rand(5)
    expected = parameter.detach() - gradient * 0.1
    with stages.collect() as log:
        compiled(parameter, gradient)
    torch.testing.assert_close(parameter.detach(), expected)
    assert parameter.is_leaf and parameter.requires_grad and parameter._version == 1
    assert not log.texts("backward graph.py")
    assert "# in place" in log.texts("wrapper.py")[0]


def test_what_was_there_before_is_read_first():
    check(lambda x, y: (x.clone(), x.add_(y)), X, Y, in_place=0, copies=1)
    check(lambda x, y: (y.mul_(x.sum()), x.add_(1))[0] * 1, X, Y, in_place=2)


def test_a_value_read_at_other_places_is_copied():
    check(lambda x: x.add_(x.flip(0)), X, in_place=0, copies=1)


def test_memory_with_gaps_is_written_to_through_a_copy():
    base, other = torch.rand(6, 16), torch.rand(6, 16)
    compiled = minitorch2.compile(lambda x: x.add_(1), fullgraph=True)
    compiled(base[:, ::2])
    other.copy_(base)
    compiled(base[:, ::2])
    other[:, ::2] += 1
    torch.testing.assert_close(base, other)


def test_arguments_that_share_memory():
    def program(x, y):
        x.add_(y)
        return x * y

    compiled = minitorch2.compile(program)
    for make in (lambda x: (x, x), lambda x: (x, x[:]), lambda x: (x[:4], x[4:8])):
        given, expected = torch.arange(8.0), torch.arange(8.0)
        torch.testing.assert_close(compiled(*make(given)), program(*make(expected)))
        torch.testing.assert_close(given, expected)


@pytest.mark.parametrize("index", [1, 9])
def test_a_graph_that_raises_has_written_nothing(index):
    def program(x, table, index):
        x.add_(1)
        return torch.nn.functional.embedding(index, table)

    compiled = minitorch2.compile(program, fullgraph=True)
    x, table = torch.zeros(3), torch.rand(4, 2)
    compiled(x, table, torch.tensor([0]))
    if index == 1:
        compiled(x, table, torch.tensor([1]))
    else:
        with pytest.raises(IndexError):
            compiled(x, table, torch.tensor([index]))
    assert x.tolist() == [2.0] * 3, "Python has run the frame again, once"


def test_gradients_of_what_is_written_elsewhere():
    def program(x, buffer):
        buffer.mul_(0.5).add_(x.detach().mean(0))
        return (x * buffer).sum()

    x, buffer = torch.rand(4, 3, requires_grad=True), torch.rand(3)
    other = buffer.clone()
    compiled = minitorch2.compile(program, fullgraph=True)
    for _ in range(2):
        given = torch.autograd.grad(compiled(x, buffer), x)
        torch.testing.assert_close(given, torch.autograd.grad(program(x, other), x))
        torch.testing.assert_close(buffer, other)


def test_inference_tensors():
    with torch.inference_mode():
        x = torch.rand(4)
        expected = x + 1
        minitorch2.compile(lambda x: x.add_(1), fullgraph=True)(x)
        torch.testing.assert_close(x, expected)
