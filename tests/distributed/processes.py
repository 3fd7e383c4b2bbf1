"""Processes of one job, which run programs by name: gloo on this machine, a group for all programs.

To start a process costs seconds, so a `Job` keeps its processes. Each has a pipe: it takes the name
of a program in `programs.py` and gives what the program returns, or the text of its error.
"""

import os
import socket
import traceback
from datetime import timedelta
from importlib import import_module
from multiprocessing import connection, get_context

SECONDS = int(os.environ.get("JOB_SECONDS", "60"))
"""The time limit of one program, in which the first one starts its process."""


class Job:
    """Processes with ranks 0 to ``world - 1`` and a group among them; each has a GPU, if any."""

    def __init__(self, world=2, backend="gloo"):
        context = get_context("spawn")
        self.pipes, self.processes = [], []
        port = free_port()
        for rank in range(world):
            ours, theirs = context.Pipe()
            given = theirs, rank, world, port, backend
            process = context.Process(target=_serve, args=given, daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def start(self, name, *args, module="tests.distributed.programs"):
        """Let each rank run a program."""
        for pipe in self.pipes:
            pipe.send((module, name, args))

    def results(self, seconds=SECONDS):
        """Return what each rank's program has returned; raise an error that names the others."""
        found, waiting = {}, {pipe: rank for rank, pipe in enumerate(self.pipes)}
        while waiting:
            ready = connection.wait([*waiting], seconds)
            if not ready:
                raise TimeoutError(f"no answer from ranks {sorted(waiting.values())}")
            for pipe in ready:
                rank = waiting.pop(pipe)
                try:
                    found[rank] = pipe.recv()
                except EOFError:
                    found[rank] = ("error", "the process has ended")
        wrong = {rank: text for rank, (kind, text) in found.items() if kind == "error"}
        if wrong:
            raise AssertionError("\n".join(f"rank {r}: {text}" for r, text in wrong.items()))
        return [found[rank][1] for rank in sorted(found)]

    def run(self, name, *args, module="tests.distributed.programs"):
        """Run a program on all ranks and return their results in the order of ranks."""
        self.start(name, *args, module=module)
        return self.results()

    def close(self):
        """End all processes and wait for them."""
        for pipe in self.pipes:
            pipe.close()  # the server ends at the end of its pipe
        for process in self.processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()


def free_port():
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _serve(pipe, rank, world, port, backend):
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    limit = timedelta(seconds=SECONDS)
    if "cuda" in backend:
        torch.cuda.set_device(rank)
    dist.init_process_group(backend, rank=rank, world_size=world, timeout=limit)
    while True:
        try:
            module, name, args = pipe.recv()
        except EOFError:
            os._exit(0)  # without the barrier of a group whose other ranks may have died
        try:
            answer = "result", getattr(import_module(module), name)(*args)
        except Exception as error:
            answer = "error", "".join(traceback.format_exception(error))
        pipe.send(answer)
