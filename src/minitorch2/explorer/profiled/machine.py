"""The limits of a machine: the bytes that it copies in a second, and the operations that it does.

No kernel that reads and writes memory moves more bytes than a copy does. None computes more than
the matrix product of the machine's library (the roofline model, Williams et al. 2009).
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch

from minitorch2 import cache

COPIED_BYTES = 1 << 27
"""Larger than the caches of most machines."""
MATRIX_SIZE = 1024
REPEATS = 5


@dataclass(frozen=True)
class Limits:
    """The limits of one device with this number of threads.

    Attributes:
        bandwidth: bytes that a copy reads and writes in a second.
        operations: floating-point operations of a matrix product in float32 in a second.
    """

    device: str
    threads: int
    bandwidth: float
    operations: float

    def seconds(self, nbytes: float, operations: float) -> float:
        """Return the least seconds in which bytes can be moved and operations done."""
        return max(nbytes / self.bandwidth, operations / self.operations)

    def __str__(self) -> str:
        copied, done = self.bandwidth / 1e9, self.operations / 1e9
        return f"{self.device}: {copied:.1f} GB/s copied, {done:.0f} Gop/s in a matrix product"


def limits_of(
    device: torch.device, bandwidth: float | None = None, operations: float | None = None
) -> Limits:
    """Return the limits of a device: those that are given, and for others the best ever probed."""
    if bandwidth is not None and operations is not None:
        return Limits(device.type, torch.get_num_threads(), bandwidth, operations)
    found = _best(device)
    return replace(
        found, bandwidth=bandwidth or found.bandwidth, operations=operations or found.operations
    )


def _best(device: torch.device) -> Limits:
    """Probe a device, and keep the best of all probes: on a busy machine one probe is too low."""
    threads = str(torch.get_num_threads())
    facts = f"{platform.node()} {platform.machine()} {platform.processor()}"
    key = cache.key_of("limits", machine=facts, device=str(device), threads=threads)
    found, stored = probe(device), cache.load(key)
    if stored is not None:
        earlier = Limits(**json.loads(stored))
        found = replace(
            found,
            bandwidth=max(found.bandwidth, earlier.bandwidth),
            operations=max(found.operations, earlier.operations),
        )
    cache.store(key, json.dumps(asdict(found)).encode())
    return found


def probe(device: torch.device) -> Limits:
    """Measure the limits of a device; takes less than a second."""
    source = torch.ones(COPIED_BYTES // 4, device=device)
    target = torch.empty_like(source)
    matrix = torch.ones(MATRIX_SIZE, MATRIX_SIZE, device=device)
    product = torch.empty_like(matrix)
    with torch.no_grad():
        copying = _fastest(lambda: target.copy_(source), device)
        multiplying = _fastest(lambda: torch.mm(matrix, matrix, out=product), device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return Limits(
        name, torch.get_num_threads(), 2 * COPIED_BYTES / copying, 2 * MATRIX_SIZE**3 / multiplying
    )


def _fastest(run: Callable[[], object], device: torch.device) -> float:
    run()
    return min(_seconds(run, device) for _ in range(REPEATS))


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter()
    run()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
