"""Jagged nested tensors: one graph for all lengths, eager's values, offsets and gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch.nested import as_nested_tensor, nested_tensor, nested_tensor_from_jagged
from torch.testing import assert_close

import minitorch2
from minitorch2 import config, stages

LENGTHS = [(2, 3, 4), (2, 3, 4, 5), (5, 2), (3, 4, 5, 6, 7), (2, 3, 4)]
WEIGHT = torch.linspace(-1, 1, 20).view(5, 4)


def jagged(lengths, *sizes, requires_grad=False, knows_longest=False):
    """Rows of these lengths; the tensor may know the length of the longest one, or not."""
    sizes = sizes or (4,)
    if knows_longest:
        rows = [torch.rand(n, *sizes) for n in lengths]
        made = nested_tensor(rows, layout=torch.jagged)
    else:
        offsets = torch.tensor([0, *lengths]).cumsum(0)
        made = nested_tensor_from_jagged(torch.rand(sum(lengths), *sizes), offsets)
    return made.detach().requires_grad_(requires_grad)


def plain(value):
    """A value without jagged tensors: rows, offsets, and which dimension is ragged."""
    if isinstance(value, torch.Tensor) and value.is_nested:
        kind = value.requires_grad, value._ragged_idx
        return [*kind, value.values().detach(), value.offsets()]
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    return value.detach() if isinstance(value, torch.Tensor) else value


def outcome(function, inputs):
    """The values of a call, and the gradients of the inputs."""
    inputs = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
    result = function(*inputs)
    results = result if isinstance(result, tuple | list) else [result]
    dense = [r.values() if r.is_nested else r for r in results if isinstance(r, torch.Tensor)]
    wanted = [x for x in inputs if x.requires_grad]
    roots = [r.square().sum() for r in dense if r.requires_grad]
    gradients = torch.autograd.grad(sum(roots), wanted, allow_unused=True) if roots else []
    return plain(result), plain(list(gradients))


def check(function, calls, graphs=2, backend="aot_eager", **options):
    """Compare calls with eager: all in one graph, recompiled for another number of rows once."""
    with config.patch(suppress_errors=False), stages.collect() as log:
        compiled = minitorch2.compile(function, fullgraph=True, backend=backend, **options)
        for inputs in calls:
            found, wanted = outcome(compiled, inputs), outcome(function, inputs)
            assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (graphs, 0)


PROGRAMS = {
    "pointwise": lambda x: x.sin() * 2 + x,
    "linear": lambda x: F.gelu(F.linear(x, WEIGHT)),
    "matmul": lambda x: x @ WEIGHT.mT,
    "normed": lambda x: F.layer_norm(x, (4,)) + F.rms_norm(x, (4,)),
    "softmax": lambda x: x.softmax(-1),
    "where": lambda x: torch.where(x > 0.5, x, -x),
    "values and offsets": lambda x: (x.values() * 2, x.offsets() + 1, x.lengths()),
    "reductions": lambda x: (x.mean(), x.sum()),
    "padded": lambda x: x.to_padded_tensor(0.0) * 2,
    "views": lambda x: (x.transpose(1, 2) * 2, x.unsqueeze(-1), *x.chunk(2, -1)),
    "shape": lambda x: (x.view(x.size(0), x.shape[1], 2, 2) * 2, x.size(0), x.dim()),
    "size of itself": lambda x: x * (3 if x.shape[1] == x.size(1) != x.size(0) else 2),
    "flattened": lambda x: x.unflatten(-1, (2, 2)).flatten(-2) * 2,
    "made inside": lambda x: nested_tensor_from_jagged(x.values().sin(), x.offsets()) * x,
    "made and left inside": lambda x: (nested_tensor_from_jagged(x.values(), x.offsets())).values(),
    "written": lambda x: (x * 2).add_(1),
    "two": lambda x: (x * 2, (x + 1).values()),
    "beside its values": lambda x: (y := x * 2, y.values()),
    "made beside its values": lambda x: (
        y := nested_tensor_from_jagged(x.values() + 1, x.offsets()),
        y.values(),
    ),
}


@pytest.mark.parametrize("knows_longest", [False, True])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, requires_grad, knows_longest):
    options = {"requires_grad": requires_grad, "knows_longest": knows_longest}
    check(PROGRAMS[name], [[jagged(lengths, **options)] for lengths in LENGTHS])


@pytest.mark.parametrize("name", ["linear", "normed", "padded", "made inside"])
def test_kernels(name):
    calls = [[jagged(lengths, 4, requires_grad=True)] for lengths in LENGTHS]
    check(PROGRAMS[name], calls, backend="numba")


def test_symbolic_sizes_from_the_first_call():
    calls = [[jagged(n, d)] for n, d in (((2, 3, 4), 6), ((5, 2, 7, 9), 8), ((5, 7), 10))]
    check(lambda x: (x * 2).sin(), calls, graphs=1, dynamic=True)


@pytest.mark.parametrize("make", [nested_tensor, as_nested_tensor])
def test_made_of_rows(make):
    def program(x, y):
        return make([x * 2, y], layout=torch.jagged).sin()

    rows = torch.rand(5, 4, requires_grad=True), torch.rand(3, 4, requires_grad=True)
    check(program, [rows, rows], graphs=1)


def test_gradients_of_weights():
    def program(x, weight):
        return F.linear(x, weight) + x @ weight.mT

    check(program, [[jagged((2, 3), requires_grad=True), WEIGHT.clone().requires_grad_()]], 1)


def test_a_result_has_the_offsets_of_its_operand():
    """Jagged tensors can be added only if their offsets are one object."""
    compiled = minitorch2.compile(lambda x: x * 2, fullgraph=True, backend="aot_eager")
    x = jagged((2, 3, 4))
    result = compiled(x)
    assert result.offsets() is x.offsets()
    assert_close((result + x).values(), x.values() * 3)


def test_which_offsets_are_the_same_is_guarded():
    def program(x, y):
        return x * 2 if x.shape[1] == y.shape[1] else y * 3

    x, y = jagged((2, 3)), jagged((2, 3))
    same = nested_tensor_from_jagged(torch.rand(5, 4), x.offsets())
    compiled = minitorch2.compile(program, fullgraph=True, backend="aot_eager")
    for inputs in ((x, y), (x, same), (x, x), (x, y)):
        assert_close(plain(compiled(*inputs)), plain(program(*inputs)))


def test_offsets_as_another_input():
    def program(x, values, offsets):
        return x + nested_tensor_from_jagged(values * 2, offsets)

    x = jagged((2, 3, 4))
    compiled = minitorch2.compile(program, fullgraph=True, backend="aot_eager")
    inputs = x, torch.rand(9, 4), x.offsets()
    assert_close(plain(compiled(*inputs)), plain(program(*inputs)))
    with pytest.raises(RuntimeError):
        minitorch2.compile(program)(*inputs[:2], x.offsets().clone())


BREAKS = {
    "rows": (lambda x: [row * 2 for row in x.unbind()], "data-dependent"),
    "lengths": (lambda x: int(x.offsets().diff().max()), None),
    "a multiple of a size": (lambda x: (x * 2, x.shape[1] * 2 == x.shape[1]), "tensor-subclass"),
    "attention on the CPU": (
        lambda x: F.scaled_dot_product_attention(*[x.unflatten(-1, (2, 2)).transpose(1, 2)] * 3),
        "data-dependent",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_breaks_are_named_and_right(name):
    program, code = BREAKS[name]
    x = jagged((2, 3, 4))
    with stages.collect() as log:
        found = minitorch2.compile(program, backend="aot_eager")(x)
    assert_close(plain(found), plain(program(x)))
    breaks = log.texts("graph_break")
    assert f"[{code}]" in breaks[0] if code else not breaks


def test_a_gradient_that_pytorch_lacks_is_left_to_eager():
    x = jagged((2, 3), requires_grad=True)
    with stages.collect() as log:
        result = minitorch2.compile(lambda x: x.sum(-1), backend="aot_eager")(x)
    assert_close(plain(result), plain(x.sum(-1)))
    assert all("[tensor-subclass]" in text for text in log.texts("graph_break"))


def test_attention_layer_with_a_break():
    """The graphs on both sides of the break give eager's values and gradients."""
    linear = torch.nn.Linear(4, 8)

    def layer(x):
        heads = linear(x).unflatten(-1, (2, 4)).transpose(1, 2)
        found = F.scaled_dot_product_attention(heads, heads, heads)
        return found.transpose(1, 2).flatten(-2) * 2

    compiled = minitorch2.compile(layer, backend="aot_eager")
    for lengths in LENGTHS:
        inputs = [jagged(lengths, requires_grad=True, knows_longest=True)]
        assert_close(outcome(compiled, inputs), outcome(layer, inputs))
