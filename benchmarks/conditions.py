"""The conditions of a measurement: what a stored result says about the run that made it."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import torch


def conditions(command: str) -> dict[str, Any]:
    """Return command, commit, date, machine, versions and load of a run that begins now.

    Args:
        command: the command line that repeats the run.
    """
    return {
        "command": command,
        "commit": _commit(),
        "date": date.today().isoformat(),
        "machine": _machine(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "load": f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
    }


def _commit() -> str:
    """Return the commit of the checkout; "unknown" outside of one."""
    found = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return found.stdout.strip() or "unknown"


def _machine() -> str:
    """Return the GPU's name if there is one, else the processor's."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
