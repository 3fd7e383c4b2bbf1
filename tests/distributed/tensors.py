"""Programs of distributed tensors, and a comparison of each with eager mode, step by step."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import minitorch2
from minitorch2 import stages

MESH = []


def mesh():
    """Return the mesh of all ranks, made once."""
    if not MESH:
        MESH.append(init_device_mesh("cpu", (dist.get_world_size(),)))
    return MESH[0]


def spread(rows, *placements, seed=0, leaf=False):
    """Return a distributed tensor of random numbers that all ranks draw alike."""
    generator = torch.Generator().manual_seed(seed)
    whole = torch.randn(*rows, generator=generator)
    made = distribute_tensor(whole, mesh(), placements)
    return made.requires_grad_() if leaf else made


def observed(value):
    """Return what can be compared of a result: its placements, its whole value."""
    if isinstance(value, DTensor):
        places = [p.dim if p.is_shard() else -2 if p.is_partial() else -1 for p in value.placements]
        return [places, value.full_tensor().detach()]
    if isinstance(value, tuple | list):
        return [observed(each) for each in value]
    return value.detach() if isinstance(value, torch.Tensor) else value


def compare(name, backend="aot_eager"):
    """Run a program twice eagerly and compiled; return results, gradients and counts."""
    program, inputs = globals()[name], INPUTS[name]
    eager = [_step(program, inputs()) for _ in range(2)]
    minitorch2.reset()
    with stages.collect() as log:
        compiled = minitorch2.compile(program, backend=backend)
        found = [_step(compiled, inputs()) for _ in range(2)]
    return eager, found, dict(log.counts), _collectives(log)


def _step(program, inputs):
    result = program(*inputs)
    first = result[0] if isinstance(result, tuple) else result
    first = first.full_tensor() if isinstance(first, DTensor) else first
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    if leaves and first.requires_grad:
        first.square().sum().backward()
    return observed(result), [observed(x.grad)[-1] for x in leaves if x.grad is not None]


def _collectives(log):
    """Return the number of collectives that the forward graphs start."""
    texts = [s.text for s in log.stages if s.name in ("forward graph.py", "aten graph.py")]
    return sum(text.count("_c10d_functional.wait_tensor") for text in texts)


def pointwise(x):
    """operators on parts, without messages"""
    return (x.sin() * 2 + x).relu()


def product(x, weight):
    """rows times columns"""
    return F.relu(x @ weight)


def sums(x):
    """a sum of which each rank has a part, gathered at the end"""
    return x.exp().sum(0).full_tensor()


def moved(x):
    """rows, then columns, then all"""
    columns = x.redistribute(mesh(), [Shard(1)])
    return columns.softmax(0).redistribute(placements=[Replicate()])


def made_inside(x):
    """plain tensors become parts of a whole, and parts become plain"""
    whole = DTensor.from_local(x.sin(), mesh(), [Shard(0)], run_check=False)
    return (whole * 2).sum(1).to_local() + 1


def partial_result(x, weight):
    """a result that is a sum of parts: its gradient is whole"""
    return x.redistribute(placements=[Shard(1)]) @ weight


def asked(x):
    """a program that looks at placements"""
    if isinstance(x, DTensor) and x.placements[0].is_shard(0) and x.device_mesh.ndim == 1:
        return x.redistribute(placements=(Replicate(),)).to_local() * dist.get_world_size()
    return x


def normalized(x, weight, bias):
    """layer norm of rows that are split among ranks, softmax and a loss"""
    y = F.layer_norm(x, (8,), weight, bias)
    return F.softmax(y, -1).log().mean().full_tensor()


def several(x, weight):
    """two results, one distributed and one plain"""
    y = x @ weight
    return y.tanh(), y.sum().full_tensor(), 3


def uneven(x):
    """five rows on two ranks"""
    return x.cos().redistribute(placements=[Replicate()])


class Feed(nn.Module):
    """A feed-forward layer, as tensor parallelism splits it."""

    def __init__(self):
        super().__init__()
        generator = torch.random.get_rng_state()
        torch.manual_seed(3)
        self.norm, self.wide, self.narrow = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        torch.random.set_rng_state(generator)

    def forward(self, x):
        """Return rows of the same size."""
        return x + self.narrow(F.gelu(self.wide(self.norm(x))))


PLAN = {
    "norm": SequenceParallel(),
    "wide": ColwiseParallel(input_layouts=Shard(1)),
    "narrow": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
}
PLANS = {
    "by_tensor": {"wide": ColwiseParallel(), "narrow": RowwiseParallel()},
    "by_sequence": PLAN,
}


def trained(plan, backend):
    """Train a split layer for three steps; return losses and whole weights."""
    layer = Feed()
    if plan == "by_sequence":
        prepare = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Shard(1),))
        layer = parallelize_module(layer, mesh(), {"": prepare, **PLANS[plan]})
    else:
        layer = parallelize_module(layer, mesh(), PLANS[plan])
    run = layer if backend is None else minitorch2.compile(layer, backend=backend)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, foreach=False)
    losses = []
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(2, 6, 8, generator=generator)
        x = x.chunk(2, 1)[dist.get_rank()] if plan == "by_sequence" else x
        y = run(x)
        y = y.full_tensor() if isinstance(y, DTensor) else y
        loss = y.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [
        observed(p)[-1] if isinstance(p, DTensor) else p.detach() for p in layer.parameters()
    ]


def train(plan, backend):
    """Return eager and compiled training, and the counts."""
    eager = trained(plan, None)
    minitorch2.reset()
    with stages.collect() as log:
        found = trained(plan, backend)
    return eager, found, dict(log.counts)


def stepped(compile):
    """Train with the backward and the optimizer inside of the function, for two lengths."""
    layer = parallelize_module(Feed(), mesh(), PLANS["by_tensor"])
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, foreach=False)

    def step(x):
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    run, losses = compile(step), []
    for number in range(4):
        generator = torch.Generator().manual_seed(number)
        losses.append(run(torch.randn(2, 5 + number % 2, 8, generator=generator)).item())
    whole = (p.full_tensor() if isinstance(p, DTensor) else p for p in layer.parameters())
    return losses, [p.detach() for p in whole]


def whole_steps():
    """Return eager and compiled training of whole steps, and the counts."""
    eager = stepped(lambda f: f)
    minitorch2.reset()
    with stages.collect() as log:
        found = stepped(lambda f: minitorch2.compile(f, backend="numba"))
    return eager, found, dict(log.counts)


def of_each_mesh():
    """Return the number of graphs after calls with other placements and another size."""
    minitorch2.reset()
    graphs = []
    with stages.collect() as log:
        compiled = minitorch2.compile(pointwise, backend="aot_eager")
        for x in (
            spread((4, 8), Shard(0)),
            spread((4, 8), Shard(0), seed=1),
            spread((4, 8), Shard(1)),
            spread((4, 8), Replicate()),
            spread((4, 8), Shard(0)),
        ):
            torch.testing.assert_close(observed(compiled(x)), observed(pointwise(x)))
            graphs.append(log.counts["graphs"])
    return graphs


def of_other_sizes():
    """Return the counts of graphs and breaks after calls with other numbers of rows."""
    minitorch2.reset()

    def program(x, weight):
        return (DTensor.from_local(x, mesh(), [Shard(0)], run_check=False) @ weight).to_local()

    compiled, weight = minitorch2.compile(program, backend="aot_eager"), spread((8, 6), Replicate())
    with stages.collect() as log:
        for rows in (4, 6, 8, 6, 4):
            x = plain(rows, 8)
            torch.testing.assert_close(compiled(x, weight), program(x, weight))
            compiled(x, weight).sum().backward()
    return log.counts["graphs"], log.counts["graph_breaks"]


def plain(*size, seed=0):
    """Return a plain leaf that is this rank's own."""
    generator = torch.Generator().manual_seed(10 * seed + dist.get_rank())
    return torch.randn(*size, generator=generator, requires_grad=True)


INPUTS = {
    "pointwise": lambda: [spread((4, 8), Shard(0), leaf=True)],
    "product": lambda: [spread((4, 8), Shard(0)), spread((8, 6), Shard(1), leaf=True)],
    "sums": lambda: [spread((4, 8), Shard(0), leaf=True)],
    "moved": lambda: [spread((4, 8), Shard(0), leaf=True)],
    "made_inside": lambda: [plain(2, 8)],
    "partial_result": lambda: [
        spread((4, 8), Replicate(), leaf=True), spread((8, 6), Shard(0), leaf=True)
    ],
    "asked": lambda: [spread((4, 8), Shard(0), leaf=True)],
    "normalized": lambda: [
        spread((4, 8), Shard(0), leaf=True), spread((8,), Replicate(), leaf=True),
        spread((8,), Replicate(), leaf=True),
    ],
    "several": lambda: [spread((4, 8), Shard(0)), spread((8, 6), Replicate(), leaf=True)],
    "uneven": lambda: [spread((5, 8), Shard(0), leaf=True)],
}  # fmt: skip
