"""Branches and loops that data decides about: one graph, whose nodes call graphs."""

import pytest
import torch
from torch._higher_order_ops import map as map_slices
from torch._higher_order_ops import scan, while_loop
from torch.utils.checkpoint import checkpoint

import minitorch2
from minitorch2 import stages
from minitorch2.errors import GraphBreakError
from minitorch2.graph.higher_order import Cond, Scan, WhileLoop

BACKENDS = ["eager", "aot_eager", "aot_eager_decomp_partition", "numba"]


def gradients(function, inputs):
    """Results, and gradients of their squares, by inputs and parameters that require them."""
    results = torch.utils._pytree.tree_leaves(function(*inputs))
    wanted = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    total = sum((r * r).sum() for r in results if r.requires_grad)
    found = torch.autograd.grad(total, wanted, allow_unused=True) if wanted else ()
    return results, found


def agrees(function, reference, *examples, backend="numba", **options):
    """One graph, and results and gradients of the reference, for each example."""
    compiled = minitorch2.compile(function, backend=backend, fullgraph=True, **options)
    for inputs in examples:
        expected, given = gradients(reference, inputs), gradients(compiled, inputs)
        torch.testing.assert_close(given, expected)
    return compiled


def positive_and_negative(*more, requires_grad=True):
    x = torch.rand(3, 4)
    return [((sign * x).requires_grad_(requires_grad), *more) for sign in (1, -1)]


# torch.cond ---------------------------------------------------------------------------------------


def branches(x, scale):
    outer = x * 2
    return torch.cond(
        x.sum() > 0,
        lambda a, b: {"first": a.sin() + outer, "rest": [a * b, b.sum()]},
        lambda a, b: {"first": a.cos(), "rest": [a - 1, b.sum() * 2]},
        (x, scale),
    )


def branches_in_python(x, scale):
    outer = x * 2
    if x.sum() > 0:
        return {"first": x.sin() + outer, "rest": [x * scale, scale.sum()]}
    return {"first": x.cos(), "rest": [x - 1, scale.sum() * 2]}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("needs_grad", [False, True])
def test_both_branches_are_in_one_graph(backend, needs_grad):
    scale = torch.rand(4, requires_grad=needs_grad)
    examples = positive_and_negative(scale, requires_grad=needs_grad)
    agrees(branches, branches_in_python, *examples, backend=backend)


def test_branches_are_compiled_as_loops():
    with stages.collect() as log:
        agrees(branches, branches_in_python, *positive_and_negative(torch.rand(4)))
    assert log.counts["fallbacks"] == 0
    kernels = "".join(log.texts("kernel.py"))
    assert "sin" in kernels and "cos" in kernels


def test_parameters_that_branches_read_get_gradients():
    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.cond(x.sum() > 0, self.left, self.right, (x,))

    gate = Gate()
    compiled = minitorch2.compile(gate, fullgraph=True)
    for x in (torch.rand(2, 4), -torch.rand(2, 4)):
        taken = gate.left if x.sum() > 0 else gate.right
        given = torch.autograd.grad(compiled(x).sum(), list(gate.parameters()))
        expected = torch.autograd.grad(taken(x).sum(), list(taken.parameters()))
        places = slice(0, 2) if taken is gate.left else slice(2, 4)
        torch.testing.assert_close(given[places], expected)
        assert not any(g.any() for g in given[slice(2, 4) if places.start == 0 else slice(0, 2)])


def test_branches_within_branches():
    def nested(x):
        def positive(x):
            return torch.cond(x.max() > 0.5, lambda x: x.exp(), lambda x: x.tanh(), (x,))

        return torch.cond(x.sum() > 0, positive, lambda x: x * 3, (x,))

    def in_python(x):
        if x.sum() > 0:
            return x.exp() if x.max() > 0.5 else x.tanh()
        return x * 3

    examples = [((x * s).requires_grad_(),) for x in [torch.rand(5)] for s in (1.0, 0.3, -1.0)]
    agrees(nested, in_python, *examples)


