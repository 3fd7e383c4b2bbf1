"""Programs with gradients, optimizers and states; deferred execution must not change them."""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune
from torch.utils.data import DataLoader, TensorDataset

from tests.unit.lazy.programs import PROGRAMS, matrix, message_of, program, small_model

# Gradients ----------------------------------------------------------------------------------------


@program
def hooks_of_tensors() -> Any:
    seen: list[Any] = []
    x = matrix().requires_grad_()
    y = x * 2
    handle = y.register_hook(lambda g: seen.append(g.sum().item()))
    x.register_hook(lambda g: g * 3)
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.mean().item()))
    y.retain_grad()
    y.sin().sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    return x.grad, y.grad, seen


@program
def hooks_of_modules() -> Any:
    seen: list[Any] = []
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    model[0].register_forward_hook(lambda m, a, out: out + 1)
    model[1].register_forward_pre_hook(lambda m, a: (a[0] * 2,))
    model[2].register_full_backward_hook(lambda m, gi, go: seen.append(go[0].sum().item()))
    model(matrix()).sum().backward()
    return seen, [p.grad for p in model.parameters()]


@program
def double_backward() -> Any:
    x = matrix().requires_grad_()
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.pow(2).sum(), x, create_graph=True)
    h.sum().backward()
    return g, h, x.grad


@program
def penalty_of_gradients() -> Any:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    x = matrix().requires_grad_()
    (g,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    ((g.norm(2, dim=1) - 1) ** 2).mean().backward()
    return [p.grad for p in model.parameters()]


class Cube(torch.autograd.Function):
    """A function with a derivative of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, flag: bool) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.flag = flag
        return x**3

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return g * 3 * x * x * (2 if ctx.flag else 1), None


@program
def functions_with_derivatives() -> Any:
    x = matrix().requires_grad_()
    y = Cube.apply(x * 1, True)
    y.sum().backward()
    return y, x.grad, type(y.grad_fn).__name__, torch.autograd.gradcheck is not None


@program
def graphs_of_gradients() -> Any:
    x = matrix().requires_grad_()
    y = (x * 2).relu().sum()
    names, node = [], y.grad_fn
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return names, y.requires_grad, y.detach().requires_grad


@program
def saved_tensors_are_packed() -> Any:
    sizes: list[Any] = []
    x = matrix().requires_grad_()

    def pack(t: torch.Tensor) -> torch.Tensor:
        sizes.append(tuple(t.shape))
        return t * 1

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = x.exp() * x
    y.sum().backward()
    return x.grad, sizes


@program
def checkpoints() -> Any:
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.GELU())
    x = matrix().requires_grad_()
    y = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
    y.square().sum().backward()
    return y, x.grad, [p.grad for p in layer.parameters()]


@program
def modes_of_gradients() -> Any:
    x = matrix().requires_grad_()
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
    with torch.set_grad_enabled(False):
        c = x * 4
    with torch.inference_mode():
        d = x * 5
    e = x.detach().mul_(1)
    return [(t, t.requires_grad, t.is_inference()) for t in (a, b, c, d, e)]


@program
def forward_mode() -> Any:
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(matrix(), torch.ones(3, 4))
        y = torch.autograd.forward_ad.unpack_dual(x.sin() * x)
        return y.primal, y.tangent


@program
def anomalies_are_detected() -> Any:
    x = torch.zeros(2, requires_grad=True)
    with warnings.catch_warnings(), torch.autograd.detect_anomaly():
        warnings.simplefilter("ignore")
        return message_of(lambda: (x.sqrt() * 0).sum().backward())


@program
def backward_twice() -> Any:
    x = matrix().requires_grad_()
    y = (x * x).sum()
    y.backward()
    return x.grad, message_of(y.backward)


@program
def gradients_of_views_and_writes() -> Any:
    x = matrix().requires_grad_()
    y = x * 1
    y[0].mul_(2)
    y[:, 1] = y[:, 2] * 2
    y[0, :3].add_(x[1, :3])
    y.sum().backward()
    return x.grad, type(y.grad_fn).__name__


# Training -----------------------------------------------------------------------------------------

OPTIMIZERS = (
    "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam",
    "RMSprop", "Rprop", "SGD",
)  # fmt: skip


def trained_by(name: str, **options: Any) -> Any:
    """Return losses, parameters and the optimizer's state after some steps."""
    model = small_model()
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.05, **options)
    losses = []
    for step in range(4):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(2, (5,)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [*model.parameters()], optimizer.state_dict()


for _name in OPTIMIZERS:
    PROGRAMS[f"optimizer_{_name}"] = lambda name=_name: trained_by(name)
PROGRAMS["momentum"] = lambda: trained_by("SGD", momentum=0.9, nesterov=True, weight_decay=0.1)
PROGRAMS["amsgrad"] = lambda: trained_by("Adam", amsgrad=True, foreach=True)
PROGRAMS["no_foreach"] = lambda: trained_by("AdamW", foreach=False, maximize=True)
PROGRAMS["fused"] = lambda: trained_by("AdamW", fused=True)
PROGRAMS["centered"] = lambda: trained_by("RMSprop", centered=True, momentum=0.5)


@program
def lbfgs() -> Any:
    model = small_model()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    x = torch.randn(5, 4)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    return [optimizer.step(closure) for _ in range(2)], [*model.parameters()]


@program
def clipped_and_scheduled() -> Any:
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    norms = []
    for _ in range(3):
        model(torch.randn(3, 4)).square().sum().backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5))
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return norms, schedule.get_last_lr(), [*model.parameters()]


