"""Autograd inside compiled functions: Function, checkpoint, backward, grad, hooks."""

import torch
from torch.utils import checkpoint as checkpointing

from tests.unit.bytecode.torch_values.programs import check_row, table


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        ctx.save_for_backward(x)
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.factor * 10 + x * 0, None


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y * 2, grad * x * 3


class TwoOutputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, indices = x.max(1)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        ctx.shape = x.shape
        return values, indices

    @staticmethod
    def backward(ctx, grad, _):
        (indices,) = ctx.saved_tensors
        result = torch.zeros(ctx.shape)
        return result.scatter(1, indices[:, None], 7 * grad[:, None])


class Needs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        left = grad * y * 5 if ctx.needs_input_grad[0] else None
        right = grad * x * 6 if ctx.needs_input_grad[1] else None
        return left, right


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


def block(x, y=None):
    return torch.tanh(x) * (x if y is None else y)


MORE = {
    "Scale": Scale,
    "Straight": Straight,
    "WithSetup": WithSetup,
    "TwoOutputs": TwoOutputs,
    "Needs": Needs,
    "InPlace": InPlace,
    "Identity": Identity,
    "block": block,
    "checkpointing": checkpointing,
}

FUNCTIONS = [
    "Scale.apply(w, 3.0)",
    "Scale.apply(x, 3.0)",
    "Scale.apply(w * 2, 3.0) + w",
    "with torch.no_grad():\n    t = Scale.apply(w, 3.0)\nt",
    "f_ = Scale.apply\nf_(w, 2.0)",
    "Straight.apply(w) * w",
    "Straight.apply(Straight.apply(w) * 3)",
    "WithSetup.apply(w, x)",
    "WithSetup.apply(w, v)",
    "TwoOutputs.apply(w)",
    "TwoOutputs.apply(w)[0] * 2",
    "Needs.apply(w, x), Needs.apply(x, w), Needs.apply(w, v)",
    "InPlace.apply(w * 1)",
    "InPlace.apply(x)\nx",
    "Identity.apply(w) * 2",
]

CHECKPOINTS = [
    "checkpoint(block, w, use_reentrant=False)",
    "checkpoint(block, w * 2, x, use_reentrant=False) + w",
    "checkpoint(block, w, y=x, use_reentrant=False)",
    "checkpoint(lambda t: F.dropout(t, 0.5), w, use_reentrant=False)",
    "checkpoint(lambda t: t * q[0], w, use_reentrant=False)",
    "checkpoint(block, x, use_reentrant=False)",
    "checkpointing.checkpoint_sequential([block, block], 2, w, use_reentrant=False)",
    "checkpointing.checkpoint_sequential([block, nn.Dropout(0.5), block], 3, w, use_reentrant=True)",
    "checkpoint(block, w, use_reentrant=False, preserve_rng_state=False)",
    "checkpoint(block, w, use_reentrant=True)",
]

BACKWARD = [
    "t = (w * 2).sum()\nt.backward()\nw.grad * 3",
    "t = (w * 2).sum()\nt.backward()\nwith torch.no_grad():\n    w -= 0.1 * w.grad\nw",
    "t = w * 2\ntorch.autograd.backward(t, torch.ones(3, 4))\nw.grad + 1",
    "t = w * 2\nt.backward(gradient=x)\nw.grad + 1",
    "t = (w ** 3).sum()\n(g,) = torch.autograd.grad(t, w)\ng * 2",
    "t = (w ** 3).sum()\n(g,) = torch.autograd.grad(t, w, create_graph=True)\ng * 2",
    "t = w * 2\nt.retain_grad()\n(t * 3).sum().backward()\nt.grad + 1",
    ("t = w * 2\nt.retain_grad()\nt, t * 3", "tensor-method"),
    "t = x * 2\nt.requires_grad_()\n(t * 3).sum().backward()\nt.grad, t",
    "t = x.detach().requires_grad_()\n(g,) = torch.autograd.grad((t ** 3 * w).sum(), t)\ng * 2",
    "x.requires_grad_()\n(g,) = torch.autograd.grad((x ** 3).sum(), x)\ng * 2",
    ("x.requires_grad_()\nx ** 3", "leaf-made-inside"),
    "t = nn.Parameter(x * 2)\n(t * w).sum()",
    "t = nn.Parameter(x * 2)\nt * 3",
    "t = (w * 2).sum()\nw.grad = None\nt.backward()\nw.grad",
    "w.grad = None\nw * 2",
    "w.grad = x * 2\nw * 2",
    "with torch.no_grad():\n    t = w.detach() + 1\nt",
    "(w * 2).detach() * w",
    "w.detach().requires_grad, (w * x.detach()).requires_grad, w + 1",
    "t = w * 2\nt.register_hook(lambda g: g * 2)\nt * 3",
    "w.register_hook(lambda g: g * 2)\nw * 3",
    "t = w * 2\nw.register_post_accumulate_grad_hook(lambda p: None)\nt * 3",
    "t = w * 2\ntorch.func.grad(lambda a: (a ** 2).sum())(x) + t",
    "t = w * 2\ntorch.vmap(lambda a: a.sum())(x), t * 2",
    "t = w * 2\ntorch.func.jacrev(lambda a: a * 2)(y), t * 2",
    "t = w * 2\ntorch.autograd.functional.jacobian(lambda a: a * 2, y), t * 2",
    ("t = w * 2\ntorch.autograd.gradcheck, t.grad_fn, t * 3", "tensor-attribute"),
    "w.grad_fn is None, x.grad_fn, w + 1",
    "t = w * 2\nt.grad_fn is not None, t.is_leaf, t + 1",
    "t = w * 2\nif t.requires_grad and t.grad_fn is not None:\n    t = t + 1\nt",
]


@table(FUNCTIONS)
def test_custom_functions(row):
    check_row(row, **MORE)


@table(CHECKPOINTS)
def test_checkpoints(row):
    check_row(row, **MORE)


@table(BACKWARD)
def test_backward_and_hooks(row):
    check_row(row, **MORE)
