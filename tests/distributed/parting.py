"""Programs in which ranks part, fail, save and load."""

import os
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import fully_shard

import minitorch2
from minitorch2.distributed import RanksDifferError, same_on_all_ranks
from tests.distributed.programs import Net, batch


def refusal(run):
    """Return the text of the error that ranks differ."""
    try:
        run()
    except RanksDifferError as error:
        return str(error)
    except RuntimeError as error:
        return f"{error} {error.__notes__}"
    return ""


def same():
    """Ranks with other numbers and other batch sizes compile the same."""

    def program(x):
        return (x * dist.get_rank()).sum()

    def run():
        with same_on_all_ranks(seconds=10):
            minitorch2.compile(program, backend="eager", dynamic=True)(
                batch(0, 4 + dist.get_rank())
            )

    return refusal(run)


def breaks_on_one_rank():
    """One rank reads a value, at which its graph ends."""
    rank = dist.get_rank()

    def program(x):
        if rank == 1 and x.sum() > 0:
            return x + 1
        return x - 1

    def run():
        with same_on_all_ranks(seconds=10):
            minitorch2.compile(program, backend="eager")(torch.ones(3))

    return refusal(run)


def hangs_on_one_rank():
    """One rank waits in a collective that the other one does not join."""
    group = dist.new_group(timeout=timedelta(seconds=3))

    def run():
        with same_on_all_ranks(seconds=1):
            minitorch2.compile(torch.sin, backend="eager")(torch.ones(3))
            if dist.get_rank() == 0:
                dist.all_reduce(torch.ones(1), group=group)

    return refusal(run)


def saved_and_loaded(folder):
    """A checkpoint of a compiled model is loaded into another one, and back."""

    def trained(sharded):
        net = Net()
        if sharded:
            fully_shard(net)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(2)
        return net

    def state_of(net):
        found = get_model_state_dict(net)
        return {n: v.full_tensor() if hasattr(v, "full_tensor") else v for n, v in found.items()}

    results = []
    for place, (first, second) in enumerate([(True, False), (False, True)]):
        for sharded in (False, True):
            saved, loaded = trained(sharded), Net()
            if sharded:
                fully_shard(loaded)
            one = minitorch2.compile(saved, backend="eager") if first else saved
            other = minitorch2.compile(loaded, backend="eager") if second else loaded
            one(batch(0))
            path = Path(folder) / f"{place}{sharded}"
            checkpoint.save({"model": get_model_state_dict(one)}, checkpoint_id=path)
            state = {"model": get_model_state_dict(other)}
            checkpoint.load(state, checkpoint_id=path)
            set_model_state_dict(other, state["model"])
            results.append(
                (state_of(loaded), state_of(saved), torch.equal(one(batch(1)), other(batch(1))))
            )
    return results


def first_step(folder, rank_waits):
    """Compile one model; return the seconds, and the kernels that were compiled here."""
    with minitorch2.config.patch(cache_dir=folder), minitorch2.stages.collect() as log:
        # no other program of this process has compiled the kernels of this net
        net = nn.Sequential(nn.Linear(8, 24), nn.Mish(), nn.LayerNorm(24))
        if rank_waits and dist.get_rank() > 0:
            dist.barrier()  # rank 0 compiles first, and the others find its kernels
        start = time.perf_counter()
        minitorch2.compile(net)(batch(0)).sum().backward()
        seconds = time.perf_counter() - start
        if rank_waits and dist.get_rank() == 0:
            dist.barrier()
    minitorch2.reset()
    return seconds, log.counts["kernels_compiled"]


def killed_while_compiling(folder):
    """Rank 1 ends without a word while it writes to the cache; rank 0 goes on.

    Each rank has sizes of its own: nobody else writes the entries of rank 1 before it does.
    """
    if dist.get_rank() == 1:
        replace = os.replace
        written = []

        def dying(source, target):
            written.append(target)
            if len(written) == 2:
                Path(source).write_bytes(b"half of an entry")
                os._exit(9)
            replace(source, target)

        os.replace = dying
    with minitorch2.config.patch(cache_dir=folder):
        width = 8 + 8 * dist.get_rank()
        net = nn.Sequential(nn.Linear(8, width), nn.Sigmoid(), nn.LayerNorm(width))
        minitorch2.compile(net)(batch(0)).sum().backward()
    return "alive"
