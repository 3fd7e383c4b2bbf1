"""The styles of random training programs: what a step does, and which of it is compiled.

A style makes the function that a loop calls.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import lr_scheduler, swa_utils

from tests.property.training_parts import CLASSES

Compile = Callable[[Any], Any]
Step = Callable[[Tensor, Tensor], Any]


@dataclass
class Training:
    """What a style trains: the parts are the same, whatever the style."""

    model: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: torch.optim.Optimizer
    compile: Compile
    seen: list[Any] = field(default_factory=list)
    """What is compared besides."""
    kept: list[Any] = field(default_factory=list)
    """What must live as long."""

    def parameters(self) -> list[nn.Parameter]:
        return list(self.model.parameters())

    def update(self, x: Tensor, y: Tensor) -> Tensor:
        """An ordinary step."""
        self.optimizer.zero_grad()
        loss = self.loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss


Style = Callable[[Training], Step]

ONE_GRAPH: dict[str, Style] = {}
"""Styles in which the compiled function is one graph."""
SEVERAL_GRAPHS: dict[str, Style] = {}
"""Styles in which it breaks, or in which several functions are compiled."""


def one_graph(style: Style) -> Style:
    """Register a style."""
    ONE_GRAPH[style.__name__] = style
    return style


def several_graphs(style: Style) -> Style:
    """Register a style."""
    SEVERAL_GRAPHS[style.__name__] = style
    return style


@one_graph
def ordinary(t: Training) -> Step:
    """zero_grad, loss, backward, step"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        loss.backward()
        t.optimizer.step()
        return loss

    return t.compile(step)


@one_graph
def zeros_kept(t: Training) -> Step:
    """gradients are set to zero behind the step; the loss is detached"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = t.loss(t.model(x), y)
        loss.backward()
        t.optimizer.step()
        t.optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    return t.compile(step)


@one_graph
def accumulated(t: Training) -> Step:
    """micro-batches in a Python loop"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        total = torch.zeros((), dtype=x.dtype)
        for part, labels in zip(x.chunk(2), y.chunk(2), strict=True):
            loss = t.loss(t.model(part), labels) / 2
            loss.backward()
            total += loss.detach()
        t.optimizer.step()
        return total

    return t.compile(step)


