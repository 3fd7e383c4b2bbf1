"""A program under torchrun that loses a rank once, and goes on from its checkpoint.

Arguments: the folder of the checkpoint and of the losses, and whether a rank dies.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import minitorch2


def main() -> None:
    """Train four steps; rank 1 dies once in front of the third if it was told to."""
    folder, dies = Path(sys.argv[1]), sys.argv[2] == "dies"
    dist.init_process_group("gloo")
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()))
    run = minitorch2.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    saved, first = folder / "state", 0
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    for step in range(first, 4):
        optimizer.zero_grad()
        generator = torch.Generator().manual_seed(10 * step + rank)
        loss = run(torch.randn(3, 4, generator=generator)).square().mean()
        if dies and rank == 1 and step == 2 and attempt == 0:
            os._exit(1)  # in front of the collectives of backward, in which rank 0 waits
        loss.backward()
        optimizer.step()
        if rank == 0:
            with (folder / "losses").open("a") as file:
                file.write(f"{step} {loss.item():.9f} {attempt}\n")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, folder / "next")
            (folder / "next").rename(saved)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
