"""What rules must leave alone, spellings that are one, and passes that are limited or left out."""

import math
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minitorch2
from minitorch2 import config, stages
from minitorch2.errors import ConfigError, TraceError, VerificationError
from minitorch2.explorer.bisection.rewrites import first_wrong_rewrite
from minitorch2.graph import Graph, GraphModule, to_fake
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.passes import eliminate_dead_code, fuse_attention
from minitorch2.graph.patterns import FAMILIES, make_rule, rule
from minitorch2.graph.pipeline import PIPELINE, register_pass
from minitorch2.graph.rewriting import PASSES, Pass, Rewrite
from minitorch2.graph.symbolic_trace import symbolic_trace
from minitorch2.graph.verify import verify

Q, K, V = (torch.randn(2, 3, 6, 8) for _ in range(3))
MASK = torch.randn(6, 6)


def fused(function: Callable[..., Any], *inputs: Tensor) -> int:
    """How often attention was fused when the function was compiled; results are eager's."""
    minitorch2.reset()
    with stages.collect() as log:
        compiled = minitorch2.compile(function, backend="aot_eager")
        torch.manual_seed(0)
        found = compiled(*inputs)
    torch.manual_seed(0)
    torch.testing.assert_close(found, function(*inputs), rtol=1e-4, atol=1e-5)
    return sum(text.count("scaled_dot_product") for text in log.texts("rewrites.txt"))


