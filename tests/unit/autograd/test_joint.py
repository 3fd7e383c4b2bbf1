"""The joint graph: the slides' example, provenance, no needless nodes, partial graphs, refusals."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from minitorch2.autograd import DECOMPOSITIONS, trace_program
from minitorch2.errors import UnsupportedError
from minitorch2.graph import DataDependentError, Graph, GraphModule, SourceLine
from minitorch2.graph.verify import verify
from tests.unit.autograd.programs import check, compiled, joint_of, operators


def leaf(*size: int) -> torch.Tensor:
    return torch.randn(*size, requires_grad=True)


def test_sin_of_sin_is_the_slides_graph_in_the_slides_order() -> None:
    joint = joint_of(lambda x: (x.sin().sin(),), [leaf(4)]).module
    assert joint.code.split("def ")[1] == (
        "forward(self, x, tangent_0):\n"
        "    sin = torch.ops.aten.sin.default(x)  # f32[4]\n"
        "    sin_1 = torch.ops.aten.sin.default(sin)  # f32[4]\n"
        "    cos = torch.ops.aten.cos.default(sin)  # f32[4]\n"
        "    mul = torch.ops.aten.mul.Tensor(tangent_0, cos)  # f32[4]\n"
        "    cos_1 = torch.ops.aten.cos.default(x)  # f32[4]\n"
        "    mul_1 = torch.ops.aten.mul.Tensor(mul, cos_1)  # f32[4]\n"
        "    return (sin_1, mul_1)\n"
    )


def test_backward_nodes_name_the_line_they_differentiate() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    y = graph.call_method("sin", (x,))
    z = graph.call_function(F.softmax, (y, -1))
    graph.output((z,))
    y.meta["source"], z.meta["source"] = SourceLine("f.py", 2, "y"), SourceLine("f.py", 3, "z")
    joint = trace_program(
        GraphModule(graph), [leaf(3, 4)], DECOMPOSITIONS, differentiate=True
    ).module
    lines = {n.name: n.meta["source"].line for n in joint.graph.nodes if n.op == "call_function"}
    assert lines["sin"] == 2 and lines["exp"] == 3 and lines["cos"] == 2
    assert set(lines.values()) == {2, 3}


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda x: (x.clone().detach().view(4).clone(),), ["clone"]),
        (lambda x: (x.view(2, 2).view(4).sin(),), ["sin"]),
        (lambda x: (x.to(torch.float32).expand(4).sin(),), ["sin"]),
        (lambda x: (x.view(2, 2).t().t().sin(), x.cos() * 0 if False else 1)[:1], ["view", "sin"]),
        (lambda x: ((x.exp(), x.sin())[1],), ["sin"]),
        (lambda x: (x.sin() + x.sin(),), ["sin", "add"]),
    ],
)
def test_nodes_that_only_rename_a_value_are_not_made(program: object, expected: list[str]) -> None:
    assert callable(program)
    assert operators(joint_of(program, [torch.randn(4)], differentiate=False).module) == expected


def test_every_node_has_a_detached_fake_value() -> None:
    joint = joint_of(lambda x: (F.gelu(x).sum(),), [leaf(4)]).module
    verify(joint)
    values = [n.meta["val"] for n in joint.graph.nodes if n.op != "output"]
    assert all(value.grad_fn is None and not value.requires_grad for value in values)


def test_no_gradient_for_what_needs_none() -> None:
    program = joint_of(lambda x, y: (x * y, y.sin()), [leaf(3), torch.randn(3)])
    assert program.tangent_outputs == (0,) and program.differentiable == (True, False)
    assert program.module.graph.output_node.args[0][3] is None


def test_grad_mode_off_traces_no_backward() -> None:
    x = leaf(3)
    with torch.no_grad():
        run = compiled(lambda x: (x.sin(),), [x])
        assert not run(x)[0].requires_grad
    run = compiled(lambda x: (x.detach().sin(),), [x])
    assert not run(x)[0].requires_grad


def test_the_programs_grad_mode_is_kept_and_does_not_leak() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor]:
        with torch.no_grad():
            y = x.sin()
        return (y * x,)

    check(program, [leaf(4)])
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.output((graph.call_function(torch.sin, (x,)),))
    trace_program(GraphModule(graph), [leaf(2)], DECOMPOSITIONS, differentiate=True)
    assert torch.is_grad_enabled()


def test_custom_autograd_functions_keep_their_backward() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x * 2

        @staticmethod
        def backward(ctx, g):  # type: ignore[no-untyped-def]
            return g * 100

    check(lambda x: (Doubled.apply(x).sin(),), [leaf(4)])


def test_autocast_casts_are_in_the_graph() -> None:
    x, w = leaf(3, 8), leaf(8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run = compiled(lambda x, w: (x @ w, (x @ w).float().softmax(-1)), [x, w])
        got, expected = run(x, w)[0], x @ w
        assert got.dtype == torch.bfloat16 and torch.equal(got, expected)
    got.sum().backward()
    assert w.grad is not None and w.grad.dtype == torch.float32


def test_a_tensor_written_in_the_program_is_a_constant() -> None:
    check(lambda x: (x * torch.tensor([1.0, 2.0, 3.0]),), [leaf(2, 3)])


def test_parameters_held_by_the_graph_get_gradients() -> None:
    linear, extra = torch.nn.Linear(3, 2), torch.nn.Parameter(torch.randn(2))
    graph = Graph()
    x = graph.placeholder("x")
    out = graph.call_module("linear", (x,))
    graph.output((graph.call_function(torch.mul, (out, graph.get_attr("extra"))),))
    from minitorch2.backends.aot_eager import aot_eager_decomp_partition

    module = GraphModule(graph, {"linear": linear, "extra": extra})
    x_value = torch.randn(4, 3)
    (result,) = aot_eager_decomp_partition(module, [x_value])(x_value)
    (linear(x_value) * extra).sum().backward()
    expected = [p.grad.clone() for p in (*linear.parameters(), extra)]  # type: ignore[union-attr]
    for p in (*linear.parameters(), extra):
        p.grad = None
    result.sum().backward()
    for p, e in zip((*linear.parameters(), extra), expected, strict=True):
        torch.testing.assert_close(p.grad, e)


def test_a_submodules_buffers_are_written_back() -> None:
    norm = torch.nn.BatchNorm1d(3)
    reference = torch.nn.BatchNorm1d(3)
    graph = Graph()
    graph.output((graph.call_module("norm", (graph.placeholder("x"),)),))
    from minitorch2.backends.aot_eager import aot_eager_decomp_partition

    x = torch.randn(5, 3)
    run = aot_eager_decomp_partition(GraphModule(graph, {"norm": norm}), [x])
    for _ in range(2):
        torch.testing.assert_close(run(x)[0], reference(x))
    for a, b in zip(norm.buffers(), reference.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_tracing_a_model_does_not_import_pytorchs_own_compiler() -> None:
    """Its import takes seconds; PyTorch's Python meta kernels and dispatch modes trigger it."""
    program = """
import sys, torch, torch.nn.functional as F
from minitorch2.graph import Graph, GraphModule
from minitorch2.autograd import DECOMPOSITIONS, trace_program
graph = Graph()
x, w, b = (graph.placeholder(n) for n in "xwb")
h = graph.call_function(F.linear, (x, w, b))
h = graph.call_function(F.layer_norm, (graph.call_function(F.gelu, (h,)), (8,)))
p = graph.call_method("split", (h, 4, 1))
graph.output((graph.call_function(torch.cat, (p, 1)), graph.call_function(F.softmax, (h, -1))))
values = [torch.randn(s, requires_grad=True) for s in ((3, 8), (8, 8), (8,))]
trace_program(GraphModule(graph), values, DECOMPOSITIONS, differentiate=True)
print([name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_data_dependence_is_an_error_with_a_reason() -> None:
    with pytest.raises(DataDependentError):
        joint_of(lambda x: (x[x > 0],), [leaf(4)])


def test_overlapping_inputs_that_are_written_are_refused() -> None:
    base = torch.zeros(4)
    with pytest.raises(UnsupportedError, match="shares memory"):
        compiled(lambda a, b: (a.add_(1), b * 2), [base, base[1:]])
