"""The compiled autograd function: laziness, memory, layouts, second derivatives, structure of
results.
"""

import contextlib
import gc
import weakref
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import minitorch2
from minitorch2 import stages
from minitorch2.autograd import aot_autograd
from minitorch2.autograd.runtime import run_as_it_is
from minitorch2.errors import BackendError
from minitorch2.graph import Graph, GraphModule
from tests.unit.autograd.programs import compiled, graph_of


def leaf(*size: int) -> torch.Tensor:
    return torch.randn(*size, requires_grad=True)


class Counting:
    """A compiler that counts what it compiles."""

    def __init__(self) -> None:
        self.graphs: list[GraphModule] = []

    def __call__(self, gm: GraphModule, example_inputs: Any) -> Any:
        self.graphs.append(gm)
        return run_as_it_is(gm, example_inputs)


def test_backward_is_compiled_on_first_use_and_once() -> None:
    forward, backward, inference = Counting(), Counting(), Counting()
    x = leaf(3)
    run = compiled(
        lambda x: (x.sin(),), [x],
        forward_compiler=forward, backward_compiler=backward, inference_compiler=inference,
    )  # fmt: skip
    run(x)
    assert (len(forward.graphs), len(backward.graphs), len(inference.graphs)) == (1, 0, 0)
    for _ in range(2):
        run(x)[0].sum().backward()
    assert len(backward.graphs) == 1
    with torch.no_grad():
        compiled(lambda x: (x.sin(),), [x], forward_compiler=forward, inference_compiler=inference)
    assert len(inference.graphs) == 1 and len(forward.graphs) == 1


def test_late_backward_reports_to_the_log_of_its_compilation() -> None:
    def compiler(gm: GraphModule, example_inputs: Any) -> Any:
        stages.count("compilations")
        return run_as_it_is(gm, example_inputs)

    x = leaf(3)
    with stages.collect() as log:
        run = compiled(lambda x: (x.sin(),), [x], forward_compiler=compiler)
    run(x)[0].sum().backward()
    assert log.counts["compilations"] == 2
    assert [s.name for s in log.stages] == [
        "joint graph.py",
        "forward graph.py",
        "backward graph.py",
        "cut.dot",
    ]
    assert set(log.seconds) >= {"joint", "partition"}


def test_no_autograd_function_without_gradients() -> None:
    x = torch.randn(3)
    assert compiled(lambda x: (x.sin(),), [x])(x)[0].grad_fn is None


@pytest.mark.parametrize("expanded", [True, False])
def test_tangents_of_any_layout(expanded: bool) -> None:
    x = leaf(3, 4)
    run = compiled(lambda x: (x.sin(),), [x])
    tangent = torch.tensor(2.0).expand(3, 4) if expanded else torch.randn(4, 3).t()
    (got,) = torch.autograd.grad(run(x)[0], x, tangent)
    torch.testing.assert_close(got, x.cos() * tangent)


def test_only_some_outputs_get_gradients() -> None:
    x = leaf(3)
    a, b = compiled(lambda x: (x.sin(), x.cos()), [x])(x)
    (got,) = torch.autograd.grad(b.sum(), x)
    torch.testing.assert_close(got, -x.sin())
    assert a.requires_grad


def test_integer_outputs_are_not_differentiable() -> None:
    x = leaf(3, 4)
    value, index = compiled(lambda x: tuple(x.max(1)), [x])(x)
    assert value.requires_grad and not index.requires_grad


def test_backward_twice_needs_retain_graph() -> None:
    x = leaf(3)
    run = compiled(lambda x: (x.sin(),), [x])
    y = run(x)[0].sum()
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 2 * x.cos())
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def orders(function: Any, inputs: list[torch.Tensor], most: int = 3) -> list[torch.Tensor]:
    """All gradients of the results, then all gradients of those, and so on."""
    torch.manual_seed(3)
    values, found = [v for v in function(*inputs) if v.requires_grad], []
    for _ in range(most):
        loss = sum((v.sin() * torch.arange(1.0, v.numel() + 1).view(v.shape)).sum() for v in values)
        if not loss.requires_grad:
            break
        wanted = [x for x in inputs if x.requires_grad]
        grads = torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
        values = [g for g in grads if g is not None and g.requires_grad]
        found += [torch.zeros(()) if g is None else g for g in grads]
    return found