SPELLINGS: dict[str, Callable[..., Tensor]] = {
    "operators": lambda q, k, v: (q @ k.mT * 0.5).softmax(-1) @ v,
    "functions": lambda q, k, v: torch.matmul(
        torch.softmax(torch.mul(0.5, torch.matmul(q, torch.transpose(k, -1, -2))), 3), v
    ),
    "permute": lambda q, k, v: F.softmax(q.matmul(k.permute(0, 1, 3, 2)) / 2, dim=-1).matmul(v),
    "swapaxes": lambda q, k, v: torch.nn.Softmax(dim=-1)(q @ k.swapaxes(3, 2) / 2.0) @ v,
    "query": lambda q, k, v: torch.softmax((q / 2) @ k.transpose(2, 3), dim=3) @ v,
    "evaluation": lambda q, k, v: F.dropout((q @ k.mT).softmax(-1), 0.5, False) @ v,
    "tensor": lambda q, k, v: (q @ k.mT / torch.full([], 2.0)).softmax(-1) @ v,
    "mask": lambda q, k, v: (MASK + q @ k.mT * 0.5).softmax(-1) @ v,
    "causal": lambda q, k, v: (
        (q @ k.mT).masked_fill(torch.ones(6, 6).tril() == 0, float("-inf")).softmax(-1) @ v
    ),
    "where": lambda q, k, v: (
        torch.where(torch.ones(6, 6).tril() > 0, q @ k.mT, torch.finfo(q.dtype).min).softmax(-1) @ v
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_of_attention(name):
    assert fused(SPELLINGS[name], Q, K, V) == 1


def weights_are_read(q, k, v):
    weights = (q @ k.mT).softmax(-1)
    return weights @ v, weights


def writes_between(q, k, v):
    scores = q.clone() @ k.mT
    k.add_(1)
    return scores.softmax(-1) @ v


LEFT_ALONE: dict[str, Callable[..., Any]] = {
    "weights are read": weights_are_read,
    "dropout": lambda q, k, v: F.dropout((q @ k.mT).softmax(-1), 0.5) @ v,
    "other dimension": lambda q, k, v: (q @ k.mT).softmax(-2) @ v,
    "truth values are added": lambda q, k, v: (q @ k.mT + (MASK > 0)).softmax(-1) @ v,
    "weak mask": lambda q, k, v: (q @ k.mT).masked_fill(MASK > 0, -1e4).softmax(-1) @ v,
    "one head of keys": lambda q, k, v: (q @ k[:, :1].mT).softmax(-1) @ v,
    "three dimensions": lambda q, k, v: (q[0] @ k[0].mT).softmax(-1) @ v[0],
    "another product": lambda q, k, v: (q @ k.mT * MASK).softmax(-1) @ v,
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_attention_that_stays(name):
    assert fused(LEFT_ALONE[name], Q, K, V) == 0


def test_a_write_between_stops_a_rewrite():
    inputs = [torch.randn(2, 3, 6, 8) for _ in range(3)]
    expected = writes_between(*(x.clone() for x in inputs))
    found = minitorch2.compile(writes_between, backend="aot_eager")(*(x.clone() for x in inputs))
    torch.testing.assert_close(found, expected)


def test_gradients_of_gradients_of_fused_attention():
    """The fused operator has no second derivative; the program as captured has."""
    q = Q.double().requires_grad_()

    def penalty(function):
        (gradient,) = torch.autograd.grad(function(q, K.double(), V.double()).sum(), q,
                                          create_graph=True)  # fmt: skip
        return torch.autograd.grad(gradient.square().sum(), q)[0]

    function = SPELLINGS["operators"]
    torch.testing.assert_close(penalty(minitorch2.compile(function)), penalty(function))


# Passes by name -----------------------------------------------------------------------------------


def twice(q, k, v):
    return SPELLINGS["operators"](SPELLINGS["operators"](q, k, v), k, v)


@pytest.mark.parametrize(("device", "dtype", "rows", "grad", "is_left"), [
    ("cuda", torch.float16, 64, False, True),
    ("cuda", torch.float16, 64, True, False),  # the operator has a gradient that stores no weights
    ("cuda", torch.float32, 64, False, False),
    ("cuda", torch.float16, 1, False, False),  # a token at a time
    ("cpu", torch.float16, 64, False, False),
])  # fmt: skip
def test_masks_are_left_to_one_kernel_on_a_gpu(device, dtype, rows, grad, is_left):
    q, k, v = (
        FakeTensor(
            torch.empty(2, 3, n, 8, dtype=dtype, device="meta"), torch.device(device)
        ).requires_grad_(grad)
        for n in (rows, 64, 64)
    )
    rules = {rule.law: rule for rule in FAMILIES["fuse_attention"]}
    for mask, value in (("({}).masked_fill(mask, -inf)", -math.inf), ("{}", None)):
        written = f"softmax({mask.format('q @ k.mT')}) @ v"
        (found,) = (rule for law, rule in rules.items() if law.startswith(f"{written} -->"))
        applies = found.condition(q=q, k=k, v=v, mask=None, value=value)
        assert applies == (value is None or not is_left)


def test_a_pass_is_left_out_by_name():
    with config.patch(disabled_passes=["fuse_attention"]):
        assert fused(twice, Q, K, V) == 0
    assert fused(twice, Q, K, V) == 2


def test_options_of_compile_name_passes():
    with stages.collect() as log:
        options = {"disabled_passes": ["fuse_attention"], "pass_limits": ["simplify_views=1"]}
        minitorch2.compile(twice, options=options)(Q, K, V)
    written = [text.splitlines() for text in log.texts("rewrites.txt")]
    assert {lines[0]: len(lines) - 1 for lines in written}["simplify_views"] == 1
    assert "fuse_attention" not in [lines[0] for lines in written]


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_a_pass_stops_after_n_rewrites(limit):
    with config.patch(pass_limits=(f"fuse_attention={limit}",)):
        assert fused(twice, Q, K, V) == min(limit, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"disabled_passes": ("fuse_atention",)}, "did you mean 'fuse_attention'"),
        ({"pass_limits": ("nothing=1",)}, "there is no pass 'nothing'"),
        ({"pass_limits": ("fuse_attention",)}, "entries like"),
    ],
)
def test_options_that_name_no_pass(options, message):
    with config.patch(**options), pytest.raises(ConfigError, match=message):
        eliminate_dead_code(symbolic_trace(lambda x: x))


def test_passes_of_the_environment():
    found = config.from_environment(
        {"MINITORCH2_DISABLED_PASSES": "fold_constants, simplify_views"}
    )
    assert found.disabled_passes == ("fold_constants", "simplify_views")


