"""Reasons that have to do with tensors and their data."""

import torch
import torch.utils.checkpoint

from minitorch2.errors import UnsupportedError
from tests.unit.bytecode.break_examples import X, breaks, whole


@breaks("data-dependent-branch", X)
def branch_on_data(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


@whole("data-dependent-branch", X)
def choose_with_where(x):
    return torch.where(x.sum() > 0, x + 1, x - 1)


@breaks("higher-order", X)
def branches_of_two_forms(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x[:1], (x,))


@whole("higher-order", X)
def branches_of_one_form(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x[:1].expand(3), (x,))


@breaks("scalar-read", X)
def number_from_a_tensor(x):
    return x / [1.0, 2.0][(x > 0).any().long()]


@whole("scalar-read", X)
def number_stays_in_the_graph(x):
    return x / (1 + (x > 0).any().long().item())


@breaks("unbacked-size", X)
def branch_on_a_count(x):
    n = (x > 0).sum().item()
    if n > 100:
        return x + 1
    return x + torch.arange(n).sum()


@whole("unbacked-size", X)
def count_with_a_known_limit(x):
    n = (x > 0).sum().item()
    torch._check(n <= 100)
    if n > 100:
        return x + 1
    return x + torch.arange(n).sum()


@breaks("long-size", X)
def size_in_a_loop(x):
    n = int((x > 0).sum())
    for _ in range(9):
        n = n + n // 2
        n = n - n // 3
    return torch.arange(n).sum() + x.sum()


@whole("long-size", X)
def size_as_a_tensor(x):
    n = (x > 0).sum()
    for _ in range(9):
        n = n + n // 2
        n = n - n // 3
    return torch.arange(n.item()).sum() + x.sum()


@breaks("tensor-method", X.clone())
def method_with_effects(x):
    y = x.sin()
    y.share_memory_()
    return y + 1


@breaks("tensor-layout", X.to_sparse())
def sparse(x):
    # Called with torch.ones(3).to_sparse().
    return x.sin()


@whole("tensor-layout", X)
def dense(x):
    # Called with torch.ones(3).
    return x.sin()


class Watched(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return super().__torch_dispatch__(func, types, args, kwargs or {})


@breaks("tensor-subclass", X.as_subclass(Watched))
def tensor_that_sees_operators(x):
    # The class of x has a __torch_dispatch__.
    return x.sin()


class Labelled(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs)


@whole("tensor-subclass", X.as_subclass(Labelled))
def tensor_that_sees_functions(x):
    # The class of x has a __torch_function__, and no __torch_dispatch__.
    return x.sin()


@breaks("operator-error", X)
def sizes_that_do_not_fit(x):
    try:
        return x + torch.ones(2)
    except RuntimeError:
        return x


@breaks("autocast", X)
def autocast_twice(x):
    half = torch.autocast("cpu")
    with half, half:
        return x @ x


@breaks("tensor-attribute", X)
def attribute_of_a_tensor(x):
    return x + x.is_leaf + len(x.__dict__)


@breaks("tensor-attribute-write", X.clone().requires_grad_())
def data_that_a_gradient_needs(w):
    y = w * w
    w.data = w.data / 2
    return y


@whole("tensor-attribute-write", X.clone().requires_grad_())
def data_written_to_in_place(w):
    y = w * w
    w.data.div_(2)
    return y


@breaks("tensor-type", X, torch.cuda.FloatTensor)
def kind_of_tensor(x, kind):
    return x + isinstance(x, kind)


@whole("tensor-type", X)
def device_of_a_tensor(x):
    return x + x.is_cuda


@breaks("data-dependent", X)
def unknown_outcome(x):
    return x * x.equal(x + 1)


@breaks("torch-context", X)
def keeps_clones_for_backward(x):
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
        return x + 1


@breaks("leaf-made-inside", X)
def new_leaf_that_lives_on(x):
    y = x.detach().requires_grad_()
    return y, y.sin()


@whole("leaf-made-inside", X)
def gradient_of_a_new_leaf(x):
    y = x.detach().requires_grad_()
    y.sin().sum().backward()
    return y.grad


@breaks("autograd-engine", X.clone().requires_grad_() * 2)
def gradients_of_earlier_code(h):
    h.sin().sum().backward()
    return h.detach() + 1


@whole("autograd-engine", X.clone().requires_grad_())
def gradients_inside(x):
    return torch.autograd.grad(x.sin().sum(), x)


@breaks("function-transform", X)
def transform(x):
    value, derivative = torch.func.vjp(torch.sin, x)
    return value, derivative  # a function that belongs to this call


@breaks("checkpoint", X.clone().requires_grad_())
def other_random_numbers(x):
    return torch.utils.checkpoint.checkpoint(
        torch.dropout, x, 0.5, True, use_reentrant=False, preserve_rng_state=False
    )


@whole("checkpoint", X.clone().requires_grad_())
def not_reentrant(x):
    return torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)


@breaks("random-state", X)
def the_system_chooses_a_seed(x):
    torch.seed()
    return x + 1


@whole("random-state", X)
def the_program_chooses_a_seed(x):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return x + torch.rand(3)


@breaks("generator-argument", X, raises=True)
def generator_of_another_device(x):
    return x + 1, torch.Generator("meta")


@whole("generator-argument", X)
def generator_of_ones_own(x):
    return x + torch.rand(3, generator=torch.Generator().manual_seed(1))


@torch.library.custom_op("break_examples::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@breaks("no-meta-kernel", X)
def operator_without_a_meta_kernel(x):
    return twice(x) + 1


@breaks("overlap", torch.arange(6.0), raises=True)
def write_to_an_overlapping_part(x):
    y = x.clone()
    y[1:] += y[:-1]
    return y


@whole("overlap", torch.arange(6.0))
def write_of_a_copy(x):
    y = x.clone()
    y[1:] += y[:-1].clone()
    return y


class Halves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return list(x.chunk(2))

    @staticmethod
    def backward(ctx, *gradients):
        return torch.cat(gradients)


@breaks("autograd-function", X.clone().requires_grad_())
def function_that_gives_a_list(x):
    return Halves.apply(x)


class Counter:
    calls = 0


@breaks("side-effect-inside", X, Counter())
def counter_in_a_checkpoint(x, counter):
    def block(y):
        counter.calls += 1
        return y.sin()

    return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)


@breaks("numpy", X)
def array_read_backwards(x):
    return x.numpy()[::-1]


@whole("numpy", X)
def tensor_flipped(x):
    return x.flip(0)


MEMORY = torch.ones(6)


@breaks("overlapping-inputs", MEMORY[:4], MEMORY[2:], backend="aot_eager")
def writes_to_memory_of_two_inputs(x, y):
    x.add_(1)
    return x * y


def refusing(module, inputs):
    raise UnsupportedError("this backend has no sine")


@breaks("unsupported", X, backend=refusing)
def more_than_the_backend_can_do(x):
    return x.sin()