class ScaledSquare(torch.autograd.Function):
    """Its derivative is not the one of what it computes."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 3 * ctx.saved_tensors[0] ** 2


def without_grad_inside(x: torch.Tensor) -> Any:
    with torch.no_grad():
        scale = x.exp()
    return (x * scale, x.detach() * x.sin())


TWICE: dict[str, Any] = {
    "pointwise": (lambda x: (x.sin() * x,), 1),
    "matrix": (lambda x, w: (torch.tanh(x @ w),), 2),
    "detach_and_no_grad": (without_grad_inside, 1),
    "own_function": (lambda x: (ScaledSquare.apply(x),), 1),
    "dropout": (lambda x: (torch.nn.functional.dropout(x * x),), 1),
    "views_of_a_hidden_base": (lambda x: (lambda y: (y[0], y[1:]))(x**3), 1),
    "writes": (lambda x: ((x * 2).add_(x).mul_(3) * x,), 1),
}


@pytest.mark.parametrize("name", TWICE)
def test_derivatives_of_any_order(name: str) -> None:
    program, count = TWICE[name]
    inputs = [torch.randn(3, 3, dtype=torch.double, requires_grad=True) for _ in range(count)]
    torch.manual_seed(3)
    run = compiled(program, inputs)
    for got, expected in zip(orders(run, inputs), orders(program, inputs), strict=True):
        torch.testing.assert_close(got, expected)


def test_a_second_derivative_through_one_input_of_two() -> None:
    a = torch.randn(3, dtype=torch.double, requires_grad=True)
    run = compiled(lambda a, b: (a * b * b,), [a, a.sin()])
    for got, expected in zip(
        orders(lambda a: run(a, a.sin()), [a]),
        orders(lambda a: (a * a.sin() ** 2,), [a]),
        strict=True,
    ):
        torch.testing.assert_close(got, expected)


def test_a_second_derivative_with_running_statistics() -> None:
    x, mean, variance = leaf(4, 3), torch.zeros(3), torch.ones(3)
    norm = torch.nn.functional.batch_norm
    run = compiled(lambda x, m, v: (norm(x, m, v, training=True) ** 3,), [x, mean, variance])
    given = orders(lambda x: run(x, mean, variance), [x], most=2)
    kept = mean.clone()
    expected = orders(lambda x: (norm(x, None, None, training=True) ** 3,), [x], most=2)
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(kept, 0.1 * x.detach().mean(0))  # written once


def test_a_second_derivative_of_a_written_input_is_a_clear_error() -> None:
    x, counter = leaf(3), torch.zeros(3)
    run = compiled(lambda x, n: (x.sin() * n.add_(1),), [x, counter])
    (first,) = torch.autograd.grad(run(x, counter)[0].sum(), x, create_graph=True)
    torch.testing.assert_close(first, x.cos())
    with pytest.raises(BackendError) as found:
        first.sum().backward()
    assert found.value.code == "double-backward" and found.value.fix


def test_a_saved_input_that_was_changed_is_noticed() -> None:
    x = leaf(3)
    y = x * 1
    (out,) = compiled(lambda y: (y.sin(),), [x * 1])(y)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_arguments_are_freed_during_backward() -> None:
    """The boxed convention: backward's callee holds the only references to what was saved."""
    alive: list[int] = []

    def compiler(gm: GraphModule, example_inputs: Any) -> Any:
        run = run_as_it_is(gm, example_inputs)

        def call(arguments: list[Any]) -> list[Any]:
            watched = [weakref.ref(a) for a in arguments if isinstance(a, torch.Tensor)]
            result = run(arguments)
            gc.collect()
            alive.append(sum(ref() is not None for ref in watched))
            return result

        return call

    x = leaf(50)
    run = compiled(
        lambda x: (torch.softmax(x, 0),),
        [x],
        forward_compiler=run_as_it_is,
        backward_compiler=compiler,
    )
    run(x)[0].sum().backward()
    assert alive == [0] or alive[0] <= 1  # autograd itself may hold the tangent


def test_the_structure_of_results_is_kept() -> None:
    x = torch.ones(2)
    program = lambda x: {"a": x + 1, "b": [x * 2, None, (3,)]}  # noqa: E731
    result = compiled(program, [x])(x)
    assert torch.equal(result["b"][0], x * 2) and result["b"][1:] == [None, (3,)]


def test_wrong_number_of_examples() -> None:
    graph = Graph()
    graph.output((graph.placeholder("x"),))
    with pytest.raises(TypeError, match="1 inputs"):
        aot_autograd(GraphModule(graph), [], forward_compiler=run_as_it_is)


def test_numbers_among_the_inputs() -> None:
    x = leaf(3)
    run = aot_autograd(graph_of(lambda x, n: (x * n,), 2), [x, 3], forward_compiler=run_as_it_is)
    run(x, 3)[0].sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 3.0))