def test_each_rewrite_names_its_law_and_line():
    with stages.collect() as log:
        minitorch2.compile(lambda x: x.neg().neg() + 1, backend="aot_eager")(torch.ones(2))
    (text,) = [t for t in log.texts("rewrites.txt") if t.startswith("simplify_algebra")]
    assert "double_negation: -(-x) --> x" in text
    assert "test_rewriting.py" in text and "x.neg().neg() + 1" in text
    assert log.counts["rewrites"] >= 1


@pytest.mark.parametrize("place", ["pre_grad", "joint", "post_grad"])
def test_passes_of_the_user(place):
    seen: list[int] = []

    def watch(module):
        seen.append(len(module.graph))
        yield from ()

    added = register_pass(place)(watch)
    try:
        x = torch.ones(2, requires_grad=True)
        minitorch2.compile(lambda x: x.sin().sin(), backend="aot_eager")(x).sum().backward()
    finally:
        PIPELINE[place].remove(added)
        del PASSES["watch"]
    assert len(seen) == {"pre_grad": 1, "joint": 1, "post_grad": 2}[place]


def test_the_wrong_rewrite_is_found():
    """A rule that is wrong for one of three products."""

    @rule("simplify_algebra", when=lambda x, number: number > 4)
    def wrong(x: Tensor, number: float) -> tuple[Tensor, Tensor]:
        """``x * large --> x``"""
        return x * number, x

    def program(x):
        y = (x * 1.0).sin() * 2.0
        z = (y * 5.0).sin()
        return z.neg().neg() + 1

    def is_right():
        minitorch2.reset()
        x = torch.ones(2)
        return torch.allclose(minitorch2.compile(program, backend="aot_eager")(x), program(x))

    try:
        found = first_wrong_rewrite(is_right)
    finally:
        FAMILIES["simplify_algebra"].remove(wrong)
    assert found is not None and (found.name, found.number) == ("simplify_algebra", 2)
    (rewrite,) = found.rewrites
    assert "wrong: x * large --> x" in rewrite and "z = (y * 5.0).sin()" in rewrite
    assert first_wrong_rewrite(is_right) is None


def test_an_unknown_place():
    with pytest.raises(ConfigError, match="there is no place 'late'"):
        register_pass("late")


def test_a_pass_that_breaks_the_graph_is_found():
    def break_it(module):
        node = module.graph.output_node
        yield Rewrite("nonsense", node)
        node.name = "not a name"

    try:
        with config.patch(verify=True), pytest.raises(VerificationError):
            Pass(break_it)(symbolic_trace(lambda x: x + 1))
    finally:
        del PASSES["break_it"]


# Rules of one's own -------------------------------------------------------------------------------


def test_a_rule_of_ones_own():
    @rule("simplify_algebra")
    def inverse_functions(x: Tensor) -> tuple[Tensor, Tensor]:
        """``tan(atan(x)) --> x``"""
        return torch.tan(torch.atan(x)), x

    try:
        with stages.collect() as log:
            function = minitorch2.compile(lambda x: torch.atan(x).tan().exp(), backend="aot_eager")
            function(torch.ones(2))
        assert "aten.atan" not in log.texts("aten graph.py")[0]
    finally:
        FAMILIES["simplify_algebra"].remove(inverse_functions)


def test_a_rule_that_depends_on_values_is_refused():
    def sides(x: Tensor) -> tuple[Any, Any]:
        return (x if x.sum() > 0 else -x), x

    with pytest.raises(TraceError, match="branches"):
        _ = make_rule(sides).before


# Proxies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.view(x.shape[0], -1), "reads .shape"),
        (lambda x: x.size(0), "reads .size"),
        (lambda x: x.item() + 1, "reads .item"),
        (lambda x: x if x.sum() > 0 else -x, "branches"),
        (lambda x: [y for y in x], "iterates"),  # noqa: C416
        (lambda x: x[: len(x)], "asks for len"),
        (lambda x: float(x), "makes a float"),
        (lambda x: range(x), "makes an integer"),
        (lambda x: 1 in x, "asks what is in"),
        (lambda x: x.to(x.dtype), "reads .dtype"),
        (lambda x: {f"{x}": x}, "makes a text"),
        (lambda x: {str(x): x}, "makes a text"),
        (lambda *xs: xs[0], r"any number of arguments, as \*xs"),
        (lambda **xs: xs["x"], "any number of arguments"),
    ],
)
def test_a_trace_refuses_what_a_proxy_cannot_know(function, message):
    with pytest.raises(TraceError, match=message):
        symbolic_trace(function)


