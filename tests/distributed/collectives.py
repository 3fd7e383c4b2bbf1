"""Programs with collectives inside of compiled functions, and what their graphs must be."""

import re

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

import minitorch2
from minitorch2 import stages


def rows(size=4):
    """Return a leaf that is this rank's own."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    return torch.randn(size, 4, generator=generator, requires_grad=True)


def reduced(x):
    """a sum over ranks, used beside a product that does not need it"""
    total = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
    return (x @ x).sin() + functional.wait_tensor(total)


def gathered(x):
    """columns of all ranks, then rows"""
    wide = functional.all_gather_tensor(x.sin(), 1, dist.group.WORLD)
    return functional.all_gather_tensor(wide, 0, dist.group.WORLD).cos()


def scattered(x):
    """parts of a sum, of rows and of columns"""
    part = functional.reduce_scatter_tensor(x.sin(), "sum", 0, dist.group.WORLD)
    return functional.reduce_scatter_tensor(part @ x, "sum", 1, dist.group.WORLD)


def exchanged(x):
    """parts of all ranks, of equal sizes and of given ones"""
    equal = functional.all_to_all_single(x.sin(), None, None, dist.group.WORLD)
    rank = dist.get_rank()
    given = [1, 3] if rank == 0 else [3, 1]
    return functional.all_to_all_single(equal * 2, given, given, dist.group.WORLD)


def sent(x):
    """the tensor of one rank, which has no derivative"""
    return x + functional.broadcast(x.detach() * 2, 1, dist.group.WORLD)


def of_a_mesh(x):
    """a group that a dimension of a mesh names"""
    return functional.all_reduce(x, "max", (MESH[0], 0)).detach() * x


def unread(x):
    """a collective whose result nobody reads: it runs, since the other rank waits for it"""
    functional.all_reduce(x.detach(), "sum", dist.group.WORLD)
    return x.sin()


def twice(x):
    """the same collective twice: two collectives, not one"""
    first = functional.all_reduce(x, "sum", dist.group.WORLD)
    return first * functional.all_reduce(x, "sum", dist.group.WORLD)


def in_place(x):
    """writes to intermediate values, past which gradients go"""
    y = x.sin()
    dist.all_reduce(y)
    wide = torch.empty(8, 4)
    dist.all_gather_into_tensor(wide, y.detach())
    part = torch.empty(2, 4)
    dist.reduce_scatter_tensor(part, y.detach(), op=dist.ReduceOp.MAX)
    last = y.detach() * 3
    dist.broadcast(last, 1)
    return y * 2 + wide[:4] + last + part.repeat(2, 1)


def read_while_sent(x):
    """an operand that dies while its collective runs, beside values of its size"""
    sent = x.sin()
    started = torch.ops._c10d_functional.all_gather_into_tensor(sent, 2, "0")
    other = sent + 1
    for _ in range(4):
        other = (other @ other.T @ other).tanh()
    return torch.ops._c10d_functional.wait_tensor(started).sum() * other


def with_a_handle(x):
    """a handle that Python waits for: the graph breaks"""
    y = x.detach() * 2
    work = dist.all_reduce(y, async_op=True)
    work.wait()
    return x * y


def of_odd_sizes(x):
    """rows that do not divide by the number of ranks: eager's error"""
    return functional.reduce_scatter_tensor(x[:3], "sum", 0, dist.group.WORLD)


MESH = []


def compare(name, backend):
    """Run a program eagerly and compiled; return values, gradients and counts of both."""
    if not MESH:
        MESH.append(init_device_mesh("cpu", (dist.get_world_size(),)))
    program = globals()[name]
    found = []
    for run in (program, minitorch2.compile(program, backend=backend)):
        x = rows()
        with stages.collect() as log:
            result = run(x) + 0
        result.square().sum().backward()
        found.append((result.detach(), x.grad))
    graphs = [s.text for s in log.stages if s.name in ("forward graph.py", "aten graph.py")]
    calls = re.findall(r"^    \w+ = torch.ops._c10d_functional", "\n".join(graphs), re.M)
    return *found, dict(log.counts), len(calls)


def error_of(name):
    """Return the errors of a program, eager and compiled."""
    program, errors = globals()[name], []
    for run in (program, minitorch2.compile(program, backend="aot_eager")):
        try:
            run(rows())
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}".splitlines()[0])
    return errors


def sums_of_groups():
    """Call one compiled function with three groups; return the sums."""
    alone = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()]

    def program(x, group):
        return functional.all_reduce(x, "sum", group)

    run = minitorch2.compile(program, backend="aot_eager")
    groups = (alone, dist.new_group([0, 1]), dist.group.WORLD)
    return [run(torch.ones(1), group).item() for group in groups]
