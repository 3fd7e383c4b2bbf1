"""What a graph is captured through: one small program for each feature, one graph for each program.

Each runs twice under ``fullgraph=True``, and its results and gradients are eager's. The table in
`tests/README.md` names, for each feature, the tests that look closer.
"""

import asyncio
import collections
import contextlib
import copy
import enum
import functools
import importlib.util
import random
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode
from torch.testing import assert_close
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

import minitorch2
from minitorch2 import config, stages

einops: Any = importlib.import_module("einops") if importlib.util.find_spec("einops") else None

FEATURES: dict[str, Callable[..., Any]] = {}


def feature(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the program of a feature; it takes a tensor of three rows and four columns."""

    def register(program: Callable[..., Any]) -> Callable[..., Any]:
        FEATURES[name] = program
        return program

    return register


# Classes of tensors and modes ---------------------------------------------------------------------


class Scaled(torch.Tensor):
    factor = 2.0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * 2 if func is torch.sin else result

    def doubled(self):
        return self * self.factor


@feature("tensor subclass: methods and attributes")
def subclass_methods(x):
    y = x.as_subclass(Scaled)
    return y.doubled().sin().as_subclass(torch.Tensor), y.shape[0], type(y) is Scaled


@feature("tensor subclass: constructor and list arguments")
def subclass_constructor(x):
    y = Scaled(x.detach())
    joined = torch.cat([y, y * 2])
    return torch.stack([joined, joined]).as_subclass(torch.Tensor) + x.sum()


class Adding(TorchFunctionMode):
    def __init__(self, number):
        self.number = number

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result + self.number if func is torch.sin else result


@feature("function modes: nested and by priority")
def nested_modes(x):
    with Adding(1), Adding(10), BaseTorchFunctionMode():
        return torch.sin(x), torch.sin(x.as_subclass(Scaled)).as_subclass(torch.Tensor)


@feature("default device as a mode")
def device_mode(x):
    with torch.device("meta"):
        made = torch.ones(2)
    return x * 2, made.device.type


@feature("wrapper subclass: inputs, intermediates and outputs")
def wrapper_subclass(x):
    both = TwoTensor(x.detach(), x.detach() * 2)
    result = (both * both).sin() + 1
    return result.a + x, result


@feature("wrapper subclass: an output, symbolic sizes")
def wrapper_output(x):
    y = x.detach()
    return TwoTensor(y, y + 1) @ TwoTensor(y.mT, y.mT), x * 2


# Transforms and functions with gradients of their own ---------------------------------------------


@feature("torch.func: vmap, grad, nested")
def func_transforms(x):
    per_row = torch.func.vmap(torch.func.grad(lambda row: row.sin().square().sum()))
    return per_row(x), torch.func.vmap(torch.func.vmap(lambda e: e * 2))(x)


@feature("torch.func: vjp, jvp, jacrev, jacfwd")
def func_jacobians(x):
    value, pull = torch.func.vjp(torch.sin, x)
    pulled = pull(x)
    pushed = torch.func.jvp(torch.cos, (x,), (torch.ones_like(x),))
    both = torch.func.jacrev(torch.tanh)(x[0]), torch.func.jacfwd(torch.tanh)(x[0])
    return value, pulled, pushed, both


LAYER = nn.Linear(4, 2)


@feature("torch.func.functional_call")
def functional_module(x):
    tensors = {"weight": torch.ones(2, 4), "bias": torch.zeros(2)}
    return torch.func.functional_call(LAYER, tensors, (x,)) + LAYER(x)


@feature("methods in place under vmap")
def in_place_under_vmap(x):
    return torch.func.vmap(lambda row: row.clone().mul_(2).add_(row.sum()))(x)


class Kind(enum.Enum):
    DOUBLE = 2
    TRIPLE = 3


class Chosen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kind, name, numbers):
        ctx.save_for_backward(x, None)
        ctx.kind, ctx.numbers = kind, numbers
        return x * kind.value, len(name)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient, _):
        x, nothing = ctx.saved_tensors
        assert nothing is None
        return gradient * ctx.kind.value + x * sum(ctx.numbers), None, None, None


@feature("autograd.Function: other arguments, enumerations, once_differentiable, what is saved")
def custom_function(x):
    return Chosen.apply(x, Kind.TRIPLE, "name", (1, 2))


@feature("hooks on intermediate tensors")
def hooks_of_intermediates(x):
    y = x.sin()
    y.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
    return y * y


# Tensors as objects -------------------------------------------------------------------------------


@feature("attributes of tensors are assigned")
def assigned_attributes(x):
    y = x * 2
    y.label, y.scale = "name", x.sum()
    return y * y.scale, y.label, hasattr(y, "label"), getattr(y, "nothing", 3)


@feature("data is assigned")
def assigned_data(x):
    y = x.detach().clone()
    y.data = x.detach() * 3
    return y + x


@feature("storages, and tensors told apart by them")
def storages(x):
    same = x.untyped_storage().data_ptr() == x.view(-1).untyped_storage().data_ptr()
    return x * 2, same


@feature("id of a tensor as a key, `in` a list of tensors")
def identities(x):
    y = x + 1
    table = {id(x): 1.0, id(y): 2.0}
    items = [y, x]
    return x * table[id(x)] + y * table[id(y)], any(y is each for each in items), x in [x]


@feature("min and max over tensors")
def extremes(x):
    total = x.sum()
    return min(total, total * 2) + max(total.abs(), total + 1)


@feature("out= with resizing")
def out_with_resizing(x):
    out = torch.empty(0)
    torch.mul(x.detach(), 2, out=out)
    return out + x, out.shape[0], out.view(-1) * out.numel()


# Python and its library ---------------------------------------------------------------------------


@feature("hasattr and getattr of partial functions")
def partial_attributes(x):
    part = functools.partial(torch.add, alpha=2)
    return part(x, x), hasattr(part, "func"), getattr(part, "nothing", 1), part.keywords["alpha"]


class Pair(NamedTuple):
    first: Any
    second: Any = 2


@dataclass(frozen=True)
class Options:
    scale: float
    name: str = "name"


@feature("named tuples and frozen data classes made inside")
def records(x):
    Point = collections.namedtuple("Point", "a b")
    pair, point, options = Pair(x), Point(x, 2), Options(3.0)
    return pair._replace(second=5), point.a * point.b, x * options.scale, options == Options(3.0)


@feature("generators of random numbers: Python's")
def python_random(x):
    draw = random.Random(3)
    return x * draw.random() + draw.randint(1, 5)


@feature("generators of random numbers: NumPy's")
def numpy_random(x):
    draw = np.random.default_rng(3)
    return x * torch.from_numpy(draw.standard_normal((3, 4))).float()


@feature("scalars and dtypes of NumPy")
def numpy_scalars(x):
    limit = np.finfo(np.float32)
    made = np.ones(3, dtype=np.dtype("float64")) * np.float32(2)
    return x * float(limit.eps), torch.from_numpy(made), x.dtype is torch.float32


def lazy_modules(model, x):
    return model(x).sin()


class Box:
    def __init__(self, content):
        self.content = content

    def __str__(self):
        return f"Box of {type(self.content).__name__}"


pytree.register_pytree_node(Box, lambda box: ([box.content], None), lambda parts, _: Box(*parts))


@feature("pytrees with nodes of the program's own, tree_map_only")
def trees(x):
    tree = {"a": Box(x), "b": [x, 2]}
    doubled = pytree.tree_map_only(torch.Tensor, lambda t: t * 2, tree)
    return doubled["a"].content + doubled["b"][0], doubled["b"][1], len(pytree.tree_leaves(tree))


@functools.lru_cache
def cached_power(base, exponent):
    return base**exponent


@feature("lru_cache on constants")
def caches(x):
    return x * cached_power(2, 3) + cached_power(2, 3)


@feature("text of the program's own objects")
def texts(x):
    box = Box(3)
    return x * len(str(box)), f"{box}: {box!s:>12}", "%s" % box  # noqa: UP031


@feature("warnings.catch_warnings")
def caught_warnings(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("nothing", stacklevel=1)
        return x * 2


LOCAL = threading.local()
LOCAL.scale = 3.0


@feature("threading.local")
def thread_locals(x):
    return x * LOCAL.scale


@feature("generators and coroutines")
def generators(x):
    def rows():
        received = yield x[0]
        yield x[1] * received

    made = rows()
    first = next(made)
    return first, made.send(2.0), [row.sum() for row in x]


async def awaited(x):
    return x * 2


@feature("set_grad_enabled from a closure")
def grad_mode_of_a_closure(x):
    enabled = x.ndim == 3

    def part():
        with torch.set_grad_enabled(enabled):
            return x * 2

    return part().requires_grad, x * 3


@feature("sdpa_kernel")
def attention_kernels(x):
    q = x.view(1, 1, 3, 4)
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, q, q)


@torch.jit.script_if_tracing
def scripted_if_traced(x, n: int):
    return x * n


@feature("torch.jit.annotate and script_if_tracing")
def script_annotations(x):
    parts = torch.jit.annotate(list[torch.Tensor], [x])
    return scripted_if_traced(parts[0], 3)


# Libraries ----------------------------------------------------------------------------------------


@feature("torch.distributions, validated")
def distributions(x):
    made = torch.distributions.Normal(x, x.abs() + 0.5, validate_args=True)
    other = torch.distributions.Normal(torch.zeros(()), torch.ones(()))
    return made.log_prob(x + 1), torch.distributions.kl_divergence(made, other), made.rsample()


@torch.library.custom_op("one_graph_features::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].clone()


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@feature("custom operators with sizes out of data")
def sizes_out_of_data(x):
    return positive(x.detach()).sin().sum() + x


@feature("einops")
def einops_layers(x):
    turned = einops.rearrange(x, "a (b c) -> b a c", b=2)
    return einops.reduce(turned, "b a c -> a", "mean"), einops.repeat(x, "a b -> a b 2")


# Running them -------------------------------------------------------------------------------------


def outcome(function: Callable[..., Any], *more: Any, calls: int = 2) -> Any:
    found, rows = [], 3
    for _ in range(calls):
        torch.manual_seed(0)
        x = torch.linspace(-1, 1, rows * 4).view(rows, 4).requires_grad_()
        result = function(*more, x)
        leaves = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
        heads = [leaf.sum() for leaf in leaves if leaf.requires_grad]
        gradients = [torch.autograd.grad(head, x, retain_graph=True)[0] for head in heads]
        found.append((result, [_plain(gradient) for gradient in gradients]))
    return found


def _plain(tensor: torch.Tensor) -> Any:
    return (tensor.a, tensor.b) if isinstance(tensor, TwoTensor) else tensor


def assert_same(found: Any, wanted: Any) -> None:
    found, form = pytree.tree_flatten(found)
    wanted, wanted_form = pytree.tree_flatten(wanted)
    assert len(found) == len(wanted) and str(form) == str(wanted_form)
    for own, other in zip(found, wanted, strict=True):
        if isinstance(other, TwoTensor):
            assert_same((own.a, own.b), (other.a, other.b))
        elif isinstance(other, torch.Tensor):
            assert_close(own, other)
        else:
            assert own == other and type(own) is type(other)


@contextlib.contextmanager
def one_graph(expected: int = 1):
    with config.patch(fallback_random=True, suppress_errors=False), stages.collect() as log:
        yield
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (expected, 0)
    assert log.counts["frames_as_is"] == 0


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FEATURES)
def test_one_graph(name: str, dynamic: bool) -> None:
    program = FEATURES[name]
    if name == "einops" and einops is None:
        pytest.skip("einops is not installed")
    wanted = outcome(program)
    with one_graph():
        compiled = minitorch2.compile(program, backend="aot_eager", fullgraph=True, dynamic=dynamic)
        assert_same(outcome(compiled), wanted)


def test_lazy_modules_at_their_first_call() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.LazyLinear(2))
    with one_graph():
        compiled = minitorch2.compile(lazy_modules, backend="aot_eager", fullgraph=True)
        first = copy.deepcopy(model)
        found = outcome(compiled, first, calls=1)
    assert_same(found, outcome(lazy_modules, first, calls=1))


def test_a_coroutine() -> None:
    x = torch.ones(3)
    with one_graph():
        compiled = minitorch2.compile(awaited, backend="aot_eager", fullgraph=True)
        assert_close(asyncio.run(compiled(x)), x * 2)