@one_graph
def clipped_norm(t: Training) -> Step:
    """clip_grad_norm_"""

    def step(x: Tensor, y: Tensor) -> Any:
        t.optimizer.zero_grad(set_to_none=True)
        loss = t.loss(t.model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(t.model.parameters(), 0.5)
        t.optimizer.step()
        return loss, norm

    return t.compile(step)


@one_graph
def clipped_value(t: Training) -> Step:
    """clip_grad_value_, and the module's own zero_grad"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.model.zero_grad()
        loss = t.loss(t.model(x), y)
        loss.backward()
        nn.utils.clip_grad_value_(t.model.parameters(), 0.05)
        t.optimizer.step()
        return loss

    return t.compile(step)


@one_graph
def by_hand(t: Training) -> Step:
    """updates under no_grad, gradients set to None by hand"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = t.loss(t.model(x), y)
        loss.backward()
        with torch.no_grad():
            for parameter in t.model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.05 * parameter.grad
                    parameter.grad = None
        return loss

    return t.compile(step)


@one_graph
def asked_for(t: Training) -> Step:
    """torch.autograd.grad, and updates of .data"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        wanted = [p for p in t.model.parameters() if p.requires_grad]
        loss = t.loss(t.model(x), y)
        found = torch.autograd.grad(loss, wanted, allow_unused=True)
        for parameter, gradient in zip(wanted, found, strict=True):
            if gradient is not None:
                parameter.data.add_(gradient, alpha=-0.05)
        return loss

    return t.compile(step)


@one_graph
def gradients_only(t: Training) -> Step:
    """the optimizer runs outside"""

    def gradients(x: Tensor, y: Tensor) -> Tensor:
        loss = t.loss(t.model(x), y)
        loss.backward()
        return loss

    compiled = t.compile(gradients)

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = compiled(x, y)
        t.optimizer.step()
        return loss

    return step


@one_graph
def averaged(t: Training) -> Step:
    """an exponential moving average of the parameters"""
    averages = [p.detach().clone() for p in t.parameters()]
    t.seen.append(averages)

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        loss.backward()
        t.optimizer.step()
        with torch.no_grad():
            for average, parameter in zip(averages, t.model.parameters(), strict=True):
                average.lerp_(parameter, 0.1)
        return loss

    return t.compile(step)


@one_graph
def twice_backward(t: Training) -> Step:
    """two losses of one output, the graph retained in between"""

    def step(x: Tensor, y: Tensor) -> Any:
        t.optimizer.zero_grad()
        out = t.model(x)
        loss, penalty = t.loss(out, y), out.square().mean()
        loss.backward(retain_graph=True)
        penalty.backward()
        t.optimizer.step()
        return loss.detach(), penalty.detach()

    return t.compile(step)


@one_graph
def penalized(t: Training) -> Step:
    """the norm of the gradients is part of the loss"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        wanted = [p for p in t.model.parameters() if p.requires_grad]
        loss = t.loss(t.model(x), y)
        found = torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
        norm = sum((g.square().sum() for g in found if g is not None), torch.zeros(()))
        (loss + 0.01 * norm).backward()
        t.optimizer.step()
        return loss.detach()

    return t.compile(step)


@one_graph
def in_autocast(t: Training) -> Step:
    """the forward pass in bfloat16"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            out = t.model(x)
        loss = t.loss(out.to(x.dtype), y)
        loss.backward()
        t.optimizer.step()
        return loss

    return t.compile(step)


@one_graph
def weighted(t: Training) -> Step:
    """backward with a gradient of its own, into some leaves only"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        wanted = [p for p in t.model.parameters() if p.requires_grad][-2:]
        out = t.model(x)
        out.backward(torch.softmax(out.detach(), -1) - F.one_hot(y, CLASSES), inputs=wanted)
        t.optimizer.step()
        return out.detach()

    return t.compile(step)


@several_graphs
def forward_only(t: Training) -> Step:
    """the model is compiled, and nothing else"""
    compiled = t.compile(t.model)

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(compiled(x), y)
        loss.backward()
        t.optimizer.step()
        return loss

    return step


@several_graphs
def parts(t: Training) -> Step:
    """model, loss and optimizer are compiled on their own"""
    model, loss_of, update = t.compile(t.model), t.compile(t.loss), t.compile(t.optimizer.step)

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        update()
        return loss

    return step


@several_graphs
def broken_before(t: Training) -> Step:
    """a break between the forward pass and backward"""
    losses: list[float] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        if loss.item() > -1e9:
            losses.append(0.0)
        torch.initial_seed()
        loss.backward()
        t.optimizer.step()
        return loss

    return t.compile(step)


@several_graphs
def broken_behind(t: Training) -> Step:
    """a break between backward and the optimizer"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        loss.backward()
        torch.initial_seed()
        t.optimizer.step()
        return loss

    return t.compile(step)


@several_graphs
def with_closure(t: Training) -> Step:
    """the optimizer calls backward"""

    def step(x: Tensor, y: Tensor) -> Any:
        def closure() -> Tensor:
            t.optimizer.zero_grad()
            loss = t.loss(t.model(x), y)
            loss.backward()
            return loss

        return t.optimizer.step(closure)

    return t.compile(step)


@several_graphs
def frozen_in_turn(t: Training) -> Step:
    """a part of the model is frozen in every other step"""
    count = 0

    def train(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        loss.backward()
        t.optimizer.step()
        return loss

    compiled = t.compile(train)
    first = t.parameters()[0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        nonlocal count
        count += 1
        first.requires_grad_(count % 2 == 1)
        return compiled(x, y)

    return step


# Schedules, averages and scalers ------------------------------------------------------------------

SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "step": lambda o: lr_scheduler.StepLR(o, 2, 0.5),
    "steps": lambda o: lr_scheduler.MultiStepLR(o, [1, 3]),
    "constant": lambda o: lr_scheduler.ConstantLR(o, 0.5, 2),
    "linear": lambda o: lr_scheduler.LinearLR(o, 0.5, total_iters=3),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "polynomial": lambda o: lr_scheduler.PolynomialLR(o, 5, 2.0),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.001, 0.01, 2, cycle_momentum=False),
    "one_cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.01, 8, cycle_momentum=False),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "multiplicative": lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.8),
    "sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1), lr_scheduler.ExponentialLR(o, 0.9)], [2]
    ),
    "chained": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.1), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    "swa": lambda o: swa_utils.SWALR(o, 0.02, anneal_epochs=3),
}


def _scheduled(t: Training, make: Callable[[torch.optim.Optimizer], Any]) -> Step:
    scheduler = make(t.optimizer)

    def step(x: Tensor, y: Tensor) -> Any:
        loss = t.update(x, y)
        scheduler.step()
        return loss, scheduler.get_last_lr()

    return t.compile(step)


for _name, _make in SCHEDULERS.items():
    SEVERAL_GRAPHS[f"scheduled_{_name}"] = partial(_scheduled, make=_make)


@several_graphs
def on_plateau(t: Training) -> Step:
    """the learning rate falls where the loss does not"""
    scheduler = lr_scheduler.ReduceLROnPlateau(t.optimizer, patience=0, threshold=0.9)

    def step(x: Tensor, y: Tensor) -> Any:
        loss = t.update(x, y)
        scheduler.step(loss)
        return loss, scheduler.get_last_lr(), scheduler.num_bad_epochs

    return t.compile(step)


@several_graphs
def averaged_model(t: Training) -> Step:
    """stochastic weight averaging, whose count is a tensor"""
    average = swa_utils.AveragedModel(t.model)
    t.seen.append(average)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = t.update(x, y)
        average.update_parameters(t.model)
        return loss

    return t.compile(step)


@several_graphs
def averaged_exponentially(t: Training) -> Step:
    """the same with an exponential moving average, and buffers"""
    multi = swa_utils.get_ema_multi_avg_fn(0.9)
    average = swa_utils.AveragedModel(t.model, multi_avg_fn=multi, use_buffers=True)
    t.seen.append(average)

    def step(x: Tensor, y: Tensor) -> Any:
        loss = t.update(x, y)
        average.update_parameters(t.model)
        return loss, average(x)

    return t.compile(step)


@several_graphs
def scaled(t: Training) -> Step:
    """a GradScaler, whose step depends on data"""
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        scaler.scale(loss).backward()
        scaler.step(t.optimizer)
        scaler.update()
        return loss

    return t.compile(step)


@several_graphs
def scaled_and_clipped(t: Training) -> Step:
    """a GradScaler that meets infinite gradients, and clipping in between"""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=2)

    def step(x: Tensor, y: Tensor) -> Any:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        scaler.scale(loss * 1e280).backward()
        scaler.unscale_(t.optimizer)
        norm = nn.utils.clip_grad_norm_(t.model.parameters(), 1.0)
        scaler.step(t.optimizer)
        scaler.update()
        return loss, norm.isfinite(), scaler.get_scale()

    return t.compile(step)


# What changes between steps -----------------------------------------------------------------------


@several_graphs
def accumulated_over_calls(t: Training) -> Step:
    """every other call updates"""
    count = 0

    def step(x: Tensor, y: Tensor) -> Tensor:
        nonlocal count
        loss = t.loss(t.model(x), y) / 2
        loss.backward()
        count += 1
        if count % 2 == 0:
            t.optimizer.step()
            t.optimizer.zero_grad()
        return loss

    return t.compile(step)


@several_graphs
def grown(t: Training) -> Step:
    """a group of parameters is added later"""
    scale = nn.Parameter(torch.ones(CLASSES, dtype=torch.float64))
    t.seen.append(scale)
    count = 0

    def train(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x) * scale, y)
        loss.backward()
        t.optimizer.step()
        return loss

    compiled = t.compile(train)

    def step(x: Tensor, y: Tensor) -> Tensor:
        nonlocal count
        count += 1
        if count == 2 and type(t.optimizer).__name__ not in ("LBFGS", "Muon"):
            t.optimizer.add_param_group({"params": [scale], "lr": 0.02})
        return compiled(x, y)

    return step


@several_graphs
def restored(t: Training) -> Step:
    """the states of model and optimizer are saved, and loaded again later"""
    compiled = t.compile(t.update)
    saved: list[Any] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = compiled(x, y)
        saved.append(copy.deepcopy((t.model.state_dict(), t.optimizer.state_dict())))
        if len(saved) == 3:
            t.model.load_state_dict(saved[0][0])
            t.optimizer.load_state_dict(saved[0][1])
        return loss

    return step


@several_graphs
def rate_set(t: Training) -> Step:
    """the learning rate is another number in each step, as nanoGPT sets it"""
    compiled = t.compile(t.update)
    count = 0

    def step(x: Tensor, y: Tensor) -> Tensor:
        nonlocal count
        count += 1
        for group in t.optimizer.param_groups:
            if isinstance(group["lr"], float):
                group["lr"] = 0.01 / count
        return compiled(x, y)

    return step


@several_graphs
def validated(t: Training) -> Step:
    """the same compiled model is evaluated in between"""
    model = t.compile(t.model)
    compiled = t.compile(t.update)

    def step(x: Tensor, y: Tensor) -> Any:
        loss = compiled(x, y)
        t.model.eval()
        with torch.no_grad():
            seen = model(x)
        t.model.train()
        return loss, seen

    return step


@several_graphs
def unfrozen_inside(t: Training) -> Step:
    """a parameter is frozen and thawed inside"""
    first = t.parameters()[0]
    count = 0

    def step(x: Tensor, y: Tensor) -> Tensor:
        nonlocal count
        count += 1
        first.requires_grad_(count != 2)
        return t.update(x, y)

    return t.compile(step)


# Hooks --------------------------------------------------------------------------------------------


@one_graph
def optimizer_hooks(t: Training) -> Step:
    """hooks before and behind the optimizer's step"""
    seen: list[str] = []
    t.seen.append(seen)

    def halve(optimizer: Any, args: Any, kwargs: Any) -> None:
        seen.append("before")
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.mul_(0.5)

    t.optimizer.register_step_pre_hook(halve)
    t.optimizer.register_step_post_hook(lambda *_: seen.append("behind"))
    return t.compile(t.update)


@one_graph
def gradient_hooks(t: Training) -> Step:
    """hooks of parameters: before and behind the accumulation"""
    norms: list[Tensor] = []
    for parameter in t.parameters():
        if parameter.requires_grad:
            parameter.register_hook(lambda g: g * 0.5)
            parameter.register_post_accumulate_grad_hook(
                lambda p: norms.append(p.grad.detach().abs().sum())
            )

    def step(x: Tensor, y: Tensor) -> Any:
        norms.clear()
        return t.update(x, y), torch.stack(norms).sum()

    return t.compile(step)


@several_graphs
def reduced_in_backward(t: Training) -> Step:
    """hooks on the accumulation nodes, as `DistributedDataParallel` sets them"""
    arrived = [0] * len(t.parameters())  # not their order: a compiled graph gives all at once
    t.seen.append(arrived)

    def note(place: int) -> None:
        arrived[place] += 1

    for place, parameter in enumerate(t.parameters()):
        if parameter.requires_grad:
            node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
            node.register_hook(lambda *_, place=place: note(place))
            t.kept.append(node)
    return t.compile(t.update)


@one_graph
def hooks_of_leaves_inside(t: Training) -> Step:
    """hooks of parameters that a step sets and removes, before and behind the accumulation"""

    def step(x: Tensor, y: Tensor) -> Any:
        norms: list[Tensor] = []
        handles = []
        for parameter in t.parameters():
            if parameter.requires_grad:
                handles.append(parameter.register_hook(lambda g: g * 0.5))
                hook: Any = lambda p: norms.append(p.grad.detach().abs().sum())  # noqa: E731
                handles.append(parameter.register_post_accumulate_grad_hook(hook))
        loss = t.update(x, y)
        for handle in handles:
            handle.remove()
        return loss, torch.stack(norms).sum()

    return t.compile(step)


@one_graph
def hooks_of_modules_inside(t: Training) -> Step:
    """hooks of a module that a step sets and removes"""

    def step(x: Tensor, y: Tensor) -> Any:
        seen: list[Tensor] = []
        before = t.model.register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))
        behind = t.model.register_forward_hook(lambda module, args, out: seen.append(out.detach()))
        with before, behind:
            loss = t.update(x, y)
        return loss, seen[0], t.model(x).detach()

    return t.compile(step)


