"""What a program may write to between forward and backward, as in eager mode."""

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.graph.history import kept_by


def product_with_a_copy(x, q):
    return x @ q.clone()


def result_copied(x, q):
    return x.exp().clone()


def scaled_by_one(x, q):
    return x.tanh() * 1.0


def recomputed_from_an_input(x, q):
    return q.exp() * x


def of_a_result(x, q):
    return torch.sigmoid(x)


def of_an_operand(x, q):
    return x * q


def views_of_copies(x, q):
    return x @ q.clone().t()[:3]


def copies_beside_results(x, q):
    return x.sin().clone() * q.clone(), q.clone()


def summed(x, q):
    return (x.relu() * q.sigmoid()).sum()


PROGRAMS = [
    product_with_a_copy,
    result_copied,
    scaled_by_one,
    recomputed_from_an_input,
    of_a_result,
    of_an_operand,
    views_of_copies,
    copies_beside_results,
    summed,
]


def gradient(function, written):
    """The gradient after a write to an input or to the result, or the error."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(3, 3, generator=generator, requires_grad=True)
    given = {"x": x * 1, "q": torch.rand(3, 3, generator=generator)}
    results = function(*given.values())
    first = results[0] if isinstance(results, tuple) else results
    with torch.no_grad():
        given.get(written, first).zero_()
    try:
        first.sum().backward()
    except RuntimeError as error:
        return str(error)
    return x.grad


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_writes_that_eager_allows(program, dynamic, backend):
    """Regression: a copy that the program had made was the original, which backward had saved."""
    for written in ("x", "q", "result"):
        expected = gradient(program, written)
        if isinstance(expected, str):
            continue
        compiled = minitorch2.compile(program, backend=backend, dynamic=dynamic)
        torch.testing.assert_close(gradient(compiled, written), expected)


@pytest.mark.parametrize("written", ["q", "result"])
def test_writes_that_eager_forbids(written):
    program = of_an_operand if written == "q" else of_a_result
    for function in (program, minitorch2.compile(program)):
        assert "modified by an inplace operation" in gradient(function, written)


class Queue(torch.nn.Module):
    """Contrasts with the keys of earlier batches, which it writes over (He et al. 2020)."""

    def __init__(self):
        super().__init__()
        self.query = torch.nn.Linear(4, 6)
        self.register_buffer("queue", torch.nn.functional.normalize(torch.rand(6, 8), dim=0))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, x, key):
        logits = self.query(x) @ self.queue.clone().detach()
        with torch.no_grad():
            place = int(self.place)
            self.queue[:, place : place + len(x)] = key.T
            self.place[0] = (place + len(x)) % 8
        return logits.logsumexp(1).mean()


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
def test_a_queue_of_negatives(backend):
    """Regression: backward raised, since the queue itself had been saved instead of its copy."""

    def train(wrap):
        torch.manual_seed(0)
        model = Queue()
        call, optimizer = wrap(model), torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(5):
            loss = call(torch.rand(2, 4), torch.rand(2, 6))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [loss.detach(), *model.state_dict().values()]

    trained = train(lambda model: minitorch2.compile(model, backend=backend))
    torch.testing.assert_close(trained, train(lambda model: model))


def test_a_second_derivative_through_a_copy_is_an_error():
    """A saved copy has no history: that must not pass for a gradient that is constant."""
    compiled = minitorch2.compile(lambda x, q: (x * 2 + q.clone().mul(x)).exp())

    def first(x):
        made = x * 1
        return torch.autograd.grad(compiled(made, torch.ones(2)).sum(), made, create_graph=True)[0]

    x = torch.rand(2, requires_grad=True)
    again = first(x)  # the input is gone
    assert again.requires_grad
    with pytest.raises(minitorch2.errors.BackendError, match="second derivative"):
        again.sum().backward()


def test_to_ask_what_eager_keeps_leaves_numbers_open():
    """A number that varies is no constant of the graph, though eager keeps it for backward."""

    def scaled(x, n):
        return torch.cat([(x * n).sin(), x[:2] * n])

    with config.patch(verify=True), stages.collect() as log:
        compiled = minitorch2.compile(scaled, dynamic=True)
        for n in (2, 3, 5, 7):
            x = torch.randn(4, requires_grad=True)
            (found,) = torch.autograd.grad(compiled(x, n).sum(), x)
            (expected,) = torch.autograd.grad(scaled(x, n).sum(), x)
            torch.testing.assert_close(found, expected)
    assert log.counts["graphs"] <= 2


def test_the_values_that_a_function_of_the_user_keeps():
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0]

    result = Exp.apply(torch.ones(2, requires_grad=True))
    assert [x.tolist() for x in kept_by(result.grad_fn)] == [result.tolist()]


@pytest.mark.parametrize("backend", ["aot_eager_decomp_partition", "numba"])
def test_a_part_of_an_input_that_eager_keeps_no_hold_of(backend):
    """A copy of the part would have other strides than backward was compiled for."""

    def weighed(x):
        gates = torch.softmax(x[:, :3], 1)
        return x[torch.tensor([2, 0])] * gates[:2, 1:2], gates.t()[1]

    x = torch.randn(6, 4, requires_grad=True)
    compiled = minitorch2.compile(weighed, backend=backend)
    (found,) = torch.autograd.grad([y.sum() for y in compiled(x)], x)
    (expected,) = torch.autograd.grad([y.sum() for y in weighed(x)], x)
    torch.testing.assert_close(found, expected)