def test_a_trace_runs_as_the_function():
    def function(x, y):
        z = torch.cat([x, 2 - y], dim=-1).relu()[..., 1:]
        return torch.add(z, 1) ** 2, -z.mT @ z, (z.add(3) < 1) | ~(z > 1), abs(z)

    inputs = torch.randn(3, 4), torch.randn(3, 4)
    module = symbolic_trace(function)
    torch.testing.assert_close(module(*inputs), function(*inputs), rtol=0, atol=0)


def test_a_trace_records_aten_overloads():
    module = symbolic_trace(lambda x: torch.ops.aten.sin.default(x))
    assert [node.target for node in module.graph.nodes][1] is torch.ops.aten.sin.default


def test_a_fused_value_has_the_strides_of_the_old_one():
    graph = Graph()
    q, k, v = (graph.placeholder(name) for name in "qkv")
    for node, value in zip((q, k, v), (Q, K, V), strict=True):
        # as attention layers hold them: heads inside, contiguous outside
        node.meta["val"] = to_fake(value.transpose(1, 2).contiguous().transpose(1, 2))
    keys = graph.call_method("transpose", (k, -1, -2))
    keys.meta["val"] = k.meta["val"].mT
    scores = graph.call_function(operator.matmul, (q, keys))
    scores.meta["val"] = q.meta["val"] @ keys.meta["val"]
    weights = graph.call_method("softmax", (scores, -1))
    weights.meta["val"] = scores.meta["val"].softmax(-1)
    result = graph.call_function(operator.matmul, (weights, v))
    result.meta["val"] = weights.meta["val"] @ v.meta["val"]
    graph.output((result,))
    module = GraphModule(graph)
    expected = module(Q, K, V)[0]
    assert fuse_attention(module)
    assert module(Q, K, V)[0].stride() == expected.stride()


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = torch.nn.Linear(4, 4)
        self.blocks = torch.nn.ModuleList([torch.nn.BatchNorm1d(4).eval(), torch.nn.GELU()])
        self.scale = torch.nn.Parameter(torch.ones(4))

    def forward(self, x, *, times=2.0, flag=False):
        for block in self.blocks:
            x = block(x)
        return self.graph(x) * self.scale * (3.0 if flag else times) + OFFSET


OFFSET = torch.ones(4)


@pytest.mark.parametrize(
    ("traced", "opcodes"),
    [
        (torch.nn.Linear(4, 4), {"get_attr": 2, "call_function": 1}),
        (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), {"call_module": 2}),
        (Classifier(), {"call_module": 3, "get_attr": 2, "call_function": 3}),
        (lambda x, times=3: x * times, {"call_function": 1}),
    ],
)
def test_a_trace_of_a_module_names_its_tensors(traced, opcodes):
    """A module was a TypeError; a parameter with a default became an input."""
    module, x = symbolic_trace(traced), torch.randn(2, 4)
    verify(module)
    assert len(module.graph.placeholders) == 1
    assert Counter(node.op for node in module.graph.nodes) == {
        "placeholder": 1, "output": 1, **opcodes,
    }  # fmt: skip
    torch.testing.assert_close(module(x)[0], traced(x))


def test_a_pass_is_given_a_graph_that_is_right():
    module = symbolic_trace(lambda x: x + 1)
    module.graph.nodes[1].users.clear()
    with config.patch(verify=True), pytest.raises(VerificationError, match="users are"):
        eliminate_dead_code(module)


def test_each_family_of_rules_is_applied_by_the_pass_of_its_name():
    assert FAMILIES.keys() <= PASSES.keys()