@one_graph
def hooks_with_effects_inside(t: Training) -> Step:
    """hooks on what the model computes, one of which keeps what it sees"""

    def step(x: Tensor, y: Tensor) -> Any:
        seen: list[Tensor] = []
        t.optimizer.zero_grad()
        out = t.model(x)
        out.register_hook(lambda g: seen.append(g.detach()))
        out.register_hook(lambda g: g * 0.5)
        loss = t.loss(out, y)
        loss.backward()
        t.optimizer.step()
        return loss, seen

    return t.compile(step)


@several_graphs
def hooked_inside(t: Training) -> Step:
    """a hook on a tensor of the graph"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        out = t.model(x)
        out.register_hook(lambda g: g.clamp(-0.1, 0.1))
        loss = t.loss(out, y)
        loss.backward()
        t.optimizer.step()
        return loss

    return t.compile(step)


# Gradients of gradients ---------------------------------------------------------------------------


@one_graph
def smoothed_in_input(t: Training) -> Step:
    """a penalty on the gradient of the input"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        x = x.detach().requires_grad_()
        out = t.model(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True, allow_unused=True)
        loss = t.loss(out, y)
        if slope is not None:
            loss = loss + 0.1 * (slope.square().sum(1) + 1).sqrt().mean()
        loss.backward()
        t.optimizer.step()
        return loss.detach()

    return t.compile(step)