class Chosen(torch.autograd.Function):
    """A function whose two passes branch."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.cond(x.sum() > 0, lambda: x.sin(), lambda: x.cos() * 3)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.cond(x.sum() > 0, lambda: x.cos() * grad, lambda: grad * 5 - x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_data_decides_inside_of_a_checkpoint_and_of_a_function(backend):
    def body(x):
        return torch.cond(x.sum() > 0, lambda: x.sin() * x, lambda: x.cos() * 3)

    def program(x):
        return Chosen.apply(x), checkpoint(body, x, use_reentrant=False)

    agrees(program, program, *positive_and_negative(), backend=backend)


def test_a_condition_known_now_is_no_branch():
    def f(x, flag):
        return torch.cond(flag and x.shape[0] > 2, torch.sin, torch.cos, (x,))

    def in_python(x, flag):
        return x.sin() if flag and x.shape[0] > 2 else x.cos()

    examples = [(torch.rand(3), True), (torch.rand(3), False), (torch.rand(2), True)]
    agrees(f, in_python, *examples)


def test_sizes_that_vary():
    def f(x, y):
        n = y.shape[0]
        return torch.cond(
            x.sum() > 0, lambda x: x.sin() + torch.ones(n).sum(), lambda x: x - n, (x,)
        )

    def in_python(x, y):
        return x.sin() + y.shape[0] if x.sum() > 0 else x - y.shape[0]

    examples = [((s * torch.rand(n)).requires_grad_(), torch.rand(m))
                for s, n, m in [(1, 4, 5), (-1, 7, 6), (1, 9, 3)]]  # fmt: skip
    with stages.collect() as log:
        agrees(f, in_python, *examples, dynamic=True)
    assert log.counts["graphs"] == 1


def test_results_laid_out_otherwise_in_the_other_branch():
    def f(x):
        return torch.cond(
            x.sum() > 0, lambda x: x.t() + 1, lambda x: (x + 2).t().contiguous(), (x,)
        )

    def in_python(x):
        return x.t() + 1 if x.sum() > 0 else (x + 2).t().contiguous()

    agrees(f, in_python, *positive_and_negative())


def test_an_operand_as_the_result_is_a_copy():
    compiled = minitorch2.compile(
        lambda x: torch.cond(x.sum() > 0, lambda x: x, lambda x: x, (x,)), fullgraph=True
    )
    x = torch.rand(3)
    result = compiled(x)
    assert torch.equal(result, x) and result.data_ptr() != x.data_ptr()


def test_writes_to_what_a_branch_has_made():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: (x * 2).add_(1), lambda x: x.clone().mul_(3), (x,))

    def in_python(x):
        return x * 2 + 1 if x.sum() > 0 else x * 3

    agrees(f, in_python, *positive_and_negative())


def test_autocast_around_a_branch():
    weight = torch.rand(4, 4, requires_grad=True)

    def run(f):
        def cast(x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return f(x)

        return cast

    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x @ weight, lambda x: weight @ x.t(), (x,))

    def in_python(x):
        return x @ weight if x.sum() > 0 else weight @ x.t()

    examples = [((s * torch.rand(4, 4)).requires_grad_(),) for s in (1, -1)]
    agrees(run(f), run(in_python), *examples)


def test_gradients_of_gradients():
    def second(f, x):
        (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    compiled = minitorch2.compile(
        lambda x: torch.cond(x.sum() > 0, torch.sin, torch.exp, (x,)), fullgraph=True
    )
    x = torch.rand(3, requires_grad=True)
    torch.testing.assert_close(second(compiled, x), second(torch.sin, x))


@pytest.mark.parametrize(
    ("when_false", "cause"),
    [
        (lambda x: x[:1], r"the branches give \(f32\[3, 4\]\) and \(f32\[1, 4\]\)"),
        (lambda x: x.double(), "f64"),
        (lambda x: x.add_(1), "writes to a tensor from outside"),
        (lambda x: (x, x), r"\(f32\[3, 4\], f32\[3, 4\]\)"),
        (lambda x: 3, "values that are no tensors"),
    ],
)
def test_functions_that_do_not_fit_together(when_false, cause):
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), when_false, (x,))

    with pytest.raises(GraphBreakError, match=cause):
        minitorch2.compile(f, fullgraph=True)(torch.rand(3, 4))
    broken = minitorch2.compile(f)
    torch.testing.assert_close(broken(torch.ones(3, 4)), torch.ones(3, 4).sin())
    torch.testing.assert_close(broken(-torch.ones(3, 4)), when_false(-torch.ones(3, 4)))


def test_random_numbers_cannot_be_drawn_twice():
    def f(x):
        dropout = torch.nn.functional.dropout
        return torch.cond(x.sum() > 0, lambda x: dropout(x, 0.5), lambda x: x * 2, (x,))

    with pytest.raises(GraphBreakError, match="draws random numbers where gradients"):
        minitorch2.compile(f, fullgraph=True)(torch.rand(3, requires_grad=True))


def test_random_numbers_in_inference():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x + torch.rand(3), lambda x: x, (x,))

    compiled = minitorch2.compile(f, fullgraph=True)
    torch.manual_seed(0)
    given = compiled(torch.ones(3))
    torch.manual_seed(0)
    torch.testing.assert_close(given, torch.ones(3) + torch.rand(3))


# Loops --------------------------------------------------------------------------------------------


def halving(x, rate):
    """Halve until small; counts the steps."""
    return while_loop(
        lambda i, x: (x.abs().max() > 0.1) & (i < 20),
        lambda i, x: (i + 1, (x * 0.5 * rate).sin()),
        (torch.tensor(0), x),
    )


def halving_in_python(x, rate):
    i = torch.tensor(0)
    while (x.abs().max() > 0.1) & (i < 20):
        i, x = i + 1, (x * 0.5 * rate).sin()
    return i, x.clone()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_that_data_ends(backend):
    rate = torch.tensor(0.9, requires_grad=True)
    examples = [((s * torch.rand(3, 4)).requires_grad_(), rate) for s in (1, 10)]
    agrees(halving, halving_in_python, *examples, backend=backend)
    with torch.no_grad():
        transposed, none = torch.rand(3, 4).t(), torch.zeros(3, 4)
        for x in (transposed, none):
            agrees(halving, halving_in_python, (x, torch.tensor(1.0)), backend=backend)


def test_integers_are_carried():
    def f(x):
        def step(i, x):
            return i + 1, x + i

        return while_loop(lambda i, x: 2 * i < x.shape[0], step, (0, x))

    def in_python(x):
        i = 0
        while 2 * i < x.shape[0]:
            i, x = i + 1, x + i
        return i, x

    compiled = minitorch2.compile(f, fullgraph=True)
    for x in (torch.rand(5), torch.rand(7, 2)):
        torch.testing.assert_close(compiled(x), in_python(x))


def test_what_is_carried_must_keep_its_form():
    def f(x):
        return while_loop(lambda x: x.sum() < 9, lambda x: (torch.cat([x, x]),), (x,))

    with pytest.raises(GraphBreakError, match="what is carried, and what a step gives"):
        minitorch2.compile(f, fullgraph=True)(torch.rand(3))


def recurrence(carry, x):
    state = (carry["h"] * 0.9 + x).tanh()
    return {"h": state}, (state * 2, x.sum())


def scanned(h, xs, dim, reverse):
    return scan(recurrence, {"h": h}, xs, dim=dim, reverse=reverse)


def scanned_in_python(h, xs, dim, reverse):
    carry, results = {"h": h}, []
    for x in reversed(xs.unbind(dim)) if reverse else xs.unbind(dim):
        carry, result = recurrence(carry, x)
        results.append(result)
    results = results[::-1] if reverse else results
    return carry, tuple(torch.stack(each) for each in zip(*results, strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("dim", "reverse"), [(0, False), (1, True), (-1, False)])
def test_a_scan(backend, dim, reverse):
    shape = [2, 3]
    shape.insert(dim if dim >= 0 else 2, 5)
    h, xs = (torch.rand(s, requires_grad=True) for s in ((2, 3), shape))
    agrees(scanned, scanned_in_python, (h, xs, dim, reverse), backend=backend)


def test_a_scan_with_weights():
    """A recurrent network: the weight is read by each step, and its gradient is summed up."""

    def f(h, xs, weight):
        return scan(lambda h, x: ((h @ weight + x).tanh(),) * 2, h, xs)

    def in_python(h, xs, weight):
        states = []
        for x in xs:
            h = (h @ weight + x).tanh()
            states.append(h)
        return h, torch.stack(states)

    inputs = [torch.rand(s, requires_grad=True) for s in ((2, 3), (6, 2, 3), (3, 3))]
    agrees(f, in_python, inputs)
    compiled = agrees(f, in_python, inputs, dynamic=True)
    longer = [torch.rand(s, requires_grad=True) for s in ((4, 3), (9, 4, 3), (3, 3))]
    torch.testing.assert_close(gradients(compiled, longer), gradients(in_python, longer))


def test_the_same_function_for_each_slice():
    def f(xs, y):
        return map_slices(lambda x, y: (x * y).cumsum(0), xs, y)

    def in_python(xs, y):
        return torch.stack([(x * y).cumsum(0) for x in xs])

    agrees(f, in_python, [torch.rand(4, 3, requires_grad=True), torch.rand(3, requires_grad=True)])


def test_a_loop_in_a_branch_in_a_loop():
    def f(x):
        def step(i, x):
            decayed = torch.cond(
                x.sum() > 1, lambda x: halving(x, torch.tensor(0.5))[1], torch.exp, (x,)
            )
            return i + 1, decayed

        return while_loop(lambda i, x: i < 3, step, (torch.tensor(0), x))[1]

    def in_python(x):
        for _ in range(3):
            x = halving_in_python(x, torch.tensor(0.5))[1] if x.sum() > 1 else x.exp()
        return x

    agrees(f, in_python, [torch.rand(4, requires_grad=True)])


# The graph ----------------------------------------------------------------------------------------


def test_nodes_of_the_graphs():
    graphs = []

    def keep(module, examples):
        graphs.append(module.graph)
        return module

    x = torch.rand(3, 4)
    for f, inputs in ((branches, (x, x[0])), (halving, (x, x[0])), (scanned, (x[0], x, 0, False))):
        minitorch2.compile(f, backend=keep, fullgraph=True)(*inputs)
    kinds = [[type(n.target) for n in g.nodes if isinstance(n.target, Cond | WhileLoop | Scan)]
             for g in graphs]  # fmt: skip
    assert kinds == [[Cond], [WhileLoop], [Scan]]


def test_the_joint_graph_has_a_node_for_each_direction():
    with stages.collect() as log:
        agrees(
            scanned,
            scanned_in_python,
            (torch.rand(3, requires_grad=True), torch.rand(5, 3), 0, False),
        )
    assert "_scan(" in log.texts("forward graph.py")[0]
    assert "_loop_gradient(" in log.texts("backward graph.py")[0]


# Numbers that vary --------------------------------------------------------------------------------


def scaled(cond, x, rate):
    return cond(x.sum() > 0, lambda x: x * rate, lambda x: x.clamp(max=rate) + rate * 2, (x,))


def scaled_within_branches(cond, x, rate):
    inner = lambda x: cond(x.max() > 1, lambda x: x * rate, lambda x: x - rate, (x,))  # noqa: E731
    return cond(x.sum() > rate, inner, lambda x: x / rate, (x,)) * rate


def scaled_by_data(cond, x, rate):
    largest, count = x.detach().abs().max().item(), (x.detach() > rate).sum().item()
    return cond(x.sum() > 0, lambda x: x * largest + rate, lambda x: x.sin() * count, (x,))


def made_of_the_number(cond, x, rate):
    return cond(
        x.sum() > 0, lambda x: x + torch.full((3, 4), rate), lambda x: x * (rate * 2 - 1), (x,)
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rates", [(0.5, 1.5, 2.25, -0.75), (2, 3, 5, -7)], ids=["float", "int"])
@pytest.mark.parametrize(
    "function", [scaled, scaled_within_branches, scaled_by_data, made_of_the_number]
)
def test_numbers_that_vary_are_read_in_branches(function, rates, backend):
    """A number of the caller's was compiled anew for each value, or broke the graph."""

    def plain(condition, when_true, when_false, operands):
        return (when_true if condition else when_false)(*operands)

    compiled = minitorch2.compile(
        lambda x, rate: function(torch.cond, x, rate), backend=backend, fullgraph=True
    )
    with stages.collect() as log:
        for rate in rates:
            for x, _ in positive_and_negative(None):
                expected = gradients(lambda x, rate=rate: function(plain, x, rate), (x,))
                torch.testing.assert_close(gradients(compiled, (x, rate)), expected)
    assert (log.counts["graphs"], log.counts["reruns"]) == (2, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_vary_are_read_in_loops(backend):
    def f(x, rate, limit):
        total, rows = scan(lambda c, row: (c + row * rate, c * 2), x[0], x)
        (y,) = while_loop(lambda y: y.sum() < limit, lambda y: (y * 2 + rate,), (x.abs(),))
        return total, rows, y

    def plain(x, rate, limit):
        total, rows, y = x[0], [], x.abs()
        for row in x:
            rows.append(total * 2)
            total = total + row * rate
        while y.sum() < limit:
            y = y * 2 + rate
        return total, torch.stack(rows), y.clone()

    compiled = minitorch2.compile(f, backend=backend, fullgraph=True)
    with stages.collect() as log:
        for rate, limit in ((0.5, 10.0), (1.5, 20.0), (0.25, 5.0), (2.5, 100.0)):
            x = torch.rand(3, 4, requires_grad=True)
            expected = gradients(lambda x, a=rate, b=limit: plain(x, a, b), (x,))
            torch.testing.assert_close(gradients(compiled, (x, rate, limit)), expected)
    assert log.counts["graphs"] == 2


def test_a_number_is_a_size_in_a_branch():
    """A size that varies in a branch alone breaks the graph: a tensor holds no size."""

    def f(x, n):
        return torch.cond(x.sum() > 0, lambda: torch.ones(n), lambda: torch.zeros(n))

    compiled = minitorch2.compile(f, backend="eager")
    for n in (2, 3, 4):
        assert torch.equal(compiled(torch.ones(2), n), torch.ones(n))
        assert torch.equal(compiled(-torch.ones(2), n), torch.zeros(n))


def whole_quarters(x):
    return x[:, : x.shape[1] // 4 * 4] * 2


def branch_on_quarters(x):
    y = whole_quarters(x)
    return torch.cond(y.sum() > 0, torch.sin, lambda y: y - 1, (y,))


def loop_on_quarters(x):
    carried = torch.tensor(0), whole_quarters(x)
    return while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y * 2), carried)[1]


def scan_of_quarters(x):
    rows = whole_quarters(x)
    return scan(lambda c, y: (c + y, c * y), torch.zeros_like(rows[0]), rows)[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [branch_on_quarters, loop_on_quarters, scan_of_quarters])
def test_inputs_of_graphs_whose_sizes_are_computed(function, backend):
    """No input of the graphs told the number that their size is computed of."""
    is_differentiable = function is not loop_on_quarters
    examples = [(torch.randn(3, n).requires_grad_(is_differentiable),) for n in (9, 13, 16)]
    with stages.collect() as log:
        agrees(function, function, *examples, backend=backend, dynamic=True)
    assert log.counts["graphs"] <= 2, "the first call of a process imports what is guarded"
    assert not log.counts["backend_failures"]
