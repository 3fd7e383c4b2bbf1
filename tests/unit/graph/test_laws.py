"""The law of every rule: both sides on random tensors, and the rewrite on graphs.

Laws of algebra hold for every bit; those of attention and normalization up to rounding, in their
gradients too, since they are used before a graph is differentiated.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Annotated, Any, get_type_hints

import pytest
import torch
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher

from minitorch2.graph import GraphModule, ShapeEnv, to_fake
from minitorch2.graph.interpreter import Interpreter
from minitorch2.graph.patterns import FAMILIES, Rule, apply_rules
from minitorch2.graph.symbolic_trace import symbolic_trace
from minitorch2.graph.verify import verify

Values = dict[str, Any]
NUMBERS = (0, 1, 2, 0.0, -0.0, 1.0, 0.5)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
          torch.uint8, torch.bool)  # fmt: skip
SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan")]


def rules(family: str) -> list[Any]:
    return [pytest.param(rule, id=f"{rule.law}"[:90]) for rule in FAMILIES[family]]


def parameters(rule: Rule) -> dict[str, Any]:
    """The parameters that the left side reads, with their annotations."""
    hints = get_type_hints(rule.sides, include_extras=True)
    return {name: hints[name] for name, node in rule.parameters.items() if node.users}


# Algebra ------------------------------------------------------------------------------------------


def tensors(dtype: torch.dtype) -> Iterator[Tensor]:
    special = torch.tensor(SPECIAL).nan_to_num(3.0, 4.0, -4.0)
    yield torch.tensor(SPECIAL).to(dtype) if dtype.is_floating_point else special.to(dtype)
    yield torch.randn(2, 3).mul(5).to(dtype)
    yield torch.randn(3, 4).mul(5).to(dtype).t()
    yield torch.randn(()).to(dtype)
    yield torch.empty(0, 2).to(dtype)


def algebra_values(rule: Rule) -> Iterator[Values]:
    """Every choice of values for which the condition of the rule holds."""
    choices: dict[str, Any] = {
        name: {float: NUMBERS, torch.dtype: DTYPES}.get(kind)
        for name, kind in parameters(rule).items()
    }
    for dtype in DTYPES:
        for tensor in tensors(dtype):
            given = {"x": tensor, "condition": tensor > 0}
            sides = [choices[name] or [given[name]] for name in choices]
            for chosen in itertools.product(*sides):
                values = dict(zip(choices, chosen, strict=True))
                if rule.condition is None or rule.condition(**values):
                    yield values


def bits(value: Tensor) -> list[object]:
    """The elements, with signs of zeros told apart and NaN equal to NaN."""
    return [value.dtype, value.shape, *(str(element) for element in value.flatten().tolist())]


@pytest.mark.parametrize("rule", rules("simplify_algebra"))
def test_law_of_algebra(rule):
    checked = 0
    for values in algebra_values(rule):
        try:
            before, after = rule(**values)
        except (
            RuntimeError,
            TypeError,
        ):  # what eager refuses has no law: the negative of a truth value
            continue
        if (before.dtype, before.shape) == (after.dtype, after.shape):  # else it is not applied
            assert bits(before) == bits(after), values
            checked += 1
    assert checked >= 5


# Attention and normalization ----------------------------------------------------------------------


def attention_values(rule: Rule, dtype: torch.dtype, mask_shape: tuple[int, ...]) -> Values:
    q, k, v = (torch.randn(2, 3, n, 8, dtype=dtype) for n in (5, 7, 7))
    scale = 0.3 if "*" in rule.law else 3.0
    fills = "masked_fill" in rule.law or "where" in rule.law
    mask = torch.rand(mask_shape) < 0.5
    value = max(torch.finfo(dtype).min, torch.finfo(torch.float32).min)
    value = value if "value" in rule.law else float("-inf")
    if not fills:
        mask = torch.randn(mask_shape).masked_fill(mask, float("-inf")).to(dtype)
    values = {"q": q, "k": k, "v": v, "scale": scale, "mask": mask, "value": value, "dtype": dtype}
    return {name: values.get(name) for name in rule.parameters}


def normalization_values(rule: Rule) -> Values:
    rank = int(rule.name[4])
    values: Values = {
        "x": torch.randn(2, 4, *[6] * rank),
        "w": torch.randn(6, 2, *[3] * rank),
        "momentum": 0.1,
        "epsilon": 1e-3,
        "stride": 2,
        "padding": 1,
        "dilation": 1,
        "groups": 2,
        "variance": torch.rand(6) + 0.1,
    }
    return {name: values[name] if name in values else torch.randn(6) for name in rule.parameters}


def gradients(result: Tensor, inputs: list[Tensor], cotangent: Tensor) -> tuple[Any, ...]:
    return torch.autograd.grad(result, inputs, cotangent, allow_unused=True)


def check_up_to_rounding(rule: Rule, values: Values, tolerance: float) -> None:
    floats = [v for v in values.values() if isinstance(v, Tensor) and v.is_floating_point()]
    floats = [v for v in floats if v is not values.get("mask")]
    before, after = rule(**values)
    torch.testing.assert_close(after, before, rtol=tolerance, atol=tolerance, equal_nan=True)
    finite = [v.requires_grad_() for v in floats]
    before, after = rule(**values)
    kept = ~before.detach().isnan().any(-1, keepdim=True)  # rows without any weight have no law
    if not kept.all():
        return
    cotangent = torch.randn_like(before)
    expected = gradients(before, finite, cotangent)
    found = gradients(after, finite, cotangent)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


MASK_SHAPES = ((5, 7), (2, 1, 5, 7), (1, 1, 1, 7), (2, 3, 5, 7))


@pytest.mark.parametrize("rule", rules("fuse_causal_attention"))
def test_law_of_causal_attention(rule):
    q, k, v = (torch.randn(2, 3, n, 8, dtype=torch.float64) for n in (5, 7, 7))
    sees = torch.ones(5, 7, dtype=torch.bool).tril()
    mask = ~sees if "masked_fill" in rule.law else sees
    if "where" not in rule.law and "masked_fill" not in rule.law:
        mask = torch.zeros(5, 7, dtype=q.dtype).masked_fill(~sees, float("-inf"))
    mask.known = mask
    scale = 0.3 if "*" in rule.law else 3.0
    given = {"mask": mask, "scale": scale, "value": -1e30, "dtype": q.dtype, "q": q, "k": k, "v": v}
    values = {name: given[name] for name in rule.parameters}
    assert rule.condition(**values)
    check_up_to_rounding(rule, values, 1e-5 if "float32" not in rule.law else 1e-4)
    mask[0, 1] = mask[1, 1]
    assert not rule.condition(**values)


@pytest.mark.parametrize("rule", rules("fuse_attention"))
def test_law_of_attention(rule):
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-5)):
        if "float32" in rule.law or "float()" in rule.law:
            tolerance = 1e-4
        for shape in MASK_SHAPES if "mask" in rule.law else MASK_SHAPES[:1]:
            check_up_to_rounding(rule, attention_values(rule, dtype, shape), tolerance)


def test_law_of_attention_in_bfloat16():
    plain = [rule for rule in FAMILIES["fuse_attention"] if "mask" not in rule.law]
    for rule in plain:
        values = attention_values(rule, torch.bfloat16, (5, 7))
        if "* scale" not in rule.law:
            values["scale"] = 1.0
        before, after = rule(**values)
        torch.testing.assert_close(after, before, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("rule", rules("fold_batch_norm"))
def test_law_of_normalization(rule):
    before, after = rule(**normalization_values(rule))
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-4)


def bag_values(rule: Rule) -> Values:
    """Bags of a matrix, in float64."""
    w, p = torch.randn(9, 4, dtype=torch.float64), torch.rand(3, 5, dtype=torch.float64)
    given: Values = {"x": torch.randint(0, 9, (3, 5)), "w": w, "norm": 2.0, "p": p}
    return {name: given[name] for name in rule.parameters}


@pytest.mark.parametrize("rule", rules("open_embedding_bags"))
def test_law_of_bags(rule):
    values = bag_values(rule)
    assert rule.condition(**values)
    check_up_to_rounding(rule, values, 1e-10)
    assert not rule.condition(**values | {"x": values["x"].reshape(-1)})
    assert not rule.condition(**values | {"x": values["x"][:, :0]})
    assert not rule.condition(**values | {"w": torch.empty(9, 33)})
    assert not rule.condition(**values | {"w": torch.empty(2**23 + 1, 2, device="meta")})


# The rewrites -------------------------------------------------------------------------------------


def graph_of(function: Callable[..., Tensor], values: Values, sizes: Any = None) -> GraphModule:
    """The function traced, with fake values; constants of the rule are held by the graph."""
    module = _traced(function, values)
    fakes = [to_fake(values[n.name], sizes(values[n.name]) if sizes else None)
             for n in module.graph.placeholders]  # fmt: skip
    # Before torch 2.13, matmul in C++ asks for sizes that are plain integers.
    with enable_python_dispatcher() if sizes else nullcontext():
        _Typed(module).run(*fakes)
    return module


def _traced(function: Callable[..., Tensor], values: Values) -> GraphModule:
    names = [name for name, value in values.items() if isinstance(value, Tensor)]
    others = {name: value for name, value in values.items() if name not in names}
    namespace: Values = {"function": function, "others": others, "torch": torch}
    arguments = ", ".join(names)
    given = ", ".join(f"{name}={name}" for name in names)
    exec(f"def f({arguments}): return torch.sin(function({given}, **others))", namespace)
    return symbolic_trace(namespace["f"])


class _Typed(Interpreter):
    """Gives each node its fake value."""

    def run_node(self, node):
        value = super().run_node(node)
        if node.op != "output":
            node.meta["val"] = value
        return value


def hold(module: GraphModule, names: list[str], values: Values) -> None:
    """Make placeholders constants of the graph."""
    for node in module.graph.placeholders:
        if node.name in names:
            with module.graph.inserting_before(node):
                constant = module.graph.get_attr(f"held_{node.name}")
            module.attributes[f"held_{node.name}"] = values[node.name]
            constant.meta = dict(node.meta)
            node.replace_all_uses_with(constant)


def check_rewrite(rule: Rule, values: Values, tolerance: float, sizes: Any = None) -> None:
    used = {name: values[name] for name in parameters(rule)}
    rest = {name: value for name, value in values.items() if name not in used}

    def before(**given: Any) -> Tensor:
        return rule(**{**rest, **given})[0]

    module = graph_of(before, used, sizes)
    constants = [n for n, kind in parameters(rule).items() if _is_constant(kind)]
    hold(module, constants, used)
    inputs = [used[node.name] for node in module.graph.placeholders]
    expected = module(*inputs)
    family = FAMILIES[family_of(rule)]
    assert list(apply_rules(module, family))
    verify(module)
    module.recompile()
    assert not [n for n in module.graph.nodes if "softmax" in str(n.target)]
    found = module(*inputs)
    torch.testing.assert_close(
        found[0], expected[0], rtol=tolerance, atol=tolerance, equal_nan=True
    )
    assert not list(apply_rules(module, family))


def _is_constant(kind: Any) -> bool:
    return getattr(kind, "__metadata__", None) is not None and kind is not Annotated


def family_of(rule: Rule) -> str:
    return next(name for name, family in FAMILIES.items() if rule in family)


@pytest.mark.parametrize("rule", rules("simplify_algebra"))
def test_rewrite_of_algebra(rule):
    checked = 0
    for values in algebra_values(rule):
        if values["x"].dim() == 2 and values["x"].numel() and checked < 6:
            try:
                before, after = rule(**values)
            except (RuntimeError, TypeError):
                continue
            if before.dtype == after.dtype:
                check_rewrite(rule, values, 0)
                checked += 1
    assert checked >= 1


def attention_case(rule: Rule) -> tuple[Values, float]:
    """Values, and how near the results must be; to compute in float32 is for narrow tensors."""
    narrow = "dtype" in parameters(rule)
    values = attention_values(rule, torch.bfloat16 if narrow else torch.float32, (5, 7))
    return values, 0.05 if narrow else 1e-4


@pytest.mark.parametrize("rule", rules("fuse_attention"))
def test_rewrite_of_attention(rule):
    check_rewrite(rule, *attention_case(rule))


@pytest.mark.parametrize("rule", rules("fuse_attention")[::7])
def test_rewrite_of_attention_with_symbolic_sizes(rule):
    """The sequences have any length."""
    env = ShapeEnv()
    symbols = {5: env.new_size("s0", 5), 7: env.new_size("s1", 7)}

    def sizes(tensor: Tensor) -> list[Any]:
        return [symbols.get(size, size) for size in tensor.shape]

    check_rewrite(rule, *attention_case(rule), sizes)


@pytest.mark.parametrize("rule", rules("fold_batch_norm"))
def test_rewrite_of_normalization(rule):
    check_rewrite(rule, normalization_values(rule), 1e-4)


@pytest.mark.parametrize("rule", rules("open_embedding_bags"))
def test_rewrite_of_bags(rule):
    check_rewrite(rule, bag_values(rule), 1e-10)


def test_a_law_that_does_not_hold_is_found():
    """What the tests above would say of ``x + 0 --> x``."""
    x = torch.tensor([-0.0])
    assert bits(x + 0) != bits(x)