@program
def accumulated_gradients_and_moving_average() -> Any:
    model = small_model()
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        (model(torch.randn(2, 4)).square().mean() / 2).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                for a, p in zip(average.parameters(), model.parameters(), strict=True):
                    a.lerp_(p, 0.1)
    return [*average.parameters()], [p.grad for p in model.parameters()]


@program
def averaged_models() -> Any:
    model = small_model()
    average = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(3):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1)
        average.update_parameters(model)
    return [*average.parameters()], average.n_averaged


@program
def states_are_saved_and_loaded() -> Any:
    model = small_model()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other = small_model()
    kept = other[0].weight
    keys = other.load_state_dict(saved["model"])
    again = torch.optim.Adam(other.parameters())
    again.load_state_dict(saved["optimizer"])
    other(torch.ones(1, 4)).sum().backward()
    again.step()
    return str(keys), kept is other[0].weight, [*other.parameters()], again.state_dict()


@program
def wrong_states_are_refused() -> Any:
    model = small_model()
    state = dict(model.state_dict())
    state["0.weight"] = torch.ones(1, 1) * 2
    return message_of(lambda: model.load_state_dict(state))


@program
def batches_of_a_loader() -> Any:
    data = TensorDataset(torch.randn(7, 4), torch.randint(2, (7,)))
    loader = DataLoader(data, batch_size=3, shuffle=True)
    model = small_model()
    return [F.cross_entropy(model(x), y).item() for x, y in loader]


@program
def normalized_batches() -> Any:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2))
    for _ in range(2):
        model(torch.randn(2, 1, 8, 8)).sum().backward()
    model.eval()
    return model(torch.ones(1, 1, 8, 8)), dict(model.named_buffers())


@program
def weight_norms() -> Any:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    other = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))
    (layer(matrix()) + other(matrix())).square().sum().backward()
    return [p.grad for p in (*layer.parameters(), *other.parameters())]


@program
def vectors_of_parameters() -> Any:
    model = small_model()
    flat = nn.utils.parameters_to_vector(model.parameters())
    nn.utils.vector_to_parameters(flat * 2, model.parameters())
    return flat, [*model.parameters()]


@program
def pruned_layers() -> Any:
    layer = nn.Linear(4, 3)
    prune.l1_unstructured(layer, "weight", amount=5)
    return layer(matrix()), layer.weight_mask


@program
def functional_calls() -> Any:
    model = small_model()
    parameters = {n: p.detach() + 1 for n, p in model.named_parameters()}
    per_sample = torch.func.vmap(
        torch.func.grad(lambda p, x: torch.func.functional_call(model, p, x).sum()), (None, 0)
    )
    return torch.func.functional_call(model, parameters, matrix()), per_sample(parameters, matrix())


@program
def autocast() -> Any:
    model = small_model()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(matrix())
        loss = y.float().square().mean()
    loss.backward()
    return y.dtype, loss.dtype, [p.grad for p in model.parameters()]


@program
def scaled_gradients() -> Any:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(model(matrix()).square().mean()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale(), [*model.parameters()]


@program
def models_in_other_types() -> Any:
    model = small_model().double()
    half = copy.deepcopy(model).to(torch.bfloat16)
    return model(matrix().double()), half(matrix().bfloat16()), half[0].weight.dtype
