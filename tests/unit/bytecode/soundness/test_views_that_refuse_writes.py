"""PyTorch refuses writes to some views by how they were made; compiled code raises the same."""

import pytest
import torch

import minitorch2


def of_chunks(x):
    a, b = (x * 2).chunk(2)
    a.mul_(3)
    return a + b


def of_rows(x):
    for row in (x * 2).unbind():
        row.add_(1)
    return x * 3


def of_pieces(x):
    y = x * 2
    for piece in y.split(1):
        piece.copy_(x[:1])
    return y


def made_under_no_grad(x):
    y = x * 2
    with torch.no_grad():
        row = y[0]
    row.mul_(3)
    return y


def inside_a_call(x):
    return of_chunks(x.sin()) + 1


def caught(x):
    try:
        return of_chunks(x)
    except RuntimeError as error:
        return x * len(str(error))


def outcome(function, x):
    """The result and the gradient, or the error."""
    try:
        result = function(x)
        if result.requires_grad:
            result.sum().backward()
        return result.detach(), x.grad
    except RuntimeError as error:
        return str(error)


PROGRAMS = [of_chunks, of_rows, of_pieces, made_under_no_grad, inside_a_call, caught]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("program", PROGRAMS)
def test_writes_to_views_fail_where_eager_fails(program, requires_grad, backend):
    """Regression: behind the break in front of the write, the view was an ordinary tensor."""
    compiled = minitorch2.compile(program, backend=backend)
    for _ in range(2):
        given = [torch.ones(2, 3, requires_grad=requires_grad) for _ in range(2)]
        got, expected = outcome(compiled, given[0]), outcome(program, given[1])
        assert type(got) is type(expected)
        if isinstance(expected, str):
            assert got == expected
            continue
        torch.testing.assert_close(got, expected)
