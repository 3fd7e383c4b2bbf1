"""Tensors made of other tensors: one graph of plain ones, eager's values, classes and gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing

import minitorch2
from minitorch2 import config, stages


class TwoTensor(torch.Tensor):
    """Two tensors that go through the same operators."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            a.size(),
            strides=a.stride(),
            storage_offset=a.storage_offset(),
            dtype=a.dtype,
            device=a.device,
            requires_grad=a.requires_grad,
        )

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, outer_size, outer_stride):
        return TwoTensor(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        first, second = (func(*part_of(args, name), **part_of(kwargs, name)) for name in ("a", "b"))
        leaves, structure = pytree.tree_flatten(first)
        pairs = zip(leaves, pytree.tree_leaves(second), strict=True)
        made = [cls(x, y) if isinstance(x, torch.Tensor) else x for x, y in pairs]
        result = pytree.tree_unflatten(made, structure)
        return return_and_correct_aliasing(func, args, kwargs, result)


def part_of(values, name):
    return pytree.tree_map_only(TwoTensor, lambda x: getattr(x, name), values)


class Scaled(torch.Tensor):
    """Integers and a scale; operators see the product, and give plain tensors."""

    @staticmethod
    def __new__(cls, whole, scale, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(
            cls, whole.size(), dtype=scale.dtype, device=whole.device, requires_grad=requires_grad
        )

    def __init__(self, whole, scale, requires_grad=False):
        self.whole, self.scale = whole, scale

    __torch_function__ = torch._C._disabled_torch_function_impl

    def dequantize(self):
        return self.whole.to(self.scale.dtype) * self.scale

    def __tensor_flatten__(self):
        return ["whole", "scale"], {"requires_grad": self.requires_grad}

    @classmethod
    def __tensor_unflatten__(cls, inner, context, outer_size, outer_stride):
        return cls(inner["whole"], inner["scale"], **context)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            made = cls(args[0].whole, args[0].scale)
            return return_and_correct_aliasing(func, args, kwargs or {}, made)
        args, kwargs = pytree.tree_map_only(Scaled, cls.dequantize, (args, kwargs or {}))
        return func(*args, **kwargs)


def shown(value):
    """What is compared: classes, whether gradients are required, and numbers of four digits."""
    if isinstance(value, TwoTensor | Scaled):
        parts = [shown(getattr(value, name)) for name in value.__tensor_flatten__()[0]]
        return type(value), value.requires_grad, parts
    if isinstance(value, torch.Tensor):
        numbers = [f"{n:.4g}" for n in value.detach().double().flatten().tolist()]
        return type(value), value.requires_grad, tuple(value.shape), numbers
    if isinstance(value, tuple | list):
        return [shown(part) for part in value]
    return repr(value)


def outcome(function, make):
    inputs = make()
    result = function(*inputs)
    text, gradients = shown(result), []
    results = result if isinstance(result, tuple) else (result,)
    roots = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    if roots:
        sum((root * root).sum() for root in roots).backward()
        gradients = [shown(x.grad) for x in inputs]
    return text, gradients, shown(inputs)


def check(function, make, calls=2, **options):
    """Compare with eager: one graph in which no class is left."""
    expected = outcome(function, make)
    for backend in ("eager", "numba"):
        with config.patch(suppress_errors=False), stages.collect() as log:
            compiled = minitorch2.compile(function, backend=backend, fullgraph=True, **options)
            for _ in range(calls):
                assert outcome(compiled, make) == expected
        assert log.counts["graphs"] == 1
    for text in log.texts("aten graph.py"):
        code = [line.partition("#")[0] for line in text.splitlines()]
        assert not [line for line in code if "TwoTensor" in line or "together" in line]


def matrix(requires_grad=False, start=-1.0):
    return torch.linspace(start, 1, 9).view(3, 3).clone().requires_grad_(requires_grad)


def two(requires_grad=False):
    return TwoTensor(matrix(), matrix(start=-0.5)).requires_grad_(requires_grad)


def scaled(requires_grad=False):
    whole = (matrix() * 100).to(torch.int8)
    return Scaled(whole, torch.tensor(0.01)).requires_grad_(requires_grad)


def write_to_a_part(x):
    x.a.add_(1)
    return x * 2


PROGRAMS = {
    "operators": (lambda x, y: (x * 2 + y).sin(), lambda: (two(), matrix())),
    "gradients": (lambda x, y: (x @ y).sum(0), lambda: (two(True), matrix())),
    "gradients of a plain input": (
        lambda x, y: (x * 2 + y).sin(),
        lambda: (two(True), matrix(True)),
    ),
    "two of them": (lambda x, y: (x @ y, x + y), lambda: (two(True), two(True))),
    "without gradients": (torch.no_grad()(lambda x: x @ x), lambda: (two(True),)),
    "views": (lambda x: (x.t(), x[1:], x.view(-1)), lambda: (two(True),)),
    "identity": (lambda x: (x, x * 1), lambda: (two(True),)),
    "parts": (lambda x: (x.a * 2, x.b + x.a, x.shape, type(x).__name__), lambda: (two(),)),
    "parts of a result": (lambda x: ((x * 2).a + 1, (x * 2).b), lambda: (two(),)),
    "made inside": (lambda x: TwoTensor(x * 2, x) * 3, lambda: (matrix(),)),
    "made inside only": (lambda x: (TwoTensor(x * 2, x) * 3).a, lambda: (matrix(),)),
    "writes": (lambda x: x.add_(1).mul_(2), lambda: (two(),)),
    "writes to a result": (lambda x: (x * 2).add_(1), lambda: (two(True),)),
    "writes to a part": (write_to_a_part, lambda: (two(),)),
    "nested": (lambda x: (x * 2).sin(), lambda: (TwoTensor(two(), two()).requires_grad_(),)),
    "one twice": (lambda x, y: x * y, lambda: (two(True),) * 2),
    "scaled": (lambda x, y: (x * 2 + y).sin(), lambda: (scaled(), matrix(True))),
    "scaled weights": (lambda x, y: F.linear(y, x), lambda: (scaled(), matrix(True))),
    "a plain gradient": (lambda x, y: (x * 2 + y).sin(), lambda: (scaled(True), matrix())),
    "methods": (lambda x: x.dequantize() * 2, lambda: (scaled(),)),
    "detached": (lambda x: (x.detach(), x + 1), lambda: (scaled(),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    check(*PROGRAMS[name])


@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_weights_of_a_module(backend):
    def trained(compile):
        module = torch.nn.Linear(3, 3)
        module.weight = torch.nn.Parameter(two())
        with torch.no_grad():
            module.bias.fill_(0.5)
        result = compile(module)(matrix(True))
        result.sum().backward()
        return shown([result, module.weight.grad, module.bias.grad])

    compiled = trained(lambda m: minitorch2.compile(m, backend=backend, fullgraph=True))
    assert compiled == trained(lambda module: module)


def test_what_they_are_made_of_is_guarded():
    """Sizes of the parts, and the context, decide what the graph computes."""
    compiled = minitorch2.compile(lambda x: x * 2, fullgraph=True)
    for x in (two(), TwoTensor(torch.ones(2), torch.zeros(2)), TwoTensor(two(), two()), two(True)):
        assert shown(compiled(x)) == shown(x * 2)


def test_second_derivatives_are_refused():
    """Nobody holds the parts of an input until then."""
    x = two(True)
    result = minitorch2.compile(lambda x: (x * x).sin(), fullgraph=True)(x)
    (first,) = torch.autograd.grad(result.sum(), x, create_graph=True)
    with pytest.raises(minitorch2.errors.BackendError, match="second derivative"):
        torch.autograd.grad((first * first).sum(), x)


def test_a_write_with_history_is_left_to_python():
    """What a graph writes to are the parts, which have no history."""

    def program(x):
        return x * 1

    def write(y):
        y.mul_(2)
        return y * 3

    def run(function):
        x = two(True)
        result = function(program(x))
        result.sum().backward()
        return shown([result, x.grad])

    compiled = minitorch2.compile(write)
    with stages.collect() as log:
        assert run(compiled) == run(write)
    assert log.counts["graph_breaks"] > 0


class Unit(torch.Tensor):
    """A number of units: operators multiply both the numbers and the units."""

    @staticmethod
    def __new__(cls, number, unit):
        return torch.Tensor._make_wrapper_subclass(cls, number.size(), dtype=number.dtype)

    def __init__(self, number, unit):
        self.number, self.unit = number, unit

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __tensor_flatten__(self):
        return ["number"], {"unit": self.unit, "requires_grad": self.requires_grad}

    @classmethod
    def __tensor_unflatten__(cls, inner, context, outer_size, outer_stride):
        return cls(inner["number"], context["unit"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        units = [x.unit for x in args if isinstance(x, Unit)]
        plain = pytree.tree_map_only(Unit, lambda x: x.number, args)
        unit = units[0] ** (1 if func.overloadpacket is not torch.ops.aten.mul else len(units))
        made = cls(func(*plain, **(kwargs or {})), unit)
        return return_and_correct_aliasing(func, args, kwargs or {}, made)


@pytest.mark.parametrize("backend, failures", [("eager", 0), ("aot_eager", 1), ("numba", 1)])
def test_a_gradient_with_another_context_keeps_it(backend, failures):
    """It was put together with the context of the value: another unit. The graph runs in Python."""

    def run(function):
        x = Unit(torch.tensor([2.0, 3.0]), 3).requires_grad_()
        result = function(x)
        result.backward(Unit(torch.ones(2), 3**2))
        return x.grad.unit, x.grad.number.tolist()

    def square(x):
        return x * x

    assert run(square) == (3**4, [4.0, 6.0])
    with stages.collect() as log, config.patch(suppress_errors=True):
        assert run(minitorch2.compile(square, backend=backend)) == run(square)
    assert log.counts["backend_failures"] == failures
    if failures:
        with pytest.raises(minitorch2.errors.BackendError, match="the gradient of a Unit"):
            run(minitorch2.compile(square, backend=backend, fullgraph=True))


@pytest.mark.parametrize("dynamic, graphs", [(True, 1), (None, 2)])
def test_sizes_that_vary(dynamic, graphs):
    compiled = minitorch2.compile(lambda x: (x * 2).sin().sum(0), fullgraph=True, dynamic=dynamic)
    with stages.collect() as log:
        for size in (3, 4, 5, 6):
            x = TwoTensor(torch.rand(size, 2), torch.rand(size, 2)).requires_grad_()
            result = compiled(x)
            assert shown(result) == shown((x * 2).sin().sum(0))
            result.sum().backward()
            assert shown(x.grad.a) == shown(2 * (x.a * 2).cos())
    assert log.counts["graphs"] == graphs


class Seeing(TwoTensor):
    """Sees functions as well as operators."""

    @staticmethod
    def __tensor_unflatten__(inner, context, outer_size, outer_stride):
        return Seeing(inner["a"], inner["b"])

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        SEEN.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


SEEN = []


@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_a_class_that_overrides_functions_too(backend):
    """It is evaluated while capturing, and not once more when the graph runs."""
    compiled = minitorch2.compile(lambda x: (x * 2).sin(), fullgraph=True, backend=backend)
    for _ in range(2):
        x = Seeing(matrix(), matrix())
        SEEN.clear()
        result = compiled(x)
        assert SEEN == ["mul", "sin"]
        assert torch.allclose(result.a, (matrix() * 2).sin())


class Untold(torch.Tensor):
    """Does not say what it is made of."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = pytree.tree_map_only(Untold, lambda x: x.inner, args)
        return func(*args, **(kwargs or {}))


def test_a_class_without_the_protocol_is_left_to_python():
    compiled = minitorch2.compile(lambda x, y: (x * 2, y + 1))
    product, total = compiled(Untold(matrix()), matrix())
    assert torch.equal(product, matrix() * 2) and torch.equal(total, matrix() + 1)


def test_a_backward_inside_gives_a_wrapper_its_gradient():
    """Regression: the gradient of a wrapper was asked for what only plain tensors have."""

    def program(x):
        (x * x).sum().backward()
        return x.detach() + 1

    def run(compile):
        x = TwoTensor(torch.arange(3.0), torch.ones(3)).requires_grad_()
        result = compile(program)(x)
        return [result.a, result.b, x.grad.a, x.grad.b]

    fast = run(lambda f: minitorch2.compile(f, backend="aot_eager", fullgraph=True))
    torch.testing.assert_close(fast, run(lambda f: f))
