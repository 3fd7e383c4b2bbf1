"""Programs of several processes. Each trains twice from one state, eagerly and compiled.

A program takes ``compile``; it returns losses, gradients and what its collectives have seen.
"""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import minitorch2
from minitorch2 import stages

PLACE = ["around"]
"""Whether DDP models are compiled from around or inside: `compile(DDP(m))` or `DDP(compile(m))`."""


def compare(name, backend="aot_eager", place="around"):
    """Run a program eagerly and compiled; return both results and the counts of compiling."""
    program, PLACE[:] = globals()[name], [place]
    torch.manual_seed(0)
    expected = program(lambda f: f)
    torch.manual_seed(0)
    with stages.collect() as log:
        found = program(lambda f: minitorch2.compile(f, backend=backend))
    return expected, found, dict(log.counts)


def batch(step, rows=4):
    """Return a batch that is this rank's own."""
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    return torch.randn(rows, 8, generator=generator)


class Net(nn.Module):
    """A small model with a parameter that nothing uses and one that some calls use."""

    def __init__(self, extra=False):
        super().__init__()
        generator = torch.random.get_rng_state()
        torch.manual_seed(7)
        self.layers = nn.Sequential(
            nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)
        )
        self.extra = nn.Linear(4, 4) if extra else None
        self.idle = nn.Linear(3, 3) if extra else None
        torch.random.set_rng_state(generator)

    def forward(self, x, more=False):
        x = self.layers(x)
        return self.extra(x) if more else x


def gradients(model):
    """Return all gradients, whole, by name."""
    found = {}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        if hasattr(gradient, "full_tensor"):
            gradient = gradient.full_tensor()
        found[name.rpartition("module.")[2]] = None if gradient is None else gradient.clone()
    return found


def train(run, model, steps=3):
    """Train; return the losses and the last gradients."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = run(batch(step)).float().square().mean()
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    return losses, gradients(model)


def distributed(compile, net=None, **options):
    """Return a model that DDP wraps, with buckets of one layer each, and what is called."""
    net = net or Net()
    options = {"bucket_cap_mb": 0.001, **options}
    if PLACE == ["inside"]:
        model = DistributedDataParallel(compile(net), **options)
        return model, model
    model = DistributedDataParallel(net, **options)
    return model, compile(model)


def around(compile, **options):
    """compile(DDP(m))"""
    model = DistributedDataParallel(Net(), bucket_cap_mb=0.001, **options)
    return train(compile(model), model)


def inside(compile, **options):
    """DDP(compile(m))"""
    net = Net()
    model = DistributedDataParallel(compile(net), bucket_cap_mb=0.001, **options)
    return train(model, net)


def static_graph(compile):
    """the first step tells what all later steps use"""
    model, run = distributed(compile, static_graph=True)
    return train(run, model)


def bucket_views(compile):
    """gradients are views of the buckets"""
    model, run = distributed(compile, gradient_as_bucket_view=True)
    return train(run, model)


def no_sync(compile):
    """gradients are summed on each rank for one step, and averaged at the next one"""
    model, run = distributed(compile)
    seen = []
    for step in range(4):
        with model.no_sync() if step % 2 == 0 else contextlib.nullcontext():
            run(batch(step)).square().mean().backward()
        seen.append(gradients(model))
    return seen


def join(compile):
    """ranks with more batches than others: those that have ended shadow their collectives"""
    model, run = distributed(compile)
    losses = []
    with model.join():
        for step in range(2 + dist.get_rank()):
            loss = run(batch(step)).square().mean()
            loss.backward()
            losses.append(loss.item())
    return losses, gradients(model)


def unused(compile):
    """parameters that no rank uses, and some that only one rank uses"""
    model, run = distributed(compile, Net(extra=True), find_unused_parameters=True)
    seen = []
    for step in range(3):
        run(batch(step), dist.get_rank() == step % 2).square().mean().backward()
        seen.append(gradients(model))
    return seen


def half_precision_hook(compile):
    """gradients are sent as float16"""
    model, run = distributed(compile)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return train(run, model)


def power_sgd_hook(compile):
    """gradients are sent as two factors of low rank, with the error kept

    The factors begin as random numbers, drawn in the order in which gradients arrive. So one matrix
    alone is large enough to be compressed.
    """
    model, run = distributed(compile, bucket_cap_mb=25)
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=6
    )
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return train(run, model, steps=4)


def whole_step(compile):
    """forward and backward in the compiled function: the buckets' hooks see each gradient"""
    model = DistributedDataParallel(Net())

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        return loss

    run, losses = compile(step), []
    for number in range(3):
        model.zero_grad()
        losses.append(run(batch(number)).item())
    return losses, gradients(model)


def sharded(compile, where="layers", **options):
    """FSDP2: each layer is sharded, gathered before it runs and again before its backward"""
    net = Net()
    for layer in net.layers:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, **options)
    fully_shard(net, **options)
    if where == "layers":
        for layer in net.layers:
            layer.forward = compile(layer.forward)
    return train(compile(net) if where == "around" else net, net)


