"""A training step as one function: gradients, what they are stored in, and what stays of them."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import minitorch2
from minitorch2 import stages
from minitorch2.bytecode.compiling import compile_frame
from minitorch2.bytecode.dispatch import region
from minitorch2.foundation.generated_code import is_generated
from minitorch2.native.torch_internals.accumulators import accumulator
from minitorch2.testing.assertions import assert_same


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def batch(size=5):
    generator = torch.Generator().manual_seed(size)
    return torch.randn(size, 4, generator=generator)


def compiled(function, **options):
    return minitorch2.compile(function, **{"backend": "aot_eager", "fullgraph": True, **options})


def grads(model):
    return [p.grad for p in model.parameters()]


# Generated code -----------------------------------------------------------------------------------


@pytest.fixture
def analysed(monkeypatch):
    """The code of all frames that are analysed."""
    codes = []
    original = compile_frame.compile_frame

    def noting(frame, compiler):
        codes.append(frame.code)
        return original(frame, compiler)

    monkeypatch.setattr(region, "compile_frame", noting)
    return codes


def test_the_backward_graph_that_a_break_runs_is_not_captured(analysed):
    model = small_model()

    def step(x):
        loss = model(x).square().sum()
        torch.initial_seed()
        loss.backward()
        return loss.detach()

    compiled(step, fullgraph=False, backend="numba")(batch())
    expected = small_model()
    expected(batch()).square().sum().backward()
    torch.testing.assert_close(grads(model), grads(expected))
    assert {code.co_filename for code in analysed} == {__file__}
    assert {code.co_name for code in analysed} == {"step"}


def test_a_compiled_function_that_uncaptured_code_calls_is_not_captured_again(analysed):
    inner = compiled(lambda x: x.sin() + 1, backend="numba")

    def key(x):
        return inner(x).sum().item()

    def outer(x):
        return sorted([x, x + 1], key=key)

    compiled(outer, fullgraph=False)(batch())
    compiled(lambda x: [*map(inner, [x])], fullgraph=False)(batch())
    assert not [code for code in analysed if is_generated(code.co_filename)]
    assert all(code.co_freevars != ("run",) for code in analysed)


# One graph ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
def test_a_step_is_one_graph(backend):
    def trained(compile):
        model = small_model()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            return loss

        step = compile(step)
        return [step(batch(size)) for size in (5, 5, 7)], [*model.parameters()], grads(model)

    expected = trained(lambda f: f)
    with stages.collect() as log:
        given = trained(lambda f: compiled(f, backend=backend))
    torch.testing.assert_close(given, expected)
    assert log.counts["graph_breaks"] == 0
    assert log.counts["frames"] == log.counts["graphs"] == 3  # no gradients yet, gradients, sizes


def test_a_second_backward_is_eagers_error():
    model = small_model()

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        return loss

    loss = compiled(step)(batch())
    assert loss.requires_grad and not loss.is_leaf
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


def test_a_retained_graph_is_differentiated_outside():
    def run(compile):
        model = small_model()

        def step(x):
            loss = model(x).square().mean()
            loss.backward(retain_graph=True)
            return loss * 2

        compile(step)(batch()).backward()
        return grads(model)

    torch.testing.assert_close(run(compiled), run(lambda f: f))


def test_what_was_written_in_between_is_eagers_error():
    model = small_model()

    def step(x):
        out = model(x)
        out.square().mean().backward(retain_graph=True)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
        return out

    out = compiled(step)(batch())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_gradients_add_up_in_the_tensor_that_is_there():
    model = small_model()

    def accumulate(x):
        model(x).square().mean().backward()

    step = compiled(accumulate)
    step(batch())
    first = grads(model)
    before = [g.clone() for g in first]
    step(batch())
    assert all(a is b for a, b in zip(grads(model), first, strict=True))
    torch.testing.assert_close(first, [g * 2 for g in before])


def test_zeroed_gradients_stay_the_same_tensors():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x):
        optimizer.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        optimizer.step()

    step = compiled(train)
    step(batch())
    first = grads(model)
    step(batch())
    assert all(a is b for a, b in zip(grads(model), first, strict=True))


@pytest.mark.parametrize("weight", [torch.ones(3, 4), torch.ones(4, 3).t(), torch.ones(6, 4)[::2]])
def test_gradients_lie_in_memory_as_eagers(weight):
    def stride(compile):
        leaf = weight.clone(memory_format=torch.preserve_format).requires_grad_()
        if weight.stride() == (8, 1):
            leaf = torch.empty_strided((3, 4), (8, 1)).fill_(1).requires_grad_()

        def step(x):
            (x.t() * leaf).sum().backward()

        compile(step)(torch.ones(4, 3))
        return leaf.grad.stride()

    assert stride(compiled) == stride(lambda f: f)


def test_one_gradient_for_two_leaves_is_two_tensors():
    def run(compile):
        a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        weight = torch.full((3,), 2.0)

        def step(weight):
            (a + b).backward(weight)

        compile(step)(weight)
        a.grad.add_(1)
        return a.grad, b.grad, weight

    torch.testing.assert_close(run(compiled), run(lambda f: f))


def test_gradients_of_gradients():
    def run(compile):
        model = small_model()

        def residual(x):
            x = x.detach().clone()
            weight = next(model.parameters())
            (slope,) = torch.autograd.grad(model(x).sum(), weight, create_graph=True)
            (curve,) = torch.autograd.grad(slope.square().sum(), weight, create_graph=True)
            (slope.mean() + curve.square().mean()).backward()
            return slope.detach()

        return compile(residual)(batch()), grads(model)

    torch.testing.assert_close(run(compiled), run(lambda f: f))


def test_a_gradient_that_flows_on_breaks():
    def run(compile):
        model = small_model()
        hidden = model[0](batch())

        def step(hidden):
            model[2](hidden).square().mean().backward()
            return hidden.detach() + 1

        return compile(step)(hidden), grads(model)

    with stages.collect() as log:
        given = run(lambda f: compiled(f, fullgraph=False))
    torch.testing.assert_close(given, run(lambda f: f))
    assert "[autograd-engine]" in log.texts("graph_break")[0]


def test_a_gradient_that_flows_through_another_input_breaks():
    def run(compile):
        weight = torch.ones(3, requires_grad=True)
        hidden = weight * 3

        def ask(weight, hidden):
            return torch.autograd.grad((weight * hidden).sum(), weight)

        return compile(ask)(weight, hidden)

    torch.testing.assert_close(run(lambda f: compiled(f, fullgraph=False)), run(lambda f: f))


def test_a_hook_that_is_set_later_is_called():
    seen = []
    model = small_model()

    def step(x):
        model(x).square().mean().backward()

    fast = compiled(step, fullgraph=False)
    fast(batch())
    next(model.parameters()).register_post_accumulate_grad_hook(lambda p: seen.append(p.shape))
    fast(batch())
    assert seen == [(6, 4)]


def test_no_gradient_is_asked_for_where_none_can_be():
    def step(x):
        loss = x.sum()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="does not require grad"):
        compiled(step)(batch())


def test_frozen_and_unused_parameters_have_no_gradient():
    model = small_model()
    model[0].weight.requires_grad_(False)
    idle = nn.Parameter(torch.ones(2))

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        return idle.grad

    fast = compiled(step)
    assert fast(batch()) is None and model[0].weight.grad is None
    model[0].weight.requires_grad_(True)
    fast(batch())
    assert model[0].weight.grad is not None


def test_a_double_model_is_updated_in_double_precision():
    def trained(compile):
        model = small_model().double()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        def step(x):
            optimizer.zero_grad()
            F.mse_loss(model(x), torch.zeros(5, 3, dtype=torch.float64)).backward()
            optimizer.step()

        step = compile(step)
        for _ in range(3):
            step(batch().double())
        return [*model.parameters()]

    torch.testing.assert_close(trained(compiled), trained(lambda f: f), rtol=1e-12, atol=1e-14)


def test_a_checkpoint_around_a_compiled_module():
    def trained(compile):
        model = small_model()
        run = compile(model)

        def block(x):
            return torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            block(block(batch()) @ torch.ones(3, 4)).square().sum().backward()
        return grads(model)

    torch.testing.assert_close(trained(compiled), trained(lambda f: f))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
@pytest.mark.parametrize("part", ["block", "step"])
def test_statistics_in_a_checkpoint_are_updated_twice(part, backend):
    """Regression: eager computes a checkpoint again in backward, and updates them again."""

    def trained(compile):
        torch.manual_seed(0)
        block = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh())
        run = compile(block) if part == "block" else block

        def step(x):
            return torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False).square().sum()

        step = compile(step) if part == "step" else step
        for size in (5, 5, 7):
            step(batch(size)).backward()
        return grads(block), [b.clone() for b in block.buffers()]

    given = trained(lambda f: compiled(f, fullgraph=False, backend=backend))
    torch.testing.assert_close(given, trained(lambda f: f))


# Leaves that the program makes, and gradients that are retained ----------------------------------


def test_the_penalty_of_a_gradient_is_one_graph():
    def trained(compile):
        critic = small_model()
        optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)

        def step(real):
            optimizer.zero_grad()
            between = (0.3 * real + 0.7 * real.flip(0)).requires_grad_(True)
            (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
            penalty = (slope.norm(dim=1) - 1).square().mean()
            (critic(real).mean() + 10 * penalty).backward()
            optimizer.step()
            return penalty.detach()

        step = compile(step)
        return [step(batch()) for _ in range(3)], [*critic.parameters()]

    torch.testing.assert_close(trained(compiled), trained(lambda f: f))


def test_second_derivatives_of_an_input():
    def trained(compile):
        model = small_model()

        def residual(x):
            x = x.clone().requires_grad_()
            (first,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            (second,) = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)
            loss = (first[:, 1] - 0.1 * second[:, 0]).square().mean()
            loss.backward()
            return loss.detach()

        return compile(residual)(batch()), grads(model)

    torch.testing.assert_close(trained(compiled), trained(lambda f: f))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_depends_on_a_leaf_made_inside_requires_grad(backend):
    def scaled(x):
        return nn.Parameter(torch.ones(4)) * x

    result = compiled(scaled, backend=backend)(batch())
    assert result.requires_grad and not result.is_leaf
    result.sum().backward()


def test_a_leaf_that_lives_on_gets_its_gradient_from_outside():
    def halves(x):
        leaf = x.detach().requires_grad_()
        return leaf, leaf.square()

    leaf, square = compiled(halves, fullgraph=False)(batch())
    square.sum().backward()
    torch.testing.assert_close(leaf.grad, 2 * batch())


def test_an_input_that_becomes_a_leaf():
    def attack(x):
        x.requires_grad_(True)
        x.square().sum().backward()
        return x.grad.sign()

    given = batch()
    sign = compiled(attack)(given)
    torch.testing.assert_close(sign, batch().sign())
    assert given.requires_grad and given.is_leaf
    torch.testing.assert_close(given.grad, 2 * batch())


def test_a_retained_gradient():
    def run(compile):
        model = small_model()

        def step(x):
            hidden = model[0](x)
            hidden.retain_grad()
            model[2](hidden).square().mean().backward()
            return hidden

        hidden = compile(step)(batch())
        return hidden.detach(), hidden.grad, hidden.retains_grad, grads(model)

    torch.testing.assert_close(run(compiled), run(lambda f: f))


def test_a_gradient_is_retained_when_backward_comes_later():
    def run(compile):
        model = small_model()

        def step(x):
            hidden = model[0](x)
            hidden.retain_grad()
            return hidden, model[2](hidden).square().mean()

        hidden, loss = compile(step)(batch())
        loss.backward()
        return hidden.grad

    torch.testing.assert_close(run(lambda f: compiled(f, fullgraph=False)), run(lambda f: f))


# Hooks of parameters ------------------------------------------------------------------------------


def test_hooks_change_gradients_in_the_order_of_eagers():
    def run(compile):
        model, seen = small_model(), []
        for name, parameter in model.named_parameters():
            parameter.register_hook(lambda g, name=name: seen.append(name) or g.clamp(-0.01, 0.01))

        def step(x):
            model(x).square().mean().backward()

        compile(step)(batch())
        return grads(model), [*map(hash, seen)]

    torch.testing.assert_close(run(compiled), run(lambda f: f))


def test_an_optimizer_in_backward_is_one_graph():
    def run(compile):
        model = small_model()
        optimizers = {p: torch.optim.Adam([p], lr=0.01) for p in model.parameters()}

        def update(parameter):
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(update)

        def step(x):
            loss = model(x).square().mean()
            loss.backward()
            return loss

        step = compile(step)
        return [step(batch()).detach() for _ in range(3)], [*model.parameters()], grads(model)

    torch.testing.assert_close(run(compiled), run(lambda f: f))


@pytest.mark.parametrize("setter", ["register_hook", "register_prehook"])
def test_hooks_on_accumulation_are_seen(setter):
    """Regression: `DistributedDataParallel` sets such hooks; no attribute of a tensor tells."""
    model, seen = small_model(), []
    step = compiled(lambda x: model(x).square().mean().backward(), fullgraph=False)
    nodes = [accumulator(parameter) for parameter in model.parameters()]
    with stages.collect() as log:
        step(batch())
    assert log.counts["graph_breaks"] == 0 and not seen
    for node in nodes:
        getattr(node, setter)(lambda *_: seen.append(1))
    with stages.collect() as log:
        step(batch())
    assert len(seen) == 4
    assert "[autograd-engine]" in log.texts("graph_break")[0]
    del node, nodes
    step(batch())
    assert len(seen) == 4  # gone with their nodes


# Sparse gradients, schedulers ---------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
def test_the_gradient_of_a_sparse_embedding_is_sparse(backend):
    def trained(compile):
        torch.manual_seed(0)
        table = nn.Embedding(10, 4, sparse=True)
        optimizer = torch.optim.SparseAdam(list(table.parameters()), lr=0.1)
        loss_of = compile(lambda rows: table(rows).square().sum())
        losses = []
        for rows in ([1, 2, 2], [3, 0, 9], [4, 4]):
            optimizer.zero_grad()
            loss = loss_of(torch.tensor(rows))
            loss.backward()
            assert table.weight.grad.is_sparse
            optimizer.step()
            losses.append(loss.detach())
        return losses, table.weight

    with stages.collect() as log:
        given = trained(lambda f: compiled(f, backend=backend))
    torch.testing.assert_close(given, trained(lambda f: f))
    assert log.counts["graph_breaks"] == log.counts["frames_as_is"] == 0


def test_a_sparse_gradient_inside_breaks_at_backward():
    def trained(compile):
        torch.manual_seed(0)
        table = nn.Embedding(10, 4, sparse=True)
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)

        def step(rows):
            optimizer.zero_grad()
            loss = table(rows).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = compile(step)
        return [step(torch.tensor(rows)) for rows in ([1, 2, 2], [3, 0, 9])], table.weight

    with stages.collect() as log:
        given = trained(lambda f: compiled(f, fullgraph=False))
    torch.testing.assert_close(given, trained(lambda f: f))
    assert "[tensor-layout]" in log.texts("graph_break")[0]


def test_a_scheduler_steps_in_the_graph():
    def trained(compile):
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss

        step = compile(step)
        losses = [step(batch()).detach() for _ in range(12)]
        return losses, scheduler.get_last_lr(), scheduler.last_epoch

    with stages.collect() as log:
        given = trained(lambda f: compiled(f, fullgraph=False))
    torch.testing.assert_close(given, trained(lambda f: f))
    assert log.counts["graph_breaks"] == 0
    assert log.counts["graphs"] <= 3


def test_the_first_step_leaves_nothing_to_compile_for_the_second():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    step = compiled(step)
    with stages.collect() as log:
        for _ in range(3):
            step(batch())
    assert log.counts["graphs"] == 1


# Scaled gradients, averaged weights ---------------------------------------------------------------


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_with_a_gradient_scaler_is_one_graph(fused):
    """An infinite gradient, of the first step or of a later one, skips a step as in eager."""

    def trained(compile):
        model = small_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

        def step(x, factor):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = (model(x).float() * factor).square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            return loss.detach(), scaler.get_scale()

        step, infinite = compile(step), (0, 3)
        factors = [torch.tensor(float("inf") if i in infinite else 1.0) for i in range(6)]
        results = [step(batch(), factor) for factor in factors]
        return results, [*model.parameters()], optimizer.state_dict()["state"], scaler.state_dict()

    with stages.collect() as log:
        given = trained(compiled)
    torch.testing.assert_close(given, trained(lambda f: f), equal_nan=True, rtol=1e-4, atol=1e-5)
    assert log.counts["graph_breaks"] == 0 and log.counts["graphs"] <= 3


@pytest.mark.parametrize("options", [{}, {"multi_avg_fn": get_ema_multi_avg_fn(0.9)}])
def test_averaged_weights_are_updated_in_the_graph(options):
    """Its branches on the number of updates, a buffer, are guarded: one graph for each side."""

    def trained(compile):
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        averaged = AveragedModel(model, **options)

        def step(x):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            averaged.update_parameters(model)

        step = compile(step)
        for _ in range(4):
            step(batch())
        return averaged.state_dict()

    with stages.collect() as log:
        given = trained(compiled)
    torch.testing.assert_close(given, trained(lambda f: f))
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (2, 0)


def test_branches_on_what_a_module_counts_are_guarded():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.tensor(0))
            self.register_buffer("is_set", torch.tensor(False))
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x):
            if not self.is_set:
                self.mean.copy_(x.mean(0))
                self.is_set.fill_(True)
            if self.calls % 3 == 2:
                x = x * 2
            y = x * 3 if (self.calls > 2) & (self.calls < 5) else x
            self.calls += 1
            return y - self.mean

    model, eager = Counting(), Counting()
    with stages.collect() as log:
        fast = compiled(model, dynamic=True)
        for size in (3, 3, 4, 3, 5, 3, 3, 3):
            torch.testing.assert_close(fast(batch(size)), eager(batch(size)))
    assert log.counts["graph_breaks"] == 0 and log.counts["graphs"] <= 5


def test_a_branch_on_a_buffer_that_was_written_to_breaks():
    """The guard sees what the buffer was in front of the graph."""

    class Counting(nn.BatchNorm1d):
        def forward(self, x):
            self.num_batches_tracked.add_(1)
            return x * 2 if self.num_batches_tracked == 2 else x

    model, eager = Counting(4), Counting(4)
    fast = compiled(model, fullgraph=False)
    for _ in range(4):
        torch.testing.assert_close(fast(batch()), eager(batch()))


LOSSES = [1.0, 0.5, 0.6, 0.7, 0.49999, 0.8, float("nan"), 1.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.05]


@pytest.mark.parametrize("rate", ["number", "tensor"])
@pytest.mark.parametrize(
    "options",
    [
        {"patience": 1},
        {"patience": 0, "cooldown": 2, "mode": "max"},
        {"patience": 0, "min_lr": [0.05, 0.1], "eps": 0.01, "threshold_mode": "abs"},
    ],
    ids=str,
)
def test_a_plateau_is_found_inside_of_the_graph(options, rate):
    def run(compile):
        weights = [torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)]
        lr = torch.tensor(0.1) if rate == "tensor" else 0.1
        groups = [{"params": weights[:1]}, {"params": weights[1:], "lr": 0.2}]
        optimizer = torch.optim.SGD(groups, lr=lr, momentum=0.9)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)

        @compile
        def step(x, loss):
            optimizer.zero_grad()
            (weights[0] * x + weights[1]).sum().backward()
            optimizer.step()
            plateau.step(loss)

        history = []
        for loss in LOSSES:
            step(torch.ones(2), torch.tensor(loss))
            rates = [float(group["lr"]) for group in optimizer.param_groups]
            history.append((rates, plateau.best, plateau.num_bad_epochs, plateau.cooldown_counter))
        return history, plateau.last_epoch, [w.detach() for w in weights]

    with stages.collect() as log:
        got = run(lambda f: minitorch2.compile(f, fullgraph=True))
    assert_same(got, run(lambda f: f), 1e-6)
    assert log.counts["graphs"] <= 4  # numbers that change become inputs


@pytest.mark.parametrize("options", [{}, {"lr": 0.1, "weight_decay": 0.01}, {"maximize": True}])
def test_adafactor_is_one_graph(options):
    def run(compile):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        optimizer = torch.optim.Adafactor(model.parameters(), **options)

        @compile
        def step(x):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return [step(torch.randn(5, 3)) for _ in range(4)], [p.detach() for p in model.parameters()]

    with stages.collect() as log:
        got = run(lambda f: minitorch2.compile(f, fullgraph=True))
    assert_same(got, run(lambda f: f), 1e-6)
    assert not log.counts["graph_breaks"] and log.counts["graphs"] <= 2


class Doubled(torch.optim.lr_scheduler.ReduceLROnPlateau):
    """A plateau with a step of its own."""

    def step(self, metrics, epoch=None):
        super().step(2 * metrics, epoch)


@pytest.mark.parametrize("epoch", [None, 3])
@pytest.mark.parametrize("kind", [torch.optim.lr_scheduler.ReduceLROnPlateau, Doubled])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_plateau_without_a_stand_in_is_pytorchs(kind, epoch):
    """Regression: behind the break the stand-in ran, which raised NotImplementedError."""

    def run(compile):
        weight = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        plateau = kind(optimizer, patience=0)

        @compile
        def step(loss):
            plateau.step(loss) if epoch is None else plateau.step(loss, epoch)
            return loss + 1

        for loss in LOSSES:
            step(torch.tensor(loss))
        return optimizer.param_groups[0]["lr"], plateau.best, plateau.last_epoch

    assert_same(run(minitorch2.compile), run(lambda f: f), 1e-6)


def test_a_hook_behind_a_gradient_may_return_nothing():
    """Regression: PyTorch's error was lost."""

    def program(x):
        x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad.mul_(5))
        (x * 2).sum().backward()

    for run in (program, minitorch2.compile(program)):
        with pytest.raises(RuntimeError, match="post accumulate grad hooks should return None"):
            run(torch.ones(3, requires_grad=True))