@one_graph
def attacked(t: Training) -> Step:
    """training on examples that were moved along their gradients"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        moved = x.clone().requires_grad_()
        found = torch.autograd.grad(t.loss(t.model(moved), y), moved, allow_unused=True)
        if found[0] is not None:
            moved = (moved + 0.1 * found[0]).detach()
        return t.update(moved, y)

    return t.compile(step)


@one_graph
def two_losses(t: Training) -> Step:
    """losses of two batches, differentiated together"""

    def step(x: Tensor, y: Tensor) -> Any:
        t.optimizer.zero_grad()
        losses = [t.loss(t.model(part), y) for part in (x, x * 0.5)]
        torch.autograd.backward(losses, [torch.ones_like(losses[0]), 0.3 * losses[1].detach()])
        t.optimizer.step()
        return [loss.detach() for loss in losses]

    return t.compile(step)


@several_graphs
def differentiable_optimizer(t: Training) -> Step:
    """learning to learn: through a step of an optimizer"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        names, slow = zip(*t.model.named_parameters(), strict=True)
        wanted = [p for p in slow if p.requires_grad]
        loss = t.loss(t.model(x), y)
        found = torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
        fast = [p.clone() for p in slow]
        inner = torch.optim.SGD(fast, lr=0.1, differentiable=True)
        gradients = iter(found)
        for each, origin in zip(fast, slow, strict=True):
            each.grad = next(gradients) if origin.requires_grad else None
        inner.step()
        out = torch.func.functional_call(t.model, dict(zip(names, fast, strict=True)), (x,))
        loss = t.loss(out, y)
        loss.backward()
        t.optimizer.step()
        return loss.detach()

    return t.compile(step)


@one_graph
def functional(t: Training) -> Step:
    """`torch.func.grad_and_value` of the parameters as a dict"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        weights = dict(t.model.named_parameters())

        def loss_of(given: dict[str, Tensor]) -> Tensor:
            return t.loss(torch.func.functional_call(t.model, given, (x,)), y)

        found, loss = torch.func.grad_and_value(loss_of)(weights)
        with torch.no_grad():
            for name, gradient in found.items():
                if weights[name].requires_grad:
                    weights[name].sub_(0.05 * gradient)
        return loss

    return t.compile(step)


STYLES: dict[str, Style] = {**ONE_GRAPH, **SEVERAL_GRAPHS}