def sharded_around(compile):
    """the whole sharded model is compiled: its hooks break the graph at each layer"""
    return sharded(compile, where="around")


def sharded_mixed(compile):
    """layers compute in bfloat16 and reduce in float32"""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return sharded(compile, mp_policy=policy)


def tensor_parallel(compile):
    """a multilayer perceptron whose first weight is split by columns, the second by rows"""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    net = Net()
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    layers = parallelize_module(nn.Sequential(*[*net.layers][:3]), mesh, plan)
    run, losses = compile(layers), []
    for step in range(2):
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(step))  # all ranks' own
        loss = run(x).square().mean()
        loss.backward()
        losses.append(loss.item())
    return losses, gradients(layers)


def sequence_parallel(compile):
    """a normalization of rows that are split among ranks"""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    norm = parallelize_module(nn.Sequential(nn.LayerNorm(8)), mesh, {"0": SequenceParallel()})
    x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0))
    total = compile(norm)(x).full_tensor().square().sum()
    total.backward()
    return total.item(), gradients(norm)


def distributed_tensors(compile):
    """a product of distributed tensors whose result is gathered"""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(8, 8, generator=generator) for _ in range(2))
    x = distribute_tensor(x, mesh, [Shard(0)])
    weight = distribute_tensor(weight, mesh, [Shard(0)]).requires_grad_()

    def program(x, weight):
        y = F.relu(x @ weight)
        return y.redistribute(mesh, [Replicate()]).to_local().sum()

    loss = compile(program)(x, weight)
    loss.backward()
    return loss.item(), weight.grad.full_tensor()


def pipeline(compile, schedule, chunks=1):
    """each rank has compiled stages of a model; a schedule sends parts of a batch through them"""
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    parts = [nn.Sequential(nn.Linear(8, 8), nn.GELU()).double() for _ in range(world * chunks)]
    own = range(rank, world * chunks, world)
    device = torch.device("cpu")
    stages = [PipelineStage(compile(parts[i]), i, len(parts), device) for i in own]
    run = schedule(stages if chunks > 1 else stages[0], 4, loss_fn=F.mse_loss)
    optimizer = torch.optim.AdamW([p for i in own for p in parts[i].parameters()], lr=0.01)
    seen = []
    for _ in range(3):
        optimizer.zero_grad()
        x, y = torch.randn(2, 8, 8, dtype=torch.float64)
        run.step(*[x] * (rank == 0), target=y, losses=(losses := []))
        optimizer.step()
        seen.append(([loss.item() for loss in losses], [gradients(parts[i]) for i in own]))
    return seen


def one_after_another(compile):
    """all parts go forward, then all go backward"""
    return pipeline(compile, ScheduleGPipe)


def forward_and_backward_in_turns(compile):
    """a part goes backward as soon as it can"""
    return pipeline(compile, Schedule1F1B)


def interleaved(compile):
    """each rank has two stages, which are not neighbours"""
    return pipeline(compile, ScheduleInterleaved1F1B, chunks=2)


DONE = []
"""The blocks whose gradients this rank has computed."""


@torch.library.custom_op("ranks::passed", mutates_args=())
def passed(x: torch.Tensor, block: int) -> torch.Tensor:
    """Return a copy; its derivative notes that the block behind it has been differentiated."""
    return x.clone()


@torch.library.custom_op("ranks::done", mutates_args=())
def done(gradient: torch.Tensor, block: int) -> torch.Tensor:
    """Return a copy of a gradient, and note the block."""
    DONE.append(block)
    return gradient.clone()


passed.register_fake(lambda x, block: torch.empty_like(x))
done.register_fake(lambda gradient, block: torch.empty_like(gradient))
passed.register_autograd(
    lambda ctx, gradient: (done(gradient, ctx.block), None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "block", inputs[1]),
)


WIDTH = 520
"""A layer of this width fills the first bucket of DDP, a mebibyte."""


class Block(nn.Module):
    """A layer that notes the end of its backward."""

    def __init__(self, number):
        super().__init__()
        self.linear, self.number = nn.Linear(WIDTH, WIDTH, bias=False), number

    def forward(self, x):
        return self.linear(passed(x, self.number)).tanh()


def computed_first(where, backend="aot_eager", bucket_cap_mb=1):
    """Return how many of three blocks are differentiated before each of their buckets is sent."""
    net = nn.Sequential(*map(Block, range(3)))
    if where == "blocks":
        for block in net:
            block.forward = minitorch2.compile(block.forward, backend=backend)
    whole = minitorch2.compile(net, backend=backend) if where == "inside" else net
    model = DistributedDataParallel(whole, bucket_cap_mb=bucket_cap_mb)
    run, sent = minitorch2.compile(model, backend=backend) if where == "around" else model, []

    def send(state, bucket):
        sent.append(len(DONE))
        return default_hooks.allreduce_hook(None, bucket)

    model.register_comm_hook(None, send)
    for _ in range(2):  # the buckets of the second step are in the order of the first gradients
        DONE.clear()
        sent.clear()
        run(torch.ones(2, WIDTH, requires_grad=True)).sum().backward()
    return sent