def test_a_tensor_that_outlived_its_functorch_transform() -> None:
    leaked: list[torch.Tensor] = []

    def leak(x: torch.Tensor) -> torch.Tensor:
        leaked.append(x)
        return x.sum()

    torch.func.grad(leak)(torch.ones(3))
    weight = torch.full((3,), 2.0, requires_grad=True)
    program = minitorch2.compile(lambda a, b: (a * b).sin() * b)
    for _ in range(2):
        result = program(leaked[0], weight)
        torch.testing.assert_close(result, weight.sin() * weight)
        result.sum().backward()


def test_an_input_that_no_output_depends_on_has_no_edge() -> None:
    """The history of `seen` is used up: to run it again, even for no gradient, would raise."""

    @minitorch2.compile(backend="aot_eager")
    def step(seen: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return seen.detach() + (weight * 2).sum()

    weight = torch.ones(3, requires_grad=True)
    seen = weight.exp().sum()
    seen.backward()
    weight.grad = None
    step(seen, weight).backward()
    assert torch.equal(weight.grad, torch.full((3,), 2.0))


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
def test_what_only_unused_outputs_depend_on_has_no_gradient(backend):
    """An optimizer leaves such parameters alone; zeros would decay them."""

    def two(x, used, unused):
        shared = x * used
        return shared.sin(), (shared * unused).cos()

    gradients = []
    for run in (two, minitorch2.compile(two, backend=backend)):
        leaves = [torch.full((3,), 0.5, requires_grad=True) for _ in range(3)]
        run(*leaves)[0].sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
        second = [torch.full((3,), 0.5, requires_grad=True) for _ in range(3)]
        (gradient,) = torch.autograd.grad(run(*second)[0].sum(), second[0], create_graph=True)
        gradient.sum().backward()
        gradients[-1] += [leaf.grad for leaf in second]
    assert gradients[1][2] is None
    torch.testing.assert_close(*gradients)


def heights(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x @ w).exp().sin()  # the product is kept, and backward is of its size


KEPT: dict[str, tuple[Any, Any]] = {
    "identity": (lambda t: t, lambda t: t),
    "alias": (lambda t: t.detach(), lambda t: t),
    "packed": (lambda t: t.numpy().copy(), torch.from_numpy),
}


def test_backward_writes_to_what_was_kept_for_it_alone() -> None:
    x, w = leaf(8, 8), leaf(8, 8)
    with stages.collect() as log:
        minitorch2.compile(heights)(x, w).sum().backward()
    backward = log.texts("wrapper.py")[-1]
    assert "= arg2; del arg2  # in place" in backward
    expected = torch.autograd.grad(heights(x, w).sum(), [x, w])
    torch.testing.assert_close([x.grad, w.grad], [*expected])


def test_a_kept_graph_runs_backward_again() -> None:
    x, w = leaf(8, 8), leaf(8, 8)
    result = minitorch2.compile(heights)(x, w).sum()
    gradients = [torch.autograd.grad(result, [x, w], retain_graph=True) for _ in range(3)]
    for each in gradients:
        torch.testing.assert_close(each, torch.autograd.grad(heights(x, w).sum(), [x, w]))


@pytest.mark.parametrize("name", KEPT)
def test_what_hooks_on_saved_tensors_hold_stays(name: str) -> None:
    pack, unpack = KEPT[name]
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def noting(tensor: torch.Tensor) -> Any:
        seen.append((tensor.detach(), tensor.detach().clone()))
        return pack(seen[-1][0])

    noting.__module__ = "torch.autograd.graph"  # hooks of PyTorch's own see the compiled graph's
    x, w = leaf(8, 8), leaf(8, 8)
    fast = minitorch2.compile(heights)
    with torch.autograd.graph.saved_tensors_hooks(noting, unpack):
        result = fast(x, w)
    given = torch.autograd.grad(result.sum(), [x, w])
    torch.testing.assert_close(given, torch.autograd.grad(heights(x, w).sum(), [x, w]))
    assert seen
    assert all(torch.equal(tensor, copy) for tensor, copy in seen)


LOSSY: dict[str, tuple[Any, Any]] = {
    "half": (lambda t: t.half(), lambda t: t.float()),
    "rounded": (lambda t: torch.round(t * 4) / 4, lambda t: t),
    "zeros": (torch.zeros_like, lambda t: t),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", LOSSY)
def test_hooks_that_change_saved_tensors_change_those_that_eager_saves(
    name: str, dynamic: bool
) -> None:
    """The hooks changed other tensors: those that the compiled graph saves."""
    fast, shapes = minitorch2.compile(heights, dynamic=dynamic), list[list[torch.Size]]()

    def noting(tensor: torch.Tensor) -> Any:
        shapes[-1].append(tensor.shape)
        return LOSSY[name][0](tensor)

    def outcome(call: Any, *, is_hooked: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        x, w = leaf(8, 8), leaf(8, 8)
        hooks = torch.autograd.graph.saved_tensors_hooks(noting, LOSSY[name][1])
        shapes.append([])
        with hooks if is_hooked else contextlib.nullcontext():
            result = call(x, w)
        return [result.detach(), *torch.autograd.grad(result.sum(), [x, w])]

    with stages.collect() as log:
        for is_hooked in (True, False, True):
            wanted, given = (outcome(call, is_hooked=is_hooked) for call in (heights, fast))
            torch.testing.assert_close(given, wanted)
            assert shapes[-1] == shapes[-2]
    assert log.counts["graphs"] == 1


def test_saved_tensors_that_someone_asked_for_stay() -> None:
    x, w = leaf(8, 8), leaf(8, 8)
    result = minitorch2.compile(heights)(x, w)
    saved = [t for t in result.grad_fn.saved_tensors if t is not None]
    before = [t.clone() for t in saved]
    result.sum().backward()
    assert all(map(torch.equal, saved, before))


def test_a_compiled_function_inside_of_a_checkpoint() -> None:
    x, w = leaf(8, 8), leaf(8, 8)
    fast = minitorch2.compile(heights)
    for _ in range(2):
        result = checkpoint(fast, x, w, use_reentrant=False)
        given = torch.autograd.grad(result.sum(), [x, w])
        torch.testing.assert_close(given, torch.autograd.grad(heights(x, w).sum(), [x, w]))


def test_a_batch_of_gradients() -> None:
    x, w = leaf(3, 3), leaf(3, 3)
    result = minitorch2.compile(heights)(x, w)[0]
    given = torch.autograd.grad(result, [x, w], torch.eye(3), is_grads_batched=True)
    expected = [torch.autograd.functional.jacobian(lambda x, w: heights(x, w)[0], (x, w))]
    torch.testing.assert_close(given, *expected)


def test_outputs_without_a_gradient_get_no_zeros() -> None:
    """Statistics of a batch norm are outputs of the graph; autograd made zeros for each of them."""
    norm = torch.nn.BatchNorm1d(4)
    fast = minitorch2.compile(norm, backend="aot_eager")
    result = fast(torch.randn(8, 4, requires_grad=True))
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        result.sum().backward()
    counts = {event.key: event.count for event in profiler.key_averages()}
    assert counts.get("aten::zeros", 0) < 3  # there are three statistics
    assert norm.num_batches_tracked == 1 and norm.running_mean.abs().sum() > 0


VIEWS = {
    "column": lambda a: (a * 2)[:, 0],
    "row": lambda a: a.sin()[1],
    "transposed": lambda a: (a * 2).t(),
    "of_a_product": lambda a: (a.t() @ a)[:, 1],
    "detached": lambda a: (a * 2).detach()[0],
    "written_column": lambda a: (a * 2)[:, 0].mul_(3),
    "written_diagonal": lambda a: (a * 2).diagonal().mul_(2),
    "written_through_two_views": lambda a: (a * 2)[2:, 0][::2].neg_(),
    "two_columns": lambda a: ((a * 2)[:, 0].mul_(a[0, 0]), (a * 3)[:, 1]),
    "copied_to": lambda a: torch.empty(20, 2)[:, 1].copy_(a[:, 0]),
    "base_and_view": lambda a: (lambda b: (b, b[:, 0].add_(1)))(a * 2),
}


@pytest.mark.parametrize("backend", ["numba", "aot_eager"])
@pytest.mark.parametrize("name", VIEWS)
def test_a_result_that_is_a_view_may_be_written(name: str, backend: str) -> None:
    """The caller divides logits by a temperature, or adds a residual in place."""
    a = leaf(20, 2)
    fast = minitorch2.compile(VIEWS[name], backend=backend, fullgraph=True)

    def written(program: Any) -> list[Any]:
        results = program(a)
        first = results[0] if isinstance(results, tuple) else results
        strides = [each.stride() for each in (results if isinstance(results, tuple) else [first])]
        first.mul_(a[1, 1])
        first += 1
        return [first.detach().clone(), strides, *torch.autograd.grad(first.square().sum(), a)]

    given, expected = written(fast), written(VIEWS[name])
    assert given[1] == expected[1]
    torch.testing.assert_close(given, expected)
    with torch.no_grad():
        torch.testing.assert_close(fast(a), VIEWS[name](a))


def test_a_write_to_a_view_of_what_backward_has_saved_is_found() -> None:
    fast = minitorch2.compile(lambda a: a.exp()[:, 0], backend="aot_eager")
    a = leaf(4, 2)
    result = fast(a)
    result.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
